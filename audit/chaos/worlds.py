"""Worlds for schedules: every protocol and release, mostly with few owners."""

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

_ROWS = 10  # rows of an owner
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
"""Least number of owners of a large world, and rounds in which a large world has one turn: large worlds take
half of the time and are a sixth of the worlds."""
_SECURE = 4
"""Least number of owners of a secure sum here: one owner may leave and one may be curious."""


@dataclass(frozen=True, eq=False)
class SimulatedWorld:
    """Market of a schedule.

    Attributes:
        case: protocol and settings of all parties.
        count: number of owners.
        together: number of consumers, who ask at the same time.
    """

    case: Case
    count: int
    together: int = 1

    @property
    def name(self) -> str:
        """Protocol, policies and sizes in words."""
        more = f", {self.together} consumers" if self.together > 1 else ""
        return f"{self.case.name}, {self.count} owner{'s' * (self.count > 1)}{more}"

    @property
    def secure(self) -> bool:
        """True if sums are under masks, whose secrets are lost with their process."""
        return self.case.pooling.security is not None

    @property
    def sealed(self) -> bool:
        """True if rows go in boxes, whose keys are only in the memory of an owner's process."""
        return is_sealed(self.case.protocol)

    @property
    def repeatable(self) -> bool:
        """True if gentle faults must leave every bit as it was.

        Two runs at once take noise in the order of their steps, and a secure sum with a death is repeated or
        fails. In these worlds each life of a party has other noise.
        """
        return self.together == 1 and not self.secure

    @property
    def consumers(self) -> tuple[str, ...]:
        """Names of consumers."""
        return tuple(f"consumer-{number + 1}" for number in range(self.together))

    @cached_property
    def owners(self) -> Mapping[str, Table]:
        """Rows by owner; one owner has the name that the cases' policies use."""
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
    """Yield each protocol's cases with the notes above, a plan's own choice, and a case of own classes."""
    yield _changed("cells", "any policy", "auto", protocol="auto")
    sketch = _changed("cells", "cells of a sketch", "own classes", privacy={"epsilon": 1_000.0})
    yield replace(sketch, own_class=True)
    for protocol in replayed():
        if protocol in PROTOCOLS and PROTOCOLS[protocol].family == "sums" and protocol == "sketch":
            continue  # worlds of cells have sketches
        for case in cases_of(protocol):
            if case.note in _NOTES and not case.by_hand:
                yield replace(case, finish=False)


def _changed(base: str, note: str, called: str, **settings: Any) -> Case:
    """Copy a case with other settings of its summary."""
    case = next(case for case in cases_of(base) if case.note == note)
    assert case.summary is not None, "it is a summary"
    summary = SummarySettings.model_validate({**case.summary.model_dump(exclude_unset=True), **settings})
    return replace(case, note=called, summary=summary)


@cache
def menu() -> tuple[SimulatedWorld, ...]:
    """All worlds, in an order in which every protocol comes early."""
    by_note: dict[str, list[Case]] = {}
    for case in _cases():
        by_note.setdefault(case.note, []).append(case)
    worlds = []
    for number, case in enumerate(case for note in _NOTES for case in by_note.get(note, ())):
        size = _SIZES[number % len(_SIZES)]
        if case.pooling.security is not None:
            size = min(max(size, _SECURE), 8)  # keys and shares of all pairs
        if size == 50 and PROTOCOLS[case.protocol].family == "auction":
            size = 12  # as many directives, in a round for each row
        together = 2 if number % 5 == 4 and size < 10 else 1
        worlds.append(SimulatedWorld(case, size, together))
    return tuple(worlds)


@cache
def light() -> tuple[int, ...]:
    """Numbers of the worlds with fast arithmetic: all worlds except those of some releases."""
    return tuple(number for number, world in enumerate(menu()) if world.case.protocol not in _HEAVY)


@cache
def turns() -> tuple[int, ...]:
    """Numbers of the light worlds in the order in which seeds use them.

    Large worlds have a turn in one of five rounds, releases two turns in the others.
    """
    small = tuple(number for number in light() if menu()[number].count < _LARGE)
    releases = tuple(number for number in small if menu()[number].case.summary is None)
    return (*light(), *(_ROUNDS - 1) * (*small, *releases))
