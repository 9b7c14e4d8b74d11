"""DESIGN, decision 2: a directive that comes again gets the same bytes, and touches no row again.

Decision 004: also when the owner's process was another one in between, which has the journal alone.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedkme.party import noise_for
from fedkme.store import Store, open_store
from fedkme.tables.table import Table
from fedkme.wire.v1 import owners_pb2 as pb
from fedkme.wire.v1 import types_pb2
from owner.party import OwnerParty
from owner.runs import RunManager
from tests.owner.over_wire import OverWire
from tests.system.market import SCHEMA

D = 8
TARGET = types_pb2.MeanVector(coordinates=range(D))
FEATURES = types_pb2.FeatureMap(kind=types_pb2.FeatureMap.KIND_PAIRED, dimension=D, gamma=1, width=3, seed=5)
INVITES = {
    protocol: pb.Directive(
        invite=pb.Invite(
            schema_digest=SCHEMA.digest(),
            consumer="lab",
            protocol=protocol,
            auction=pb.AuctionTerms(features=FEATURES, target=TARGET, rows=1000),
        )
    )
    for protocol in ("winner-only", "uniform")
}
INVITE = INVITES["winner-only"]
BROADCAST = pb.Directive(broadcast=pb.Broadcast(size=1, mean=TARGET))
BODIES = {
    "broadcast": BROADCAST,
    "ask 0": pb.Directive(ask=pb.Ask(token=0)),
    "ask 1": pb.Directive(ask=pb.Ask(token=1)),
    "draw": pb.Directive(draw=pb.Draw(count=2)),
    **INVITES,
    "close": pb.Directive(close=pb.Close()),
    "nonsense": pb.Directive(),
}


def process_over(store: Store) -> OverWire:
    """A process of the owner that has its rows and its journal."""
    table = Table(np.random.default_rng(0).random((6, 3)))
    noise = noise_for(1, "a")
    return OverWire(
        RunManager(OwnerParty(name="a", table=table, schema=SCHEMA, store=store, noise_for=noise))
    )


def ledger_in(store: Store) -> list[str]:
    return [entry.line for entry in store.ledger()]


@pytest.fixture
def store() -> Iterator[Store]:
    with contextlib.closing(open_store(":memory:", "a")) as opened:
        yield opened


def numbered(body: pb.Directive, seq: int) -> pb.Directive:
    directive = pb.Directive()
    directive.CopyFrom(body)
    directive.at.CopyFrom(pb.Position(run="run-1", round=seq, seq=seq))
    return directive


def sent(runs: OverWire, directive: pb.Directive) -> list[bytes]:
    return [reply.SerializeToString(deterministic=True) for reply in runs.answer(directive)]


@given(
    st.sampled_from(sorted(INVITES)),
    st.lists(st.tuples(st.sampled_from(sorted(BODIES)), st.integers(1, 3), st.booleans()), max_size=12),
)
def test_a_replay_gets_the_same_bytes(protocol: str, said: list[tuple[str, int, bool]]) -> None:
    # Two owners with the same rows and randomness: one hears every directive once, the other some again,
    # and before some of them it dies and another process takes its place.
    with contextlib.ExitStack() as stack:
        stores = [stack.enter_context(contextlib.closing(open_store(":memory:", "a"))) for _ in range(2)]
        once, again = map(process_over, stores)
        for seq, (name, times, dies) in enumerate([(protocol, 1, False), *said], start=1):
            directive = numbered(BODIES[name], seq)
            first = sent(once, directive)
            assert first
            for _ in range(times):
                if dies:
                    again = process_over(stores[1])
                assert sent(again, directive) == first
            assert ledger_in(stores[0]) == ledger_in(stores[1])


def test_an_old_directive_has_no_answer(store: Store) -> None:
    # It is no replay of the last one: its answer is gone, and a second one would touch rows again.
    runs = process_over(store)
    for seq, body in enumerate((INVITE, BROADCAST, BODIES["ask 0"], BROADCAST), start=1):
        (reply,) = runs.answer(numbered(body, seq))
        assert not reply.HasField("fault")
    before, last = ledger_in(store), sent(runs, numbered(BROADCAST, 4))
    assert runs.answer(numbered(BODIES["ask 0"], 3)) == []
    assert runs.answer(numbered(BODIES["draw"], 2)) == []
    assert sent(runs, numbered(BROADCAST, 4)) == last
    assert ledger_in(store) == before


def test_a_directive_after_a_gap_is_refused(store: Store) -> None:
    # An owner whose journal is older than the run would bid by what it no longer knows.
    runs = process_over(store)
    runs.answer(numbered(INVITE, 1))
    (reply,) = runs.answer(numbered(BROADCAST, 3))
    assert "does not know what run-1 asked before this" in reply.fault.cause
