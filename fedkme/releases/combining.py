"""One answer from several synthetic tables of a release.

A copy (`copies` of a marginals release) differs from the release as the release does from the population:
q_i = q + e_i where q = Q + e, Q being what the population has, q what the release would have with as many
rows as one likes, and e, e_1, ..., e_m independent with one law: noise of the release, and drawing N rows.
Where e is normal, the mean of the m estimates is off from Q by a variance (1 + 1/m) s^2, and b, the variance
of the estimates, is s^2 chi^2(m - 1) / (m - 1), independent of it. So

    (mean - Q) / sqrt((1 + 1/m) b)

has Student's law with m - 1 degrees of freedom, exactly, as the prediction of one more normal number has. The
variance within a copy does not matter: each has as many rows as were released. (Rules for fully synthetic
data, Raghunathan, Reiter and Rubin 2003, take rows that are drawn once more off again: with few copies the
difference is often near 0 or negative.) Intervals cover as far as the model holds: what was not counted
together is independent in each copy.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from fedkme.errors import ConfigError


@dataclass(frozen=True, slots=True)
class Combined:
    """An estimate of several copies.

    Attributes:
        estimate: their mean.
        deviation: standard deviation of it.
        freedom: degrees of freedom.
        low: lower end of the 95 % interval.
        high: upper end.
    """

    estimate: float
    deviation: float
    freedom: int
    low: float
    high: float


def combined(estimates: Sequence[float]) -> Combined:
    """Combine estimates in m >= 2 copies.

    Where all are the same, as of a category in which the model has nobody, they tell nothing of their error:
    its deviation and the interval are NaN, for a point would be certain.

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
