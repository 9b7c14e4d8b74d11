"""Task of a run, and the state that both summary protocols share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from curator.summary.hashed import HashedContent
from curator.summary.sealed import fault_of_boxes
from fedkme.arrays import FloatArray
from fedkme.errors import BidMismatchError, DataError, FedkmeError
from fedkme.features.fixed_point import FeatureMean, Features, MeanVector, ScoredFeatures
from fedkme.features.fourier import RandomFourier
from fedkme.privacy.events import CONSUMER
from fedkme.protocol import Bid, Broadcast
from fedkme.sealed.group import Gift
from fedkme.sealed.rows import AnyRow, HashedRow
from fedkme.tables.row import Row
from fedkme.tables.schema import Schema
from fedkme.tables.table import Table


@dataclass(frozen=True, slots=True, eq=False)
class SummaryTask:
    """The public facts of a run, and g~.

    Attributes:
        run: name of the run.
        rows: p.
        schema: the public column domain.
        h1: the run's draw of random features.
        target: g~, (d,).
        seeds: h1 of the public seed set, (s, d); no rows when there is none.
        count_seeds: whether rows are chosen to match D_v together with the seed set.
        reference: h1 of public rows whose scores set an auction's prices, (r, d); None: the seed set.
        consumer: who receives the summary.
        gifts: the group secret by owner, for rows in boxes; None: rows as they are.
        hashed: where h1 of rows comes beside their boxes, under a secret draw of the form of `h1`, which is
            then of no other use.
        expected: of the plan's choice, in a line that owners are told.
    """

    run: str
    rows: int
    schema: Schema
    h1: RandomFourier
    target: MeanVector
    seeds: Features
    count_seeds: bool = True
    reference: Features | None = None
    consumer: str = CONSUMER
    gifts: Mapping[str, Gift] | None = None
    hashed: HashedContent | None = None
    expected: str = ""

    def features_of(self, rows: Sequence[AnyRow]) -> Features:
        """h1 of revealed rows, (k, d): computed here, or what came with the boxes."""
        plain = [row.values for row in rows if isinstance(row, Row)]
        if self.hashed is not None:
            return self.hashed.features_of([row for row in rows if isinstance(row, HashedRow)])
        return self.h1.fixed_point(self.schema.encode(np.array(plain, dtype=np.float64)))

    def fits_schema(self, owner: str, rows: Sequence[AnyRow]) -> FedkmeError | None:
        """Fault of rows that do not fit the public schema, or are no boxes where boxes are due; or None."""
        if self.hashed is not None:
            return self.hashed.fault(owner, [row for row in rows if isinstance(row, HashedRow)])
        if self.gifts is not None:
            return fault_of_boxes(self.schema.width, owner, rows)
        return fault_of_rows(self.schema, owner, [row for row in rows if isinstance(row, Row)])


def fault_of_rows(schema: Schema, owner: str, rows: Sequence[Row]) -> FedkmeError | None:
    """Fault of an owner's rows that do not fit the public schema, or None."""
    if len({(row.values.shape, row.label is None) for row in rows}) != 1:
        each = (fault_of_rows(schema, owner, [row]) for row in rows)
        return next((error for error in each if error is not None), None)
    values: NDArray[np.float64] = np.array([row.values for row in rows])
    labels = np.array([row.label for row in rows if row.label is not None], dtype=np.int64)
    try:
        schema.check(Table(values, labels if len(labels) else None), owner)
    except DataError as error:
        return error
    return None


@dataclass(frozen=True, slots=True, eq=False)
class PoolRow:
    """A row that was revealed."""

    owner: str
    row: AnyRow
    features: Features


@dataclass(frozen=True, slots=True, eq=False)
class Best:
    """The best row of the pool, and its marginal gain by what was broadcast."""

    row: PoolRow
    gain: float


class Pool:
    """Rows revealed and not used, re-scored with the current means (Algorithm 3, step 15).

    The paper compares bids of different rounds; those of earlier rounds are stale, because the summary has
    grown since. Rows are scored with what was broadcast, never with exact kernels: g~ is all that the
    curator may know of D_v.
    """

    def __init__(self, task: SummaryTask) -> None:
        self._scored = ScoredFeatures(task.h1.spec.dimension, task.target)
        self._rows: list[PoolRow] = []
        self._used: set[int] = set()

    def __len__(self) -> int:
        return len(self._rows) - len(self._used)

    def add(self, rows: Sequence[PoolRow]) -> None:
        """Take in verified rows."""
        if rows:
            self._scored.append(np.array([row.features for row in rows]))
        self._rows.extend(rows)

    def unused(self) -> list[PoolRow]:
        """The rows in the pool, in the order in which they came."""
        return [row for index, row in enumerate(self._rows) if index not in self._used]

    def take_best(self, broadcast: Broadcast) -> Best | None:
        """Remove and return the row of highest marginal gain, or None when the pool is empty.

        Among equal gains the one that came first, hence of the first owner by name within a round.
        """
        if not len(self):
            return None
        best, value = self._scored.best(broadcast.mean, broadcast.size)
        self._scored.retire(best)
        self._used.add(best)
        return Best(self._rows[best], value)


class CurrentSummary:
    """D_s, with its seed set where that counts: its size q and its exact mean of h1."""

    def __init__(self, task: SummaryTask) -> None:
        dimension = task.h1.spec.dimension
        self._mean = FeatureMean(dimension)
        self._seeds = FeatureMean(dimension)
        (self._mean if task.count_seeds else self._seeds).add(task.seeds)

    @property
    def size(self) -> int:
        """Number of rows, q."""
        return self._mean.count

    def add(self, features: Features) -> None:
        """Add one row's h1, (d,)."""
        self._mean.add(features[np.newaxis])

    def without_seeds(self, released: FloatArray) -> FloatArray:
        """Part of a release over D_s and its seed set that is about what counts of them, (d,).

        Post-processing: the seed set is public. The noise of the release grows by (q + s) / q.
        """
        if not self._seeds.count or not self.size:
            return released
        total = self.size + self._seeds.count
        return (total * released - self._seeds.count * self._seeds.normalised()) / self.size

    def distance2(self, target: MeanVector) -> float:
        """Squared distance to g~ in feature space: the estimate of MMD^2 that progress shows."""
        return self._mean.distance2(target)


def verify(
    task: SummaryTask,
    broadcast: Broadcast,
    bids: Mapping[str, Bid],
    rows: Mapping[str, AnyRow],
    seen: Set[tuple[str, int]],
) -> tuple[list[PoolRow], dict[str, FedkmeError]]:
    """Check every revealed row against the bid that it was asked for (Algorithm 3, step 8).

    Args:
        task: the run.
        broadcast: of this round.
        bids: bids by owner.
        rows: revealed rows by owner.
        seen: (owner, token) of every row revealed before.

    Returns:
        The rows that may enter the pool, in the order of `rows`, and why the others may not, by owner.
    """
    refused: dict[str, FedkmeError] = {}
    all_fit = task.fits_schema("owners", list(rows.values())) is None  # one check a round, as a rule
    for owner, row in rows.items():
        error = None if all_fit else task.fits_schema(owner, [row])
        if error is not None:
            refused[owner] = error
        elif row.token != bids[owner].token:
            refused[owner] = _mismatch(task, broadcast, owner, "is not the row that was bid")
        elif (owner, row.token) in seen:
            refused[owner] = _mismatch(task, broadcast, owner, "was revealed before")
    good = [owner for owner in rows if owner not in refused]
    if not good:
        return [], refused
    features, gains, tolerance = _score(task, broadcast, [rows[owner] for owner in good])
    accepted = []
    for index, owner in enumerate(good):
        if abs(gains[index] - bids[owner].value) > tolerance:
            refused[owner] = _mismatch(task, broadcast, owner, "does not have the bid that was made for it")
        else:
            accepted.append(PoolRow(owner, rows[owner], features[index]))
    return accepted, refused


def verify_sale(
    task: SummaryTask,
    broadcast: Broadcast,
    owner: str,
    rows: Sequence[AnyRow],
    least: float,
    due: int,
    seen: Set[tuple[str, int]],
) -> list[PoolRow] | FedkmeError:
    """Check the rows that an owner sold: as many as it counted, each new, with a gain of at least `least`.

    Returns:
        The rows for the pool, or why none of them may enter it.
    """
    if (error := task.fits_schema(owner, rows)) is not None:
        return error
    tokens = {(owner, row.token) for row in rows}
    if len(rows) != due or len(tokens) < due or not tokens.isdisjoint(seen):
        return _mismatch(task, broadcast, owner, "is missing, or one too many, by the owner's own count")
    if not rows:
        return []
    features, gains, tolerance = _score(task, broadcast, rows)
    if (gains < least - tolerance).any():
        return _mismatch(task, broadcast, owner, "is below the price")
    return [PoolRow(owner, row, h) for row, h in zip(rows, features, strict=True)]


def _score(
    task: SummaryTask, broadcast: Broadcast, rows: Sequence[AnyRow]
) -> tuple[Features, FloatArray, float]:
    """h1 of rows, (k, d), their marginal gains, (k,), and how far another host's may be from them."""
    features = task.features_of(rows)
    scored = ScoredFeatures(task.h1.spec.dimension, task.target, capacity=len(rows))
    scored.append(features)
    return features, scored.bids(broadcast.mean, broadcast.size), scored.tolerance(broadcast.size)


def _mismatch(task: SummaryTask, broadcast: Broadcast, owner: str, what: str) -> BidMismatchError:
    return BidMismatchError(
        f"{owner}, run {task.run}, round {broadcast.round}: the revealed row {what}",
        "The row is refused and the owner is out of this run; check the owner's software and data.",
    )
