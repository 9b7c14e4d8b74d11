"""Sums over an owner's stream: the curator's session, an owner's handler, and owners that answer oddly."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Iterable, Sequence

import numpy as np
import pytest
from numpy.typing import NDArray

from audit.chaos.clock import run_virtual
from audit.chaos.parties import compute
from curator.owners.connection import LEAST_WORDS, OwnerConnection
from curator.sums.charges import SumDisclosures
from curator.sums.round import SumRound
from curator.sums.session import SumSession
from fedkme.directives import Directive
from fedkme.errors import (
    BudgetError,
    ConnectionFailedError,
    FedkmeError,
    OwnerFaultError,
    OwnerLostError,
    PolicyError,
    SecureAggregationError,
)
from fedkme.features.fourier_map import FourierMapSpec
from fedkme.privacy.events import Disclosure, Gaussian
from fedkme.privacy.noise import NoiseSource, simulated
from fedkme.protocol import Security
from fedkme.secagg.messages import Advertisement, Delivery, Survivors
from fedkme.secagg.noise import NoisePlan, plan_noise
from fedkme.sums.values import SumQuery
from fedkme.sums.vector import SumVector
from fedkme.tables.table import Table
from fedkme.wire import codecs
from fedkme.wire.directives import answer_to_wire, directive_from_wire
from fedkme.wire.v1 import owners_pb2 as pb
from fedkme.wire.v1 import pooling_pb2
from owner.consent.gate import OwnerGate
from owner.sums.handler import SumHandler
from owner.sums.responder import SumResponder
from tests.curator.sums.fake_owners import (
    BY_CLASS,
    FOURIER,
    HERMITE,
    SCHEMA,
    dealt,
    invitation,
    shares,
    table,
)
from tests.silence import Silence

LONG = SumQuery((FourierMapSpec(dimension=50_000, gamma=1.0, seed=0),), BY_CLASS)
QUERY = SumQuery((FOURIER, HERMITE), BY_CLASS, counts=True)


class Lines:
    """A ledger that keeps what it is given."""

    def __init__(self) -> None:
        self.lines: list[Disclosure] = []

    def extend(self, disclosures: Iterable[Disclosure]) -> None:
        self.lines += disclosures

    def head(self) -> dict[str, int | str]:
        return {}


class Party:
    """An owner behind a wire; the wire breaks once before the parts that a test names.

    Attributes:
        lines: lines of its ledger.
        heard: directives that came.
    """

    def __init__(self, name: str, rows: Table, noise: NoiseSource, breaks: Sequence[int] = ()) -> None:
        self.lines = Lines()
        gate = OwnerGate(name, self.lines)
        self.handler = SumHandler("run-1", SumResponder(name, rows, SCHEMA, noise, gate))
        self.connection = OwnerConnection(name, 60, 60)
        self.heard: list[Directive] = []
        self.session = SumSession(self.connection, "run-1")
        self._breaks = list(breaks)
        self._sent = 0
        self._tasks: set[asyncio.Task[None]] = set()

    async def join(self) -> None:
        await self.connection.attach(Wire(self))

    async def answer(self, wire: Wire, raw: bytes) -> None:
        directive = directive_from_wire(pb.Directive.FromString(raw))
        self.heard.append(directive)
        if self.handler.is_new(directive):
            self.handler.answer(directive)
        answer = self.handler.again(directive)
        for reply in () if answer is None else answer_to_wire(answer, directive):
            self._sent += 1
            if self._sent in self._breaks:
                self._breaks.remove(self._sent)
                self.connection.detach(wire)
                await asyncio.sleep(0)
                await self.join()
                return
            self.connection.deliver(wire, pb.OwnerMessage.FromString(reply.SerializeToString()))

    def start(self, wire: Wire, directive: pb.Directive) -> None:
        task = asyncio.create_task(self.answer(wire, directive.SerializeToString()))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


class Wire:
    """The stream of a party."""

    def __init__(self, party: Party) -> None:
        self._party = party

    async def write(self, directive: pb.Directive) -> None:
        self._party.start(self, directive)

    def cut(self) -> None:
        self._party.connection.detach(self)


def same(plan: NoisePlan, count: int) -> NoisePlan:
    """The plan, whatever the number of owners."""
    return plan


async def opened(
    count: int, security: Security | None, breaks: Sequence[int] = (), noise: NoiseSource | None = None
) -> tuple[list[Party], SumRound, SumDisclosures]:
    parties = []
    for number, rows in enumerate(dealt(table(6 * count), count)):
        name = f"o{number:03d}"
        drawn = noise or simulated(1, name, "shares")
        parties.append(Party(name, rows, drawn, breaks if number == 1 else ()))
    for party in parties:
        await party.join()
    invited = invitation(security, planned=(Gaussian(2.0),))
    gate = SumDisclosures(invited)
    sessions = [party.session for party in parties]
    owners = SumRound(sessions, invited, gate, quorum=1, observe=lambda fault: None, faults=[])
    await owners.invite_all()
    return parties, owners, gate


@pytest.mark.parametrize("query", [QUERY, LONG], ids=["short", "in parts"])
async def test_both_sides_write_the_same_lines(query: SumQuery) -> None:
    # Decision 006: "Both sides write the same line, so that ledgers can be compared", at every trust level;
    # and the totals over the wire are the same as each other.
    vector = SumVector(query, SCHEMA)
    deviation = 2.0 * vector.diameter
    totals: list[NDArray[np.int64]] = []
    plan = plan_noise(
        0.5, 1e-5, owners=4, dropouts=1, colluders=1, length=vector.length, diameter=vector.diameter
    )
    for security, noise in ((None, None), (Security(1), Silence()), (Security(1), None)):
        parties, owners, gate = await opened(4, security, noise=noise)
        if security is None:
            total = await owners.plain_total(vector)
        else:
            total = await owners.secure_total(vector, security, functools.partial(same, plan))
            assert total.deviation > deviation
        if security is not None and noise is None:
            assert 0 < np.abs(total.steps - totals[0]).max() < 10 * total.deviation
        totals.append(total.steps)
        written = gate.came()
        for party in parties:
            assert [line for line in written if line.protected == party.connection.name] == sorted(
                party.lines.lines, key=lambda line: line.round
            )
            assert party.session.traffic.received > 8 * vector.length
    assert np.array_equal(totals[0], totals[1])


@pytest.mark.parametrize("security", [None, Security(1)])
async def test_a_vector_whose_stream_breaks_comes_again_whole(security: Security | None) -> None:
    # "A directive that waits for its answer when a stream ends is sent again": parts that came are forgotten.
    vector = SumVector(LONG, SCHEMA)
    parties, owners, gate = await opened(4, security, breaks=(3, 6), noise=Silence())
    if security is None:
        total = await owners.plain_total(vector)
    else:
        total = await owners.secure_total(vector, security, shares(vector, security))
    assert total.owners == tuple(party.connection.name for party in parties)
    assert len(parties[1].heard) > len(parties[0].heard)
    exact = sum(SumVector(LONG, SCHEMA).of(rows) for rows in dealt(table(24), 4))
    assert np.array_equal(total.steps, exact)
    assert len(gate.came()) == 8


class Odd:
    """A stream whose owner answers as a test says."""

    def __init__(self, connection: OwnerConnection, *answers: pb.OwnerMessage) -> None:
        self._connection, self._answers = connection, answers
        self.was_cut = False

    async def write(self, directive: pb.Directive) -> None:
        if self.was_cut:
            raise ConnectionFailedError("cut", "none")
        for answer in self._answers:
            answer.at.CopyFrom(directive.at)
            self._connection.deliver(self, answer)

    def cut(self) -> None:
        self.was_cut = True


async def odd(*answers: pb.OwnerMessage) -> tuple[SumSession, Odd]:
    connection = OwnerConnection("a", 60, 0)
    wire = Odd(connection, *answers)
    await connection.attach(wire)
    session = SumSession(connection, "run-1")
    session._order.accept(invitation())
    return session, wire


def words(count: int, last: bool = False) -> pb.OwnerMessage:
    return pb.OwnerMessage(words=pooling_pb2.Words(words=[1] * count, last=last))


PART = LEAST_WORDS
LENGTH = 2 * PART + 1


@pytest.mark.parametrize(
    "answers",
    [
        [words(LENGTH + 1, True)],
        [words(PART), words(PART), words(PART)],
        [words(0)],
        [words(PART - 1)],
        [words(LENGTH - 1, True)],
        [words(0, True)],
        [words(PART), pb.OwnerMessage(rows={"rows": [], "last": True})],
        [pb.OwnerMessage(rows={"rows": [], "last": True})],
        [pb.OwnerMessage(aggregated=pooling_pb2.Aggregated())],
        [pb.OwnerMessage()],
    ],
    ids=[
        "too many",
        "too many in parts",
        "an empty part",
        "a small part",
        "too few",
        "none",
        "rows in between",
        "rows",
        "another step",
        "nothing",
    ],
)
async def test_unrequested_words_are_refused(answers: list[pb.OwnerMessage]) -> None:
    # What an owner can make the curator hold is what it was asked for: so many words, in so many parts.
    session, wire = await odd(*answers)
    with pytest.raises(OwnerFaultError):
        await session.embed(1, QUERY, LENGTH)
    assert wire.was_cut
    session, wire = await odd(*answers)
    with pytest.raises(OwnerFaultError):
        await session.mask(1, Delivery("a", bytes(32), ()), LENGTH)
    assert wire.was_cut


async def test_requested_words_are_accepted() -> None:
    session, wire = await odd(words(PART), words(PART), words(1, True))
    assert (await session.embed(1, QUERY, LENGTH)).tolist() == [1] * LENGTH
    masked = await session.mask(1, Delivery("a", bytes(32), ()), LENGTH)
    assert (masked.sender, masked.context, len(masked.words)) == ("a", bytes(32), LENGTH)
    assert not wire.was_cut


ADVERTISEMENT = pooling_pb2.KeyAdvertisement(
    sender="a",
    context=bytes(32),
    cipher_key=bytes(32),
    mask_key=bytes(32),
    commitment=bytes(32),
    signature=bytes(64),
)


@pytest.mark.parametrize(
    "step",
    [
        pooling_pb2.Aggregated(),
        pooling_pb2.Aggregated(key=pooling_pb2.SigningKey()),
        pooling_pb2.Aggregated(endorsement=pooling_pb2.EndorsementOf(sender="a", context=b"", signature=b"")),
        pooling_pb2.Aggregated(advertisement=pooling_pb2.KeyAdvertisement(sender="a")),
    ],
    ids=["none", "another", "a later one", "an empty one"],
)
async def test_unrequested_steps_are_refused(step: pooling_pb2.Aggregated) -> None:
    session, wire = await odd(pb.OwnerMessage(aggregated=step))
    with pytest.raises(OwnerFaultError):
        await session.advertise(1, [])
    assert wire.was_cut
    session, wire = await odd(pb.OwnerMessage(aggregated=step))
    with pytest.raises(OwnerFaultError):
        await session.endorse(1, Survivors(bytes(32), ("a",)))
    assert wire.was_cut


async def test_a_requested_step_is_accepted() -> None:
    session, _ = await odd(pb.OwnerMessage(aggregated=pooling_pb2.Aggregated(advertisement=ADVERTISEMENT)))
    assert await session.advertise(1, []) == Advertisement(
        "a", bytes(32), bytes(32), bytes(32), bytes(32), bytes(64)
    )


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (BudgetError("spent", "wait"), BudgetError),
        (PolicyError("never", "ask"), PolicyError),
        (SecureAggregationError("keys do not fit", "look"), OwnerFaultError),
        (ConnectionFailedError("no disk", "look"), OwnerFaultError),
    ],
)
async def test_a_refusal_keeps_its_kind_and_other_faults_are_owner_faults(
    error: FedkmeError, kind: type[FedkmeError]
) -> None:
    # A refusal is an owner's right and is told as what it is; the stream stays, also after some parts.
    fault = pb.OwnerMessage(fault=codecs.fault_to_wire(error))
    for answers in ([fault], [words(PART), fault]):
        session, wire = await odd(*answers)
        with pytest.raises(kind, match=f"a, question 3: {error.cause}"):
            await session.embed(3, QUERY, LENGTH)
        assert not wire.was_cut


def test_a_part_of_a_vector_is_progress() -> None:
    # A long vector takes a while: the limit is for its next part, not for all of it.
    async def slowly(parts: int) -> int:
        connection = OwnerConnection("a", 60, 0)
        wire = Odd(connection)
        await connection.attach(wire)
        session = SumSession(connection, "run-1")
        session._order.accept(invitation())
        asking = asyncio.create_task(session.embed(1, QUERY, 4 * PART))
        for number in range(parts):
            await asyncio.sleep(50)
            part = words(PART, number == 3)
            part.at.CopyFrom(pb.Position(run="run-1", round=1, seq=1))
            connection.deliver(wire, part)
        return len(await asking)

    assert run_virtual(lambda: slowly(4), compute) == 4 * PART
    with pytest.raises(OwnerLostError, match="no answer within"):
        run_virtual(lambda: slowly(3), compute)
