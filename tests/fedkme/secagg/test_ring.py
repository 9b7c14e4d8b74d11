"""Issue 5, item 2: "fixed-point integers modulo 2^k with range checks that raise"."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from fedkme.errors import ConfigError, SecureAggregationError
from fedkme.secagg import Parameters, diameter_in_steps, least_threshold, to_steps, to_values
from fedkme.secagg.ring import check_steps, from_words, reduce_words, to_words
from tests.fedkme.secagg.runs import parameters


@given(data=st.data(), bits=st.integers(8, 64))
def test_integers_survive_the_ring(data: st.DataObject, bits: int) -> None:
    high = 2 ** (bits - 1)
    steps = data.draw(hnp.arrays(np.int64, 5, elements=st.integers(-high, high - 1)))
    words = to_words(steps, bits)
    assert int(words.max()) < 2**bits
    np.testing.assert_array_equal(from_words(words, bits), steps)


@given(data=st.data(), bits=st.integers(8, 64))
def test_sums_that_fit_come_out_whatever_wraps_between(data: st.DataObject, bits: int) -> None:
    high = 2 ** (bits - 1) // 4
    rows = data.draw(hnp.arrays(np.int64, (4, 3), elements=st.integers(-high, high - 1)))
    masks = data.draw(hnp.arrays(np.uint64, (4, 3), elements=st.integers(0, 2**64 - 1)))
    masks[-1] = -masks[:-1].sum(axis=0)
    total = reduce_words(sum(to_words(row, bits) + mask for row, mask in zip(rows, masks, strict=True)), bits)
    np.testing.assert_array_equal(from_words(total, bits), rows.sum(axis=0))


@given(hnp.arrays(np.float64, 8, elements=st.floats(-15, 15)))
def test_rounding_moves_by_half_a_step_at_most(values: Any) -> None:
    agreed = parameters()
    back = to_values(to_steps(values, agreed), agreed)
    assert np.abs(back - values).max() <= agreed.step / 2
    np.testing.assert_array_equal(to_values(to_steps(back, agreed), agreed), back)  # multiples do not move


@given(
    hnp.arrays(np.float64, 8, elements=st.floats(-7, 7)), hnp.arrays(np.float64, 8, elements=st.floats(-7, 7))
)
def test_the_diameter_after_rounding_is_what_is_stated(one: Any, other: Any) -> None:
    # "the rounding's effect on sensitivity: state the diameter after quantization".
    agreed = parameters()
    before = float(np.linalg.norm(one - other))
    after = float(np.linalg.norm(to_steps(one, agreed) - to_steps(other, agreed)))
    assert after <= diameter_in_steps(before, agreed.step, 8)


def test_the_diameter_of_exact_rows_does_not_grow() -> None:
    assert diameter_in_steps(2.0, 2.0**-10, 10**6, exact=True) == pytest.approx(2048, abs=1e-9)
    assert diameter_in_steps(2.0, 2.0**-10, 10**6) == pytest.approx(2048 + 1000, abs=1e-9)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, 1001 / 64, -1001 / 64, 1e300])
def test_a_value_out_of_range_is_refused_and_never_clipped(value: float) -> None:
    agreed = parameters()
    values = np.zeros(8)
    values[3] = value
    with pytest.raises(SecureAggregationError) as failure:
        to_steps(values, agreed)
    assert "1001" not in str(failure.value)
    assert "15.6" not in str(failure.value)  # no private value in an error


@pytest.mark.parametrize(
    "steps", [np.zeros(7, np.int64), np.zeros(8), np.full(8, -(2**63)), np.full(8, 1001)]
)
def test_steps_out_of_range_are_refused(steps: Any) -> None:
    with pytest.raises(SecureAggregationError):
        check_steps(steps, parameters())


def test_the_largest_bound_is_met_exactly() -> None:
    agreed = parameters(owners=2, dropouts=0, bits=64, bound=2**61 + 1, step=1.0)
    values = np.full(8, 2.0**61)
    assert to_steps(values, agreed).tolist() == [2**61] * 8
    values[0] = np.nextafter(2.0**61, np.inf)
    with pytest.raises(SecureAggregationError):
        to_steps(values, agreed)


@pytest.mark.parametrize(
    "wrong",
    [
        {"threshold": 3, "owners": 5, "colluders": 1},  # 2 t > n + T does not hold
        {"threshold": 5, "owners": 5, "dropouts": 1},
        {"owners": 4, "dropouts": 1, "colluders": 2, "threshold": 3},
        {"owners": 1},
        {"step": 0.3},
        {"step": 0.0},
        {"step": float("inf")},
        {"bits": 65},
        {"bits": 12},  # 5 * 1000 do not fit
        {"bits": 16, "noise": 20000.0},
        {"noise": 0.0},
        {"noise": -1.0},
        {"noise": float("nan")},
        {"length": 0},
        {"length": 2.0},
        {"bound": 0},
        {"run": ""},
        {"names": ("b", "a", "c")},
        {"names": ("a", "a", "c")},
        {"names": ("a", "\ud800", "c")},
    ],
)
def test_parameters_that_promise_nothing_are_refused(wrong: dict[str, Any]) -> None:
    count = wrong.pop("owners", 5)
    if "names" in wrong:
        names = wrong.pop("names")
        wrong |= {"owners": names, "threshold": 2, "dropouts": 1}
        with pytest.raises(ConfigError):
            Parameters(**(vars_of(3) | wrong))
        return
    with pytest.raises(ConfigError):
        parameters(**({"threshold": least_threshold(count, 0)} | {"owners": count} | wrong))


def vars_of(count: int) -> dict[str, Any]:
    agreed = parameters(owners=count)
    return {name: getattr(agreed, name) for name in agreed.__dataclass_fields__}
