"""Progress of a run as a person sees it: a live bar on a terminal, plain lines elsewhere."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Protocol, TextIO

import rich.progress
from rich.console import Console
from rich.text import Text


class Progress(Protocol):
    """Follows one run."""

    def started(self, K: int, p: int) -> None:
        """K owners are ready and so many rounds will follow, p in Algorithm 3."""

    def round(self, record: Mapping[str, Any]) -> None:
        """A round is over; keys as in rounds.csv: `accessed` counts points since the start of the run."""

    def note(self, line: str) -> None:
        """Show a line about how the run goes."""

    def warn(self, line: str) -> None:
        """Show a line about something such as an owner that left."""

    def close(self) -> None:
        """The run is over, whatever its end. May be called twice."""


def make_progress(stream: TextIO) -> Progress:
    """The kind of progress that suits a stream."""
    return LiveProgress(Console(file=stream)) if stream.isatty() else PlainProgress(stream)


class LiveProgress:
    """A progress bar that stays on the last line of a terminal; notes scroll above it."""

    def __init__(self, console: Console) -> None:
        self._bar = rich.progress.Progress(
            rich.progress.TextColumn("round {task.completed:.0f}/{task.total:.0f}"),
            rich.progress.BarColumn(bar_width=None),
            rich.progress.TextColumn("{task.fields[state]}"),
            _Rate(),
            console=console,
            expand=True,
        )
        self._task: rich.progress.TaskID | None = None

    def started(self, K: int, p: int) -> None:
        """Show the bar."""
        self.note(_opening(K, p))
        self._task = self._bar.add_task("rounds", total=p, state="")
        self._bar.start()

    def round(self, record: Mapping[str, Any]) -> None:
        """Move the bar."""
        if self._task is not None:
            self._bar.update(self._task, completed=int(record["round"]), state=_state(record))

    def note(self, line: str) -> None:
        """Print a line above the bar."""
        self._bar.console.print(Text(line))

    def warn(self, line: str) -> None:
        """Print a line above the bar."""
        self.note(line)

    def close(self) -> None:
        """Leave the bar as it is and give the last line back."""
        self._bar.stop()


class _Rate(rich.progress.ProgressColumn):
    """Rounds per second."""

    def render(self, task: rich.progress.Task) -> Text:
        speed = task.finished_speed or task.speed
        return Text("" if speed is None else f"{speed:.3g} rounds/s")


class PlainProgress:
    """Lines for a file or a pipe: about every 10 % of the rounds, every note, and the last round reached."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._rounds = 0
        self._step = 1
        self._unsaid: Mapping[str, Any] | None = None

    def started(self, K: int, p: int) -> None:
        """Print how much will follow."""
        self._rounds = p
        self._step = max(1, math.ceil(p / 10))
        self.note(_opening(K, p))

    def round(self, record: Mapping[str, Any]) -> None:
        """Print a tenth of the rounds, and the last."""
        self._unsaid = record
        if int(record["round"]) % self._step == 0 or int(record["round"]) == self._rounds:
            self._say()

    def note(self, line: str) -> None:
        """Print a line."""
        print(line, file=self._stream, flush=True)

    def warn(self, line: str) -> None:
        """Print a line."""
        self.note(line)

    def close(self) -> None:
        """Print the last round of a run that stopped early."""
        self._say()

    def _say(self) -> None:
        if self._unsaid is not None:
            self.note(f"round {self._unsaid['round']}/{self._rounds}: {_state(self._unsaid)}")
            self._unsaid = None


def _opening(owners: int, rounds: int) -> str:
    """The first line of a run."""
    ready = "one owner is ready" if owners == 1 else f"{owners} owners are ready"
    return f"{ready}; {'one round follows' if rounds == 1 else f'{rounds} rounds follow'}."


def _state(record: Mapping[str, Any]) -> str:
    """Points accessed: how close the rows are to D_v the consumer alone can tell, when they are there."""
    return f"{record['accessed']} points accessed"
