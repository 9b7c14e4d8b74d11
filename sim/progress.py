"""Progress of long work, for people: lines, above a bar where there is a terminal."""

import math
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, TextIO

import rich.progress
from rich.console import Console

from fedkme.ops.spans import StageTime, left
from fedkme.store import Store


@dataclass(frozen=True, slots=True)
class TableStep:
    """Standing of a table, before its first run and after each.

    Attributes:
        done: runs that are in the table, those of an earlier call among them.
        before: runs in the table that were there when this call began.
        total: runs that it is to have.
        line: the run that has just ended and its outcome, in words; empty before the first.
    """

    done: int
    before: int
    total: int
    line: str = ""


class RunPage(Protocol):
    """State of a run's page, as whoever carries the run out knows it."""

    def hear(self, event: str, fields: Mapping[str, Any]) -> None:
        """Take in an event of the curator."""

    def take(self, store: Store, owners: tuple[str, ...], directory: Path) -> None:
        """Read the state from the store of a curator in this process from now on."""

    def finish(self, directory: Path, words: str = "", over: bool = False) -> None:
        """Show `words` and the status in the record of the run's folder; the report once all is over."""


class Follower:
    """Follows a run, and shows nothing.

    Attributes:
        watch: state for the run's page, if there is a page.
    """

    watch: RunPage | None = None

    def started(self, K: int, p: int) -> None:
        """K owners are ready and so many rounds will follow, p in Algorithm 3."""

    def round(self, record: Mapping[str, Any]) -> None:
        """A round is over; keys as in rounds.csv: `accessed` counts points since the start of the run."""

    def stage(self, stage: str, line: str, fraction: float) -> None:
        """Show how far a release is; any thread may call it."""

    def note(self, line: str) -> None:
        """Show a line about how the run goes."""

    def warn(self, line: str) -> None:
        """Show a line about something such as an owner that left."""
        self.note(line)

    def close(self) -> None:
        """End the display when the run is over. May be called twice."""


class Progress(Follower):
    """Follows summaries, releases, and tables of runs; the bar stays on the last line of a terminal."""

    def __init__(self, stream: TextIO, every_s: float = 5.0) -> None:
        """Show on a terminal, a file or a pipe: there lines of one stage come every so often."""
        self._console = Console(file=stream, soft_wrap=True, highlight=False)
        self._bar = _bar(self._console) if self._console.is_terminal else None
        self._rounds, self._unsaid = 0, ""
        self._time, self._stage, self._next, self._every_s = StageTime(), "", 0.0, every_s
        self._began = time.monotonic()

    def note(self, line: str) -> None:
        """Print a line."""
        self._console.print(line, markup=False)

    def started(self, K: int, p: int) -> None:
        """Print how much will follow."""
        self._rounds = p
        ready = "one owner is ready" if K == 1 else f"{K} owners are ready"
        self.note(f"{ready}; {'one round follows' if p == 1 else f'{p} rounds follow'}.")
        self.count(0, p, f"round 0/{p}")

    def round(self, record: Mapping[str, Any]) -> None:
        """Move the bar; elsewhere print a tenth of the rounds, and the last."""
        done, tenth = int(record["round"]), max(1, math.ceil(self._rounds / 10))
        name, words = f"round {done}/{self._rounds}", f"{record['accessed']} points accessed"
        self.count(done, self._rounds, name, words)
        self._unsaid = f"{name}: {words}"
        if done % tenth == 0 or done == self._rounds:
            self._say()

    def stage(self, stage: str, line: str, fraction: float) -> None:
        """Show how far the run is, and how long the stage takes from here."""
        now = time.monotonic()
        another, self._stage = stage != self._stage, stage
        since = self._time.left(stage, fraction, now)
        name, words = f"{stage} {100 * fraction:3.0f} %", f"{line}; {since}" if since else line
        self.count(fraction, 1.0, name, words)
        if self._bar is None and (another or now >= self._next or fraction >= 1.0):
            self._next = now + self._every_s
            self.note(f"{name}  {words}")

    def hear(self, step: TableStep) -> None:
        """Print how each run of a table ended, and how long the others take."""
        if not step.line:
            there = f", {step.before} of them there already" if step.before else ""
            self.note(f"{step.total} runs{there}")
        else:
            now, rest = step.done - step.before, step.total - step.before
            since = f"; {left(now, rest, time.monotonic() - self._began)}" if now < rest else ""
            self.note(f"run {step.done}/{step.total}: {step.line}{since}")
        self.count(step.done, step.total, f"{step.done}/{step.total}")

    def count(self, done: float, total: float, name: str, words: str = "") -> None:
        """Move the bar of a terminal; shows nothing elsewhere."""
        if self._bar is not None:
            if not self._bar.tasks:
                self._bar.add_task(name, words=words)
                self._bar.start()
            task = self._bar.tasks[0].id
            self._bar.update(task, completed=done, total=total, description=name, words=words)

    def close(self) -> None:
        """Print the last round of a run that stopped early, and give the last line of a terminal back."""
        self._say()
        if self._bar is not None:
            self._bar.stop()

    def _say(self) -> None:
        if self._unsaid and self._bar is None:
            self.note(self._unsaid)
        self._unsaid = ""


def _bar(console: Console) -> rich.progress.Progress:
    return rich.progress.Progress(
        rich.progress.TextColumn("{task.description}", markup=False),
        rich.progress.BarColumn(bar_width=20),
        rich.progress.TextColumn("{task.fields[words]}", markup=False),
        console=console,
    )


@contextmanager
def alive(say: Callable[[str], None], every_s: float = 10.0) -> Iterator[None]:
    """Say every so often how long something has taken, until it is over.

    Args:
        say: shows a line; called from another thread.
        every_s: seconds between lines.
    """
    over, started = threading.Event(), time.monotonic()

    def tell() -> None:
        while not over.wait(every_s):
            say(f"still at it: {time.monotonic() - started:.0f} s so far")

    thread = threading.Thread(target=tell, name="alive", daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
