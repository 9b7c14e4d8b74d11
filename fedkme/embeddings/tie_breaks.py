"""Constants that break ties in a descending clock: rows of equal gain get different values.

A constant is about -log2(u) for a uniform u: among M rows, about M 2^-c have a constant of at least c. So
among many equal rows, each fall of the price by one spread doubles the number of rows that are worth the
price, whatever M is. A clock that looks for 40 rows passes 20, 40 and 80 rows at successive prices, and not 0
and M.
"""

import numpy as np
from numpy.typing import NDArray

MOST_TIE_BREAK = 12.0
"""Largest constant: enough for 4,096 times as many equal rows as a clock looks for."""
_LEAST = 2.0**-MOST_TIE_BREAK


def constants_of(keys: NDArray[np.uint64]) -> NDArray[np.float64]:
    """Constants in [0, MOST_TIE_BREAK], (m,), of uniform keys, (m,): the same on every machine, bit for bit.

    Between powers of two a straight line replaces -log2, so that no library's logarithm decides a sale.
    """
    uniform = (keys >> np.uint64(11)).astype(np.float64) * 2.0**-53
    mantissa, exponent = np.frexp(_LEAST + (1.0 - _LEAST) * uniform)
    constants: NDArray[np.float64] = 2.0 * (1.0 - mantissa) - exponent
    return constants
