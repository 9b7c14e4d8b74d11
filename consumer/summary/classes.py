"""Classes of rows, where D_v has labels: how summaries are weighed by them, and compared.

The kernel is of columns and knows no label: rows that match D_v by it may be of other classes, and a model
that is trained on them learns other shares. So a class is one more block of coordinates, in which rows of two
classes are so far apart that the kernel falls to `ALIKE` of what it is,

    k((x, y), (x', y')) = k(x, x') ALIKE^[y != y'],

and to `STRANGE` where one of them is a class that no row of D_v has. It is an RBF kernel of longer rows: what
is proven of weights (fedkme/embeddings/summary_weights.py) holds in it.
Nothing is released: this is computed where D_v is, of rows that came. docs/decisions/043.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedkme.embeddings.mmd import ReferenceRows

Labels = NDArray[np.int64]
Rows = NDArray[np.floating[Any]]

ALIKE = 0.9
"""Kernel of two rows that differ by their class alone."""
STRANGE = 0.1
"""Kernel of two such rows, where D_v has rows of one of the classes and none of the other."""


def beside_classes(
    rows: Rows, validation: ReferenceRows, labels: Labels | None, theirs: Labels | None
) -> tuple[Rows, ReferenceRows]:
    """Put classes beside encoded rows and those of D_v; without labels on both sides they stay as they are.

    Args:
        rows: (r, n).
        validation: D_v, (m, n).
        labels: of the rows, (r,), or None.
        theirs: of D_v, (m,), or None.

    Returns:
        Both, with C more columns.
    """
    if labels is None or theirs is None:
        return rows, validation
    count = 1 + int(max(labels.max(initial=0), theirs.max(initial=0)))
    near = -0.5 * math.log(ALIKE) / validation.gamma
    squared = np.where(
        np.bincount(theirs, minlength=count) > 0, near, -math.log(STRANGE) / validation.gamma - near
    )
    places = np.diag(np.sqrt(squared)).astype(rows.dtype)
    longer = np.concatenate([validation.rows, places[theirs]], axis=1)
    return np.concatenate([rows, places[labels]], axis=1), ReferenceRows(longer, validation.gamma)


def classes_apart(
    labels: Labels | None,
    weights: NDArray[Any] | None,
    validation: Labels | None,
    p: int,
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
