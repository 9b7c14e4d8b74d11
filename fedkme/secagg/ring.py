"""Conversion of whole steps to integers modulo 2**k and back, without clipping."""

import numpy as np
from numpy.typing import NDArray

from fedkme.errors import SecureAggregationError
from fedkme.secagg.parameters import Parameters

Steps = NDArray[np.int64]
Words = NDArray[np.uint64]


def check_steps(steps: Steps, parameters: Parameters) -> None:
    """Refuse a value that is not an owner's vector in steps.

    Raises:
        SecureAggregationError: wrong shape or type, or a coordinate over the bound.
    """
    if not isinstance(steps, np.ndarray) or steps.dtype != np.int64 or steps.shape != (parameters.length,):
        cause = f"a vector in steps is not ({parameters.length},) int64"
    elif over := int(np.count_nonzero((steps > parameters.bound) | (steps < -parameters.bound))):
        cause = f"{over} coordinates of a vector are over the agreed bound"
    else:
        return
    raise SecureAggregationError(cause, "Compute the vector as agreed; it is not clipped to fit.")


def to_words(steps: Steps, bits: int) -> Words:
    """Integers modulo 2**k as (length,) uint64 below 2**k."""
    return reduce_words(steps.view(np.uint64), bits)


def reduce_words(words: Words, bits: int) -> Words:
    """Reduce words modulo 2**k; since 2**k divides 2**64, sums of words may wrap before."""
    return words & np.uint64(2**bits - 1)


def from_words(words: Words, bits: int) -> Steps:
    """The representatives in [-2**(k-1), 2**(k-1)), (length,) int64."""
    high = np.uint64(64 - bits)
    return np.right_shift(np.left_shift(words, high).view(np.int64), high.astype(np.int64))
