"""Sums over owners in one run: owners are asked once, and every vector that came is in the ledger.

docs/decisions/006: the ledger's lines and the result of the sums go to disk in one transaction, before any
party learns the result. The lines that owners may have written are stored before the first vector of a
question can come. Under secure aggregation an attempt that dies after that point counts as opened. In the
clear the question is asked again, and an owner that does not answer again is charged for what it may have
sent. A curator that is told to stop first waits a little for the end of a secure sum.
"""

import asyncio
import threading
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

from curator.releases.method import Tell
from curator.run.run import Run
from curator.runs.context import RunContext
from curator.sums.charges import Settle, SumCharges
from curator.sums.owner_sums import OwnerSums
from curator.sums.round import SumRound
from curator.sums.session import SumSession
from fedkme.documents import Fault
from fedkme.errors import CancelledRunError, FedkmeError, SecureAggregationError, StoreError
from fedkme.exchange import StageProgress
from fedkme.ops.supervision import to_the_end
from fedkme.protocol import Invitation, Security
from fedkme.protocols import SKETCH

Made = TypeVar("Made")


def security_of(context: RunContext, owners: Sequence[str]) -> Security | None:
    """Protection of owners' sums in a run that begins with these owners; None: owners trust the curator."""
    security = context.settings.release.security
    return None if security is None else security.terms(len(owners))


def stage_reporter(context: RunContext, run: Run) -> tuple[threading.Event, Tell]:
    """Make a progress callback for a method's thread; it raises once the returned event is set.

    A report that comes again is not told again: how often it came may follow from draws that are not on
    disk (`SumOracle.tell`).
    """
    loop, abandoned = asyncio.get_running_loop(), threading.Event()
    told: tuple[str, str, float] | None = None

    def report(stage: str, line: str, fraction: float) -> None:
        run.tell(StageProgress(stage, line, fraction))
        context.say("progress", run=run.name, round=0, stage=stage, line=line, fraction=fraction)

    def tell(stage: str, line: str, fraction: float) -> None:
        if abandoned.is_set():  # else the method would train to the end, and this process would wait
            raise CancelledRunError(f"{run.name} is not carried out any more", "Ask again.")
        nonlocal told
        if (stage, line, fraction) != told:
            told = stage, line, fraction
            loop.call_soon_threadsafe(report, *told)

    return abandoned, tell


async def run_sums(
    context: RunContext,
    invitation: Invitation,
    sessions: Sequence[SumSession],
    quorum: int,
    ask: Callable[[OwnerSums, Settle], Awaitable[Made]],
    keep: Callable[[Made], None],
    observe: Callable[[Fault], None],
    faults: list[Fault],
) -> Made:
    """Ask owners for sums, and keep the result.

    `ask` may settle the answers so far before it asks a question that follows from them: the ledger's lines
    and the kept answers are then on disk. `keep` keeps the result of `ask`, in the transaction that writes
    the ledger's lines.

    Raises:
        SecureAggregationError: an earlier attempt died while owners opened a sum; all possible disclosures
            are charged, as the curator no longer knows which owners heard the question.
    """
    written = context.written(invitation.run)
    charges = SumCharges(invitation, context.ledger, context.store, written, context.journaled)
    if invitation.security is not None and charges.interrupted:
        charges.end()
        raise _opened_error(invitation)
    owners = SumRound(
        sessions,
        invitation,
        charges.gate,
        quorum=quorum,
        observe=observe,
        faults=faults,
        identity=context.identity(),
        before_vectors=charges.before_vectors,
        propose=charges.propose,
    )
    owners.skip_to(charges.last + 1)
    sums = OwnerSums(owners, context.schema, context.noise_for)

    async def ask_and_keep() -> Made:
        try:
            result = await ask(sums, charges.settle)
        except BaseException as error:  # vectors that came count, even if no result is made
            over = isinstance(error, FedkmeError) and not isinstance(error, StoreError)
            (charges.end if over else charges.suspend)()
            raise
        charges.end(lambda: keep(result))
        return result

    if invitation.security is None:
        return await ask_and_keep()
    return await to_the_end(ask_and_keep())  # a curator that is told to stop lets owners finish opening a sum


def _opened_error(invitation: Invitation) -> SecureAggregationError:
    what = "sketch" if invitation.protocol == SKETCH else "sum"
    cause = f"the curator stopped while the owners of {invitation.run.partition('/')[0]} opened a {what}"
    return SecureAggregationError(cause, "Ask again; what owners disclosed counts, and it costs again.")
