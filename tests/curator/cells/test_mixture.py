"""Mixture of owners: exact without noise, and even among owners with the same rows."""

import tracemalloc

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.optimize import nnls

from curator.cells.mixture import EVENNESS, Parts, mixture
from curator.cells.orders import Histograms, Orders, make_orders
from curator.payouts.payout import by_mixture
from fedkme.cells.histogram import histogram_noise
from fedkme.privacy.noise import simulated

Counts = NDArray[np.int64]
NOISE = histogram_noise(0.72)
NOISE_V = histogram_noise(1.0)
M = 250


def exact(shares: NDArray[np.float64], mass: NDArray[np.float64]) -> Parts:
    owners = len(shares)
    return Parts(shares, mass, np.zeros(owners, np.int64), np.zeros(owners))


def test_the_mixture_is_exact_without_noise() -> None:
    q = np.array([[0.7, 0.3, 0, 0], [0, 0.5, 0.5, 0], [0, 0, 0.1, 0.9]])
    truth = np.array([0.6, 0.0, 0.4])
    mass = np.full(3, 1 / 3)
    assert mixture(exact(q, mass), truth @ q) == pytest.approx(truth, abs=0.01)
    assert mixture(exact(np.zeros((2, 4)), mass[:2]), np.ones(4) / 4) == pytest.approx([0, 0])
    one = exact(np.array([[1.0, 0], [0, 0]]), mass[:2])
    assert mixture(one, np.array([-0.1, -0.2])) == pytest.approx([1, 0])
    # Two parts that look alike are used in proportion to their mass.
    alike = exact(np.array([[0.5, 0.5], [0.5, 0.5]]), np.array([0.9, 0.1]))
    assert mixture(alike, np.ones(2) / 2) == pytest.approx([0.9, 0.1], abs=1e-3)


def dense(parts: Parts, nu: NDArray[np.float64]) -> NDArray[np.float64]:
    """Reference fit of the mixture by the dense squares of the module's docstring, (B + 1 + 2 P, P)."""
    q, s, g = parts.shares, np.where(parts.shares.any(axis=1), parts.mass, 0.0), parts.kinds
    alike = (g[:, None] == g).astype(np.float64)
    f = s / (alike @ s)
    members = np.stack([g == kind for kind in range(g.max() + 1)]).astype(np.float64)
    pooled = members * f @ q
    b, one = np.append(nu, 3.0), np.full((1, len(pooled)), 3.0)
    first, _ = nnls(np.concatenate([pooled.T, one, 0.02 * np.eye(len(pooled))]), np.append(b, 0.0 * one))
    sigma = members * f @ parts.noise
    lam = EVENNESS * np.linalg.norm(nu - first @ pooled) * sigma / np.maximum(first, 0.01)
    pull = np.sqrt(lam[g] / np.maximum(f, 1e-6))[:, None] * (np.eye(len(f)) - f[:, None] * alike)
    ridge = 0.02 * np.diag(np.sqrt(s[s > 0].mean() / np.maximum(s, 1e-6)))
    design = np.concatenate([q.T, np.full((1, len(f)), 3.0), ridge, pull])
    w, _ = nnls(design, np.append(b, np.zeros(2 * len(f))), maxiter=100 * len(f))
    w = np.where(s > 0, w, 0.0)
    return np.asarray(w / w.sum())


@pytest.mark.parametrize("noise", [0.0, 0.01, 0.3])
@pytest.mark.parametrize("seed", range(8))
def test_the_fit_equals_a_dense_least_squares_fit(seed: int, noise: float) -> None:
    """The linear-time fit equals the dense reference fit, also where owners have no rows of a class."""
    rng = np.random.default_rng(seed)
    kinds = np.tile(np.arange((1, 2, 5)[seed % 3]), 12)
    size = len(kinds)
    shares = rng.dirichlet(np.full(8, 0.3), size)
    shares[5:][rng.random(size - 5) < 0.2] = 0.0
    parts = Parts(shares, rng.dirichlet(np.ones(size)), kinds, noise * rng.random(size))
    nu = rng.dirichlet(np.full(8, 0.5)) + 0.02 * rng.standard_normal(8)
    assert mixture(parts, nu) == pytest.approx(dense(parts, nu), abs=1e-9)


def test_memory_is_linear_in_owners() -> None:
    """A matrix of owners by owners would take 5 GiB and hours for 10,000 owners."""
    most = []
    for owners in (1000, 2000):
        rng = np.random.default_rng(0)
        q, mass = rng.dirichlet(np.full(16, 0.3), owners), np.full(owners, 1 / owners)
        parts = Parts(q, mass, np.zeros(owners, np.int64), np.full(owners, 0.02))
        tracemalloc.start()
        mixture(parts, rng.dirichlet(np.full(16, 0.3)))
        most.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert most[1] < 2.2 * most[0] < 4e6


def ordered(owners: Counts, seed: int, labels: int = 1) -> tuple[Histograms, Orders]:
    """Orders over 200 rows of owners with these counts, for a D_v unlike each of them, with noise."""
    size = owners.shape[1] // labels
    law = np.random.default_rng(1).dirichlet(np.full(size, 0.4))
    exact_v = np.random.default_rng(2).multinomial(M, law)
    nu = exact_v + simulated(seed, "consumer", "cells").discrete_laplace(NOISE_V.scale, size)
    noisy = [
        own + simulated(seed, f"owner-{i}", "cells").discrete_laplace(NOISE.scale, len(own))
        for i, own in enumerate(owners)
    ]
    received = Histograms(np.stack(noisy), owners.sum(axis=1), nu, M, labels, NOISE.variance)
    return received, make_orders(received, 200)


def pool(rows: int, cells: int, seed: int, concentration: float = 0.5) -> Counts:
    rng = np.random.default_rng(seed)
    return rng.multinomial(rows, rng.dirichlet(np.full(cells, concentration)))


@pytest.mark.parametrize(("rows", "cells", "labels"), [(1200, 32, 1), (300, 16, 1), (2400, 20, 5)])
def test_equal_owners_are_treated_alike_within_the_noise(rows: int, cells: int, labels: int) -> None:
    """Two owners with the same rows; an earlier fit gave one .885 of the orders and all of the pay."""
    twin, other = pool(rows, cells * labels, 3), pool(rows, cells * labels, 4)
    gaps = []
    for seed in range(20):
        _, orders = ordered(np.stack([twin, twin, other]), seed, labels)
        assert 0.3 < orders.weights[0] / orders.weights[:2].sum() < 0.7
        gaps.append(orders.weights[0] - orders.weights[1])
        paid = by_mixture(dict(zip("abc", orders.weights.tolist(), strict=True)), 1000).amounts
        assert 0.29 < paid["a"] / (paid["a"] + paid["b"]) < 0.71
        assert 0.25 < orders.rows[0] / orders.rows[:2].sum() < 0.75
    assert abs(np.mean(gaps)) < 4 * np.std(gaps) / np.sqrt(len(gaps))  # neither is preferred


def test_the_owner_that_d_v_resembles_gets_the_orders() -> None:
    """The owner that D_v looks like gets the orders."""
    law = np.random.default_rng(1).dirichlet(np.full(32, 0.4))
    right = np.random.default_rng(5).multinomial(1200, law)
    _, orders = ordered(np.stack([right, pool(1200, 32, 6), pool(1200, 32, 7)]), 0)
    assert orders.weights[0] > 0.9


RARE = np.array([0.01, 0.02, 0.03, 0.04, 0.02])


def test_a_rare_cell_that_all_owners_have_is_ordered_from_all_of_them() -> None:
    """An earlier fit ordered all rows from the owner of the largest share, which has 40 of the 120 rows."""
    rows = np.full(len(RARE), 1000)
    owners = np.stack([np.array([1000 * own, *np.full(10, 100 - 100 * own)]) for own in RARE]).round()
    wanted = np.array([M, *np.zeros(10)]).astype(np.int64)
    for seed in (None, *range(5)):
        counts, nu, variances = owners.astype(np.int64), wanted, (0.0, 0.0)
        if seed is not None:
            noise = simulated(seed, "consumer", "cells")
            nu = wanted + noise.discrete_laplace(NOISE_V.scale, 11)
            counts = counts + noise.discrete_laplace(NOISE.scale, owners.size).reshape(owners.shape)
            variances = (NOISE.variance, NOISE_V.variance)
        orders = make_orders(Histograms(counts, rows, nu, M, 1, *variances), 80, least=1)
        most_rare = orders.cells[:, 0] * orders.rows
        assert (most_rare >= 4).all()  # the fit without shares by rows gives 1, 1, 1, 32 and 1


def test_orders_follow_a_mixture_of_owners_under_noise() -> None:
    """Orders go to the two owners of the mixture; what noise alone leaves is not shared by rows."""
    laws = np.random.default_rng(1).dirichlet(np.full(32, 0.3), 4)
    owners = np.stack([np.random.default_rng(own).multinomial(2000, law) for own, law in enumerate(laws)])
    idle = []
    for seed in range(10):
        noise = simulated(seed, "consumer", "cells")
        exact_v = np.random.default_rng(seed).multinomial(M, (laws[0] + laws[1]) / 2)
        nu = exact_v + noise.discrete_laplace(NOISE_V.scale, 32)
        received = Histograms(owners, np.full(4, 2000), nu, M, 1, 0.0, NOISE_V.variance)
        idle.append(make_orders(received, 200).rows[2:].sum())
    assert np.mean(idle) < 20


def test_the_order_of_owners_does_not_matter() -> None:
    parts = Parts(
        np.random.default_rng(0).dirichlet(np.ones(6), 8),
        np.full(8, 1 / 8),
        np.tile([0, 1], 4),
        np.full(8, 0.01),
    )
    nu = np.random.default_rng(1).dirichlet(np.ones(6))
    turned = Parts(parts.shares[::-1], parts.mass, parts.kinds[::-1], parts.noise)
    assert mixture(turned, nu)[::-1] == pytest.approx(mixture(parts, nu), abs=1e-9)
    assert EVENNESS > 1
