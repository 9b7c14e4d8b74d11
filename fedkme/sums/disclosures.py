"""Disclosures of a vector of sums: the owner and the curator write the same lines, by this module alone."""

from __future__ import annotations

from fedkme.errors import ProtocolError
from fedkme.privacy.events import CURATOR, OWNERS, Disclosure, Event, ExactStatistic, Relation
from fedkme.protocol import Invitation
from fedkme.protocols import SKETCH
from fedkme.sums.vector import SumVector

NO_PROMISE: tuple[Event, ...] = (ExactStatistic("release without noise"),)
"""Cost of a run for which nothing was planned."""
_TOLD_TO_OWNERS = (SKETCH, "marginals", "moments")
"""Protocols by which owners hear of each other's rows: a code book that is made of a sketch is told to all,
which marginals are asked for next follows from those before, and so do centre and scales of moments."""
SUMS = "sums "
"""Begin of the nonces of lines of vectors."""


def vector_disclosure(
    owner: str, invitation: Invitation, number: int, vector: SumVector, event: Event | None
) -> Disclosure:
    """The line of one owner's vector towards the curator, to be written before it leaves.

    Its nonce has the number and the whole question: no other question passes for this one. Equal lines are no
    two draws: an owner answers a number once under masks, as its journal knows, in a run of its own name.

    Args:
        owner: whose rows.
        invitation: of the run.
        number: of the question, from 1.
        vector: what is asked for.
        event: of the total that the curator sees under secure aggregation, with the owners' noise in it,
            replace-one; None: it sees the vector as it is.
    """
    seen = ExactStatistic(f"sums of {vector.length} features") if event is None else event
    sensitivity = None if event is None else vector.diameter
    nonce = f"{SUMS}{number} {vector.digest[:32]}"
    helpers = None if event is None or invitation.security is None else invitation.security.colluders
    return Disclosure(
        invitation.run, number, owner, CURATOR, seen, "replace-one", sensitivity, nonce, colluders=helpers
    )


def release_disclosures(owner: str, invitation: Invitation) -> list[Disclosure]:
    """Cost of the run to an owner's rows towards the consumer, one line an event of its plan.

    It bounds all draws of the run, and is written once in it. A run without a plan promises nothing: what is
    made of the sums is written down as if it were the sums. Under secure aggregation the noise is of owners,
    who know their shares of it: the line says how many may tell the observer, itself if it is one.

    Raises:
        ProtocolError: an event that no neighbouring relation is given for.
    """
    helpers = None if invitation.security is None else invitation.security.shares_known
    observers = [invitation.consumer, *([OWNERS] if invitation.protocol in _TOLD_TO_OWNERS else [])]
    return [
        Disclosure(
            invitation.run,
            1,
            owner,
            observer,
            event,
            relation_of(event),
            None,
            f"release {n}",
            colluders=helpers,
        )
        for n, event in enumerate(invitation.planned or NO_PROMISE)
        for observer in observers
    ]


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
