"""Spans of time in words."""

from __future__ import annotations

import pytest

from fedkme.ops.spans import left, span


def test_times_are_written_in_at_most_two_units() -> None:
    assert [span(s) for s in (-3, 5.4, 125, 7384)] == ["0 s", "5 s", "2 min 5 s", "2 h 3 min"]


@pytest.mark.parametrize(
    ("done", "total", "words"),
    [(0, 8, "not known yet"), (2, 8, "about 30 s left"), (8, 8, "less than 1 s left")],
)
def test_the_time_left_follows_from_past_progress(done: int, total: int, words: str) -> None:
    assert words in left(done, total, 10.0)
