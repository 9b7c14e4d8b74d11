"""Selection among a caller's own rows, without privacy."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from pydantic import Field, FiniteFloat

from fedkme.config import Settings, validate
from fedkme.embeddings.kernels import median_gamma
from fedkme.embeddings.selection import SWEEPS, Selected, select_rows
from fedkme.errors import DataError
from sim.api.drafts import draft_schema
from sim.api.frames import SchemaLike, schema_of, table_of


class _Numbers(Settings):
    """Numbers of a selection."""

    p: int
    gamma: FiniteFloat | None = Field(None, gt=0)
    sweeps: int = Field(SWEEPS, ge=0)
    sample: int | None = Field(None, ge=1)


@dataclass(frozen=True, eq=False)
class SelectionResult:
    """Rows that represent all rows, in two forms.

    Examples:
        >>> import fedkme as fk, pandas as pd
        >>> part = fk.select(pd.DataFrame({"age": range(20, 80), "height": range(150, 210)}), 6)
        >>> part.rows.columns.tolist(), round(float(part.weights.sum()), 6)
        (['age', 'height'], 1.0)

    Attributes:
        rows: p of the caller's rows, with equal weights.
        weighted: p of the caller's rows, mostly other rows than `rows`, to be weighted by `weights`.
        weights: weights of `weighted`, with its index; they sum to 1.
        mmd2: MMD^2 of `rows` to all rows; nan with `sample`, which does not read all rows.
        weighted_mmd2: MMD^2 of `weighted` with `weights` to all rows; nan with `sample`.
        gamma: gamma of the kernel exp(-gamma ||x - y||^2).
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
    """Choose p of your own rows that represent all of them: `fk.select(frame, 200).rows`.

    Greedy choice with exchanges, and a set with weights (fedkme/embeddings/selection.py). The choice is not
    private: for rows of several owners call `summarize`.

    Examples:
        >>> import numpy as np
        >>> points = np.random.default_rng(0).normal(size=(500, 3))
        >>> part = select(points, 20)
        >>> len(part.rows), part.weighted_mmd2 < part.mmd2
        (20, True)

    Args:
        rows: a data frame, or an array (N, n) of numbers on one scale.
        p: rows to choose, 1 to N.
        schema: schema of a data frame; scales its columns. None: drafted from the frame.
        gamma: gamma of the kernel; None: 1 / median squared distance.
        sweeps: largest number of sweeps of exchanges.
        sample: number of rows that are drawn as the target of the choice; candidates are a quarter of them.
            With many rows, 32 p come near the full choice in a hundredth of the time
            (lab/results/benchmarks.md). None: all rows.

    Raises:
        FedkmeError: there are fewer than p rows, or rows do not fit the schema; by number in docs/errors.md.
    """
    chosen = validate(_Numbers, {"p": p, "gamma": gamma, "sweeps": sweeps, "sample": sample}, "fedkme.select")
    if isinstance(rows, pd.DataFrame):
        frame = rows
        domain = draft_schema(frame).schema() if schema is None else schema_of(schema)
        encoded = domain.encode(table_of(frame, domain, "rows", private=False).values)
    else:
        encoded = np.asarray(rows)
        if encoded.ndim != 2 or encoded.dtype.kind not in "iufb":
            raise DataError("rows are neither a data frame nor an array (N, n) of numbers", "Give either.")
        if not np.isfinite(encoded).all():
            raise DataError("rows have numbers that are not finite", "Fill the gaps, or give a data frame.")
        frame = pd.DataFrame(rows)
    width = median_gamma(encoded) if chosen.gamma is None else chosen.gamma
    selection = select_rows(encoded, chosen.p, width, chosen.sweeps, chosen.sample)

    def part(selected: Selected) -> pd.DataFrame:
        return frame.iloc[selected.indices]

    weighted = part(selection.weighted)
    weights = pd.Series(selection.weighted.weights, weighted.index, name="weight")
    figures = (selection.alike.mmd2, selection.weighted.mmd2)
    return SelectionResult(part(selection.alike), weighted, weights, *figures, width)
