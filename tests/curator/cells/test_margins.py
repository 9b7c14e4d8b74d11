"""Runs by margins at the curator: what the release costs, and who is asked for how many rows."""

from __future__ import annotations

import numpy as np
import pytest

from curator.cells.density_orders import LEAST_ORDER, orders_by_density
from curator.cells.orders import USABLE
from curator.cells.pool_model import release_of_pool
from curator.summary.settings import SummarySettings
from fedkme.margins.picks import RELEASE_SHARE
from fedkme.privacy.events import Gaussian
from fedkme.tables.schema import Category, Label, Numeric, Schema

PEOPLE = Schema(
    columns=(Numeric(name="age", bounds=(0, 100)), Category(name="job", categories=tuple("abcdef"))),
    label=Label(name="ill", classes=("no", "yes")),
)


@pytest.mark.parametrize("group", [1, 3])
def test_the_release_costs_what_owners_are_told(group: int) -> None:
    settings = SummarySettings.model_validate({"protocol": "cells", "privacy": {"group": group}})
    told = settings.owner_noise(RELEASE_SHARE).sketch_event
    (planned,) = release_of_pool(settings, PEOPLE, 3, RELEASE_SHARE).planned()
    assert isinstance(told, Gaussian)
    assert isinstance(planned, Gaussian)
    assert planned.noise_multiplier == pytest.approx(told.noise_multiplier, rel=1e-9)


def test_owners_with_most_rows_like_d_v_are_asked_and_few_of_them() -> None:
    sizes = np.array([1_000, 1_000, 1_000, 30, 0])
    counts = np.array([[700, 300], [980, 20], [1_040, -40], [10, 25], [3, -2]])
    orders = orders_by_density(counts, sizes, 100, 0.0, 0.25)
    assert orders.rows.sum() == 100
    assert (orders.rows <= sizes).all()
    assert orders.rows[0] > 80
    assert orders.rows[2] == orders.rows[4] == 0
    assert (orders.rows > 0).sum() <= 100 // LEAST_ORDER
    assert orders.cells.tolist() == [[0.0, float(rows > 0)] for rows in orders.rows]
    assert orders.weights.sum() == pytest.approx(1.0)
    assert orders.dropped == 0.25


def test_every_row_may_be_ordered_or_drawn_uniformly() -> None:
    sizes = np.array([40, 30, 10])
    counts = np.array([[0, 40], [30, 0], [10, 0]])
    everything = orders_by_density(counts, sizes, 80, 0.0, 0.0)
    assert everything.rows.tolist() == [40, 30, 10]
    drawn = orders_by_density(counts, sizes, 40, 0.0, 0.0, 1.0)
    assert drawn.rows.tolist() == drawn.uniform.tolist() == [20, 15, 5]
    near = orders_by_density(counts, sizes, 40, 1.0, 0.0)
    assert near.uniform.sum() == 0
    nobody = orders_by_density(np.array([[40, 0], [30, 0], [10, 0]]), sizes, 40, 0.0, 0.0)
    assert nobody.rows.sum() == 40
    assert (orders_by_density(counts, sizes, 30, 0.0, 0.0).rows <= np.ceil(USABLE * sizes)).all()
