"""Cross-validated MMD^2: weights fitted to one half of D_v, judged by the other half.

Let w be weights of the received rows by the rule of `weigh` (with classes where D_v has labels, as the forms
are made), fitted to a random half of D_v, and B the k rows of the other half. Given w, w'Kw - 2 c_B'w + (mean
of k over pairs of two different rows of B) is an unbiased estimate of |sum_i w_i phi(x_i) - mu|^2, mu the
mean of D_v's law: the rows of B are draws of that law that w was not fitted to. (The received rows depend on
noisy counts of all of D_v, which hide any one row.) Each half is held out in turn, in `SPLITS` random splits,
and the estimate is the mean. It is too large by at most about (1 - k) / m, as the weights of the summary are
fitted to twice as many rows.
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
"""Rows of D_v below which the estimate would be noise."""
MOST_RECEIVED = 5000
"""Received rows up to which eight more fits take seconds."""
SPLITS = 4


def by_halves(
    rows: Rows, validation: ReferenceRows, p: int, labels: Labels | None = None, theirs: Labels | None = None
) -> float | None:
    """Estimate MMD^2 of weighted rows to the law of D_v; None if the estimate would be noise, or slow.

    Args:
        rows: received rows, encoded, (r, n), r >= 1.
        validation: D_v, encoded, (m, n), and gamma.
        p: most rows with a weight.
        labels: classes of the rows, (r,), or None.
        theirs: classes of D_v, (m,), or None.
    """
    m = len(validation.rows)
    if m < LEAST or len(rows) > MOST_RECEIVED:
        return None
    random = np.random.default_rng(0)  # equal summaries get equal verdicts
    halves = [np.array_split(random.permutation(m), 2) for _ in range(SPLITS)]
    pairs = [pair for first, second in halves for pair in ((first, second), (second, first))]
    longer, seen = beside_classes(rows, validation, labels, theirs)
    estimates = []
    for fitted, other in pairs:
        about = received(longer, ReferenceRows(seen.rows[fitted], seen.gamma))
        fit = weigh(about, p, pruned(about.seen, p))
        estimates.append(_across(rows, validation, fit, other))
    return float(np.mean(estimates))


def _across(rows: Rows, validation: ReferenceRows, fit: WeightedRows, other: NDArray[np.int64]) -> float:
    """MMD^2 to the law, estimated on rows of D_v that the weights were not fitted to; may be below 0."""
    held_out = ReferenceRows(validation.rows[other], validation.gamma)
    return held_out.mmd2(rows[fit.indices], fit.weights) - (1.0 - held_out.own) / (len(other) - 1)
