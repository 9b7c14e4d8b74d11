"""Distance of a form's class shares from D_v's, if D_v has labels. Nothing is released."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Labels = NDArray[np.int64]


def classes_apart(
    labels: Labels | None, weights: NDArray[Any] | None, validation: Labels | None, p: int
) -> float:
    """Squared distance of class shares from D_v's, over the mean distance for p fresh rows.

    Fresh rows have a mean squared distance of (1 - sum of squared shares) (1/p + 1/m); a D_v with a single
    class counts as if it had one row more, of another class.

    Args:
        labels: labels of a form's rows, (s,); None: the distance is 0.
        weights: weights of these rows; None: equal weights.
        validation: labels of D_v's m rows, or None.
        p: number of requested rows.
    """
    if labels is None or validation is None:
        return 0.0
    count, m = int(max(labels.max(), validation.max())) + 1, len(validation)
    shares, theirs = (
        np.bincount(of, by, count) / (len(of) if by is None else by.sum())
        for of, by in ((labels, weights), (validation, None))
    )
    spread = max(1.0 - float(theirs @ theirs), 2.0 * m / (m + 1) ** 2)
    return float(((shares - theirs) ** 2).sum()) / (spread * (1.0 / p + 1.0 / m))
