"""Public scale of a number: map of its values to [0, 1], and its bins (docs/decisions/019); codes off it.

A value is bent (by a logarithm, or not at all), then stretched piecewise so that all pieces between cuts have
equal length. Both maps increase, so bins keep their order. Nothing is learnt from rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from fedkme.arrays import FloatArray
from fedkme.tables.cells import day_of


@dataclass(frozen=True)
class Axis:
    """Scale of a number between two bounds.

    Attributes:
        low: lower bound.
        high: upper bound.
        cuts: increasing values between the bounds.
        unit: unit in asinh(x / unit); None: values are not bent.
        whole: values are whole numbers; in bins, k stands for [k, k + 1).
    """

    low: float
    high: float
    cuts: tuple[float, ...] = ()
    unit: float | None = None
    whole: bool = False

    def bend(self, values: FloatArray) -> FloatArray:
        """Bend values to the scale in which rows are assumed uniform within a bin."""
        return values if self.unit is None else np.arcsinh(values / self.unit)

    def unbend(self, bent: FloatArray) -> FloatArray:
        """Inverse of `bend`."""
        return bent if self.unit is None else np.sinh(bent) * self.unit

    def place(self, values: FloatArray) -> FloatArray:
        """Places of values in [0, 1]."""
        if self.cuts:
            knots = np.array([self.low, *self.cuts, self.high])
            return np.interp(self.bend(values), self.bend(knots), np.linspace(0.0, 1.0, len(knots)))
        start, end = self._ends
        return (self.bend(values) - start) / (end - start)

    def value(self, places: FloatArray) -> FloatArray:
        """Values at places, inverse of `place`; inside the bounds."""
        if self.cuts:
            knots = np.array([self.low, *self.cuts, self.high])
            bent = np.interp(places, np.linspace(0.0, 1.0, len(knots)), self.bend(knots))
        else:
            start, end = self._ends
            bent = start + np.clip(places, 0.0, 1.0) * (end - start)  # or sinh overflows
        return np.clip(self.unbend(bent), self.low, self.high)

    def edges(self, bins: int) -> FloatArray:
        """Increasing ends of at most `bins` equal pieces of [0, 1], as values; whole for whole numbers."""
        top = self.high + self.whole
        knots = np.array([self.low, *self.cuts, top])
        if bins == len(knots) - 1:
            edges = knots
        else:
            shares = np.linspace(0.0, 1.0, bins + 1)
            edges = self.unbend(np.interp(shares, np.linspace(0.0, 1.0, len(knots)), self.bend(knots)))
            edges[0], edges[-1] = self.low, top
        return np.unique(np.ceil(edges - 1e-9)) + 0.0 if self.whole else edges  # no -0

    def between(self, start: FloatArray, end: FloatArray, shares: FloatArray) -> FloatArray:
        """Values in [start, end) at shares of the way in which rows are assumed uniform."""
        a, b = self.bend(start), self.bend(end)
        values = self.unbend(a + shares * (b - a))
        return np.clip(np.floor(values), start, end - 1.0) if self.whole else np.clip(values, start, end)

    @cached_property
    def _ends(self) -> Sequence[float]:
        ends: list[float] = self.bend(np.array([self.low, self.high])).tolist()
        return ends


CODES = (-1.0, -7.0, -8.0, -9.0, -99.0, -999.0, -9999.0, 99.0, 999.0, 9999.0, 99999.0)
"""Numbers that may stand for an empty cell, if all other values of the column are far from them."""
DAY_CODES = tuple(map(day_of, ("1900-01-01", "1899-12-30", "9999-12-31", "9999-01-01")))
"""Days that may."""


def codes_beyond(values: FloatArray, bounds: tuple[float, float], *, day: bool = False) -> NDArray[np.bool_]:
    """Mark usual codes for a missing value far beyond the bounds, or negative where nothing is.

    Example: -9 and 999 beside an age of 0 to 120; not 99 beside one of 0 to 90, which may be an age.
    """
    low, high = bounds
    if day:
        return np.isin(values, DAY_CODES) & ((values < low) | (values > high))
    reach = 2.0 * (high - low)
    far = (values > high + reach) | ((values < 0) & (low >= 0)) | (values < low - reach)
    return np.isin(values, CODES) & far


def count_codes(numbers: FloatArray) -> int:
    """Count usual codes for a missing value that are far from all other numbers."""
    others = numbers[np.isfinite(numbers) & ~np.isin(numbers, CODES)]
    return int(codes_beyond(numbers, (others.min(), others.max())).sum()) if len(others) else 0
