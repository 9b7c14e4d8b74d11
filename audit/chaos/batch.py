"""Plays many schedules, and shrinks each failing schedule: drops faults while the same oracle fails."""

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
"""Plays a schedule, and returns a line for each violated oracle."""
_AT_ONCE = 64  # most schedules in a task of a process


@dataclass(frozen=True, slots=True)
class Failure:
    """Failing schedule, and its shortest form.

    Attributes:
        schedule: the schedule as drawn.
        shortest: the schedule without faults that can be spared.
        found: violated oracles, a line each.
    """

    schedule: FaultSchedule
    shortest: FaultSchedule
    found: Sequence[str]


@dataclass(frozen=True, slots=True)
class ScheduleTally:
    """Totals of some schedules.

    Attributes:
        played: number of schedules.
        cpu_s: CPU seconds.
        happened: number of faults that took effect, by kind.
        failures: failing schedules.
    """

    played: int
    cpu_s: float
    happened: Counter[str]
    failures: Sequence[Failure]


def schedule_of(seed: int, heavy: bool = False) -> FaultSchedule:
    """Draw the schedule of a seed, in the seed's world."""
    worlds = range(len(menu())) if heavy else turns()
    world = worlds[seed % len(worlds)]
    return draw(seed, world, quiet(world).steps, sorted(menu()[world].owners))


def play_all(seeds: Sequence[int], heavy: bool = False) -> ScheduleTally:
    """Play the schedules of seeds, and shrink failing schedules."""
    began, happened, failures = time.process_time(), Counter[str](), []
    with _uncollected():
        outcomes = [play(schedule_of(seed, heavy)) for seed in seeds]
    for outcome in outcomes:
        happened.update(fault.kind for fault in outcome.happened)
        if violations := judge(outcome):
            shortest, remaining = shrink(
                outcome.schedule, violations, lambda candidate: judge(play(candidate))
            )
            failures.append(Failure(outcome.schedule, shortest, remaining))
    return ScheduleTally(len(seeds), time.process_time() - began, happened, failures)


@contextlib.contextmanager
def _uncollected() -> Iterator[None]:
    """Collect garbage once, after the block: repeated collections take a twentieth of the time.

    An unhandled error within a cycle of objects is reported at that collection, for whichever schedule then
    runs.
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
    """Play the schedules of many seeds in `jobs` processes; yields tallies of parts, in order."""
    size = min(_AT_ONCE, -(-len(seeds) // jobs))
    parts = [seeds[start : start + size] for start in range(0, len(seeds), size)]
    if jobs == 1:
        yield from (play_all(part, heavy) for part in parts)
        return
    with ProcessPoolExecutor(jobs) as pool:
        yield from pool.map(play_all, parts, itertools.repeat(heavy))


def oracles(lines: Sequence[str]) -> set[str]:
    """Names of the oracles in the lines of a judgement."""
    return {line.partition(":")[0] for line in lines}


def shrink(
    schedule: FaultSchedule, found: Sequence[str], judge: Judge
) -> tuple[FaultSchedule, Sequence[str]]:
    """Drop faults from a schedule until none can be spared.

    Args:
        schedule: a failing schedule.
        found: its violated oracles.
        judge: plays and judges a schedule.

    Returns:
        The shortest schedule, and its violated oracles.
    """
    first = oracles(found)
    for fault in reversed(schedule.faults):
        fewer = replace(schedule, faults=tuple(other for other in schedule.faults if other is not fault))
        if first & oracles(again := judge(fewer)):
            return shrink(fewer, again, judge)
    return schedule, found
