"""Real vectors as integers modulo 2**k, and back; nothing is ever clipped."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from fedkme.errors import SecureAggregationError
from fedkme.secagg.parameters import Parameters

Steps = NDArray[np.int64]
Words = NDArray[np.uint64]


def to_steps(values: NDArray[np.float64], parameters: Parameters) -> Steps:
    """The nearest multiples of the step, in steps; (length,) int64.

    Each coordinate moves by at most half a step, and one that is a multiple already does not move.

    Args:
        values: an owner's sum, (length,) float64.
        parameters: of the aggregation.

    Raises:
        SecureAggregationError: wrong shape, not finite, or a coordinate over the bound.
    """
    if values.shape != (parameters.length,):
        raise _refused(f"a vector has shape {values.shape} and not ({parameters.length},)")
    if not np.all(np.isfinite(values)):
        raise _refused("a vector has coordinates that are not finite")
    # Dividing by a power of two is exact unless it overflows, and infinity is over every bound.
    with np.errstate(over="ignore"):
        scaled = np.rint(values / parameters.step)
    # Compared as floats: what does not fit int64 must not be converted. Above 2**53 floats are whole, so
    # the bound is rounded down to one that is not above it.
    _check_bound(int(np.count_nonzero(np.abs(scaled) > _float_below(parameters.bound))))
    return scaled.astype(np.int64)


def check_steps(steps: Steps, parameters: Parameters) -> None:
    """Refuse what is not an owner's vector in steps.

    Raises:
        SecureAggregationError: wrong shape or kind, or a coordinate over the bound.
    """
    if not isinstance(steps, np.ndarray) or steps.dtype != np.int64 or steps.shape != (parameters.length,):
        raise _refused(f"a vector in steps is not ({parameters.length},) int64")
    _check_bound(int(np.count_nonzero((steps > parameters.bound) | (steps < -parameters.bound))))


def to_words(steps: Steps, bits: int) -> Words:
    """Integers modulo 2**k as (length,) uint64 below 2**k."""
    return reduce_words(steps.view(np.uint64), bits)


def reduce_words(words: Words, bits: int) -> Words:
    """Modulo 2**k; as 2**k divides 2**64, sums may wrap before."""
    return words & np.uint64(2**bits - 1)


def from_words(words: Words, bits: int) -> Steps:
    """The representatives in [-2**(k-1), 2**(k-1)), (length,) int64."""
    high = np.uint64(64 - bits)
    return np.right_shift(np.left_shift(words, high).view(np.int64), high.astype(np.int64))


def to_values(steps: Steps, parameters: Parameters) -> NDArray[np.float64]:
    """Steps back to values, (length,) float64; exact up to 2**53 steps."""
    return steps * np.float64(parameters.step)


def diameter_in_steps(diameter: float, step: float, length: int, *, exact: bool = False) -> float:
    """L2 diameter of an owner's vector after `to_steps`, in steps.

    Rounding to the nearest step moves each of two neighbouring vectors by at most sqrt(length) / 2 steps,
    so their distance grows by at most sqrt(length). Deterministic rounding costs no randomness, and at a
    step of 2**-30 and a million coordinates a diameter of 2 grows by 5e-7 of itself. Sums of rows that
    are multiples of the step already are not moved at all.

    Args:
        diameter: L2 distance of two neighbouring vectors before, in the units of the values.
        step: of the fixed point.
        length: number of coordinates.
        exact: rows are multiples of the step, so that every sum is.
    """
    # A float64 product and square root are right to half a unit; the last bit goes on top.
    grown = diameter / step + (0.0 if exact else math.sqrt(length))
    return math.nextafter(math.nextafter(grown, math.inf), math.inf)


def _check_bound(over: int) -> None:
    if over:
        raise _refused(f"{over} coordinates of a vector are over the agreed bound")


def _float_below(bound: int) -> float:
    value = float(bound)
    return value if int(value) <= bound else math.nextafter(value, 0.0)


def _refused(why: str) -> SecureAggregationError:
    return SecureAggregationError(why, "Compute the vector as agreed; it is not clipped to fit.")
