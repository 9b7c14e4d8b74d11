"""Schedules of real processes: a seed decides on a world of audit/chaos, and what befalls whom, and when."""

from __future__ import annotations

import random
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from audit.chaos.worlds import menu
from tests.system.chaos.between import KINDS as BETWEEN
from tests.system.chaos.between import BetweenFault
from tests.system.failing_disk import KINDS, DiskFault

WORLDS = (10, 22, 76, 6, 8, 3, 77, 12, 78, 75, 44, 84)
"""Numbers of worlds that are played: cells, clock, sketch, auctions, sealed rows, secure sums, releases."""
BOTH = (10, 22, 12)
"""Worlds of which an earlier release can be a part."""
_MOST = 6  # faults
_BYTES = 1_000, 100_000
"""Bytes that go by before the first handshake is over, and in most of a run."""
_OPERATIONS = {"curator": 400, "owner": 120, "consumer": 60}  # of a whole run, about


@dataclass(frozen=True, slots=True)
class ProcessSchedule:
    """Faults of the lives of the parties of a world.

    Attributes:
        seed: seed of the schedule.
        world: number in the menu of audit/chaos.
        faults: faults of each party: of its first life, its second, and so on.
        between: faults of the forwarder and the data base; None: neither is there.
        stored: parties whose store is in the data base.
    """

    seed: int
    world: int
    faults: Mapping[str, Sequence[DiskFault]]
    between: Sequence[BetweenFault] | None = None
    stored: Collection[str] = ()


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


def drawn_between(seed: int) -> ProcessSchedule:
    """Draw the schedule of a seed with a forwarder and a data base: fewer faults of disks, and theirs."""
    schedule, chance = drawn(seed), random.Random(f"between {seed}")
    world = menu()[schedule.world]
    parties = ["curator", *world.owners, *world.consumers]
    keepers = parties if world.case.summary is not None else ["curator", *world.owners]
    stored = [name for name in keepers if chance.random() < (0.8 if name == "curator" else 0.4)]
    between = []
    for _ in range(chance.randint(1, _MOST)):
        kind = chance.choice((*BETWEEN, "restart", "restart"))
        least, most = _BYTES
        at = round(least * (most / least) ** chance.random())
        party = chance.choice(parties) if kind in ("kill", "stop") else ""
        between.append(BetweenFault(at, kind, chance.randint(1, 20) / 10, party))
    faults = {name: lives for name, lives in schedule.faults.items() if chance.random() < 0.5}
    return ProcessSchedule(seed, schedule.world, faults, sorted(between), stored)


def role(party: str) -> str:
    """Role of a party, by its name."""
    return "consumer" if party.startswith("consumer") else "curator" if party == "curator" else "owner"
