"""Kinds of arrays that signatures speak of, and the domains of numbers that a peer names.

A proof about private rows speaks of real numbers; what is computed is floats. Between them stands what a peer
names: 1e300 overflows a cast to integers, two infinities make a NaN, and a bound of one row is then a number
of 10^12. So whatever a peer names is a value of a `Numbers` domain: finite, of bounded size, whole or not, in
an array of a known shape that nobody can write to. The bounds are public figures, far beyond what honest
parties say and far below what arithmetic on rows (of [0, 1]) could overflow with: sums of 2^13 products of
three numbers below 2^40, over one that is not below 2^-40, stay below 2^173.

A refusal depends on what the peer named alone, never on a row.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedkme.errors import ConfigError

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]
Rows = NDArray[np.floating[Any]]
"""Rows of numbers, (m, n), in whatever precision they are."""

EXACT = 2.0**53
"""Whole numbers up to it are floats, each its own."""
_REMEDY = "Compare the parties' versions."


@dataclass(frozen=True, slots=True)
class Numbers:
    """Domain of numbers that a peer names.

    Attributes:
        low: the least of them, finite.
        high: the largest, finite.
    """

    low: float
    high: float

    def __post_init__(self) -> None:
        assert -math.inf < self.low <= self.high < math.inf, "a domain is bounded"

    def array(self, plain: object, shape: tuple[int | None, ...], what: str) -> FloatArray:
        """Numbers as an array that cannot be written to.

        Args:
            plain: an array, or nested lists of numbers as JSON has them.
            shape: of the array; None for a length that may be any.
            what: of the plan, for the error.

        Raises:
            ConfigError: another shape, what is no number, or a number outside of the domain.
        """
        found = np.array(plain, np.float64) if isinstance(plain, np.ndarray) else _nested(plain, len(shape))
        own = () if found is None else found.shape
        if (
            found is None
            or len(own) != len(shape)
            or any(a not in (None, b) for a, b in zip(shape, own, strict=True))
        ):
            raise ConfigError(f"{what} are numbers of another shape, or none", _REMEDY)
        if found.size and not (self.low <= found.min() and found.max() <= self.high):  # no NaN passes
            raise ConfigError(f"{what} are not between {self.low:g} and {self.high:g}", _REMEDY)
        found.flags.writeable = False
        return found

    def real(self, plain: object, what: str) -> float:
        """One number.

        Raises:
            ConfigError: it is none, or outside of the domain.
        """
        if type(plain) not in (int, float) or not self.low <= plain <= self.high:  # type: ignore[operator]
            raise ConfigError(f"{what} is no number from {self.low:g} to {self.high:g}", _REMEDY)
        return float(plain)  # type: ignore[arg-type]

    def count(self, plain: object, what: str) -> int:
        """One whole number, which JSON does not spell as 1.0 or true.

        Raises:
            ConfigError: it is none, or outside of the domain.
        """
        if type(plain) is not int or not self.low <= plain <= self.high:
            raise ConfigError(f"{what} is no whole number from {self.low:g} to {self.high:g}", _REMEDY)
        return plain

    def counts(self, plain: object, what: str) -> tuple[int, ...]:
        """Whole numbers.

        Raises:
            ConfigError: it is no list of them.
        """
        if not isinstance(plain, list | tuple):
            raise ConfigError(f"{what} are no list of whole numbers", _REMEDY)
        return tuple(self.count(each, what) for each in plain)


COORDINATES = Numbers(-(2.0**40), 2.0**40)
"""Coordinates, shifts, cuts and scores of a plan: rows are in [0, 1], or of length 1 at most."""
WIDTHS = Numbers(2.0**-40, 2.0**40)
"""Divisors of coordinates of a plan, and gammas of kernels of encoded rows."""


def whole(values: FloatArray, most: float = EXACT) -> IntArray:
    """Cast numbers that are whole to integers.

    A cast of numpy makes some integer of a NaN, or of 1e300; this one refuses. It is for numbers that follow
    from values of domains, which no row can take beyond `most`.

    Raises:
        ConfigError: one is not whole, or larger than `most`.
    """
    if values.size and not (np.abs(values).max() <= most and (values == np.rint(values)).all()):
        raise ConfigError("numbers to count with are not whole, or beyond what is exact", _REMEDY)
    return values.astype(np.int64)


def _nested(plain: object, depth: int) -> FloatArray | None:
    """Nested lists of so many levels as an array; None for anything else, text and truth among it."""
    level: list[Any] = [plain]
    shape = list[int]()
    for _ in range(depth):
        sizes = {len(each) if isinstance(each, list | tuple) else -1 for each in level}
        if len(sizes) > 1 or -1 in sizes:
            return None
        shape.append(sizes.pop() if sizes else 0)
        level = [part for each in level for part in each]
    if not {type(each) for each in level} <= {int, float}:
        return None
    try:
        return np.array(level, np.float64).reshape(shape)
    except OverflowError:  # a whole number that is no float
        return None
