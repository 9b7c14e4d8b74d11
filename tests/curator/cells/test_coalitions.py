"""Split of a coalition's order over its members: both its rows and its cells."""

from __future__ import annotations

import numpy as np
import pytest

from curator.cells.coalitions import ELSEWHERE, pieces, pooled, shares_of, split
from curator.cells.orders import Orders
from fedkme.exchange import Coalition

TWO = (Coalition(("a", "b", "c"), 100, (60, 20, 20, 0), 4.0), Coalition(("d", "e"), 50, (0, 0, 10, 40), 4.0))
SIZES = {"a": 30, "b": 40, "c": 30, "d": 20, "e": 30}


def orders(rows: list[int], uniform: list[int]) -> Orders:
    cells = np.array([[0.5, 0.3, 0.2, 0.0], [0.0, 0.0, 0.25, 0.75]])
    return Orders(np.array(rows), np.array(uniform), cells, np.array([0.6, 0.4]), 0.0)


@pytest.mark.parametrize("rows", [[20, 11], [0, 31], [90, 50], [1, 1], [100, 0]])
@pytest.mark.parametrize("drawn", [0.0, 0.5])
def test_members_orders_add_up_to_their_coalitions(rows: list[int], drawn: float) -> None:
    uniform = [int(drawn * count) for count in rows]
    whole = orders(rows, uniform)
    member_orders = split(whole, TWO, SIZES)
    for members, at in ((slice(0, 3), 0), (slice(3, 5), 1)):
        assert member_orders.rows[members].sum() == rows[at]
        assert member_orders.uniform[members].sum() == uniform[at]
        ordered = (member_orders.rows - member_orders.uniform)[members]
        cells = ordered @ member_orders.cells[members]
        assert cells == pytest.approx(ordered.sum() * whole.cells[at])
    assert (member_orders.rows <= list(SIZES.values())).all()
    assert (member_orders.uniform <= member_orders.rows).all()
    assert member_orders.weights.sum() == pytest.approx(1.0)
    assert member_orders.weights[:3].sum() == pytest.approx(0.6)
    assert member_orders.weights[0] / member_orders.weights[1] == pytest.approx(30 / 40)


def test_a_member_is_asked_for_few_cells_and_others_get_small_weights() -> None:
    rows = np.array([4, 4, 4])
    shares = shares_of(rows, np.array([0.25, 0.25, 0.25, 0.25]))
    assert shares[0] == pytest.approx(np.array([3, 1, 0, 0]) / 4, abs=2 * ELSEWHERE)
    assert shares[1] == pytest.approx(np.array([0, 2, 2, 0]) / 4, abs=2 * ELSEWHERE)
    assert (shares > 0).all()
    assert shares.sum(axis=1) == pytest.approx(np.ones(3))


def test_no_member_is_asked_for_more_rows_than_it_has() -> None:
    sizes = np.full(50, 40)
    few = pieces(40, sizes)
    assert few.sum() == 40
    assert sorted(set(few.tolist())) == [0, 4]
    tight = pieces(95, np.array([2, 3, 90]))
    assert tight.tolist() == [2, 3, 90]
    assert pieces(0, sizes).sum() == 0


def test_counts_shrink_with_the_rows_of_owners_that_left() -> None:
    sizes = {name: SIZES[name] for name in ("a", "b", "d", "e")}
    counts = pooled(TWO, sizes)
    assert counts.rows.tolist() == [70, 50]
    assert counts.counts.tolist() == [[42, 14, 14, 0], [0, 0, 10, 40]]
    assert counts.variance == pytest.approx((2.8**2 + 4.0**2) / 2)
    member_orders = split(orders([20, 11], [0, 0]), TWO, sizes)
    assert member_orders.rows.sum() == 31
    assert member_orders.rows[:2].sum() == 20


def test_an_owner_outside_of_all_coalitions_gets_no_order() -> None:
    member_orders = split(orders([20, 11], [2, 0]), TWO, {**SIZES, "late": 500})
    assert member_orders.rows[-1] == 0
    assert not member_orders.cells[-1].any()


def test_a_coalition_without_owners_has_no_rows() -> None:
    counts = pooled(TWO, {"d": 20, "e": 30})
    assert counts.rows.tolist() == [0, 50]
    assert not counts.counts[0].any()
