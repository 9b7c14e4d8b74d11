"""Progress of a release as a person sees it: stages with their lines, on a terminal or in a file."""

from __future__ import annotations

import time
from typing import Protocol, TextIO

from rich.console import Console
from rich.status import Status
from rich.text import Text


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
    """Follows one release: a line that changes in place on a terminal, one after another elsewhere."""

    def __init__(self, stream: TextIO, every_s: float = 5.0) -> None:
        """Show on a terminal, a file or a pipe: there lines of one stage come every so often."""
        self._console = Console(file=stream)
        self._status: Status | None = None
        self._every_s = every_s
        self._stage = ""
        self._next = 0.0

    def note(self, line: str) -> None:
        """Show a line."""
        self._console.print(Text(line))

    def warn(self, line: str) -> None:
        """Show a line."""
        self.note(line)

    def stage(self, stage: str, line: str, fraction: float) -> None:
        """Show how far the run is; any thread may call it."""
        text = f"{stage} {100 * fraction:3.0f} %  {line}"
        if self._console.is_terminal:
            if self._status is None:
                self._status = self._console.status("")
                self._status.start()
            self._status.update(Text(text))
            return
        now = time.monotonic()
        if stage != self._stage or now >= self._next or fraction >= 1.0:
            self._stage, self._next = stage, now + self._every_s
            self.note(text)

    def close(self) -> None:
        """The run is over. May be called twice."""
        if self._status is not None:
            self._status.stop()
            self._status = None
