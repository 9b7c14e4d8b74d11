"""Market of one round: the actions that an auction may take with owners, and their record.

Every row that comes is counted, checked against the public schema and against its bid or count, and only then
enters the pool. An owner whose row does not match is out of the run.
"""

import math
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from curator.owners.session import OwnerSession
from curator.run.roster import Roster
from curator.run.summary_record import SummaryRecord
from curator.summary.disclosures import SummaryDisclosures
from curator.summary.task import Pool, PoolRow, SummaryTask, verify, verify_sale
from fedkme.embeddings.tie_breaks import MOST_TIE_BREAK
from fedkme.errors import FedkmeError, OwnerFaultError
from fedkme.features.fixed_point import ScoredFeatures
from fedkme.protocol import Bid, Broadcast
from fedkme.sealed.rows import AnyRow

Prices = NDArray[np.float64]
Counts = NDArray[np.int64]

_CHECK = "Check the owner's software."


class Market:
    """Owners and pool in one round.

    Attributes:
        broadcast: broadcast of the round.
        pool: rows revealed and not used.
        asked: owners that were asked for rows.
        revealed: rows that were accepted.
    """

    def __init__(
        self,
        task: SummaryTask,
        roster: Roster[OwnerSession],
        broadcast: Broadcast,
        pool: Pool,
        record: SummaryRecord,
        gate: SummaryDisclosures,
    ) -> None:
        self.broadcast = broadcast
        self.pool = pool
        self.asked = 0
        self.revealed = 0
        self._task = task
        self._roster = roster
        self._record = record
        self._gate = gate
        self._counts: Mapping[str, Counts] = {}
        self._spread = 0.0

    async def bids(self) -> dict[str, Bid]:
        """Collect bids of owners' best unsent rows (Algorithm 3, step 6); owners without rows make none."""
        self._gate.pass_mean(self.broadcast)
        answers = await self._roster.ask(
            self.broadcast.round,
            lambda owner, broadcast: owner.bid(broadcast),
            dict.fromkeys(self._roster.names, self.broadcast),
        )
        bids, unsent = {}, self._record.unsent()
        for name, bid in answers.items():
            if fault := fault_of_bid(bid, unsent[name]):
                self._refuse({name: OwnerFaultError(f"{name} {fault}", _CHECK)})
            elif bid is not None:
                bids[name] = bid
        return bids

    async def reveal(self, bids: Mapping[str, Bid]) -> None:
        """Ask for the rows that owners bid (steps 13 and 14); verify each row against its bid (step 8)."""
        number = self.broadcast.round
        self._gate.pass_questions(number)
        rows = await self._roster.ask(
            number,
            lambda owner, token: owner.reveal(number, token),
            {name: bid.token for name, bid in bids.items()},
        )
        accepted, refused = verify(self._task, self.broadcast, bids, rows, self._record.seen)
        self._take(len(bids), {name: [row] for name, row in rows.items()}, accepted, refused)

    async def quote(self, prices: Prices, spread: float = 0.0) -> Counts:
        """Collect N(v): unsent rows of all owners that are worth at least each price, (k,).

        Each owner counts its own rows, and no row moves. A row's worth is its marginal gain plus `spread`
        times its own private constant in [0, MOST_TIE_BREAK], by which rows of equal gain differ.
        """
        self._spread = spread
        self._gate.pass_mean(self.broadcast)
        answers = await self._roster.ask(
            self.broadcast.round,
            lambda owner, broadcast: owner.quote(broadcast, prices, spread),
            dict.fromkeys(self._roster.names, self.broadcast),
        )
        unsent = self._record.unsent()
        odd = {
            name: OwnerFaultError(f"{name} miscounted: {fault}", _CHECK)
            for name, counts in answers.items()
            if (fault := fault_of_counts(counts, prices, unsent[name]))
        }
        self._refuse(odd)
        self._counts = {name: counts for name, counts in answers.items() if name not in odd}
        total = np.zeros(len(prices), dtype=np.int64)
        for counts in self._counts.values():
            total += counts
        return total

    async def buy(self, prices: Prices, index: int) -> bool:
        """Buy every unsent row that is worth at least prices[index], without a cap.

        Every owner is told the price, whether the owner has such rows or not.

        Returns:
            False where an owner sold fewer rows than it counted and other owners are left to quote again;
            else True.
        """
        number, price = self.broadcast.round, float(prices[index])
        least = price - self._spread * MOST_TIE_BREAK
        due = {name: int(counts[index]) for name, counts in self._counts.items()}
        self._gate.pass_questions(number)
        answers = await self._roster.ask(number, lambda owner, count: owner.sell(number, price, count), due)
        accepted: list[PoolRow] = []
        refused: dict[str, FedkmeError] = {}
        for name, rows in answers.items():
            sale = verify_sale(self._task, self.broadcast, name, rows, least, due[name], self._record.seen)
            if isinstance(sale, FedkmeError):
                refused[name] = sale
            else:
                accepted += sale
        self._take(len(due), answers, accepted, refused)
        sold = all(name in answers and name not in refused for name, count in due.items() if count)
        return sold or self._roster.below_quorum() is not None or not len(self._roster)

    def reference_scores(self) -> NDArray[np.float64]:
        """Marginal gains of public rows, by which an auction sets its prices, (r,)."""
        public = self._task.seeds if self._task.reference is None else self._task.reference
        scored = ScoredFeatures(self._task.h1.spec.dimension, self._task.target, capacity=len(public))
        scored.append(public)
        return scored.bids(self.broadcast.mean, self.broadcast.size)

    def _take(
        self,
        count: int,
        rows: Mapping[str, Sequence[AnyRow]],
        accepted: Sequence[PoolRow],
        refused: Mapping[str, FedkmeError],
    ) -> None:
        self.asked += count
        for name, new in self._record.access(self.broadcast.round, rows).items():
            self._gate.receive_rows(self.broadcast.round, name, new)
        self.pool.add(accepted)
        self.revealed += len(accepted)
        self._refuse(refused)

    def _refuse(self, errors: Mapping[str, FedkmeError]) -> None:
        for name, error in errors.items():
            self._roster.remove(self.broadcast.round, name, error)


def fault_of_bid(bid: Bid | None, unsent: int) -> str:
    """Reason why an owner with `unsent` rows cannot make this bid, or make none; empty where it can."""
    if bid is None:
        return f"says that it has no row left, and {unsent} of its rows did not come" if unsent else ""
    if not math.isfinite(bid.value):
        return "made a bid that is no number"
    return "" if unsent else "bids, and all rows that it said it has came"


def fault_of_counts(counts: Counts, prices: Prices, unsent: int) -> str:
    """Reason why an owner's counts by price are impossible; empty where they are possible.

    Args:
        counts: one owner's rows worth at least each price, (k,).
        prices: prices in any order, (k,).
        unsent: rows that the owner said it has and that did not come.
    """
    if len(counts) != len(prices):
        return f"it gave {len(counts)} counts for {len(prices)} prices"
    if (counts > unsent).any():
        return f"it counts more rows than the {unsent} that it has left"
    if (np.diff(counts[np.argsort(-prices, kind="stable")]) < 0).any():
        return "fewer of its rows are worth a lower price"
    return ""
