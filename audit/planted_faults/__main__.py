"""Shares of the planted faults that each layer finds, measured: `python -m audit.planted_faults`."""

from __future__ import annotations

import itertools
import os
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass

import pytest

from audit.attacks.black_box import Experiment
from audit.attacks.finding import Check, Effort
from audit.attacks.subjects import SUBJECTS
from audit.chaos.batch import schedule_of
from audit.chaos.oracles import judge
from audit.chaos.simulation import play, quiet
from audit.planted_faults import FAULTS
from audit.planted_faults.planting import PlantedFault, forget_caches
from audit.replay.cases import Case, cases_of
from audit.replay.cli import SEEDS
from audit.replay.pairs import replay

LEAST = {"replay": 0.78, "attack": 0.37, "replay or attack": 0.99, "chaos": 1.0}
"""Least share of planted faults that each layer must find."""
SCHEDULES = 300
"""Most schedules in which the simulator must find a fault."""
_SCALES = (0.02, 0.25, 0.4)
"""Trials of the attacks, as multiples of a quick audit's; no fault may need more than the last."""


@dataclass(frozen=True)
class FoundBy:
    """Layers that found a fault, among the layers that its columns name.

    Attributes:
        name: name of the fault.
        replay: line by which replay found the fault; empty if it did not.
        attack: statistic by which an attack found the fault; empty if none did.
        chaos: oracle's line by which the simulator found the fault; empty if it did not.
        missed: layers that should have found the fault and did not.
        seconds: CPU time of the measurement.
    """

    name: str
    replay: str
    attack: str
    chaos: str
    missed: tuple[str, ...]
    seconds: float


def case_of(protocol: str, note: str) -> Case:
    """The first case of a protocol with a note."""
    return next(case for case in cases_of(protocol) if note in case.note)


def by_replay(fault: PlantedFault) -> str:
    """Line by which replay finds a fault in its case; empty if replay does not find it."""
    if fault.case is None:
        return ""
    with pytest.MonkeyPatch.context() as patch:
        fault.plant(patch)
        case = case_of(*fault.case)
        for seed in (1, *(seed for seed in range(SEEDS) if seed != 1)):
            if findings := replay(case, fault.kinds, seed).found:
                return f"{findings[0].what}: {findings[0].line}"
    return ""


def by_attack(fault: PlantedFault) -> str:
    """Statistic by which the attack on its subject finds a fault; empty if it does not."""
    if not fault.attack:
        return ""
    with pytest.MonkeyPatch.context() as patch:
        fault.plant(patch)
        checks = SUBJECTS[fault.attack]().checks
        games: list[Check] = [check for check in checks if isinstance(check, Experiment)]
        exact: list[Check] = [check for check in checks if not isinstance(check, Experiment)]
        for scale, check in (*itertools.product(_SCALES, exact), *itertools.product(_SCALES, games)):
            finding = check(Effort(scale=scale))
            if finding.violated and fault.layer in ("", finding.layer):
                return f"{finding.layer}: {finding.statistic}"
    return ""


def by_chaos(fault: PlantedFault, first: int = 0) -> tuple[int, str]:
    """Number of schedules, from seed 0, until the simulator finds a fault, and its line; 0 if it does not.

    Args:
        fault: the fault to plant.
        first: number that was measured before, which is played first; 0: none.
    """
    with pytest.MonkeyPatch.context() as patch:
        fault.plant(patch)
        quiet.cache_clear()
        for number in (*([first] if first else []), *range(1, SCHEDULES + 1)):
            if violations := judge(play(schedule_of(number - 1))):
                quiet.cache_clear()
                return number, violations[0]
    quiet.cache_clear()
    return 0, ""


def in_schedules() -> int:
    """Print how many schedules find each fault of the simulator's; return 1 if a fault is not found."""
    names = [name for name, fault in FAULTS.items() if fault.chaos]
    with ProcessPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        found = 0
        for name, (number, line, seconds) in zip(names, pool.map(_counted, names), strict=True):
            found += number > 0
            print(f"{number:4} schedules, {seconds:5.1f} s: {name}: {line}", flush=True)
    print(f"{found} of {len(names)} found within {SCHEDULES} schedules each")
    return int(found < len(names))


def _counted(name: str) -> tuple[int, str, float]:
    began = time.process_time()
    number, line = by_chaos(FAULTS[name])
    return number, line, time.process_time() - began


def measured(name: str) -> FoundBy:
    """Plant a fault, and run the layers that its columns name."""
    began, fault = time.process_time(), FAULTS[name]
    forget_caches()
    replayed = by_replay(fault)
    forget_caches()
    attacked = by_attack(fault)
    forget_caches()
    missed = []
    if fault.case is not None and not replayed:
        missed.append("replay")
    if fault.attack and not attacked:
        missed.append("attack")
    simulated = by_chaos(fault, fault.chaos)[1] if fault.chaos else ""
    forget_caches()
    if fault.chaos and not simulated:
        missed.append("chaos")
    return FoundBy(name, replayed, attacked, simulated, tuple(missed), time.process_time() - began)


def main() -> int:
    """Measure all faults and print the shares; return 1 if a share has fallen or a column is wrong."""
    if sys.argv[1:] == ["chaos"]:
        return in_schedules()
    names = [name for name in FAULTS if not sys.argv[1:] or any(word in name for word in sys.argv[1:])]
    with ProcessPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        results = []
        for result in pool.map(measured, names):
            results.append(result)
            if result.missed or sys.argv[1:]:
                line = f"replay: {result.replay or '-'}; attack: {result.attack or '-'}"
                line += f"; chaos: {result.chaos or '-'}"
                print(f"{result.name}: {line}; {result.seconds:.1f} s", flush=True)
    # Faults of what parties hear.
    heard = [result for result in results if not FAULTS[result.name].chaos]
    broken = [result for result in results if FAULTS[result.name].chaos]
    counts = {
        "replay": (sum(bool(result.replay) for result in heard), heard),
        "attack": (sum(bool(result.attack) for result in heard), heard),
        "replay or attack": (sum(bool(result.replay or result.attack) for result in heard), heard),
        "chaos": (sum(bool(result.chaos) for result in broken), broken),
    }
    print(f"{len(results)} planted faults, {sum(result.seconds for result in results):.0f} s of CPU")
    low = []
    for layer, (count, of) in counts.items():
        share = count / max(len(of), 1)
        print(f"found by {layer}: {count} of {len(of)}, {share:.1%}")
        if share < LEAST.get(layer, 0.0) and not sys.argv[1:]:
            low.append(layer)
    return int(bool(low) or any(result.missed for result in results))


if __name__ == "__main__":
    sys.exit(main())
