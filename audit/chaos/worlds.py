"""Worlds in which schedules happen: every protocol and release, with few owners mostly."""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache, cached_property
from typing import Any

import numpy as np

from audit.replay.cases import Case, cases_of, replayed
from audit.replay.neighbours import HOLDER, random_table
from curator.summary.settings import SummarySettings
from fedkme.protocols import PROTOCOLS, is_sealed
from fedkme.tables.table import Table

_ROWS = 10  # of an owner
_OF_CELLS = (
    "cells of a sketch",
    "cells of a secure sketch",
    "a sketch, and counts of coalitions",
    "a secure sketch, and counts of coalitions",
    "a sketch, of which D_v picks directions",
)
_NOTES = (
    "auto",
    "own classes",
    "any policy",
    "row limits",
    "budgets",
    "a small budget",
    "D_v is shared",
    "noise of owners",
    *_OF_CELLS,
)
_SIZES = (4, 3, 5, 2, 4, 1, 6, 3, 4, 8, 4, 2, 3, 50)
"""Numbers of owners, in turn."""
_HEAVY = ("balog2", "hermite", "marginals", "merf")
_LARGE, _ROUNDS = 8, 5
"""Owners from which a world is large: half of the time for a sixth of the worlds; rounds for one turn."""
_SECURE = 4
"""Owners that a secure sum needs here, of whom one may leave and one be curious."""


@dataclass(frozen=True, eq=False)
class SimulatedWorld:
    """Market in which a schedule happens.

    Attributes:
        case: protocol and settings of all parties.
        count: of owners.
        asked: requests of each consumer, who makes one after the other.
        together: consumers at once.
    """

    case: Case
    count: int
    asked: int = 1
    together: int = 1

    @property
    def name(self) -> str:
        """Protocol, policies and sizes in words."""
        more = f", {self.together} consumers" if self.together > 1 else ""
        return f"{self.case.name}, {self.count} owner{'s' * (self.count > 1)}{more}"

    @property
    def secure(self) -> bool:
        """Check whether sums are under masks, whose secrets no process keeps beyond its death."""
        return self.case.pooling.security is not None

    @property
    def sealed(self) -> bool:
        """Check whether rows go in boxes, whose keys an owner's process keeps in memory alone."""
        return is_sealed(self.case.protocol)

    @property
    def repeatable(self) -> bool:
        """Check whether gentle faults leave every bit as it was.

        Two runs at once take noise in the order in which they come, and a secure sum in which somebody died
        is held again, or fails. There each life of a party has other noise.
        """
        return self.together == 1 and not self.secure

    @property
    def consumers(self) -> tuple[str, ...]:
        """Names of consumers."""
        return tuple(f"consumer-{number + 1}" for number in range(self.together))

    @cached_property
    def owners(self) -> Mapping[str, Table]:
        """Rows by owner; one is called as policies of cases call it."""
        names = [HOLDER, *(f"owner-{number}" for number in range(1, self.count))]
        return {name: _table(name, _ROWS, self.case.labels) for name in sorted(names)}

    @cached_property
    def validation(self) -> Table:
        """D_v of every consumer."""
        return _table("validation", 8, self.case.own_class)

    @cached_property
    def seeds(self) -> Table | None:
        """Public rows."""
        return _table("seeds", 24, False) if self.case.seeds else None


def _table(name: str, rows: int, labels: bool) -> Table:
    table = random_table(np.random.default_rng(zlib.crc32(name.encode())), rows)
    return Table(table.values, table.labels if labels else None)


def _cases() -> Iterator[Case]:
    """Cases by protocol, each note once a protocol that has it; the plan's own choice, and classes."""
    yield _changed("cells", "any policy", "auto", protocol="auto")
    sketch = _changed("cells", "cells of a sketch", "own classes", privacy={"epsilon": 1_000.0})
    yield replace(sketch, own_class=True)
    for protocol in replayed():
        if protocol in PROTOCOLS and PROTOCOLS[protocol].family == "sums" and protocol == "sketch":
            continue  # worlds of cells have it
        for case in cases_of(protocol):
            if case.note in _NOTES and not case.by_hand:
                yield replace(case, finish=False)


def _changed(base: str, note: str, called: str, **settings: Any) -> Case:
    """A case with other settings of its summary."""
    case = next(case for case in cases_of(base) if case.note == note)
    assert case.summary is not None, "it is a summary"
    summary = SummarySettings.model_validate({**case.summary.model_dump(exclude_unset=True), **settings})
    return replace(case, note=called, summary=summary)


@cache
def menu() -> tuple[SimulatedWorld, ...]:
    """All worlds, in an order in which each protocol comes soon."""
    by_note: dict[str, list[Case]] = {}
    for case in _cases():
        by_note.setdefault(case.note, []).append(case)
    found = []
    for number, case in enumerate(case for note in _NOTES for case in by_note.get(note, ())):
        size = _SIZES[number % len(_SIZES)]
        if case.pooling.security is not None:
            size = min(max(size, _SECURE), 8)  # keys and shares of all pairs
        if size == 50 and PROTOCOLS[case.protocol].family == "auction":
            size = 12  # as many directives, in a round for each row
        together = 2 if number % 5 == 4 and size < 10 else 1
        found.append(SimulatedWorld(case, size, 1, together))
    return tuple(found)


@cache
def light() -> tuple[int, ...]:
    """Numbers of the worlds whose arithmetic takes no seconds: all but those of some releases."""
    return tuple(number for number, world in enumerate(menu()) if world.case.protocol not in _HEAVY)


@cache
def turns() -> tuple[int, ...]:
    """Numbers of the light worlds in the order in which seeds take them: large ones once in five rounds."""
    small = tuple(number for number in light() if menu()[number].count < _LARGE)
    return (*light(), *(_ROUNDS - 1) * small)
