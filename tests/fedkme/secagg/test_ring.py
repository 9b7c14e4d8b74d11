"""Fixed-point integers modulo 2^k, and range checks that raise errors."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from fedkme.errors import ConfigError, SecureAggregationError
from fedkme.secagg.parameters import Parameters, least_threshold
from fedkme.secagg.ring import check_steps, from_words, reduce_words, to_words
from tests.fedkme.secagg.runs import parameters


@given(data=st.data(), bits=st.integers(8, 64))
def test_integers_are_equal_after_the_ring(data: st.DataObject, bits: int) -> None:
    high = 2 ** (bits - 1)
    steps = data.draw(hnp.arrays(np.int64, 5, elements=st.integers(-high, high - 1)))
    words = to_words(steps, bits)
    assert int(words.max()) < 2**bits
    np.testing.assert_array_equal(from_words(words, bits), steps)


@given(data=st.data(), bits=st.integers(8, 64))
def test_sums_that_fit_are_exact_even_if_partial_sums_wrap(data: st.DataObject, bits: int) -> None:
    high = 2 ** (bits - 1) // 4
    rows = data.draw(hnp.arrays(np.int64, (4, 3), elements=st.integers(-high, high - 1)))
    masks = data.draw(hnp.arrays(np.uint64, (4, 3), elements=st.integers(0, 2**64 - 1)))
    masks[-1] = -masks[:-1].sum(axis=0)
    total = reduce_words(sum(to_words(row, bits) + mask for row, mask in zip(rows, masks, strict=True)), bits)
    np.testing.assert_array_equal(from_words(total, bits), rows.sum(axis=0))


@pytest.mark.parametrize(
    "steps", [np.zeros(7, np.int64), np.zeros(8), np.full(8, -(2**63)), np.full(8, 1001)]
)
def test_steps_out_of_range_are_refused(steps: Any) -> None:
    with pytest.raises(SecureAggregationError):
        check_steps(steps, parameters())


def test_a_coordinate_at_the_bound_is_accepted_and_errors_show_no_value() -> None:
    steps = np.full(8, 1000)
    check_steps(steps, parameters())
    steps[3] = 1001
    with pytest.raises(SecureAggregationError) as failure:
        check_steps(steps, parameters())
    assert "1001" not in str(failure.value)


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
def test_parameters_without_any_privacy_are_refused(wrong: dict[str, Any]) -> None:
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
