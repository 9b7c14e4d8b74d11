"""Every number that owners and consumers send, hostile, at a real curator: runs of others end alike."""

from __future__ import annotations

import itertools
import logging
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from consumer.requests import Requests
from consumer.settings import RequestSettings
from consumer.summary.party import ConsumerParty
from curator.summary.settings import CellsSettings, SummarySettings
from curator.sums.settings import SumSettings
from fedkme.directives import Accepted, Answer, NoisyHistogram, PriceCounts, Refusal, Rows, WordVector
from fedkme.errors import FedkmeError
from fedkme.heads.log import Head
from fedkme.privacy.events import CONSUMER
from fedkme.protocol import Bid, Closing
from fedkme.releases.settings import release_settings, settings_from_json, settings_to_json
from fedkme.wire import codecs, releases, summaries
from fedkme.wire.directives import answer_from_wire, answer_to_wire, hello_from_wire
from fedkme.wire.v1 import owners_pb2 as pb
from fedkme.wire.v1 import releases_pb2
from sim.engines.inprocess import InProcessMarket, KeptRecords, curating, open_market, silent
from tests.curator.summary import fakes
from tests.hostile import test_liars
from tests.hostile.numbers import FEW, FEW_COUNTS, hostile, neighbours

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
    variants = list(hostile(last, FEW, FEW_COUNTS))
    return variants if change is None else variants[change : change + 1]


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
        what: kind of lie, by its key in CONSUMERS.
        part: 0 for the request, then its other messages.
        change: place of the hostile number; None: all is honest.
        moved: which of two neighbours an owner has.
    """
    settings, values = CONSUMERS[what]
    market, records = market_of(moved), KeptRecords()
    answers: Said = []

    def changed(messages: Sequence[Any]) -> list[Any]:
        answers.extend(messages)
        places = range(len(answers) - len(messages), len(answers))
        if change is None or part not in places:
            return list(messages)
        mutant = next(itertools.islice(hostile(answers[part], FEW, FEW_COUNTS), change, None))[1]
        return [mutant if place == part else answers[place] for place in places]

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
        request = asker.ask(asker.document(Path()))
        try:
            (asked,) = changed(
                [summaries.request_to_wire(replace(request.document.request, request_id=bytes(16)))]
            )
            run = ready.open_summary(summaries.request_from_wire(asked))
            plan = await ready.plan_of(run)
            messages = changed(summaries.offer_to_messages(asker.offer(request, plan)))
            await ready.accept(run, summaries.offer_from_messages(messages, plan, market.schema.width))
            await ready.ended(run)
        except FedkmeError as error:
            return f"{error.code} {error.cause}", answers
    assert run.status in ("complete", "stopped", "failed")
    return run.status, answers


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


@pytest.mark.filterwarnings("error::RuntimeWarning")
@pytest.mark.parametrize("kind", ASKED)
def test_a_curator_reads_every_number_of_a_request_for_a_release(kind: str) -> None:
    # What it takes is what `settings_to_json` writes, and is read again as it is.
    for _, mutant in hostile(release_request(kind)):
        try:
            read = settings_from_json(releases.request_from_wire(mutant).settings)
        except FedkmeError:
            continue
        assert settings_from_json(settings_to_json(read)) == read


HELLO = pb.OwnerMessage(hello=pb.Hello(name="a", versions=codecs.VERSIONS, instance=b"i" * 16, rows=3))


@pytest.mark.filterwarnings("error::RuntimeWarning")
def test_a_curator_reads_every_number_of_a_hello() -> None:
    for _, mutant in hostile(HELLO):
        try:
            hello_from_wire(mutant.hello)
        except FedkmeError:
            continue
