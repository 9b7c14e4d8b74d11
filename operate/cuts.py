"""Cut points of numbers at quantiles of a released histogram: private quantiles for a public schema.

The release is one of marginals: it counts every number by fine bins, with noise under its own epsilon, and
has its own proof, ledger lines and audit (`curator/releases/marginals/budget.py`). The computation here is
post-processing of public data, so a schema with these cuts costs nothing more.
"""

import numpy as np
from numpy.typing import NDArray

from fedkme.answers.counts import CountEvidence
from fedkme.errors import DataError
from fedkme.releases.fine import run_starts
from fedkme.tables.schema import Numeric, Schema


def with_cuts(evidence: CountEvidence, pieces: int) -> Schema:
    """Make a release's schema with cuts of its numbers, so that bins have about equally many rows.

    Atoms do not count. Blocks of like numbers, and numbers that have cuts already, do not change.

    Args:
        evidence: counts of a release of marginals with fine bins.
        pieces: bins per number; fewer if many rows lie in one fine bin.

    Raises:
        DataError: no number was counted by fine bins.
    """
    columns, place, changed = [], 0, False
    for column in evidence.schema.columns:
        marginal = evidence.fine((place,)) if isinstance(column, Numeric) and column.count == 1 else None
        place += column.count
        if marginal is not None and isinstance(column, Numeric):
            edges = evidence.finer.edges(column)
            starts = run_starts(marginal.shares[: len(edges) - 1], marginal.sigma, pieces)
            cuts = _cuts(column, edges[list(starts)])
            column, changed = column.model_copy(update={"cuts": cuts}), True
        columns.append(column)
    if not changed:
        remedy = "Make a release of marginals with 'fine' above 1, of a schema that has numbers without cuts."
        raise DataError("the release has no number that was counted by fine bins", remedy)
    return Schema.model_validate(evidence.schema.model_copy(update={"columns": tuple(columns)}).model_dump())


def _cuts(column: Numeric, at: NDArray[np.float64]) -> tuple[float, ...]:
    """Convert edges inside the bounds to cuts; whole numbers round up, which splits the same values."""
    low, high = column.bounds
    edges = np.unique(np.ceil(at) if column.integer else at)
    return tuple(edges[(edges > low) & (edges < high)].tolist())
