"""Runs by margins at the curator: when there are some, and who is asked for how many rows."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from audit.in_memory import FreshNoise
from curator.cells.density_orders import MARGINS_ORDER, orders_by_density
from curator.cells.orders import USABLE
from curator.cells.pool_model import margins_help, no_margins_reason, release_of_pool
from curator.run.release_record import redrawn
from curator.summary.settings import CellsSettings, SummarySettings
from fedkme.cells.plan import RELEASE_SHARE
from fedkme.exchange import SummaryRequest
from fedkme.privacy.events import Gaussian
from fedkme.releases.counts import counts_from_bytes
from fedkme.tables.npz import npz_arrays
from fedkme.tables.schema import Category, Label, Numeric, Schema
from fedkme.tables.table import Table

PEOPLE = Schema(
    columns=(Numeric(name="age", bounds=(0, 100)), Category(name="job", categories=tuple("abcdef"))),
    label=Label(name="ill", classes=("no", "yes")),
)
IMAGES = Schema(columns=(Numeric(name="pixel", bounds=(0, 1), count=64),))
WIDE = Schema(columns=tuple(Category(name=f"q{n}", categories=tuple("abcdefghij")) for n in range(65)))


ZIPS = Schema(columns=(Category(name="zip", categories=tuple(map(str, range(65)))), *PEOPLE.columns))
SIZES = (1_000, 900, 800)


@pytest.mark.parametrize(
    ("changes", "schema", "rows", "sizes", "helps"),
    [
        ({}, PEOPLE, 250, SIZES, True),
        ({}, PEOPLE, 119, SIZES, False),
        ({"privacy": {"epsilon": 0.4}}, PEOPLE, 250, SIZES, False),
        ({"privacy": {"group": 3}}, PEOPLE, 250, SIZES, False),
        ({}, PEOPLE, 250, (5_000, 90, 80), False),  # an owner of middle size counts noise
        ({}, PEOPLE, 250, (), False),  # nobody has said its size
        ({}, IMAGES, 250, SIZES, False),
        ({}, WIDE, 250, SIZES, False),
        ({}, ZIPS, 250, SIZES, False),  # D_v may be of one of the names that have no bin of their own
        ({"cells": {"bits": 3}}, PEOPLE, 250, SIZES, False),
        ({"cells": {"picks": 2}}, PEOPLE, 250, SIZES, False),
        ({"cells": {"coalitions": True}}, PEOPLE, 250, SIZES, False),
        ({"cells": {"code_book": "sketch"}}, PEOPLE, 250, SIZES, False),
        ({"cells": {"code_book": "release"}}, PEOPLE, 30, (), True),
    ],
)
def test_public_facts_decide(
    changes: dict[str, Any], schema: Schema, rows: int, sizes: tuple[int, ...], helps: bool
) -> None:
    settings = SummarySettings.model_validate({"protocol": "cells", **changes})
    assert margins_help(settings, schema, rows, sizes) == helps


@pytest.mark.parametrize(
    ("picks", "margins", "deviation", "against"),
    [
        (None, 4, 0.0, ""),
        (None, 4, 8.0, ""),  # several requests: the noise of margins is the same for one
        (None, 2, 0.0, "4 columns, and the consumer allows 2"),
        (2, 2, 0.0, ""),
        (0, 4, 0.0, "0 columns"),
        (None, 0, 0.0, "allows 0"),
    ],
)
def test_no_party_is_asked_for_margins_that_it_does_not_give(
    picks: int | None, margins: int, deviation: float, against: str
) -> None:
    settings = SummarySettings(protocol="cells", cells=CellsSettings(code_book="release", picks=picks))
    asked = SummaryRequest("consumer", b"", "digest", 100, 250, 1.0, True, deviation, margins)
    reason = no_margins_reason(settings, asked)
    assert against in reason
    assert bool(against) == bool(reason)


@pytest.mark.parametrize("group", [1, 3])
def test_the_release_costs_what_owners_are_told(group: int) -> None:
    settings = SummarySettings.model_validate({"protocol": "cells", "privacy": {"group": group}})
    told = settings.owner_noise(RELEASE_SHARE).sketch_event
    (planned,) = release_of_pool(settings, PEOPLE, 3, RELEASE_SHARE).planned()
    assert isinstance(told, Gaussian)
    assert isinstance(planned, Gaussian)
    assert planned.noise_multiplier == pytest.approx(told.noise_multiplier, rel=1e-9)


def test_rows_of_the_release_are_those_that_it_would_write() -> None:
    numbers = (Numeric(name="pay", bounds=(0, 9), nullable=True), Numeric(name="age", bounds=(0, 100)))
    schema, random = Schema(columns=numbers), np.random.default_rng(6)
    gaps = random.random(300) < 0.3
    pay = np.where(gaps, np.nan, random.uniform(0, 9, 300))
    table = Table(np.column_stack([pay, gaps, random.uniform(0, 100, 300)]))
    method = release_of_pool(SummarySettings(protocol="cells"), schema, 3, RELEASE_SHARE)
    release = asyncio.run(method.ask(FreshNoise(table, schema, 1)))
    written = npz_arrays(method.finish(release, lambda *_: None).files["synthetic.npz"], "synthetic.npz")["x"]
    drawn = redrawn(release, len(table), lambda *_: None)
    assert drawn is not None
    assert np.array_equal(drawn.values, written, equal_nan=True)


def test_rows_of_a_release_by_a_mechanism_that_went_are_drawn_as_ever() -> None:
    # Its owners have paid for it: AIM went, and `fedkme match` refused each release by it.
    table = Table(np.random.default_rng(2).integers(0, 3, (200, 2)).astype(np.float64))
    schema = Schema(columns=tuple(Category(name=name, categories=("x", "y", "z")) for name in "ab"))
    method = release_of_pool(SummarySettings(protocol="cells"), schema, 3, RELEASE_SHARE)
    stored = counts_from_bytes(asyncio.run(method.ask(FreshNoise(table, schema, 1))))
    settings = {**stored.settings, "mechanism": "aim", "ways": 2}
    earlier = replace(stored, mechanism="aim", settings=settings).to_bytes()
    assert len(redrawn(earlier, 50, lambda *_: None) or ()) == 50
    files = method.finish(earlier, lambda *_: None).files
    assert b"AIM" in files["synthetic.card.md"]


def test_owners_with_most_rows_like_d_v_are_asked_and_few_of_them() -> None:
    sizes = np.array([1_000, 1_000, 1_000, 30, 0])
    counts = np.array([[700, 300], [980, 20], [1_040, -40], [10, 25], [3, -2]])
    orders = orders_by_density(counts, sizes, 100, 0.25, 0.0)
    assert orders.rows.sum() == 100
    assert (orders.rows <= sizes).all()
    assert orders.rows[0] > 80
    assert orders.rows[2] == orders.rows[4] == 0
    assert (orders.rows > 0).sum() <= 100 // MARGINS_ORDER
    assert orders.cells.tolist() == [[0.0, float(rows > 0)] for rows in orders.rows]
    assert orders.weights.sum() == pytest.approx(1.0)
    assert orders.dropped == 0.25


def test_every_row_may_be_ordered_or_drawn_uniformly() -> None:
    sizes = np.array([40, 30, 10])
    counts = np.array([[0, 40], [30, 0], [10, 0]])
    everything = orders_by_density(counts, sizes, 80, 0.0, 0.0)
    assert everything.rows.tolist() == [40, 30, 10]
    drawn = orders_by_density(counts, sizes, 40, 0.0, 1.0)
    assert drawn.rows.tolist() == drawn.uniform.tolist() == [20, 15, 5]
    near = orders_by_density(counts, sizes, 40, 0.0, 0.5)
    assert near.uniform.tolist() == [10, 8, 2]
    assert near.rows.sum() == 40
    nobody = orders_by_density(np.array([[40, 0], [30, 0], [10, 0]]), sizes, 40, 0.0, 0.0)
    assert nobody.rows.sum() == 40
    assert (orders_by_density(counts, sizes, 30, 0.0, 0.0).rows <= np.ceil(USABLE * sizes)).all()
