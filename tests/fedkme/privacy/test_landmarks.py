"""g~ by landmarks: its sensitivity, its value without noise, and the choice of landmarks."""

from __future__ import annotations

import asyncio
import math

import numpy as np
import pytest
from numpy.typing import NDArray

from audit.replay.neighbours import SCHEMA as MARKET
from audit.replay.neighbours import make_world
from consumer.settings import RequestSettings
from curator.summary.settings import SummarySettings
from fedkme.errors import ProtocolError
from fedkme.features.fixed_point import FEATURE_UNIT, normalised_mean
from fedkme.features.fourier import FourierSpec, RandomFourier
from fedkme.privacy.events import CURATOR, OWNERS, Gaussian, validation_of
from fedkme.privacy.gaussian import gaussian_sigma
from fedkme.privacy.landmarks import MOST, Landmarks, landmarks_of, release_by_landmarks, some_of
from fedkme.privacy.ledger import disclosures_in
from fedkme.privacy.noise import simulated
from fedkme.privacy.settings import MwemTargetSettings, release_target
from fedkme.tables.schema import Numeric, Schema
from fedkme.wire import codecs
from fedkme.wire.summaries import plan_from_wire, plan_to_wire
from sim.engines.inprocess import KeptRecords, open_market, run_in_process

SCHEMA = Schema(columns=(Numeric(name="a", bounds=(0, 1), count=3),))
GAMMA = 2.0


def rows(count: int, seed: int) -> NDArray[np.float32]:
    return np.random.default_rng(seed).random((count, 3)).astype(np.float32)


def h1(dimension: int = 4000) -> RandomFourier:
    return RandomFourier(FourierSpec("paired", dimension, GAMMA, 3, 5))


def test_landmarks_have_a_smaller_valid_sensitivity_than_h1() -> None:
    # The sum of MATH.md: 2 - 2 k(x, y) <= 2 where h1 has the diameter 2; rows at opposite corners reach it.
    marks = Landmarks(np.array([[0, 0, 0], [1, 1, 1]], np.float32), GAMMA, SCHEMA)
    corners = marks.features(marks.rows)
    apart = float(np.linalg.norm(corners[0] - corners[1]))
    assert apart == pytest.approx(math.sqrt(2 - 2 * math.exp(-3 * GAMMA)), abs=1e-9)
    assert apart <= marks.sensitivity < math.sqrt(2)
    cut = np.trunc(Landmarks(rows(40, 1), 30.0, SCHEMA).features(rows(200, 2)) / FEATURE_UNIT) * FEATURE_UNIT
    distances = np.linalg.norm(cut[:, None] - cut[None, :], axis=2)
    assert distances.max() <= Landmarks(rows(40, 1), 30.0, SCHEMA).sensitivity


def test_noise_and_ledger_line_use_the_diameter() -> None:
    marks, validation = Landmarks(rows(20, 1), GAMMA, SCHEMA), rows(50, 2)
    drawn = []

    class Heard:
        def gaussian(self, scale: float, size: int) -> NDArray[np.float64]:
            drawn.append((scale, size))
            return np.zeros(size)

        def laplace(self, scale: float, size: int) -> NDArray[np.float64]:
            raise AssertionError

        def uniform(self, size: int) -> NDArray[np.float64]:
            raise AssertionError

    _, cost = release_by_landmarks(1.0, 1e-5, marks, h1(), validation, Heard())
    multiplier = gaussian_sigma(1.0, 1e-5)
    assert cost.event == Gaussian(multiplier)
    assert cost.sensitivity == marks.sensitivity
    ((scale, size),) = drawn
    assert scale == pytest.approx(multiplier * marks.sensitivity / FEATURE_UNIT)
    assert size == marks.map.dimension


def test_without_noise_the_release_is_the_mean_in_the_landmarks_span() -> None:
    # The landmarks contain D_v: its mean is in the span, and h1 estimates k.
    marks, validation = Landmarks(rows(30, 1), GAMMA, SCHEMA), rows(30, 1)[:10]
    mean, _ = release_by_landmarks(1e6, 1e-5, marks, h1(), validation, simulated(0, "consumer", "target"))
    exact = h1().normalised(validation).mean(axis=0)
    assert np.square(normalised_mean(mean) - exact).mean() < 0.01 * np.square(exact).mean()


def test_large_noise_shrinks_the_release_to_the_landmarks_mean() -> None:
    marks = Landmarks(rows(30, 1), GAMMA, SCHEMA)
    mean, _ = release_by_landmarks(1e-3, 1e-5, marks, h1(), rows(5, 2), simulated(0, "consumer", "target"))
    centre = h1().normalised(marks.rows).mean(axis=0)
    assert np.square(normalised_mean(mean) - centre).mean() < 0.1 * np.square(centre).mean()


def test_other_mechanisms_ignore_landmarks() -> None:
    # The published preset releases h1 as printed.
    marks, validation = Landmarks(rows(20, 1), GAMMA, SCHEMA), rows(50, 2)
    published = MwemTargetSettings(iterations=20)
    with_marks, without = (
        release_target(published, h1(8), validation, simulated(0, "consumer", "target"), given)[0]
        for given in (marks, None)
    )
    np.testing.assert_array_equal(with_marks, without)


@pytest.mark.parametrize(
    "data", [b"\0" * 13, np.full(3, np.nan, "<f4").tobytes(), b"", np.zeros(3 * (MOST + 1), "<f4").tobytes()]
)
def test_malformed_landmarks_are_refused(data: bytes) -> None:
    with pytest.raises(ProtocolError):
        landmarks_of(data, GAMMA, SCHEMA)


def test_landmarks_of_a_plan_are_spread_over_the_seed_set() -> None:
    # Seeds may be sorted by class: the first seeds would all be of one class.
    seeds = np.arange(100, dtype=np.float32)[:, None]
    assert some_of(seeds, 3)[:, 0].tolist() == [0.0, 50.0, 99.0]
    assert len(some_of(seeds, 200)) == 100
    assert len(some_of(seeds[:0], 5)) == len(some_of(seeds, 0)) == 0
    assert len(some_of(np.zeros((300, 2**14), np.float32), 200)) == 16


@pytest.mark.parametrize(
    ("values", "count"),
    [
        ({"landmarks": 9}, 9),
        ({}, 0),
        ({"landmarks": 9, "content": "hashed"}, 0),
        ({"landmarks": 9, "protocol": "cells", "cells": {"code_book": "seeds", "bits": 3}}, 0),
    ],
)
def test_a_run_uses_the_landmarks_of_its_curator(values: dict[str, object], count: int) -> None:
    # Over a whole run: plan, offer, and the line of D_v in both ledgers. Runs with a secret h1 have no
    # landmarks.
    world = make_world(1)
    opened = open_market(MARKET, world.owners, world.seeds, 1, {})
    settings = SummarySettings.model_validate({"protocol": "algorithm3", **values})
    request = RequestSettings.model_validate({"p": 4, "kernel": {"gamma": 1.0}})
    summary = asyncio.run(run_in_process(opened, world.validation, settings, request, KeptRecords()))
    assert len(summary.plan.landmarks) == 4 * count * MARKET.encoded_width
    again = plan_from_wire(plan_to_wire(summary.plan, codecs.VERSIONS.newest), MARKET.encoded_width)
    assert again == summary.plan
    if not count:
        return
    marks = landmarks_of(summary.plan.landmarks, 1.0, MARKET)
    for store in (opened.curator, opened.consumer):
        lines = disclosures_in(row.line for row in store.ledger())
        about_validation = [line for line in lines if line.protected == validation_of("consumer")]
        assert {line.observer for line in about_validation} == {CURATOR, OWNERS}
        assert {line.sensitivity for line in about_validation} == {marks.sensitivity}
        assert {line.event for line in about_validation} == {Gaussian(gaussian_sigma(1.0, 1e-5))}
