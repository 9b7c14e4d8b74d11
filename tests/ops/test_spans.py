"""The time that is left of a stage, in words."""

from __future__ import annotations

from fedkme.ops.spans import StageTime


def test_a_stage_tells_the_time_that_is_left_of_it_by_its_own_pace() -> None:
    times = StageTime()
    assert times.left("measuring", 0.0, 100.0) == ""
    assert times.left("measuring", 0.1, 110.0) == "about 1 min 30 s left"
    assert times.left("fitting", 0.5, 110.0) == "the time left is not known yet"
    assert times.left("fitting", 0.75, 115.0) == "about 5 s left"
    assert times.left("fitting", 1.0, 120.0) == ""
