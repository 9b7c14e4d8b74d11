"""Issue 13, item 9: a coalition's order is split over its members, rows and cells alike."""

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
    found = split(whole, TWO, SIZES)
    for members, at in ((slice(0, 3), 0), (slice(3, 5), 1)):
        assert found.rows[members].sum() == rows[at]
        assert found.uniform[members].sum() == uniform[at]
        ordered = (found.rows - found.uniform)[members]
        cells = ordered @ found.cells[members]
        assert cells == pytest.approx(ordered.sum() * whole.cells[at])
    assert (found.rows <= list(SIZES.values())).all()
    assert (found.uniform <= found.rows).all()
    assert found.weights.sum() == pytest.approx(1.0)
    assert found.weights[:3].sum() == pytest.approx(0.6)
    assert found.weights[0] / found.weights[1] == pytest.approx(30 / 40)


def test_a_member_is_asked_for_few_cells_and_named_the_others_faintly() -> None:
    rows = np.array([4, 4, 4])
    shares = shares_of(rows, np.array([0.25, 0.25, 0.25, 0.25]))
    assert shares[0] == pytest.approx(np.array([3, 1, 0, 0]) / 4, abs=2 * ELSEWHERE)
    assert shares[1] == pytest.approx(np.array([0, 2, 2, 0]) / 4, abs=2 * ELSEWHERE)
    assert (shares > 0).all()
    assert shares.sum(axis=1) == pytest.approx(np.ones(3))


def test_members_are_asked_for_a_few_rows_each_and_none_for_more_than_it_has() -> None:
    sizes = np.full(50, 40)
    few = pieces(40, sizes)
    assert few.sum() == 40
    assert sorted(set(few.tolist())) == [0, 4]
    tight = pieces(95, np.array([2, 3, 90]))
    assert tight.tolist() == [2, 3, 90]
    assert pieces(0, sizes).sum() == 0


def test_owners_that_left_take_their_rows_along() -> None:
    here = {name: SIZES[name] for name in ("a", "b", "d", "e")}
    found = pooled(TWO, here)
    assert found.rows.tolist() == [70, 50]
    assert found.counts.tolist() == [[42, 14, 14, 0], [0, 0, 10, 40]]
    assert found.variance == pytest.approx((2.8**2 + 4.0**2) / 2)
    left = split(orders([20, 11], [0, 0]), TWO, here)
    assert left.rows.sum() == 31
    assert left.rows[:2].sum() == 20


def test_whoever_counted_with_nobody_gets_no_order() -> None:
    found = split(orders([20, 11], [2, 0]), TWO, {**SIZES, "late": 500})
    assert found.rows[-1] == 0
    assert not found.cells[-1].any()


def test_a_coalition_that_is_gone_has_no_part() -> None:
    found = pooled(TWO, {"d": 20, "e": 30})
    assert found.rows.tolist() == [0, 50]
    assert not found.counts[0].any()
