"""Answers from copies of a release: the rule that combines them."""

from __future__ import annotations

import numpy as np
import pytest

from fedkme.errors import ConfigError
from fedkme.releases.combining import combined


@pytest.mark.parametrize(("copies", "most"), [(5, 0.995), (10, 0.995), (100, 0.97)])
def test_intervals_of_copies_hold_as_often_as_they_say_or_more_where_they_are_few(
    copies: int, most: float
) -> None:
    # Raghunathan, Reiter and Rubin 2003: the population's mean given the release is N(q, 0.3^2), each copy is
    # 400 rows of deviation 4 (0.2 for its mean). 2,000 releases; one deviation is 0.5 %.
    rng = np.random.default_rng(0)
    held = 0
    for told in rng.normal(5.0, 0.3, 2000):
        means = rng.normal(told, 0.3, copies) + rng.normal(0.0, 0.2, copies)
        found = combined(means.tolist(), [0.04] * copies)
        held += found.low <= 5.0 <= found.high
    assert 0.93 <= held / 2000 <= most


def test_copies_that_differ_less_than_their_rows_make_a_cautious_interval() -> None:
    found = combined([1.0, 1.1, 0.9], [0.25, 0.25, 0.25])
    assert found.deviation == pytest.approx(0.5)
    assert found.low < 0.0 < found.high


@pytest.mark.parametrize(("estimates", "variances"), [([1.0], [1.0]), ([1.0, 2.0], [1.0])])
def test_one_copy_is_no_copies(estimates: list[float], variances: list[float]) -> None:
    with pytest.raises(ConfigError, match="two copies"):
        combined(estimates, variances)
