"""Fake owners in the curator's process, which may be lost or lie in any phase."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from numpy.typing import NDArray

from curator.sums.charges import SumDisclosures
from curator.sums.owner_sums import OwnerSums
from curator.sums.round import SumRound
from curator.sums.session import SumSession
from fedkme.documents import Fault
from fedkme.errors import OwnerLostError
from fedkme.features.fourier_map import FourierMapSpec, MixedSpec
from fedkme.features.hermite import HermiteSumSpec
from fedkme.features.sums import Layout
from fedkme.pki.identity import Identity
from fedkme.privacy.noise import NoiseSource, simulated
from fedkme.protocol import Invitation, Security, SumTerms
from fedkme.secagg.messages import (
    Advertisement,
    Delivery,
    Endorsement,
    Endorsements,
    KeyRoster,
    MaskedInput,
    SealedShares,
    Survivors,
    Unmasking,
)
from fedkme.secagg.noise import NoisePlan
from fedkme.secagg.owner import OwnerAggregator
from fedkme.secagg.parameters import Parameters
from fedkme.secagg.signing import KeyBinding, bind, verify_all
from fedkme.sums.values import SumQuery
from fedkme.sums.vector import SumVector
from fedkme.tables.schema import Category, Label, Numeric, Schema
from fedkme.tables.table import Table

SCHEMA = Schema(
    columns=(Numeric(name="x", bounds=(-2, 3)), Category(name="c", categories=("a", "b"))),
    label=Label(name="y", classes=("no", "maybe", "yes")),
)
BY_CLASS = Layout(3)
FOURIER = FourierMapSpec(dimension=12, gamma=2.0, seed=0)
MIXED = MixedSpec(dimension=8, gamma=0.5, seed=3)
HERMITE = HermiteSumSpec(order=9, length=0.5)
PHASES = ("propose", "advertise", "share", "mask", "endorse", "unmask")

Change = Callable[[Any], Any]


def table(rows: int, seed: int = 0) -> Table:
    g = np.random.default_rng(seed)
    values = np.stack([g.uniform(-2, 3, rows), g.integers(0, 2, rows).astype(np.float64)], axis=1)
    return Table(values, g.integers(0, 3, rows))


def dealt(whole: Table, owners: int, seed: int = 1) -> list[Table]:
    """The rows dealt at random to owners of unequal sizes, none empty."""
    g = np.random.default_rng(seed)
    cuts = np.sort(g.choice(np.arange(1, len(whole)), owners - 1, replace=False))
    return [whole.take(rows) for rows in np.split(g.permutation(len(whole)), cuts)]


class FakeOwner(SumSession):
    """Session without a connection, whose owner is honest except for the changes of a test.

    Attributes:
        lost_at: phase and question before which the owner is lost; question 0 for any question.
        changes: changes to the owner's own message of a phase, by phase.
        words: masked vectors that the owner sent, by question.
        parameters: parameters of every proposed aggregation.
        vector: vector of the last question.
        heard: the invitation.
        opened: questions whose masks the owner was asked to open.
        moved: for each question, the rows by which a lie of one owner moves a sum.
    """

    at_once = False

    def __init__(
        self, name: str, rows: Table, noise: NoiseSource | None = None, identity: Identity | None = None
    ) -> None:
        self.name = name
        self.table = rows
        self.lost_at: dict[str, int] = {}
        self.changes: dict[str, Change] = {}
        self.words: dict[int, NDArray[np.uint64]] = {}
        self.parameters: list[Parameters] = []
        self.heard: list[Invitation] = []
        self.opened: list[int] = []
        self.moved: list[int] = []
        self._noise = noise or simulated(1, name, "shares")
        self._identity = identity
        self.vector: SumVector | None = None
        self._key: Ed25519PrivateKey | None = None
        self._party: OwnerAggregator | None = None

    def _changed(self, phase: str, number: int, answer: Any) -> Any:
        return self.changes.get(phase, lambda message: message)(answer)

    def _be_there(self, phase: str, number: int) -> None:
        if self.lost_at.get(phase, -1) in (0, number):
            raise OwnerLostError(f"{self.name}: its connection ended", "Start it again.")

    async def invite(self, invitation: Invitation) -> int:
        self._be_there("invite", 0)
        self.heard.append(invitation)
        rows: int = self._changed("invite", 0, len(self.table))
        return rows

    async def embed(self, number: int, query: SumQuery, length: int, moves: int = 0) -> NDArray[np.int64]:
        self._be_there("embed", number)
        self.moved.append(moves)
        vector: NDArray[np.int64] = self._changed("embed", number, SumVector(query, SCHEMA).of(self.table))
        return vector

    async def propose(
        self, number: int, parameters: Parameters, query: SumQuery, moves: int = 0
    ) -> KeyBinding:
        self._be_there("propose", number)
        self.moved.append(moves)
        self.parameters.append(parameters)
        self.vector = SumVector(query, SCHEMA)
        self._key = Ed25519PrivateKey.generate()
        public = self._key.public_key()
        if self._identity is None:
            binding = KeyBinding(b"", public.public_bytes_raw(), b"", self.name)
        else:
            binding = bind(self._identity, public, parameters.run)
        changed: KeyBinding = self._changed("propose", number, binding)
        return changed

    async def advertise(self, number: int, keys: Sequence[KeyBinding]) -> Advertisement:
        self._be_there("advertise", number)
        assert self._key is not None
        self._party = OwnerAggregator(self.parameters[-1], self.name, self._key, self._peers(keys))
        message: Advertisement = self._changed("advertise", number, self._party.advertise())
        return message

    async def share(self, number: int, roster: KeyRoster) -> SealedShares:
        self._be_there("share", number)
        message: SealedShares = self._changed(
            "share", number, self._there.share(roster, self._peers(roster.keys))
        )
        return message

    async def mask(self, number: int, delivery: Delivery, length: int) -> MaskedInput:
        self._be_there("mask", number)
        assert self.vector is not None
        masked = self._there.mask(delivery, self.vector.of(self.table), self._noise)
        self.words[number] = masked.words
        message: MaskedInput = self._changed("mask", number, masked)
        return message

    async def endorse(self, number: int, survivors: Survivors) -> Endorsement:
        self._be_there("endorse", number)
        message: Endorsement = self._changed("endorse", number, self._there.endorse(survivors))
        return message

    async def unmask(self, number: int, endorsements: Endorsements) -> Unmasking:
        self._be_there("unmask", number)
        self.opened.append(number)
        message: Unmasking = self._changed("unmask", number, self._there.unmask(endorsements))
        return message

    def _peers(self, keys: Sequence[KeyBinding]) -> dict[str, Ed25519PublicKey]:
        if self._identity is None:
            return {binding.owner: Ed25519PublicKey.from_public_bytes(binding.key) for binding in keys}
        return verify_all(keys, self._identity.authority, self.parameters[-1].run)

    @property
    def _there(self) -> OwnerAggregator:
        assert self._party is not None
        return self._party


def changed(**fields: Any) -> Change:
    """Make the message with other fields."""
    return lambda message: dataclasses.replace(message, **fields)


def fakes(owners: int, rows: int = 0, seed: int = 0, noise: NoiseSource | None = None) -> list[FakeOwner]:
    """Owners of the same rows however many they are."""
    deal = dealt(table(rows or 40 * owners, seed), owners)
    return [FakeOwner(f"o{number:03d}", part, noise) for number, part in enumerate(deal)]


def shares(vector: SumVector, security: Security) -> Callable[[int], NoisePlan]:
    """Noise of some deviation, for as many owners as there are."""
    missing = security.dropouts + security.colluders
    return lambda owners: NoisePlan(2.0**30, owners - missing, vector.length, vector.diameter)


def invitation(security: Security | None = None, **more: Any) -> Invitation:
    given: dict[str, Any] = {
        "run": "run-1",
        "schema": SCHEMA.digest(),
        "consumer": "lab",
        "protocol": "merf",
        "planned": (),
        "terms": SumTerms(security),
    }
    return Invitation(**(given | more))


class At:
    """A run of sums over fakes.

    Attributes:
        faults: owners that left.
        begun: how often masked vectors were about to be asked for.
    """

    def __init__(
        self,
        owners: Sequence[FakeOwner],
        security: Security | None = None,
        quorum: int = 1,
        identity: Identity | None = None,
        seed: int = 0,
        **more: Any,
    ) -> None:
        invited = invitation(security, **more)
        self.security = security
        self.faults: list[Fault] = []
        self.observed: list[Fault] = []
        self.begun: list[int] = []
        self.owners = {owner.name: owner for owner in owners}
        self.gate = SumDisclosures(invited)

        def begin() -> None:
            self.begun.append(sum(len(owner.words) for owner in owners))

        def begun() -> SumRound:
            return SumRound(
                owners,
                invited,
                self.gate,
                quorum=quorum,
                observe=self.observed.append,
                faults=self.faults,
                identity=identity,
                before_vectors=begin,
            )

        self.round = begun()
        self.pool = OwnerSums(begun(), SCHEMA, lambda purpose: simulated(seed, "curator", purpose))
