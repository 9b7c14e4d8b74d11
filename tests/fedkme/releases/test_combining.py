"""Estimates from several copies of a release: the rule that combines them."""

from __future__ import annotations

import numpy as np
import pytest

from fedkme.errors import ConfigError
from fedkme.releases.combining import combined


@pytest.mark.parametrize("copies", [2, 5, 100])
@pytest.mark.parametrize(("noise", "drawing"), [(0.3, 0.2), (0.05, 0.2), (0.3, 0.0)])
def test_intervals_from_copies_cover_with_95_percent(copies: int, noise: float, drawing: float) -> None:
    # The release differs from the population's 5 by its noise and by drawing its rows; each copy differs from
    # the release by the same law. 4,000 releases: one standard error is .35 %, and the bounds are four of
    # these away (6e-5). The seed is fixed.
    rng = np.random.default_rng(0)
    deviation = float(np.hypot(noise, drawing))
    hits = 0
    for release in rng.normal(5.0, deviation, 4000):
        interval = combined(rng.normal(release, deviation, copies).tolist())
        hits += interval.low <= 5.0 <= interval.high
    assert 0.936 <= hits / 4000 <= 0.964


def test_one_copy_is_refused() -> None:
    with pytest.raises(ConfigError, match="two copies"):
        combined([1.0])


def test_equal_estimates_give_no_interval() -> None:
    # Such as of a category in which no copy has a row.
    share = combined([0.0] * 5)
    assert share.estimate == 0.0
    assert np.isnan([share.deviation, share.low, share.high]).all()
