"""Owners of a region as one: what the curator above asks is asked of each of them, and added up.

A run of theirs is called RUN@REGION, and its questions have the numbers of those above, so that ledgers of
all levels can be held to each other. What comes is in the region's ledger before anything of it goes up.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from numpy.typing import NDArray

from curator.owners.head_exchange import HeadExchange
from curator.owners.members import Membership
from curator.owners.roster import Fault
from curator.sums.charges import SumCharges, charge_ended
from curator.sums.round import SumRound, SumTotal
from curator.sums.session import SumSession
from fedkme.directives import Directive, Dismiss, Embed, Proposal
from fedkme.errors import FedkmeError, MissingOwnersError, OwnerFaultError, ProtocolError, StoreError
from fedkme.ops.threads import beside
from fedkme.privacy.ledger import Ledger, disclosures_in
from fedkme.protocol import Invitation, SumTerms
from fedkme.secagg.messages import Delivery
from fedkme.store import Store
from fedkme.sums.values import SumQuery
from fedkme.sums.vector import SumVector
from fedkme.tables.schema import Schema
from owner.sums.checks import vector_of

_OPEN, _ADDED = "region/open/", "region/added/"
"""Keys of the owners of an open run, and of those whose vectors are in its last total with its question."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Below:
    """Parts of a region that its runs share.

    Attributes:
        name: the region's.
        above: address of the curator above.
        members: the ways to its owners.
        schema: the public domain.
        store: the curator's of the region.
        ledger: in that store.
        heads: exchanges heads with owners when a run is over.
        quorum: owners that a run needs.
        connect_s: time to wait for owners when a run begins.
        most_sums: numbers that one question may ask for.
        left: told of each owner that leaves a run.
    """

    name: str
    above: str
    members: Membership
    schema: Schema
    store: Store
    ledger: Ledger
    heads: HeadExchange
    quorum: int = 2
    connect_s: float = 30.0
    most_sums: int = 2**21
    left: Callable[[str, Fault], None] = lambda run, fault: None

    def take_up(self) -> None:
        """Have the owners of runs that an earlier process left open stay in them."""
        for key in self.store.keys(_OPEN):
            self.members.enlist(key.removeprefix(_OPEN), json.loads(self.store.get(key) or b"[]"))

    async def open(self, invitation: Invitation) -> RegionRun:
        """Invite owners to a run; where too few take part, the run has the reason."""
        name = f"{invitation.run}@{self.name}"
        above = (self.above, *invitation.above)
        said = replace(invitation, run=name, terms=SumTerms(), above=above, gift=None)
        kept = self.store.get(_OPEN + name)
        try:
            owners = json.loads(kept) if kept else await self.members.gather(self.quorum, self.connect_s)
        except MissingOwnersError as error:
            return RegionRun(self, said, error=error)
        self.store.put(_OPEN + name, json.dumps(owners).encode())
        self.members.enlist(name, owners)
        run = RegionRun(self, said, owners, again=kept is not None)
        await run.invite()
        return run

    async def end(self, run: str) -> None:
        """Let owners forget a run that is over above, after heads were exchanged."""
        name = f"{run}@{self.name}"
        owners = json.loads(self.store.get(_OPEN + name) or b"[]")
        charge_ended(self.ledger, self.store, name)
        self.members.discharge(name)
        ways = [self.members.connection(each) for each in sorted({*owners} & {*self.members.here()})]
        await self.heads.after(name, ways)
        for way in ways:
            await way.tell(Directive(name, 0, 0, Dismiss()))
        for key in (_OPEN, _ADDED):
            self.store.delete(key + name)


class RegionRun:
    """One run: the `SumSource` of what answers the curator above."""

    def __init__(
        self,
        below: Below,
        invitation: Invitation,
        owners: Iterable[str] = (),
        again: bool = False,
        error: FedkmeError | None = None,
    ) -> None:
        """Begin.

        Args:
            below: what runs share.
            invitation: as owners hear it.
            owners: their names.
            again: an earlier process began it, and may have written lines of it.
            error: why there are none.
        """
        self._below = below
        self._name = invitation.run
        written = disclosures_in(kept.line for kept in below.store.ledger()) if again else ()
        about = [line for line in written if line.run == self._name]
        self._charges = SumCharges(invitation, below.ledger, below.store, about)
        self._round = SumRound(
            [SumSession(below.members.connection(each), self._name) for each in owners],
            invitation,
            self._charges.gate,
            quorum=below.quorum,
            before_vectors=self._charges.before_vectors,
            observe=partial(below.left, self._name),
            faults=[],
        )
        self._proposed: dict[int, SumQuery] = {}
        self._number = 0
        self._total: SumTotal | None = None
        self._error = error

    def __len__(self) -> int:
        """Count the rows of the last total's owners; before it, of those that take part."""
        if self._error is not None:
            raise self._error
        if self._total is not None:
            return self._total.rows
        return sum(self._round.rows[name] for name in self._round.owners)

    def sums(self, number: int, vector: SumVector) -> NDArray[np.int64]:
        """The total of a question's vectors, (length,).

        Raises:
            FedkmeError: it could not be had.
        """
        if self._error is not None:
            raise self._error
        assert self._total is not None, "it was fetched before it is asked for"
        return self._total.steps

    async def invite(self) -> None:
        """Let every owner decide."""
        try:
            await self._round.invite_all()
        except FedkmeError as error:
            self._fail(error)

    async def fetch(self, directive: Directive) -> None:
        """Ask owners for what an answer needs: the vectors of a question, once."""
        match directive.body:
            case Proposal() as proposal:
                self._proposed = {directive.round: proposal.query}
            case Embed(query):
                await self._add_up(directive.round, query)
            case Delivery() if directive.round in self._proposed:
                await self._add_up(directive.round, self._proposed[directive.round])

    async def _add_up(self, number: int, query: SumQuery) -> None:
        if number == self._number or self._error is not None:
            return
        below = self._below
        try:
            if number < self._number:
                raise ProtocolError(
                    f"{self._name} goes back to question {number}", "Look at the curator above."
                )
            vector = await beside(vector_of, query, below.schema, below.most_sums, below.name)
            self._round.skip_to(number)
            total = await self._round.plain_total(vector)
            self._charges.settle(partial(self._check_again, number, total))
            self._total, self._number = total, number
        except StoreError:
            raise
        except FedkmeError as error:
            self._charges.settle()
            self._error = error

    def _check_again(self, number: int, total: SumTotal) -> None:
        """Hold an answer that an earlier process may have given to the owners that were in it.

        Raises:
            OwnerFaultError: others are in it now; the two would differ by an owner's vector.
        """
        key, said = _ADDED + self._name, json.dumps([number, total.owners]).encode()
        before = self._below.store.get(key)
        if before is not None and json.loads(before)[0] == number and before != said:
            raise OwnerFaultError(
                f"{self._name} has other owners than question {number} was answered with",
                "Start another run.",
            )
        self._below.store.put(key, said)

    def _fail(self, error: FedkmeError) -> None:
        if isinstance(error, StoreError):
            raise error
        self._error = error
