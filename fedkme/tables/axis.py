"""Public scale of a number: map of its values to [0, 1], and its bins (docs/decisions/019); codes off it.

A value is bent (by a logarithm, or not at all), then stretched piecewise so that all pieces between cuts have
equal length. Both maps increase, so bins keep their order. Nothing is learnt from rows.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedkme.arrays import FloatArray
from fedkme.tables.cells import day_of

FLOAT32 = 2.0**-23
"""Largest error of a number as float32, for its size."""
FAR = 1e100
"""Largest number of a schema: sums of products of several are finite."""


def are_bounds(low: float, high: float) -> bool:
    """Check whether bounds are finite and far enough apart for their bins to be told apart."""
    apart = max(1.0 / FAR, 64.0 * math.ulp(max(-low, high)))
    return low >= -FAR and high <= FAR and high - low >= apart


def equal_to(values: NDArray[Any], number: float) -> NDArray[np.bool_]:
    """Mark values that are a number up to the precision of float32, in which files and frames may have it."""
    if values.dtype.kind in "biu" or not math.isfinite(number):
        return np.asarray(values == number)
    with np.errstate(invalid="ignore"):  # of infinities
        return np.asarray(np.abs(values - number) <= FLOAT32 * abs(number))


def nearest_of(choices: Sequence[float], numbers: FloatArray) -> FloatArray:
    """The nearest of increasing choices to each number; the larger one of two."""
    listed = np.array(choices, np.float64)
    return np.asarray(listed[np.searchsorted((listed[:-1] + listed[1:]) / 2.0, numbers, side="right")])


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


def _large_codes() -> Iterator[float]:
    """Codes of surveys (77, 9998), of weather stations (999.9), limits of integers, fills of arrays."""
    for digits in range(2, 11):
        top = 10.0**digits
        yield from (float(digit * digits) for digit in "678")
        yield from (top - below for below in (1.0, 2.0, 3.0, 4.0, 0.1, 0.01))
    yield from (2.0**bits - 1 for bits in (7, 8, 15, 16, 31, 32, 63))
    yield from (1e20, 1e30, 1e34, 1e35, 1e36, 1e37, 1e38, 9.96921e36, float(np.float32(9.96921e36)))
    most = float(np.finfo(np.float32).max), float(np.finfo(np.float64).max)
    yield from (float(f"{each:.{digits}e}") for each in most for digits in (5, 6, 7, 8, 14))
    yield from most


CODES = frozenset(
    (
        *(-1.0, -7.0, -8.0, -9.0),
        *(-(2.0**bits) for bits in (7, 15, 31, 63)),
        *(sign * code for code in _large_codes() for sign in (1.0, -1.0)),
    )
)
"""Numbers that may stand for an empty cell, if all other values of the column are far from them."""
_SMALL, _BESIDE = (-2.0, -3.0, -4.0, -5.0, -6.0), 20.0
"""Codes of surveys, in a sample of which no other number is negative and the largest is at least 20."""
_MOST_SMALL = 5
"""Different codes of a survey from -1 to -9 in one column, at most."""
MAY_BE_CODES = CODES.union(_SMALL)
"""All numbers that `codes_apart` may mark."""
_LISTED = np.unique([*CODES, *(float(np.float32(code)) for code in CODES if abs(code) < 2.0**17)])
"""Numbers of `CODES`, and these as float32 where it has as many digits: 999.9, not 9999999.99."""
_FIRST_DAYS = """
0001-01-01 1111-11-11 1582-10-14 1582-10-15 1601-01-01 1753-01-01 1800-01-01 1899-12-30 1899-12-31 1900-01-01
1901-01-01 1904-01-01 1960-01-01 1970-01-01
"""
_LAST_DAYS = """
2099-12-31 2100-01-01 2100-12-31 2199-12-31 2222-02-02 2262-04-11 2999-12-31 3000-01-01 4000-12-31 8888-12-31
9999-01-01 9999-09-09 9999-12-31
"""
DAY_CODES = tuple(map(day_of, (_FIRST_DAYS + _LAST_DAYS).split()))
"""Days that may: where calendars of programs begin and end, and what people write."""


def codes_beyond(values: FloatArray, bounds: tuple[float, float], *, day: bool = False) -> NDArray[np.bool_]:
    """Mark usual codes for a missing value far beyond the bounds, or negative where nothing is.

    Example: -9 and 999 beside an age of 0 to 120; not 99 beside one of 0 to 90, which may be an age.
    """
    low, high = bounds
    if day:
        return np.isin(values, DAY_CODES) & ((values < low) | (values > high))
    reach = high - low
    far = (values > high + 2.0 * reach) | ((values < 0) & (low >= 0)) | (values < low - reach)
    return np.isin(values, _LISTED) & far


def codes_apart(numbers: FloatArray) -> NDArray[np.bool_]:
    """Mark usual codes for a missing value that are far from all other finite numbers, of which some exist.

    -1, -2 and -3 without -7, -8 or -9 are no codes, but counts that go on below 0; so are -1 to -9 where most
    of these are there, such as minutes of delay.
    """
    below = np.isin(-np.arange(1.0, 10.0), numbers)
    run = (below[:3].all() and not below[6:].any()) or below.sum() > _MOST_SMALL
    usual = np.isin(numbers, _LISTED[np.abs(_LISTED) > 9] if run else (*_LISTED, *_SMALL))
    codes = usual
    for _ in range(2):  # those that turn out to be none are among the others
        others = numbers[np.isfinite(numbers) & ~codes]
        if not len(others):
            return np.zeros(numbers.shape, bool)
        low, high = float(others.min()), float(others.max())
        small = np.isin(numbers, _SMALL) & (low >= 0) & (high >= _BESIDE)
        codes = usual & (small | codes_beyond(numbers, (low, high)))
    return codes
