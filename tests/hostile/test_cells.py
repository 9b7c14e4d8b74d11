"""An owner whose curator is hostile in a summary by cells, and a curator whose owners and consumers are."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from curator.owners.connection import OwnerConnection
from curator.owners.session import OwnerSession
from curator.summary.settings import CellsSettings, FeatureSettings, SummarySettings
from fedkme.cells.codebook import kmeans_book
from fedkme.cells.histogram import HistogramNoise
from fedkme.cells.projection import spec_for
from fedkme.errors import BudgetError, OwnerFaultError, OwnerLostError, ProtocolError
from fedkme.privacy.events import CURATOR, OWNERS, Event, Gaussian, PureDp, RawRows
from fedkme.privacy.ledger import disclosures_in, follow_chain
from fedkme.protocol import CellTerms, Invitation
from fedkme.wire.directives import invitation_to_wire
from fedkme.wire.v1 import owners_pb2 as pb
from fedkme.wire.v1 import summaries_pb2 as summaries_pb
from fedkme.wire.v1 import types_pb2
from owner.settings import PeriodBudget
from tests.hostile.fuzz import GROWTH, at_rest, fault_of, fuzzed, resident
from tests.hostile.services import services
from tests.hostile.test_consumers import asked, fault_in, talk
from tests.hostile.test_owners import AT, Wire
from tests.owner.consent.host import SCHEMA, Host, host, rows
from tests.system.market import DIMENSION
from tests.system.market import rows as market_rows

FUZZED = 6_000
BOOK = kmeans_book(SCHEMA.encode(rows(30).values), 4, spec_for(SCHEMA, 3), SCHEMA, 0)
SCALE = 2.0
COUNTED = 2 * BOOK.cells
"""Number of counts, which are by class."""
SHARES = [1.0 / COUNTED] * COUNTED


@pytest.fixture
def at(tmp_path: Path) -> Iterator[Host]:
    with host(tmp_path) as opened:
        yield opened


def invite(run: str = "run-1", planned: tuple[Event, ...] | None = None, **changes: Any) -> pb.Directive:
    scale = changes.pop("scale", SCALE)
    planned = (HistogramNoise(SCALE).event,) if planned is None else planned
    values: dict[str, Any] = {"classes": 2, "gamma": 1.0, "rows": 10, "code_book": BOOK.to_json()} | changes
    terms = CellTerms(values["code_book"], values["gamma"], None, values["rows"], values["classes"])
    message = invitation_to_wire(Invitation(run, SCHEMA.digest(), "hospital", "cells", planned, terms))
    message.cells.scale = scale
    return pb.Directive(at=pb.Position(run=run, seq=1), invite=message)


def directive(seq: int, run: str = "run-1", **body: Any) -> pb.Directive:
    return pb.Directive(at=pb.Position(run=run, round=1, seq=seq), **body)


def fill(seq: int, count: int = 4, shares: list[float] | None = None, run: str = "run-1") -> pb.Directive:
    return directive(
        seq, run, fill_order=pb.FillOrder(count=count, shares=SHARES if shares is None else shares)
    )


def histogram(seq: int, run: str = "run-1") -> pb.Directive:
    return directive(seq, run, histogram=pb.AskHistogram())


def told(at: Host) -> list[tuple[str, str, str]]:
    """Run, observer and nonce of each line of the owner's ledger."""
    disclosures = disclosures_in(entry.line for entry in at.store.ledger())
    return [(about.run, about.observer, about.nonce) for about in disclosures]


def scripts() -> list[pb.Directive]:
    """Every directive of a summary by cells, and some that it does not know."""
    return [
        invite(),
        histogram(2),
        fill(3),
        invite("run-2"),
        fill(2, run="run-2"),
        directive(4, close=pb.Close()),
        directive(2, draw=pb.Draw(count=2)),
        pb.Directive(at=pb.Position(run="run-1"), dismiss=pb.Dismiss()),
        pb.Directive(at=pb.Position(run="run-2"), dismiss=pb.Dismiss()),
    ]


def test_thousands_of_fuzzed_directives(tmp_path: Path) -> None:
    # In any order, twice, with odd numbers: an answer or a typed error; a histogram leaves once a run and an
    # order is filled once a run, with a line in the ledger for each.
    before = at_rest()
    counted: list[str] = []
    filled: list[str] = []
    with host(tmp_path, runs_at_once=8) as at:
        for number, said in enumerate(fuzzed(scripts(), FUZZED, seed=12)):
            if number % 60 == 0:
                at.wired.welcome([])
            if said is None:
                continue
            if number % 10 and said.at.run.startswith("run-"):
                said.at.run += f"-{number // 60}"
                handler: Any = at.wired._handlers.get(said.at.run)
                said.at.seq = 1 if handler is None else handler.last + 1
            for reply in at.wired.answer(said):
                if reply.HasField("histogram"):
                    counted.append(said.at.run)
                if reply.HasField("rows") and reply.rows.last:
                    filled.append(said.at.run)
        assert len(counted) > 20
        assert len(filled) > 20
        lines = told(at)
        for observer in (CURATOR, OWNERS):
            written = [
                run for run, seen, nonce in lines if (seen, nonce.split()[0]) == (observer, "histogram")
            ]
            assert len(written) == len(set(written)) == len(set(counted))
        raw = [d for d in disclosures_in(k.line for k in at.store.ledger()) if isinstance(d.event, RawRows)]
        assert len(raw) == len({(about.run, about.nonce) for about in raw}) == at.wired.rows_sent
        ledger = tmp_path / "ledger.jsonl"
        ledger.write_text("".join(f"{kept.line}\n" for kept in at.store.ledger()))
        assert follow_chain(ledger)[1] is None
    assert resident() - before < GROWTH


CHEAP = (PureDp(0.01, count=2),)


@pytest.mark.parametrize(
    "said",
    [
        invite(scale=1e-9),
        invite(scale=SCALE, planned=CHEAP),
        invite(scale=SCALE, planned=()),
        invite(scale=SCALE, planned=(HistogramNoise(SCALE).event, Gaussian(1.0))),
        *(invite(scale=scale) for scale in (0.0, -1.0, math.nan, math.inf, 1e300, 5e-324)),
        *(invite(gamma=gamma) for gamma in (0.0, -1.0, math.nan, math.inf)),
        *(invite(classes=classes) for classes in (1, 3, 2**32 - 1)),
        invite(code_book={}),
        invite(code_book={**BOOK.to_json(), "kind": "other"}),
        invite(code_book={**BOOK.to_json(), "arrays": {"centres": [[math.nan] * 4]}}),
        invite(code_book={**BOOK.to_json(), "arrays": {"centres": [[0.0] * 5]}}),
        invite(code_book={**BOOK.to_json(), "spec": dict(BOOK.to_json()["spec"], width=5)}),
        invite(code_book={**BOOK.to_json(), "spec": dict(BOOK.to_json()["spec"], seed=2**64)}),
    ],
    ids=range(23),
)
def test_a_plan_that_is_none(at: Host, said: pb.Directive) -> None:
    # Noise that is less than what the plan says it costs, too: refused, and nothing is asked of the run then.
    assert type(fault_of(at.wired.answer(said))) is ProtocolError
    fault_of(at.wired.answer(histogram(2)))
    fault_of(at.wired.answer(fill(3, 1)))
    assert at.wired.rows_sent == at.lines == 0


def test_noise_that_costs_more_than_the_owner_allows(tmp_path: Path) -> None:
    # An honest plan of little noise: its price is looked at before anything is computed.
    with host(tmp_path, budgets=[PeriodBudget(epsilon=1.0, delta=1e-5).model_dump()]) as at:
        for number, scale in enumerate((1e-3, 0.5)):
            planned = (HistogramNoise(scale).event,)
            fault = fault_of(at.wired.answer(invite(f"run-{number}", planned, scale=scale)))
            assert type(fault) is BudgetError
            assert "towards others: epsilon 0 is spent of 1" in at.refusals[-1][1].cause
        assert at.lines == 0
        assert at.wired.answer(invite("good"))[0].HasField("accepted")


def test_a_second_histogram_is_refused_also_by_the_next_process(tmp_path: Path) -> None:
    # It would cost as much again; the same directive gets the same counts, and no line.
    with host(tmp_path) as at:
        at.wired.answer(invite())
        (first,) = at.wired.answer(histogram(2))
        assert len(first.histogram.cells) == COUNTED
        assert at.wired.answer(histogram(2)) == [first]
    with host(tmp_path) as at:
        assert at.wired.answer(histogram(2)) == [first]
        assert "out of turn, or twice" in fault_of(at.wired.answer(histogram(3))).cause
        assert at.lines == 2


@pytest.mark.parametrize("order", [fill(3), fill(3, 2), fill(3, 1, [0.0] * (COUNTED - 1) + [1.0])])
def test_a_second_order_is_refused_also_by_the_next_process(tmp_path: Path, order: pb.Directive) -> None:
    # Also after one of no cells: one cell after another could be asked whether it is empty.
    empty = [0.0] * COUNTED
    with host(tmp_path) as at:
        at.wired.answer(invite())
        (reply,) = at.wired.answer(fill(2, 3, empty))
        assert len(reply.rows.rows) == 3
        assert "out of turn, or twice" in fault_of(at.wired.answer(order)).cause
    with host(tmp_path) as at:
        order.at.seq = 4
        assert "out of turn, or twice" in fault_of(at.wired.answer(order)).cause
        assert at.wired.rows_sent == 3


@pytest.mark.parametrize(
    "order",
    [
        fill(2, 0),
        fill(2, 11),
        fill(2, 2**63),
        fill(2, 4, []),
        fill(2, 4, SHARES[1:]),
        fill(2, 4, [*SHARES, 0.0]),
        directive(2, fill_order=pb.FillOrder(count=4, shares=SHARES, uniform=5)),
        *(fill(2, 4, [odd, *SHARES[1:]]) for odd in (math.nan, math.inf, -1.0, -5e-324, 2.0, 1.7e308)),
    ],
    ids=range(13),
)
def test_an_order_that_is_none(at: Host, order: pb.Directive) -> None:
    # Refused without a row, and a proper one is filled after it.
    at.wired.answer(invite())
    assert type(fault_of(at.wired.answer(order))) is ProtocolError
    assert at.wired.rows_sent == 0
    replies = at.wired.answer(fill(3, 4))
    assert sum(len(reply.rows.rows) for reply in replies) == 4


@pytest.mark.parametrize("length", [0, COUNTED - 1, COUNTED + 1, 10**5])
async def test_an_owner_s_histogram_of_another_length(length: int) -> None:
    await _odd_histogram([1] * length)


@pytest.mark.parametrize("count", [2**53, -(2**53), 2**63 - 1, -(2**63)])
async def test_an_owner_s_count_that_no_table_has(count: int) -> None:
    await _odd_histogram([count] * COUNTED)


@pytest.mark.parametrize("count", [2**53 + 1, 2**64 - 1])
async def test_an_owner_of_more_rows_than_there_are(count: int) -> None:
    # Orders are limited by it, in whole numbers.
    connection = OwnerConnection("a", 60, 0)
    wire = Wire(pb.OwnerMessage(at=AT, accepted=pb.Accepted(rows=count)))
    await connection.attach(wire)
    wire.connection = connection
    planned = (HistogramNoise(SCALE).event,)
    terms = CellTerms(BOOK.to_json(), 1.0, HistogramNoise(SCALE), 10, 2)
    said = Invitation("run-1", "", "hospital", "cells", planned, terms)
    with pytest.raises(OwnerFaultError, match="more rows than any table"):
        await OwnerSession(connection, "run-1", None, width=4).invite(said)


async def _odd_histogram(cells: list[int]) -> None:
    """Assert that the owner is out of the run, with an error that the run foresees, and its stream is cut."""
    connection = OwnerConnection("a", 60, 0)
    wire = Wire(pb.OwnerMessage(at=AT, histogram=types_pb2.Histogram(cells=cells)))
    await connection.attach(wire)
    wire.connection = connection
    session = OwnerSession(connection, "run-1", None, width=4)
    session._order.accept(
        Invitation("run-1", "", "c", "cells", (), CellTerms({}, 1.0, HistogramNoise(SCALE), 10))
    )
    with pytest.raises((OwnerFaultError, OwnerLostError)):
        await session.histogram(1, COUNTED)
    assert wire.was_cut


@pytest.mark.parametrize(
    "cells", [[], [1] * 3, [1] * 5, [2**53] * 4, [-(2**63)] * 4], ids=["none", "few", "more", "huge", "least"]
)
async def test_a_consumer_s_histogram_that_is_none(tmp_path: Path, cells: list[int]) -> None:
    # Also g~ in its place, and directions of no menu: refused; the run still waits for what was asked for.
    summary = SummarySettings(
        features=FeatureSettings(dimension=DIMENSION),
        protocol="cells",
        cells=CellsSettings(bits=2, code_book="seeds"),
    )
    async with services(tmp_path, market_rows(30, 4), summary=summary) as at:
        offered = summaries_pb.ConsumerMessage(histogram=types_pb2.Histogram(cells=cells))
        heard = await talk(at, asked(), offered)
        assert heard[0].plan.HasField("cells")
        assert isinstance(fault_in(heard), ProtocolError)
        stray = summaries_pb.ConsumerMessage(histogram=types_pb2.Histogram(cells=[1] * 4), picks=[0])
        assert isinstance(fault_in(await talk(at, asked(), stray)), ProtocolError)
        target = summaries_pb.ConsumerMessage(target=types_pb2.MeanVector(coordinates=[0] * DIMENSION))
        assert isinstance(fault_in(await talk(at, asked(), target)), ProtocolError)
        (run,) = at.runs.of("consumer")
        assert run.status == "asked"
        cells_plan = run.document.planned.cells
        assert cells_plan is not None
        assert cells_plan.code_book["kind"] == "kmeans"
