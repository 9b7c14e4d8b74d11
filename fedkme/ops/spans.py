"""Time spans in words."""

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
    """Time left in words, at the average speed of the past `seconds`."""
    if done <= _LEAST_DONE * total:  # a peer may say 5e-324
        return "the time left is not known yet"
    rest = seconds / done * (total - done)
    return f"about {span(rest)} left" if rest >= 1 else "less than 1 s left"


class StageTime:
    """Estimates the time left of a stage from its progress since its first report."""

    def __init__(self) -> None:
        self._stage = ""
        self._began = self._first = 0.0

    def left(self, stage: str, fraction: float, now: float) -> str:
        """Time left in words at the time `now` (seconds); empty at a stage's begin and end."""
        if stage != self._stage:
            self._stage, self._began, self._first = stage, now, fraction
        since = left(fraction - self._first, 1.0 - self._first, now - self._began)
        return since if 0 < fraction < 1 else ""


def with_time_left(say: Callable[..., None]) -> Callable[..., None]:
    """Add the time left to events of progress: a figure of a clock, so the run itself does not report it."""
    times: defaultdict[str, StageTime] = defaultdict(StageTime)

    def report(event: str, **fields: Any) -> None:
        if event == "progress":
            fields["left"] = times[fields["run"]].left(fields["stage"], fields["fraction"], time.monotonic())
        elif event == "ended":
            times.pop(fields["run"], None)
        say(event, **fields)

    return report
