"""Selection of a caller's own rows, of which nothing is private."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from fedkme.drafts.drafting import draft_schema
from fedkme.embeddings.kernels import median_gamma
from fedkme.embeddings.selection import SWEEPS, Selected, select_rows
from fedkme.errors import DataError
from sim.api.frames import SchemaLike, schema_of, table_of


@dataclass(frozen=True, eq=False)
class SelectionResult:
    """Rows that stand for all rows, in two forms.

    Attributes:
        rows: p of the caller's rows, which count alike.
        weighted: p rows, mostly others, which count by `weights`.
        weights: of `weighted`, with its index; they sum to 1.
        mmd2: of `rows` to all rows; nan with `sample`, which cannot tell.
        weighted_mmd2: of `weighted` with its weights to all rows; likewise.
        gamma: of the kernel exp(-gamma ||x - y||^2).
    """

    rows: pd.DataFrame
    weighted: pd.DataFrame
    weights: pd.Series[float]
    mmd2: float
    weighted_mmd2: float
    gamma: float


def select(
    rows: pd.DataFrame | NDArray[np.floating],
    p: int,
    *,
    schema: SchemaLike | None = None,
    gamma: float | None = None,
    sweeps: int = SWEEPS,
    sample: int | None = None,
) -> SelectionResult:
    """Choose p of your own rows that stand for all of them: `fk.select(frame, 200).rows`.

    Greedy choice with exchanges, and a set with weights (fedkme/embeddings/selection.py). Nothing in it is
    private: for rows of owners there is `summarize`.

    Args:
        rows: a data frame, or an array (N, n) of numbers on one scale.
        p: rows to choose, 1 to N.
        schema: of a data frame, which scales its columns; None: drafted from it.
        gamma: of the kernel; None: 1 / median squared distance.
        sweeps: of exchanges, at most.
        sample: rows that are drawn to choose by, and from a quarter of them; 32 p are near, in a hundredth of
            the time where rows are many (lab/results/benchmarks.md). None: all.

    Raises:
        FedkmeError: there are fewer rows, or they do not fit the schema; by number in docs/errors.md.
    """
    if isinstance(rows, pd.DataFrame):
        frame = rows
        domain = draft_schema(frame) if schema is None else schema_of(schema)
        encoded = domain.encode(table_of(frame, domain, "rows", private=False).values)
    else:
        encoded = np.asarray(rows)
        if encoded.ndim != 2 or encoded.dtype.kind not in "iufb":
            raise DataError("rows are neither a data frame nor an array (N, n) of numbers", "Give one.")
        if not np.isfinite(encoded).all():
            raise DataError("rows have numbers that are not finite", "Fill the gaps, or give a data frame.")
        frame = pd.DataFrame(rows)
    width = median_gamma(encoded) if gamma is None else gamma
    found = select_rows(encoded, p, width, sweeps, sample)

    def part(selected: Selected) -> pd.DataFrame:
        return frame.iloc[selected.indices]

    weighted = part(found.weighted)
    weights = pd.Series(found.weighted.weights, weighted.index, name="weight")
    return SelectionResult(part(found.alike), weighted, weights, found.alike.mmd2, found.weighted.mmd2, width)
