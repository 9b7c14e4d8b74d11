"""One round's dealings with the owners: what an auction may do, and the record of it.

Whatever an auction asks for, every row that comes is counted, checked against the public schema and against what
was said about it, and only then enters the pool. An owner whose row does not match is out of the run.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from curator.summary.record import SummaryRecord
from curator.summary.roster import Roster
from curator.summary.task import Pool, SummaryTask, scores_of, verify
from fedkme.errors import BidMismatchError, OwnerFaultError
from fedkme.protocol import Bid, Broadcast, Row

Prices = NDArray[np.float64]
Counts = NDArray[np.int64]


class Market:
    """The owners, in one round.

    Attributes:
        broadcast: what they were told, or are told with the first question.
        pool: rows revealed and not used.
        asked: owners that were asked for rows in this round.
        revealed: rows that came and were accepted.
    """

    def __init__(
        self, task: SummaryTask, roster: Roster, broadcast: Broadcast, pool: Pool, record: SummaryRecord
    ) -> None:
        self.broadcast = broadcast
        self.pool = pool
        self.asked = 0
        self.revealed = 0
        self._task = task
        self._roster = roster
        self._record = record

    async def bids(self) -> dict[str, Bid]:
        """Every owner's best unsent row (Algorithm 3, step 6); owners that ran dry have none."""
        answers = await self._roster.ask(
            self.broadcast.round,
            lambda owner, said: owner.bid(said),
            dict.fromkeys(self._roster.names, self.broadcast),
        )
        bids = {}
        for name, bid in answers.items():
            if bid is None:
                continue
            if math.isfinite(bid.value):
                bids[name] = bid
            else:
                self._refuse(name, OwnerFaultError(f"{name} made a bid that is no number", CHECK))
        return bids

    async def reveal(self, bids: dict[str, Bid]) -> None:
        """Ask owners for the rows that they bid (steps 13 and 14), verify them (step 8)."""
        self.asked += len(bids)
        number = self.broadcast.round
        rows = await self._roster.ask(
            number,
            lambda owner, token: owner.reveal(number, token),
            {name: bid.token for name, bid in bids.items()},
        )
        self._count({name: [row] for name, row in rows.items()})
        accepted, refused = verify(self._task, self.broadcast, bids, rows)
        for row in accepted:
            self.pool.add(row)
        self.revealed += len(accepted)
        for name, error in refused.items():
            self._refuse(name, error)

    async def demand(self, prices: Prices) -> Counts:
        """N(v): how many unsent rows of all owners have a marginal gain of at least each price, (k,)."""
        answers = await self._roster.ask(
            self.broadcast.round,
            lambda owner, said: owner.quote(said, prices),
            dict.fromkeys(self._roster.names, self.broadcast),
        )
        total = np.zeros(len(prices), dtype=np.int64)
        for name, counts in answers.items():
            if len(counts) == len(prices):
                total += counts
            else:
                self._refuse(name, OwnerFaultError(f"{name} counted for {len(counts)} prices", CHECK))
        return total

    async def buy(self, price: float) -> None:
        """Every unsent row of all owners with a marginal gain of at least the price."""
        number = self.broadcast.round
        self.asked += len(self._roster)
        answers = await self._roster.ask(
            number, lambda owner, said: owner.sell(number, said), dict.fromkeys(self._roster.names, price)
        )
        self._count(answers)
        for name, rows in answers.items():
            self._take(name, rows, price)

    def _take(self, name: str, rows: Sequence[Row], price: float) -> None:
        for row in rows:
            error = self._task.fits_schema(name, row)
            if error is not None:
                self._refuse(name, error)
                return
        scored, tolerance = scores_of(self._task, self.broadcast, rows)
        if (scored.gains < price - tolerance).any():
            what = f"{name}, run {self._task.run}, round {self.broadcast.round}: a row is below the price"
            self._refuse(name, BidMismatchError(what, CHECK))
            return
        for row, features in zip(rows, scored.features, strict=True):
            self.pool.add_row(name, row, features)
        self.revealed += len(rows)

    def _count(self, rows: dict[str, Sequence[Row]] | dict[str, list[Row]]) -> None:
        number = self.broadcast.round
        self._record.accesses.extend((number, name, row.token) for name in rows for row in rows[name])

    def _refuse(self, name: str, error: OwnerFaultError | BidMismatchError) -> None:
        self._roster.remove(self.broadcast.round, name, error)


CHECK = "Check the owner's software."
