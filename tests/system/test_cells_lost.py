"""Summaries by cells go on when an owner is lost, and when the curator dies over the sketch."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from audit.attacks.wire import SilentObserver, loopback_to
from curator.cells.disclosures import CellDisclosures
from curator.cells.run import CellTask, run_cells
from curator.owners.session import OwnerSession
from curator.run.summary_record import SummaryRecord
from curator.summary.settings import SummarySettings
from curator.sums.settings import SecuritySettings, SumSettings
from fedkme.cells.codebook import kmeans_book
from fedkme.cells.histogram import histogram_noise
from fedkme.cells.projection import spec_for
from fedkme.directives import Answer, AskSums, Directive
from fedkme.errors import NotEnoughRowsError, OwnerLostError, QuorumError, SecureAggregationError
from fedkme.party import noise_for
from fedkme.privacy.ledger import read_ledger
from fedkme.privacy.presets import PrivacyTarget
from fedkme.privacy.settings import GaussianSettings
from fedkme.secagg.messages import Survivors
from fedkme.tables.files import load_table, save_table
from fedkme.tables.schema import Label
from fedkme.tables.table import Table
from owner.cells.responder import HistogramResponder
from owner.consent.gate import OwnerGate
from owner.runs import RunManager
from tests.system.cell_market import CELLS, SMALL, faults_in, record_of
from tests.system.market import SCHEMA, market, rows

CLASSED = SCHEMA.model_copy(update={"label": Label(name="kind", classes=("x", "y", "z"))})


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
    # Decision 006: it may have been opened, so it is not asked again; the consumer hears it, and the ledger
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
        if isinstance(directive.body, AskSums) and not self.reached.is_set():
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
