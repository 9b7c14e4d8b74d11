"""Port through which a run of sums reaches an owner, whatever lies between them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from fedkme.protocol import Invitation
from fedkme.secagg import (
    Advertisement,
    Delivery,
    Endorsement,
    Endorsements,
    KeyBinding,
    KeyRoster,
    MaskedInput,
    Parameters,
    SealedShares,
    Survivors,
    Unmasking,
)
from fedkme.sums.values import SumQuery


class SumPort(Protocol):
    """One owner as a run of sums sees it. An engine is a way to make these.

    Every call may raise `OwnerLostError`, `OwnerFaultError`, `BudgetError` or `PolicyError`; the run then
    goes on without the owner, where the number of those that are left allows it. `number` counts questions,
    from 1.
    """

    @property
    def name(self) -> str:
        """The owner's name: its certificate's, never its address."""

    @property
    def at_once(self) -> bool:
        """True where nothing is waited for: the owner is in this process."""

    async def invite(self, invitation: Invitation) -> int:
        """Let the owner decide; returns how many rows it has (m_j, public)."""

    async def embed(self, number: int, query: SumQuery, length: int) -> NDArray[np.int64]:
        """The owner's vector in the clear, (length,)."""

    async def propose(self, number: int, parameters: Parameters, query: SumQuery) -> KeyBinding:
        """Open an aggregation; the owner's signing key for it."""

    async def advertise(self, number: int, keys: Sequence[KeyBinding]) -> Advertisement:
        """Phase 1, with everybody's signing key."""

    async def share(self, number: int, roster: KeyRoster) -> SealedShares:
        """Phase 2."""

    async def mask(self, number: int, delivery: Delivery, length: int) -> MaskedInput:
        """Phase 3: the vector under masks."""

    async def endorse(self, number: int, survivors: Survivors) -> Endorsement:
        """Phase 4."""

    async def unmask(self, number: int, endorsements: Endorsements) -> Unmasking:
        """Phase 5."""
