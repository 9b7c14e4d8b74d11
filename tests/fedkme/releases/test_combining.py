"""Answers from copies of a release: the rule that combines them."""

from __future__ import annotations

import numpy as np
import pytest

from fedkme.errors import ConfigError
from fedkme.releases.combining import combined


@pytest.mark.parametrize("copies", [2, 5, 100])
@pytest.mark.parametrize(("noise", "drawing"), [(0.3, 0.2), (0.05, 0.2), (0.3, 0.0)])
def test_intervals_of_copies_hold_as_often_as_they_say(copies: int, noise: float, drawing: float) -> None:
    # The release is off from the population's 5 by its noise and by its rows being drawn, each copy from the
    # release by the same law. 4,000 releases; one deviation is .35 %, and the bounds are four of them away.
    rng = np.random.default_rng(0)
    deviation = float(np.hypot(noise, drawing))
    held = 0
    for told in rng.normal(5.0, deviation, 4000):
        found = combined(rng.normal(told, deviation, copies).tolist())
        held += found.low <= 5.0 <= found.high
    assert 0.936 <= held / 4000 <= 0.964


def test_one_copy_is_no_copies() -> None:
    with pytest.raises(ConfigError, match="two copies"):
        combined([1.0])


def test_copies_that_all_say_the_same_tell_no_interval() -> None:
    # It was 0 +- 0 for a category in which no copy has a row.
    found = combined([0.0] * 5)
    assert found.estimate == 0.0
    assert np.isnan([found.deviation, found.low, found.high]).all()
