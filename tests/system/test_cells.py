"""Issue 6, item 1: summaries by cells over both engines and over the wire, whoever is lost on the way."""

from __future__ import annotations

import asyncio
import io
import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rich.console import Console
from typer.testing import CliRunner

from curator.cells.disclosures import CellDisclosures
from curator.cells.run import CellTask, run_cells
from curator.cells.settings import CellsSettings
from curator.owners.session import OwnerSession
from curator.summary.record import SummaryRecord
from curator.summary.settings import FeatureSettings, SummarySettings
from curator.sums.settings import SecuritySettings, SumSettings
from fedkme.cells.codebook import kmeans_book
from fedkme.cells.histogram import histogram_noise
from fedkme.cells.projection import spec_for
from fedkme.directives import Answer, Directive, Embed
from fedkme.errors import (
    BudgetError,
    CancelledRunError,
    ConfigError,
    FedkmeError,
    IncompleteSummaryError,
    NotEnoughRowsError,
    OwnerLostError,
    QuorumError,
    SecureAggregationError,
)
from fedkme.ledgers.reconcile import verify
from fedkme.operate.payout_cli import app as payout
from fedkme.party import noise_for
from fedkme.privacy.budget import Budget
from fedkme.privacy.ledger import open_ledger, read_ledger
from fedkme.privacy.presets import PrivacyTarget
from fedkme.privacy.settings import GaussianSettings
from fedkme.secagg import Survivors
from fedkme.tables.files import load_table, save_table
from fedkme.tables.schema import Label
from fedkme.tables.table import Table
from owner.cells.responder import HistogramResponder
from owner.consent.approvals import approve
from owner.consent.gate import OwnerGate
from owner.runs import RunManager
from owner.settings import PeriodBudget, PolicySettings
from sim.attacks.wire import SilentObserver, loopback_to
from sim.report.write import print_summary
from tests.system.launches import launch, owners_agree, read_json, transcript
from tests.system.market import DIMENSION, SCHEMA, Ear, Market, market, rows

CLASSED = SCHEMA.model_copy(update={"label": Label(name="kind", classes=("x", "y", "z"))})
SMALL = FeatureSettings(dimension=DIMENSION)
CELLS = SummarySettings(features=SMALL, protocol="cells", cells=CellsSettings(bits=2))
SEEDS = SummarySettings(
    features=SMALL, protocol="cells", cells=CellsSettings(bits=2, code_book="seeds", rho=1.0)
)
DIGITS = ("protocol=cells", "scenario.owners=2", "scenario.copies=1")
ENGINES = {
    "sketch, the consumer prunes": (),
    "seeds, the curator prunes": ("share=rows", "cells.code_book=seeds", "tls=false", "cells.uniform=0.5"),
}


@pytest.mark.parametrize("case", ENGINES)
def test_engines_agree_bit_for_bit(tmp_path: Path, case: str) -> None:
    # DESIGN, decision 1, for this protocol: summary, record with its histograms, and every ledger.
    made = []
    for engine in ("processes", "inprocess"):
        made.append(launch(tmp_path / engine, f"engine={engine}", *DIGITS, *ENGINES[case])[0])
    first, second = map(transcript, made)
    assert first == second
    assert owners_agree(made[0])
    assert len(first["ledger"]) == 4
    record = read_json(made[0] / "record.json")
    assert (record["status"], record["faults"]) == ("complete", [])
    assert record["closings"] == record["accessed"]
    assert sum(record["orders"].values()) == 24
    kept = [(each / "consumer" / "summary.npz").read_bytes() for each in made if not ENGINES[case]]
    assert len(set(kept)) <= 1
    assert all(not verdict.fault for each in made for verdict in verify(each))


@pytest.fixture(scope="module")
def digits(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    """A run of the five groups of digits, under a sound finite matrix."""
    out = tmp_path_factory.mktemp("digits") / "run"
    return launch(out, "engine=inprocess", "protocol=cells", "p=40", 'baselines=["uniform"]')


def test_a_summary_is_better_than_uniform_under_a_finite_matrix(digits: tuple[Path, dict[str, Any]]) -> None:
    # Issue 6: "ends better than uniform under a sound finite matrix". Measured: 0.15 of uniform's.
    _, metrics = digits
    assert metrics["mmd2"]["summary"] < 0.4 * metrics["mmd2"]["uniform"]
    sound = [s for s in metrics["privacy"] if s["accountant"] == "sound" and "owner" in s["observer"]]
    assert len(sound) == 2
    assert all(float(statement["epsilon"]) <= 1.0 for statement in sound)


def test_what_is_recorded_pays_owners(digits: tuple[Path, dict[str, Any]]) -> None:
    # Item 5: "from the mixture weights of the cells protocol (post-processing, free)", and by Shapley.
    directory, _ = digits
    record = read_json(directory / "record.json")
    assert sum(record["mixture_weights"].values()) == pytest.approx(1.0)
    assert 0.0 <= record["dropped"] <= 1.0
    size = max(1, record["classes"]) * record["code_book"]["cells"]
    assert {len(counts) for counts in record["histograms"].values()} == {size}
    assert len(record["target_histogram"]) == record["code_book"]["cells"]
    amounts = {}
    for method in ("rows", "mixture", "shapley"):
        arguments = [str(directory), "--method", method, "--json"]
        answer = json.loads(CliRunner().invoke(payout, arguments, catch_exceptions=False).stdout)
        assert answer["audience"] == "owners"
        amounts[method] = answer["amounts"]
        assert sum(amounts[method].values()) == 1000
    # D_v are 3s and 4s, which owner-2 holds.
    assert all(max(found, key=found.__getitem__) == "owner-2" for found in amounts.values())


def test_the_report_is_that_of_one_round(digits: tuple[Path, dict[str, Any]]) -> None:
    # Nothing is broadcast round after round: no median of rounds, and what D_v has that nobody holds is said.
    directory, metrics = digits
    page = (directory / "report.html").read_text(encoding="utf-8")
    assert "rows asked per row kept" in page
    assert "median round" not in page
    assert "Round by round" not in page
    shown = io.StringIO()
    print_summary(metrics, Console(file=shown, width=100))
    assert "of D_v in cells that no owner seems to have" in shown.getvalue()
    assert "ms median" not in shown.getvalue()


class Lost(OwnerSession):
    """An owner that is gone when it is asked something."""

    when = ""

    def __init__(self, party: HistogramResponder) -> None:
        super().__init__(loopback_to(party, SCHEMA.encoded_width), "run-1")

    async def histogram(self, round_number: int, cells: int) -> Any:
        return await self._unless("histogram", super().histogram(round_number, cells))

    async def fill_order(self, *order: Any) -> Any:
        return await self._unless("fill_order", super().fill_order(*order))

    async def _unless(self, question: str, answer: Any) -> Any:
        if question == self.when:
            answer.close()
            raise OwnerLostError(f"{self.name} is gone", "Start it.")
        return await answer


def small_task(p: int, rho: float) -> CellTask:
    public = rows(40, 5).values.astype(np.float32)
    book = kmeans_book(public, 4, spec_for(SCHEMA, 3), SCHEMA, 0)
    validation = rows(15, 1000).values.astype(np.float32)
    histogram = np.bincount(book.cells_of(validation), minlength=4)
    noise = histogram_noise(1.0)
    return CellTask("run-1", p, rho, SCHEMA, book, 1.0, noise, histogram, 15, validation)


async def conduct_over(
    names: Sequence[str], p: int, when: str = "", quorum: int = 1, rho: float = 2.0
) -> SummaryRecord:
    """A run without a wire, whose first owner is lost at a question."""
    ports = []
    for name in names:
        table, gate = rows(20, ord(name)), OwnerGate(name)
        ports.append(Lost(HistogramResponder(name, table, SCHEMA, noise_for(0, name)("h"), gate)))
    ports[0].when = when
    record = SummaryRecord()
    await run_cells(
        small_task(p, rho),
        ports,
        quorum,
        record,
        SilentObserver(),
        CellDisclosures("run-1", None, "consumer"),
    )
    return record


@pytest.mark.parametrize("when", ["histogram", "fill_order"])
async def test_an_owner_is_lost_on_the_way(when: str) -> None:
    # Before its histogram it has no part in the orders; before its rows they are short, and nobody is asked
    # for more: p of the rows that came make the summary, and the curator, which has D_v, sends these
    # and those of the other forms.
    record = await conduct_over("abc", 4, when, rho=9.0)
    assert [(fault.owner, fault.code) for fault in record.faults] == [("a", OwnerLostError.code)]
    assert record.status == "complete"
    assert 4 <= len(record.selected) <= 3 * 4
    assert set(record.released["histograms"]) == set("abc" if when == "fill_order" else "bc")
    assert record.released["orders"]["a"] == 0 if when == "histogram" else record.released["orders"]["a"] > 0
    assert record.accessed_by_owner()["a"] == 0


async def test_too_few_owners_or_rows() -> None:
    assert (await conduct_over("ab", 12, "histogram", quorum=2)).code == QuorumError.code
    with pytest.raises(NotEnoughRowsError, match="the 2 owners have 40"):
        await conduct_over("ab", 41)
    short = await conduct_over("ab", 35, "fill_order")
    assert (short.status, short.code) == ("stopped", NotEnoughRowsError.code)
    assert 0 < len(short.selected) < 35


@asynccontextmanager
async def town(folder: Path, owners: Sequence[str] = ("a", "b"), **changes: Any) -> AsyncIterator[Market]:
    """A curator for summaries by cells, and its owners."""
    async with market(folder, owners, **{"summary": CELLS, **changes}) as at:
        for name in owners:
            at.owner(name)
        yield at


def record_of(folder: Path, run: str = "run-1") -> Any:
    return read_json(folder / "runs" / run / "record.json")


async def test_the_sketch_under_secure_aggregation(tmp_path: Path) -> None:
    # "noise once by secure sum where the curator is not trusted with the exact sketch": no owner's sums are
    # in anybody's ledger, and not even the exact total.
    async with town(tmp_path, "abc", release=SumSettings(security=SecuritySettings(), quorum=3)) as at:
        await at.consumer()
    assert record_of(tmp_path)["status"] == "complete"
    lines = [entry.disclosure for entry in read_ledger(tmp_path / "runs" / "ledger.jsonl")]
    sums = [line.event.kind for line in lines if line.nonce.startswith("sums 1 ")]
    assert sums == ["gaussian"] * 3
    assert {line.run for line in lines if line.nonce == "release 0"} == {"run-1/cells"}


class Stuck(RunManager):
    """An owner that has masked its sums, and is not heard of then."""

    reached: asyncio.Event

    def answer(self, directive: Directive) -> Answer | None:
        answer = super().answer(directive)
        if not isinstance(directive.body, Survivors):
            return answer
        self.reached.set()
        return None


async def test_a_curator_that_dies_while_a_sketch_is_opened(tmp_path: Path) -> None:
    # Decision 007: it may have been opened, so it is not asked again; the consumer hears it, and the ledger
    # says what owners' ledgers say.
    Stuck.reached = asyncio.Event()
    release = SumSettings(security=SecuritySettings(), quorum=2)
    async with market(tmp_path, ["a", "b"], summary=CELLS, release=release) as at:
        for name in "ab":
            at.owner(name, make=Stuck)
        asking = at.consumer()
        await Stuck.reached.wait()
        await at.stop()
        assert await at.start()
        with pytest.raises(SecureAggregationError, match="stopped while the owners"):
            await asking
    for name in "ab":
        lines = [entry.disclosure.nonce for entry in read_ledger(tmp_path / f"{name}.jsonl")]
        assert sum(nonce.startswith("sums 1 ") for nonce in lines) == 1
    assert faults_in(tmp_path) == []


class Slow(RunManager):
    """An owner that gives no answer to the first question for its sums."""

    reached: asyncio.Event

    def answer(self, directive: Directive) -> Answer | None:
        if isinstance(directive.body, Embed) and not self.reached.is_set():
            self.reached.set()
            return None
        return super().answer(directive)


@pytest.mark.parametrize(("labelled", "share"), [(True, 0.15), (False, 0.7)])
async def test_a_sketch_has_its_share_by_the_sizes_that_owners_said_and_keeps_it(
    tmp_path: Path, labelled: bool, share: float
) -> None:
    # Issue 13, 5: "share of the sketch and number of cells by public rules", in a live run. A curator that
    # starts again asks for the same sketch before anybody is back to say a size. Where D_v has classes, all
    # rows are counted by their own, and those of the summary follow D_v's: uniform rows differ by 8 and more.
    Slow.reached = asyncio.Event()
    drawn = rows(200, 7, CLASSED)
    assert drawn.labels is not None
    wanted = drawn.take(
        np.concatenate([np.flatnonzero(drawn.labels == k)[:n] for k, n in ((0, 45), (2, 15))])
    )
    save_table(tmp_path / "wanted.npz", wanted if labelled else Table(wanted.values, None))
    target = PrivacyTarget(epsilon=10.0)
    summary = SummarySettings(features=SMALL, protocol="cells", privacy=target)
    async with market(tmp_path, ["a", "b"], CLASSED, summary=summary) as at:
        at.owner("a", 170)
        at.owner("b", 150, make=Slow)
        budget: dict[str, Any] = {"privacy": target, "target": GaussianSettings()}
        asking = at.consumer(20, validation=tmp_path / "wanted.npz", kernel={"gamma": 10.0}, **budget)
        await Slow.reached.wait()
        await at.stop()
        assert await at.start()
        await asking
    event = summary.owner_noise(share).sketch_event
    for party in ("a.jsonl", "b.jsonl", "runs/ledger.jsonl"):
        lines = [entry.disclosure for entry in read_ledger(tmp_path / party)]
        assert {line.event for line in lines if line.event.kind == "gaussian"} == {event}, party
    record = record_of(tmp_path)
    assert (record["status"], record["faults"]) == ("complete", [])
    book = ("classes", 0) if labelled else ("sketch", 3)
    assert (record["code_book"]["kind"], record["classes"]) == book
    if labelled:
        labels = load_table(tmp_path / "consumer" / "summary.npz", CLASSED, "the rows").labels
        assert labels is not None
        assert np.abs(np.bincount(labels, minlength=3) - [15, 0, 5]).max() <= 3
    assert faults_in(tmp_path) == []


def faults_in(folder: Path) -> list[str]:
    """Faults that `fedkme audit verify` finds in the ledgers of a market."""
    others = sorted(folder.glob("*.jsonl"))
    return [
        f"{verdict.about}: {verdict.fault}" for verdict in verify(folder / "runs", others) if verdict.fault
    ]


async def test_a_consumer_goes_on_where_it_was(tmp_path: Path) -> None:
    # It is gone while the owners are gathered for the sketch, and again while the run waits: the sketch is
    # asked for once, and the histogram drawn once.
    async with market(tmp_path, ["a", "b"], summary=CELLS) as at:
        first = at.consumer()
        await asyncio.sleep(0.5)
        first.cancel()
        await asyncio.gather(first, return_exceptions=True)
        at.owner("a")
        at.owner("b")
        ear = Ear()
        await at.consumer(ear=ear)
        assert [event for event, _ in ear.said if event == "resumed"]
        await at.consumer(output=tmp_path / "another")
    for name in "ab":
        lines = [entry.disclosure for entry in read_ledger(tmp_path / f"{name}.jsonl")]
        assert sum(line.nonce.startswith("sums 1 ") for line in lines) == 2  # one a request
    assert record_of(tmp_path)["status"] == record_of(tmp_path, "run-2")["status"] == "complete"
    assert faults_in(tmp_path) == []


async def test_too_few_seeds(tmp_path: Path) -> None:
    save_table(tmp_path / "seeds.npz", rows(3, 4))
    async with town(tmp_path, summary=SEEDS, seeds=tmp_path / "seeds.npz") as at:
        with pytest.raises(ConfigError, match="4 cells is made of public seed rows, and there are 3"):
            await at.consumer()


async def test_a_failure_that_the_consumer_did_not_hear(tmp_path: Path) -> None:
    # The run is over before it began; asked again, the consumer hears so, and does not wait for ever.
    async with market(tmp_path, ["a"], summary=CELLS, connect_s=1.0) as at:
        first = at.consumer()
        await asyncio.sleep(0.3)
        first.cancel()
        await asyncio.gather(first, return_exceptions=True)
        await asyncio.sleep(1.0)
        with pytest.raises(FedkmeError) as caught:
            await at.consumer()
        assert not isinstance(caught.value, CancelledRunError)
        assert "a did not join" in caught.value.cause


async def test_an_owner_s_budget_covers_sketch_and_histogram_together(tmp_path: Path) -> None:
    # (1, 1e-5) of both takes exactly one run of (1, 1e-5); the sketch of the second is refused already.
    budget = PeriodBudget(epsilon=1.0, delta=1e-5)
    async with market(tmp_path, ["a"], summary=CELLS) as at:
        at.owner("a", policy=PolicySettings(budgets=(budget,)))
        await at.consumer()
        assert record_of(tmp_path)["status"] == "complete"
        with pytest.raises(QuorumError, match="limits and budgets of a do not allow"):
            await at.consumer()


async def test_an_owner_takes_part_with_the_rows_that_may_leave(tmp_path: Path) -> None:
    async with market(tmp_path, ["a", "b"], summary=CELLS) as at:
        at.owner("a", policy=PolicySettings(most_rows_per_run=1))
        at.owner("b")
        await at.consumer(p=10)
    record = record_of(tmp_path)
    assert record["faults"] == []
    assert record["accessed"]["a"] <= 1 == record["owner_rows"]["a"]


async def test_a_curator_s_budget_counts_what_orders_tell_of_each_owner(tmp_path: Path) -> None:
    async with town(tmp_path, budget=Budget(epsilon=1.5, delta=1e-5)) as at:
        await at.consumer()
        with pytest.raises(BudgetError, match="owners towards owners: epsilon 1 is spent"):
            await at.consumer(output=tmp_path / "another")


async def test_a_consumer_spends_no_more_of_d_v_than_it_may(tmp_path: Path) -> None:
    # The plan says what is asked of D_v: a histogram that costs more than is left is not computed, though
    # g~ of the other protocol could have been paid for.
    budget = Budget(epsilon=1.5, delta=1e-5)
    async with town(tmp_path) as at:
        good: dict[str, Any] = {"p": 4, "budget": budget, "target": GaussianSettings()}
        with pytest.raises(BudgetError, match="D_v of consumer towards owners: epsilon 0 is spent"):
            await at.consumer(**good, privacy=PrivacyTarget(epsilon=2.0))
        ledger = tmp_path / "consumer.db"
        assert not [e for e in read_ledger(ledger) if e.disclosure.nonce.startswith("histogram")]
        await at.consumer(**good)
        with pytest.raises(BudgetError, match="epsilon 1 is spent of 1"):
            await at.consumer(**good)


async def test_one_approval_covers_a_run_and_its_sketch(tmp_path: Path) -> None:
    # And not a run of more rows, nor a second one.
    policy = PolicySettings(approval="manual", protocols=("cells",))
    folder = tmp_path / "approvals"
    async with market(tmp_path, ["a"], summary=CELLS) as at:
        at.owner("a", policy=policy, approvals=folder)
        with pytest.raises(QuorumError, match="has approved none"):
            await at.consumer(p=4)
        approve(folder, "consumer", "cells", 8, 1)
        await at.consumer(p=4)
        assert record_of(tmp_path, "run-2")["status"] == "complete"
        with pytest.raises(QuorumError, match="has approved none"):
            await at.consumer(p=4)
        approve(folder, "consumer", "cells", 7, 1)
        with pytest.raises(IncompleteSummaryError, match="has 0 of 4 rows"):
            await at.consumer(p=4)
    record = record_of(tmp_path, "run-4")
    assert record["status"] == "stopped"
    assert "has approved none of 8 rows" in record["faults"][0]["line"]
    assert record["histograms" if "histograms" in record else "accessed"] == {}


def test_a_histogram_that_one_side_did_not_write_is_found(
    digits: tuple[Path, dict[str, Any]], tmp_path: Path
) -> None:
    # Item 3: an owner's line about its histogram is mirrored in the curator's ledger, each way.
    directory, _ = digits
    for changed in ("ledger.jsonl", "owners/owner-2.jsonl"):
        copy = tmp_path / changed.replace("/", "-")
        for path in directory.rglob("*.json*"):
            place = copy / path.relative_to(directory)
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_bytes(path.read_bytes())
        path = copy / changed
        entries = [
            entry.disclosure
            for entry in read_ledger(path)
            if not (
                entry.disclosure.nonce.startswith("histogram") and entry.disclosure.protected == "owner-2"
            )
        ]
        party = "curator" if changed == "ledger.jsonl" else "owner-2"
        path.unlink()
        with open_ledger(party, path) as ledger:
            ledger.extend(entries)
        record = read_json(copy / "record.json") | {"ledger": None}
        (copy / "record.json").write_text(json.dumps(record))
        faults = [verdict.fault for verdict in verify(copy) if verdict.fault]
        assert len(faults) == 1
        assert "'pure-dp' of owner-2" in faults[0]
        assert "(histogram " in faults[0]
