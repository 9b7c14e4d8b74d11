"""Means and standard errors over the seeds of a sweep."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from sim.sweep.measure import Row


@dataclass(frozen=True, slots=True)
class SeedMean:
    """Mean over seeds.

    Attributes:
        mean: of the values.
        error: standard error of the mean; NaN of one value.
        count: of values.
    """

    mean: float
    error: float
    count: int


def mean_over(values: Iterable[float]) -> SeedMean | None:
    """Mean and standard error of the values that are finite; None without one."""
    finite = [float(value) for value in values if math.isfinite(value)]
    if not finite:
        return None
    spread = float(np.std(finite, ddof=1)) if len(finite) > 1 else math.nan
    return SeedMean(float(np.mean(finite)), spread / math.sqrt(len(finite)), len(finite))


def mean_of(rows: Iterable[Row], column: str) -> SeedMean | None:
    """Mean of a column over rows that have a number there."""
    cells = (row.get(column) for row in rows)
    return mean_over(cell for cell in cells if isinstance(cell, int | float))


def grouped(rows: Iterable[Row], columns: Sequence[str]) -> Mapping[tuple[Any, ...], list[Row]]:
    """Rows by their values in some columns, in the order in which these come."""
    groups: dict[tuple[Any, ...], list[Row]] = {}
    for row in rows:
        groups.setdefault(tuple(row.get(column) for column in columns), []).append(row)
    return groups
