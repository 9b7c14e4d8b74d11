"""Oracles of simulated schedules: faults that are planted are seen, and a safe end is no fault."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from audit.chaos.batch import oracles, play_all, shrink
from audit.chaos.faults import FaultSchedule, InjectedFault, Kind
from audit.chaos.oracles import judge
from audit.chaos.simulation import play, quiet
from audit.chaos.worlds import turns
from audit.planted_faults import FAULTS
from audit.tests.chaos.playing import judged, once, world_of
from curator.run.run import Run
from curator.runs.queue import RunQueue
from fedkme.privacy.ledger import Ledger, disclosures_in
from fedkme.store.journal import Journal


def test_vectors_that_came_before_a_stop_are_charged_before_those_of_the_same_question() -> None:
    # Found by CI: three vectors of four came, the curator was told to stop and wrote their lines, and the
    # fourth came in its next life. An oracle took the other order for another ledger.
    world, comes_late = world_of("cells (a sketch, and counts"), InjectedFault("owner-2", 19, "cut", 43)
    orders = set()
    for step in range(60, 73, 2):
        faults = (InjectedFault("curator", step, "stop", 9), comes_late)
        outcome = play(FaultSchedule(113660575, world, faults))
        assert judge(outcome) == []
        lines = disclosures_in(outcome.ledgers["curator"])
        orders.add(tuple(line.protected for line in lines if line.nonce.startswith("sums 2")))
    assert len(orders) == 2


@pytest.mark.parametrize(
    ("name", "seed", "faults"),
    [
        # An owner was let in by a curator that lived on: its number was taken for one of the next curator.
        ("uniform (a small budget)", 221169892, (InjectedFault("curator", 95, "beside", 52),)),
        # A curator whose disk refused the record of a failed run asks again, and all owners refuse.
        (
            "moments (noise of owners)",
            221169969,
            (
                InjectedFault("curator", 16, "file", 13),
                InjectedFault("north", 38, "beside", 17),
                InjectedFault("owner-3", 32, "stop", 51),
            ),
        ),
    ],
)
def test_oracles_take_no_safe_end_for_a_fault(
    name: str, seed: int, faults: tuple[InjectedFault, ...]
) -> None:
    assert judged(FaultSchedule(seed, world_of(name), faults)) == []


def test_an_error_that_comes_with_the_garbage_is_heard(monkeypatch: pytest.MonkeyPatch) -> None:
    # Garbage is collected once behind many schedules; what a future in a cycle says then is of its schedule.
    close = RunQueue.close

    def forgetful(self: RunQueue, run: Run, status: Any) -> None:
        lost = asyncio.get_running_loop().create_future()
        lost.set_exception(ValueError("nobody looks at this"))
        cycle: list[Any] = [lost]
        cycle.append(cycle)
        close(self, run, status)

    world = world_of("cells (any policy)")
    seeds = [seed for seed in range(5 * len(turns())) if turns()[seed % len(turns())] == world][:2]
    assert not play_all(seeds).failures
    monkeypatch.setattr(RunQueue, "close", forgetful)
    found = [failure.found for failure in play_all(seeds).failures]
    assert len(found) == len(seeds)
    assert all(any("nobody looks at this" in line for line in lines) for lines in found)


def losing(self: RunQueue, run: Run, status: Any) -> None:
    run.status = status
    run.finish()


@pytest.mark.parametrize(
    ("of", "name", "fault", "kind", "oracle"),
    [
        (Ledger, "together", lambda ledger, store: store.transaction(), "full", "reconciled"),
        (RunQueue, "close", losing, "cut", "ended"),
        (RunQueue, "again", lambda runs, run: run, "full", "stuck"),
        (Journal, "entries", lambda journal, run: [], "kill", "same"),
    ],
    ids=["a chain that goes on", "a run left open", "a run not taken up", "a journal not read"],
)
def test_a_planted_fault_is_found_and_shrunk(
    of: Any, name: str, fault: Any, kind: Kind, oracle: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = world_of("cells (any policy)")
    quiet(world)
    monkeypatch.setattr(of, name, fault)
    kinds: tuple[Kind, ...] = ("clock", "slow", "twice", kind)
    for step in range(40, quiet(world).steps["curator"], 5):
        faults = [InjectedFault("curator", step, each, 1) for each in kinds]
        schedule = FaultSchedule(3, world, tuple(sorted(faults)))
        if oracle in oracles(found := judged(schedule)):
            break
    assert oracle in oracles(found)
    shortest, still = shrink(schedule, [line for line in found if line.startswith(oracle)], judged)
    assert len(shortest.faults) <= 1
    assert oracle in oracles(still)


ORDER = (
    "a file that is named before it is synced",
    "a name that is not synced",
    "a file that is synced before it is flushed",
    "a folder whose name is not synced",
    "a store that does not wait for the disk",
)


@pytest.mark.parametrize("name", ORDER)
def test_files_that_a_power_cut_would_lose_are_seen_without_a_power_cut(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = world_of("cells (any policy)")
    quiet(world)
    FAULTS[name].plant(monkeypatch)
    assert "power" in oracles(judged(FaultSchedule(0, world)))


def test_an_old_process_that_comes_back_behind_its_next_one_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    world = world_of("cells (any policy)")
    cut = [InjectedFault("owner-1", step, "cut") for step in range(24, 60, 4)]
    faults = [tuple(sorted((InjectedFault("owner-1", step, "beside", 5), *cut))) for step in (8, 14, 20)]
    assert [judged(FaultSchedule(1, world, each)) for each in faults] == [[], [], []]
    FAULTS["an old process that is let in again"].plant(monkeypatch)
    assert "fenced" in oracles([line for each in faults for line in judged(FaultSchedule(1, world, each))])


def test_a_release_made_anew_is_seen_at_a_death_while_its_files_are_made(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # 300 schedules did not find it: few were of releases, and their files were made in two steps.
    world = world_of("balog1 (any policy)")
    step = quiet(world).steps["curator"] - 50
    assert judged(once(world, "curator", step, "kill")) == []
    FAULTS["a release made anew after it was released"].plant(monkeypatch)
    assert "again" in oracles(judged(once(world, "curator", step, "kill")))


@pytest.mark.parametrize("name", ["moments (any policy)", "cells (cells of a sketch)"])
def test_a_vector_that_leaves_before_its_charge_is_stored_is_seen_without_a_death(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = world_of(name)
    assert judged(FaultSchedule(0, world)) == []
    FAULTS["vectors asked for before their charge is stored"].plant(monkeypatch)
    assert "charged" in oracles(judged(FaultSchedule(0, world)))


def test_a_party_that_ends_at_a_failed_handshake_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    world = world_of("cells (any policy)")
    shaken = FaultSchedule(1, world, (InjectedFault("owner-1", 8, "shake", 40),))
    assert judged(shaken) == []
    FAULTS["a failed handshake that ends a party"].plant(monkeypatch)
    assert "absence" in oracles(judged(shaken))
