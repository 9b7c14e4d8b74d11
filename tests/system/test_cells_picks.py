"""Directions that D_v picks, over real ports (docs/decisions/009)."""

from __future__ import annotations

import asyncio
import json
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from audit.in_memory import FreshNoise
from curator.cells.pool_model import release_of_pool
from curator.server import serve
from curator.settings import CuratorSettings
from curator.summary.settings import CellsSettings, SummarySettings
from curator.watch.state import Notes, noted
from fedkme.answers.folder import RELEASE
from fedkme.cells.directions import ENOUGH, MOST_OF_PICKS, USUAL_PICKS
from fedkme.cells.histogram import histogram_noise
from fedkme.cells.plan import RELEASE_SHARE
from fedkme.directives import Answer, Directive
from fedkme.errors import ConfigError, DataError
from fedkme.exchange import SummaryRequest
from fedkme.margins.model import PICK_SHARE, PICKS
from fedkme.margins.picks import margin_noise
from fedkme.privacy.budget import WindowBudget
from fedkme.privacy.events import BoundedRange, RawRows
from fedkme.privacy.ledger import read_ledger
from fedkme.privacy.presets import PrivacyTarget
from fedkme.privacy.settings import GaussianSettings
from fedkme.tables.files import load_table, save_table
from fedkme.tables.schema import Category, Numeric, Schema
from fedkme.tables.table import Table
from fedkme.wire.summaries import request_to_wire
from fedkme.wire.v1 import summaries_pb2
from operate.doctor.files import check_files
from owner.runs import RunManager
from tests.parties import curator_values
from tests.system.cell_market import SMALL, faults_in, record_of, town
from tests.system.market import Ear, market

JOBS = Schema(
    columns=(
        Numeric(name="x", bounds=(0, 1), count=3),
        Category(name="job", categories=("clerk", "cook", "doctor", "pilot")),
    )
)
PICKING = SummarySettings(features=SMALL, protocol="cells", cells=CellsSettings(picks=2, pick_share=0.2))


def file_of(folder: Path, name: str, seed: int, doctors: float, count: int = 300) -> Path:
    """A file of rows of JOBS with such a share of doctors."""
    chance = np.random.default_rng(seed)
    jobs = np.where(chance.random(count) < doctors, 2, chance.integers(2, size=count))
    save_table(folder / f"{name}-rows.npz", Table(np.column_stack([chance.random((count, 3)), jobs])))
    return folder / f"{name}-rows.npz"


class SlowToCount(RunManager):
    """An owner that gives no answer when it is asked to count."""

    reached: asyncio.Event

    def answer(self, directive: Directive) -> Answer | None:
        if directive.question == "histogram" and not self.reached.is_set():
            self.reached.set()
            return None
        return super().answer(directive)


async def test_what_d_v_picked_is_drawn_once_and_outlives_its_curator(tmp_path: Path) -> None:
    # One line for each pick on both sides; a curator that starts again makes the same cells of plan and
    # offer, and owners count in them.
    SlowToCount.reached = asyncio.Event()
    async with market(tmp_path, ["a", "b"], JOBS, summary=PICKING) as at:
        at.owner("a", make=SlowToCount, data=file_of(tmp_path, "a", 0, 0.1))
        at.owner("b", data=file_of(tmp_path, "b", 1, 0.1))
        asking = at.consumer(validation=file_of(tmp_path, "doctors", 9, 1.0))
        await SlowToCount.reached.wait()
        await at.stop()
        assert await at.start()
        await asking
    record, lines = record_of(tmp_path), [e.disclosure for e in read_ledger(tmp_path / "consumer.db")]
    assert (record["status"], record["faults"]) == ("complete", [])
    picks = record["cells"]["picks"]
    assert 1 <= len(picks) <= 2
    for observer in ("curator", "owners"):
        told = [line for line in lines if line.observer == observer]
        assert [line.event for line in told[:-1]] == [BoundedRange(0.2)] * len(picks)
        assert told[-1].event == histogram_noise(0.6).event
    curators = [e.disclosure for e in read_ledger(tmp_path / "runs" / "ledger.jsonl")]
    assert [line for line in curators if line.protected == "D_v of consumer"] == lines
    assert faults_in(tmp_path) == []


async def test_d_v_pays_for_picks_within_its_budget(tmp_path: Path) -> None:
    async with town(tmp_path, summary=PICKING) as at:
        await at.consumer(budget=WindowBudget(epsilon=1.0, delta=1e-5))


@pytest.mark.parametrize(("rows", "most", "margins"), [(110, 4, False), (200, 4, True), (200, 2, False)])
async def test_a_run_that_sets_nothing_picks_where_rows_and_parties_allow_it(
    tmp_path: Path, rows: int, most: int, margins: bool
) -> None:
    # Decision 009, "on by a public rule": neither curator nor consumer names cells. D_v is of doctors,
    # of which owners have few: no direction of the menu is as far as theirs. A large D_v gives margins over a
    # release, where its consumer lets it pick as many.
    async with market(tmp_path, ["a", "b"], JOBS, summary=SummarySettings(features=SMALL)) as at:
        for seed, name in enumerate("ab"):
            at.owner(name, data=file_of(tmp_path, name, seed, 0.1))
        doctors = file_of(tmp_path, "doctors", 9, 1.0, rows)
        await at.consumer(validation=doctors, target=GaussianSettings(), picks=most)
    record, paid = record_of(tmp_path), [e.disclosure for e in read_ledger(tmp_path / "consumer.db")]
    assert (record["status"], record["protocol"], record["faults"]) == ("complete", "cells", [])
    assert record["plan"]["line"].startswith("plan: cells, rho 2")
    events = [line.event for line in paid if line.observer == "curator"]
    if margins:
        assert record["code_book"]["kind"] == "density"
        assert sorted(record["cells"]["columns"]) == ["job", "x", "x", "x"]
        margin = margin_noise(PrivacyTarget(), PICKS, PICK_SHARE).event
        assert events == [*[BoundedRange(PICK_SHARE)] * PICKS, *[margin] * PICKS]
    else:
        assert 1 <= len(record["cells"]["picks"]) <= USUAL_PICKS
        share = min(ENOUGH / rows, MOST_OF_PICKS / USUAL_PICKS)
        assert events[:-1] == [BoundedRange(share)] * len(record["cells"]["picks"])
        assert events[-1] == histogram_noise(1.0 - USUAL_PICKS * share).event
    assert faults_in(tmp_path) == []
    with np.load(tmp_path / "consumer" / "summary.npz") as summary:
        doctors_here = (summary["x"][:, 3] == 2).mean()
    assert doctors_here > 0.5  # a tenth of the rows; one of six was another, 2 times of 30


class Slow(RunManager):
    """An owner that takes its time for its first sums."""

    waited = False

    def answer(self, directive: Directive) -> Answer | None:
        if directive.question == "embed" and not self.waited:
            self.waited = True
            time.sleep(0.5)
        return super().answer(directive)


@pytest.mark.parametrize("earlier", [False, True])
async def test_a_consumer_hears_the_stages_of_the_release_and_which_owners_have_answered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, earlier: bool
) -> None:
    # Seconds to minutes passed without a word. A consumer of an earlier release takes the plan alone.
    monkeypatch.setattr("curator.run.roster.WAITING_S", 0.02)
    if earlier:
        monkeypatch.setattr("consumer.summary.client.request_to_wire", _without_stages)
    async with market(tmp_path, ["a", "b"], JOBS, summary=SummarySettings(features=SMALL)) as at:
        at.owner("a", data=file_of(tmp_path, "a", 0, 0.1))
        at.owner("b", make=Slow, data=file_of(tmp_path, "b", 1, 0.1))
        ear, target = Ear(), GaussianSettings()
        await at.consumer(validation=file_of(tmp_path, "v", 9, 0.5, 200), target=target, ear=ear)
        curator = at.ear
    assert record_of(tmp_path)["status"] == "complete"
    heard = [
        [fields for event, fields in each.said if event == "progress" and "stage" in fields]
        for each in (curator, ear)
    ]
    lines = [[f"{fields['stage']}: {fields['line'].partition(';')[0]}" for fields in each] for each in heard]
    assert lines[1] == ([] if earlier else lines[0])
    assert lines[0][0] == "asking the pool: 2 owners"
    assert {f"measuring the pool: round {number} of 5" for number in range(1, 6)} <= {
        line.rpartition(":")[0] for line in lines[0]
    }
    assert any("1 of 2 owners have answered" in fields["line"] for fields in heard[0])
    notes: Notes = {}
    for event, fields in curator.said:
        notes = noted(notes, 0.0, event, fields)
    assert (notes["run-1"].stage, notes["run-1"].fraction) == ("", None)


def _without_stages(request: SummaryRequest) -> summaries_pb2.SummaryRequest:
    message = request_to_wire(request)
    message.ClearField("stages")
    return message


def release_in(folder: Path, table: Table, schema: Schema = JOBS) -> None:
    """Make the folder of a release of these rows."""
    folder.mkdir()
    method = release_of_pool(SummarySettings(protocol="cells"), schema, 3, RELEASE_SHARE)
    (folder / RELEASE).write_bytes(asyncio.run(method.ask(FreshNoise(table, schema, 1))))


def over(folder: Path) -> SummarySettings:
    return SummarySettings(features=SMALL, protocol="cells", cells=CellsSettings(release=folder))


async def test_over_a_release_that_exists_owners_pay_for_counts_alone(tmp_path: Path) -> None:
    files = {name: file_of(tmp_path, name, seed, 0.1) for seed, name in enumerate("ab")}
    values = [load_table(file, JOBS, str(file)).values for file in files.values()]
    await asyncio.to_thread(release_in, tmp_path / "pool", Table(np.concatenate(values)))
    async with market(tmp_path, ["a", "b"], JOBS, summary=over(tmp_path / "pool")) as at:
        for name, file in files.items():
            at.owner(name, data=file)
        doctors: Any = {"validation": file_of(tmp_path, "doctors", 9, 1.0, 200), "target": GaussianSettings()}
        for p in (6, 7):
            await at.consumer(p, output=tmp_path / f"summary-{p}", **doctors)
        with pytest.raises(ConfigError, match="D_v would pick 4 columns, and the consumer allows 2"):
            await at.consumer(8, output=tmp_path / "none", picks=2, **doctors)
    assert faults_in(tmp_path) == []
    assert {line.disclosure.run for line in read_ledger(tmp_path / "consumer.db")} == {"run-1", "run-2"}
    counts = histogram_noise((1.0 - RELEASE_SHARE) * PrivacyTarget().epsilon).event
    for owner in files:  # two counts for each summary, and no other draw
        paid = [line.disclosure for line in read_ledger(tmp_path / f"{owner}.db")]
        events = [each.event for each in paid if each.observer == "curator"]
        assert [event for event in events if not isinstance(event, RawRows)] == [counts, counts]
    for run in ("run-1", "run-2"):
        record = record_of(tmp_path, run)
        assert (record["status"], record["faults"]) == ("complete", [])
        assert record["code_book"]["kind"] == "density"
    with np.load(tmp_path / "summary-7" / "summary.npz") as summary:
        assert (summary["x"][:, 3] == 2).mean() > 0.5


@pytest.mark.parametrize(
    ("owners", "what"),
    [
        (None, "owners, and the run has 2"),
        ({"a": 9, "c": 9}, "it lacks b and has rows of c"),
        ({"a": 9, "b": 9}, ""),
        ([], "owners, and the run has 2"),
    ],
)
async def test_a_release_of_other_owners_is_told(tmp_path: Path, owners: Any, what: str) -> None:
    files = {name: file_of(tmp_path, name, seed, 0.1) for seed, name in enumerate("ab")}
    table = load_table(files["a"], JOBS, "a")
    await asyncio.to_thread(release_in, tmp_path / "pool", table)
    if owners is not None:
        (tmp_path / "pool" / "record.json").write_text(json.dumps({"owner_rows": owners}))
    async with market(tmp_path, ["a", "b"], JOBS, summary=over(tmp_path / "pool")) as at:
        for name, file in files.items():
            at.owner(name, data=file)
        await at.consumer(6, validation=file_of(tmp_path, "doctors", 9, 1.0, 200), target=GaussianSettings())
        warned = [fields for event, fields in at.ear.said if event == "warning" and "pool" in fields["line"]]
    assert [line["code"] for line in warned] == ([DataError.code] if what else [])
    assert all(what in line["line"] for line in warned)


async def test_a_curator_with_a_wrong_release_says_so_before_it_listens(tmp_path: Path) -> None:
    settings = CuratorSettings(**curator_values(tmp_path, summary=over(Path("pool"))))
    (tmp_path / "schema.toml").write_text(JOBS.to_toml(), encoding="utf-8")
    here = settings.model_copy(update=settings.relative_to(tmp_path))
    assert here.summary.cells.release == tmp_path / "pool"
    with pytest.raises(DataError, match="cannot be read"):
        await serve(here, Ear())
    other = Schema(columns=(Numeric(name="x", bounds=(0, 1), count=3),))
    rows = Table(np.random.default_rng(1).random((300, 3)))
    await asyncio.to_thread(release_in, tmp_path / "pool", rows, other)
    with pytest.raises(DataError, match="is of rows by another schema"):
        await serve(here, Ear())
    (finding,) = (each for each in check_files(here, "curator") if each.check == "release")
    assert (finding.state, finding.code) == ("fail", DataError.code)
