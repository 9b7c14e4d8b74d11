"""Task of a summary run, and the state that Algorithm 3 and uniform draws share.

Protocols check whether rows fit, and compute the rows' features. `HashedContent` does both for hashed rows,
`SummaryTask` for plain rows: a curator that sees hashes alone may look at a hash but not at the row, and
never computes h1 itself. The consumer checks, after opening the boxes, that each hash belongs to its row
(`fedkme.sealed.rows.mismatched`).
"""

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedkme.arrays import FloatArray
from fedkme.errors import BidMismatchError, DataError, FedkmeError, OwnerFaultError
from fedkme.features.fixed_point import FeatureMean, Features, MeanVector, ScoredFeatures
from fedkme.features.fourier import RandomFourier, SecretFourierSpec
from fedkme.features.hashes import fault_of_hashes
from fedkme.privacy.events import CONSUMER
from fedkme.protocol import Bid, Broadcast
from fedkme.sealed.group import Gift
from fedkme.sealed.rows import AnyRow, HashedRow, row_box_bytes
from fedkme.tables.schema import Schema
from fedkme.tables.table import Row, Table


@dataclass(frozen=True, slots=True)
class HashedContent:
    """Form of a run's rows without the draw of h1; `columns` is 0 where labels alone are sealed."""

    spec: SecretFourierSpec
    columns: int

    def features_of(self, rows: Sequence[HashedRow]) -> Features:
        """Hashes as the owner sent them, (k, d): bit for bit the features of the owner's bids."""
        if not rows:
            return np.empty((0, self.spec.dimension), dtype=np.int16)
        return np.array([row.features for row in rows])

    def fault(self, owner: str, rows: Sequence[HashedRow]) -> FedkmeError | None:
        """Fault of rows whose hash belongs to no row, or whose box has another length; else None."""
        length = row_box_bytes(self.columns)
        if any(len(row.box) != length for row in rows):
            return DataError(f"{owner}: a sealed row is of another length", "Check the owner's software.")
        if any(row.features.shape != (self.spec.dimension,) for row in rows):
            return DataError(f"{owner}: a hash is of another map", "Check the owner's software.")
        if why := fault_of_hashes(self.features_of(rows), self.spec):
            return DataError(f"{owner}: {why}", "Check the owner's software.")
        return None


def fault_of_boxes(columns: int, owner: str, rows: Sequence[AnyRow]) -> FedkmeError | None:
    """Reason why sealed rows cannot be passed on, or None; the consumer alone sees their contents."""
    length = row_box_bytes(columns)
    for row in rows:
        if not isinstance(row, HashedRow) or len(row.box) != length:
            return DataError(f"{owner}: a sealed row is of another length", "Check the owner's software.")
        if len(row.features):
            return DataError(f"{owner}: a sealed row comes with a hash", "Check the owner's software.")
    return None


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class SummaryTask:
    """Public facts of a run, and g~.

    Attributes:
        run: name of the run.
        rows: p.
        schema: the public column domain.
        h1: the run's draw of random features.
        target: g~, (d,).
        seeds: h1 of the public seed set, (s, d); no rows when there is none.
        count_seeds: True where rows are chosen to match D_v together with the seed set.
        reference: h1 of public rows whose scores set an auction's prices, (r, d); None: the seed set.
        consumer: who receives the summary.
        gifts: the group secret by owner, for sealed rows; None: plain rows.
        hashed: form of the rows where h1 of rows comes with their boxes, under a secret draw; `h1` then gives
            the form of the draw alone.
        expected: a line for owners: what the plan's choice is expected to give.
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
        """Features h1 of revealed rows, (k, d): computed here, or taken from the sealed rows."""
        plain = [row.values for row in rows if isinstance(row, Row)]
        if self.hashed is not None:
            return self.hashed.features_of([row for row in rows if isinstance(row, HashedRow)])
        return self.h1.fixed_point(self.schema.encode(np.array(plain, dtype=np.float64)))

    def fits_schema(self, owner: str, rows: Sequence[AnyRow]) -> FedkmeError | None:
        """Fault of rows that do not fit the public schema, or of sealed rows with a wrong form; else None."""
        if self.hashed is not None:
            return self.hashed.fault(owner, [row for row in rows if isinstance(row, HashedRow)])
        return fault_of_sent(self.schema, owner, rows, sealed=self.gifts is not None)


def fault_of_draw(
    owner: str, rows: Sequence[AnyRow], wanted: int, seen: Set[tuple[str, int]] = frozenset()
) -> FedkmeError | None:
    """Fault of an owner that sent too few or too many rows, or a row that is among the `seen`; else None."""
    if len(rows) != wanted:
        return OwnerFaultError(f"{owner} sent {len(rows)} rows for {wanted}", "Check the owner's software.")
    tokens = {(owner, row.token) for row in rows}
    if len(tokens) < len(rows) or not tokens.isdisjoint(seen):
        return BidMismatchError(f"{owner} sent a row twice", "Check the owner's software.")
    return None


def fault_of_sent(schema: Schema, owner: str, rows: Sequence[AnyRow], sealed: bool) -> FedkmeError | None:
    """Fault of an owner's rows that do not fit the public schema, or of sealed boxes of another size."""
    if sealed:
        return fault_of_boxes(schema.width, owner, rows)
    return fault_of_rows(schema, owner, [row for row in rows if isinstance(row, Row)])


def fault_of_rows(schema: Schema, owner: str, rows: Sequence[Row]) -> FedkmeError | None:
    """Fault of an owner's rows that do not fit the public schema, or None."""
    if len({(row.values.shape, row.label is None) for row in rows}) != 1:
        faults = (fault_of_rows(schema, owner, [row]) for row in rows)
        return next((error for error in faults if error is not None), None)
    values: NDArray[np.float64] = np.array([row.values for row in rows])
    labels = np.array([row.label for row in rows if row.label is not None], dtype=np.int64)
    try:
        schema.check(Table(values, labels if len(labels) else None), owner)
    except DataError as error:
        return error
    return None


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class PoolRow:
    """Revealed row of an owner."""

    owner: str
    row: AnyRow
    features: Features


@dataclass(frozen=True, slots=True, eq=False)
class Best:
    """Best row of the pool, and its marginal gain by the broadcast mean."""

    row: PoolRow
    gain: float


class Pool:
    """Rows revealed and not used, re-scored with the current means (Algorithm 3, step 15).

    The paper compares bids of different rounds; bids of earlier rounds are stale, because the summary has
    grown since. Rows are scored with the broadcast mean, never with exact kernels: g~ is all that the curator
    may know of D_v.
    """

    def __init__(self, task: SummaryTask) -> None:
        self._scored = ScoredFeatures(task.h1.spec.dimension, task.target)
        self._rows: list[PoolRow] = []
        self._used: set[int] = set()

    def __len__(self) -> int:
        return len(self._rows) - len(self._used)

    def add(self, rows: Sequence[PoolRow]) -> None:
        """Add verified rows."""
        if rows:
            self._scored.append(np.array([row.features for row in rows]))
        self._rows.extend(rows)

    def take_best(self, broadcast: Broadcast) -> Best | None:
        """Remove and return the row of highest marginal gain, or None when the pool is empty.

        Among equal gains the first row that came is taken, hence that of the first owner by name within a
        round; where the summary has an odd number of rows, the last. So owners with the same rows get equal
        credit.
        """
        if not len(self):
            return None
        bids = self._scored.bids(broadcast.mean, broadcast.size)
        equals = np.flatnonzero(bids == bids.max())
        best = int(equals[-(broadcast.size % 2)])
        self._scored.retire(best)
        self._used.add(best)
        return Best(self._rows[best], bids.item(best))


class CurrentSummary:
    """State of D_s: its size q and its exact mean of h1, with the seed set where the seed set counts."""

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
        """Take the seed set out of a release over D_s and its seed set, unless the seed set counts, (d,).

        Post-processing: the seed set is public. The noise of the release grows by (q + s) / q.
        """
        if not self._seeds.count or not self.size:
            return released
        total = self.size + self._seeds.count
        return (total * released - self._seeds.count * self._seeds.normalised()) / self.size

    def distance2(self, target: MeanVector) -> float:
        """Squared distance to g~ in feature space: the estimate of MMD^2 in progress reports."""
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
        task: task of the run.
        broadcast: broadcast of this round.
        bids: bids by owner.
        rows: revealed rows by owner.
        seen: (owner, token) of every row revealed before.

    Returns:
        The rows that may enter the pool, in the order of `rows`, and the errors of the other rows, by owner.
    """
    refused: dict[str, FedkmeError] = {}
    all_fit = task.fits_schema("owners", list(rows.values())) is None  # usually one check a round
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
    """Check an owner's sold rows: as many as it counted, each new, each with a gain of at least `least`.

    Returns:
        The rows for the pool, or the error for which none of them may enter the pool.
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
    """Compute h1 of rows, (k, d), their marginal gains, (k,), and the gains' tolerance between two hosts."""
    features = task.features_of(rows)
    scored = ScoredFeatures(task.h1.spec.dimension, task.target, capacity=len(rows))
    scored.append(features)
    return features, scored.bids(broadcast.mean, broadcast.size), scored.tolerance(broadcast.size)


def _mismatch(task: SummaryTask, broadcast: Broadcast, owner: str, what: str) -> BidMismatchError:
    cause = f"{owner}, run {task.run}, round {broadcast.round}: the revealed row {what}"
    remedy = "The row is refused and the owner is out of this run; check the owner's software and data."
    return BidMismatchError(cause, remedy)
