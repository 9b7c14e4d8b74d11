"""Progress of a release as a person sees it: stages with their lines, on a terminal or in a file."""

from __future__ import annotations

import time
from typing import Protocol, TextIO

import rich.progress
from rich.console import Console
from rich.text import Text

from fedkme.ops.spans import StageTime


class ReleaseFollower(Protocol):
    """Follows one release."""

    def note(self, line: str) -> None:
        """Show a line about how the run goes."""

    def warn(self, line: str) -> None:
        """Show a line about something such as an owner that left."""

    def stage(self, stage: str, line: str, fraction: float) -> None:
        """Show how far the run is; any thread may call it."""

    def close(self) -> None:
        """The run is over. May be called twice."""


class ReleaseProgress:
    """Follows one release: a bar on the last line of a terminal, one line after another elsewhere."""

    def __init__(self, stream: TextIO, every_s: float = 5.0) -> None:
        """Show on a terminal, a file or a pipe: there lines of one stage come every so often."""
        self._console = Console(file=stream)
        self._bar = _bar(self._console) if self._console.is_terminal else None
        self._task: rich.progress.TaskID | None = None
        self._every_s = every_s
        self._stage = ""
        self._time = StageTime()
        self._next = 0.0

    def note(self, line: str) -> None:
        """Show a line."""
        self._console.print(Text(line))

    def warn(self, line: str) -> None:
        """Show a line."""
        self.note(line)

    def stage(self, stage: str, line: str, fraction: float) -> None:
        """Show how far the run is, and how long the stage takes from here; any thread may call it."""
        now = time.monotonic()
        another, self._stage = stage != self._stage, stage
        since = self._time.left(stage, fraction, now)
        words = f"{line}; {since}" if since else line
        if self._bar is not None:
            if self._task is None:
                self._task = self._bar.add_task("", total=1.0, stage=stage, line=words)
                self._bar.start()
            self._bar.update(self._task, completed=fraction, stage=stage, line=words)
        elif another or now >= self._next or fraction >= 1.0:
            self._next = now + self._every_s
            self.note(f"{stage} {100 * fraction:3.0f} %  {words}")

    def close(self) -> None:
        """The run is over. May be called twice."""
        if self._bar is not None:
            self._bar.stop()


def _bar(console: Console) -> rich.progress.Progress:
    return rich.progress.Progress(
        rich.progress.TextColumn("{task.fields[stage]} {task.percentage:3.0f} %"),
        rich.progress.BarColumn(bar_width=20),
        rich.progress.TextColumn("{task.fields[line]}", markup=False),
        console=console,
    )
