"""Progress of a call in a notebook, a script or a terminal: one bar of tqdm, and warnings at its end."""

import importlib.util
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from fedkme.errors import FedkmeWarning, full_disk, missing_extra
from sim.progress import Follower, TableStep

CALLER = 5
"""Level of the line that called a verb: below it are the verb, contextlib, `following` and `tell`."""


class CallProgress(Follower):
    """Follows a summary, a release or a sweep; keeps warnings for the end of the call.

    Nothing is shown where tqdm is not installed.
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
        """Show how far a release is; the time left is that of the stage."""
        if stage != self._stage and self._bar is not None:
            self._stage = stage
            self._bar.reset(100)
        self._at(round(100 * fraction), 100, f"{stage}: {line}")

    def hear(self, step: TableStep) -> None:
        """Show how many runs of a sweep are done."""
        self._at(step.done, step.total, step.line)

    def note(self, line: str) -> None:
        """Show a line until there is another."""
        if self._bar is not None:
            self._bar.set_postfix_str(line)

    def warn(self, line: str) -> None:
        """Keep a line for the end of the call."""
        self._warnings.append(line)

    def end(self) -> None:
        """Close the bar: the call is over."""
        if self._bar is not None:
            self._bar.close()

    def tell(self) -> None:
        """Warn of every line that was kept, once, at the line of the caller."""
        lines, self._warnings = dict.fromkeys(self._warnings), []
        for line in lines:
            warnings.warn(line, FedkmeWarning, stacklevel=CALLER)

    def _at(self, done: int, total: int | None, words: str) -> None:
        if self._bar is not None:
            self._bar.total = total or self._bar.total
            self._bar.n = done
            self._bar.set_postfix_str(words)


@contextmanager
def following(words: str, shown: bool) -> Iterator[CallProgress]:
    """Progress of one call, closed at its end or error.

    Raises:
        MissingDependencyError: a package of an extra is not installed.
        StoreError: a disk is full or broken.
    """
    progress = CallProgress(words, shown)
    try:
        yield progress
    except ImportError as error:
        raise missing_extra(error) or error from None
    except OSError as error:
        raise full_disk(error) or error from None
    finally:
        progress.end()
        progress.tell()


def _bar(words: str) -> Any:
    """A bar that is on the screen before anything else is done; None without tqdm."""
    if importlib.util.find_spec("tqdm") is None:
        return None
    if importlib.util.find_spec("ipywidgets") is None:  # tqdm.auto would warn of that
        from tqdm import tqdm
    else:
        from tqdm.auto import tqdm
    return tqdm(
        desc=words, total=1, bar_format="{desc}: {percentage:3.0f} %|{bar}| {elapsed}<{remaining}{postfix}"
    )
