"""Marginals as sums over rows: an owner's counts of the codes in some columns.

The marginal over columns S is the sum over the rows of a product of one-hot codes. It consists of whole
numbers, which are added over owners exactly, in the clear or under secure aggregation.

**Sensitivity.** Replacing one row (N public) takes 1 from one cell and adds 1 to another, or changes nothing.
So the counts of one marginal move by at most 2 in L1 (L1_STEP), sqrt(2) in L2 (L2_STEP) and 1 in any cell.
The stacked counts of k marginals with noise sigma_1, .., sigma_k move by at most sqrt(2 sum 1/sigma_i^2) in
units of their noise, since the new row may differ in a column of every marginal. Adding or removing a row
would move a marginal by 1 in both norms, and change N. Papers on mbi state that relation: their noise is
smaller by sqrt(2) for a weaker promise.

**Groups.** A question may put the codes of a column into groups: a further column of codes, behind those of
the schema, which follows from the row. So all of the above holds for tables over groups.

**Parities.** Take columns of two groups and read group 0 as +1, group 1 as -1. A parity is the sum over all
rows of the product of some of these signs. A row adds +1 or -1, so a replaced row moves each parity by 0 or
2, and M parities by at most 2 sqrt(M) in L2, whatever groups and products are named. The bound is exact where
one column is in every product, such as the groups of a label with two classes: two rows that differ in this
column alone move all M parities by 2. Parities of several sets, the i-th of M_i parities with noise sigma_i,
move by at most sqrt(sum (2 sqrt(M_i) / sigma_i)^2) in units of their noise, as every parity has a coordinate
of its own.

**Products of scores.** Give every code of a column a score, a whole number from -S to S (SCORE_STEPS), and
sum u_i u_j over all rows for all pairs i < j of k columns of scores. A replaced row moves these k (k - 1) / 2
sums by at most k S^2 in L2, whatever the scores are. Proof: let f(u) be the products of one row, a_i = u_i^2
and b_i = v_i^2, each in [0, S^2]. As sum over i < j of a_i a_j is ((sum a)^2 - sum a^2) / 2,

    ||f(u) - f(v)||^2 = ((sum a)^2 - sum a^2 + (sum b)^2 - sum b^2) / 2 - (u.v)^2 + sum a b
                      = ((sum a)^2 + (sum b)^2 - sum (a - b)^2) / 2 - (u.v)^2 <= (k S^2)^2.

The bound is exact for even k: rows of scores +S and -S that differ in sign in k / 2 columns. (Each product
by itself moves by 2 S^2 at most, which would give S^2 sqrt(2 k (k - 1)).) Products of whole numbers have no
rounding. Blocks of products add up like tables of counts: each has coordinates of its own.
"""

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Self, TypeAlias

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

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
PARITY_STEP = 2.0
"""Distance by which a replaced row moves one parity at most."""
SCORE_STEPS = 1 << 8
"""S, the largest score; products of scores are in steps of 1 / S^2."""
Place: TypeAlias = Annotated[int, Field(ge=0, le=2**31)]
"""A place in a table, or a count of its parts, as a peer may name it."""
Score: TypeAlias = Annotated[int, Field(ge=-SCORE_STEPS, le=SCORE_STEPS)]
"""Score of a code, as a peer may name it."""
_ROWS_AT_ONCE, _ROWS_OF_SIGNS = 1 << 12, 1 << 10
_MULTIPLIED = 10
"""Time in which a part is multiplied by one more sign, in times of the sum of one pair of parts."""
_DENSE = 32
"""Most pairs of parts for each product; a question that has more is summed product by product."""


@dataclass(frozen=True, slots=True)
class Groups:
    """Groups of a column's codes: one more column of codes.

    Attributes:
        column: place of the column in the schema's codes.
        of: group of each code, from 0.
    """

    column: Place
    of: tuple[Place, ...]

    @property
    def size(self) -> int:
        """Number of groups."""
        return max(self.of, default=-1) + 1


@dataclass(frozen=True, slots=True)
class NumberScores:
    """Scores of a column's codes, of which products are summed.

    Attributes:
        column: place of the column in the schema's codes.
        of: score of each code, from -SCORE_STEPS to SCORE_STEPS.
    """

    column: Place
    of: tuple[Score, ...]


def sizes_with(groups: Sequence[Groups], sizes: Sequence[int]) -> tuple[int, ...]:
    """Number of codes of every column, those of the groups last.

    Raises:
        ConfigError: groups of a missing column, or of another number of codes.
    """
    for each in groups:
        if not 0 <= each.column < len(sizes) or len(each.of) != sizes[each.column] or min(each.of) < 0:
            raise ConfigError("groups are not of a column's codes", "Compare the parties' schemas.")
    return (*sizes, *(each.size for each in groups))


def codes_with(groups: Sequence[Groups], codes: IntArray) -> IntArray:
    """Codes of rows with those of the groups behind them, (m, c + groups)."""
    columns = [np.asarray(each.of, dtype=np.int64)[codes[:, each.column]] for each in groups]
    return np.column_stack([codes, *columns]) if columns else codes


def parity_sums(codes: IntArray, groups: Sequence[Groups], products: Sequence[tuple[int, ...]]) -> IntArray:
    """Sums over rows of products of signs.

    Args:
        codes: (m, c).
        groups: columns of two groups.
        products: places of the groups in each product, ascending.

    Returns:
        (products,) whole numbers of -m to m.
    """
    total = np.zeros(len(products), dtype=np.int64)
    lengths = np.array([len(product) for product in products])
    parts = [
        _Parts.of(places, np.array([products[place] for place in places.tolist()], dtype=np.int64))
        for length in np.unique(lengths)
        for places in [np.flatnonzero(lengths == length)]
    ]
    for start in range(0, len(codes), _ROWS_OF_SIGNS):
        some = codes[start : start + _ROWS_OF_SIGNS]
        signs = np.ones((len(groups) + 1, len(some)), dtype=np.float32)  # sums of so many signs are exact
        for place, each in enumerate(groups):
            signs[place] -= 2.0 * np.asarray(each.of, dtype=np.float32)[some[:, each.column]]
        for part in parts:
            total[part.places] += np.rint(part.sums(signs)).astype(np.int64)
    return total


@dataclass(frozen=True, slots=True, eq=False)
class _Parts:
    """Products of equally many signs, each as the product of two parts that others share.

    Attributes:
        places: places of the products, (p,).
        left, right: places of the signs of each distinct part, (l, k) and (r, k'); place -1 is a sign of 1.
        pairs: left and right part of each product, (p,) each.
    """

    places: IntArray
    left: IntArray
    right: IntArray
    pairs: tuple[IntArray, IntArray]

    @classmethod
    def of(cls, places: IntArray, products: IntArray) -> Self:
        """Cut the products where their distinct parts and the table of all pairs take the least time."""
        signs = np.column_stack([np.full(len(products), -1), products])
        cuts = []
        for cut in range(1, signs.shape[1]):
            (left, one), (right, two) = (
                np.unique(each, axis=0, return_inverse=True) for each in (signs[:, :cut], signs[:, cut:])
            )
            time = len(left) * len(right) + _MULTIPLIED * (left.size + right.size)
            cuts.append((time, cls(places, left, right, (one.reshape(-1), two.reshape(-1)))))
        return min(cuts, key=lambda each: each[0])[1]

    def sums(self, signs: NDArray[np.float32]) -> NDArray[np.float32]:
        """Sums over rows of the products of their signs (signs, rows), (p,)."""
        left, right = _multiplied(signs, self.left), _multiplied(signs, self.right)
        if len(left) * len(right) <= _DENSE * len(self.places):
            return np.asarray((left @ right.T)[self.pairs])
        return np.asarray(np.einsum("pr,pr->p", left[self.pairs[0]], right[self.pairs[1]]))


def _multiplied(signs: NDArray[np.float32], places: IntArray) -> NDArray[np.float32]:
    product = signs[places[:, 0]]
    for column in places.T[1:]:
        product *= signs[column]
    return product


def count_products(columns: int) -> int:
    """Number of products of two of so many columns of scores."""
    return columns * (columns - 1) // 2


def products_move(columns: int) -> float:
    """Distance in L2 by which a replaced row moves all products of so many columns of scores, at most."""
    return float(columns) * SCORE_STEPS**2


def check_scores(scores: Sequence[NumberScores], sizes: Sequence[int]) -> None:
    """Refuse scores that are not of the codes of a column.

    Raises:
        ConfigError: scores of a missing column, or of another number of codes.
    """
    for each in scores:
        if not 0 <= each.column < len(sizes) or len(each.of) != sizes[each.column]:
            raise ConfigError("scores are not of a column's codes", "Compare the parties' schemas.")


def product_sums(
    codes: IntArray, scores: Sequence[NumberScores], blocks: Sequence[Sequence[int]]
) -> IntArray:
    """Sums over rows of products of two scores.

    Args:
        codes: (m, c).
        scores: columns of scores.
        blocks: places of the scores of each block.

    Returns:
        Products of all pairs of a block, i < j in order, block after block; whole numbers.
    """
    uppers = [np.triu_indices(len(block), 1) for block in blocks]
    totals = [np.zeros(len(rows), dtype=np.int64) for rows, _ in uppers]
    for start in range(0, len(codes), _ROWS_AT_ONCE):
        part = codes[start : start + _ROWS_AT_ONCE]
        # Sums of so many products stay below 2^53, so they are exact as floats.
        of_rows = [np.asarray(each.of, dtype=np.float64)[part[:, each.column]] for each in scores]
        for total, block, upper in zip(totals, blocks, uppers, strict=True):
            chosen = np.stack([of_rows[place] for place in block])
            total += np.rint((chosen @ chosen.T)[upper]).astype(np.int64)
    return np.concatenate(totals)


def marginal_cells(clique: Clique, sizes: Sequence[int]) -> int:
    """Count the cells of a marginal.

    Raises:
        ConfigError: the marginal names no column, a column twice or a missing column, or has over
            MARGINAL_CELLS cells.
    """
    if not clique or any(a >= b for a, b in itertools.pairwise(clique)):
        cause = "a marginal does not list its columns in ascending order"
        raise ConfigError(cause, "Name each column once, in order.")
    if clique[0] < 0 or clique[-1] >= len(sizes):
        cause = "a marginal names a column that is not in the schema"
        raise ConfigError(cause, "Compare the parties' schemas.")
    cells = math.prod(sizes[c] for c in clique)
    if cells > MARGINAL_CELLS:
        cause = f"a marginal of {len(clique)} columns has {cells} cells and {MARGINAL_CELLS} are the limit"
        raise ConfigError(cause, "Take fewer columns in a marginal, or give numeric columns fewer bins.")
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
