"""Spans of time in words."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable
from typing import Any

_LEAST_DONE = 1e-9


def span(seconds: float) -> str:
    """Time in words, such as `2 min 5 s`."""
    whole = max(0, round(seconds))
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600} h {whole % 3600 // 60} min"


def left(done: float, total: float, seconds: float) -> str:
    """Words for how long the rest takes, if it goes on as it went for `seconds`."""
    known = done > _LEAST_DONE * total  # a peer may say 5e-324
    return (
        f"about {span(seconds / done * (total - done))} left" if known else "the time left is not known yet"
    )


class StageTime:
    """Tells how long a stage takes from here, by how far it came since it was first told of."""

    def __init__(self) -> None:
        self._stage = ""
        self._began = self._first = 0.0

    def left(self, stage: str, fraction: float, now: float) -> str:
        """Words for the time that is left `now`, in seconds; none at a stage's begin and end."""
        if stage != self._stage:
            self._stage, self._began, self._first = stage, now, fraction
        since = left(fraction - self._first, 1.0 - self._first, now - self._began)
        return since if 0 < fraction < 1 else ""


def with_time_left(say: Callable[..., None]) -> Callable[..., None]:
    """Reports with `left` beside how far a stage is: a clock's figure, hence no part of what a run says."""
    times: defaultdict[str, StageTime] = defaultdict(StageTime)

    def told(event: str, **fields: Any) -> None:
        if event == "progress":
            fields["left"] = times[fields["run"]].left(fields["stage"], fields["fraction"], time.monotonic())
        elif event == "ended":
            times.pop(fields["run"], None)
        say(event, **fields)

    return told
