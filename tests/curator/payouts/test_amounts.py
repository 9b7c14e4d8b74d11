"""Amounts of payouts: they add up, and the payout states what they reveal."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from curator.payouts.payout import by_gains, by_mixture, by_price, by_rows, divide
from fedkme.errors import ConfigError, PolicyError
from fedkme.privacy.accountants import Sound

NAMES = st.sampled_from([f"owner-{i}" for i in range(9)])
VALUES = st.dictionaries(NAMES, st.floats(-1e6, 1e6), min_size=1)


@given(VALUES, st.integers(0, 10**12))
def test_amounts_add_up_and_are_within_a_unit_of_their_quota(values: dict[str, float], total: int) -> None:
    """Largest remainder: amounts add up to the total, and a negative value is paid nothing."""
    amounts, shares = divide(total, values)
    assert sum(amounts.values()) == total
    assert math.isclose(sum(shares.values()), 1.0)
    for name, amount in amounts.items():
        assert amount >= 0
        assert abs(amount - total * shares[name]) <= 1 + 1e-15 * total
        if values[name] <= 0 and max(values.values()) > 0:
            assert amount == 0


def test_largest_remainder_by_hand() -> None:
    """Quotas 4.7, 3.5, 1.8: floors leave two units, which go to .8 and .7; ties go to the first name."""
    assert divide(10, {"a": 47, "b": 35, "c": 18})[0] == {"a": 5, "b": 3, "c": 2}
    assert divide(2, {"c": 1.0, "b": 1.0, "a": 1.0})[0] == {"a": 1, "b": 1, "c": 0}
    assert divide(5, {"a": 0.0, "b": -1.0})[0] == {"a": 3, "b": 2}


@pytest.mark.parametrize("values", [{}, {"a": math.nan}, {"a": math.inf}])
def test_values_that_cannot_be_divided_are_refused(values: dict[str, float]) -> None:
    with pytest.raises(ConfigError):
        divide(10, values)


def test_a_price_reveals_nothing_and_a_divided_total_reveals_the_sum() -> None:
    """An owner's amount by price is the same whatever others sent; a total divided by counts is not."""
    few, many = {"a": 10, "b": 5}, {"a": 10, "b": 90}
    assert by_price(few, 7).statement("a") == by_price(many, 7).statement("a")
    divided = by_rows(few, 1000, public=False), by_rows(many, 1000, public=False)
    assert divided[0].amounts["a"] != divided[1].amounts["a"]
    for payout in divided:
        assert payout.event is not None
        assert math.isinf(Sound().epsilon([payout.event], 1e-5).epsilon)
        with pytest.raises(PolicyError):
            payout.statement("a")
    statement = by_rows(few, 1000, public=True).statement("a")
    assert statement == {"owner": "a", "method": "rows", "amount": 667}


def test_exact_gains_are_for_the_curator_alone() -> None:
    payout = by_gains({"a": 1.0, "b": 3.0}, 100)
    assert payout.amounts == {"a": 25, "b": 75}
    assert payout.event is not None
    assert math.isinf(Sound().epsilon([payout.event], 1e-5).epsilon)
    with pytest.raises(PolicyError):
        payout.statement("b")


def test_mixture_pays_by_the_weights_that_orders_followed() -> None:
    payout = by_mixture({"a": 0.005, "b": 0.695, "c": 0.3, "d": 0.0}, 1000)
    assert payout.event is None
    assert payout.amounts == {"a": 5, "b": 695, "c": 300, "d": 0}
    assert payout.statement("c")["amount"] == 300


def test_weights_that_are_no_numbers_are_refused() -> None:
    for weights in ({}, {"a": math.nan}):
        with pytest.raises(ConfigError):
            by_mixture(weights, 10)
