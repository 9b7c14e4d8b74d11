"""Schedules of faults: a run ends as the undisturbed one, or says why, whatever fails."""

from __future__ import annotations

import json
import random
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from curator.cells.settings import CellsSettings
from curator.summary.auctions.clock import ClockSettings
from curator.summary.auctions.privauction import PrivAuctionSettings
from curator.summary.settings import FeatureSettings, SummarySettings
from fedkme.privacy.events import OWNERS, RawRows
from fedkme.privacy.ledger import check_chain, disclosures_in
from fedkme.privacy.presets import PrivacyTarget
from fedkme.privacy.settings import ExactSettings
from fedkme.store import open_store
from tests.faults.mortal import Fate
from tests.faults.virtual import run_virtual
from tests.faults.world import LABELLED, RUN, SCHEMA, World
from tests.faults.world import OWNERS as NAMES

SMALL = FeatureSettings(dimension=8)
CELLS = SummarySettings(features=SMALL, protocol="cells")
SEEDS = CellsSettings(bits=2, code_book="seeds")
PROTOCOLS = {
    "auto": SummarySettings(features=SMALL, cells=SEEDS, privacy=PrivacyTarget(epsilon=30.0)),
    "cells": CELLS.model_copy(update={"cells": SEEDS}),
    "clock": SummarySettings(features=SMALL, auction=ClockSettings(block=3)),
    "coalitions": CELLS.model_copy(update={"cells": CellsSettings(bits=2, coalitions=True)}),
    "privauction": SummarySettings(
        preset="published", features=SMALL, broadcast=ExactSettings(), auction=PrivAuctionSettings()
    ),
    "own class": CELLS.model_copy(update={"privacy": PrivacyTarget(epsilon=100.0)}),
    "sketch": CELLS.model_copy(update={"cells": CellsSettings(bits=2)}),
    "uniform": SummarySettings(features=SMALL, protocol="uniform"),
}
SCHEDULES = 200
PARTIES = ("curator", *NAMES)
BY_CELLS = ("auto", "cells", "coalitions", "own class", "sketch")
"""Protocols of one round, of four directives; with a sketch two more before, with coalitions three, and no
histogram. `auto` takes cells here; `own class` counts all rows by theirs, for which 42 are enough at its
epsilon."""


def play(folder: Path, protocol: str, **happenings: Any) -> tuple[dict[str, Any], World]:
    """One run in a world, and what is left of it."""
    folder.mkdir()
    schema = LABELLED if protocol == "own class" else SCHEMA
    (folder / "schema.toml").write_text(schema.to_toml(), encoding="utf-8")
    world = World(folder, PROTOCOLS[protocol], schema=schema, **happenings)
    run_virtual(world.run())
    record = json.loads((folder / "runs" / RUN / "record.json").read_text(encoding="utf-8"))
    columns = (folder / "runs" / RUN / "rounds.csv").read_text(encoding="utf-8").splitlines()
    lines = {name: ledger(folder, name) for name in PARTIES}
    kept = [f"{key}: {json.dumps(value)}" for key, value in record.items() if key not in ("bytes", "ledger")]
    return {
        "record": kept,  # as text: NaN is NaN
        "rounds": [line.rpartition(",")[0] for line in columns],  # without times
        "ledgers": lines,
    }, world


def ledger(folder: Path, name: str) -> list[str]:
    """The lines of a party, whose chain must be whole."""
    store = open_store(folder / f"{name}.db", name, "process")
    lines = [kept.line for kept in store.ledger()]
    assert store.entries(RUN) == [] or name != "curator", "the journal of a run that is over is forgotten"
    store.close()
    path = folder / f"{name}.jsonl"
    path.write_text("".join(f"{line}\n" for line in lines), encoding="ascii")
    assert check_chain(path) is None
    return lines


@pytest.fixture(scope="module")
def references(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[dict[str, Any], World]]:
    """The undisturbed run of each protocol."""
    return {name: play(tmp_path_factory.mktemp("reference") / name, name) for name in PROTOCOLS}


def fates(chance: random.Random, steps: dict[str, int], deaths: int, full: int = 0) -> dict[str, Fate]:
    """Fate of each party; any of them may be killed several times, at any step of a life."""
    made = {name: (set[int](), set[int]()) for name in PARTIES}
    for _ in range(deaths):
        name = chance.choice(PARTIES)
        made[name][0].add(chance.randint(1, 2 * steps[name]))
    for _ in range(full):
        made["curator"][1].add(chance.randint(1, steps["curator"]))
    return {name: Fate(frozenset(dead), frozenset(no_room)) for name, (dead, no_room) in made.items()}


@pytest.mark.parametrize("schedule", range(SCHEDULES))
def test_every_schedule_of_faults_ends_as_the_undisturbed_run(
    schedule: int,
    references: dict[str, tuple[dict[str, Any], World]],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # Issue 4: "200 seeded fault schedules (kill -9 of curator or owner, dropped stream, duplicated and
    # delayed message, full disk, clock jump) against a reference run: 200 of 200 end with the identical
    # summary, ledger and points accessed". All of them at once here, as the seed says; a curator whose
    # disk is full stops, and goes on when somebody has made room.
    chance = random.Random(schedule)
    protocol = sorted(PROTOCOLS)[schedule % len(PROTOCOLS)]
    expected, undisturbed = references[protocol]
    steps = {name: fate.step for name, fate in undisturbed.fates.items()}
    clock = time.time
    monkeypatch.setattr(time, "time", lambda: clock() + chance.uniform(-1e6, 1e6))
    happened, world = play(
        tmp_path / "world",
        protocol,
        seed=schedule,
        fates=fates(chance, steps, deaths=schedule % 7, full=schedule % 2),
        drops=schedule % 5,
        twice=0.3 * (schedule % 4 > 0),
    )
    assert happened == expected
    curator = world.fates["curator"]
    assert world.lives >= len(PARTIES) + sum(step <= curator.step for step in curator.deaths)


@pytest.mark.parametrize("protocol", sorted(PROTOCOLS))
def test_schedules_do_disturb(protocol: str, references: dict[str, tuple[dict[str, Any], World]]) -> None:
    # A schedule that never kills anybody would prove nothing: every party has steps at which it can die, and
    # the curator more of them than rounds.
    _, world = references[protocol]
    assert all(fate.step >= 5 for fate in world.fates.values())
    assert world.fates["curator"].step > (world.rows if protocol not in BY_CELLS else 20)


@pytest.mark.long
@pytest.mark.parametrize("step", range(1, 60))
def test_a_curator_killed_at_any_step_goes_on_to_the_same_end(
    step: int, references: dict[str, tuple[dict[str, Any], World]], tmp_path: Path
) -> None:
    # "fedkme curator serve killed with -9 at any point and started again continues every open run to the
    # identical summary, ledger and accesses": every step of the clock's run, one after another, not a sample.
    expected, undisturbed = references["clock"]
    if step > undisturbed.fates["curator"].step:
        pytest.skip("the run has fewer steps")
    happened, world = play(tmp_path / "world", "clock", fates={"curator": Fate(frozenset([step]))})
    assert happened == expected
    assert world.lives == len(PARTIES) + 1


@pytest.mark.long
@pytest.mark.parametrize("step", range(1, 30))
def test_an_owner_killed_at_any_step_goes_on_to_the_same_end(
    step: int, references: dict[str, tuple[dict[str, Any], World]], tmp_path: Path
) -> None:
    # "an owner likewise"
    expected, undisturbed = references["clock"]
    if step > undisturbed.fates["owner-2"].step:
        pytest.skip("the run has fewer steps")
    happened, world = play(tmp_path / "world", "clock", fates={"owner-2": Fate(frozenset([step]))})
    assert happened == expected
    assert world.lives == len(PARTIES) + 1


@pytest.mark.long
@pytest.mark.parametrize("protocol", BY_CELLS)
@pytest.mark.parametrize("party", ["curator", "owner-2"])
@pytest.mark.parametrize("step", range(1, 40))
def test_a_summary_by_cells_goes_on_whoever_is_killed_at_any_step(
    step: int, party: str, protocol: str, references: dict[str, tuple[dict[str, Any], World]], tmp_path: Path
) -> None:
    # The same for the few directives of the cells protocol, and for the sketch before its plan: a trusted
    # curator that died asks again for the same sums, and owners write and pay nothing a second time.
    expected, undisturbed = references[protocol]
    if step > undisturbed.fates[party].step:
        pytest.skip("the run has fewer steps")
    happened, world = play(tmp_path / "world", protocol, fates={party: Fate(frozenset([step]))})
    assert happened == expected
    assert world.lives == len(PARTIES) + 1
    assert set(world.lines) == set(undisturbed.lines)  # the choice is made once, whoever dies after it


def test_a_world_with_labels_counts_by_own_class(references: dict[str, tuple[dict[str, Any], World]]) -> None:
    # Else its schedules would disturb the sketch without labels once more.
    assert fact(references["own class"][0], "code_book")["kind"] == "classes"
    assert fact(references["sketch"][0], "code_book")["kind"] == "sketch"


def test_a_plan_chooses_cells_for_the_world_and_says_so(
    references: dict[str, tuple[dict[str, Any], World]],
) -> None:
    happened, world = references["auto"]
    assert 'protocol: "cells"' in happened["record"]
    assert [line.partition(" (")[0] for line in world.lines] == ["plan: cells, rho 2"]


@pytest.mark.parametrize("schedule", range(20))
def test_an_owner_with_a_full_disk_lets_nothing_out_that_is_not_written(
    schedule: int, tmp_path: Path
) -> None:
    # "or stop with a clear reason and lose nothing": the run goes on without the owner, says so, and every
    # row that the curator has seen is in the ledger of its owner.
    chance = random.Random(schedule)
    protocol = sorted(PROTOCOLS)[schedule % len(PROTOCOLS)]
    full = {"owner-1": Fate(full=frozenset([chance.randint(2, 16)]))}
    happened, _ = play(tmp_path / "world", protocol, seed=schedule, fates=full)
    for fault in fact(happened, "faults"):
        assert fault["owner"] == "owner-1"
        assert "disk is full" in fault["line"]
    seen = rows(happened["ledgers"]["curator"])
    for name in NAMES:
        assert seen[name] <= rows(happened["ledgers"][name])[name]


@pytest.mark.parametrize("schedule", range(20))
def test_noise_of_the_system_is_drawn_once_whoever_dies(schedule: int, tmp_path: Path) -> None:
    # "so a replay returns the same bytes, draws no noise and touches no row": with noise that nobody can
    # repeat, both sides still tell the same story, and no event is there twice.
    chance = random.Random(schedule)
    steps = dict.fromkeys(PARTIES, 20)
    happened, _ = play(
        tmp_path / "world",
        "clock",
        seed=schedule,
        fates=fates(chance, steps, deaths=4),
        drops=2,
        twice=0.3,
        secure=True,
    )
    assert fact(happened, "status") in ("complete", "stopped")  # by the luck of the clock's noise
    for name in PARTIES:
        events = disclosures_in(happened["ledgers"][name])
        assert max(Counter(events).values()) == 1
    curator = rows(happened["ledgers"]["curator"])
    told = {d for d in disclosures_in(happened["ledgers"]["curator"]) if d.observer == OWNERS}
    for name in NAMES:
        assert curator[name] == rows(happened["ledgers"][name])[name]
        heard = {d for d in disclosures_in(happened["ledgers"][name]) if d.observer == OWNERS}
        assert heard <= told


def fact(happened: dict[str, Any], key: str) -> Any:
    """A value of the curator's record."""
    facts = (text.partition(": ") for text in happened["record"])
    return {name: json.loads(text) for name, _, text in facts}[key]


def rows(lines: list[str]) -> dict[str, set[str]]:
    """Nonces of every owner's rows that came to the curator."""
    found: dict[str, set[str]] = {name: set() for name in NAMES}
    for about in disclosures_in(lines):
        if about.protected in found and about.observer == "curator" and isinstance(about.event, RawRows):
            found[about.protected].add(about.nonce)
    return found
