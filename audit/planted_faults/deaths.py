"""Faults of a curator that dies in the middle of a run, and goes on."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from audit.planted_faults.planting import PlantedFault, all_of, around, nothing
from curator.run.journal import JournaledNoise, RunJournal
from curator.runs.cells_agreement import Agreement
from curator.runs.context import RunContext
from curator.runs.release_run import ReleaseRun
from curator.sums.charges import SumCharges

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


def _certain_lines(before: Any, self: Any, lines: Any, keep: Any) -> None:
    before(self, [line for line in lines if line.certain], keep)


def _coins_again(before: Any, self: Any, size: int) -> Any:
    return self._source.uniform(size)


def _without_cells(before: Any, self: Any, run: Any) -> Any:
    """Leave what was drawn of a sketch, and is on disk, unread."""
    attempt = before(self, run)
    return (
        None if attempt is None else {key: attempt[key] for key in attempt if key not in ("cells", "drawn")}
    )


FAULTS: Mapping[str, PlantedFault] = {
    "coins of h2 that are drawn again after a death": PlantedFault(
        ("ask-everyone", f"means by h2, and {_DIES}"), around(JournaledNoise, "uniform", _coins_again)
    ),
    "a sketch that is written down again after a death": PlantedFault(
        ("cells", "a sketch, in which"), around(RunContext, "written", lambda before, self, run: [])
    ),
    "cells that are drawn again after a death": PlantedFault(
        ("cells", "counts of coalitions, in which"), around(Agreement, "_attempt", _without_cells)
    ),
    "a secure sketch that is opened again after a death": PlantedFault(
        ("cells", "dies as it is opened"), nothing(SumCharges, "before_vectors")
    ),
    "lines of a sum that was half opened": PlantedFault(
        ("merf", "dies as a secure sum"), around(SumCharges, "_write", _certain_lines)
    ),
    "noise that is drawn again after a death": PlantedFault(("clock", _DIES), nothing(RunJournal, "draw")),
    "noise drawn again, and written down again": PlantedFault(
        ("ask-everyone", _DIES),
        all_of(nothing(RunJournal, "draw"), around(RunJournal, "extend", _lines_again)),
    ),
    "lines that are written again after a death": PlantedFault(
        ("clock", _DIES), around(RunJournal, "extend", _lines_again)
    ),
    "counts that are asked for again after a death": PlantedFault(
        ("cells", _DIES), around(RunJournal, "answer", _any_answer)
    ),
    "noisy answers that a release forgets": PlantedFault(
        ("marginals", f"{_DIES} between questions"), around(ReleaseRun, "_stored_release", _forgotten)
    ),
}
