"""Schedules that tests name, and what the oracles say of them."""

from __future__ import annotations

from audit.chaos.faults import FaultSchedule, InjectedFault, Kind
from audit.chaos.oracles import judge
from audit.chaos.simulation import play
from audit.chaos.worlds import menu


def world_of(name: str) -> int:
    """The number of a world."""
    return next(number for number, world in enumerate(menu()) if world.name.startswith(name))


def once(world: int, party: str, step: int, kind: Kind) -> FaultSchedule:
    return FaultSchedule(1, world, (InjectedFault(party, step, kind, 1),))


def judged(schedule: FaultSchedule) -> list[str]:
    return judge(play(schedule))
