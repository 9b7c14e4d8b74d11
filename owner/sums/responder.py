"""Answers of an owner in a run of sums: vectors, plainly or under masks. It knows no wire and no disk."""

from __future__ import annotations

import math
import secrets
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from numpy.typing import NDArray

from fedkme.errors import ConfigError, PolicyError, ProtocolError, SecureAggregationError
from fedkme.ops.linear_algebra import one_thread
from fedkme.pki.identity import Identity
from fedkme.privacy.events import Gaussian
from fedkme.privacy.noise import NoiseSource
from fedkme.protocol import Invitation
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
from fedkme.secagg.noise import plan_of
from fedkme.secagg.owner import OwnerAggregator
from fedkme.secagg.parameters import Parameters
from fedkme.secagg.signing import KeyBinding, bind, verify_all
from fedkme.sums.values import SumQuery
from fedkme.sums.vector import SumVector
from fedkme.tables.schema import Schema
from fedkme.tables.table import Table
from owner.consent.gate import OwnerGate, answered
from owner.sums.checks import check_parameters, gaussian_cost, multiplier, vector_of

_TOLERANCE = 1e-9  # of sums of costs, for their rounding
_REMEDY = "Look at the curator's software."
_ASK_AGAIN = "Start another run."


@dataclass
class _Aggregation:
    """One question under secure aggregation, from its proposal on."""

    number: int
    vector: SumVector
    parameters: Parameters
    signing_key: Ed25519PrivateKey | None
    """Key of this owner's messages; None: it was proposed to a process that died."""
    party: OwnerAggregator | None = None

    @property
    def event(self) -> Gaussian:
        """Event that the curator sees: the total with the noise that this owner can rely on."""
        return plan_of(self.parameters, self.vector.diameter).event

    @property
    def cost(self) -> float:
        """1/multiplier^2."""
        return self.event.noise_multiplier**-2


class SumResponder:
    """One owner's side of one run of sums."""

    def __init__(
        self,
        name: str,
        table: Table,
        schema: Schema,
        noise: NoiseSource,
        gate: OwnerGate,
        identity: Identity | None = None,
        revoked: Callable[[bytes], None] | None = None,
    ) -> None:
        """Before the run.

        Args:
            name: the owner's.
            table: its rows.
            schema: the public schema that it holds.
            noise: of its shares of distributed noise.
            gate: the run's way out.
            identity: the owner's own, to bind signing keys to and to verify those of others by; None: the
                curator is believed about them, as everywhere in plaintext.
            revoked: refuses certificates (PEM) that were revoked.

        Raises:
            DataError: rows that do not follow the schema.
        """
        schema.check(table, name)
        self.name = name
        self._table = table
        self._schema = schema
        self._noise = noise
        self._gate = gate
        self._identity = identity
        self._revoked = revoked
        self._invitation: Invitation | None = None
        self._spent = 0.0
        self._used: set[int] = set()
        self._roster: frozenset[str] | None = None
        self._open: _Aggregation | None = None
        self._built: SumVector | None = None  # maps may take seconds to make

    def invite(self, invitation: Invitation) -> int:
        """Decide on the run; asked again for the same, it is let in already.

        Returns:
            How many rows this owner has.

        Raises:
            SchemaError: the curator's public schema is another one.
            PolicyError: the owner does not take part in such a run.
            BudgetError: the run would cost more than the owner allows.
            ProtocolError: the run was let in as another one, or its plan cannot be carried out.
        """
        if self._invitation is not None and invitation != self._invitation:
            raise ProtocolError(f"{invitation.run} has begun already, under other terms", _ASK_AGAIN)
        self._schema.check_digest(invitation.schema, f"{self.name} and the curator")
        if self._invitation is None:
            self._gate.open(invitation)
            self._invitation = invitation
        return len(self._table)

    def check_said(self, number: int, moves: int) -> None:
        """Refuse a bound on what a lie of one owner moves that this one's rows alone exceed; 0: none is said.

        Raises:
            ProtocolError: the curator says less of a sum than is so.
        """
        if 0 < moves < (rows := len(self._table)):
            raise self._odd(f"says of question {number} that one owner moves {moves} rows' worth, not {rows}")

    def embed(self, number: int, query: SumQuery) -> NDArray[np.int64]:
        """The vector of a question as it is, (length,), for a trusted curator; the same bits each time.

        Raises:
            ProtocolError: the run is under secure aggregation, the question has no vector, or its number was
                another question's.
            PolicyError: it asks for more numbers than the owner computes.
            DataError: this owner's rows cannot be embedded.
        """
        invitation = self._let_in()
        if invitation.security is not None:
            raise self._odd("asks for a plain vector under secure aggregation")
        self._gate.check_question(number, query.digest)
        found = self._vector(query)
        sums = self._sums(found)
        self._gate.pass_sums(number, found)
        return sums

    def length(self, query: SumQuery) -> int:
        """Numbers of a question's vector, by this owner's own reckoning.

        Raises:
            ProtocolError: the question has no vector.
            PolicyError: it asks for more numbers than the owner computes.
        """
        return self._vector(query).length

    def propose(self, number: int, parameters: Parameters, query: SumQuery) -> KeyBinding:
        """Open an aggregation, in place of one that was open; a signing key for it.

        Raises:
            ProtocolError: the parameters are not those of the run, or of the question.
            PolicyError: it would cost more than the run was planned to.
            SecureAggregationError: one of this number was opened before.
        """
        invitation = self._let_in()
        self._gate.check_question(number, query.digest)
        if number in self._used:
            raise answered(number, self._run)
        vector = self._vector(query)
        check_parameters(invitation, number, parameters, vector, self.name, len(self._table), self._roster)
        # By `secrets`, not by `generate`, whose bytes a simulated world cannot repeat (audit/chaos).
        key = Ed25519PrivateKey.from_private_bytes(secrets.token_bytes(32))
        opened = _Aggregation(number, vector, parameters, key)
        self._check_cost(opened)
        if self._identity is not None:
            binding = bind(self._identity, key.public_key(), parameters.run)
        else:
            binding = KeyBinding(b"", key.public_key().public_bytes_raw(), b"", self.name)
        self._begin(opened)
        return binding

    def advertise(self, number: int, keys: Sequence[KeyBinding]) -> Advertisement:
        """Phase 1, with everybody's signing key; with neighbours these come in phase 2.

        Raises:
            IdentityError: a key is not bound to a certificate of this owner's authority.
            SecureAggregationError: an owner has no key or two, this one another, or it is not the time.
        """
        opened = self._opened(number)
        if opened.party is not None or opened.signing_key is None:
            raise self._late(number)
        peers = self._peers(keys, opened.parameters.run)
        try:
            opened.party = OwnerAggregator(opened.parameters, self.name, opened.signing_key, peers)
        except ConfigError as error:
            raise SecureAggregationError(error.cause, error.remedy) from None
        opened.signing_key = None
        return opened.party.advertise()

    def share(self, number: int, roster: KeyRoster) -> SealedShares:
        """Phase 2; see `OwnerAggregator`, also for what the other phases raise.

        Raises:
            IdentityError: with neighbours, a key is not bound to a certificate of this owner's authority.
        """
        party = self._party(number)
        return party.share(roster, self._peers(roster.keys, self._opened(number).parameters.run))

    def mask(self, number: int, delivery: Delivery) -> MaskedInput:
        """Phase 3: the vector with noise and masks, its lines written down."""
        party, opened = self._party(number), self._opened(number)
        try:
            masked = party.mask(delivery, self._sums(opened.vector), self._noise)
        except ConfigError as error:
            raise SecureAggregationError(error.cause, error.remedy) from None
        self._gate.pass_sums(number, opened.vector, opened.event)
        self._spent += opened.cost
        return masked

    def endorse(self, number: int, survivors: Survivors) -> Endorsement:
        """Phase 4."""
        return self._party(number).endorse(survivors)

    def unmask(self, number: int, endorsements: Endorsements) -> Unmasking:
        """Phase 5."""
        return self._party(number).unmask(endorsements)

    def restore_invitation(self, invitation: Invitation) -> None:
        """Take up a run that another process let in."""
        self._invitation = invitation
        self._gate.restore(invitation)

    def restore_embedded(self, number: int, query: SumQuery) -> None:
        """Take up a question that another process answered in the clear."""
        self._gate.restore_sums(number, self._vector(query))

    def restore_proposed(self, number: int, parameters: Parameters, query: SumQuery) -> None:
        """Take up an aggregation that another process opened; its secrets died with it."""
        self._begin(_Aggregation(number, self._vector(query), parameters, None))

    def restore_masked(self, number: int) -> None:
        """Take up that another process let the masked vector out."""
        opened = self._open
        if opened is not None and opened.number == number:
            self._gate.restore_sums(number, opened.vector)
            self._spent += opened.cost

    def lost(self, number: int) -> SecureAggregationError:
        """Error for an aggregation that another process began and that cannot go on."""
        return SecureAggregationError(
            f"{self.name} was started again in question {number} of {self._run}, and its secrets died with "
            "its process",
            _ASK_AGAIN,
        )

    def _check_cost(self, opened: _Aggregation) -> None:
        planned = gaussian_cost(self._let_in().planned)
        try:
            after = self._spent + opened.cost
        except (ConfigError, ArithmeticError):  # noise that promises nothing
            after = math.inf
        if not after <= planned * (1.0 + _TOLERANCE):
            raise PolicyError(
                f"{self.name} would have answered {self._run} with noise multiplier {multiplier(after)} in "
                f"all, and the plan says {multiplier(planned)}",
                "Ask for what was planned, or plan for what is asked.",
            )

    def _begin(self, opened: _Aggregation) -> None:
        self._used.add(opened.number)
        self._roster = frozenset(opened.parameters.owners)
        self._open = opened

    def _peers(self, keys: Sequence[KeyBinding], run: str) -> dict[str, Ed25519PublicKey]:
        if self._identity is not None:
            return verify_all(keys, self._identity.authority, run, check=self._revoked)
        try:
            peers = {each.owner: Ed25519PublicKey.from_public_bytes(each.key) for each in keys}
        except ValueError:
            raise SecureAggregationError(f"{run} has a signing key that is malformed", _REMEDY) from None
        if len(peers) != len(keys):
            raise SecureAggregationError(f"an owner has two signing keys in {run}", _REMEDY)
        return peers

    def _opened(self, number: int) -> _Aggregation:
        opened = self._open
        if opened is None or opened.number != number:
            raise self._odd(f"goes on with question {number}, which is not under way")
        if opened.party is None and opened.signing_key is None:
            raise self.lost(number)
        return opened

    def _party(self, number: int) -> OwnerAggregator:
        party = self._opened(number).party
        if party is None:
            raise self._late(number)
        return party

    def _late(self, number: int) -> SecureAggregationError:
        return SecureAggregationError(f"the phases of question {number} of {self._run} are mixed up", _REMEDY)

    def _let_in(self) -> Invitation:
        if self._invitation is None:
            raise ProtocolError(f"{self.name} takes part in no such run of sums", "Restart the run.")
        return self._invitation

    def _vector(self, query: SumQuery) -> SumVector:
        if self._built is None or self._built.query != query:
            with one_thread():
                self._built = vector_of(query, self._schema, self._gate.most_sums, self.name)
        return self._built

    def _sums(self, vector: SumVector) -> NDArray[np.int64]:
        with one_thread(), np.errstate(all="ignore"):  # features that are not finite are counted and refused
            return vector.of(self._table, self.name)

    @property
    def _run(self) -> str:
        return "the run" if self._invitation is None else self._invitation.run

    def _odd(self, what: str) -> ProtocolError:
        return ProtocolError(f"{self._run} {what}", _REMEDY)
