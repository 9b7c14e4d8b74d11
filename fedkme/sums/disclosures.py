"""Disclosures of a vector of sums. Owner and curator write equal lines, as both use this module."""

from fedkme.errors import ProtocolError
from fedkme.privacy.events import CURATOR, OWNERS, Disclosure, Event, ExactStatistic, Relation
from fedkme.protocol import Invitation
from fedkme.protocols import SKETCH
from fedkme.sums.vector import SumVector

NO_PROMISE: tuple[Event, ...] = (ExactStatistic("release without noise"),)
"""Events of a run without a plan."""
_SHOWN_TO_OWNERS = (SKETCH, "marginals", "moments")
"""Protocols whose questions disclose rows of some owners to the others: all owners get the code book that is
made from a sketch; the choice of the next marginals, and centre and scales of moments, follow from earlier
answers."""
SUMS = "sums "
"""Prefix of the nonces of vectors' lines."""


def vector_disclosure(
    owner: str, invitation: Invitation, number: int, vector: SumVector, event: Event | None
) -> Disclosure:
    """Line of one owner's vector towards the curator, to be written before the vector leaves.

    The nonce depends on the number and the whole question, so no other question can have this line. Equal
    lines are one draw, not two: under masks, an owner answers each number of a run once, by its journal, and
    each run has a name of its own.

    Args:
        owner: owner of the rows.
        invitation: invitation to the run.
        number: number of the question, from 1.
        vector: vector that is asked for.
        event: event of the total that the curator sees under secure aggregation, with the owners' noise in
            the total, replace-one; None: the curator sees the vector itself, without noise.
    """
    seen = ExactStatistic(f"sums of {vector.length} features") if event is None else event
    sensitivity = None if event is None else vector.diameter
    nonce = f"{SUMS}{number} {vector.digest[:32]}"
    helpers = None if event is None or invitation.security is None else invitation.security.colluders
    return Disclosure(
        invitation.run, number, owner, CURATOR, seen, "replace-one", sensitivity, nonce, colluders=helpers
    )


def release_disclosures(owner: str, invitation: Invitation) -> list[Disclosure]:
    """Cost of the run to an owner's rows towards the consumer: one line for each event of the plan.

    These lines bound all draws of the run and are written once in it. A run without a plan promises nothing,
    so its results are written down as if they were the exact sums. Under secure aggregation, the noise comes
    from owners, who know their shares of the noise. So a line states how many owners may reveal their shares
    to the observer, the observer included if it is an owner.

    Raises:
        ProtocolError: the parts of an event hold under different neighbouring relations.
    """
    helpers = None if invitation.security is None else invitation.security.shares_known
    observers = [invitation.consumer, *([OWNERS] if invitation.protocol in _SHOWN_TO_OWNERS else [])]
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
    """Relation under which an event is written down: replace-one, unless the event holds under another alone.

    Raises:
        ProtocolError: the parts of the event hold under different relations.
    """
    if len(event.assumes) > 1:
        cause = f"a plan has an event '{event.kind}' whose parts hold under different relations"
        raise ProtocolError(cause, "Plan its parts as events of their own.")
    return next(iter(event.assumes), "replace-one")
