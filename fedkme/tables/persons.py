"""Bound on the rows of one person: what makes a statement about a person possible (docs/decisions/017)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray


def within_bound(persons: NDArray[Any] | Sequence[str], most: int) -> NDArray[np.bool_]:
    """Mark the first `most` rows of each person, (m,), in a way that depends on that person's rows alone.

    Args:
        persons: of each row, in the order of the file; equal values are one person.
        most: rows that count, >= 1.
    """
    _, person = np.unique(np.asarray(persons), return_inverse=True)
    order = np.argsort(person, kind="stable")
    grouped = person[order]
    first = np.searchsorted(grouped, grouped)
    kept = np.empty(len(person), dtype=np.bool_)
    kept[order] = np.arange(len(person)) - first < most
    return kept
