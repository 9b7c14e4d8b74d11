"""Directions that D_v picks, over real ports (docs/decisions/009)."""

from __future__ import annotations

import asyncio
from pathlib import Path

import numpy as np

from curator.summary.settings import CellsSettings, SummarySettings
from fedkme.cells.directions import ENOUGH, USUAL_PICKS
from fedkme.cells.histogram import histogram_noise
from fedkme.directives import Answer, Directive
from fedkme.margins.model import PICK_SHARE, PICKS
from fedkme.margins.picks import margin_noise
from fedkme.privacy.budget import WindowBudget
from fedkme.privacy.events import BoundedRange
from fedkme.privacy.ledger import read_ledger
from fedkme.privacy.presets import PrivacyTarget
from fedkme.privacy.settings import GaussianSettings
from fedkme.tables.files import save_table
from fedkme.tables.schema import Category, Numeric, Schema
from fedkme.tables.table import Table
from owner.runs import RunManager
from tests.system.cell_market import SMALL, faults_in, record_of, town
from tests.system.market import market

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


async def test_a_run_that_sets_nothing_picks_where_categories_and_rows_allow_it(tmp_path: Path) -> None:
    # Decision 009, "on by a public rule": neither the curator nor the consumer names cells or picks. D_v is
    # of doctors, of which owners have few: no direction of the menu is as far as theirs.
    async with market(tmp_path, ["a", "b"], JOBS, summary=SummarySettings(features=SMALL)) as at:
        for seed, name in enumerate("ab"):
            at.owner(name, data=file_of(tmp_path, name, seed, 0.1))
        doctors = file_of(tmp_path, "doctors", 9, 1.0, 200)
        await at.consumer(validation=doctors, target=GaussianSettings())
    record, paid = record_of(tmp_path), [e.disclosure for e in read_ledger(tmp_path / "consumer.db")]
    assert (record["status"], record["protocol"], record["faults"]) == ("complete", "cells", [])
    assert record["plan"]["line"].startswith("plan: cells, rho 2")
    assert 1 <= len(record["cells"]["picks"]) <= USUAL_PICKS
    share = ENOUGH / 200
    events = [line.event for line in paid if line.observer == "curator"]
    assert events[:-1] == [BoundedRange(share)] * len(record["cells"]["picks"])
    assert events[-1] == histogram_noise(1.0 - USUAL_PICKS * share).event
    assert faults_in(tmp_path) == []
    with np.load(tmp_path / "consumer" / "summary.npz") as summary:
        assert (
            summary["x"][:, 3] == 2
        ).mean() > 0.5  # a tenth of the rows; one of six was another, 2 times of 30


async def test_a_d_v_of_a_curator_that_makes_a_release_gives_margins(tmp_path: Path) -> None:
    settings = SummarySettings(features=SMALL, protocol="cells", cells=CellsSettings(code_book="release"))
    async with market(tmp_path, ["a", "b"], JOBS, summary=settings) as at:
        for seed, name in enumerate("ab"):
            at.owner(name, data=file_of(tmp_path, name, seed, 0.1))
        await at.consumer(validation=file_of(tmp_path, "doctors", 9, 1.0, 200), target=GaussianSettings())
    record, paid = record_of(tmp_path), [e.disclosure for e in read_ledger(tmp_path / "consumer.db")]
    assert (record["status"], record["faults"], record["code_book"]["kind"]) == ("complete", [], "density")
    margin = margin_noise(PrivacyTarget(), PICKS, PICK_SHARE).event
    events = [line.event for line in paid if line.observer == "curator"]
    assert events == [*[BoundedRange(PICK_SHARE)] * PICKS, *[margin] * PICKS]
    assert faults_in(tmp_path) == []
    with np.load(tmp_path / "consumer" / "summary.npz") as summary:
        assert (summary["x"][:, 3] == 2).mean() > 0.5  # a tenth of the rows
