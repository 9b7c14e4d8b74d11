"""Remaining time of a stage, in words."""

from __future__ import annotations

from typing import Any

from fedkme.ops.spans import StageTime, with_time_left


def test_the_remaining_time_of_a_stage_follows_its_pace() -> None:
    times = StageTime()
    assert times.left("measuring", 0.0, 100.0) == ""
    assert times.left("measuring", 0.1, 110.0) == "about 1 min 30 s left"
    assert times.left("fitting", 0.5, 110.0) == "the time left is not known yet"
    assert times.left("fitting", 0.75, 115.0) == "about 5 s left"
    assert times.left("fitting", 1.0, 120.0) == ""


def test_stages_have_no_times_until_a_party_reports_them() -> None:
    # Two equal runs of a release differed by their times (CI of 827f964).
    heard: list[dict[str, Any]] = []
    say = with_time_left(lambda event, **fields: heard.append({"event": event, **fields}))
    for fraction in (0.0, 0.5, 1.0):
        say("progress", run="run-1", stage="measuring", fraction=fraction)
    say("ended", run="run-1")
    say("progress", run="run-1", stage="measuring", fraction=0.5)
    assert [line.get("left") for line in heard] == [
        "",
        "less than 1 s left",
        "",
        None,
        "the time left is not known yet",
    ]
