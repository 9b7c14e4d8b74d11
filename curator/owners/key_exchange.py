"""Before the plan of a run whose rows go sealed: who takes part, and with which keys.

The consumer seals the group secret for these keys, so they must be known before it answers the plan. Nothing
is begun by an offer, and the run's owners are settled by it: one that comes later takes part in the next run,
and one that is started again in between leaves this one, because its new keys open nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence

from curator.owners.connection import Connection, Traffic
from curator.run.roster import Fault
from fedkme.directives import Directive, Limits, OfferKeys, Refusal
from fedkme.errors import FedkmeError, OwnerFaultError, ProtocolError, QuorumError
from fedkme.exchange import Plan
from fedkme.pki.certificates import Role
from fedkme.pki.identity import Identity
from fedkme.sealed.group import Gift, check_gift
from fedkme.sealed.offers import KeyOffer, certified, taken_at_their_word


async def exchange_keys(
    connections: Sequence[Connection], run: str, quorum: int, left: Callable[[Fault], None]
) -> list[KeyOffer]:
    """Ask owners for their keys in a run; `left` is told of each that offers none, and is out of the run.

    Returns:
        Offers in the order of `connections`; the consumer finds out whether they are their owners'.

    Raises:
        QuorumError: too few offered keys.
    """
    answers = await asyncio.gather(
        *(_offer(connection, run) for connection in connections), return_exceptions=True
    )
    offers = []
    for connection, answer in zip(connections, answers, strict=True):
        if isinstance(answer, KeyOffer):
            offers.append(answer)
        elif isinstance(answer, FedkmeError):
            left(Fault(0, connection.name, answer.code, str(answer)))
        else:
            raise answer
    if len(offers) < quorum or not offers:
        raise QuorumError(
            f"{len(offers)} owners have keys for a run whose rows go sealed, and the quorum is {quorum}",
            "Their own logs say why; install the same release everywhere.",
        )
    return offers


def check_gifts(plan: Plan, gifts: Mapping[str, Gift], consumer: str, identity: Identity | None) -> None:
    """Refuse gifts that no owner could take, so that it is their consumer who is named, and not an owner.

    An owner without a gift leaves the run, in which its consumer did not take its keys: that is its right.

    Args:
        plan: of the run, with what owners offered.
        gifts: the consumer's, by taker.
        consumer: who asked for the run.
        identity: the curator's own; None in plaintext.

    Raises:
        ProtocolError: there are none, or they are for others, or of several secrets.
        IdentityError: they are not the consumer's.
        SealedBoxError: one was not signed for its taker's key and this run.
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
    answer = await connection.exchange(Directive(f"{run}/keys", 0, 1, OfferKeys(run)), Limits(), Traffic())
    if isinstance(answer, Refusal):
        fault = answer.error()
        raise OwnerFaultError(f"{connection.name}: {fault.cause}", fault.remedy)
    if not isinstance(answer, KeyOffer) or answer.name != connection.name:
        raise OwnerFaultError(f"{connection.name} offers no keys of its own", "Check the owner's software.")
    return answer
