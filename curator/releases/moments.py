"""Rows from released moments: Gaussian by class in public coordinates, converted to a schema's columns.

The second moments describe the chosen coordinates; the other coordinates vary around their mean by the
variance from the first question. In model space a number is a normal variable, cut at its public bounds,
whose mean and variance *after* the cut are those of the Gaussian (so a pixel that is mostly 0 stays mostly
0). A category is the largest of its codes, with offsets under which names have the released shares. Rows
claim no more than the release supports: in an image no mean is nearer to a bound than the noise can resolve.
All of it is post-processing.
"""

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.special import gammainc, gammaincc, ndtr

from fedkme.arrays import FloatArray
from fedkme.errors import DataError
from fedkme.features.domain import Dimension, Domain
from fedkme.moments.discriminant import SPREAD_SHAPE
from fedkme.moments.features import SecondMoments, SecondMomentsSpec, T
from fedkme.moments.gaussians import Gaussians, gaussians_of
from fedkme.moments.scales import Scales
from fedkme.releases.file import StoredRelease
from fedkme.tables.schema import Schema
from fedkme.tables.table import Table

_MOST_STRETCH = 3.0
"""Largest factor by which rows are stretched to undo clipping."""
_LEAST_WITHIN = 1e-2
"""Least spread of a class around its mean, over the trace of its covariance."""
_UNKNOWN = 2.0
"""Deviations of a mean's noise within which the mean cannot be told from a bound."""
_MOST_UNKNOWN = 0.02
"""Largest distance that a mean is kept from a bound, relative to the width of the bounds."""
_LEAST_SHARE = 1e-3
"""Least share of a name in a class, relative to an equal share."""
_OFFSET_STEPS = 60


@dataclass(frozen=True, eq=False)
class MomentRows:
    """Law of the rows of a release.

    Attributes:
        schema: schema of the rows.
        features: feature map of the second question.
        scales: mean and variance from the first question.
        gaussians: Gaussians of the classes.
        sigma: deviation of the noise in each number of the second question.
    """

    schema: Schema
    features: SecondMoments
    scales: Scales
    gaussians: Gaussians
    sigma: float

    def sample(self, count: int, seed: int) -> Table:
        """Draw rows in the schema's columns and units; classes have their released shares."""
        generator = np.random.default_rng(np.random.SeedSequence([seed, 6]))
        shares = self.gaussians.shares
        labels = np.sort(generator.choice(len(shares), count, p=shares)).astype(np.int64)
        values = np.empty((count, self.schema.width))
        for label in np.unique(labels):
            members = labels == label
            values[members] = self._of_class(int(label), int(members.sum()), generator)
        order = generator.permutation(count)
        return Table(values[order], labels[order] if self.schema.classes else None)

    def _of_class(self, label: int, count: int, generator: np.random.Generator) -> FloatArray:
        """Draw rows of one class, (count, c)."""
        mean, root = self._law(label)
        drawn = mean + generator.standard_normal((count, root.shape[0])) @ root
        chosen_variance = (root**2).sum(axis=0)
        gain = self._gain(chosen_variance)
        rest = generator.standard_normal((count, len(self._rest))) * self._rest
        drawn += gain * self.features.coordinates.to_model(rest)
        variance = chosen_variance + gain**2 * self._rest_variance
        domain = Domain(self.schema)
        for dimension in domain.dimensions:
            if dimension.levels:
                _name(drawn, mean, dimension)
        spread = np.concatenate([root, np.diag(np.sqrt(gain**2 * self._rest_variance))])
        with_atoms = [dimension for dimension in domain.dimensions if dimension.places]
        for dimension in with_atoms:
            _cut_beside_atoms(drawn, mean, spread, dimension)
        numbers = np.setdiff1d(domain.numbers, [dimension.start - 1 for dimension in with_atoms])
        if len(numbers):
            least = np.minimum(self._noise[numbers] / self.gaussians.shares[label], _MOST_UNKNOWN)
            drawn[:, numbers] = _cut(drawn[:, numbers], mean[numbers], variance[numbers], least)
        return self.schema.decode(drawn)

    def _law(self, label: int) -> tuple[FloatArray, FloatArray]:
        """Mean of a class in model space, (n,), and rows whose outer products add up to its covariance."""
        spec, coordinates = self._spec, self.features.coordinates
        chosen, scale = np.asarray(spec.chosen), np.asarray(spec.scale) * self._stretch
        mean = self.scales.mean.copy()
        mean[chosen] = np.asarray(spec.centre) + scale * self.gaussians.means[label]
        root = np.zeros((len(chosen), coordinates.width))
        covariance = self.gaussians.covariances[label]
        within = max(self._within[label], _LEAST_WITHIN * float(np.trace(covariance)))
        root[:, chosen] = _root(covariance, within) * scale
        return coordinates.to_model(mean[None])[0], coordinates.to_model(root)

    def _gain(self, chosen_variance: FloatArray) -> FloatArray:
        """Factor on coordinates outside the second question, (n,): a block keeps its variance's profile."""
        gain, rest = np.ones_like(chosen_variance), self._rest_variance
        for block in self.features.coordinates.turned:
            total = float((chosen_variance[block] * rest[block]).sum())
            if total > 0:
                gain[block] = np.sqrt(chosen_variance[block] * float(rest[block].sum()) / total)
        return gain

    @property
    def _spec(self) -> SecondMomentsSpec:
        spec = self.features.spec
        assert isinstance(spec, SecondMomentsSpec)
        return spec

    @cached_property
    def _stretch(self) -> float:
        """Factor that undoes the shrinking by clipping: the smaller of both questions' estimates.

        The first question gives the mean of |z|^2 before clipping, but with noise, and for few rows mostly
        noise. The second question bounds the clipping, if |z|^2 is about as heavy-tailed as the discriminant
        assumes.
        """
        gaussians, chosen = self.gaussians, np.asarray(self._spec.chosen)
        before = float((self.scales.variance[chosen] / np.asarray(self._spec.scale) ** 2).sum())
        clipped = float(gaussians.shares @ gaussians.spreads + gaussians.centre @ gaussians.centre)
        before = min(before, _before_clipping(clipped))
        return float(np.clip((before / clipped) ** 0.5, 1.0, _MOST_STRETCH))

    @cached_property
    def _within(self) -> FloatArray:
        """Spread of each class around its own mean, (C,); noise may leave it below 0."""
        gaussians = self.gaussians
        return np.asarray(gaussians.spreads - ((gaussians.means - gaussians.centre) ** 2).sum(axis=1))

    @cached_property
    def _noise(self) -> FloatArray:
        """`_UNKNOWN` deviations of the noise of a mean times the class's share, (n,); 0 outside of images."""
        coordinates, chosen = self.features.coordinates, np.asarray(self._spec.chosen)
        scale = np.zeros((len(chosen), coordinates.width))
        scale[np.arange(len(chosen)), chosen] = np.asarray(self._spec.scale) * self._stretch
        deviation = self.sigma / np.sqrt(2.0 * T) * np.sqrt((coordinates.to_model(scale) ** 2).sum(axis=0))
        noise = np.zeros_like(deviation)
        for block in coordinates.turned:
            size = block.stop - block.start
            if math.isqrt(size) ** 2 == size:
                noise[block] = _UNKNOWN * deviation[block]
        return np.asarray(noise)

    @cached_property
    def _rest(self) -> FloatArray:
        """Deviations of the coordinates outside the second question, (n,); 0 for the chosen coordinates."""
        rest = np.sqrt(self.scales.variance)
        rest[np.asarray(self._spec.chosen)] = 0.0
        return rest[: self.schema.encoded_width]  # without edges, from which no image is made

    @cached_property
    def _rest_variance(self) -> FloatArray:
        """Variance that these coordinates add to each column of model space, (n,)."""
        squares = self.features.coordinates.to_model(np.diag(self._rest)) ** 2
        return np.asarray(squares.sum(axis=0))


def rows_of(stored: StoredRelease) -> MomentRows:
    """Make the law of a release's rows.

    Raises:
        DataError: the release is not one of moments.
    """
    features = stored.embeddings[0].map_spec.make(stored.schema)
    if not isinstance(features, SecondMoments) or not {"mean", "variance"} <= set(stored.public):
        raise DataError("the release has no moments", "Fetch it again.")
    mean = stored.public["mean"]
    scales = Scales(mean, stored.public["variance"], np.zeros_like(mean))  # rows need no noise of the scales
    embedding = stored.embeddings[0]
    return MomentRows(stored.schema, features, scales, gaussians_of(embedding), embedding.sigma)


def _before_clipping(clipped: float) -> float:
    """Mean of a gamma variable of shape `SPREAD_SHAPE` whose mean after a cut at 1 is `clipped`."""
    low, high = 0.0, _MOST_STRETCH**2
    for _ in range(40):
        mean = 0.5 * (low + high)
        edge = SPREAD_SHAPE / mean
        above = mean * gammainc(SPREAD_SHAPE + 1.0, edge) + gammaincc(SPREAD_SHAPE, edge) > clipped
        low, high = (low, mean) if above else (mean, high)
    return high


def _root(covariance: FloatArray, trace: float) -> FloatArray:
    """Root of the nearest covariance with this trace: rows whose outer products add up to it, (k, k).

    A discriminant needs eigenvalues that are not too small, so they were lifted to a floor. Rows do not need
    the floor, so its sum is subtracted again, equally from all eigenvalues as far as they stay above 0.
    """
    values, vectors = np.linalg.eigh(covariance)
    falling = values[::-1]
    excess = (np.cumsum(falling) - trace) / np.arange(1, len(values) + 1)
    lowered = np.maximum(values - excess[falling > excess][-1], 0.0)
    return np.asarray((vectors * np.sqrt(lowered)).T)


def _cut(drawn: FloatArray, mean: FloatArray, variance: FloatArray, least: FloatArray) -> FloatArray:
    """Cut normal numbers to [0, 1], so that mean and variance after the cut are those given.

    Args:
        drawn: normal numbers, (m, c).
        mean: mean after the cut, (c,); it is kept at a distance of `least` from the bounds.
        variance: variance after the cut, (c,); it is kept above `least`.
        least: (c,).
    """
    mean = np.clip(mean, np.maximum(least, 1e-4), 1.0 - np.maximum(least, 1e-4))
    variance = np.clip(np.maximum(variance, least), 1e-10, 0.98 * mean * (1.0 - mean))
    middle, deviation = _uncut(mean, variance)
    centred = drawn - drawn.mean(axis=0)
    standard = centred / np.maximum(centred.std(axis=0), 1e-12)
    return np.asarray(np.clip(middle + deviation * standard, 0.0, 1.0))


def _cut_beside_atoms(drawn: FloatArray, mean: FloatArray, root: FloatArray, dimension: Dimension) -> None:
    """Cut a number in the rows without an atom, by the mean and variance of these rows; in place.

    The number is constant at each atom. So the variance that a regression on the atoms' indicators leaves is
    the variance in the other rows, times the share of these rows.
    """
    number, levels = dimension.start - 1, slice(dimension.start, dimension.start + dimension.levels)
    rows = drawn[:, levels].argmax(axis=1) == 0
    shares = _shares(mean, dimension)
    first = (mean[number] - shares[1:] @ np.array(dimension.places)) / shares[0]
    residual = root[:, number] - root[:, levels] @ np.linalg.pinv(root[:, levels], 1e-6) @ root[:, number]
    if rows.any():
        spread = np.array([residual @ residual / shares[0]])
        cut = _cut(drawn[rows, number, None], np.array([first]), spread, np.zeros(1))
        drawn[rows, number] = cut[:, 0]


def _uncut(mean: FloatArray, variance: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Mean and deviation of normal numbers that have these moments after a cut at 0 and 1, by bisection."""
    low, high = np.full_like(mean, np.log(1e-5)), np.full_like(mean, np.log(30.0))
    for _ in range(32):
        half = 0.5 * (low + high)
        deviation = np.exp(half)
        middle = _middle(mean, deviation)
        first, second = _cut_moments(middle, deviation)
        above = second - first**2 > variance
        low, high = np.where(above, low, half), np.where(above, half, high)
    return middle, deviation


def _middle(mean: FloatArray, deviation: FloatArray) -> FloatArray:
    """Mean of normal numbers of this deviation whose mean after the cut is given."""
    low, high = -8.0 * deviation, 1.0 + 8.0 * deviation
    for _ in range(32):
        half = 0.5 * (low + high)
        above = _cut_moments(half, deviation)[0] > mean
        low, high = np.where(above, low, half), np.where(above, half, high)
    return half


def _cut_moments(middle: FloatArray, deviation: FloatArray) -> tuple[FloatArray, FloatArray]:
    """E[c] and E[c^2] of c = N(middle, deviation^2) cut at 0 and 1."""
    a, b = -middle / deviation, (1.0 - middle) / deviation
    at_a, at_b = (np.exp(-0.5 * x**2) / np.sqrt(2.0 * np.pi) for x in (a, b))
    inside, over = ndtr(b) - ndtr(a), ndtr(-b)
    first = middle * inside + deviation * (at_a - at_b) + over
    second = (middle**2 + deviation**2) * inside + over
    second += deviation * (at_a * middle - at_b * (middle + 1.0))
    return first, second


def _shares(mean: FloatArray, dimension: Dimension) -> FloatArray:
    """Shares of a category's names from the mean of its codes, each above 0."""
    raw = mean[dimension.start : dimension.start + dimension.levels] * np.sqrt(2.0)
    shares = np.maximum(raw, _LEAST_SHARE / dimension.levels)
    return np.asarray(shares / shares.sum())


def _name(drawn: FloatArray, mean: FloatArray, dimension: Dimension) -> None:
    """Choose one code of a category in each row, so that names have the shares of `mean`; in place."""
    block = slice(dimension.start, dimension.start + dimension.levels)
    shares = _shares(mean, dimension)
    codes = drawn[:, block]
    offsets, unit = np.zeros(dimension.levels), max(float(codes.std()), 1e-6)
    for step in range(_OFFSET_STEPS):
        drawn_shares = np.bincount((codes + offsets).argmax(axis=1), minlength=dimension.levels) / len(codes)
        step_size = unit / (1.0 + 0.2 * step)
        offsets += step_size * (shares - drawn_shares) / np.sqrt(shares * (1.0 - shares) + 1e-6)
    chosen = (codes + offsets).argmax(axis=1)
    codes[:] = 0.0
    codes[np.arange(len(codes)), chosen] = np.sqrt(0.5)
