"""MMD^2 of weights to rows of D_v that they were not fitted to.

Let w be weights of the received rows by the rule of `weigh` (with classes where D_v has labels, as the forms
are made), fitted to a random half of D_v, and B the k rows of the other half. Given w, w'Kw - 2 c_B'w + (mean
of k over pairs of two different rows of B) is an unbiased estimate of |sum_i w_i phi(x_i) - mu|^2, mu the
mean of D_v's law: the rows of B are draws of that law that w has not seen. (The rows that came follow from
noisy counts of all of D_v, which hide what one row says.) Both halves are taken in turn, `SPLITS` times, and
the mean is the estimate. It errs towards farther, at most by (1 - k) / m or so: the weights of the summary
follow twice as many rows.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from consumer.summary.classes import Labels
from fedkme.arrays import Rows
from fedkme.embeddings.mmd import ReferenceRows
from fedkme.embeddings.prune import pruned
from fedkme.embeddings.summary_weights import WeightedRows, beside_classes, received, weigh

LEAST = 60
"""Rows of D_v from which halves say more than noise."""
MOST_RECEIVED = 5000
"""Rows received up to which eight more fits take seconds."""
SPLITS = 4


def by_halves(
    rows: Rows, validation: ReferenceRows, p: int, labels: Labels | None = None, theirs: Labels | None = None
) -> float | None:
    """Estimate MMD^2 of weighted rows to the law of D_v; None where that would be noise, or slow.

    Args:
        rows: received, encoded, (r, n), r >= 1.
        validation: D_v, encoded, (m, n), and gamma.
        p: rows with weight at most.
        labels: of the rows, (r,), or None.
        theirs: of D_v, (m,), or None.
    """
    m = len(validation.rows)
    if m < LEAST or len(rows) > MOST_RECEIVED:
        return None
    random = np.random.default_rng(0)  # the same summary is judged alike
    halves = [np.array_split(random.permutation(m), 2) for _ in range(SPLITS)]
    pairs = [pair for first, second in halves for pair in ((first, second), (second, first))]
    longer, seen = beside_classes(rows, validation, labels, theirs)
    found = []
    for fitted, other in pairs:
        about = received(longer, ReferenceRows(seen.rows[fitted], seen.gamma))
        fit = weigh(about, p, pruned(about.seen, p))
        found.append(_across(rows, validation, fit, other))
    return float(np.mean(found))


def _across(rows: Rows, validation: ReferenceRows, fit: WeightedRows, other: NDArray[np.int64]) -> float:
    """MMD^2 to the law, estimated on rows of D_v that the weights were not fitted to; may be below 0."""
    left = ReferenceRows(validation.rows[other], validation.gamma)
    return left.mmd2(rows[fit.indices], fit.weights) - (1.0 - left.own) / (len(other) - 1)
