"""Faults of a curator that dies in the middle of a run, and goes on."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from curator.runs.journal import RunJournal
from curator.runs.release_run import ReleaseRun
from tests.sim.replay.faults.planting import Fault, all_of, around, nothing

_DIES = "the curator dies"


def _forgotten(before: Any, self: Any) -> Any:
    """Leave what is on disk of owners' answers unread."""
    release = before(self)
    self._answers = []
    return release


def _lines_again(before: Any, self: Any, lines: Any) -> None:
    self._written.clear()
    before(self, lines)


def _any_answer(before: Any, self: Any, owner: str, directive: Any) -> Any:
    """Ask for owners' answers again, with lines that are not compared."""
    self._answers.clear()
    self._written.clear()


FAULTS: Mapping[str, Fault] = {
    "noise that is drawn again after a death": Fault(("clock", _DIES), nothing(RunJournal, "draw")),
    "noise drawn again, and written down again": Fault(
        ("ask-everyone", _DIES),
        all_of(nothing(RunJournal, "draw"), around(RunJournal, "extend", _lines_again)),
    ),
    "lines that are written again after a death": Fault(
        ("clock", _DIES), around(RunJournal, "extend", _lines_again)
    ),
    "counts that are asked for again after a death": Fault(
        ("cells", _DIES), around(RunJournal, "answer", _any_answer)
    ),
    "noisy answers that a release forgets": Fault(
        ("marginals", _DIES), around(ReleaseRun, "_kept", _forgotten)
    ),
}
