"""Answers of an owner in a run of sums: vectors, plain or masked. The module knows no wire and no disk."""

import math
import secrets
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from numpy.typing import NDArray

from fedkme import errors
from fedkme.ops.threads import one_thread
from fedkme.pki.identity import Identity
from fedkme.privacy.events import Gaussian
from fedkme.privacy.noise import NoiseSource
from fedkme.protocol import Invitation
from fedkme.secagg import messages
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
_ASK_AGAIN = "Start another run."


@dataclass
class _Aggregation:
    """One question under secure aggregation, from its proposal on."""

    number: int
    vector: SumVector
    parameters: Parameters
    signing_key: Ed25519PrivateKey | None
    """Key that signs this owner's messages; None: another process, now dead, held it."""
    party: OwnerAggregator | None = None

    @property
    def event(self) -> Gaussian:
        """Event of the total as the curator sees it, with the noise that this owner can rely on."""
        return plan_of(self.parameters, self.vector.diameter).event

    @property
    def cost(self) -> float:
        """1/multiplier^2."""
        return self.event.noise_multiplier**-2


@dataclass(eq=False, repr=False)
class SumResponder:
    """One owner's side of one run of sums."""

    name: str
    _table: Table
    _schema: Schema
    """The public schema that the owner holds."""
    _noise: NoiseSource
    """Source of its shares of distributed noise."""
    _gate: OwnerGate
    """Checks and records all that leaves in the run."""
    _identity: Identity | None = None
    """The owner's own; signing keys are bound to it, and others' keys verified by its authority. None: the
    curator is believed about keys, as everywhere in plaintext."""
    _revoked: Callable[[bytes], None] | None = None
    """Refuses certificates (PEM) that were revoked."""

    def __post_init__(self) -> None:
        """Begin before the run's first directive.

        Raises:
            DataError: rows that do not follow the schema.
        """
        self._schema.check(self._table, self.name)
        self._invitation: Invitation | None = None
        self._spent = 0.0
        self._used: set[int] = set()
        self._roster: frozenset[str] | None = None
        self._open: _Aggregation | None = None
        self._built: SumVector | None = None  # kept: feature maps may take seconds to make

    def invite(self, invitation: Invitation) -> int:
        """Decide on the run; the same invitation again changes nothing.

        Returns:
            Number of this owner's rows.

        Raises:
            SchemaError: the curator's public schema differs.
            PolicyError: the policy does not allow such a run.
            BudgetError: the run would cost more than the owner allows.
            ProtocolError: the run was let in under other terms, or its plan cannot be carried out.
        """
        if self._invitation is not None and invitation != self._invitation:
            raise errors.ProtocolError(f"{invitation.run} has begun already, under other terms", _ASK_AGAIN)
        self._schema.check_digest(invitation.schema, f"the curator and {self.name}")
        if self._invitation is None:
            self._gate.open(invitation)
            self._invitation = invitation
        return len(self._table)

    def check_said(self, number: int, moves: int) -> None:
        """Refuse a stated bound on one owner's influence, in rows, that this owner exceeds; 0: no bound.

        Raises:
            ProtocolError: the stated bound is too small.
        """
        if 0 < moves < (rows := len(self._table)):
            raise self._odd(f"says of question {number} that one owner moves {moves} rows' worth, not {rows}")

    def embed(self, number: int, query: SumQuery) -> NDArray[np.int64]:
        """Compute the exact vector of a question, (length,), for a trusted curator; the same bits each time.

        Raises:
            ProtocolError: the run is under secure aggregation, the question has no vector, or its number
                belonged to another question.
            PolicyError: it asks for more numbers than the owner computes.
            DataError: this owner's rows cannot be embedded.
        """
        invitation = self._let_in()
        if invitation.security is not None:
            raise self._odd("asks for a plain vector under secure aggregation")
        self._gate.check_question(number, query.digest)
        vector = self._vector(query)
        sums = self._sums(vector)
        self._gate.pass_sums(number, vector)
        return sums

    def length(self, query: SumQuery) -> int:
        """Length of a question's vector, as this owner computes it.

        Raises:
            ProtocolError: the question has no vector.
            PolicyError: it asks for more numbers than the owner computes.
        """
        return self._vector(query).length

    def propose(self, number: int, parameters: Parameters, query: SumQuery) -> KeyBinding:
        """Open an aggregation in place of the open one, if any; return a new signing key, bound to the owner.

        Raises:
            ProtocolError: the parameters do not fit the run or the question.
            PolicyError: the aggregation would cost more than the run's plan.
            SecureAggregationError: an aggregation with this number was opened before.
        """
        invitation = self._let_in()
        self._gate.check_question(number, query.digest)
        if number in self._used:
            raise answered(number, self._run)
        vector = self._vector(query)
        check_parameters(invitation, number, parameters, vector, self.name, len(self._table), self._roster)
        # By `secrets`, not by `generate`, whose bytes a simulation cannot repeat (audit/chaos).
        key = Ed25519PrivateKey.from_private_bytes(secrets.token_bytes(32))
        opened = _Aggregation(number, vector, parameters, key)
        self._check_cost(opened)
        if self._identity is not None:
            binding = bind(self._identity, key.public_key(), parameters.run)
        else:
            binding = KeyBinding(b"", key.public_key().public_bytes_raw(), b"", self.name)
        self._begin(opened)
        return binding

    def advertise(self, number: int, keys: Sequence[KeyBinding]) -> messages.Advertisement:
        """Phase 1, with everybody's signing key; with neighbours, keys come in phase 2.

        Raises:
            IdentityError: a key is not bound to a certificate of this owner's authority.
            SecureAggregationError: an owner has no key or two keys, this owner's key differs, or the phase is
                wrong.
        """
        opened = self._opened(number)
        if opened.party is not None or opened.signing_key is None:
            raise self._late(number)
        peers = self._peers(keys, opened.parameters.run)
        try:
            opened.party = OwnerAggregator(opened.parameters, self.name, opened.signing_key, peers)
        except errors.ConfigError as error:
            raise errors.SecureAggregationError(error.cause, error.remedy) from None
        opened.signing_key = None
        return opened.party.advertise()

    def share(self, number: int, roster: messages.KeyRoster) -> messages.SealedShares:
        """Answer phase 2; `OwnerAggregator` explains the phases and their errors.

        Raises:
            IdentityError: with neighbours, a key is not bound to a certificate of this owner's authority.
        """
        party = self._party(number)
        return party.share(roster, self._peers(roster.keys, self._opened(number).parameters.run))

    def mask(self, number: int, delivery: messages.Delivery) -> messages.MaskedInput:
        """Phase 3: the vector with noise and masks; its ledger lines are written."""
        party, opened = self._party(number), self._opened(number)
        try:
            masked = party.mask(delivery, self._sums(opened.vector), self._noise)
        except errors.ConfigError as error:
            raise errors.SecureAggregationError(error.cause, error.remedy) from None
        self._gate.pass_sums(number, opened.vector, opened.event)
        self._spent += opened.cost
        return masked

    def endorse(self, number: int, survivors: messages.Survivors) -> messages.Endorsement:
        """Phase 4."""
        return self._party(number).endorse(survivors)

    def unmask(self, number: int, endorsements: messages.Endorsements) -> messages.Unmasking:
        """Phase 5."""
        return self._party(number).unmask(endorsements)

    def restore_invitation(self, invitation: Invitation) -> None:
        """Continue a run that another process let in."""
        self._invitation = invitation
        self._gate.restore(invitation)

    def restore_embedded(self, number: int, query: SumQuery) -> None:
        """Restore a question that another process answered in the clear."""
        self._gate.restore_sums(number, self._vector(query))

    def restore_proposed(self, number: int, parameters: Parameters, query: SumQuery) -> None:
        """Restore an aggregation that another process opened; its secrets died with that process."""
        self._begin(_Aggregation(number, self._vector(query), parameters, None))

    def restore_masked(self, number: int) -> None:
        """Record that another process sent the masked vector."""
        opened = self._open
        if opened is not None and opened.number == number:
            self._gate.restore_sums(number, opened.vector)
            self._spent += opened.cost

    def lost(self, number: int) -> errors.SecureAggregationError:
        """Make the error for an aggregation that another process began: it cannot go on."""
        return errors.SecureAggregationError(
            f"{self.name} was started again in question {number} of {self._run}, and its secrets died with "
            "its process",
            _ASK_AGAIN,
        )

    def _check_cost(self, opened: _Aggregation) -> None:
        planned = gaussian_cost(self._let_in().planned)
        try:
            after = self._spent + opened.cost
        except (errors.ConfigError, ArithmeticError):  # noise without any privacy
            after = math.inf
        if not after <= planned * (1.0 + _TOLERANCE):
            raise errors.PolicyError(
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
            peers = {binding.owner: Ed25519PublicKey.from_public_bytes(binding.key) for binding in keys}
        except ValueError:
            cause = f"{run} has a signing key that is malformed"
            raise errors.SecureAggregationError(cause, errors.CURATOR_FAULT) from None
        if len(peers) != len(keys):
            cause = f"an owner has two signing keys in {run}"
            raise errors.SecureAggregationError(cause, errors.CURATOR_FAULT)
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

    def _late(self, number: int) -> errors.SecureAggregationError:
        cause = f"the phases of question {number} of {self._run} are mixed up"
        return errors.SecureAggregationError(cause, errors.CURATOR_FAULT)

    def _let_in(self) -> Invitation:
        if self._invitation is None:
            raise errors.ProtocolError(f"{self.name} takes part in no such run of sums", "Restart the run.")
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

    def _odd(self, what: str) -> errors.ProtocolError:
        return errors.fault_of_curator(f"{self._run} {what}")
