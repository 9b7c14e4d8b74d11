"""Faults of directions that D_v picks."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from consumer.summary.offers import make_offer
from fedkme.arrays import FloatArray, Rows
from fedkme.cells.codebook import CodeBook
from fedkme.cells.directions import Menu
from fedkme.cells.histogram import histogram_noise
from fedkme.cells.projection import Projection
from fedkme.exchange import Offer


def uncut_scores(menu: Menu, book: CodeBook, rows: Rows) -> FloatArray:
    """Distances of sums along directions, without a cut for distant rows."""
    z = Projection(book.spec, book.schema)(rows) - book.arrays["origin"]
    far: FloatArray = np.abs((z @ menu.vectors / menu.widths / 2.0 - menu.levels).sum(axis=0))
    return far


def whole_histogram(*args: Any) -> Offer:
    """An offer whose histogram spends the whole budget of D_v, and whose picks cost more on top."""
    patch = pytest.MonkeyPatch()
    with patch.context() as planted:
        planted.setattr(
            "consumer.summary.offers.histogram_of", lambda menu, epsilon: histogram_noise(epsilon)
        )
        return make_offer(*args)
