"""One run of sums over its owners: the owners in it, and the total of each question, plain or masked.

An owner that is lost, refuses, or sends a vector that does not fit is out of the run for good, and a line
says why. A plain total is the total of the owners that answered. Under secure aggregation at most D of the
owners that agreed on the parameters may be missing at the end (docs/decisions/005); with more missing the
question fails and nothing is opened.
"""

import asyncio
import contextlib
import dataclasses
import math
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from numpy.typing import NDArray

from curator.owners.session import REFUSALS
from curator.run.roster import REFUSED, Roster
from curator.sums.charges import SumDisclosures
from curator.sums.session import SumSession
from fedkme.documents import Fault
from fedkme.errors import DataError, IdentityError, OwnerFaultError, QuorumError
from fedkme.features.maps import ROW_UNIT
from fedkme.features.sums import row_limit
from fedkme.ops.threads import in_thread
from fedkme.pki.identity import Identity
from fedkme.privacy.events import Event
from fedkme.protocol import Invitation, Security
from fedkme.secagg.curator import CuratorAggregator
from fedkme.secagg.messages import Advertisement, Endorsement, MaskedInput, SealedShares, Unmasking
from fedkme.secagg.noise import NoisePlan
from fedkme.secagg.parameters import Parameters, sharing
from fedkme.secagg.signing import KeyBinding, verify_binding
from fedkme.sums.vector import SumVector, one_owner_moves

Steps = NDArray[np.int64]
Argument = TypeVar("Argument")
Answer = TypeVar("Answer")
SignedWith = tuple[KeyBinding, Ed25519PublicKey]
Message = TypeVar("Message", Advertisement, SealedShares, MaskedInput, Endorsement, Unmasking)
PlanFor = Callable[[int], NoisePlan]
"""Noise of each owner, as a function of the number of owners."""

_IN_FLIGHT_BYTES = 2**28
"""Bytes of vectors that owners may be sending at the same time."""


@dataclass(frozen=True, eq=False, repr=False)
class SumTotal:
    """Total of one question.

    Attributes:
        owners: owners whose vectors are in the total.
        rows: N, rows of these owners.
        steps: the sum, (length,) int64.
        deviation: deviation of the owners' noise in the sum, in steps; 0 where vectors came in the clear.
        event: disclosure of any row by the noisy sum; None where vectors came in the clear.
    """

    owners: tuple[str, ...]
    rows: int
    steps: Steps
    deviation: float = 0.0
    event: Event | None = None


class SumRound:
    """Owners of a run of sums, asked one question after another.

    Attributes:
        rows: m_j of every owner that accepted, also of owners that left later.
        contributors: owners whose vectors are in the last total.
        security: protection of the sums; None: owners trust the curator.
        number: number under which owners were asked last.
    """

    def __init__(
        self,
        ports: Sequence[SumSession],
        invitation: Invitation,
        gate: SumDisclosures,
        *,
        quorum: int,
        observe: Callable[[Fault], None],
        faults: list[Fault],
        identity: Identity | None = None,
        before_vectors: Callable[[], None] = lambda: None,
        propose: Callable[[int], None] = lambda number: None,
    ) -> None:
        """Begin a run; `invite_all` must be called first.

        Args:
            ports: the owners' sessions.
            invitation: the run's invitation.
            gate: records the disclosure of every vector.
            quorum: owners that every question needs.
            observe: called with the fault of each owner that leaves.
            faults: list to which these faults are added.
            identity: the curator's; its authority vouches for owners' signing keys. None: keys are believed.
            before_vectors: called for each question, before any owner can send its vector.
            propose: called with the number of each aggregation, before any owner learns of it.
        """
        self.rows: dict[str, int] = {}
        self.contributors: tuple[str, ...] = ()
        self.security = invitation.security
        self.number = 0
        self._invitation = invitation
        self._gate = gate
        self._quorum = quorum
        self._least = max(quorum, 1 if self.security is None else self.security.least_owners)
        self._roster: Roster[SumSession] = Roster(ports, self._least, observe, faults)
        self._identity = identity
        self._before_vectors = before_vectors
        self._propose = propose

    def report_waits(self, report: Callable[[int, int], None]) -> None:
        """Call `report` with the owners that have answered and those asked, while a question takes long."""
        self._roster.waiting = report

    @property
    def owners(self) -> list[str]:
        """Names of the owners that are in the run."""
        return self._roster.names

    @property
    def _held(self) -> list[int]:
        """All m_j of the owners that are in the run."""
        return [self.rows[name] for name in self.owners]

    async def invite_all(self) -> dict[str, int]:
        """Let every owner decide about the run.

        Returns:
            Rows of each owner that takes part.

        Raises:
            QuorumError: too few owners take part.
        """

        async def invite(port: SumSession, invitation: Invitation) -> int:
            rows = await port.invite(invitation)
            if rows < 1:
                raise OwnerFaultError(f"{port.name} has no rows", "It is left out; give it rows, or stop it.")
            return rows

        self.rows = await self._ask(0, invite, self._invitation)
        self._check_quorum()
        return dict(self.rows)

    def skip_to(self, number: int) -> None:
        """Ask the next question under this number at least: an earlier attempt used smaller numbers."""
        self.number = max(self.number, number - 1)

    async def plain_total(self, vector: SumVector) -> SumTotal:
        """Ask for vectors in the clear, and add them up as they come; only vectors on their way take memory.

        Raises:
            QuorumError: too few owners are left.
            DataError: the owners have more rows than sums can hold.
        """
        self._check_rows(vector)
        self._check_quorum()
        self.number = number = self.number + 1
        total = np.zeros(vector.length, dtype=np.int64)
        slots, moves = _slots(vector.length), one_owner_moves(self._held, masked=False)
        self._gate.expect(number, self.owners, vector)
        self._before_vectors()

        async def add(port: SumSession, vector: SumVector) -> None:
            async with slots:
                with self._refusals(port):
                    answer = await port.embed(number, vector.query, vector.length, moves)
                self._gate.receive_vector(number, port.name, vector)
                try:
                    vector.check(answer, self.rows[port.name])
                except DataError as error:
                    raise OwnerFaultError(f"{port.name}: {error.cause}", error.remedy) from None
                np.add(total, answer, out=total)

        return self._total(await self._ask(number, add, vector), total)

    async def secure_total(self, vector: SumVector, security: Security, plan_for: PlanFor) -> SumTotal:
        """Ask for the total alone, in the phases of docs/decisions/005.

        Args:
            vector: the vector that is asked for.
            security: how many owners may drop out, and how many may collude.
            plan_for: noise that owners add.

        Raises:
            QuorumError: too few owners are left.
            SecureAggregationError: too few owners answered a phase, or the sum failed a check; nothing is
                opened.
            DataError: the owners have more rows than sums can hold.
            ConfigError: the sums do not fit 64 bits, or the step is too coarse for the promised privacy.
        """
        parameters, plan, keys = await self._agree(vector, security, plan_for)
        number, length = self.number, vector.length
        aggregator = CuratorAggregator(parameters, {name: key for name, (_, key) in keys.items()})
        slots = _slots(length)

        async def advertise(port: SumSession, bindings: Sequence[KeyBinding]) -> None:
            aggregator.advertised(_own_message(port, await port.advertise(number, bindings)))

        all_bindings = [] if parameters.neighbours else [binding for binding, _ in keys.values()]
        await self._ask(number, advertise, all_bindings)
        roster = aggregator.roster()

        async def share(port: SumSession, name: str) -> None:
            own_roster = aggregator.roster_of(name)
            if parameters.neighbours:
                bindings = tuple(keys[other][0] for other in aggregator.known_to(name))
                own_roster = dataclasses.replace(own_roster, keys=bindings)
            aggregator.shared(_own_message(port, await port.share(number, own_roster)))

        await self._phase(number, share, [message.sender for message in roster.advertisements])
        deliveries = aggregator.deliveries()
        self._gate.expect(number, deliveries, vector, plan.event)
        self._before_vectors()

        async def mask(port: SumSession, name: str) -> None:
            async with slots:
                with self._refusals(port):
                    message = _own_message(port, await port.mask(number, deliveries[name], length))
                self._gate.receive_vector(number, name, vector, plan.event)
                aggregator.masked(message)

        await self._phase(number, mask, list(deliveries))
        survivors = aggregator.survivors()

        async def endorse(port: SumSession, _: str) -> None:
            aggregator.endorsed(_own_message(port, await port.endorse(number, survivors)))

        await self._phase(number, endorse, survivors.owners)
        endorsements = aggregator.endorsements()

        async def unmask(port: SumSession, _: str) -> None:
            aggregator.unmasked(_own_message(port, await port.unmask(number, endorsements)))

        await self._phase(number, unmask, survivors.owners)
        opened = await in_thread(aggregator.total)  # takes seconds for a hundred owners
        total = self._total(opened.owners, opened.steps)
        vector.check_total(total.steps, total.rows, parameters.noise_tail)
        # The noise of every survivor is in the total, also of owners that the plan does not count on.
        deviation = plan.share * math.sqrt(len(total.owners))
        return dataclasses.replace(total, deviation=deviation, event=plan.event)

    @contextlib.contextmanager
    def _refusals(self, port: SumSession) -> Iterator[None]:
        """Note an owner that refuses to send a vector; after any other error the vector may have left."""
        try:
            yield
        except REFUSALS:
            self._gate.decline(port.name)
            raise

    async def _agree(
        self, vector: SumVector, security: Security, plan_for: PlanFor
    ) -> tuple[Parameters, NoisePlan, dict[str, SignedWith]]:
        """Open an aggregation with every owner that is in the run.

        Every owner needs all signing keys, so an owner that gives no key is left out and the other owners are
        asked again, under the next number. That owner is no drop-out: the noise is planned without it.

        Returns:
            The parameters, the noise, and signing keys in the order of names.
        """

        async def propose(port: SumSession, parameters: Parameters) -> SignedWith:
            moves = one_owner_moves(self._held, masked=True)
            binding = await port.propose(self.number, parameters, vector.query, moves)
            return binding, self._key(port.name, binding, parameters.run)

        while True:
            self._check_rows(vector)
            self._check_quorum()
            self.number += 1
            plan = plan_for(len(self._roster))
            parameters = self._parameters(vector, security, plan.share)
            self._propose(self.number)
            keys = await self._ask(self.number, propose, parameters)
            if len(keys) == len(parameters.owners):
                return parameters, plan, keys

    def _parameters(self, vector: SumVector, security: Security, noise: float) -> Parameters:
        """Choose the number of neighbours that share masks, and no more bits than the sum needs."""
        names = tuple(self.owners)
        neighbours, threshold = sharing(len(names), security.dropouts, security.colluders)
        widest = Parameters(
            run=f"{self._invitation.run}/{self.number}",
            owners=names,
            threshold=threshold,
            dropouts=security.dropouts,
            colluders=security.colluders,
            length=vector.length,
            bits=64,
            bound=vector.bound(max(self._held)),
            step=ROW_UNIT,
            noise=noise,
            neighbours=neighbours,
        )
        return dataclasses.replace(widest, bits=max(8, widest.largest_total.bit_length() + 1))

    def _key(self, name: str, binding: KeyBinding, aggregation: str) -> Ed25519PublicKey:
        """Check an owner's signing key and return it."""
        try:
            if self._identity is None:
                whose, key = binding.owner, Ed25519PublicKey.from_public_bytes(binding.key)
            else:
                whose, key = verify_binding(binding, self._identity.authority, aggregation)
        except (IdentityError, ValueError) as error:
            why = error.cause if isinstance(error, IdentityError) else "its signing key is malformed"
            raise OwnerFaultError(f"{name}: {why}", "Check its certificate and its software.") from None
        if whose != name:
            raise OwnerFaultError(f"{name} gives a signing key of {whose!r}", "Check its certificate.")
        return key

    async def _ask(
        self, number: int, call: Callable[[SumSession, Argument], Awaitable[Answer]], argument: Argument
    ) -> dict[str, Answer]:
        """Ask every owner the same question."""
        return await self._roster.ask(number, call, dict.fromkeys(self._roster.names, argument))

    async def _phase(
        self, number: int, call: Callable[[SumSession, str], Awaitable[None]], names: Sequence[str]
    ) -> None:
        """Ask the named owners that are still in the run."""
        await self._roster.ask(number, call, {name: name for name in names})

    def _total(self, owners: Iterable[str], steps: Steps) -> SumTotal:
        names = tuple(owners)
        if len(names) < self._quorum:
            self._check_quorum()
        self.contributors = names
        return SumTotal(names, sum(self.rows[name] for name in names), steps)

    def _check_quorum(self) -> None:
        """Raise an error if too few owners are left."""
        if (shortfall := self._roster.below_quorum()) is not None:
            secure = self._least > self._quorum
            if shortfall.remedy == REFUSED:
                raise shortfall
            raise QuorumError(
                f"{shortfall.cause}{'; secure aggregation needs that many' if secure else ''}",
                "Start the missing owners and ask again"
                + (", or lower 'dropouts' and 'colluders' of [release.security]." if secure else "."),
            )

    def _check_rows(self, vector: SumVector) -> None:
        """Raise an error if a sum is not exact in float64; an owner that alone has too many rows leaves."""
        most = min(map(row_limit, vector.maps), default=2**52)
        for name in self.owners:
            if self.rows[name] > most:
                over = OwnerFaultError(f"{name} says that it has more rows than sums hold", "Use fewer.")
                self._roster.remove(self.number + 1, name, over)
        rows = sum(self._held)
        if rows > most:
            cause = f"there are {rows} rows to embed and sums hold {most}"
            raise DataError(cause, "Release in parts, or sample rows.")


def _own_message(port: SumSession, message: Message) -> Message:
    """Check that a message names the owner that sent it: some messages have no signature."""
    if message.sender != port.name:
        raise OwnerFaultError(f"{port.name} speaks for {message.sender!r}", "Check its software.")
    return message


def _slots(length: int) -> asyncio.Semaphore:
    """Semaphore that limits the vectors on their way at the same time."""
    return asyncio.Semaphore(max(1, _IN_FLIGHT_BYTES // (8 * length)))
