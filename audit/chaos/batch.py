"""Many schedules, and the shortest of each that fails: faults are left out while the same oracle fails."""

from __future__ import annotations

import contextlib
import gc
import itertools
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace

from audit.chaos.faults import FaultSchedule, draw
from audit.chaos.oracles import judge
from audit.chaos.simulation import play, quiet
from audit.chaos.worlds import menu, turns

Judge = Callable[[FaultSchedule], Sequence[str]]
"""Plays a schedule, and says what was wrong."""
_AT_ONCE = 64  # schedules of a task of a process, at most


@dataclass(frozen=True, slots=True)
class Failure:
    """FaultSchedule with a fault of ours, as short as it can be.

    Attributes:
        schedule: what was drawn.
        shortest: what is left of it.
        found: what was wrong.
    """

    schedule: FaultSchedule
    shortest: FaultSchedule
    found: Sequence[str]


@dataclass(frozen=True, slots=True)
class ScheduleTally:
    """Count of some schedules.

    Attributes:
        played: how many.
        cpu_s: CPU seconds.
        happened: faults that befell something, by kind.
        failures: what failed.
    """

    played: int
    cpu_s: float
    happened: Counter[str]
    failures: Sequence[Failure]


def schedule_of(seed: int, heavy: bool = False) -> FaultSchedule:
    """Draw the schedule of a seed, in the world that is its turn."""
    worlds = range(len(menu())) if heavy else turns()
    world = worlds[seed % len(worlds)]
    return draw(seed, world, quiet(world).steps, sorted(menu()[world].owners))


def play_all(seeds: Sequence[int], heavy: bool = False) -> ScheduleTally:
    """Play the schedules of seeds, and shrink those that fail."""
    began, happened, failures = time.process_time(), Counter[str](), []
    with _uncollected():
        outcomes = [play(schedule_of(seed, heavy)) for seed in seeds]
    for outcome in outcomes:
        happened.update(fault.kind for fault in outcome.happened)
        if found := judge(outcome):
            shortest, still = shrink(outcome.schedule, found, lambda each: judge(play(each)))
            failures.append(Failure(outcome.schedule, shortest, still))
    return ScheduleTally(len(seeds), time.process_time() - began, happened, failures)


@contextlib.contextmanager
def _uncollected() -> Iterator[None]:
    """Collect garbage once, behind the block: again and again it takes a twentieth of the time.

    Errors at which nobody looked, and that stand in cycles of objects, come to the faults of their schedule
    then, whichever it was.
    """
    gc.freeze()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
        gc.collect()
        gc.unfreeze()


def tallies(seeds: range, jobs: int, heavy: bool) -> Iterator[ScheduleTally]:
    """Play the schedules of many seeds, in so many processes; tallies of parts, in order."""
    size = min(_AT_ONCE, -(-len(seeds) // jobs))
    parts = [seeds[start : start + size] for start in range(0, len(seeds), size)]
    if jobs == 1:
        yield from (play_all(part, heavy) for part in parts)
        return
    with ProcessPoolExecutor(jobs) as pool:
        yield from pool.map(play_all, parts, itertools.repeat(heavy))


def oracles(found: Sequence[str]) -> set[str]:
    """Names of the oracles that lines of a judgement are of."""
    return {line.partition(":")[0] for line in found}


def shrink(
    schedule: FaultSchedule, found: Sequence[str], judge: Judge
) -> tuple[FaultSchedule, Sequence[str]]:
    """Leave faults out until none can be spared, and bring what is left to its earliest step.

    Args:
        schedule: that fails.
        found: what was wrong with it.
        judge: plays others.

    Returns:
        The shortest, and what is wrong with it.
    """
    first = oracles(found)
    for fault in reversed(schedule.faults):
        fewer = replace(schedule, faults=tuple(each for each in schedule.faults if each is not fault))
        if first & oracles(again := judge(fewer)):
            return shrink(fewer, again, judge)
    return schedule, found
