"""Noise of pooled embeddings: joint calibration, its event, and the added noise."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedkme.errors import ConfigError
from fedkme.features.fourier_map import FourierMapSpec
from fedkme.features.hermite import HermiteSumSpec
from fedkme.features.maps import ROW_UNIT
from fedkme.features.sums import Layout, PooledSum, pooled_sum
from fedkme.privacy.events import Disclosure, Gaussian
from fedkme.privacy.gaussian import gaussian_delta, gaussian_sigma
from fedkme.privacy.noise import SecureNoise, simulated
from fedkme.privacy.sums import (
    PooledRelease,
    Query,
    count_query,
    embedding_query,
    free_count_share,
    release_counts,
    release_embedding,
)
from fedkme.tables.schema import Numeric, Schema
from fedkme.tables.table import Table

SCHEMA = Schema(columns=(Numeric(name="x", bounds=(0, 1)),))
FOURIER = FourierMapSpec(dimension=40, gamma=3.0, seed=0).make(SCHEMA)
HERMITE = HermiteSumSpec(order=20, length=0.3).make(SCHEMA)
TWO = Layout(2)


def table(rows: int) -> Table:
    g = np.random.default_rng(0)
    return Table(g.uniform(0, 1, (rows, 1)), g.integers(0, 2, rows))


@pytest.mark.parametrize(
    ("diameters", "epsilon", "delta", "multipliers"),
    [
        ((2.0,), 1.0, 1e-5, (3.7306,)),
        ((math.sqrt(2), 2.0), 1.0, 1e-5, (5.2759, 5.2759)),
        ((1.0,) * 8, 1.0, 1e-5, (10.552,) * 8),
        ((1.0,) * 10, 1.0, 1e-5, (11.797,) * 10),
    ],
)
def test_reference_values(
    diameters: tuple[float, ...], epsilon: float, delta: float, multipliers: tuple[float, ...]
) -> None:
    # MATH.md 2 and 3, ANCHORS.md D (a), column "exact": noise per unit of sensitivity. test_gaussian has
    # the figures of one query.
    release = PooledRelease(tuple(Query(diameter, diameter) for diameter in diameters), epsilon, delta)
    figures = tuple(float(f"{s / d:.5g}") for s, d in zip(release.sigmas, diameters, strict=True))
    assert figures == multipliers


queries = st.builds(Query, st.floats(0.1, 3), st.floats(0.1, 3), st.floats(0.01, 10))


@given(st.lists(queries, min_size=1, max_size=6), st.floats(0.05, 8), st.integers(3, 8))
@settings(max_examples=80, deadline=None)
def test_both_kinds_of_neighbours_keep_the_bound_and_one_spends_it(
    release_queries: list[Query], epsilon: float, digits: int
) -> None:
    # The proof in the module: mu^2 = sum of (d_q/sigma_q)^2 for the pair, delta(1/mu) <= delta; tight.
    delta = 10.0**-digits
    release = PooledRelease(tuple(release_queries), epsilon, delta)
    noise = list(zip(release_queries, release.sigmas, strict=True))
    moves = [
        math.sqrt(sum((q.within / s) ** 2 for q, s in noise)),
        math.sqrt(sum((q.across / s) ** 2 for q, s in noise)),
    ]
    # The bisection of the multiplier ends at neighbouring floats; mu is rounded once more.
    assert all(gaussian_delta(1 / (mu * (1 - 1e-12)), epsilon) <= delta for mu in moves)
    assert max(moves) == pytest.approx(1 / release.multiplier, rel=1e-12)
    assert release.event == Gaussian(gaussian_sigma(epsilon, delta))


def test_shares_split_the_budget() -> None:
    # DP-HP's split: sums of (d/sigma)^2 add up to the whole, in proportion to the shares.
    release = PooledRelease((Query(2.0, 2.0, 4.0), Query(1.0, 1.0, 1.0)), 1.0, 1e-5)
    first, second = ((q.diameter / s) ** 2 for q, s in zip(release.queries, release.sigmas, strict=True))
    assert first / second == pytest.approx(4.0)
    assert first + second == pytest.approx(1 / release.multiplier**2)


def test_class_counts_come_free_with_fourier_features() -> None:
    # A row of the same class moves the embedding by 2 and no count; of another, by sqrt(2) and counts by
    # sqrt(2). Noise 2 * 3.7306 on both is enough, where worst cases apart ask for 2 * 5.2759.
    embedding = embedding_query(FOURIER, TWO)
    share = free_count_share(embedding)
    assert share == pytest.approx(0.5, rel=1e-4)
    release = PooledRelease((embedding, count_query(share)), 1.0, 1e-5)
    assert release.sigmas[0] == pytest.approx(2 * 3.7306, rel=2e-5)
    assert release.sigmas[1] == pytest.approx(2 * 3.7306, rel=1e-4)
    alone = PooledRelease((embedding,), 1.0, 1e-5)
    assert release.sigmas[0] == pytest.approx(alone.sigmas[0], rel=1e-9)
    assert free_count_share(embedding_query(HERMITE, TWO)) == 0.0


def test_sensitivity_comes_from_the_map() -> None:
    assert embedding_query(FOURIER, TWO).diameter == pytest.approx(2.0, rel=1e-5)
    query = embedding_query(HERMITE, TWO)
    assert query.across == pytest.approx(math.sqrt(2), rel=1e-5)
    assert query.within == pytest.approx(HERMITE.spread, rel=1e-5)
    assert embedding_query(HERMITE, Layout()).diameter == query.within
    assert query.within >= HERMITE.spread


def test_the_event_enters_a_ledger_under_replace_one() -> None:
    release = PooledRelease((embedding_query(FOURIER, TWO), count_query()), 1.0, 1e-5)
    # A disclosure refuses a relation under which its event does not hold.
    Disclosure("r", 1, "owners", "curator", release.event, "replace-one", None, nonce="n")


@pytest.mark.parametrize("secure", [False, True], ids=["simulated", "secure"])
def test_noise_has_the_calibrated_scale_and_keeps_the_lattice(secure: bool) -> None:
    # Once, on whole steps: (steps + noise) is whole where the source draws on its lattice. 2 x 40
    # coordinates 20 times: the deviation of 1600 draws is within 9 % of sigma but for one run in 10^6.
    pooled = pooled_sum(table(500), FOURIER, TWO)
    source = SecureNoise() if secure else simulated(0, "curator", "test")
    sigma = 7.0
    draws = []
    for _ in range(20):
        released = release_embedding(pooled, FOURIER, TWO, sigma, source)
        assert (released.rows, released.sigma) == (500, sigma / 500)
        noisy = released.mean * 500 / ROW_UNIT
        draws.append((noisy - pooled.steps) * ROW_UNIT)
        if secure:
            np.testing.assert_allclose(noisy, np.rint(noisy), atol=1e-4)
    assert np.std(draws) == pytest.approx(sigma, rel=0.09)
    counts = np.array([release_counts(pooled, sigma, source) for _ in range(800)])
    assert np.std(counts - pooled.count) == pytest.approx(sigma, rel=0.09)


@pytest.mark.long
@pytest.mark.parametrize("other_class", [False, True], ids=["same-class", "other-class"])
def test_an_attack_on_the_worst_neighbours_finds_the_claim_and_no_more(other_class: bool) -> None:
    # The best test of two neighbours at the diameter, an embedding with its free class counts: its excess
    # P'(S) - e^epsilon P(S) is delta, in both cases of a replaced row, and clearly more with half the noise.
    # Five standard errors: a false alarm in less than one run in 10^6.
    epsilon, delta, trials = 1.0, 0.05, 20_000
    phi = FourierMapSpec(dimension=2, gamma=500.0, seed=0).make(SCHEMA)
    grid = phi.features(np.linspace(0, 1, 3000)[:, None])
    furthest = float(np.linspace(0, 1, 3000)[np.linalg.norm(grid - grid[0], axis=1).argmax()])
    if other_class:  # at right angles; phi(x) itself does not matter
        furthest = 0.3
    embedding = embedding_query(phi, TWO)
    release = PooledRelease((embedding, count_query(free_count_share(embedding))), epsilon, delta)
    one = pooled_sum(Table(np.array([[0.0], [0.5]]), np.array([0, 1])), phi, TWO)
    two = pooled_sum(Table(np.array([[furthest], [0.5]]), np.array([int(other_class), 1])), phi, TWO)
    source = simulated(5, "curator", "attack")
    step = [(two.sum - one.sum).ravel(), (two.count - one.count).astype(np.float64)]

    def excess(fraction: float) -> tuple[float, float]:
        sigmas = [sigma * fraction for sigma in release.sigmas]
        shift = np.concatenate([d / s for d, s in zip(step, sigmas, strict=True)])
        direction = shift / np.linalg.norm(shift)

        def seen(world: PooledSum) -> bool:
            mean = release_embedding(world, phi, TWO, sigmas[0], source).mean * world.rows
            counts = release_counts(world, sigmas[1], source)
            parts = [(mean - one.sum).ravel() / sigmas[0], (counts - one.count) / sigmas[1]]
            length = float(np.linalg.norm(shift))
            return bool(np.concatenate(parts) @ direction > epsilon / length + length / 2)

        p, q = (sum(seen(world) for _ in range(trials)) / trials for world in (two, one))
        error = math.sqrt((p * (1 - p) + math.exp(2 * epsilon) * q * (1 - q)) / trials)
        return p - math.exp(epsilon) * q, error

    estimate, error = excess(1.0)
    assert abs(estimate - delta) < 5 * error
    estimate, error = excess(0.5)
    assert estimate > delta + 5 * error


def test_without_noise_the_mean_is_exact() -> None:
    pooled = pooled_sum(table(50), HERMITE, TWO)
    released = release_embedding(pooled, HERMITE, TWO, 0.0, SecureNoise())
    assert np.array_equal(released.mean, pooled.steps * (ROW_UNIT / 50))
    assert released.sigma == 0.0
    assert np.array_equal(release_counts(pooled, 0.0, SecureNoise()), pooled.count)


def test_too_few_rows_say_which_epsilon_would_do() -> None:
    # The epsilon that the message names is indeed usable.
    def release(epsilon: float) -> PooledRelease:
        return PooledRelease((embedding_query(FOURIER, TWO), count_query()), epsilon, 1e-5)

    assert not release(1.0).usable_epsilon(0, FOURIER, TWO, 10_000)
    usable = release(0.2).usable_epsilon(0, FOURIER, TWO, 60)
    assert usable > 0.2
    assert not release(usable).usable_epsilon(0, FOURIER, TWO, 60)
    assert release(0.85 * usable).usable_epsilon(0, FOURIER, TWO, 60)


def test_impossible_releases_are_refused() -> None:
    with pytest.raises(ConfigError, match="no queries"):
        PooledRelease((), 1.0, 1e-5)
    with pytest.raises(ConfigError, match="epsilon"):
        PooledRelease((count_query(),), 0.0, 1e-5)
    with pytest.raises(ConfigError, match="delta"):
        PooledRelease((count_query(),), 1.0, 0.0)
    for within, across, share in [(0.0, 0.0, 1.0), (1.0, 1.0, 0.0), (math.inf, 1.0, 1.0), (-1.0, 2.0, 1.0)]:
        with pytest.raises(ConfigError, match="query"):
            Query(within, across, share)
