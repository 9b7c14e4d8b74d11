"""Types of arrays in signatures, domains of numbers that a peer sends, and what noise leaves of an array.

Proofs about private rows treat real numbers; programs compute with floats. Numbers from a peer can break a
proof: 1e300 overflows a cast to integers, two infinities make a NaN, and one row's bound can then reach
10^12. So every number from a peer is a value of a `Numbers` domain: finite, of bounded size, whole or not, in
a read-only array of a known shape. The bounds are public figures, far above the numbers of honest parties and
far below the numbers with which arithmetic on rows (in [0, 1]) would overflow: sums of 2^13 products of three
numbers below 2^40, divided by a number that is at least 2^-40, stay below 2^173.

A number closer to 0 than LEAST is 0. Else its products with rows would be denormal: some processors take a
hundred times as long for these, so that the time of an answer would tell a peer which rows have them.

A refusal depends on the peer's numbers alone, never on a row.
"""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedkme.errors import ConfigError

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]
Rows = NDArray[np.floating[Any]]
"""Rows of numbers, (m, n), of any float type."""

EXACT = 2.0**53
"""Limit up to which floats represent whole numbers exactly."""
LEAST = 2.0**-120
"""Size below which a number of a peer is 0."""
_REMEDY = "Compare the parties' versions."


@dataclass(frozen=True, slots=True)
class Numbers:
    """Domain of numbers that a peer sends.

    Attributes:
        low: smallest number, finite.
        high: largest number, finite.
    """

    low: float
    high: float

    def __post_init__(self) -> None:
        assert -math.inf < self.low <= self.high < math.inf, "a domain is bounded"

    def array(self, plain: object, shape: tuple[int | None, ...], what: str) -> FloatArray:
        """Read numbers into a read-only array.

        Args:
            plain: an array, or nested lists of numbers as in JSON.
            shape: shape of the array; None for any length.
            what: name of the numbers, for the error.

        Raises:
            ConfigError: the shape differs, or an element is no number or outside the domain.
        """
        if isinstance(plain, np.ndarray):
            array = np.array(plain, np.float64) if plain.dtype.kind in "fiu" else None
        else:
            array = _nested(plain, len(shape))
        own = () if array is None else array.shape
        if (
            array is None
            or len(own) != len(shape)
            or any(a not in (None, b) for a, b in zip(shape, own, strict=True))
        ):
            raise ConfigError(f"{what} are numbers of another shape, or none", _REMEDY)
        if array.size and not (self.low <= array.min() and array.max() <= self.high):  # no NaN passes
            raise ConfigError(f"{what} are not between {self.low:g} and {self.high:g}", _REMEDY)
        array[np.abs(array) < LEAST] = 0.0
        array.flags.writeable = False
        return array

    def real(self, plain: object, what: str) -> float:
        """Read one number.

        Raises:
            ConfigError: the value is no number, or outside the domain.
        """
        if type(plain) not in (int, float) or not self.low <= plain <= self.high:  # type: ignore[operator]
            raise ConfigError(f"{what} is no number from {self.low:g} to {self.high:g}", _REMEDY)
        return float(plain)  # type: ignore[arg-type]

    def count(self, plain: object, what: str) -> int:
        """Read one whole number; 1.0 and true are refused.

        Raises:
            ConfigError: the value is no whole number, or outside the domain.
        """
        if type(plain) is not int or not self.low <= plain <= self.high:
            raise ConfigError(f"{what} is no whole number from {self.low:g} to {self.high:g}", _REMEDY)
        return plain

    def counts(self, plain: object, what: str) -> tuple[int, ...]:
        """Read a list of whole numbers.

        Raises:
            ConfigError: the value is no list, or an element is refused by `count`.
        """
        if not isinstance(plain, list | tuple):
            raise ConfigError(f"{what} are no list of whole numbers", _REMEDY)
        return tuple(self.count(each, what) for each in plain)


COORDINATES = Numbers(-(2.0**40), 2.0**40)
"""Coordinates, shifts, cuts and scores of a plan: rows are in [0, 1], or of length 1 at most."""
WIDTHS = Numbers(2.0**-40, 2.0**40)
"""Divisors of coordinates of a plan, and gammas of kernels of encoded rows."""
RELEASED = Numbers(-(2.0**100), 2.0**100)
"""Counts, sums and means with noise of a release: squares of their products do not overflow."""
DEVIATIONS = Numbers(0.0, 2.0**100)
"""Deviations of noise."""


def whole(values: FloatArray, most: float = EXACT) -> IntArray:
    """Cast whole floats to integers.

    A numpy cast turns a NaN, or 1e300, into some integer; this function refuses both. Use it for numbers that
    are computed from values of domains, so that no row can take them beyond `most`.

    Raises:
        ConfigError: a number is not whole, or its magnitude exceeds `most`.
    """
    if values.size and not (np.abs(values).max() <= most and (values == np.rint(values)).all()):
        raise ConfigError("numbers to count with are not whole, or beyond what is exact", _REMEDY)
    return values.astype(np.int64)


def james_stein(squares: float, noise: float) -> float:
    """Part to keep of values with noise: (1 - noise / squares)+ of James and Stein (1961).

    Args:
        squares: sum, or mean, of the values' squares.
        noise: the same of their noise, as expected.
    """
    return max(0.0, 1.0 - noise / squares) if squares > 0.0 else 0.0


def _nested(plain: object, depth: int) -> FloatArray | None:
    """Array of lists nested to a depth; None for anything else, also for text and booleans."""
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
    except OverflowError:  # a whole number beyond the range of floats
        return None
