"""Shares of the planted faults that each layer finds, measured: `python -m audit.planted_faults`."""

from __future__ import annotations

import itertools
import os
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass

import pytest

from audit.attacks.black_box import Experiment
from audit.attacks.finding import Check, Effort, Subject
from audit.attacks.subjects import SUBJECTS
from audit.planted_faults import FAULTS
from audit.planted_faults.planting import PlantedFault, forget_caches
from audit.replay.cases import Case, cases_of
from audit.replay.cli import SEEDS
from audit.replay.pairs import replay

LEAST = {"replay": 0.77, "attack": 0.37, "replay or attack": 0.98}
"""Shares below which none may fall."""
_SCALES = (0.02, 0.25, 0.4)
"""Trials of the attacks, over those of a quick audit; the last are the most that a fault may need."""


class _Planted:
    """Plugin of pytest that plants a fault before tests are collected."""

    def __init__(self, fault: PlantedFault) -> None:
        self._fault = fault

    def pytest_configure(self) -> None:
        """Plant it, for the life of this process."""
        self._fault.plant(pytest.MonkeyPatch())


def by_test(fault: PlantedFault) -> bool:
    """Check whether the test of a fault's column fails, in a process of its own."""
    if (child := os.fork()) == 0:
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, 1)
        os.dup2(null, 2)
        os._exit(int(pytest.main([fault.test, "-q", "-p", "no:cacheprovider"], plugins=[_Planted(fault)])))
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == pytest.ExitCode.TESTS_FAILED


@dataclass(frozen=True)
class FoundBy:
    """Layers that found a fault, of those that its columns name.

    Attributes:
        name: of the fault.
        replay: what replay says of it, a line; empty: nothing.
        attack: likewise.
        test: whether a test fails.
        missed: layers that should have found it and did not.
        seconds: that it took.
    """

    name: str
    replay: str
    attack: str
    test: bool
    missed: tuple[str, ...]
    seconds: float


def case_of(protocol: str, note: str) -> Case:
    """The first case of a protocol with a note."""
    return next(case for case in cases_of(protocol) if note in case.note)


def by_replay(fault: PlantedFault) -> str:
    """Line by which replay tells of a fault, in its case; empty: replay does not find it."""
    if fault.case is None:
        return ""
    with pytest.MonkeyPatch.context() as patch:
        fault.plant(patch)
        case = case_of(*fault.case)
        for seed in (1, *(seed for seed in range(SEEDS) if seed != 1)):
            if found := replay(case, fault.kinds, seed).found:
                return f"{found[0].what}: {found[0].line}"
    return ""


def by_attack(fault: PlantedFault) -> str:
    """Statistic by which an attack tells of a fault; empty: none does."""
    with pytest.MonkeyPatch.context() as patch:
        if fault.game is None:
            fault.plant(patch)
        return next(_violated(fault), "")


def _violated(fault: PlantedFault) -> Iterator[str]:
    if fault.game is None and not fault.attack:
        return
    layer = "" if fault.game is None else fault.game[0]
    make: Callable[[], Subject] = SUBJECTS[fault.attack] if fault.game is None else fault.game[1]
    every = make().checks
    exact = [check for check in every if layer == "black box" or not isinstance(check, Experiment)]
    games: list[Check] = [check for check in every if not layer and isinstance(check, Experiment)]
    for scale, check in (*itertools.product(_SCALES, exact), *itertools.product(_SCALES, games)):
        finding = check(Effort(scale=scale))
        if finding.violated and layer in ("", finding.layer):
            yield f"{finding.layer}: {finding.statistic}"


def measured(name: str) -> FoundBy:
    """Plant a fault, and let the layers that its columns name look for it."""
    began, fault = time.process_time(), FAULTS[name]
    forget_caches()
    replayed = by_replay(fault)
    forget_caches()
    attacked = by_attack(fault)
    forget_caches()
    tested = bool(fault.test) and by_test(fault)
    missed = []
    if fault.case is not None and not replayed:
        missed.append("replay")
    if (fault.game is not None or fault.attack) and not attacked:
        missed.append("attack")
    if fault.test and not tested:
        missed.append("test")
    return FoundBy(name, replayed, attacked, tested, tuple(missed), time.process_time() - began)


def main() -> int:
    """Measure all, print the shares; 1 where one has fallen or a column is not true."""
    names = [name for name in FAULTS if not sys.argv[1:] or any(word in name for word in sys.argv[1:])]
    with ProcessPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        results = []
        for each in pool.map(measured, names):
            results.append(each)
            if each.missed or sys.argv[1:]:
                seen = "fails" if each.test else "-"
                said = f"replay: {each.replay or '-'}; attack: {each.attack or '-'}; test: {seen}"
                print(f"{each.name}: {said}; {each.seconds:.1f} s", flush=True)
    counts = {
        "replay": sum(bool(each.replay) for each in results),
        "attack": sum(bool(each.attack) for each in results),
        "test": sum(each.test for each in results),
        "replay or attack": sum(bool(each.replay or each.attack) for each in results),
    }
    print(f"{len(results)} planted faults, {sum(each.seconds for each in results):.0f} s of CPU")
    low = []
    for layer, count in counts.items():
        share = count / len(results)
        print(f"found by {layer}: {count}, {share:.1%}")
        if share < LEAST.get(layer, 0.0) and not sys.argv[1:]:
            low.append(layer)
    return int(bool(low) or any(each.missed for each in results))


if __name__ == "__main__":
    sys.exit(main())
