"""Orders: how many rows of which cells each owner is asked for. Post-processing of private histograms.

A part is an owner, or an owner's rows of one class where owners count by class; q_i is its distribution over
cells, s_i its share of all rows, both from noisy counts.

1. w: how much of D_v each part explains; what no part explains is shared by rows (curator/cells/mixture.py).
2. v, the cells of D_v: the simplex projection of nu/m.
3. A_ib = v_b w_i q_ib / sum_k w_k q_kb: cell b is split among parts in proportion to the rows like D_v's that
   each part is likely to hold in cell b. No entry asks for more than 0.8 of the rows counted: the rest goes
   to other parts of the cell, then to other cells.
4. Herding corrects itself within one owner only, and owners that are asked for a single row of a cell all
   send the cell's middle. So a cell of n rows (of one class) is ordered from the n / LEAST_ORDER owners with
   the largest orders by step 3, or from as many owners as the caps need; step 3 is repeated with these
   owners.

A share a of all rows (`uniform_share`) may be drawn uniformly, by each owner in proportion to its rows: a
sample of the pool, stratified by owner. The other rows are ordered by cells.

q and nu are noisy, m and m_j public: no function here reads a row, so orders cost no privacy.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from curator.cells.mixture import Parts, mixture, shared
from fedkme.arrays import FloatArray, IntArray
from fedkme.directives import FillOrder
from fedkme.embeddings.weight_fit import project
from fedkme.errors import ConfigError, NotEnoughRowsError

BoolArray = NDArray[np.bool_]

USABLE = 0.8
"""Largest share of a cell that is ordered: counts are noisy, and an owner's last rows fit worst."""
LEAST_ORDER = 4
"""Approximate rows of a cell that one owner is asked for, where several owners share the cell's order."""
NOISY = 0.35
"""Share of noise in the distance of D_v from the pool above which half of the rows is uniform."""
HALF = 0.5
FEW, QUARTER = 20.0, 0.25
"""Rows of D_v, in deviations of the noise on a count, below which a quarter of the rows is uniform."""
SEEN = 2.0
"""Deviations of the noise above which a count stands for rows, not for noise alone."""
ABSENT = 0.25
"""Share of D_v in cells of noise alone above which a share of the rows as large is uniform."""
_EMPTY = 1e-12


@dataclass(frozen=True, eq=False, slots=True, repr=False)
class Histograms:
    """Histograms that the curator received; their private counts already carry noise.

    Attributes:
        owners: (K, L B) int64, noisy counts; with labels the cell of a row is label B + cell (L = 1 without).
        owner_rows: (K,) int64, m_j, public.
        validation: (B,) int64, nu, noisy counts of D_v.
        validation_rows: m, public.
        labels: L; 1 where owners count by cell alone.
        variance: variance of the noise on each count of an owner (`HistogramNoise.variance`).
        validation_variance: variance of the noise on each count of D_v; 0 where its consumer declared none.
    """

    owners: IntArray
    owner_rows: IntArray
    validation: IntArray
    validation_rows: int
    labels: int = 1
    variance: float = 0.0
    validation_variance: float = 0.0

    def __post_init__(self) -> None:
        size = self.labels * len(self.validation)
        if self.owners.shape != (len(self.owner_rows), size) or not len(self.owner_rows):
            raise ConfigError("histograms do not fit together", "Ask for one histogram of each party.")

    @property
    def shares(self) -> FloatArray:
        """q, (K, B): each owner's distribution over cells; 0 for an owner without rows."""
        rows = [
            project(own / m, "simplex") if m else np.zeros(len(own))
            for own, m in zip(self.owners, self.owner_rows.tolist(), strict=True)
        ]
        return np.stack(rows)


@dataclass(frozen=True, eq=False, slots=True, repr=False)
class Orders:
    """Orders to owners: how many rows of which cells each owner is asked for.

    Attributes:
        rows: n_j, (K,) int64, at most m_j.
        uniform: rows among `rows` that the owner draws uniformly, (K,) int64.
        cells: A, (K, L B): share of each cell in the rows that are not drawn; each row adds up to 1 or 0.
        weights: (K,), adding up to 1: weight of each owner in the mixture, summed over its parts.
        dropped: share of D_v in cells that no owner seems to have; safe to report, as D_v's histogram is
            noisy.
    """

    rows: IntArray
    uniform: IntArray
    cells: FloatArray
    weights: FloatArray
    dropped: float

    def directives(self) -> list[FillOrder]:
        """Directive to each owner, in the order of owners."""
        orders = zip(self.rows.tolist(), self.cells, self.uniform.tolist(), strict=True)
        return [FillOrder(count, shares, uniform) for count, shares, uniform in orders]


def make_orders(histograms: Histograms, total: int, least: int = LEAST_ORDER, uniform: float = 0.0) -> Orders:
    """Make orders for `total` = rho p rows over all owners.

    A cell is ordered from as many owners as can each give about `least` rows; `uniform` is the share a of
    rows that are drawn uniformly.

    Raises:
        NotEnoughRowsError: owners have fewer rows than `total`.
    """
    available = int(histograms.owner_rows.sum())
    if not 1 <= total <= available:
        cause = f"{total} rows were ordered and owners have {available}"
        raise NotEnoughRowsError(cause, "Ask for a smaller summary.")
    drawn = uniform_rows(histograms.owner_rows, round(uniform * total))
    total -= int(drawn.sum())
    owners, size = len(histograms.owner_rows), len(histograms.validation)
    nu = histograms.validation / max(histograms.validation_rows, 1)
    counted = (histograms.owner_rows[:, None] * histograms.shares).reshape(-1, size)
    mass = counted.sum(axis=1, keepdims=True)
    parts = np.where(mass > _EMPTY, counted / np.maximum(mass, _EMPTY), 0.0)
    kinds = np.tile(np.arange(histograms.labels), owners)
    noise = np.sqrt(histograms.variance) / np.maximum(mass[:, 0], 1.0)
    of_validation = np.sqrt(histograms.validation_variance) / max(histograms.validation_rows, 1)
    by = Parts(parts, mass[:, 0] / available, kinds, noise)
    weights = mixture(by, nu)
    held = shared(by, weights, nu, float(of_validation))[:, None] * parts
    # Parts of weight 0 share a cell that no other part has, by plain counts.
    missed = held.sum(axis=0) <= _EMPTY
    held[:, missed] = counted[:, missed] / available
    v = project(nu, "simplex")
    ordered = _ordered(v, held, counted, total)
    few = concentrated(ordered.reshape(owners, -1), USABLE * counted.reshape(owners, -1), least)
    if not few.all():
        ordered = _ordered(v, held * few.reshape(held.shape), counted, total)
    ordered = ordered.reshape(owners, -1)
    rows = whole_rows(ordered.sum(axis=1), histograms.owner_rows - drawn, total)
    sums = ordered.sum(axis=1, keepdims=True)
    cells = np.where(sums > _EMPTY, ordered / np.maximum(sums, _EMPTY), histograms.shares)
    cells[rows == 0] = 0.0
    return Orders(
        rows + drawn, drawn, cells, weights.reshape(owners, -1).sum(axis=1), absent_share(histograms)
    )


def uniform_share(histograms: Histograms) -> float:
    """Share a of rows to draw uniformly, from noisy histograms and public numbers alone.

    Where D_v looks like the pool, orders that follow D_v's histogram follow noise. Let q be the pool's
    distribution over cells, V the variance on a count of D_v and V_j the variance on an owner's count. Noise
    is expected to add B V/m^2 + K L B V_j/N^2 to the squared distance |nu/m - q|^2. Where this exceeds NOISY
    of the distance, half of the rows are uniform. Where D_v has few rows compared with its noise, a quarter
    is, whatever the distance. Where owners have no rows in cells of D_v, orders of these cells follow the
    owners' noise, so at least D_v's share in these cells is uniform (`absent_share`).
    """
    cells, rows = len(histograms.validation), max(int(histograms.owner_rows.sum()), 1)
    m, variance = max(histograms.validation_rows, 1), histograms.validation_variance
    pool = histograms.owners.reshape(-1, cells).sum(axis=0) / rows
    seen = float(np.square(histograms.validation / m - pool).sum())
    noise = cells * variance / m**2 + histograms.owners.size * histograms.variance / rows**2
    alike = HALF if variance > 0 and noise > NOISY * max(seen, noise) else 0.0
    bound = QUARTER if m < FEW * np.sqrt(variance) else alike
    absent = absent_share(histograms)
    return max(bound, absent if absent > ABSENT else 0.0)


def absent_share(histograms: Histograms) -> float:
    """Share of D_v in cells where the owners' counts, per cell and over all cells, do not exceed their noise.

    The sum over all cells is weighted by D_v's shares; it detects a few rows in each of many cells.
    """
    cells = len(histograms.validation)
    counts = histograms.owners.reshape(-1, cells).sum(axis=0)
    deviation = float(np.sqrt(histograms.variance * histograms.owners.size / cells))
    weak = project(histograms.validation / max(histograms.validation_rows, 1), "simplex")
    weak[counts > SEEN * deviation] = 0.0
    together = float(weak @ counts)
    return float(weak.sum()) if together <= SEEN * deviation * float(np.linalg.norm(weak)) else 0.0


def uniform_rows(sizes: IntArray, count: int) -> IntArray:
    """Split `count` uniform rows over owners in proportion to their rows, (K,); no owner exceeds its rows."""
    return whole_rows(count * sizes / max(int(sizes.sum()), 1), sizes, count)


def concentrated(orders: FloatArray, most: FloatArray, least: int) -> BoolArray:
    """Choose the owners to ask for each cell: few, with the largest orders, so that each gets `least` rows.

    Args:
        orders: rows by owner and cell, (K, L B).
        most: caps, (K, L B); owners are added until the cell's rows fit under their caps.
        least: rows that each chosen owner gets, about.

    Returns:
        (K, L B) bool.
    """
    order = np.argsort(-orders, axis=0, kind="stable")
    room = np.cumsum(np.take_along_axis(most, order, axis=0), axis=0)
    rows = orders.sum(axis=0)
    fits = (room < rows).sum(axis=0) + 1
    few = np.maximum(np.ceil(rows / max(least, 1)), fits)
    rank = np.argsort(order, axis=0, kind="stable")
    chosen: BoolArray = rank < few
    return chosen


def _ordered(v: FloatArray, held: FloatArray, counted: FloatArray, total: int) -> FloatArray:
    """Rows ordered of each part and cell by step 3 and the caps, adding up to `total`."""
    mass = held.sum(axis=0)
    wanted = v * np.where(mass > _EMPTY, held / np.maximum(mass, _EMPTY), 0.0)
    if wanted.sum() <= _EMPTY:  # no part has a cell of D_v: follow the mixture alone
        wanted = held if held.sum() > _EMPTY else np.ones_like(held)
    return capped(total * wanted / wanted.sum(), USABLE * counted, held)


def capped(wanted: FloatArray, most: FloatArray, held: FloatArray) -> FloatArray:
    """Cap each entry: the excess goes to other parts of the same cell, then to any cell with room.

    Args:
        wanted: (P, B), >= 0.
        most: caps, (P, B).
        held: weights by which the excess is shared, (P, B); 0 for entries that come last.

    Returns:
        (P, B) with the same sum; above the caps only if the sum of all caps is below it.
    """
    total = float(wanted.sum())
    allotted = np.minimum(wanted, most)
    for _ in range(2 * len(wanted)):  # within cells
        over = wanted.sum(axis=0) - allotted.sum(axis=0)
        room = (most - allotted) * (held > 0)
        free = room.sum(axis=0)
        if not ((over > 1e-9) & (free > 1e-9)).any():
            break
        allotted = allotted + room * np.minimum(1.0, over / np.maximum(free, 1e-9))
    for weight in (held, np.ones_like(held)):  # across cells: first where D_v is likely, then anywhere
        for _ in range(50):
            over = total - float(allotted.sum())
            room = np.maximum(most - allotted, 0.0)
            share = np.where(room > 1e-12, weight, 0.0) * (wanted.sum(axis=0) > 0 if weight is held else 1.0)
            if over <= 1e-9 * total or share.sum() <= _EMPTY:
                break
            allotted = allotted + np.minimum(room, over * share / share.sum())
    over = total - float(allotted.sum())
    return allotted if over <= 1e-9 * total else allotted + over * wanted / total


def whole_rows(rows: FloatArray, limits: IntArray, total: int) -> IntArray:
    """Round `rows` to whole numbers with the sum `total` under `limits`: largest remainders, then room."""
    whole = np.minimum(np.floor(rows + 1e-9).astype(np.int64), limits)
    order: Sequence[int] = np.argsort(-(rows - whole), kind="stable").tolist()
    remaining = total - int(whole.sum())
    for owner in order:  # one each by remainder
        if remaining > 0 and whole[owner] < limits[owner] and rows[owner] > 0:
            whole[owner] += 1
            remaining -= 1
    for owner in np.argsort(-rows, kind="stable").tolist():
        more = min(remaining, int(limits[owner] - whole[owner]))
        whole[owner] += more
        remaining -= more
    return whole
