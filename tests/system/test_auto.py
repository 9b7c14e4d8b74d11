"""Runs whose curator names no protocol: over a real port, with owners of every kind, and by the command."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from curator.summary.settings import CellsSettings, SummarySettings
from fedkme.directives import Hello
from fedkme.errors import MissingOwnersError
from fedkme.privacy.presets import PrivacyTarget
from fedkme.privacy.settings import GaussianSettings
from fedkme.wire.codecs import VERSIONS
from fedkme.wire.directives import hello_from_wire, hello_to_wire
from owner.settings import PolicySettings
from tests.pages import without_links
from tests.system.launches import KeptProgress, launch, owners_agree, read_json
from tests.system.market import Ear, Market, market

AUTO = SummarySettings(privacy=PrivacyTarget(epsilon=10.0), cells=CellsSettings(bits=2))
"""Large enough an epsilon for cells of 15 rows of D_v."""
CHOSEN = "plan: cells, rho 2, "


async def asked(at: Market, **changes: Any) -> Ear:
    ear = Ear()
    await at.consumer(ear=ear, target=GaussianSettings(), privacy={"epsilon": 10.0}, **changes)
    return ear


def record_of(folder: Path) -> Any:
    return read_json(folder / "runs" / "run-1" / "record.json")


def refusal(folder: Path, owner: str) -> list[str]:
    return [fault["line"] for fault in record_of(folder)["faults"] if fault["owner"] == owner]


async def test_everybody_is_told_what_the_plan_chose(tmp_path: Path) -> None:
    # Issue 13, 1: "the choice and its expected result are in the plan that the consumer and every owner agree
    # to". An owner that approves by hand sees it beside what waits.
    async with market(tmp_path, ["a", "b"], summary=AUTO) as at:
        at.owner("a", 40)
        at.owner("b", 40)
        ear = await asked(at)
        said = await ear.heard("planned")
        assert said["line"].startswith(CHOSEN)
        assert (await at.ear.heard("planned"))["line"] == said["line"]
    record = record_of(tmp_path)
    assert (record["protocol"], record["plan"]["protocol"], record["plan"]["ratio"]) == ("cells", "cells", 2)
    assert record["plan"]["line"] == said["line"]
    assert record["status"] == "complete"


@pytest.mark.parametrize(
    ("policy", "words"),
    [
        (PolicySettings(protocols=("clock", "uniform")), "does not take part in the protocol 'sketch'"),
        (PolicySettings(protocols=("sketch",)), "does not take part in the protocol 'cells'"),
    ],
)
async def test_an_owner_that_does_not_allow_what_was_chosen_leaves_and_the_run_goes_on(
    tmp_path: Path, policy: PolicySettings, words: str
) -> None:
    async with market(tmp_path, ["a", "b"], summary=AUTO) as at:
        at.owner("a", 40)
        at.owner("b", 40, policy=policy)
        await asked(at)
        left = (await at.ear.heard("owner_left"))["line"]
    assert words in left
    assert record_of(tmp_path)["status"] == "complete"


async def test_a_run_waits_for_owners_before_d_v_is_offered(tmp_path: Path) -> None:
    async with market(tmp_path, ["a"], summary=AUTO, connect_s=0.3) as at:
        with pytest.raises(MissingOwnersError, match="a did not join"):
            await asked(at)
    assert not (tmp_path / "runs" / "run-1").exists()
    assert not (tmp_path / "consumer.jsonl").read_text(encoding="ascii")


async def test_owners_say_how_many_rows_a_run_may_have_of_them(tmp_path: Path) -> None:
    # By the file and the policy alone; p = 30 of 60 rows leaves no room for 2 p of .8 N.
    async with market(tmp_path, ["a", "b"], summary=AUTO) as at:
        at.owner("a", 500, policy=PolicySettings(most_rows_per_run=30))
        at.owner("b", 30)
        await asked(at, p=30)
    record = record_of(tmp_path)
    assert record["owner_rows"] == {"a": 30, "b": 30}
    assert (record["plan"]["ratio"], record["plan"]["accessed"]) == (1.5, 45)


def test_an_owner_of_an_earlier_release_says_nothing() -> None:
    said = Hello("a", VERSIONS.newest, b"i" * 16, 40)
    message = hello_to_wire(said).hello
    assert hello_from_wire(message) == said
    message.ClearField("rows")
    assert hello_from_wire(message).rows is None
    assert hello_from_wire(hello_to_wire(replace(said, rows=0)).hello).rows == 0


def test_engines_agree_on_the_choice_and_show_it(tmp_path: Path) -> None:
    made, notes = [], []
    for engine in ("processes", "inprocess"):
        progress = KeptProgress()
        assigned = (
            f"engine={engine}",
            "content=hashed",
            "protocol=auto",
            "scenario.owners=2",
            "scenario.copies=1",
        )
        made.append(launch(tmp_path / engine, *assigned, progress=progress)[0])
        notes.append([note for note in progress.notes if note.startswith("plan: ")])
    assert len({(run / "consumer" / "summary.npz").read_bytes() for run in made}) == 1
    assert len({json.dumps(read_json(run / "record.json") | {"bytes": None}) for run in made}) == 1
    assert notes[0] == notes[1]
    assert notes[0][0].startswith(CHOSEN)
    assert owners_agree(made[0])
    metrics = read_json(made[0] / "metrics.json")
    assert metrics["protocol"] == "cells-sealed"
    assert metrics["plan"]["line"] == notes[0][0]
    assert notes[0][0] in without_links((made[0] / "report.html").read_text(encoding="utf-8"))
    assert metrics["points_accessed"]["bound"] == 2 * metrics["p"]


def test_who_names_algorithm3_is_told_what_the_plan_would_take(tmp_path: Path) -> None:
    progress = KeptProgress()
    directory, metrics = launch(
        tmp_path / "run", "engine=inprocess", "protocol=algorithm3", progress=progress
    )
    assert metrics["protocol"] == "clock"
    told = [note for note in progress.notes if "the plan would take cells, rho 2" in note]
    assert told == [metrics["plan"]["disagrees"]]
    assert "no forecast" in (directory / "report.html").read_text(encoding="utf-8")
