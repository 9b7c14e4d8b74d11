"""Distance of two releases: the squared MMD of the rows held, with the noise of both taken off.

Two releases that have the same features phi, or count the same columns, tell the means a and b of phi over
their rows, each with noise of a known deviation. With D coordinates of deviations s and t

    E |a - b|^2 = MMD^2 + D (s^2 + t^2),    variance 4 (s^2 + t^2) MMD^2 + 2 D (s^2 + t^2)^2,

so |a - b|^2 - D (s^2 + t^2) has no bias. The interval has each MMD^2 of which it is within 1.96
deviations. Several embeddings or tables add up; the sum is divided by the largest |phi(x)|^2, so that k(x, x)
is at most 1.
Counts of a table are features, too: k is the share of common tables in which two rows lie in the same cell.
A table is chosen before it is counted, by other noise, so its own noise has mean 0.

Everything here is post-processing of what was released.
"""

import math
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass

import numpy as np

from fedkme.answers.answer import Answer
from fedkme.answers.intervals import LEVEL, critical, possible
from fedkme.answers.made_rows import WeightedTable
from fedkme.arrays import FloatArray
from fedkme.embeddings.kernels import median_gamma
from fedkme.embeddings.weighted_points import WeightedPoints, distance
from fedkme.errors import DataError
from fedkme.features.binning import MergedBins, OwnValues
from fedkme.features.domain import Domain
from fedkme.releases.counts import StoredCounts
from fedkme.releases.file import StoredRelease
from fedkme.tables.schema import Schema

_MOST_ROWS = 4000
"""Synthetic rows of each release that are compared where the releases have no common features."""


@dataclass(frozen=True, eq=False, slots=True)
class NoisyMean:
    """Mean of features over rows, with noise.

    Attributes:
        mean: (D,) with noise.
        variance: variance of the noise in each coordinate.
        bound: largest |phi(x)|^2.
    """

    mean: FloatArray
    variance: float
    bound: float


Comparable = StoredRelease | StoredCounts
Rows = Callable[[], WeightedTable | None]


def noisy_means(release: Comparable) -> Mapping[Hashable, NoisyMean]:
    """Means that a release gives, by a public key: equal keys mean the same features."""
    if isinstance(release, StoredCounts):
        return _of_counts(release)
    means: dict[Hashable, NoisyMean] = {}
    for each in release.embeddings:
        bound = each.map_spec.make(release.schema).norm_bound ** 2
        key = (each.map_spec.model_dump_json(), each.layout)
        means[key] = NoisyMean(each.mean.ravel(), each.sigma**2, bound)
    return means


def _of_counts(release: StoredCounts) -> Mapping[Hashable, NoisyMean]:
    """Shares by table; a table that was counted several times is averaged by precision."""
    means: dict[Hashable, NoisyMean] = {}
    names = release.binning.names
    named: tuple[MergedBins | OwnValues, ...] = (*release.merged, *release.own)
    for each in release.measurements:
        columns = {names[place] for place in each.clique if place < len(names)}
        codes = tuple(code for code in named if code.column in columns)  # by the release's own counts
        key = (each.clique, int(release.settings["bins"]), codes)
        new = NoisyMean(each.values / release.rows, (each.sigma / release.rows) ** 2, 1.0)
        means[key] = new if (old := means.get(key)) is None else _averaged(old, new)
    return means


def _averaged(one: NoisyMean, two: NoisyMean) -> NoisyMean:
    total = one.variance + two.variance
    share = two.variance / total if total else 0.5
    mean = share * one.mean + (1.0 - share) * two.mean
    return NoisyMean(mean, share**2 * one.variance + (1.0 - share) ** 2 * two.variance, one.bound)


def distance_of(one: Comparable, two: Comparable, name: str, rows: tuple[Rows, Rows]) -> Answer:
    """Squared MMD between the rows of two releases.

    Args:
        one: a release.
        two: another release over the same schema.
        name: name of the second, for the answer.
        rows: give the synthetic rows of each release, which are compared where no features are common.

    Raises:
        DataError: the schemas differ, or there are neither common features nor synthetic rows of both.
    """
    if one.schema.digest() != two.schema.digest():
        cause = f"{name} has another schema, so that its rows do not compare"
        raise DataError(cause, "Compare releases that were made with one schema.")
    question = f"mmd2 to {name}"
    left, right = noisy_means(one), noisy_means(two)
    pairs = [(left[key], right[key]) for key in left if key in right]
    if not pairs:
        return _of_rows(question, one.schema, rows[0](), rows[1](), name)
    estimate, low, high, noise = corrected_mmd2(pairs)
    sampling = 1.0 / one.rows + 1.0 / two.rows
    same = len(left.keys() | right.keys()) == len(pairs)
    what = "released means of features" if same else f"the {len(pairs)} released means that both have"
    method = (
        f"{what}, less the noise of both; two samples of one law differ by {sampling:.2g} at most, on average"
    )
    value, low, high = possible(estimate, low, high, (0.0, math.inf))
    return Answer(question, "", value, low, high, noise, 0.0, 0.0, "rows", method, "number")


def corrected_mmd2(pairs: list[tuple[NoisyMean, NoisyMean]]) -> tuple[float, float, float, float]:
    """Unbiased MMD^2 of pairs of means, the ends of its 95 % interval before limits, and its deviation.

    The means of one release with itself have the same noise: that distance is exactly 0.
    """
    if all(np.array_equal(one.mean, two.mean) for one, two in pairs):
        return 0.0, 0.0, 0.0, 0.0
    total = sum(one.bound for one, _ in pairs)
    value = spread = largest = 0.0
    for one, two in pairs:
        variance = one.variance + two.variance
        shift = one.mean - two.mean
        value += float(shift @ shift) - len(shift) * variance
        spread += 2.0 * len(shift) * variance**2
        largest = max(largest, variance)
    value, spread, largest = value / total, spread / total**2, largest / total
    # The ends solve (value - m)^2 = z^2 (4 largest m + spread) for m.
    z = critical(0.0, LEVEL)
    middle = value + 2.0 * z**2 * largest
    reach = z * math.sqrt(max(4.0 * largest * value + 4.0 * z**2 * largest**2 + spread, spread))
    deviation = math.sqrt(4.0 * largest * max(value, 0.0) + spread)
    return value, middle - reach, middle + reach, deviation


def _of_rows(
    question: str, schema: Schema, left: WeightedTable | None, right: WeightedTable | None, name: str
) -> Answer:
    """Squared MMD of synthetic rows, by a Gaussian kernel; nobody knows its error."""
    if left is None or right is None:
        cause = f"the release and {name} have no common features, and one has no synthetic rows"
        raise DataError(cause, "Make both by one method, with the same settings and seed.")
    points = [_points(schema, each) for each in (left, right)]
    try:
        gamma = median_gamma(points[0].points)
    except DataError:  # most rows are equal
        gamma = 3.0 / schema.width
    value, none = distance(points[0], points[1], gamma) ** 2, math.nan
    method = "no interval: no features are common; the estimate is that of the synthetic rows, whose error "
    method += "nobody knows. One method, with the same settings and seed, has common features"
    return Answer(question, "", value, none, none, none, none, none, "rows", method, "number")


def _points(schema: Schema, rows: WeightedTable) -> WeightedPoints:
    points = np.asarray(Domain(schema).encode(rows.table.values), np.float64)
    if rows.weights is not None:
        return WeightedPoints(points, rows.weights)
    points = points[:_MOST_ROWS]
    return WeightedPoints(points, np.full(len(points), 1.0 / len(points)))
