"""Constants by which rows of equal gain are worth different prices in a descending clock.

A constant is about -log2(u) for a uniform u: among M rows, about M 2^-c have one of at least c. So where many
rows are equal, twice as many of them are worth the price each time that it falls by one spread, whatever M
is: a clock that is after 40 rows passes 20, 40 and 80 of them, at one price a spread, and not 0 and M.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

MOST_TIE_BREAK = 12.0
"""Largest constant: of 4,096 times the rows that a clock is after, one is expected to have it."""
_LEAST = 2.0**-MOST_TIE_BREAK


def constants_of(keys: NDArray[np.uint64]) -> NDArray[np.float64]:
    """Constants in [0, MOST_TIE_BREAK], (m,), of uniform keys, (m,): the same on every machine, bit for bit.

    Between powers of two -log2 is a straight line, so that no library's logarithm decides what is sold.
    """
    uniform = (keys >> np.uint64(11)).astype(np.float64) * 2.0**-53
    mantissa, exponent = np.frexp(_LEAST + (1.0 - _LEAST) * uniform)
    constants: NDArray[np.float64] = 2.0 * (1.0 - mantissa) - exponent
    return constants
