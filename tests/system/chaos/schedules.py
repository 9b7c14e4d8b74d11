"""Schedules of real processes: a seed decides on a world of audit/chaos, and what befalls whom, and when."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from audit.chaos.worlds import menu
from tests.system.failing_disk import KINDS, DiskFault

WORLDS = (10, 22, 76, 6, 8, 3, 77, 12, 78, 75, 44, 84)
"""Numbers of worlds that are played: cells, clock, sketch, auctions, sealed rows, secure sums, releases."""
BOTH = (10, 22, 12)
"""Worlds of which an earlier release can be a part."""
_MOST = 6  # faults
_OPERATIONS = {"curator": 400, "owner": 120, "consumer": 60}  # of a whole run, about


@dataclass(frozen=True, slots=True)
class ProcessSchedule:
    """Faults of the lives of the parties of a world.

    Attributes:
        seed: of it.
        world: number in the menu of audit/chaos.
        faults: of each party: of its first life, its second, and so on.
    """

    seed: int
    world: int
    faults: Mapping[str, Sequence[DiskFault]]


def drawn(seed: int, releases: bool = False) -> ProcessSchedule:
    """Draw the schedule of a seed; with two releases, of deaths alone."""
    chance = random.Random(f"processes {seed}")
    worlds = BOTH if releases else WORLDS
    world = menu()[worlds[seed % len(worlds)]]
    parties = ["curator", *world.owners, *world.consumers]
    weights = [len(parties) if name == "curator" else 3 for name in parties]
    faults: dict[str, list[DiskFault]] = {}
    for _ in range(chance.randint(1, _MOST)):
        party = chance.choices(parties, weights)[0]
        kind = chance.choice(("kill", "stop") if releases else KINDS)
        operation = round(_OPERATIONS[role(party)] ** chance.random())  # as often early as late
        many = chance.randint(2, 8) if kind == "freeze" else chance.randint(1, 30)
        faults.setdefault(party, []).append(DiskFault(kind, operation, many))
    return ProcessSchedule(seed, worlds[seed % len(worlds)], faults)


def role(party: str) -> str:
    """Role of a party, by its name."""
    return "consumer" if party.startswith("consumer") else "curator" if party == "curator" else "owner"
