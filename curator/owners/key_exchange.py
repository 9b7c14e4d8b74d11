"""Before the plan of a run whose rows go sealed: who takes part, and with which keys.

The consumer seals the group secret for these keys, so they must be known before it answers the plan. Nothing
is begun by an offer, and the run's owners are settled by it: one that comes later takes part in the next run,
and one that is started again in between leaves this one, because its new keys open nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from curator.owners.connection import Connection, Traffic
from curator.owners.roster import Fault
from fedkme.errors import FedkmeError, OwnerFaultError, ProtocolError, QuorumError
from fedkme.sealed import KeyOffer
from fedkme.wire import codecs
from fedkme.wire.sealed import offer_from_wire
from fedkme.wire.v1 import owners_pb2 as pb


async def exchange_keys(
    connections: Sequence[Connection], run: str, quorum: int, left: Callable[[Fault], None]
) -> list[KeyOffer]:
    """Ask owners for their keys in a run.

    Args:
        connections: of owners that are here.
        run: the run's name.
        quorum: of the run.
        left: told of each that offers none, and is out of the run.

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


async def _offer(connection: Connection, run: str) -> KeyOffer:
    at = pb.Position(run=f"{run}/keys", seq=1)
    directive = pb.Directive(at=at, introduce=pb.Introduce(run=run))
    (message,) = await connection.exchange(directive, 0, Traffic())
    if message.HasField("fault"):
        fault = codecs.fault_from_wire(message.fault)
        raise OwnerFaultError(f"{connection.name}: {fault.cause}", fault.remedy)
    try:
        offer = offer_from_wire(message.offer)
    except ProtocolError as error:
        raise OwnerFaultError(f"{connection.name}: {error.cause}", error.remedy) from None
    if not message.HasField("offer") or offer.name != connection.name:
        raise OwnerFaultError(f"{connection.name} offers no keys of its own", "Check the owner's software.")
    return offer
