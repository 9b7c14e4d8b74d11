"""Releases of marginals end to end: rounds and independent columns on a small table."""

from __future__ import annotations

import asyncio
import functools
import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from audit.in_memory import FreshNoise, PooledOracle, TrustedNoise
from curator.releases.marginals.descent import fit
from curator.releases.marginals.model import model_cells
from curator.releases.marginals.release import MarginalRelease, independent
from curator.releases.marginals.rounds import rounds
from curator.releases.method import make_method
from fedkme.arrays import IntArray
from fedkme.errors import CancelledRunError, ConfigError
from fedkme.features.binning import Binning
from fedkme.features.counts import Clique, Groups, marginal_counts
from fedkme.privacy.accountants import Sound
from fedkme.privacy.noise import simulated
from fedkme.releases.counts import Measurement, counts_from_bytes
from fedkme.releases.settings import release_settings
from fedkme.tables.schema import Category, Schema, schema_from
from fedkme.tables.table import Table

SIZES = (3, 3, 2, 2)
ROWS = 4000
KEPT = ((0, 3), (1, 3), (2, 3))


def _codes() -> IntArray:
    """Columns 0 and 1 nearly equal, 2 and 3 nearly opposite."""
    rng = np.random.default_rng(3)
    first, third = rng.choice(3, ROWS, p=[0.6, 0.3, 0.1]), rng.choice(2, ROWS, p=[0.7, 0.3])
    noisy = rng.random((2, ROWS)) < 0.1
    second = np.where(noisy[0], rng.integers(0, 3, ROWS), first)
    fourth = np.where(noisy[1], third, 1 - third)
    return np.stack([first, second, third, fourth], axis=1).astype(np.int64)


CODES = _codes()
OWNERS = np.array_split(CODES, 5)


@functools.cache
def released(method: str) -> MarginalRelease:
    oracle, noise = PooledOracle(OWNERS, SIZES), simulated(1, "curator", method)
    noisy = TrustedNoise(oracle, noise)
    match method:
        case "rounds":
            return asyncio.run(rounds(noisy, SIZES, ROWS, 1.0, 1e-5, KEPT))
        case _:
            return asyncio.run(independent(noisy, SIZES, ROWS, 1.0, 1e-5))


def _distance(release: MarginalRelease) -> float:
    """Mean total variation of all pairs."""
    distances = []
    for pair in itertools.combinations(range(4), 2):
        truth = marginal_counts(CODES, pair, SIZES) / ROWS
        distances.append(0.5 * np.abs(release.model.probabilities(pair).ravel() - truth).sum())
    return float(np.mean(distances))


def test_correlated_columns_come_out_correlated() -> None:
    # Marginals chosen privately recover relations that independent columns cannot.
    assert _distance(released("rounds")) < 0.3 * _distance(released("independent"))
    assert {(0, 1), (2, 3)} <= set(released("rounds").cliques)


class Impatient:
    """Progress callback that raises an error at some report, like that of a cancelled run."""

    def __init__(self, most: int) -> None:
        self.heard: list[float] = []
        self._most = most

    def share(self, share: float) -> None:
        self.heard.append(share)
        if len(self.heard) == self._most:
            raise CancelledRunError("the run is over", "Ask again.")

    def stage(self, stage: str, line: str, fraction: float) -> None:
        assert stage == "measuring"
        self.share(fraction)


def test_measuring_says_how_far_it_is_and_ends_where_nobody_waits() -> None:
    # Fits take minutes: they report progress, and a cancelled run ends its fit.
    listener = Impatient(3)
    noisy = TrustedNoise(PooledOracle(OWNERS, SIZES), simulated(1, "curator", "rounds"))
    with pytest.raises(CancelledRunError):
        asyncio.run(rounds(noisy, SIZES, ROWS, 1.0, 1e-5, KEPT, report=listener.stage))
    assert len(listener.heard) == 3
    assert listener.heard == sorted(listener.heard)
    assert all(0 <= share <= 1 for share in listener.heard)


def test_a_fit_says_how_far_it_is_and_ends_where_nobody_waits() -> None:
    measured = released("rounds").measurements
    whole, part = Impatient(0), Impatient(3)
    fit(SIZES, measured, ROWS, 500, report=whole.share)
    with pytest.raises(CancelledRunError):
        fit(SIZES, measured, ROWS, 500, report=part.share)
    assert part.heard == whole.heard[:3]
    assert whole.heard == sorted(whole.heard)
    assert len(whole.heard) > 3
    assert whole.heard[0] > 0
    assert whole.heard[-1] == 1


@pytest.mark.parametrize("method", ["rounds", "independent"])
def test_a_release_costs_what_was_asked_and_no_more(method: str) -> None:
    release = released(method)
    assert Sound().epsilon([release.event], 1e-5).epsilon == pytest.approx(1.0, rel=1e-6)
    assert Sound().epsilon([release.pieces], 1e-5).epsilon <= 1.0 + 1e-3


def test_synthetic_rows_fit_the_schema_and_follow_the_model() -> None:
    columns = [Category(name=f"c{i}", categories=tuple("abc"[:size])) for i, size in enumerate(SIZES)]
    binning = Binning(Schema(columns=tuple(columns)))
    release = released("rounds")
    table = release.sample(binning, 3000, seed=4)
    binning.schema.check(table, "synthetic")
    again = release.sample(binning, 3000, seed=4)
    assert (table.values == again.values).all()
    shares = marginal_counts(table.values.astype(np.int64), (0, 1), SIZES) / 3000
    assert np.abs(shares - release.model.probabilities((0, 1)).ravel()).sum() < 0.02
    with pytest.raises(ConfigError, match="not that of the release"):
        release.sample(Binning(Schema(columns=tuple(columns[:2]))), 10, seed=0)
    with pytest.raises(ConfigError, match="cannot be drawn"):
        release.sample(binning, 0, seed=0)


class _Spy(TrustedNoise):
    """Oracle that records the questions."""

    def __init__(self) -> None:
        super().__init__(PooledOracle(OWNERS, SIZES), simulated(0, "curator", "spy"))
        self.questions: list[Sequence[Clique]] = []

    async def noisy(
        self, cliques: Sequence[Clique], sigmas: Sequence[float], groups: Sequence[Groups] = ()
    ) -> list[Measurement]:
        self.questions.append(cliques)
        assert min(sigmas) > 0
        return await super().noisy(cliques, sigmas, groups)


async def test_rounds_see_noisy_sums_only_and_keep_the_tables_of_the_label() -> None:
    # Issue 16, item 5: its one source is a NoisyOracle. Decision 021: all at first, then five rounds.
    spy = _Spy()
    release = await rounds(spy, SIZES, ROWS, 1.0, 1e-5, KEPT)
    assert len(spy.questions) == 6
    assert sorted(spy.questions[0]) == sorted(
        c for size in (1, 2) for c in itertools.combinations(range(4), size)
    )
    assert set(KEPT) < set(release.cliques)
    assert all(1 <= len(cliques) <= 2 for cliques in spy.questions[1:])
    count = sum(len(cliques) for cliques in spy.questions)
    assert len(release.measurements) + len(release.others) == count
    # The pairs that are strongly related, and not those that are not, are worth their noise.
    assert {(0, 1), (2, 3)} <= {c for cliques in spy.questions[1:] for c in cliques}
    assert (0, 2) not in {c for cliques in spy.questions[1:] for c in cliques}


async def test_a_model_stays_below_its_limit_whatever_is_wrong_with_it() -> None:
    # Decision 021: "any graph whose junction tree is below 2^16 cells"; here no pair but those kept fits.
    noise = simulated(1, "curator", "rounds")
    oracle = TrustedNoise(PooledOracle(OWNERS, SIZES), noise)
    release = await rounds(oracle, SIZES, ROWS, 1.0, 1e-5, KEPT, cells=model_cells(SIZES, KEPT))
    assert {c for c in release.cliques if len(c) == 2} == set(KEPT)
    assert {m.clique for m in release.others} == {(0, 1), (0, 2), (1, 2)}


@pytest.mark.parametrize("width", [1, 2])
async def test_tables_of_one_column_or_two_are_released_too(width: int) -> None:
    codes, sizes = CODES[:, :width], SIZES[:width]
    oracle = TrustedNoise(PooledOracle([codes], sizes), simulated(1, "curator", "rounds"))
    release = await rounds(oracle, sizes, ROWS, 1.0, 1e-5, [(0, 1)] if width == 2 else [])
    truth = marginal_counts(codes, tuple(range(width)), sizes) / ROWS
    assert release.model.probabilities(tuple(range(width))).ravel() == pytest.approx(truth, abs=0.02)


def test_answers_of_a_model_are_mbis_own() -> None:
    # model: marginals in and outside of the model, computed here in numpy, against mbi's elimination.
    rng = np.random.default_rng(0)
    cliques: list[Clique] = [(0, 1), (1, 2), (3,)]
    measured = [
        Measurement(
            c, marginal_counts(CODES, c, SIZES) + rng.normal(0, 5, int(np.prod([SIZES[i] for i in c]))), 5.0
        )
        for c in cliques
    ]
    mbi: Any = pytest.importorskip("mbi")
    jax: Any = pytest.importorskip("jax")
    model = fit(SIZES, measured, ROWS, 400)
    domain = mbi.Domain(tuple(range(4)), SIZES)
    with jax.enable_x64(True):
        factors = {
            c: mbi.Factor(domain.project(c), jax.numpy.asarray(t)) for c, t in model.potentials.items()
        }
        potentials = mbi.CliqueVector(domain, model.cliques, factors)
        marginals = mbi.marginal_oracles.default_oracle()(potentials, 1.0)
        field = mbi.MarkovRandomField(potentials=potentials, marginals=marginals, total=1.0)
    for clique in [(0, 1), (0, 2), (0, 3), (2,), (0, 2, 3), (0, 1, 2, 3)]:
        with jax.enable_x64(True):
            theirs = np.asarray(field.project(clique).values)
        assert model.probabilities(clique) == pytest.approx(theirs, abs=1e-5)
    assert model.probabilities((2, 0)) == pytest.approx(model.probabilities((0, 2)).T)
    assert model_cells(SIZES, cliques) == 9 + 6 + 2

    # descent: "the same algorithm": it comes to the same model as mbi's.
    with jax.enable_x64(True):
        pairs = [mbi.LinearMeasurement(m.values, m.clique, m.sigma) for m in measured]
        theirs = mbi.estimation.MirrorDescent().estimate(domain, pairs, known_total=float(ROWS), iters=400)
        for clique in cliques:
            reference = np.asarray(theirs.project(clique).values) / ROWS
            assert model.probabilities(clique) == pytest.approx(reference, abs=2e-3)


async def test_domains_too_large_are_refused_in_one_line() -> None:
    noise, wide = simulated(0, "curator", "bad"), (500,) * 30
    empty = PooledOracle([np.zeros((1, 30), dtype=np.int64)], wide)
    with pytest.raises(ConfigError, match="are the limit") as large:
        await rounds(TrustedNoise(empty, noise), wide, 1, 1.0, 1e-5)
    assert large.value.remedy
    with pytest.raises(ConfigError, match="are the limit"):
        fit((200,) * 4, [Measurement((0, 1, 2, 3), np.zeros(1), 1.0)], 1, 1)


def test_pairs_whose_rough_tables_tell_nothing_are_answered_and_not_chosen() -> None:
    # Decision 021: at this N a table of 256 cells is all noise; one of 4 tells of a model's error.
    sizes, rows = (16, 16, 2, 2), 1500
    rng = np.random.default_rng(5)
    codes = np.stack([rng.integers(0, size, rows) for size in sizes], axis=1)
    noisy = TrustedNoise(PooledOracle([codes], sizes), simulated(2, "curator", "weak"))
    release = asyncio.run(rounds(noisy, sizes, rows, 0.5, 1e-5))
    others = {measurement.clique: measurement.sigma for measurement in release.others}
    assert (0, 1) in others
    assert (0, 1) not in release.cliques
    small = [
        measurement.sigma
        for measurement in (*release.measurements, *release.others)
        if measurement.clique == (2, 3)
    ]
    assert others[0, 1] == pytest.approx(max(small) * 10**0.5)
    assert Sound().epsilon([release.event], 1e-5).epsilon == pytest.approx(0.5, rel=1e-6)


def test_a_number_and_its_gaps_are_counted_together_whatever_else_is() -> None:
    # Decision 021. Nothing else of these rows hangs together, and there is too much noise to choose by.
    columns: list[dict[str, object]] = [
        {"name": name, "kind": "numeric", "bounds": [0, 1], "nullable": name == "b"} for name in "abc"
    ]
    schema, rng = schema_from({"columns": columns}), np.random.default_rng(6)
    gaps = (rng.random(300) < 0.3).astype(float)
    a, b, c = rng.random((3, 300))
    table = Table(np.column_stack([a, np.where(gaps > 0, np.nan, b), gaps, c]))
    method = make_method(release_settings({"kind": "marginals", "epsilon": 0.3, "seed": 1}), schema, None, 1)
    release = counts_from_bytes(asyncio.run(method.ask(FreshNoise(table, schema, 1))))
    assert (1, 2) in {measurement.clique for measurement in release.fitted}
    assert {(0, 1), (1, 3), (0, 3)} <= {measurement.clique for measurement in release.others}
