"""Each message of an owner with a lie in it; the others finish, and it is said who lied.

The liar is a real owner whose answers are changed on their way. A lie is told by what is public: rows that
were said before, what was asked, what came.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, get_args

import numpy as np
import pytest

from consumer.settings import RequestSettings
from curator.run.release_record import ReleaseRecord
from curator.run.summary_record import SummaryRecord
from curator.summary.algorithm3 import out_of_rows
from curator.summary.auctions.privauction import PrivAuctionSettings
from curator.summary.settings import CellsSettings, FeatureSettings, SummarySettings
from curator.sums.settings import SecuritySettings, SumSettings
from fedkme.directives import (
    Accepted,
    Answer,
    Directive,
    Dry,
    NoisyHistogram,
    PriceCounts,
    Refusal,
    Rows,
    WordVector,
)
from fedkme.heads.log import Cosignature, Head
from fedkme.privacy.presets import PrivacyTarget
from fedkme.privacy.settings import ExactSettings
from fedkme.protocol import Bid, Closing
from fedkme.releases.settings import release_settings
from fedkme.sealed.offers import KeyOffer
from fedkme.sealed.rows import HashedRow
from fedkme.secagg.messages import Advertisement, Endorsement, SealedShares, Unmasking
from fedkme.secagg.signing import KeyBinding
from owner.runs import RunManager
from sim.engines.inprocess import (
    InProcessMarket,
    KeptRecords,
    open_market,
    release_in_process,
    run_in_process,
)
from sim.engines.loopback import LoopbackMembers
from tests.curator.summary.fakes import SCHEMA, owners, table

LIAR = "b"
P = 30
Lie = Callable[[Any], Answer]


class Liar:
    """Stands for what answers for an owner, and lies in its answers of one kind."""

    def __init__(self, runs: RunManager | Liar, kind: type[Answer], lie: Lie) -> None:
        self.rows: int = runs.rows
        self.lied = 0
        self._runs = runs
        self._kind = kind
        self._lie = lie

    def answer(self, directive: Directive) -> Answer | None:
        answer = self._runs.answer(directive)
        if not isinstance(answer, self._kind):
            return answer
        self.lied += 1
        return self._lie(answer)


@dataclass(frozen=True)
class Run:
    """A run with a liar: its record, what the curator reported, and how often the liar lied."""

    record: SummaryRecord | ReleaseRecord
    said: list[tuple[str, dict[str, Any]]]
    lied: int

    @property
    def named(self) -> set[str]:
        """Owners that the record or a line of the curator says did something odd."""
        lines = {fields["owner"] for event, fields in self.said if event in ("owner_left", "unwitnessed")}
        return {fault.owner for fault in self.record.faults} | lines


SMALL = FeatureSettings(dimension=16)
CHEAP = PrivacyTarget(epsilon=100.0)
CELLS = CellsSettings(code_book="seeds", bits=2)
SUMMARIES = {
    "clock": SummarySettings(features=SMALL, protocol="algorithm3", privacy=CHEAP),
    "privauction": SummarySettings(
        preset="published",
        protocol="algorithm3",
        features=SMALL,
        broadcast=ExactSettings(),
        auction=PrivAuctionSettings(),
    ),
    "uniform": SummarySettings(features=SMALL, protocol="uniform"),
    "cells": SummarySettings(features=SMALL, protocol="cells", privacy=CHEAP, cells=CELLS),
    "sealed": SummarySettings(features=SMALL, protocol="cells", privacy=CHEAP, cells=CELLS, content="hashed"),
    "sketch": SummarySettings(
        features=SMALL,
        protocol="cells",
        privacy=CHEAP,
        cells=CellsSettings(code_book="sketch", bits=2, dimension=2),
    ),
}
MARGINS = SummarySettings(
    features=SMALL,
    protocol="cells",
    privacy=PrivacyTarget(epsilon=20.0),
    cells=CellsSettings(code_book="release", picks=2),
)
"""A run of seconds, which asks owners for what others do not."""
SECURE = SecuritySettings(dropouts=1, colluders=0)
RELEASES = {"trusted": SumSettings(), "secure": SumSettings(security=SECURE)}
RELEASE = release_settings(
    {"kind": "balog1", "points": 12, "gamma": 2.0, "z": {"kind": "gaussian"}, "seed": 3, "epsilon": 5.0}
)


def run_with(protocol: str, kind: type[Answer], lie: Lie) -> Run:
    """One whole run of four owners, one of which lies."""
    market = open_market(SCHEMA, owners(40, 40, 40, 40), table(30, 7), 0)
    return run_over(market, Liar(market.runs[LIAR], kind, lie), protocol, KeptRecords())


def run_over(market: InProcessMarket, liar: Liar, protocol: str, records: KeptRecords) -> Run:
    """One whole run, as its parties' processes run it."""
    answering: Any = {**market.runs, LIAR: liar}
    events: list[tuple[str, dict[str, Any]]] = []
    market_with_liar = replace(market, members=LoopbackMembers(answering))
    hear = lambda event, **fields: events.append((event, fields))  # noqa: E731
    if protocol in RELEASES:
        settings = RELEASE.model_dump_json()
        asyncio.run(release_in_process(market_with_liar, settings, RELEASES[protocol], records, hear))
    else:
        request = RequestSettings(p=P)
        asyncio.run(
            run_in_process(
                market_with_liar, table(30, 8), SUMMARIES.get(protocol, MARGINS), request, records, hear
            )
        )
    record = records.summary or records.release
    assert record is not None
    return Run(record, events, liar.lied)


def counted(change: Callable[[Any], Any]) -> Lie:
    return lambda answer: PriceCounts(np.asarray(change(answer.at_least), dtype=np.int64))


def celled(change: Callable[[Any], Any]) -> Lie:
    return lambda answer: NoisyHistogram(np.asarray(change(answer.cells), dtype=np.int64))


def rows(change: Callable[[list[Any]], list[Any]]) -> Lie:
    return lambda answer: Rows(change(list(answer.rows)))


def words(change: Callable[[Any], Any]) -> Lie:
    return lambda answer: WordVector(np.asarray(change(answer.words), dtype=np.uint64))


def other(answer: Answer) -> Answer:
    """An answer that was not asked for."""
    return Dry() if isinstance(answer, Closing) else Closing(0)


def outside(answered: list[Any]) -> list[Any]:
    return [
        replace(row, box=row.box[:-1])
        if isinstance(row, HashedRow)
        else replace(row, values=row.values + 5.0)
        for row in answered
    ]


MOST = 2**53 - 1
_HEAD = "fedkme.ledger/owner/b\n1\n" + "A" * 43 + "=\n\n"
LIES: dict[type[Any], dict[str, Lie]] = {
    Accepted: {
        "no rows": lambda answer: Accepted(0),
        "more rows than any table": lambda answer: Accepted(2**60),
        "as many rows as can be": lambda answer: Accepted(2**53),
        "another answer": other,
    },
    Bid: {
        "no number": lambda answer: Bid(math.nan, answer.token),
        "as much as can be": lambda answer: Bid(1e300, answer.token),
        "another row": lambda answer: Bid(answer.value, answer.token + 1),
        "dry at once": lambda answer: Dry(),
        "another answer": other,
    },
    PriceCounts: {
        "as many as can be": counted(lambda answer: np.full_like(answer, MOST)),
        "one more": counted(lambda answer: answer + 1),
        "not monotone": counted(lambda answer: answer[::-1]),
        "too few prices": counted(lambda answer: answer[:-1]),
        "another answer": other,
    },
    NoisyHistogram: {
        "as many as can be": celled(lambda answer: np.full_like(answer, MOST)),
        "as few as can be": celled(lambda answer: np.full_like(answer, -MOST)),
        "too few cells": celled(lambda answer: answer[:-1]),
        "another answer": other,
    },
    Rows: {
        "none": rows(lambda answer: []),
        "the same again": rows(lambda answer: [answer[0]] * max(2, len(answer)) if answer else []),
        "one more than asked for": rows(lambda answer: [*answer, *answer[:1]]),
        "outside the schema": rows(outside),
        "another answer": other,
    },
    Closing: {
        "one more": lambda answer: Closing(answer.rows_sent + 1),
        "as many as can be": lambda answer: Closing(2**63),
        "another answer": other,
    },
    WordVector: {
        "a word short": words(lambda answer: answer[:-1]),
        "as much as can be": words(lambda answer: np.full_like(answer, 2**63 - 1)),
        "another answer": other,
    },
    Head: {
        "no head": lambda answer: Head(""),
        "a root of its own": lambda answer: replace(answer, note=_HEAD),
        "another's": lambda answer: replace(answer, note=answer.note.replace("/b", "/a")),
        "another answer": other,
    },
    Cosignature: {"another answer": other},
    KeyOffer: {
        "no keys": lambda answer: replace(answer, box=b"", signing=b""),
        "another's name": lambda answer: replace(answer, name="a"),
        "another answer": other,
    },
}
ASKED: dict[type[Any], tuple[str, ...]] = {
    Accepted: (*SUMMARIES, *RELEASES),
    Bid: ("privauction",),
    PriceCounts: ("clock",),
    NoisyHistogram: ("cells", "sealed", "sketch", "margins"),
    Rows: ("clock", "privauction", "uniform", "cells", "sealed", "sketch"),
    Closing: tuple(SUMMARIES),
    WordVector: ("sketch", "margins", *RELEASES),
    Head: (*SUMMARIES, *RELEASES),
    Cosignature: ("clock",),
    KeyOffer: ("sealed",),
}
CASES = [
    pytest.param(protocol, kind, lie, id=f"{protocol}-{kind.__name__}-{lie}")
    for kind, lies in LIES.items()
    for lie in lies
    for protocol in ASKED[kind]
]


HARMLESS = {("uniform", "no rows")}
"""A lie that nothing public contradicts, and that costs nobody else anything: such an owner is not asked."""


@pytest.mark.parametrize(("protocol", "kind", "lie"), CASES)
def test_a_liar_is_named_and_the_others_finish(protocol: str, kind: type[Answer], lie: str) -> None:
    run = run_with(protocol, kind, LIES[kind][lie])
    assert run.lied
    assert run.named == (set() if (protocol, lie) in HARMLESS else {LIAR})
    assert run.record.status == "complete"


def test_every_answer_of_an_owner_has_its_lies() -> None:
    # A message that is added has a lie here, or is one of an aggregation (tests/curator/sums/test_session.py
    # has a lie for each) or no more than "no": a refusal, and dry, which is told instead of a bid.
    aggregation = {KeyBinding, Advertisement, SealedShares, Endorsement, Unmasking}
    assert set(get_args(Answer)) - aggregation - {Refusal, Dry} == LIES.keys() == ASKED.keys()


def test_a_buyer_of_nothing_holds_the_clock_again() -> None:
    # The issue's: an owner that said it has 2^53 - 1 rows, counts as many at every price, and sells none. The
    # clock stopped at its first price, the pool was empty, and 12 of 12 rounds passed with nothing asked.
    market = open_market(SCHEMA, owners(40, 40, 40, 40), table(30, 7), 0)
    boast, empty = Liar(market.runs[LIAR], Accepted, lambda answer: Accepted(MOST)), KeptRecords()
    boast.rows = MOST
    for kind, lie in ((PriceCounts, LIES[PriceCounts]["as many as can be"]), (Rows, LIES[Rows]["none"])):
        boast = Liar(boast, kind, lie)
    run = run_over(market, boast, "clock", empty)
    assert [(fault.owner, fault.round) for fault in run.record.faults] == [(LIAR, 1)]
    assert "missing, or one too many, by the owner's own count" in run.record.faults[0].line
    assert isinstance(run.record, SummaryRecord)
    assert run.record.status == "complete"
    assert run.record.rounds[0].pool > 0
    assert run.record.closings.keys() == {"a", "c", "d"}


def test_a_run_that_ends_early_says_what_was_not_asked_for() -> None:
    record = SummaryRecord(owner_rows={"a": 5, "b": 4}, accesses=[(1, "a", 0)])
    record.rounds = []
    assert "have 8 rows that were not asked for" in str(out_of_rows(record, ["a", "b"]))
    assert "have 4 rows that were not asked for" in str(out_of_rows(record, ["a"]))
    record.accesses += [(1, "a", token) for token in range(1, 5)]
    assert "have no unsent row after 0 of the summary" in str(out_of_rows(record, ["a"]))
