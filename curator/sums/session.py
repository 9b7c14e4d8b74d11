"""Session by which a run of sums talks to an owner, over any connection.

No answer is stored: exact sums must not reach the curator's disk (docs/decisions/006).
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from curator.owners.session import RunSession
from fedkme.directives import AskSums, Body, Limits, Proposal, SigningKeys, WordVector
from fedkme.secagg import messages
from fedkme.secagg.parameters import Parameters
from fedkme.secagg.signing import KeyBinding
from fedkme.sums.values import SumQuery


class SumSession(RunSession):
    """Session of one owner in a run of sums; `number` counts questions, from 1.

    Every call may raise `OwnerLostError`, `OwnerFaultError`, `BudgetError` or `PolicyError`; the run then
    goes on without the owner if enough owners are left.
    """

    async def embed(self, number: int, query: SumQuery, length: int, moves: int = 0) -> NDArray[np.int64]:
        """Ask for a plain vector of sums; `moves` is the number of rows by which one owner can move a sum."""
        return (await self._words(number, AskSums(query, moves), length)).view(np.int64)

    async def propose(
        self, number: int, parameters: Parameters, query: SumQuery, moves: int = 0
    ) -> KeyBinding:
        """Propose an aggregation; return the owner's signing key."""
        return await self._ask(number, Proposal.of(parameters, query, moves), KeyBinding)

    async def advertise(self, number: int, keys: Sequence[KeyBinding]) -> messages.Advertisement:
        """Begin phase 1 with all signing keys."""
        return await self._ask(number, SigningKeys(tuple(keys)), messages.Advertisement)

    async def share(self, number: int, roster: messages.KeyRoster) -> messages.SealedShares:
        """Begin phase 2 with all advertisements."""
        return await self._ask(number, roster, messages.SealedShares)

    async def mask(self, number: int, delivery: messages.Delivery, length: int) -> messages.MaskedInput:
        """Begin phase 3 with the shares for this owner."""
        return messages.MaskedInput(self.name, delivery.context, await self._words(number, delivery, length))

    async def endorse(self, number: int, survivors: messages.Survivors) -> messages.Endorsement:
        """Begin phase 4 with the owners that survived."""
        return await self._ask(number, survivors, messages.Endorsement)

    async def unmask(self, number: int, endorsements: messages.Endorsements) -> messages.Unmasking:
        """Begin phase 5 with all endorsements."""
        return await self._ask(number, endorsements, messages.Unmasking)

    async def _words(self, number: int, body: Body, length: int) -> NDArray[np.uint64]:
        words = (await self._ask(number, body, WordVector, Limits(words=length))).words
        if len(words) != length:
            raise self._odd(number, f"a vector of {length} words has {len(words)}")
        return words

    def _where(self, number: int) -> str:
        return f"{self.name}, question {number}" if number else self.name
