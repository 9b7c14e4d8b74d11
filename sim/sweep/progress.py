"""Progress of a sweep as a person sees it: lines, above a bar where there is a terminal."""

from __future__ import annotations

import time
from typing import TextIO

import rich.progress
from rich.console import Console

from fedkme.ops.spans import left
from sim.sweep.measure import Row
from sim.sweep.run import SweepStep


class SweepProgress:
    """Follows one sweep: a line for each run that ends, with the time that is left."""

    def __init__(self, stream: TextIO) -> None:
        self._console = Console(file=stream, soft_wrap=True, highlight=False)
        self._started = time.monotonic()
        self._bar = rich.progress.Progress(console=self._console) if stream.isatty() else None
        self._task: rich.progress.TaskID | None = None

    def hear(self, step: SweepStep) -> None:
        """Hear where the sweep stands."""
        if step.run is None or step.row is None:
            there = f", {step.before} of them there already" if step.before else ""
            self._say(f"{step.total} runs{there}")
        else:
            left = self._left(step)
            self._say(f"run {step.done}/{step.total}: {step.run.words()}: {outcome(step.row)}{left}")
        if self._bar is not None:
            self._task = self._task if self._task is not None else self._bar.add_task("", total=step.total)
            self._bar.update(self._task, completed=step.done)
            self._bar.start()

    def close(self) -> None:
        """Give the last line of the terminal back."""
        if self._bar is not None:
            self._bar.stop()

    def _left(self, step: SweepStep) -> str:
        if step.done == step.total:
            return ""
        return (
            f"; {left(step.done - step.before, step.total - step.before, time.monotonic() - self._started)}"
        )

    def _say(self, line: str) -> None:
        self._console.print(line, markup=False)


def outcome(row: Row) -> str:
    """Outcome of a run, in a few words."""
    said = []
    if "said" in row:
        said.append(str(row["said"]))
    if "mmd2.summary" in row:
        said.append(f"MMD^2 {row['mmd2.summary']:.3g}")
    if "points_accessed.total" in row:
        said.append(f"{row['points_accessed.total']} points accessed")
    if row["code"]:
        said.append(f"error {row['code']}: {row['cause']}")
    return ", ".join(said) or "done"
