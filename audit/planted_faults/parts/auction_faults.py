"""Faults of auctions, and of owners that answer them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from audit.attacks.owners import limits
from curator.summary.auctions.clock import Clock
from curator.summary.auctions.privauction import PrivAuction, PrivAuctionSettings
from fedkme.arrays import FloatArray
from fedkme.directives import FillOrder
from fedkme.errors import BudgetError
from fedkme.privacy.noise import NoiseSource
from fedkme.protocol import Broadcast
from fedkme.sealed.rows import AnyRow
from fedkme.tables.table import Table
from owner.cells.responder import HistogramResponder
from owner.consent.gate import OwnerGate
from owner.summary.bidder import Bidder


class FaultyClock(Clock):
    """A clock with parameters for faults in its arithmetic; by default it equals the real clock."""

    xi_share = 1.0
    coin_share = 1.0

    def stop(self, counts: NDArray[np.int64]) -> int:
        epsilon = self._settings.epsilon
        patience = -self.xi_share * math.log1p(-self._noise.uniform(1)[0]) / epsilon
        shortfall = np.maximum(0.0, self._settings.threshold() + patience - counts)
        chance = np.exp(-self.coin_share * epsilon * shortfall)
        stopped = np.flatnonzero(self._noise.uniform(len(counts)) < chance)
        return int(stopped[0]) if len(stopped) else len(counts) - 1


class FixedThreshold(FaultyClock):
    xi_share = 0.0


class ImpatientClock(FaultyClock):
    xi_share = 0.2


class HalfCoin(FaultyClock):
    coin_share = 0.5


class WrongSign(FaultyClock):
    coin_share = -1.0


class LeavesAtLimit(OwnerGate):
    """Offers all rows, and refuses the answer that would go over a limit."""

    def offered(self, table: Table) -> Table:
        return table

    def tie_breaks(self, rows: int) -> FloatArray:
        return np.zeros(rows)

    def pass_rows(self, run: str, round_number: int, tokens: Sequence[int], *rest: Any, **more: Any) -> None:
        if self.rows_sent + len(tokens) > limits.HELD:
            raise BudgetError("more rows are asked for than may leave", "Ask for fewer.")
        super().pass_rows(run, round_number, tokens, *rest, **more)


class AnswersEarly(HistogramResponder):
    """Herds if it has a row of the ordered cells, and otherwise answers at once."""

    def fill_order(self, round_number: int, order: FillOrder) -> Sequence[AnyRow]:
        _, _, counting = self._begun()
        count = order.count
        if order.shares[self._cells(counting)].any():
            return super().fill_order(round_number, order)
        sealer = self._ready()
        assert sealer is not None, "rows go sealed here"
        self._gate.pass_rows("audit", round_number, range(count), sealed_for="consumer")
        return sealer.fill(range(count), self._schema.width)


class StaleEpoch(Bidder):
    """Answers with the counts of the last clock, rows that were sent since included."""

    _last: NDArray[np.int64] | None = None

    def quote(self, broadcast: Broadcast, prices: FloatArray, spread: float = 0.0) -> NDArray[np.int64]:
        fresh = super().quote(broadcast, prices, spread)
        last, self._last = self._last, fresh
        return fresh if last is None else last


def off_by_one_tau(noise: NoiseSource) -> PrivAuction:
    rate, patience = PrivAuctionSettings().parameters(8)
    return PrivAuction(rate, patience + 1, noise)
