"""h1: its two forms, their error and their norms (MATH.md, section 1)."""

from __future__ import annotations

import math
from typing import get_args

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from fedkme.embeddings.kernels import rbf
from fedkme.errors import ConfigError
from fedkme.features.fixed_point import kernel_error_bound, normalised_features
from fedkme.features.fourier import FourierSpec, Kind, RandomFourier
from fedkme.protocol import AuctionTerms
from tests.curator.summary.fakes import SCHEMA, Listener, bidder, make_settings, make_task, owners, run

KINDS: tuple[Kind, ...] = get_args(Kind)
GAMMA, WIDTH = 0.5, 6
ROWS = np.random.default_rng(1).normal(size=(40, WIDTH))
KERNEL = rbf(ROWS, ROWS, GAMMA)


def draw(kind: Kind, dimension: int = 140, seed: int = 0) -> RandomFourier:
    return RandomFourier(FourierSpec(kind, dimension, GAMMA, WIDTH, seed))


def fixed_point_h1(h1: RandomFourier, rows: NDArray[np.float64]) -> NDArray[np.float64]:
    """h1 in fixed point, as the parties use it, in units of the kernel."""
    scale = math.sqrt(2 / h1.spec.dimension)
    return np.asarray(scale * normalised_features(h1.fixed_point(rows)))


@pytest.mark.parametrize("kind", KINDS)
def test_the_kernel_error_obeys_its_bound(kind: Kind) -> None:
    # For each d the bound fails with probability 1e-9, over all 780 pairs at once.
    pairs = len(ROWS) * (len(ROWS) - 1) // 2
    for dimension in (16, 140, 1024, 8192):
        features = fixed_point_h1(draw(kind, dimension), ROWS)
        error = np.abs(features @ features.T - KERNEL)[np.triu_indices(len(ROWS), 1)].max()
        assert error <= kernel_error_bound(dimension, pairs, 1e-9)


def test_the_kernel_error_bound_scales_with_dimension_pairs_and_failure() -> None:
    # Rahimi & Recht 2008: four times the dimension, half the error (but for the rounding's 2^-12).
    rounding = 2.0**-12
    small, large = (kernel_error_bound(d, 10, 1e-3) - rounding for d in (100, 400))
    assert large == pytest.approx(small / 2, rel=1e-12)
    assert kernel_error_bound(100, 11, 1e-3) > kernel_error_bound(100, 10, 1e-3)
    assert kernel_error_bound(100, 10, 1e-4) > kernel_error_bound(100, 10, 1e-3)


def test_both_forms_are_unbiased_and_the_paired_one_varies_less() -> None:
    # With z = omega . (x - y), Var cos z = (1 - k^2)^2 / 2. To this the
    # printed form adds the variance 1/2 of a cosine of random phase, d times; the paired one has d/2 terms
    # and no such addition. 2000 draws: means within 6 and variances within 8 standard errors (of about
    # 1/31), for 24 pairs and two forms wrong with probability below 2e-7.
    draws, dimension, rows = 2000, 20, 0.3 * ROWS[:25]
    kernel = rbf(rows[:1], rows[1:], GAMMA)[0]
    spread = (1 - kernel**2) ** 2
    variances = {"paired": spread / dimension, "offset": (spread / 2 + 1 / 2) / dimension}
    for kind in KINDS:
        hashes = [draw(kind, dimension, seed)(rows) for seed in range(draws)]
        products = np.array([h[1:] @ h[0] for h in hashes])
        assert np.all(np.abs(products.mean(axis=0) - kernel) <= 6 * products.std(axis=0) / math.sqrt(draws))
        np.testing.assert_allclose(products.var(axis=0), variances[kind], rtol=0.25)
    assert np.all(variances["paired"] < variances["offset"])


@given(st.lists(st.floats(-50, 50), min_size=WIDTH, max_size=WIDTH), st.integers(0, 2**64 - 1))
def test_no_norm_exceeds_the_bound_of_sensitivities(row: list[float], seed: int) -> None:
    # MATH.md, h1: norm exactly 1 in the paired form; up to sqrt 2 in the printed one. Fixed point rounds
    # towards zero, so the bound holds for what is computed (fixed_point, head).
    rows = np.array([row])
    paired, offset = (draw(kind, 32, seed) for kind in ("paired", "offset"))
    assert np.linalg.norm(paired(rows)) == pytest.approx(paired.norm_bound, abs=1e-14)
    for h1 in (paired, offset):
        integers = h1.fixed_point(rows).astype(np.int64)
        assert 2 * (integers**2).sum() <= h1.norm_bound**2 * 32 * 2**28  # no rounding in this comparison
    assert np.linalg.norm(offset(rows)) <= offset.norm_bound == math.sqrt(2)


def test_the_printed_form_needs_its_larger_bound() -> None:
    # MATH.md, h1: "a sensitivity that assumes norm 1 is not a proof": its norms straddle 1.
    norms = np.linalg.norm(draw("offset")(ROWS), axis=1)
    assert norms.min() < 0.99
    assert norms.max() > 1.01


@pytest.mark.parametrize("kind", KINDS)
def test_equal_seeds_give_equal_draws(kind: Kind) -> None:
    first, again, other = (draw(kind, seed=seed).fixed_point(ROWS) for seed in (7, 7, 8))
    assert np.array_equal(first, again)
    assert np.mean(first == other) < 0.01


def test_every_party_of_a_run_makes_the_same_draw() -> None:
    # Owners get enough from the curator to bid by its h1.
    task = make_task(3)
    listeners = [Listener(bidder(name, rows)) for name, rows in owners(4, 4).items()]
    run(task, make_settings(), listeners)
    rows = np.random.default_rng(3).random((5, SCHEMA.encoded_width))
    for listener in listeners:
        (invitation,) = listener.invitations
        assert isinstance(invitation.terms, AuctionTerms)
        assert isinstance(invitation.terms.features, FourierSpec)
        assert np.array_equal(RandomFourier(invitation.terms.features)(rows), task.h1(rows))


@pytest.mark.parametrize(
    ("kind", "dimension", "gamma"),
    [
        ("paired", 141, 0.1),
        ("paired", 0, 0.1),
        ("offset", 10, 0.0),
        ("offset", 10, math.nan),
        ("offset", 10, -1.0),
    ],
)
def test_an_impossible_map_is_refused_in_one_line(kind: Kind, dimension: int, gamma: float) -> None:
    with pytest.raises(ConfigError, match="error 10"):
        FourierSpec(kind, dimension, gamma, WIDTH, 0)
