"""Intervals of estimates whose noise has a known law and whose bias has a known bound."""

from __future__ import annotations

import math
from functools import lru_cache

LEVEL = 0.95
_SIDE = 1.6448536269514722
"""95 % point of a standard normal variable: where bias is large, only one side can be missed."""


def critical(ratio: float) -> float:
    """95 % point of |N(t, 1)|, t >= 0 being bias over deviation (Armstrong and Kolesar 2018, section 2).

    `estimate -+ critical(b / s) s` covers with 95 % at least where the bias is at most b. 1.96 at 0.
    """
    return _SIDE + ratio if ratio > 6.0 else _solved(round(ratio, 6))


@lru_cache(maxsize=4096)
def _solved(ratio: float) -> float:
    low, high = _SIDE + ratio - 1e-9, 1.96 + ratio
    for _ in range(60):
        middle = (low + high) / 2.0
        low, high = (middle, high) if _within(middle, ratio) < LEVEL else (low, middle)
    return high


def _within(c: float, ratio: float) -> float:
    """Chance that |N(ratio, 1)| <= c."""
    root = math.sqrt(2.0)
    return 0.5 * (math.erf((c - ratio) / root) + math.erf((c + ratio) / root))


def of_ratio(
    means: tuple[float, float], covariance: tuple[float, float, float], more: float, factor: float
) -> tuple[float, float]:
    """Fieller's interval for a ratio of two means: all q with |a - q b| <= factor x its deviation.

    Args:
        means: a and b.
        covariance: variances of a and of b with their covariance between: (aa, ab, bb).
        more: further variance of a - q b, such as that of sampling.
        factor: critical value.

    Returns:
        Both ends, infinite where b cannot be told from 0.
    """
    a, b = means
    aa, ab, bb = covariance
    squared = factor**2
    two, one, none = b * b - squared * bb, a * b - squared * ab, a * a - squared * (aa + more)
    if b <= 0.0 or two <= 0.0:
        return -math.inf, math.inf
    root = math.sqrt(max(one * one - two * none, 0.0))
    return (one - root) / two, (one + root) / two


def of_correlation(value: float, half: float) -> tuple[float, float]:
    """Interval of a correlation whose half-width is known at `value`, by Fisher's z.

    Each side is as long as that at least: what cannot be seen is not bent as noise is. Where it reaches 1 or
    -1 it is not bent at all.
    """
    if abs(value) + half >= 1.0:
        return value - half, value + half
    z, wide = math.atanh(value), half / (1.0 - value**2)
    return min(math.tanh(z - wide), value - half), max(math.tanh(z + wide), value + half)


def possible(value: float, low: float, high: float, limits: tuple[float, float]) -> tuple[float, ...]:
    """Cut an estimate and its interval to what can be, so that neither end comes nearer to the estimate.

    Cut alone, the interval of an estimate far outside would be a point. Where the estimate is moved to a
    limit, the end on the other side moves with it (Mandelkern and Schultz 2000): all that the cut interval
    has is kept, so it covers no less, and is as long on that side as it was.
    """
    least, most = limits
    held = min(max(value, least), most)
    move = held - value
    ends = (min(low, low + move), max(high, high + move))
    return held, *(min(max(each, least), most) for each in ends)
