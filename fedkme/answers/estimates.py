"""Estimates of quantities with their intervals, from the means that a release gives."""

import math
from collections.abc import Callable
from dataclasses import replace
from functools import cache

import numpy as np

from fedkme.answers.correlations import UNTOLD, QuantityEstimate, Target, scored_correlation
from fedkme.answers.evidence import Evidence, Law, Spread
from fedkme.answers.functions import ONE, Function, inside
from fedkme.answers.intervals import (
    LEVEL,
    SURE,
    DoubtfulBound,
    ReleasedFigure,
    critical,
    first_by_halves,
    first_by_strides,
)
from fedkme.answers.quantities import Correlation, Quantile, Quantity, Ratio, Variance

_STEPS = 512
"""Steps of the grid on which a quantile is searched."""
_TRIES, _CLOSE = 30, 1e-5
"""Most steps of the search for an end of an interval; its error over the distance from the estimate."""
_NOBODY = "noise hides whether any row is in this group"
_LEAST_VARIANCE = 0.1
"""Part of an estimated variance that its interval must exceed, so that a correlation can divide by it."""


def estimate_of(quantity: Quantity, evidence: Evidence, target: Target) -> QuantityEstimate | str:
    """Estimate a quantity, or say why there is no estimate."""
    match quantity:
        case Ratio():
            return _ratio(quantity, evidence, target)
        case Variance():
            return _variance(quantity, evidence, target)
        case Correlation():
            return _correlation(quantity, evidence, target)
        case Quantile():
            return _quantile(quantity, evidence, target)


def _ratio(
    quantity: Ratio, evidence: Evidence, target: Target, level: float = LEVEL
) -> QuantityEstimate | str:
    """Estimate a ratio. Its interval has each q at which E(numerator - q denominator) may be 0 (Fieller)."""
    functions = (quantity.numerator, quantity.denominator or ONE)
    law = evidence.law(functions, (1.0, 0.0))
    if law.reason:
        return law.reason
    over, under = law.means.tolist()
    if under <= 0.0:
        return _NOBODY
    value = over / under
    law = evidence.law(functions, (1.0, -value))
    if law.reason:
        return law.reason
    # Evidence supposes an unknown spread once, by the first q that it is asked about: the estimate.
    variance = _sampling_variance(quantity, evidence, target, value, law)

    @cache
    def ends(q: float) -> tuple[float, float]:
        """Interval of the mean of numerator - q denominator."""
        law = evidence.law(functions, (1.0, -q))
        return law.whole.ends(_sampling_variance(quantity, evidence, target, q, law).most, level)

    least, most = (limit - quantity.offset for limit in quantity.limits)
    inner = value + law.whole.centre.estimate / under  # the middle is 0 here
    low = _crossing(lambda q: ends(q)[0], min(least, inner), inner)
    high = _crossing(lambda q: -ends(q)[1], max(most, inner), inner)
    value = min(max(value, low), high)
    errors = (law.whole.middle.deviation, math.sqrt(variance.estimate), law.whole.unseen)
    noise, sampling, unseen = (each / under for each in errors)
    value, low, high = (quantity.offset + each for each in (value, low, high))
    bounded = not variance.measured or (target == "population" and evidence.together > 1)
    return QuantityEstimate(value, low, high, noise, sampling, unseen, law.assumption, bounded)


def _sampling_variance(quantity: Ratio, evidence: Evidence, target: Target, q: float, law: Law) -> Spread:
    """Sampling variance of the mean of numerator - q denominator, if that mean is 0 in the population.

    `Spread.estimate` is the variance for independent rows. The bound `Spread.most` allows that all rows of
    one person are alike: the square of a sum of m numbers is at most m times the sum of their squares. A
    share has a further term in both: few rows are not normally distributed, and a count of 0 among N does
    not prove that the share is 0 (Wilson 1927).
    """
    if target == "rows":
        return Spread(0.0, DoubtfulBound(0.0), measured=True)
    rows, together = evidence.rows, evidence.together
    square, few = _mean_square(quantity, evidence, q), 0.0
    if quantity.counts and max(law.whole.least.deviation, law.whole.most.deviation) > 0.0:
        few = (critical(0.0) / rows) ** 2
    most = square.most.value * together / rows + few * together**2
    return Spread(square.estimate / rows + few, DoubtfulBound(most, square.most.doubt), square.measured)


def _mean_square(quantity: Ratio, evidence: Evidence, q: float) -> Spread:
    """Mean square of numerator - q denominator: q (1 - q) times the group's share where q is a share."""
    if not quantity.counts:
        return evidence.spread((quantity.numerator, quantity.denominator or ONE), (1.0, -q))
    return _group_share(quantity.denominator, evidence).times(max(q * (1.0 - q), 0.0))


def _group_share(rows: Function | None, evidence: Evidence) -> Spread:
    """Share of all rows that a question is about."""
    if rows is None:
        return Spread(1.0, DoubtfulBound(1.0), measured=True)
    return evidence.spread((rows, ONE), (1.0, 0.0))


def _crossing(excess: Callable[[float], float], limit: float, value: float) -> float:
    """Find an end of an interval between `value`, inside, and `limit`: where `excess` becomes positive.

    The search takes secants, every fourth time the middle, and one small step beside each point. It returns
    the limit where that has no excess, else a point with an excess next to a point without.
    """
    if limit == value or (outer := excess(limit)) <= 0.0:
        return limit
    if (inner := excess(value)) >= 0.0:
        return value
    start, end = limit, value
    for turn in range(_TRIES):
        part = 0.5 if turn % 4 == 3 else outer / (outer - inner)
        middle = start + (end - start) * part
        step = _CLOSE * (value - middle)
        if (at_middle := excess(middle)) > 0.0:
            start, outer = middle, at_middle
            if (at_middle := excess(middle + step)) <= 0.0:
                break
        else:
            end, inner = middle, at_middle
            if (at_middle := excess(middle - step)) > 0.0:
                return middle - step
    return start


def _variance(quantity: Variance, evidence: Evidence, target: Target) -> QuantityEstimate | str:
    centred = _centred(quantity, evidence, target)
    return (
        centred if isinstance(centred, str) else _variance_around(quantity, centred, evidence, target, LEVEL)
    )


def _variance_around(
    quantity: Variance, centred: tuple[float, float], evidence: Evidence, target: Target, level: float
) -> QuantityEstimate | str:
    """Estimate the mean square distance to the estimated mean, whose squared error widens the interval."""
    centre, away = centred
    square = _ratio(quantity.around(centre), evidence, target, level + 1.0 - SURE)
    if isinstance(square, str):
        return square
    return replace(square, low=square.low - away**2, high=square.high + away**2)


def _centred(quantity: Variance, evidence: Evidence, target: Target) -> tuple[float, float] | str:
    """Estimated mean of the column, and the largest distance of the mean from there, at the level SURE."""
    mean = _ratio(quantity.mean, evidence, target, SURE)
    if isinstance(mean, str):
        return mean
    low, high = quantity.column.limits
    centre = min(max(mean.value, low), high)
    return centre, max(mean.high - centre, centre - mean.low)


def _correlation(quantity: Correlation, evidence: Evidence, target: Target) -> QuantityEstimate | str:
    """Estimate a correlation by a table of both columns, or by products of scores: by what tells more."""
    pair = evidence.scored(quantity.one.name, quantity.two.name) if quantity.everybody else None
    if pair is None:
        return _counted_correlation(quantity, evidence, target)
    by_scores = scored_correlation(pair, 0 if target == "rows" else evidence.rows, evidence.together)
    if _not_counted(quantity, evidence):
        return by_scores
    counted = _counted_correlation(quantity, evidence, target)
    return by_scores if isinstance(counted, str) or by_scores.length < counted.length else counted


def _counted_correlation(quantity: Correlation, evidence: Evidence, target: Target) -> QuantityEstimate | str:
    """Estimate a correlation; its interval allows for the errors of both means and both variances."""
    doubt = 2.0 * (1.0 - SURE)  # chance that the interval of a variance, or of the mean in it, is wrong
    parts = list[tuple[float, float, QuantityEstimate]]()
    for column in (quantity.one, quantity.two):
        centred = _centred(column, evidence, target)
        if isinstance(centred, str):
            return centred
        variance = _variance_around(column, centred, evidence, target, 1.0 - doubt)
        if isinstance(variance, str):
            return variance
        if not variance.low > _LEAST_VARIANCE * variance.value > 0.0:
            return _not_counted(quantity, evidence) or UNTOLD
        parts.append((*centred, variance))
    (centre1, away1, variance1), (centre2, away2, variance2) = parts
    units = math.sqrt(variance1.value), math.sqrt(variance2.value)
    product = _ratio(quantity.around((centre1, centre2), units), evidence, target, LEVEL + 2.0 * doubt)
    if isinstance(product, str):  # not counted, or noise makes the squares negative
        return _not_counted(quantity, evidence) or UNTOLD
    # In units of the estimated deviations: a, b the least and most variances, d, e the errors of the means.
    a, b = ((each.low / each.value, each.high / each.value) for each in (variance1, variance2))
    d, e = away1 / units[0], away2 / units[1]
    unlike = max((t + 1.0 / t) / 2.0 for t in (math.sqrt(a[0] / b[1]), math.sqrt(a[1] / b[0])))
    least = math.sqrt(a[0] * b[0])
    factor, off = unlike + (d * d + e * e) / (2.0 * least), d * e / least
    low, high = min(product.low, product.low * factor) - off, max(product.high, product.high * factor) + off
    return replace(product, low=low, high=high)


def _not_counted(quantity: Correlation, evidence: Evidence) -> str:
    """Reason why the release has no mean of the product of both columns; empty: it has."""
    product = quantity.around((0.0, 0.0), (1.0, 1.0))
    return evidence.untold((product.numerator,))


def _quantile(quantity: Quantile, evidence: Evidence, target: Target) -> QuantityEstimate | str:
    """Estimate a quantile; its interval has the values up to which the share may be the level (Woodruff)."""
    column, (least, most) = quantity.column, quantity.limits
    values = column.rounded(column.axis.value(np.linspace(0.0, 1.0, _STEPS + 1)))
    values = np.unique([*values, *column.singles])
    level, rows = quantity.level, quantity.rows
    group = evidence.law((rows,), (1.0,))
    if group.reason:
        return group.reason
    if group.means[0] <= 0.0:  # else no share would be below the level, and the least value the quantile
        return _NOBODY
    varies = level * (1.0 - level) / evidence.rows if target == "population" else 0.0
    share = _group_share(None if rows is ONE else rows, evidence)
    doubt = share.most.doubt if varies else 0.0
    sampling = DoubtfulBound(varies * share.most.value * evidence.together, doubt)
    reasons: list[str] = []

    @cache
    def excess(place: int) -> tuple[ReleasedFigure, float, float]:
        """Share of rows up to a value less the level, and its interval."""
        up_to = inside(quantity.name, least, float(values[place]), closed=True)
        law = evidence.law((up_to * rows, rows), (1.0, -level))
        reasons.extend([law.reason] if law.reason else [])
        return law.whole.middle, *law.whole.ends(sampling)

    last = len(values) - 1
    excess(last // 2)
    if reasons:
        return reasons[0]
    at = first_by_halves(last, lambda place: excess(place)[0].estimate >= 0.0)
    start = min(first_by_strides(last, lambda place: excess(place)[2] >= 0.0), at)
    behind = first_by_strides(last, lambda place: excess(last - place)[1] < 0.0)
    end = min(max(last - behind + 1, at), last)
    if reasons:
        return reasons[0]
    every = bool(column.values) or (column.integer and len(values) == most - least + 1)  # all that can be
    low, high = float(values[start if every else max(start - 1, 0)]), float(values[end])
    deviation = (high - low) / (2.0 * critical(0.0))
    noise2, sampling2 = excess(at)[0].deviation ** 2, varies * share.estimate
    part = math.sqrt(noise2 / (noise2 + sampling2)) if noise2 + sampling2 else 0.0
    return QuantityEstimate(
        float(values[at]),
        low,
        high,
        noise=deviation * part,
        sampling=deviation * math.sqrt(1.0 - part**2),
        unseen=0.0 if every else (high - low) / 2.0,
        bounded=True,
    )
