"""Sums over owners in one run: owners are asked once, and what came is in the ledger whatever comes of it.

docs/decisions/007: the ledger's lines and what was made of the sums are on disk in one transaction, before
anybody hears of it. The lines that owners may have written are kept before the first vector of a question
can come. Under secure aggregation an attempt that dies after that counts as opened; in the clear it is asked
again, and who does not answer again is charged for what it may have sent.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any, TypeVar

from curator.owners.roster import Fault
from curator.runs.context import RunContext
from curator.sums.disclosures import SumDisclosures, unwritten
from curator.sums.owner_sums import OwnerSums
from curator.sums.session import SumSession
from fedkme.errors import FedkmeError, SecureAggregationError, StoreError
from fedkme.privacy.events import disclosure_from_json
from fedkme.protocol import Invitation, Security

_ASKED = "asked/"
"""Key of the number of a run's last aggregation: owners take part in none of a number twice."""
_DOUBTFUL = "doubtful/"
"""Key of the lines that owners of a run may have written in an attempt whose own are not on disk."""
Made = TypeVar("Made")
Settle = Callable[[Callable[[], None]], None]
"""Puts the ledger's lines so far on disk, in one transaction with what its argument keeps."""


def security_of(context: RunContext) -> Security | None:
    """Protection of owners' sums at this curator; None: by trust."""
    security = context.settings.release.security
    return None if security is None else security.value()


async def run_sums(
    context: RunContext,
    invitation: Invitation,
    sessions: Sequence[SumSession],
    quorum: int,
    ask: Callable[[OwnerSums, Settle], Awaitable[Made]],
    keep: Callable[[Made], None],
    mark: Callable[[list[dict[str, Any]]], None],
    observe: Callable[[Fault], None],
    faults: list[Fault] | None = None,
) -> Made:
    """Ask owners for sums, and keep what is made of them.

    `ask` may settle what came so far before it asks for what follows from it: the ledger's lines, and what it
    keeps, are on disk then. `keep` keeps what `ask` returned, in the transaction that takes the ledger's
    lines. `mark` keeps lines that owners may have written, before a masked vector can come.
    """
    last, doubt, store = f"{_ASKED}{invitation.run}", f"{_DOUBTFUL}{invitation.run}", context.store
    before = json.loads(store.get(doubt) or b"[]")
    gate = SumDisclosures(invitation, context.written(invitation.run), map(disclosure_from_json, before))

    def before_vectors() -> None:
        lines = [line.to_json() for line in gate.at_most()]
        if invitation.security is not None:
            mark(lines)
        elif context.journaled:
            store.put(doubt, json.dumps(lines).encode("ascii"))

    sums = OwnerSums(
        sessions,
        invitation,
        context.schema,
        gate,
        quorum=quorum,
        noise_for=context.noise_for,
        identity=context.identity(),
        before_vectors=before_vectors,
        propose=lambda number: store.put(last, b"%d" % number),
        observe=observe,
        faults=faults,
    )

    sums.skip_to(int(store.get(last) or b"0") + 1)

    def settle(keep: Callable[[], None]) -> None:
        with context.ledger.together(), context.store.transaction():
            context.ledger.extend(gate.take())
            keep()

    def end(keep: Callable[[], None] = lambda: None) -> None:
        context.ledger.extend(gate.doubtful())
        keep()
        store.delete(last)
        store.delete(doubt)

    try:
        made = await ask(sums, settle)
    except BaseException as error:  # what came counts, also where nothing is made of it
        over = isinstance(error, FedkmeError) and not isinstance(error, StoreError)
        settle(end if over else lambda: None)
        raise
    settle(lambda: end(lambda: keep(made)))
    return made


def give_up(
    context: RunContext,
    run: str,
    of: str,
    what: str,
    lines: Iterable[dict[str, Any]],
    forget: Callable[[], None] = lambda: None,
) -> SecureAggregationError:
    """Write down what owners may have disclosed in an attempt that died while they opened a sum.

    `run` is its name in ledgers, `of` the run for which it was asked, as people know it. `lines` were kept by
    `mark`, and `forget` drops them in the same transaction. Nobody here knows any more which owners heard the
    question: the lines say so.

    Returns:
        Why the attempt is over, to be raised.
    """
    found = [replace(disclosure_from_json(plain), certain=False) for plain in lines]
    with context.ledger.together(), context.store.transaction():
        context.ledger.extend(unwritten(found, Counter(context.written(run))))
        forget()
        context.store.delete(f"{_ASKED}{run}")
    return SecureAggregationError(
        f"the curator stopped while the owners of {of} opened a {what}",
        "Ask again; what owners disclosed counts, and it costs again.",
    )
