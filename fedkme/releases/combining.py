"""One estimate with an interval, combined from several synthetic tables (copies) of a release.

A copy (`copies` of a marginals release) differs from the release as the release differs from the population:
q_i = q + e_i and q = Q + e. Q is the value in the population, q the value in infinitely many rows of the
release. e, e_1, ..., e_m are independent and have one law, that of the noise of the release and of drawing N
rows. Where e is normal, with variance s^2, the error of the mean of the m estimates has the variance
(1 + 1/m) s^2. The variance b of the estimates is s^2 chi^2(m - 1) / (m - 1), independent of that error. So

    (mean - Q) / sqrt((1 + 1/m) b)

has exactly Student's law with m - 1 degrees of freedom, like the prediction of one more normal number. The
variance within a copy does not matter, as each copy has as many rows as were released. (The rules for fully
synthetic data of Raghunathan, Reiter and Rubin 2003 subtract the variance of drawing rows; with few copies,
their difference is often near 0 or negative.) Intervals cover as far as the model holds: columns that were
not counted together are independent in each copy.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from fedkme.errors import ConfigError


@dataclass(frozen=True, slots=True)
class Combined:
    """An estimate from several copies.

    Attributes:
        estimate: mean of the copies' estimates.
        deviation: standard deviation of the mean.
        freedom: degrees of freedom.
        low: lower end of the 95 % interval.
        high: upper end of the interval.
    """

    estimate: float
    deviation: float
    freedom: int
    low: float
    high: float


def combined(estimates: Sequence[float]) -> Combined:
    """Combine estimates from m >= 2 copies.

    Where all estimates are equal, such as for a category in which the model has no row, they do not show
    their error. Then deviation and interval are NaN, as an interval of one point would claim certainty.

    Raises:
        ConfigError: there are fewer than two copies.
    """
    count = len(estimates)
    if count < 2:
        raise ConfigError("there are not two copies or more", "Make a release with copies.")
    from scipy.stats import t

    estimate = float(np.mean(estimates))
    deviation = math.sqrt((1.0 + 1.0 / count) * float(np.var(estimates, ddof=1))) or math.nan
    half = float(t.ppf(0.975, count - 1)) * deviation
    return Combined(estimate, deviation, count - 1, estimate - half, estimate + half)
