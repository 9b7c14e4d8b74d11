"""Owners in the same process, as a run of sums reaches them."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from fedkme.errors import BudgetError, FedkmeError, OwnerFaultError, PolicyError
from fedkme.secagg import (
    Advertisement,
    Delivery,
    Endorsement,
    Endorsements,
    KeyBinding,
    MaskedInput,
    Parameters,
    Roster,
    SealedShares,
    Survivors,
    Unmasking,
)
from fedkme.sums.values import Enrolment, SumQuery
from owner.sums.responder import SumResponder


class DirectPoolPort:
    """The `SumPort` of an owner in the same process. Its failures reach the curator as its faults.

    Attributes:
        name: the owner's name.
    """

    def __init__(self, pooler: SumResponder) -> None:
        self._pooler = pooler
        self.name = pooler.name

    async def enlist(self, enrolment: Enrolment) -> int:
        """See `SumPort`."""
        with self._faults(0):
            return self._pooler.enlist(enrolment)

    async def embed(self, number: int, query: SumQuery, length: int) -> NDArray[np.int64]:
        """See `SumPort`."""
        with self._faults(number):
            return self._pooler.embed(number, query)

    async def propose(self, number: int, parameters: Parameters, query: SumQuery) -> KeyBinding:
        """See `SumPort`."""
        with self._faults(number):
            return self._pooler.propose(number, parameters, query)

    async def advertise(self, number: int, keys: Sequence[KeyBinding]) -> Advertisement:
        """See `SumPort`."""
        with self._faults(number):
            return self._pooler.advertise(number, keys)

    async def share(self, number: int, roster: Roster) -> SealedShares:
        """See `SumPort`."""
        with self._faults(number):
            return self._pooler.share(number, roster)

    async def mask(self, number: int, delivery: Delivery, length: int) -> MaskedInput:
        """See `SumPort`."""
        with self._faults(number):
            return self._pooler.mask(number, delivery)

    async def endorse(self, number: int, survivors: Survivors) -> Endorsement:
        """See `SumPort`."""
        with self._faults(number):
            return self._pooler.endorse(number, survivors)

    async def unmask(self, number: int, endorsements: Endorsements) -> Unmasking:
        """See `SumPort`."""
        with self._faults(number):
            return self._pooler.unmask(number, endorsements)

    @contextlib.contextmanager
    def _faults(self, number: int) -> Iterator[None]:
        try:
            yield
        except FedkmeError as error:
            kind = type(error) if isinstance(error, BudgetError | PolicyError) else OwnerFaultError
            raise kind(f"{self.name}, question {number}: {error.cause}", error.remedy) from None
