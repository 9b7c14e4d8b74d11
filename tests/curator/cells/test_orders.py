"""Orders: totals, caps, cells that no owner has, and noise."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from curator.cells.orders import QUARTER, USABLE, Histograms, capped, make_orders, uniform_share
from fedkme.cells.histogram import histogram_noise
from fedkme.errors import ConfigError, NotEnoughRowsError
from fedkme.privacy.noise import simulated


def histograms(owners: list[list[int]], validation: list[int]) -> Histograms:
    counts = np.array(owners)
    return Histograms(counts, counts.sum(axis=1), np.array(validation), sum(validation))


def test_an_order_goes_to_the_owner_that_has_the_rows() -> None:
    orders = make_orders(histograms([[90, 10, 0, 0], [0, 0, 50, 50]], [0, 0, 20, 60]), 40)
    assert orders.rows.tolist() == [0, 40]
    assert np.allclose(orders.cells, np.array([[0, 0, 0, 0], [0, 0, 0.25, 0.75]]))
    assert orders.weights == pytest.approx([0, 1], abs=0.01)
    assert orders.dropped == 0


def test_uniform_rows_are_split_in_proportion_to_owners_rows() -> None:
    # Decision 008: a rho p rows are a sample of the pool, and the histograms say where the others come from.
    received = histograms([[90, 10, 0, 0], [0, 0, 50, 50]], [0, 0, 20, 60])
    orders = make_orders(received, 40, uniform=0.5)
    assert orders.uniform.tolist() == [10, 10]
    assert orders.rows.tolist() == [10, 30]
    assert np.allclose(orders.cells, make_orders(received, 20).cells)
    counts = [(directive.count, directive.uniform) for directive in orders.directives()]
    assert counts == [(10, 10), (30, 10)]


def test_a_d_v_that_looks_like_the_pool_gets_half_of_its_rows_uniformly() -> None:
    """Orders by a histogram of D_v that says no more than the pool's would follow noise."""
    pool = np.full((3, 32), 40)
    noise, rng = histogram_noise(1.0), np.random.default_rng(0)
    laws = {"alike": np.full(32, 1 / 32), "other": rng.dirichlet(np.full(32, 0.1))}
    chosen: dict[str, list[float]] = {name: [] for name in laws}
    for name, law in laws.items():
        for seed in range(20):
            owners = pool + simulated(seed, "owners", "cells").discrete_laplace(noise.scale, 96).reshape(
                3, 32
            )
            nu = simulated(seed, "consumer", "cells").discrete_laplace(noise.scale, 32)
            nu = nu + rng.multinomial(100, law)
            histograms = Histograms(owners, pool.sum(axis=1), nu, 100, 1, noise.variance, noise.variance)
            chosen[name].append(uniform_share(histograms))
            undeclared = replace(histograms, validation_variance=0.0)
            assert uniform_share(undeclared) == 0.0
    assert chosen["alike"].count(0.5) >= 18
    assert chosen["other"] == [0.0] * 20


def test_d_v_that_no_owner_has_gets_uniform_rows_in_place_of_orders_by_noise() -> None:
    """Decision 008: a few rows in each of D_v's cells, a fiftieth of the pool, are detected and ordered."""
    noise, law = histogram_noise(1.0), np.repeat([1 / 8, 0.0], [8, 24])
    shares: dict[int, list[float]] = {0: [], 24: []}
    for held in shares:
        pool = np.tile(np.repeat([held // 4, 100], [8, 24]), (4, 1))
        for seed in range(20):
            drawn = simulated(seed, "owners", "cells").discrete_laplace(noise.scale, pool.size)
            nu = simulated(seed, "consumer", "cells").discrete_laplace(noise.scale, 32) + np.rint(250 * law)
            counts = pool + drawn.reshape(pool.shape)
            received = Histograms(counts, pool.sum(axis=1), nu, 250, 1, noise.variance, noise.variance)
            shares[held].append(uniform_share(received))
    assert sum(share > 0.6 for share in shares[0]) >= 18
    assert shares[24].count(0.0) >= 18


def test_a_small_d_v_gets_a_quarter_of_its_rows_uniformly() -> None:
    """Decision 008: nine layouts with 30 to 60 rows of D_v were then nowhere worse than uniform rows."""
    noise = histogram_noise(1.0)
    owners = np.tile([200, 10, 10, 10], (3, 1))
    shares = {}
    for m in (40, 60):
        validation = np.array([0, 0, 0, m])
        of_pool = Histograms(owners, owners.sum(axis=1), validation, m, 1, noise.variance, noise.variance)
        shares[m] = uniform_share(of_pool)
    assert shares == {40: QUARTER, 60: 0.0}
    alike = Histograms(
        owners, owners.sum(axis=1), np.array([35, 2, 2, 1]), 40, 1, noise.variance, noise.variance
    )
    assert uniform_share(alike) == QUARTER  # half of the rows was no better


def test_cells_that_no_owner_has_are_reported_and_ordered_elsewhere() -> None:
    orders = make_orders(histograms([[50, 50, 0], [40, 60, 0]], [10, 10, 20]), 10)
    assert orders.dropped == pytest.approx(0.5)
    assert orders.rows.sum() == 10


def test_a_cell_over_its_cap_moves_to_the_other_owner_of_the_cell() -> None:
    # 30 rows of cell 0 are wanted and owner 0 gives at most 8: owner 1 gives the rest, in the same cell.
    orders = make_orders(histograms([[10, 0], [50, 940]], [30, 0]), 30)
    by_cell = orders.rows[:, None] * orders.cells
    assert by_cell[0, 0] == pytest.approx(8.0, abs=0.01)
    assert by_cell[1, 0] == pytest.approx(22.0, abs=0.01)
    assert np.allclose(by_cell[:, 1], 0, atol=1e-6)


@settings(max_examples=75, deadline=None)
@given(st.data())
def test_orders_respect_totals_limits_and_caps(data: st.DataObject) -> None:
    # For any counts at all, negative ones included.
    owners, cells = data.draw(st.integers(1, 6)), data.draw(st.integers(1, 12))
    counts = data.draw(arrays.arrays(np.int64, (owners, cells), elements=st.integers(-20, 200)))
    nu = data.draw(arrays.arrays(np.int64, cells, elements=st.integers(-20, 200)))
    rows = data.draw(arrays.arrays(np.int64, owners, elements=st.integers(0, 300)))
    total = data.draw(st.integers(1, max(1, int(rows.sum()))))
    share = data.draw(st.sampled_from([0.0, 0.0, 0.25, 0.5, 1.0]))
    received = Histograms(counts, rows, nu, 100)
    if rows.sum() == 0:
        with pytest.raises(NotEnoughRowsError):
            make_orders(received, total)
        return
    orders = make_orders(received, total, uniform=share)
    assert orders.rows.sum() == total
    assert (orders.rows <= rows).all()
    assert orders.uniform.sum() == round(share * total)
    assert (np.abs(orders.uniform - round(share * total) * rows / rows.sum()) < 1).all()
    by_cells = orders.rows - orders.uniform
    assert (by_cells >= 0).all()
    assert np.isfinite(orders.cells).all()
    assert (orders.cells >= -1e-12).all()
    cell_sums = orders.cells.sum(axis=1)
    assert np.allclose(cell_sums[by_cells > 0], 1.0)
    assert not orders.cells[by_cells == 0].any()
    most = USABLE * rows[:, None] * received.shares
    if not share and total <= 0.999 * most.sum():  # caps can be met, up to the rounding of an owner's rows
        assert (orders.rows <= most.sum(axis=1) + 1).all()


@settings(max_examples=100, deadline=None)
@given(st.integers(0, 2**32 - 1), st.floats(0.05, 1.0))
def test_caps_hold_if_their_sum_allows(seed: int, fill: float) -> None:
    rng = np.random.default_rng(seed)
    most = rng.random((4, 6)) * (rng.random((4, 6)) > 0.3)
    held = most * rng.random((4, 1))
    wanted = rng.random((4, 6)) ** 4
    wanted *= fill * most.sum() / wanted.sum()
    allotted = capped(wanted, most, held)
    assert allotted.sum() == pytest.approx(wanted.sum(), rel=1e-6)
    if fill <= 0.99:
        assert (allotted <= most + 1e-6).all()


def test_wrong_arguments_are_refused() -> None:
    with pytest.raises(ConfigError, match="do not fit"):
        Histograms(np.zeros((2, 3), np.int64), np.array([1, 2]), np.zeros(4, np.int64), 1)
    with pytest.raises(NotEnoughRowsError, match="owners have 10"):
        make_orders(histograms([[5, 5]], [1, 1]), 11)
