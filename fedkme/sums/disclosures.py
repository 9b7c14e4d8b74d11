"""Disclosures of a vector of sums: the owner and the curator write the same lines, by this function alone."""

from __future__ import annotations

from fedkme.errors import ProtocolError
from fedkme.privacy.events import CURATOR, OWNERS, Disclosure, Event, ExactStatistic, Relation
from fedkme.protocol import Invitation, Security
from fedkme.protocols import SKETCH

NO_PROMISE: tuple[Event, ...] = (ExactStatistic("release without noise"),)
"""What a run costs for which nothing was planned."""


def vector_disclosures(
    owner: str,
    invitation: Invitation,
    number: int,
    query_length: int,
    security: Security | None,
    event: Event | None,
    sensitivity: float | None,
) -> list[Disclosure]:
    """Lines of one owner's vector, to be written before it leaves; docs/decisions/007.

    Args:
        owner: whose rows.
        invitation: of the run.
        number: of the question, from 1. With the first goes what the whole run costs towards the consumer.
        query_length: numbers of the vector.
        security: how the vector leaves; None: in the clear.
        event: what the curator sees with distributed noise, a Gaussian; None otherwise.
        sensitivity: L2 diameter of the vector in steps, replace-one; None without noise.

    Raises:
        ProtocolError: the run's plan has an event that no neighbouring relation is given for.
    """
    if security is None:
        seen: Event = ExactStatistic(f"sums of {query_length} features")
    elif event is None or not security.distributed_noise:
        seen = ExactStatistic(f"total over all owners of sums of {query_length} features")
    else:
        seen = event
    exact = isinstance(seen, ExactStatistic)
    lines = [
        Disclosure(
            invitation.run,
            number,
            owner,
            CURATOR,
            seen,
            "replace-one",
            None if exact else sensitivity,
            sums_nonce(number),
        )
    ]
    return lines + (release_disclosures(owner, invitation) if number == 1 else [])


def release_disclosures(owner: str, invitation: Invitation) -> list[Disclosure]:
    """Cost of the run to an owner's rows towards the consumer, one line an event of its plan.

    A run without a plan promises nothing: what is made of the sums is written down as if it were the sums.

    Raises:
        ProtocolError: an event that no neighbouring relation is given for.
    """
    # A code book that is made of a sketch is told to everybody.
    observers = [invitation.consumer, *([OWNERS] if invitation.protocol == SKETCH else [])]
    return [
        Disclosure(invitation.run, 1, owner, observer, event, relation_of(event), None, f"release {n}")
        for n, event in enumerate(invitation.planned or NO_PROMISE)
        for observer in observers
    ]


def sums_nonce(number: int) -> str:
    """Nonce that tells the line of a question's vector from others."""
    return f"sums {number}"


def relation_of(event: Event) -> Relation:
    """Relation under which an event is written down: replace-one unless it holds under another alone.

    Raises:
        ProtocolError: its parts hold under different ones.
    """
    if len(event.assumes) > 1:
        raise ProtocolError(
            f"a plan has an event '{event.kind}' whose parts hold under different relations",
            "Plan its parts as events of their own.",
        )
    return next(iter(event.assumes), "replace-one")
