"""Exchanges with the owners of a run: heads after its end, and keys before the plan of a sealed run.

**Heads** (docs/decisions/015). First every owner shows its head. The curator's next leaf then commits to the
curator's ledger and to these heads: whoever keeps the curator's head is bound to the owners' heads too,
without learning them. Each owner keeps and cosigns the curator's head. The run's result does not depend on
the exchange: an owner that is absent, or whose head does not follow from its earlier heads, is reported.

**Keys.** The consumer seals the group secret for these keys, so the plan must contain them. An offer of keys
starts nothing at the owner, but it fixes the run's owners. An owner that comes later takes part in the next
run. An owner that restarts in between leaves this run, because its new keys cannot open the secret.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

from curator.owners.connection import Connection, Traffic
from fedkme.directives import Answer, Directive, Hello, KeepHead, Limits, OfferKeys, Refusal, ShowHead
from fedkme.documents import Fault
from fedkme.errors import (
    FedkmeError,
    LedgerError,
    OwnerFaultError,
    OwnerLostError,
    ProtocolError,
    QuorumError,
    StoreError,
)
from fedkme.exchange import Plan
from fedkme.heads.log import EXCHANGE, Cosignature, Head, HeadLog
from fedkme.heads.notes import origin_of
from fedkme.ops.threads import in_thread
from fedkme.pki.certificates import Role
from fedkme.pki.identity import Identity
from fedkme.sealed.group import Gift, check_gift
from fedkme.sealed.offers import KeyOffer, certified, taken_at_their_word


async def exchange_keys(
    connections: Sequence[Connection], run: str, quorum: int, report: Callable[[Fault], None]
) -> list[KeyOffer]:
    """Ask owners for their keys in a run; an owner without keys leaves the run, and `report` gets a fault.

    Returns:
        Offers in the order of `connections`; the consumer checks that each offer is its owner's.

    Raises:
        QuorumError: too few owners offered keys.
    """
    answers = await asyncio.gather(
        *(_offer(connection, run) for connection in connections), return_exceptions=True
    )
    offers = []
    for connection, answer in zip(connections, answers, strict=True):
        if isinstance(answer, KeyOffer):
            offers.append(answer)
        elif isinstance(answer, FedkmeError):
            report(Fault(0, connection.name, answer.code, str(answer)))
        else:
            raise answer
    if len(offers) < quorum or not offers:
        cause = f"{len(offers)} owners have keys for a run whose rows go sealed, and the quorum is {quorum}"
        raise QuorumError(cause, "Their own logs say why; install the same release everywhere.")
    return offers


def check_gifts(plan: Plan, gifts: Mapping[str, Gift], consumer: str, identity: Identity | None) -> None:
    """Refuse gifts that no owner could take, so that the error names the consumer and not an owner.

    The consumer may reject an owner's keys: an owner without a gift leaves the run.

    Args:
        plan: the run's plan, with the owners' offers.
        gifts: the consumer's gifts, by taker.
        consumer: the consumer that asked for the run.
        identity: the curator's own; None in plaintext.

    Raises:
        ProtocolError: there are no gifts, or they are for other parties, or of several secrets.
        IdentityError: the gifts are not the consumer's.
        SealedBoxError: a gift was not signed for its taker's key and this run.
    """
    keys = {offer.name: offer.box for offer in plan.offers}
    if not gifts or not gifts.keys() <= keys.keys() or len({gift.commitment for gift in gifts.values()}) > 1:
        raise ProtocolError("the consumer gives no group secret, more than one, or one for other owners")
    run = plan.run
    check = certified(identity.authority, run, {Role.CONSUMER}) if identity else taken_at_their_word
    for giver in {gift.giver for gift in gifts.values()}:
        check(giver)
    for name, gift in gifts.items():
        check_gift(gift, run, consumer, keys[name])


async def _offer(connection: Connection, run: str) -> KeyOffer:
    offer = await _ask(connection, Directive(f"{run}/keys", 0, 1, OfferKeys(run)), KeyOffer)
    if offer.name != connection.name:
        raise OwnerFaultError(f"{connection.name} offers no keys of its own", "Check the owner's software.")
    return offer


AnswerT = TypeVar("AnswerT", bound=Answer)
HEAD_S = 10.0
"""Longest wait for an owner's head or cosignature: the consumer waits meanwhile, and the result is known."""


class HeadExchange:
    """Curator's side of the exchange of heads."""

    def __init__(self, log: HeadLog, say: Callable[..., None]) -> None:
        """Use the curator's log.

        Args:
            log: the curator's log of heads.
            say: reports heads that do not follow from earlier heads.
        """
        self._log = log
        self._say = say
        self._turn = asyncio.Lock()  # of two runs that end at once, the second builds on the first

    def admit(self, hello: Hello) -> None:
        """Hold an owner that joins to the heads that it showed before.

        An owner whose operator has declared a new journal is let in, with a line in the log.

        Raises:
            LedgerError: the owner's journal is gone, older than the heads it showed, or another owner's.
            StoreError: the curator's store fails.
        """
        if hello.head is None:
            return
        try:
            self._log.recall(hello.head, origin_of(Role.OWNER, hello.name))
        except LedgerError as error:
            if not hello.new_journal:
                raise
            self._report("", error, owner=hello.name)

    async def after(self, run: str, connections: Sequence[Connection]) -> None:
        """Exchange heads when a run is over.

        Args:
            run: the run's name.
            connections: connections of the run's owners that are here.

        Raises:
            StoreError: the curator's store fails.
        """
        async with self._turn:
            asked = (self._owner_head(run, owner) for owner in connections)
            shown = await asyncio.gather(*asked, return_exceptions=True)  # a thread may still keep a head
            heads = list[tuple[Connection, Head]]()
            for connection, head in zip(connections, shown, strict=True):
                if isinstance(head, BaseException):
                    raise head
                if head is not None:
                    heads.append((connection, head))
            try:
                self._log.advance(run)
            except LedgerError as error:  # its key is not one of `fedkme pki`
                self._report(run, error)
                return
            answers = await asyncio.gather(*(self._cosignature(run, owner, head) for owner, head in heads))
            names = {origin_of(Role.OWNER, owner.name): owner.name for owner, _ in heads}
            signed = {
                origin: answer for origin, answer in zip(names, answers, strict=True) if answer is not None
            }
            for origin, why in self._log.add(signed).items():
                self._report(run, why, owner=names[origin])

    def head(self) -> Head | None:
        """The curator's last head, for a consumer to keep; None before the first.

        Raises:
            StoreError: the curator's store fails.
        """
        return self._log.last()

    async def _owner_head(self, run: str, connection: Connection) -> Head | None:
        """Ask for an owner's head and keep it; None if the owner shows none that follows earlier heads."""
        origin = origin_of(Role.OWNER, connection.name)
        question = ShowHead(self._log.known(origin), self._log.origin)
        try:
            head = await _ask_soon(connection, Directive(run + EXCHANGE, 0, 1, question), Head)
            await in_thread(self._log.keep, head, origin)  # a second for 200,000 leaves, a message's most
        except StoreError:
            raise
        except FedkmeError as error:
            self._report(run, error, owner=connection.name)
            return None
        return head

    async def _cosignature(self, run: str, connection: Connection, theirs: Head) -> Cosignature | None:
        """Have an owner keep and cosign the curator's head; None where the owner does not."""
        try:
            ours = self._log.show(theirs.known, origin_of(Role.OWNER, connection.name))
            return await _ask_soon(connection, Directive(run + EXCHANGE, 0, 2, KeepHead(ours)), Cosignature)
        except StoreError:
            raise
        except FedkmeError as error:
            self._report(run, error, owner=connection.name)
            return None

    def _report(self, run: str, error: FedkmeError, **whose: str) -> None:
        self._say("unwitnessed", run=run, round=0, **whose, code=error.code, line=str(error))


async def _ask(connection: Connection, directive: Directive, kind: type[AnswerT]) -> AnswerT:
    """Get an owner's answer of a kind; it counts in no run's traffic."""
    answer = await connection.exchange(directive, Limits(), Traffic())
    if isinstance(answer, Refusal):
        fault = answer.error()
        raise OwnerFaultError(f"{connection.name}: {fault.cause}", fault.remedy)
    if not isinstance(answer, kind):
        cause = f"{connection.name} gives another answer"
        raise OwnerFaultError(cause, "Install the same release everywhere.")
    return answer


async def _ask_soon(connection: Connection, directive: Directive, kind: type[AnswerT]) -> AnswerT:
    """Get an owner's answer about a head; a silent owner keeps nobody from the run's result for long."""
    try:
        async with asyncio.timeout(HEAD_S):
            return await _ask(connection, directive, kind)
    except TimeoutError:
        cause = f"{connection.name}: no answer about a head within {HEAD_S:g} s"
        raise OwnerLostError(
            cause, "Look at the owner's host; the result does not need the answer."
        ) from None
