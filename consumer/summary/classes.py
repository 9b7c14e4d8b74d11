"""Shares of classes: how far those of a form are from D_v's, where D_v has labels. Nothing is released."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Labels = NDArray[np.int64]


def classes_apart(
    labels: Labels | None, weights: NDArray[Any] | None, validation: Labels | None, p: int
) -> float:
    """Compare class shares with D_v's: squared distance, over the mean one of p fresh rows.

    Of these it is (1 - sum of squared shares) (1/p + 1/m); of a D_v of one class, as if another row had come
    with another.

    Args:
        labels: of a form's rows, (s,), or None: the distance is then 0.
        weights: of these rows, or None: alike.
        validation: of D_v's m rows, or None.
        p: rows that were asked for.
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
