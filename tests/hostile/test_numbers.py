"""Every number of the wire, hostile, at each party, over two data sets that differ in one row.

Both must end alike: with the same refusal, or with answers that differ by no more than the mechanism's proof
says. A field of the wire of which no sample has a case fails.
"""

from __future__ import annotations

import asyncio
import functools
import itertools
import json
import logging
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from google.protobuf import descriptor_pb2, descriptor_pool

import consumer.runs
from consumer.requests import Requests
from consumer.settings import RequestSettings
from consumer.summary.offers import finish
from consumer.summary.party import ConsumerParty
from curator.summary.settings import CellsSettings, SummarySettings
from curator.sums.settings import SumSettings
from fedkme.cells.codebook import code_book_from_json, kmeans_book
from fedkme.cells.directions import menu_from_json, scores
from fedkme.cells.histogram import HistogramNoise
from fedkme.cells.projection import spec_for
from fedkme.directives import (
    Accepted,
    Answer,
    NoisyHistogram,
    PriceCounts,
    Proposal,
    Refusal,
    Rows,
    WordVector,
)
from fedkme.errors import FedkmeError
from fedkme.exchange import CellsPlan, Offer, Outcome, SummaryChoice
from fedkme.features.binning import MergedBins
from fedkme.features.counts import Groups, NumberScores
from fedkme.features.fixed_point import MEAN_UNIT, quantize_features
from fedkme.features.fourier_map import FourierMapSpec, MixedSpec
from fedkme.features.hermite import HermiteProductSpec, HermiteSumSpec
from fedkme.features.kernel_points import PointsSpec
from fedkme.features.maps import MAPS
from fedkme.features.sums import Layout
from fedkme.heads.log import Head
from fedkme.moments.features import SecondMomentsSpec, ShellsSpec
from fedkme.ops.spans import StageTime
from fedkme.party import noise_for
from fedkme.privacy.events import CONSUMER
from fedkme.privacy.landmarks import landmarks_of
from fedkme.protocol import Bid, Closing, Consider, IntendedSummary, Security
from fedkme.protocols import PROTOCOLS
from fedkme.releases.settings import release_settings, settings_from_json, settings_to_json
from fedkme.store.memory import MemoryStore
from fedkme.sums.values import CellCounts, Marginals, Parities, ScoreProducts, SumQuery
from fedkme.sums.vector import SumVector
from fedkme.tables.table import Table
from fedkme.wire import codecs, releases, summaries, sums
from fedkme.wire.directives import answer_from_wire, answer_to_wire, hello_from_wire, invitation_to_wire
from fedkme.wire.rows import any_rows_from_wire
from fedkme.wire.v1 import owners_pb2 as pb
from fedkme.wire.v1 import pooling_pb2, releases_pb2, summaries_pb2, types_pb2
from owner.party import OwnerParty
from sim.engines.inprocess import InProcessMarket, KeptRecords, curating, open_market, silent
from tests.curator.summary import fakes
from tests.hostile import test_cells, test_curators, test_liars, test_lying_plans
from tests.hostile.numbers import (
    FEW,
    FEW_COUNTS,
    NO_NUMBERS,
    REALS,
    WIRE,
    documents,
    hostile,
    numbers_in,
    numeric,
)
from tests.owner.consent.host import NAME, SCHEMA, rows
from tests.owner.over_wire import OverWire
from tests.owner.sums import owner_parties
from tests.system.market import SCHEMA as PLAIN


def neighbours(table: Table) -> tuple[Table, Table]:
    """A table, and the one in which a row is another, with its label."""
    values = table.values.copy()
    values[7] = 1.0 - values[7] if values.max() <= 1.0 else values[0]
    labels = None if table.labels is None else table.labels.copy()
    if labels is not None:
        labels[7] = 1 - labels[7]
    return table, Table(values, labels)


WORLDS = neighbours(rows())
SKETCHED = replace(
    test_lying_plans.BOOK,
    spec=spec_for(SCHEMA, 3),
    arrays={
        "origin": np.full(4, 0.1),
        "directions": np.eye(4)[:, :1],
        "weights": np.ones((2, 4)),
        "offsets": np.array([0.0, 0.1]),
        "cuts": np.zeros(1),
        "columns": np.array([[2.0], [0.5]]),
    },
    schema=SCHEMA,
)
MAP_SPECS = (
    FourierMapSpec(dimension=8, gamma=1.0, seed=3, scales=(1.0, 2.0)),
    MixedSpec(dimension=6, gamma=0.5, seed=4, weight=2.0),
    HermiteSumSpec(order=3, length=1.0),
    HermiteProductSpec(order=3, length=1.0, columns=(0, 2)),
    PointsSpec.of(np.eye(4)[:2] / 2.0, 1.0, np.eye(2)),
    ShellsSpec(shells=2),
    SecondMomentsSpec(chosen=(0, 2), centre=(0.5, 0.5), scale=(1.0, 2.0)),
)
MERGED = (MergedBins(SCHEMA.columns[0].name, 16, (2, 9)),)
QUERIES = (
    *(SumQuery((spec,), Layout(2), counts=True, weights=(1, 7)) for spec in MAP_SPECS),
    SumQuery((), Layout(2), sketch=spec_for(SCHEMA, 3)),
    SumQuery((), Layout(), marginals=Marginals(4, ((0,),), merged=MERGED)),
    SumQuery((), Layout(), weights=(3, 1), marginals=Marginals(4, ((0,), (1, 4)))),
    SumQuery((), Layout(), weights=(3,), marginals=Marginals(4, ((1, 5),), (Groups(0, (0, 0, 1, 1)),))),
    SumQuery(
        (),
        Layout(),
        weights=(3, 2),
        parities=Parities(
            4, (Groups(0, (0, 0, 1, 1)), Groups(4, (0, 1))), (((0, 1), (1,)), ((0, 1),)), MERGED
        ),
    ),
    SumQuery(
        (),
        Layout(),
        weights=(3,),
        products=ScoreProducts(4, (NumberScores(0, (-9, -1, 0, 4)), NumberScores(4, (7, 2))), ((0, 1),)),
    ),
    SumQuery((), Layout(), weights=(2,), cells=CellCounts(json.dumps(SKETCHED.to_json()), 2, ("a", "p"))),
)


def directive(run: str, seq: int, number: int = 1, **body: Any) -> pb.Directive:
    return pb.Directive(at=pb.Position(run=run, round=number, seq=seq), **body)


def of_cells(book: Any) -> list[pb.Directive]:
    size = 2 * book.cells
    shares = [1.0 / size] * size
    return [
        test_cells.invite(code_book=book.to_json()),
        directive("run-1", 2, histogram=pb.AskHistogram()),
        directive("run-1", 3, fill_order=pb.FillOrder(count=4, shares=shares, uniform=1)),
        directive("run-1", 4, close=pb.Close()),
    ]


def of_sums(query: SumQuery) -> list[pb.Directive]:
    invited = invitation_to_wire(owner_parties.invitation("r"))
    asked = pooling_pb2.Embed(query=sums.query_to_wire(query))
    return [directive("r", 1, 0, invite=invited), directive("r", 2, embed=asked)]


def meant() -> IntendedSummary:
    return IntendedSummary("cells", 10, (HistogramNoise(2.0).event,), 0)


def secured() -> list[pb.Directive]:
    invited = owner_parties.invitation("r", security=Security(1), ahead=meant(), protocol="sketch")
    plain = owner_parties.invitation("r", security=Security(1))
    agreed = Proposal.of(owner_parties.parameters(), owner_parties.QUERY)
    asked = pooling_pb2.Aggregate(propose=sums.PROPOSAL.to_wire(agreed))
    return [
        directive("s", 1, 0, invite=invitation_to_wire(replace(invited, run="s"))),
        directive("r", 1, 0, invite=invitation_to_wire(plain)),
        directive("r", 2, aggregate=asked),
    ]


def others() -> list[pb.Directive]:
    considered = Consider("run-9", SCHEMA.digest(), "hospital", meant())
    head = types_pb2.Head(note=b"x", known=3)
    return [
        directive("run-9/considered", 1, consider=consider(considered)),
        directive("run-9/heads", 1, show_head=pb.ShowHead(known=1, origin="fedkme.ledger/curator/c")),
        directive("run-9/heads", 2, keep_head=pb.KeepHead(head=head)),
        pb.Directive(welcome=pb.Welcome(version=3, epoch=1)),
        pb.Directive(fault=types_pb2.Fault(code=34, cause="c", remedy="r")),
    ]


def consider(asked: Consider) -> pb.Consider:
    summary = asked.summary
    planned = map(codecs.event_to_wire, summary.planned)
    return pb.Consider(
        run=asked.run,
        schema_digest=asked.schema,
        consumer=asked.consumer,
        summary=pb.IntendedSummary(
            protocol=summary.protocol, rows=summary.rows, planned=planned, dimension=4
        ),
    )


CURATORS: dict[str, Callable[[], list[pb.Directive]]] = {
    "cells of centres": lambda: of_cells(test_cells.BOOK),
    "cells of a sketch": lambda: of_cells(SKETCHED),
    "clock": lambda: test_curators.scripts()[:3],
    "winner-only": lambda: test_curators.scripts()[3:6],
    "uniform": lambda: test_curators.scripts()[6:8],
    **{f"sums {place}": functools.partial(of_sums, query) for place, query in enumerate(QUERIES)},
    "secure sums": secured,
    "others": others,
}


def owner(script: Sequence[pb.Directive], table: Table) -> list[list[pb.OwnerMessage] | str]:
    """Answers of a real owner, behind its codecs, with the same noise in every world."""
    party = OwnerParty(
        name=NAME, table=table, schema=SCHEMA, store=MemoryStore(NAME), noise_for=noise_for(0, NAME)
    )
    wired, said = OverWire(party.open("curator:7700")), list[list[pb.OwnerMessage] | str]()
    for each in script:
        try:
            said.append(wired.answer(each))
        except FedkmeError as error:
            said.append(str(error))
    return said


def check_owner(script: Sequence[pb.Directive]) -> None:
    """Let two neighbours answer; refusals are the same, and what is protected moves as its proof says."""
    with np.errstate(all="ignore"):
        ends = [owner(script, world) for world in WORLDS]
    for said, first, other in zip(script, *ends, strict=True):
        if isinstance(first, str) or isinstance(other, str):
            assert first == other
            continue
        kinds = [[each.WhichOneof("body") for each in answer] for answer in (first, other)]
        assert kinds[0][-1:] == kinds[1][-1:]
        if not first:
            continue
        match kinds[0][-1]:
            case "fault":
                assert first[-1].fault == other[-1].fault
            case "histogram":
                moved = np.subtract(first[-1].histogram.cells, other[-1].histogram.cells)
                assert np.abs(moved).sum() <= 2
            case "words" if said.HasField("embed"):
                query = sums.query_from_wire(said.embed.query)
                one, two = (sums.words_from_wire(m.words for m in a).view(np.int64) for a in (first, other))
                apart = np.array([int(a) - int(b) for a, b in zip(one, two, strict=True)], np.float64)
                assert np.linalg.norm(apart) <= SumVector(query, SCHEMA).diameter


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("script", CURATORS)
def test_an_owner_answers_every_number_of_a_curator_alike(script: str) -> None:
    said = CURATORS[script]()
    check_owner(said)
    for place, each in enumerate(said):
        for name, mutant in hostile(each):
            if name.startswith("Position.") and place:
                continue
            check_owner([*said[:place], mutant, *said[place + 1 :]])


VALIDATION = neighbours(Table(np.random.default_rng(1).random((30, PLAIN.width))))
CHOSEN = SummaryChoice("cells", 2.0, (0.5, 0.4, 0.6), 10, "two rows for each")
ENCODED = np.random.default_rng(2).random((5, PLAIN.width)).astype("<f4")


def h1_plan() -> Any:
    return replace(test_lying_plans.plan(), cells=None, choice=CHOSEN)


PLANS: dict[str, Callable[[], Any]] = {
    "cells of a sketch": test_lying_plans.plan,
    "cells of centres": lambda: replace(
        h1_plan(),
        cells=CellsPlan(
            kmeans_book(VALIDATION[0].values, 4, spec_for(PLAIN, 1), PLAIN, 0).to_json(), 1.0, 2.0
        ),
    ),
    "h1": h1_plan,
    "landmarks": lambda: replace(h1_plan(), landmarks=ENCODED.tobytes()),
}


def plan_message(name: str) -> summaries_pb2.Plan:
    return summaries.plan_to_wire(PLANS[name](), codecs.VERSIONS.newest)


def offer(message: summaries_pb2.Plan, validation: Table) -> Offer | str:
    """The offer of a real consumer for what a curator sends, or the words with which it refuses."""
    try:
        version = message.version
        codecs.common_version(types_pb2.VersionRange(oldest=version, newest=version), "the curator")
        plan = summaries.plan_from_wire(message, PLAIN.encoded_width)
    except FedkmeError as error:
        return str(error)
    return test_lying_plans.offered(plan, validation)


def check_consumer(message: summaries_pb2.Plan) -> bool:
    """Let two neighbouring D_v offer; whether they refuse, which both do in the same words."""
    first, other = (offer(message, world) for world in VALIDATION)
    if isinstance(first, str) or isinstance(other, str):
        assert first == other
        return True
    plan, encoded = summaries.plan_from_wire(message, 3), [PLAIN.encode(each.values) for each in VALIDATION]
    if plan.cells is not None:
        book = code_book_from_json(plan.cells.code_book, PLAIN)
        if plan.cells.menu is not None:
            menu = menu_from_json(plan.cells.menu)
            score = [scores(menu, book, each) for each in encoded]
            assert np.abs(score[0] - score[1]).max() <= 1.0
        if first.picks == other.picks:
            assert first.histogram is not None
            assert other.histogram is not None
            assert np.abs(first.histogram - other.histogram).sum() <= 2
        return False
    assert first.target is not None
    assert other.target is not None
    moved = first.disclosures[0].sensitivity
    assert moved is not None
    if plan.landmarks:
        marks = landmarks_of(plan.landmarks, plan.features.gamma, PLAIN)
        sums_of = [quantize_features(marks.features(each)).astype(np.int64).sum(axis=0) for each in encoded]
        assert np.linalg.norm(sums_of[0] - sums_of[1]) * 2.0**-14 <= moved
        return False
    apart = np.linalg.norm((first.target.astype(np.int64) - other.target) * MEAN_UNIT) * len(encoded[0])
    assert apart <= moved + len(encoded[0]) * MEAN_UNIT * len(first.target)
    return False


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("plan", PLANS)
def test_a_consumer_answers_every_number_of_a_plan_alike(plan: str) -> None:
    said = plan_message(plan)
    assert not check_consumer(said)
    refused = [check_consumer(mutant) for _, mutant in hostile(said)]
    assert 0 < sum(refused) < len(refused)


ROWS = types_pb2.Rows(rows=[types_pb2.Row(token=1, values=[0.5, 0.5, 0.5], label=0)], last=True)
SEALED = types_pb2.Rows(rows=[types_pb2.Row(token=1, features=bytes(16), box=b"x" * 60)], last=True)
PARTICIPATION = types_pb2.Participation(expected=3, took_part=2, lost=[11])


def heard_outcome(message: summaries_pb2.Outcome) -> Outcome:
    outcome = summaries.OUTCOME.from_wire(message)
    assert outcome.participation is None or outcome.participation.line
    return outcome


RECEIVED: dict[str, tuple[Any, Callable[[Any], object]]] = {
    "outcome": (
        summaries_pb2.Outcome(rounds=1, points_accessed=3, participation=PARTICIPATION),
        lambda said: finish(h1_plan(), [], heard_outcome(said), PLAIN, None),
    ),
    "rows": (
        ROWS,
        lambda said: finish(
            h1_plan(), any_rows_from_wire([said], False), Outcome(True, "", 1, 1), fakes.SCHEMA, None
        ),
    ),
    "sealed rows": (SEALED, lambda said: any_rows_from_wire([said], True)),
    "progress": (summaries_pb2.Progress(round=1, selected=2), summaries.PROGRESS.from_wire),
    "a run": (
        summaries_pb2.RunState(run="run-1", status="queued", opened=1e9),
        lambda said: json.dumps(consumer.runs._plain(said)),
    ),
    "the progress of a release": (
        releases_pb2.ReleaseProgress(stage="training", fraction=0.5),
        lambda said: StageTime().left(said.stage, releases.STAGE.from_wire(said).fraction, 5.0),
    ),
    "a release": (releases_pb2.ReleaseOutcome(rows=3, owners=2), lambda said: f"{said.rows}, {said.owners}"),
    "the plan of a release": (
        releases_pb2.ReleasePlan(version=3),
        lambda said: codecs.common_version(
            types_pb2.VersionRange(oldest=said.version, newest=said.version), "the curator"
        ),
    ),
    "a fault": (types_pb2.Fault(code=34, cause="c", remedy="r"), codecs.fault_from_wire),
    "a head": (types_pb2.Head(note=b"x", known=3), lambda said: said.known),
}


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("what", RECEIVED)
def test_a_consumer_reads_every_number_that_it_receives(what: str) -> None:
    said, read = RECEIVED[what]
    read(said)
    for _, mutant in hostile(said):
        try:
            read(mutant)
        except FedkmeError:
            continue


@pytest.mark.filterwarnings("error")
def test_a_stage_that_has_hardly_begun_has_no_time_left() -> None:
    # A fraction of 5e-324, or NaN, ended `fedkme consumer release` with a traceback once it was paid for.
    for begun in (0.0, 5e-324):
        times = StageTime()
        times.left("training", begun, 0.0)
        for fraction in (5e-324, 1e-300, 0.5, 1.0):
            times.left("training", fraction, 10.0)


OWNERS: dict[str, tuple[type[Any], str]] = {
    "rows that an owner has": (Accepted, "uniform"),
    "bids": (Bid, "privauction"),
    "counts": (PriceCounts, "clock"),
    "histograms": (NoisyHistogram, "cells"),
    "rows": (Rows, "uniform"),
    "closings": (Closing, "uniform"),
    "sums": (WordVector, "trusted"),
    "heads": (Head, "uniform"),
}


def of_the_wire(said: Answer, change: int | None) -> list[tuple[str, pb.OwnerMessage]]:
    """Hostile copies of the last message of an answer; `change` is the place of one of them."""
    last = answer_to_wire(said)[-1]
    found = list(hostile(last, FEW, FEW_COUNTS))
    return found if change is None else found[change : change + 1]


def lie_of(change: int) -> test_liars.Lie:
    """An answer as the curator reads it, in which the number of this place is hostile."""

    def lie(said: Answer) -> Answer:
        changed = of_the_wire(said, change)
        try:
            return answer_from_wire([*answer_to_wire(said)[:-1], changed[0][1]]) if changed else said
        except FedkmeError as error:  # its connection is cut
            return Refusal.of(error)

    return lie


def market_of(moved: int) -> InProcessMarket:
    tables = fakes.owners(20, 20, 20, 20)
    tables["a"] = neighbours(tables["a"])[moved]
    return open_market(fakes.SCHEMA, tables, fakes.table(30, 7), 0)


def play_owner(what: str, lie: test_liars.Lie, moved: int) -> tuple[set[str], str]:
    """Owners that are named, and how the run of the others ended."""
    kind, protocol = OWNERS[what]
    market = market_of(moved)
    liar = test_liars.Liar(market.runs[test_liars.LIAR], kind, lie)
    run = test_liars.run_over(market, liar, protocol, KeptRecords())
    assert run.lied
    return run.named, run.record.status


def honest_answer(what: str) -> Answer:
    heard: list[Answer] = []

    def hear(said: Answer) -> Answer:
        heard.append(said)
        return said

    play_owner(what, hear, 0)
    return heard[0]


@pytest.mark.parametrize("what", OWNERS)
def test_a_curator_reads_every_number_of_an_owner_alike(what: str, monkeypatch: pytest.MonkeyPatch) -> None:
    # Whatever one owner says, the run of the others ends, and alike whichever row of another is which.
    monkeypatch.setattr(test_liars, "P", 6)
    for change in range(len(of_the_wire(honest_answer(what), None))):
        ends = [play_owner(what, lie_of(change), moved) for moved in (0, 1)]
        assert ends[0] == ends[1]
        assert ends[0][0] <= {test_liars.LIAR}
        assert ends[0][1] == "complete"


CONSUMERS: dict[str, tuple[SummarySettings, dict[str, Any]]] = {
    "clock": (test_liars.SUMMARIES["clock"], {"share": "rows"}),
    "cells of a sketch": (test_liars.SUMMARIES["sketch"], {"share": "rows"}),
    "cells that D_v picks": (
        test_liars.SUMMARIES["sketch"].model_copy(
            update={"cells": CellsSettings(code_book="sketch", bits=2, dimension=3, picks=1)}
        ),
        {},
    ),
}
Said = list[Any]


async def play_consumer(what: str, part: int, change: int | None, moved: int) -> tuple[str, Said]:
    """End of the run of a consumer one of whose messages is hostile in one number, and its honest messages.

    Args:
        what: of CONSUMERS.
        part: 0 for the request, then its other messages.
        change: place of the hostile number; None: all is honest.
        moved: which of two neighbours an owner has.
    """
    settings, values = CONSUMERS[what]
    market, records = market_of(moved), KeptRecords()
    said: Said = []

    def changed(messages: Sequence[Any]) -> list[Any]:
        said.extend(messages)
        places = range(len(said) - len(messages), len(said))
        if change is None or part not in places:
            return list(messages)
        mutant = next(itertools.islice(hostile(said[part], FEW, FEW_COUNTS), change, None))[1]
        return [mutant if place == part else said[place] for place in places]

    async with curating(market, records, silent, summary=settings, release=SumSettings()) as (ready, _):
        asker = ConsumerParty(
            requests=Requests(CONSUMER, market.consumer),
            request=RequestSettings.model_validate({"p": 6, **values}),
            schema=market.schema,
            validation=fakes.table(30, 8),
            noise_for=market.noise_for(CONSUMER),
            warn=lambda run, line: None,
            simulation_seed=0,
        )
        kept = asker.ask(asker.document(Path()))
        try:
            (asked,) = changed(
                [summaries.request_to_wire(replace(kept.document.request, request_id=bytes(16)))]
            )
            run = ready.open_summary(summaries.request_from_wire(asked))
            plan = await ready.plan_of(run)
            messages = changed(summaries.offer_to_messages(asker.offer(kept, plan), packed=True))
            await ready.accept(run, summaries.offer_from_messages(messages, plan, market.schema.width))
            await ready.ended(run)
        except FedkmeError as error:
            return f"{error.code} {error.cause}", said
    assert run.status in ("complete", "stopped", "failed")
    return run.status, said


@pytest.mark.parametrize(("what", "part"), [(what, part) for what in CONSUMERS for part in (0, 1, 2)])
async def test_a_curator_reads_every_number_of_a_consumer_alike(
    what: str, part: int, caplog: pytest.LogCaptureFixture
) -> None:
    # A refusal, or a run that ends: alike, whichever row of an owner is which, and by no unexpected error.
    end, said = await play_consumer(what, part, None, 0)
    assert end == "complete"
    if part >= len(said):
        return
    with caplog.at_level(logging.WARNING):
        for change in range(len(list(hostile(said[part], FEW, FEW_COUNTS)))):
            ends = [(await play_consumer(what, part, change, moved))[0] for moved in (0, 1)]
            assert ends[0] == ends[1]
    assert [record.getMessage() for record in caplog.records] == []


ASKED: dict[str, dict[str, Any]] = {
    "balog1": {"points": 12, "gamma": 2.0, "z": {"kind": "gaussian"}, "epsilon": 5.0, "seed": 3},
    "balog2": {"gamma": 2.0, "points": 12, "epsilon": 5.0},
    "hermite": {"epsilon": 5.0},
    "marginals": {"epsilon": 5.0},
    "merf": {"epsilon": 5.0},
    "moments": {"epsilon": 5.0},
}


def release_request(kind: str) -> releases_pb2.ReleaseRequest:
    settings = settings_to_json(release_settings({"kind": kind, **ASKED[kind]}))
    return releases_pb2.ReleaseRequest(versions=codecs.VERSIONS, name="c", settings=settings)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("kind", ASKED)
def test_a_curator_reads_every_number_of_a_request_for_a_release(kind: str) -> None:
    # What it takes is what `settings_to_json` writes, and is read again as it is.
    for _, mutant in hostile(release_request(kind)):
        try:
            read = settings_from_json(releases.request_from_wire(mutant).settings)
        except FedkmeError:
            continue
        assert settings_from_json(settings_to_json(read)) == read


def samples() -> Iterator[Any]:
    """Messages of every kind, as honest parties send them."""
    for script in CURATORS.values():
        yield from script()
    yield from map(plan_message, PLANS)
    yield from (said for said, _ in RECEIVED.values())
    yield from map(release_request, ASKED)
    for what in OWNERS:
        yield from answer_to_wire(honest_answer(what))
    for what in CONSUMERS:
        yield from asyncio.run(play_consumer(what, 0, None, 0))[1]
    yield HELLO
    yield summaries_pb2.ConsumerMessage(reference=bytes(16), picks=[0], validation=ROWS)


HELLO = pb.OwnerMessage(hello=pb.Hello(name="a", versions=codecs.VERSIONS, instance=b"i" * 16, rows=3))


@pytest.mark.filterwarnings("error")
def test_a_curator_reads_every_number_of_a_hello() -> None:
    for _, mutant in hostile(HELLO):
        try:
            hello_from_wire(mutant.hello)
        except FedkmeError:
            continue


@functools.cache
def covered() -> frozenset[str]:
    """Fields that some case makes hostile."""
    return frozenset(name for sample in samples() for name, _ in hostile(sample, REALS[:1]))


def test_every_number_of_the_wire_has_a_case() -> None:
    assert covered() == numeric()


def test_a_number_that_is_added_to_the_wire_fails_without_a_case() -> None:
    # A copy of the contract with a number, a text and bytes more: each is missed until it has its case.
    pool = descriptor_pool.DescriptorPool()
    files = []
    for file in WIRE:
        copy = descriptor_pb2.FileDescriptorProto()
        file.CopyToProto(copy)
        if file.name.endswith("types.proto"):
            row = next(each for each in copy.message_type if each.name == "Row")
            for place, (name, kind) in enumerate((("price", 1), ("document", 9), ("packed", 12))):
                row.field.add(name=name, number=90 + place, type=kind, label=1)
        pool.Add(copy)
        files.append(file.name)
    grown = [pool.FindFileByName(name) for name in files]
    assert numeric(grown) - covered() == {"Row.price", "Row.document", "Row.packed"}


def test_every_kind_of_document_of_the_wire_has_a_case() -> None:
    # A map, or a method, that is added is sampled here, and a document's numbers are found in its sample.
    assert {type(spec) for spec in MAP_SPECS} == set(MAPS.classes())
    assert {name for name, row in PROTOCOLS.items() if row.family == "sums" and row.settings} == set(ASKED)
    numbers = list(numbers_in(test_lying_plans.MENU.to_json()))
    assert {path[0] for path in numbers} == {"leading", "cuts", "widths", "levels", "close", "picks", "share"}
    changed = list(documents(json.dumps(test_lying_plans.MENU.to_json())))
    assert len(changed) == len(numbers) * (len(REALS) + len(NO_NUMBERS))
