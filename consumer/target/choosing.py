"""Choice among rows of a release by D_v, or by a part of D_v, in the exact kernel."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import TypeVar

import numpy as np

from consumer.summary.judging import SHORTLIST
from fedkme.arrays import FloatArray, IntArray, Rows
from fedkme.embeddings.mmd import ReferenceRows
from fedkme.embeddings.prune import prune
from fedkme.embeddings.selection import shortlist
from fedkme.embeddings.summary_weights import beside_classes, received, weigh
from fedkme.tables.schema import Schema
from fedkme.tables.table import Table

T = TypeVar("T")


def remembered(make: Callable[[IntArray], T]) -> Callable[[IntArray], T]:
    """Keep what a function of rows of D_v made last, by their places: several choices of a fold share it."""
    last: dict[bytes, T] = {}

    def again(places: IntArray) -> T:
        if (key := places.tobytes()) not in last:
            last.clear()
            last[key] = make(places)
        return last[key]

    return again


@dataclass(frozen=True, eq=False)
class PoolChoice:
    """Choice of rows of a pool, with classes as in a summary where pool and D_v have labels.

    Attributes:
        schema: schema of both tables.
        pool: rows to choose from.
        validation: D_v.
        p: number of rows of the summary.
        gamma: gamma of the kernel.
    """

    schema: Schema
    pool: Table
    validation: Table
    p: int
    gamma: float

    @cached_property
    def _encoded(self) -> tuple[Rows, ReferenceRows]:
        against = ReferenceRows(self.schema.encode(self.validation.values), self.gamma)
        rows = self.schema.encode(self.pool.values)
        return beside_classes(rows, against, self.pool.labels, self.validation.labels)

    @property
    def everything(self) -> IntArray:
        """Places of all rows of D_v."""
        return np.arange(len(self.validation))

    @cached_property
    def short(self) -> Callable[[IntArray], IntArray]:
        """Greedy choice of `SHORTLIST` p rows by the rows of D_v at some places."""
        rows, seen = self._encoded
        return remembered(lambda places: shortlist(rows, seen.rows[places], SHORTLIST * self.p, self.gamma))

    def weighted(self, places: IntArray, most: int) -> tuple[IntArray, FloatArray]:
        """Weigh at most `most` rows of the shortlist: their places in the pool, and weights of sum 1."""
        rows, seen = self._encoded
        short = self.short(places)
        about = received(rows[short], ReferenceRows(seen.rows[places], self.gamma))
        fit = weigh(about, most, np.arange(min(most, len(short))))
        return short[fit.indices], fit.weights

    def pruned(self, places: IntArray) -> IntArray:
        """Choose p rows of the shortlist for equal weights: their places in the shortlist."""
        rows, seen = self._encoded
        return prune(rows[self.short(places)], seen.rows[places], self.p, self.gamma)
