"""Constants that break ties: their law, and one constant a row for a whole run."""

from __future__ import annotations

import numpy as np
import pytest

from fedkme.embeddings.tie_breaks import MOST_TIE_BREAK, constants_of
from owner.consent.pools import tie_breaks


def test_half_as_many_rows_reach_each_larger_constant() -> None:
    # The module's law over evenly spread keys, without chance. One row in 4,096 is near the largest constant.
    constants = constants_of(np.arange(2**20, dtype=np.uint64) << np.uint64(44))
    assert constants.min() >= 0.0
    assert constants.max() == MOST_TIE_BREAK
    for least in range(1, 9):
        assert np.mean(constants >= least) == pytest.approx(2.0**-least, rel=0.07)
    assert (np.diff(constants) <= 0).all()


def test_constants_are_a_function_of_secret_run_and_place_alone() -> None:
    # The clock's proof needs this: neighbours with the same coins have the same constants, whatever their
    # rows hold, and an added row changes no other row's constant.
    constants = tie_breaks(b"secret", "run-1", 9)
    np.testing.assert_array_equal(constants, tie_breaks(b"secret", "run-1", 12)[:9])
    for other in (tie_breaks(b"other", "run-1", 9), tie_breaks(b"secret", "run-2", 9)):
        assert not (constants == other).any()
