"""Progress of a call in a notebook, a script or a terminal: a bar of tqdm, and warnings after the call."""

from __future__ import annotations

import importlib.util
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from fedkme.errors import FedkmeWarning, missing_extra
from sim.sweep.progress import outcome
from sim.sweep.run import SweepStep

CALLER = 5
"""Stack level of the line that called a verb: the verb, contextlib, `following` and `tell` are in between."""


class CallProgress:
    """Shows the progress of a summary, a release or a sweep; keeps warnings for the end of the call.

    It shows nothing if tqdm is not installed.
    """

    def __init__(self, words: str, shown: bool) -> None:
        self._bar: Any = _bar(words) if shown else None
        self._stage = ""
        self._warnings: list[str] = []

    def started(self, K: int, p: int) -> None:
        """Show how many rounds will follow."""
        self._at(0, p, f"{K} owners")

    def round(self, record: Mapping[str, Any]) -> None:
        """Show the round and the rows accessed so far."""
        self._at(int(record["round"]), None, f"{record['accessed']} rows accessed")

    def stage(self, stage: str, line: str, fraction: float) -> None:
        """Show the progress of a release's stage; the time left is the time to the end of the stage."""
        if stage != self._stage and self._bar is not None:
            self._stage = stage
            self._bar.reset(100)
        self._at(round(100 * fraction), 100, f"{stage}: {line}")

    def hear(self, step: SweepStep) -> None:
        """Show the number of a sweep's finished runs, and the last run's outcome."""
        text = "" if step.run is None or step.row is None else f"{step.run.words()}: {outcome(step.row)}"
        self._at(step.done, step.total, text)

    def note(self, line: str) -> None:
        """Show a line until the next line comes."""
        if self._bar is not None:
            self._bar.set_postfix_str(line)

    def warn(self, line: str) -> None:
        """Keep a line for the end of the call."""
        self._warnings.append(line)

    def close(self) -> None:
        """Leave the bar open: baselines and their lines follow the rounds."""

    def end(self) -> None:
        """Close the bar at the end of the call."""
        if self._bar is not None:
            self._bar.close()

    def tell(self) -> None:
        """Issue each kept warning once, at the caller's line."""
        lines, self._warnings = dict.fromkeys(self._warnings), []
        for line in lines:
            warnings.warn(line, FedkmeWarning, stacklevel=CALLER)

    def _at(self, position: int, total: int | None, words: str) -> None:
        if self._bar is not None:
            self._bar.total = total or self._bar.total
            self._bar.n = position
            self._bar.set_postfix_str(words)


@contextmanager
def following(words: str, shown: bool) -> Iterator[CallProgress]:
    """Show the progress of one call; close the bar and warn at the end, also after a failure.

    Raises:
        MissingDependencyError: a package of an extra is not installed.
    """
    progress = CallProgress(words, shown)
    try:
        yield progress
    except ModuleNotFoundError as error:
        raise missing_extra(error) or error from None
    finally:
        progress.end()
        progress.tell()


def _bar(words: str) -> Any:
    """Make a bar, which is on the screen at once; None without tqdm."""
    if importlib.util.find_spec("tqdm") is None:
        return None
    if importlib.util.find_spec("ipywidgets") is None:  # tqdm.auto would warn of that
        from tqdm import tqdm
    else:
        from tqdm.auto import tqdm
    return tqdm(
        desc=words, total=1, bar_format="{desc}: {percentage:3.0f} %|{bar}| {elapsed}<{remaining}{postfix}"
    )
