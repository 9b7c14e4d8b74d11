"""Margins of D_v: what a row moves, what they cost, and what is picked."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from fedkme.arrays import IntArray
from fedkme.privacy.accountants.sound import Sound
from fedkme.privacy.events import Gaussian
from fedkme.privacy.gaussian import gaussian_sigma
from fedkme.privacy.noise import simulated
from lab.market.margins import measure
from lab.market.margins.mechanism import (
    HALF,
    RELEASE,
    MarginRules,
    Tilt,
    mass_deviation,
    picked_margins,
    rules_for,
    uniform_share,
)

SIZES = (4, 4, 3, 2)


def pool(random: np.random.Generator, rows: int) -> IntArray:
    first = random.integers(0, 4, rows)
    return np.stack([first, first, random.integers(0, 3, rows), random.integers(0, 2, rows)], axis=1)


def test_picks_margins_and_masses_cost_what_they_may() -> None:
    rules, accountant = rules_for(1.0, 1e-5), Sound()
    assert 0.999 < accountant.epsilon(rules.events, 1e-5).epsilon <= 1.0
    both = [Gaussian(gaussian_sigma(RELEASE, 1e-5)), Gaussian(mass_deviation(1.0, 1e-5))]
    assert accountant.epsilon(both, 1e-5).epsilon == pytest.approx(1.0, abs=1e-6)


def test_a_replaced_row_moves_a_mass_by_one_at_most() -> None:
    random, furthest = np.random.default_rng(1), 0.0
    for _ in range(300):
        factors = [random.exponential(1.0, 4), np.exp(random.normal(0.0, 9.0, 3))]
        tilt = Tilt((0, 2), factors, 10.0 ** random.integers(-3, 6), 10.0 ** random.integers(-3, 3))
        rows = pool(random, 5)
        other = np.vstack([pool(random, 1), rows[1:]])
        furthest = max(furthest, abs(tilt.mass(rows) - tilt.mass(other)))
    assert 0.99 < furthest <= 1.0 + 1e-9


def test_a_replaced_row_moves_every_score_by_one_at_most() -> None:
    random, moved = np.random.default_rng(2), []
    for _ in range(200):
        law, rows = random.dirichlet(np.ones(4)), random.integers(0, 4, 9)
        other = np.append(rows[1:], random.integers(0, 4))
        of = [0.5 * np.abs(np.bincount(each, minlength=4) - 9 * law).sum() for each in (rows, other)]
        moved.append(abs(of[0] - of[1]))
    assert 0.9 < max(moved) <= 1.0 + 1e-9


def test_a_column_that_says_the_same_again_is_not_picked_and_rows_like_d_v_are_dense() -> None:
    random = np.random.default_rng(3)
    model, target = pool(random, 20_000), pool(random, 400)
    target[:, :2], target[:, 2] = 3, random.choice(3, 400, p=(0.6, 0.2, 0.2))
    for seed in range(20):
        rules = MarginRules(2, 20.0, 1.0)
        tilt = picked_margins(model, SIZES, target, rules, simulated(seed, "lab", "margins"))
        assert set(tilt.columns) in ({0, 2}, {1, 2})
        assert tilt.density(target).mean() > 2.0 * tilt.density(model).mean()


def test_rows_are_uniform_where_d_v_is_near_the_pool() -> None:
    assert uniform_share(np.ones(1_000)) == HALF
    quarter = np.concatenate([np.full(750, 1e-12), np.ones(250)])  # D_v is like a quarter of the pool
    assert uniform_share(quarter) == pytest.approx(0.25, abs=1e-6)
    hundredth = np.concatenate([np.full(990, 1e-12), np.ones(10)])
    assert uniform_share(hundredth) == 0.0
    model = pool(np.random.default_rng(4), 4_000)
    for alike, rows in ((True, model[:400]), (False, np.tile(model[:1], (400, 1)))):
        tilt = picked_margins(model, SIZES, rows, MarginRules(2, 20.0, 1.0), simulated(1, "lab", "margins"))
        share = tilt.weights(model) - tilt.density(model)
        assert np.allclose(share, tilt.level)
        assert (tilt.level > 0.0) == alike


def test_a_made_layout_is_measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FEDKME_DATA", str(tmp_path))
    monkeypatch.setattr(measure, "MODEL_ROWS", 4_000)
    measure.main([str(tmp_path / "lines.jsonl"), "humps-pair:0:1"])
    line = json.loads((tmp_path / "lines.jsonl").read_text(encoding="utf-8"))
    assert 0.5 < line["margins"] < 2.0
    assert 0.5 < line["cells"] < 3.0
    assert "level" in line["columns"]
