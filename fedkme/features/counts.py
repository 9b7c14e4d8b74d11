"""Marginals as sums over rows: an owner's counts of the codes in some columns.

The marginal over columns S is the sum over the rows of a product of one-hot codes. It consists of whole
numbers, which are added over owners exactly, in the clear or under secure aggregation.

**Sensitivity.** Replacing one row (N public) takes 1 from one cell and adds 1 to another, or changes nothing.
So the counts of one marginal move by at most 2 in L1 (L1_STEP), sqrt(2) in L2 (L2_STEP) and 1 in any cell.
The stacked counts of k marginals with noise sigma_1, .., sigma_k move by at most sqrt(2 sum 1/sigma_i^2) in
units of their noise, since the new row may differ in a column of every marginal. Adding or removing a row
would move a marginal by 1 in both norms, and change N. Papers on mbi state that relation: their noise is
smaller by sqrt(2) for a weaker promise.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

import numpy as np

from fedkme.arrays import IntArray
from fedkme.errors import ConfigError, DataError

Clique = tuple[int, ...]
"""Columns of a marginal: ascending places in the table of codes."""

L1_STEP = 2.0
"""Distance by which a replaced row moves one marginal in L1."""
L2_STEP = math.sqrt(2.0)
"""Distance by which a replaced row moves one marginal in L2."""
MARGINAL_CELLS = 1 << 20
"""Largest number of cells of one marginal."""


def marginal_cells(clique: Clique, sizes: Sequence[int]) -> int:
    """Count the cells of a marginal.

    Raises:
        ConfigError: the marginal names no column, a column twice or a missing column, or has over
            MARGINAL_CELLS cells.
    """
    if not clique or any(a >= b for a, b in itertools.pairwise(clique)):
        raise ConfigError(
            "a marginal does not list its columns in ascending order", "Name each column once, in order."
        )
    if clique[0] < 0 or clique[-1] >= len(sizes):
        raise ConfigError(
            "a marginal names a column that is not in the schema", "Compare the parties' schemas."
        )
    cells = math.prod(sizes[c] for c in clique)
    if cells > MARGINAL_CELLS:
        raise ConfigError(
            f"a marginal of {len(clique)} columns has {cells} cells and {MARGINAL_CELLS} are the limit",
            "Take fewer columns in a marginal, or give numeric columns fewer bins.",
        )
    return cells


def marginal_counts(codes: IntArray, clique: Clique, sizes: Sequence[int]) -> IntArray:
    """Rows in every cell of a marginal.

    Args:
        codes: (m, c), each below the size of its column; m may be 0.
        clique: columns.
        sizes: codes of every column.

    Returns:
        (cells,) in C order, the last column changing fastest.

    Raises:
        ConfigError: see `marginal_cells`.
        DataError: codes outside the domain.
    """
    cells = marginal_cells(clique, sizes)
    chosen = codes[:, list(clique)]
    limits = np.asarray([sizes[c] for c in clique])
    wrong = int(((chosen < 0) | (chosen >= limits)).any(axis=1).sum())
    if wrong:
        raise DataError(f"to count: rows with a code outside the domain: {wrong}", "Check rows and schema.")
    index = np.ravel_multi_index(tuple(chosen.T), tuple(limits))
    return np.bincount(index, minlength=cells).astype(np.int64)
