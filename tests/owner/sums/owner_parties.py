"""Owners of a run of sums without a network: responders of several owners, and a host of one."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Generator, Iterable, Sequence
from typing import Any

import numpy as np
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from google.protobuf.message import Message
from numpy.typing import NDArray

from fedkme.directives import Proposal, SigningKeys
from fedkme.errors import FedkmeError
from fedkme.features.fourier_map import FourierMapSpec, MixedSpec
from fedkme.features.maps import ROW_UNIT
from fedkme.features.sums import Layout
from fedkme.pki.identity import Identity
from fedkme.privacy.events import Disclosure, Gaussian
from fedkme.privacy.noise import NoiseSource, simulated
from fedkme.protocol import Invitation, Security, SumTerms
from fedkme.secagg.curator import CuratorAggregator, Total
from fedkme.secagg.messages import MaskedInput
from fedkme.secagg.parameters import Parameters, least_threshold
from fedkme.secagg.signing import KeyBinding, verify_all
from fedkme.sums.values import SumQuery
from fedkme.sums.vector import SumVector
from fedkme.tables.table import Table
from fedkme.wire import codecs
from fedkme.wire import sums as wire
from fedkme.wire.directives import invitation_to_wire
from fedkme.wire.v1 import owners_pb2 as pb
from fedkme.wire.v1 import pooling_pb2
from owner.consent.gate import OwnerGate
from owner.sums.responder import SumResponder
from tests.owner.consent.host import NAME, SCHEMA, Host, rows

NAMES = (NAME, "owner-2", "owner-3")
SPEC = FourierMapSpec(dimension=8, gamma=1.0, seed=3)
QUERY = SumQuery((SPEC,), Layout(2), counts=True, weights=(1, 7))
OTHER = SumQuery((MixedSpec(dimension=6, gamma=0.5, seed=4),), Layout())
VECTOR = SumVector(QUERY, SCHEMA)
MULTIPLIER = 5.0
PLANNED = (Gaussian(MULTIPLIER, count=2),)
NOISY = Security(dropouts=1)


def invitation(run: str = "r", **changes: Any) -> Invitation:
    values = {"schema": SCHEMA.digest(), "consumer": "hospital", "protocol": "merf", "planned": PLANNED}
    given = values | changes
    terms = SumTerms(given.pop("security", None), given.pop("ahead", None))
    return Invitation(run, terms=terms, **given)


def share(multiplier: float, diameter: float, honest: int = 1) -> float:
    """Deviation of each owner's noise so that `honest` owners together reach a multiplier."""
    return math.sqrt(((multiplier * diameter) ** 2 + 16.0) / honest)


def parameters(number: int = 1, query: SumQuery = QUERY, **changes: Any) -> Parameters:
    vector = SumVector(query, SCHEMA)
    values: dict[str, Any] = {
        "run": f"r/{number}",
        "owners": NAMES,
        "threshold": least_threshold(3, 0),
        "dropouts": 1,
        "colluders": 0,
        "length": vector.length,
        "bits": 64,
        "bound": vector.bound(20),
        "step": ROW_UNIT,
        "noise": share(MULTIPLIER, vector.diameter),
    }
    return Parameters(**(values | changes))


class Lines(list[Disclosure]):
    """A ledger."""

    def head(self) -> dict[str, int | str]:
        return {"entries": len(self)}


def sum_responder(
    name: str = NAME,
    table: Table | None = None,
    identity: Identity | None = None,
    revoked: Callable[[bytes], None] | None = None,
    lines: Lines | None = None,
    noise: NoiseSource | None = None,
) -> SumResponder:
    noise, gate = noise or simulated(0, name, "sums"), OwnerGate(name, lines)
    return SumResponder(name, rows() if table is None else table, SCHEMA, noise, gate, identity, revoked)


class Together:
    """Responders of all owners, with a curator for one aggregation after another."""

    def __init__(
        self, owners: Sequence[SumResponder], security: Security, authority: bytes | None = None
    ) -> None:
        self.owners = owners
        self._authority = authority
        for each in owners:
            each.invite(invitation(security=security))

    def keys(self, number: int, agreed: Parameters, query: SumQuery) -> list[KeyBinding]:
        return [each.propose(number, agreed, query) for each in self.owners]

    def curator(self, agreed: Parameters, keys: Iterable[KeyBinding]) -> CuratorAggregator:
        if self._authority is not None:
            return CuratorAggregator(agreed, verify_all(keys, self._authority, agreed.run))
        public = {each.owner: Ed25519PublicKey.from_public_bytes(each.key) for each in keys}
        return CuratorAggregator(agreed, public)

    def total(self, number: int, agreed: Parameters, query: SumQuery) -> Total:
        keys = self.keys(number, agreed, query)
        curator = self.curator(agreed, keys)
        for each in self.owners:
            curator.advertised(each.advertise(number, keys))
        roster = curator.roster()
        for each in self.owners:
            curator.shared(each.share(number, roster))
        mail = curator.deliveries()
        for each in self.owners:
            curator.masked(each.mask(number, mail[each.name]))
        survivors = curator.survivors()
        for each in self.owners:
            curator.endorsed(each.endorse(number, survivors))
        endorsements = curator.endorsements()
        for each in self.owners:
            curator.unmasked(each.unmask(number, endorsements))
        return curator.total()


class Asker:
    """A curator's process that asks one owner; a new `Asker` numbers directives from 1 again."""

    def __init__(self, at: Host, run: str = "r") -> None:
        self.at = at
        self.run = run
        self.seq = 0

    def ask(self, number: int, seq: int | None = None, **body: Any) -> list[pb.OwnerMessage]:
        self.seq = self.seq + 1 if seq is None else seq
        position = pb.Position(run=self.run, round=number, seq=self.seq)
        return self.at.wired.answer(pb.Directive(at=position, **body))

    def enlist(self, **changes: Any) -> FedkmeError | None:
        (reply,) = self.ask(0, invite=invitation_to_wire(invitation(self.run, **changes)))
        return fault_of([reply])

    def embed(
        self, number: int, query: SumQuery = QUERY, seq: int | None = None
    ) -> NDArray[np.int64] | FedkmeError:
        message = pooling_pb2.Embed(query=wire.query_to_wire(query))
        return words_of(self.ask(number, seq, embed=message))

    def step(self, number: int, seq: int | None = None, **step: Any) -> list[pb.OwnerMessage]:
        return self.ask(number, seq, aggregate=pooling_pb2.Aggregate(**step))

    def propose(self, number: int, agreed: Parameters, query: SumQuery = QUERY) -> KeyBinding | FedkmeError:
        replies = self.step(number, propose=wire.PROPOSAL.to_wire(Proposal.of(agreed, query)))
        return fault_of(replies) or wire.KEY.from_wire(replies[0].aggregated.key)

    def aggregate(
        self,
        number: int,
        agreed: Parameters,
        query: SumQuery = QUERY,
        until: str = "endorsements",
        change: Callable[[str, Any], Any] = lambda step, message: message,
    ) -> list[pb.OwnerMessage]:
        """Aggregate with two other owners, up to a step or to this owner's first refusal."""
        others = [sum_responder(name) for name in NAMES[1:]]
        for each in others:
            each.invite(invitation(self.run, security=NOISY))
        steps = _steps(others, number, agreed, query)
        step, message = next(steps)
        while True:
            replies = self.step(number, **{step: change(step, message)})
            if step == until or fault_of(replies) is not None:
                return replies
            step, message = steps.send(replies)

    def mask(self, number: int, agreed: Parameters, query: SumQuery = QUERY) -> list[pb.OwnerMessage]:
        """Aggregate up to this owner's masked vector."""
        return self.aggregate(number, agreed, query, "delivery")


def _steps(
    others: Sequence[SumResponder], number: int, agreed: Parameters, query: SumQuery
) -> Generator[tuple[str, Message], list[pb.OwnerMessage], None]:
    """Yield a curator's messages to one owner, given this owner's replies, with the others played here."""
    replies = yield "propose", wire.PROPOSAL.to_wire(Proposal.of(agreed, query))
    keys = [wire.KEY.from_wire(replies[0].aggregated.key)]
    keys += [each.propose(number, agreed, query) for each in others]
    public = {each.owner: Ed25519PublicKey.from_public_bytes(each.key) for each in keys}
    curator = CuratorAggregator(agreed, public)
    replies = yield "keys", wire.KEYS.to_wire(SigningKeys(tuple(keys)))
    curator.advertised(wire.ADVERTISEMENT.from_wire(replies[0].aggregated.advertisement))
    for each in others:
        curator.advertised(each.advertise(number, keys))
    roster = curator.roster()
    replies = yield "roster", wire.ROSTER.to_wire(roster)
    curator.shared(wire.SEALED.from_wire(replies[0].aggregated.sealed))
    for each in others:
        curator.shared(each.share(number, roster))
    mail = curator.deliveries()
    replies = yield "delivery", wire.DELIVERY.to_wire(mail[NAME])
    parts = [reply.words for reply in replies]
    curator.masked(MaskedInput(NAME, agreed.context, wire.words_from_wire(parts)))
    for each in others:
        curator.masked(each.mask(number, mail[each.name]))
    survivors = curator.survivors()
    replies = yield "survivors", wire.SURVIVORS.to_wire(survivors)
    curator.endorsed(wire.ENDORSEMENT.from_wire(replies[0].aggregated.endorsement))
    for each in others:
        curator.endorsed(each.endorse(number, survivors))
    yield "endorsements", wire.ENDORSEMENTS.to_wire(curator.endorsements())


def fault_of(replies: Sequence[pb.OwnerMessage]) -> FedkmeError | None:
    (reply, *_) = replies
    return codecs.fault_from_wire(reply.fault) if reply.HasField("fault") else None


def words_of(replies: Sequence[pb.OwnerMessage]) -> NDArray[np.int64] | FedkmeError:
    return fault_of(replies) or wire.words_from_wire(reply.words for reply in replies).view(np.int64)


def changed(agreed: Parameters, **changes: Any) -> Parameters:
    return dataclasses.replace(agreed, **changes)
