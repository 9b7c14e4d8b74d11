"""DESIGN, decision 2: a directive that comes again gets the same bytes, and touches no row again."""

from __future__ import annotations

import io

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from fedkme.data import Table
from fedkme.privacy.ledger import Ledger
from fedkme.privacy.noise import simulated
from fedkme.wire import codecs
from fedkme.wire.v1 import owners_pb2 as pb
from fedkme.wire.v1 import types_pb2
from owner.agent import Desk
from owner.bidder import Bidder
from owner.gate import Gate

from .market import SCHEMA

D = 8
TARGET = types_pb2.MeanVector(coordinates=range(D))
FEATURES = types_pb2.FeatureMap(kind=types_pb2.FeatureMap.KIND_PAIRED, dimension=D, gamma=1, width=3, seed=5)
PREPARE = pb.Directive(
    prepare=pb.Prepare(features=FEATURES, schema_digest=SCHEMA.digest(), target=TARGET),
    at=pb.Position(run="run-1"),
)
BROADCAST = pb.Directive(broadcast=pb.Broadcast(size=1, mean=TARGET))
BODIES = {
    "broadcast": BROADCAST,
    "ask 0": pb.Directive(ask=pb.Ask(token=0)),
    "ask 1": pb.Directive(ask=pb.Ask(token=1)),
    "draw": pb.Directive(draw=pb.Draw(count=2)),
    "prepare": PREPARE,
    "close": pb.Directive(close=pb.Close()),
    "nonsense": pb.Directive(),
}


def sent(desk: Desk, directive: pb.Directive) -> list[bytes]:
    return [reply.SerializeToString(deterministic=True) for reply in desk.answer(directive)]


@given(st.lists(st.tuples(st.sampled_from(sorted(BODIES)), st.integers(1, 3)), max_size=12))
def test_a_replay_gets_the_same_bytes(said: list[tuple[str, int]]) -> None:
    # Two owners with the same rows and randomness: one hears every directive once, the other some again.
    table = Table(np.random.default_rng(0).random((6, 3)))
    ledgers = [io.StringIO(), io.StringIO()]
    once, again = (
        Desk(
            Bidder("a", table, SCHEMA, simulated(1, "a", "draw"), Gate("a", Ledger("a", ledger))),
            SCHEMA.encoded_width,
        )
        for ledger in ledgers
    )
    for seq, (name, times) in enumerate([("prepare", 1), *said], start=1):
        directive = pb.Directive()
        directive.CopyFrom(BODIES[name])
        directive.at.seq = seq
        directive.at.round = seq
        first = sent(once, directive)
        assert first
        assert all(sent(again, directive) == first for _ in range(times))
        assert ledgers[0].getvalue() == ledgers[1].getvalue()


def test_an_old_directive_is_refused() -> None:
    # It is no replay of the last one: its answer is gone, and a second one would touch rows again.
    ledger = io.StringIO()
    bidder = Bidder(
        "a", Table(np.full((3, 3), 0.5)), SCHEMA, simulated(1, "a", "draw"), Gate("a", Ledger("a", ledger))
    )
    desk = Desk(bidder, SCHEMA.encoded_width)
    for seq, body in enumerate((PREPARE, BROADCAST, BODIES["ask 0"], BROADCAST), start=1):
        directive = pb.Directive()
        directive.CopyFrom(body)
        directive.at.seq = seq
        (reply,) = desk.answer(directive)
        assert not reply.HasField("fault")
    before = ledger.getvalue()
    old = pb.Directive(ask=pb.Ask(token=0), at=pb.Position(seq=3))
    (reply,) = desk.answer(old)
    assert "older than the last" in codecs.fault_from_wire(reply.fault).cause
    assert ledger.getvalue() == before
    last = pb.Directive()
    last.CopyFrom(BROADCAST)
    last.at.seq = 4
    assert desk.answer(last)[0].HasField("bid")
