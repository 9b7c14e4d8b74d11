"""Sums over owners in one run: owners are asked once, and what came is in the ledger whatever comes of it.

docs/decisions/006: the ledger's lines and what was made of the sums are on disk in one transaction, before
anybody hears of it. The lines that owners may have written are kept before the first vector of a question
can come. Under secure aggregation an attempt that dies after that counts as opened; in the clear it is asked
again, and who does not answer again is charged for what it may have sent. A curator that is told to stop
first waits a little for the end of a secure sum.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

from curator.run.roster import Fault
from curator.runs.context import RunContext
from curator.sums.charges import Settle, SumCharges
from curator.sums.owner_sums import OwnerSums
from curator.sums.session import SumSession
from fedkme.errors import FedkmeError, SecureAggregationError, StoreError
from fedkme.ops.supervision import to_the_end
from fedkme.protocol import Invitation, Security
from fedkme.protocols import SKETCH

Made = TypeVar("Made")


def security_of(context: RunContext, owners: Sequence[str]) -> Security | None:
    """Protection of sums in a run that begins with these owners; None: they trust this curator."""
    security = context.settings.release.security
    return None if security is None else security.terms(len(owners))


async def run_sums(
    context: RunContext,
    invitation: Invitation,
    sessions: Sequence[SumSession],
    quorum: int,
    ask: Callable[[OwnerSums, Settle], Awaitable[Made]],
    keep: Callable[[Made], None],
    observe: Callable[[Fault], None],
    faults: list[Fault] | None = None,
) -> Made:
    """Ask owners for sums, and keep what is made of them.

    `ask` may settle what came so far before it asks for what follows from it: the ledger's lines, and what it
    keeps, are on disk then. `keep` keeps what `ask` returned, in the transaction that takes the ledger's
    lines.

    Raises:
        SecureAggregationError: an earlier attempt died while owners opened a sum; all that they may have
            disclosed is charged, as nobody here knows any more which of them heard the question.
    """
    written = context.written(invitation.run)
    charges = SumCharges(invitation, context.ledger, context.store, written, context.journaled)
    if invitation.security is not None and charges.interrupted:
        charges.end()
        raise _opened(invitation)
    sums = OwnerSums(
        sessions,
        invitation,
        context.schema,
        charges.gate,
        quorum=quorum,
        noise_for=context.noise_for,
        identity=context.identity(),
        before_vectors=charges.before_vectors,
        propose=charges.propose,
        observe=observe,
        faults=faults,
    )
    sums.skip_to(charges.last + 1)

    async def made_and_kept() -> Made:
        try:
            made = await ask(sums, charges.settle)
        except BaseException as error:  # what came counts, also where nothing is made of it
            over = isinstance(error, FedkmeError) and not isinstance(error, StoreError)
            (charges.end if over else charges.suspend)()
            raise
        charges.end(lambda: keep(made))
        return made

    if invitation.security is None:
        return await made_and_kept()
    return await to_the_end(made_and_kept())  # a curator that is told to stop lets owners finish opening it


def _opened(invitation: Invitation) -> SecureAggregationError:
    what = "sketch" if invitation.protocol == SKETCH else "sum"
    return SecureAggregationError(
        f"the curator stopped while the owners of {invitation.run.partition('/')[0]} opened a {what}",
        "Ask again; what owners disclosed counts, and it costs again.",
    )
