"""Exchange of keys before the plan of a sealed run: which owners take part, and with which keys.

The consumer seals the group secret for these keys, so the plan must contain them. An offer of keys starts
nothing at the owner, but it fixes the run's owners. An owner that comes later takes part in the next run. An
owner that restarts in between leaves this run, because its new keys cannot open the secret.
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
        raise QuorumError(
            f"{len(offers)} owners have keys for a run whose rows go sealed, and the quorum is {quorum}",
            "Their own logs say why; install the same release everywhere.",
        )
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
    answer = await connection.exchange(Directive(f"{run}/keys", 0, 1, OfferKeys(run)), Limits(), Traffic())
    if isinstance(answer, Refusal):
        fault = answer.error()
        raise OwnerFaultError(f"{connection.name}: {fault.cause}", fault.remedy)
    if not isinstance(answer, KeyOffer) or answer.name != connection.name:
        raise OwnerFaultError(f"{connection.name} offers no keys of its own", "Check the owner's software.")
    return answer
