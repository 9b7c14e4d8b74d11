"""Computations on hashes alone, without the draw of h1: checks, kernel estimates, choices among rows.

Hashes are rows of h1 in fixed point, (m, d) int16. Their inner products estimate the kernel. So every step of
the summary protocols that scores or prunes rows works on hashes; a step that needs a row's values does not.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedkme.errors import NotEnoughRowsError
from fedkme.features.fixed_point import (
    FEATURE_UNIT,
    FeatureMean,
    Features,
    MeanVector,
    ScoredFeatures,
    quantize_mean,
)
from fedkme.features.fourier import FourierShape

REFERENCE_HASHES = 256
"""Number of random rows from which an auction sets prices."""
_ONE = round(1.0 / FEATURE_UNIT)
_SLACK = 2**16
"""Truncation takes at most 2 sqrt(2) units of 2^14 from a pair's squared norm of 2^28."""


def fault_of_hashes(features: NDArray[Any], shape: FourierShape) -> str:
    """Reason, in one line, why an array cannot be hashes of rows; empty if it can.

    Without the draw nobody can check more: coordinates are in [-1, 1], and in the paired form two coordinates
    are cosine and sine of one angle.

    Args:
        features: features as received, (k, d).
        shape: public part of the draw.
    """
    if features.dtype != np.int16 or features.ndim != 2 or features.shape[1] != shape.dimension:
        return f"hashes of shape {features.shape} and type {features.dtype.name} are of another map"
    wide = features.astype(np.int32)
    if (np.abs(wide) > _ONE).any():
        return "a hash has a coordinate outside [-1, 1]"
    if shape.kind == "paired":
        half = shape.dimension // 2
        norms = wide[:, :half] ** 2 + wide[:, half:] ** 2
        if ((norms > _ONE**2) | (norms < _ONE**2 - _SLACK)).any():
            return "a hash has a pair of coordinates that is no cosine and sine"
    return ""


def herd_hashes(
    features: Features, target: MeanVector, p: int, seeds: Features | None = None
) -> NDArray[np.int64]:
    """Prune: choose p of the rows by hashes alone, each time the row of largest marginal gain.

    The greedy rule of Algorithm 3 over exact integers gives the same rows on every machine. It is
    post-processing of rows that the curator has, and it tells nobody anything.

    Args:
        features: hashes of the accessed rows, (m, d).
        target: mean of h1 over D_v, as released, or exact where the consumer prunes, (d,).
        p: number of rows to choose.
        seeds: h1 of a public seed set that counts as part of the summary, (s, d). **Not for a curator**:
            public rows with their hashes reveal the draw.

    Returns:
        (p,) indices in the order of choice; of equal rows the first.

    Raises:
        NotEnoughRowsError: p is larger than m.
    """
    if p > len(features):
        cause = f"a summary of {p} rows was asked for and {len(features)} rows came"
        raise NotEnoughRowsError(cause, "Ask for a smaller summary.")
    scored = ScoredFeatures(features.shape[1], target, capacity=max(1, len(features)))
    scored.append(features)
    summary = FeatureMean(features.shape[1])
    if seeds is not None:
        summary.add(seeds)
    chosen = np.empty(p, dtype=np.int64)
    for pick in range(p):
        best, _ = scored.best(quantize_mean(summary.normalised()), summary.count)
        scored.retire(best)
        summary.add(features[best][np.newaxis])
        chosen[pick] = best
    return chosen
