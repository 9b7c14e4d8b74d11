"""Pruning: choose p of the received rows that are closest to D_v in the exact kernel.

The curator (or the consumer) holds D_v and the received rows. The choice is a function of the exact D_v, so
owners never learn it: only the party with D_v sees it. Discarded rows are deleted, and their owners are paid.
"""

from dataclasses import dataclass

import numpy as np

from fedkme.arrays import FloatArray, IntArray, Rows
from fedkme.embeddings.grams import Gram, gram_of
from fedkme.embeddings.kernels import kernel_mean_at
from fedkme.errors import NotEnoughRowsError

NONE = np.empty(0, dtype=np.int64)
"""No row."""
_GAIN = 1e-12
"""Smallest gain in J that is worth a swap; it is above rounding, so that swapping ends."""
_TOGETHER = 64
"""Number of chosen rows whose exchanges are scored together."""


@dataclass(frozen=True, eq=False, slots=True, repr=False)
class Candidates:
    """Received rows for the kernel: equal rows are one distinct row, with as many copies as came.

    Attributes:
        gram: Gram matrix of the M distinct rows, in order of first arrival.
        closeness: mean kernel of the distinct rows to D_v, (M,).
        groups: place of each received row's distinct row, (r,).
    """

    gram: Gram
    closeness: FloatArray
    groups: IntArray

    @property
    def copies(self) -> IntArray:
        """Give how often each distinct row came, (M,), > 0."""
        return np.bincount(self.groups)

    def places(self, picks: IntArray) -> IntArray:
        """Find a received row for each pick of a distinct row; its copies take turns, in order of arrival."""
        by_group, copies = np.argsort(self.groups, kind="stable"), self.copies
        order = np.argsort(picks, kind="stable")
        turn = np.empty_like(picks)
        turn[order] = np.arange(len(picks)) - np.searchsorted(picks[order], picks[order])
        return by_group[(np.cumsum(copies) - copies)[picks] + turn % copies[picks]]


def candidates(rows: Rows, validation: Rows, gamma: float) -> Candidates:
    """Compute the kernel values for pruning: (r, n) rows, (m, n) D_v."""
    group_of_row = dict[bytes, int]()
    groups = np.array([group_of_row.setdefault(row.tobytes(), len(group_of_row)) for row in rows], np.int64)
    distinct = rows[np.unique(groups, return_index=True)[1]]
    return Candidates(gram_of(distinct, gamma), kernel_mean_at(distinct, validation, gamma), groups)


def prune(rows: Rows, validation: Rows, p: int, gamma: float) -> IntArray:
    """Choose p of the rows (r, n) that are together closest to D_v (m, n); see `pruned`."""
    return pruned(candidates(rows, validation, gamma), p)


def pruned(seen: Candidates, p: int) -> IntArray:
    """Choose p rows: exact greedy on J (Sarpatwar 2019, eq. 3), then the best swaps until no swap helps.

    Args:
        seen: received rows, in an order without secrets (by owners' names, then as sent).
        p: number of rows to choose.

    Returns:
        (p,) indices in the order of picking; all r, in order, where r <= p.

    Raises:
        NotEnoughRowsError: p is below 1.
    """
    if p < 1:
        raise NotEnoughRowsError(f"a summary of {p} rows was asked for", "Ask for at least one row.")
    if len(seen.groups) <= p:
        return np.arange(len(seen.groups), dtype=np.int64)
    return seen.places(swapped(seen, greedy(seen, p)))


def greedy(seen: Candidates, p: int, first: IntArray = NONE, again: bool = False) -> IntArray:
    """Pick distinct rows until there are p picks, each the exact argmax of J(S + x); of equal rows the first.

    Args:
        seen: the rows, each with the same k(x, x).
        p: number of picks in all.
        first: earlier picks, at most p.
        again: whether a row may be picked more often than it has copies.
    """
    crowding = seen.gram.applied(first, np.ones(len(first)))
    copies_left = (p if again else seen.copies) - np.bincount(first, minlength=len(crowding))
    chosen = np.concatenate([first, np.empty(p - len(first), dtype=np.int64)])
    for size in range(len(first), p):
        gain = seen.closeness - crowding / (size + 1)
        chosen[size] = best = int(np.argmax(np.where(copies_left > 0, gain, -np.inf)))
        copies_left[best] -= 1
        crowding += seen.gram.column(best)
    return chosen


def swapped(seen: Candidates, chosen: IntArray, again: bool = False, worth: float = _GAIN) -> IntArray:
    """Swap a chosen row for another row while J grows, the best swap first; the number of rows stays p.

    Swapping i for j changes p^2 J by 2p (c_j - c_i) + 2 s_i - 2 (s_j - k_ij) - k_ii - k_jj, s being the
    kernel sums over the chosen rows. Every swap makes J larger and there are finitely many sets, so swapping
    ends, at the latest after 20 p swaps.

    Args:
        seen: the rows.
        chosen: distinct rows to begin with, (p,).
        again: whether a row may be chosen more often than it has copies.
        worth: smallest gain in J for which a swap is made.
    """
    chosen_rows, p = chosen.copy(), len(chosen)
    sums = seen.gram.applied(chosen_rows, np.ones(p))
    squared_norms = seen.gram.diagonal()
    copies_left = seen.copies - np.bincount(chosen_rows, minlength=len(sums))
    for _ in range(20 * p):
        leave = 2.0 * sums - squared_norms - 2.0 * p * seen.closeness
        enter = 2.0 * p * seen.closeness - 2.0 * sums - squared_norms
        if not again:
            enter[copies_left <= 0] = -np.inf
        change, place, new = _best_exchange(seen.gram, chosen_rows, leave[chosen_rows], enter)
        if change <= worth * p * p:
            break
        sums += seen.gram.column(new) - seen.gram.column(int(chosen_rows[place]))
        copies_left[chosen_rows[place]] += 1
        copies_left[new] -= 1
        chosen_rows[place] = new
    return chosen_rows


def _best_exchange(
    gram: Gram, chosen: IntArray, leave: FloatArray, enter: FloatArray
) -> tuple[float, int, int]:
    """The largest leave_i + enter_j + 2 k_ij, the place of i in `chosen`, and j; of equal values the first.

    No k exceeds the largest k(x, x). So only few pairs can be better than the best pair of a single row.
    """
    places_of = np.sort(np.unique(chosen, return_index=True)[1])
    chosen, leave = chosen[places_of], leave[places_of]
    most, enter_most = 2.0 * float(gram.diagonal().max()), float(enter.max())
    places, others = np.argsort(-leave, kind="stable"), np.arange(len(enter))
    reached = float((leave[places[0]] + enter + 2.0 * gram.column(int(chosen[places[0]]))).max())
    best = (-np.inf, 0, 0)
    for start in range(0, len(places), _TOGETHER):
        part = places[start : start + _TOGETHER]
        part = part[leave[part] + enter_most + most >= reached]
        if not len(part):
            break
        others = others[leave[part[0]] + enter[others] + most >= reached]
        change = leave[part][:, None] + enter[others] + 2.0 * gram.among(chosen[part], others)
        if (value := float(change.max())) >= best[0]:
            ties = np.column_stack(np.nonzero(change == value)).tolist()
            place, other = min((int(part[row]), int(others[column])) for row, column in ties)
            best = (value, *min((place, other), best[1:])) if value == best[0] else (value, place, other)
            reached = max(reached, value)
    return best[0], int(places_of[best[1]]), best[2]
