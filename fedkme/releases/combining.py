"""One answer from several synthetic tables of a release (Raghunathan, Reiter and Rubin 2003).

Copies (`copies` of a marginals release) are samples of populations as they may be, given the release. With
q_i and v_i the estimate in copy i of m and its variance as if the rows were real, q the mean of the q_i and b
their variance, and v the mean of the v_i, the estimate q has variance

    T = (1 + 1/m) b - v,

b having the doubt about the population and, once too often, that of drawing the rows. Where few copies make T
negative it is v (Reiter 2002). Intervals have Student's law with (m - 1) (1 - m v / ((m + 1) b))^2 degrees of
freedom, and are longer than need be where copies are few. They cover as far as the model holds: what was not
counted together is independent in each copy.
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
    freedom: float
    low: float
    high: float


def combined(estimates: Sequence[float], variances: Sequence[float]) -> Combined:
    """Combine estimates in m >= 2 copies, each with its variance as if the copy's rows were real.

    Raises:
        ConfigError: there are fewer than two copies, or not as many variances.
    """
    count = len(estimates)
    if count < 2 or len(variances) != count:
        raise ConfigError(
            "there are not two copies or more, each with a variance", "Make a release with copies."
        )
    from scipy.stats import t

    between, within = float(np.var(estimates, ddof=1)), float(np.mean(variances))
    total = (1.0 + 1.0 / count) * between - within
    freedom = float(count - 1)
    if total > 0.0:
        freedom *= (1.0 - within / ((1.0 + 1.0 / count) * between)) ** 2
    else:
        total = within
    deviation, estimate = math.sqrt(total), float(np.mean(estimates))
    half = float(t.ppf(0.975, max(freedom, 1.0))) * deviation
    return Combined(estimate, deviation, freedom, estimate - half, estimate + half)
