"""Layer 2: draws and outcomes against the declared law and scale, in the white box.

At a million draws and alpha = 2e-6 an error of 1 % of a scale is found with probability above 0.999: a
million draws give the scale of a Gaussian to 0.07 %, of Laplace to 0.1 %. The `power` of each finding is for
its own sample size.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from audit.attacks.finding import CheckResult
from fedkme.arrays import FloatArray

Law = Literal["norm", "laplace", "uniform"]
_WINDOW_BITS = 96.0

_RELATIVE_ERROR = {"norm": math.sqrt(0.5), "laplace": 1.0}  # of the scale, times sqrt(n)


def scale_finding(draws: FloatArray, law: Law, scale: float, alpha: float, what: str) -> CheckResult:
    """Test the scale of draws from a law of mean 0.

    Gaussian: sum of squares is chi-square; Laplace: the sum of absolute values is a gamma variable.
    """
    size = len(draws)
    if law == "norm":
        measured = math.sqrt(float(np.mean(draws**2)))
        lower = float(stats.chi2.cdf(size * (measured / scale) ** 2, size))
    else:
        measured = float(np.mean(np.abs(draws)))
        lower = float(stats.gamma.cdf(size * measured / scale, size))
    violated = min(lower, 1.0 - lower) < alpha / 2.0
    margin = float(stats.norm.isf(alpha / 2.0) + stats.norm.isf(0.1)) * _RELATIVE_ERROR[law] / math.sqrt(size)
    return CheckResult("law", f"scale of {what}", violated, scale, measured, size, alpha, 1.0 + margin)


def shape_finding(draws: FloatArray, law: Law, scale: float, alpha: float, what: str) -> CheckResult:
    """Test the shape of draws: Kolmogorov-Smirnov distance of draws / scale from the law."""
    test = stats.kstest(draws / scale, law)
    limit = float(stats.kstwobign.isf(alpha)) / math.sqrt(len(draws))
    violated = float(test.pvalue) < alpha
    return CheckResult(
        "law", f"shape of {what}", violated, limit, float(test.statistic), len(draws), alpha, power=None
    )


def independence_finding(first: FloatArray, second: FloatArray, alpha: float, what: str) -> CheckResult:
    """Test that paired draws, (n,) each, of one law are uncorrelated: a replayed draw has correlation 1."""
    size = len(first)
    limit = float(stats.norm.isf(alpha / 2.0)) / math.sqrt(size)
    measured = float(np.mean(first * second) / math.sqrt(float(np.mean(first**2) * np.mean(second**2))))
    return CheckResult(
        "law", f"correlation of {what}", abs(measured) > limit, limit, measured, size, alpha, power=None
    )


def outcome_finding(observed: NDArray[np.int64], chances: FloatArray, alpha: float, what: str) -> CheckResult:
    """Chi-square of counted outcomes against their probabilities, (k,) each; pools rare outcomes."""
    size = int(observed.sum())
    expected = size * chances
    rare = expected < 10
    if rare.any():
        observed = np.append(observed[~rare], observed[rare].sum())
        expected = np.append(expected[~rare], expected[rare].sum())
    if expected[-1] < 10 and observed[-1] == 0:
        observed, expected = observed[:-1], expected[:-1]
    statistic = float(((observed - expected) ** 2 / np.maximum(expected, 1e-9)).sum())
    limit = float(stats.chi2.isf(alpha, max(1, len(expected) - 1)))
    return CheckResult(
        "law", f"chi-square of {what}", statistic > limit, limit, statistic, size, alpha, power=None
    )


def rate_finding(hits: int, trials: int, chance: float, alpha: float, what: str) -> CheckResult:
    """Test that an event has the declared probability: exact binomial test."""
    violated = float(stats.binomtest(hits, trials, chance).pvalue) < alpha
    return CheckResult("law", f"rate of {what}", violated, chance, hits / trials, trials, alpha, power=None)


def laplace_outcome(drawn: NDArray[np.int64], scale: float, alpha: float, what: str) -> CheckResult:
    """Chi-square of integer draws against the discrete Laplace law P(k) ~ exp(-|k| / scale)."""
    reach = 8 * math.ceil(scale)
    values = np.arange(-reach, reach + 1)
    stay = math.exp(-1.0 / scale)
    chances = (1.0 - stay) / (1.0 + stay) * stay ** np.abs(values)
    chances[[0, -1]] += (1.0 - chances.sum()) / 2.0
    observed = np.bincount(np.clip(drawn.ravel(), -reach, reach) + reach, minlength=len(values))
    return outcome_finding(observed, chances, alpha, what)


def repeat_finding(streams: Sequence[NDArray[Any]], bits: float, what: str) -> CheckResult:
    """Find repeated draws, within a stream or between streams.

    A window of draws has 96 bits or more: a false alarm has a chance below 1e-15 at 10^6 windows.

    Args:
        streams: draws, each (n,), in the order of drawing.
        bits: least entropy of a draw.
        what: name of the draws.
    """
    width = math.ceil(_WINDOW_BITS / bits)
    windows = [
        window.tobytes()
        for stream in streams
        if len(stream) >= width
        for window in np.lib.stride_tricks.sliding_window_view(np.ascontiguousarray(stream), width)
    ]
    again = len(windows) - len(set(windows))
    return CheckResult("law", f"windows of draws that come again among {what}", again > 0, 0.0, float(again))
