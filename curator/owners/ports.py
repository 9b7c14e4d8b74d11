"""Port through which a protocol reaches an owner, whatever lies between them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from fedkme.protocol import Bid, Broadcast, Closing, Invitation
from fedkme.sealed import AnyRow


class OwnerPort(Protocol):
    """One owner as a protocol sees it. An engine is a way to make these.

    Every call may raise `OwnerLostError` (the owner is gone), `OwnerFaultError` (it answered with a fault) or
    `BudgetError` (it may not send more); the protocol then goes on without the owner.
    """

    @property
    def name(self) -> str:
        """The owner's name: its certificate's, never its address."""

    @property
    def at_once(self) -> bool:
        """True where nothing is waited for: the owner is in this process."""

    async def invite(self, invitation: Invitation) -> int:
        """Let the owner decide, and make ready; returns how many rows it has (m_j, public)."""

    async def bid(self, broadcast: Broadcast) -> Bid | None:
        """The owner's best unsent row, or None when it has none left."""

    async def reveal(self, round_number: int, token: int) -> AnyRow:
        """Ask for a row that was bid. The owner will not bid it again."""

    async def quote(self, broadcast: Broadcast, prices: NDArray[np.float64]) -> NDArray[np.int64]:
        """Count its unsent rows that have a marginal gain of at least each price, (k,)."""

    async def sell(self, round_number: int, price: float, due: int) -> Sequence[AnyRow]:
        """All unsent rows with a marginal gain of at least the price, by the last quote; `due` of them."""

    async def draw(self, round_number: int, count: int) -> Sequence[AnyRow]:
        """Ask for `count` rows drawn by the owner uniformly without replacement from its unsent rows."""

    async def histogram(self, round_number: int, cells: int) -> NDArray[np.int64]:
        """Count rows in each of the cells, with the owner's noise, (B,)."""

    async def fill_order(
        self, round_number: int, count: int, shares: NDArray[np.float64]
    ) -> Sequence[AnyRow]:
        """Get at most `count` rows, chosen by the owner to match shares of cells, (B,)."""

    async def close(self, last_round: int) -> Closing:
        """End the run for this owner."""
