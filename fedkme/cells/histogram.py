"""Histograms of rows over public cells with discrete Laplace noise.

Relation: replace one row, their number public. Sensitivity: the row leaves one cell and enters another, so
two counts change by 1 each: L1 sensitivity 2, whatever B is (cells partition the space). Discrete Laplace
noise of scale b, P(k) ~ exp(-|k|/b) on the integers, is (2/b, 0)-DP.

More exactly, the two changed counts are two releases of a count that moves by 1, and each has the
log-likelihood ratio +1/b or -1/b and no other, +1/b with probability 1/(1 + e^(-1/b)) under the first
neighbour: a pair of randomised responses of epsilon 1/b. So the event `PureDp(1/b, count=2)`, which
accountants take for exactly that pair, is the histogram's privacy loss, exact and not only a bound.

Gaussian noise, for D_v that is asked about often: the two counts move by sqrt 2 in L2, so deviation s is a
Gaussian of multiplier s / sqrt 2, and k draws are one of multiplier s / sqrt(2 k). It is drawn on a fine
lattice and rounded with halves up (`whole`); counts are whole, so rounding the noise is rounding the sum,
which is post-processing.
"""

import math
from dataclasses import dataclass
from typing import ClassVar, Protocol, runtime_checkable

import numpy as np

from fedkme.arrays import FloatArray, IntArray
from fedkme.errors import ConfigError, DataError
from fedkme.features.counts import L2_STEP
from fedkme.privacy.events import Event, Gaussian, PureDp
from fedkme.privacy.noise import NoiseSource, whole
from fedkme.privacy.samplers import LARGEST_SCALE, LEAST_SCALE

SENSITIVITY = 2
"""L1, replace-one, of the counts."""


@runtime_checkable
class IntegerNoise(Protocol):
    """Noise on whole numbers; SecureNoise and SimulatedNoise have it."""

    def gaussian(self, scale: float, size: int) -> FloatArray:
        """(size,) float64, Gaussian of the given standard deviation."""

    def discrete_laplace(self, scale: float, size: int) -> IntArray:
        """(size,) int64 with P(k) proportional to exp(-|k| / scale)."""


class CountNoise(Protocol):
    """Noise on the counts of a histogram."""

    @property
    def sensitivity(self) -> float:
        """Sensitivity of the counts, replace-one, in the norm that the noise is for."""

    @property
    def event(self) -> Event:
        """Event of one histogram for the ledger."""

    @property
    def variance(self) -> float:
        """Variance of the noise on one count."""

    def draw(self, noise: IntegerNoise, size: int) -> IntArray:
        """Draw the noise of a histogram, (size,) int64."""


@dataclass(frozen=True)
class HistogramNoise:
    """Discrete Laplace noise with which a histogram is released."""

    sensitivity: ClassVar[float] = float(SENSITIVITY)
    scale: float
    """b."""

    def __post_init__(self) -> None:
        if not LEAST_SCALE <= self.scale <= LARGEST_SCALE:
            raise ConfigError(f"noise of scale {self.scale} on counts", "Take an epsilon that protects.")

    @property
    def epsilon(self) -> float:
        """Pure epsilon of one histogram, replace-one."""
        return SENSITIVITY / self.scale

    @property
    def event(self) -> PureDp:
        """Event of one histogram for the ledger; see the head of this module."""
        return PureDp(1.0 / self.scale, count=2)

    @property
    def variance(self) -> float:
        """Variance of the noise on one count: 2 q / (1 - q)^2 with q = e^(-1/b)."""
        q = float(np.exp(-1.0 / self.scale))
        return 2.0 * q / (1.0 - q) ** 2

    def draw(self, noise: IntegerNoise, size: int) -> IntArray:
        """Draw the noise of a histogram, (size,) int64."""
        return noise.discrete_laplace(self.scale, size)

    def most(self, cells: int) -> float:
        """Bound that no cell's noise exceeds but with probability 1e-12: P(|k| > t) <= e^(-t/b)."""
        return 1.0 + self.scale * math.log(2.0 * cells / 1e-12)


@dataclass(frozen=True)
class GaussianNoise:
    """Rounded Gaussian noise with which a histogram is released."""

    sensitivity: ClassVar[float] = L2_STEP
    deviation: float
    """s, before it is rounded."""

    def __post_init__(self) -> None:
        if not 0.0 < self.deviation < 1e15:
            raise ConfigError(f"noise of deviation {self.deviation} on counts", "Take a finite epsilon.")

    @property
    def event(self) -> Gaussian:
        """Event of one histogram for the ledger; see the head of this module."""
        return Gaussian(self.deviation / L2_STEP)

    @property
    def variance(self) -> float:
        """Variance of the noise on one count, with that of rounding."""
        return self.deviation**2 + 1.0 / 12.0

    def draw(self, noise: IntegerNoise, size: int) -> IntArray:
        """Draw the noise of a histogram, (size,) int64."""
        return whole(noise.gaussian(self.deviation, size))


def histogram_noise(epsilon: float) -> HistogramNoise:
    """The noise that makes one histogram (epsilon, 0)-DP under replace-one."""
    if not epsilon > 0.0:
        raise ConfigError(f"epsilon {epsilon} of a histogram is not positive", "Take epsilon > 0.")
    return HistogramNoise(SENSITIVITY / epsilon)


def noise_of_event(event: Event) -> CountNoise | None:
    """The noise whose histogram is this event in a ledger; None of any other event, and out of all reason."""
    match event:
        case PureDp(epsilon, count) if count == SENSITIVITY and 1e-4 < epsilon < 1e4:
            return HistogramNoise(1.0 / epsilon)
        case Gaussian(multiplier, 1) if 1e-4 < multiplier < 1e4:
            return GaussianNoise(L2_STEP * multiplier)
    return None


def counts(cells: IntArray, size: int) -> IntArray:
    """Exact rows per cell, (B,) int64.

    Raises:
        DataError: a cell that the code book does not have.
    """
    if len(cells) and not (int(cells.min()) >= 0 and int(cells.max()) < size):
        raise DataError("a row is in no cell of the code book", "Compare the parties' code books.")
    return np.bincount(cells, minlength=size).astype(np.int64)


def noisy_counts(cells: IntArray, size: int, how: CountNoise | None, noise: IntegerNoise) -> IntArray:
    """Counts that a party sends: with noise, (B,) int64, negative ones included; None adds no noise."""
    exact = counts(cells, size)
    return exact if how is None else exact + how.draw(noise, size)


def on_integers(noise: NoiseSource) -> IntegerNoise:
    """Take a source of noise as one of whole numbers, for counts.

    Raises:
        TypeError: it draws real numbers alone.
    """
    if not isinstance(noise, IntegerNoise):
        raise TypeError(f"{type(noise).__name__} draws no whole numbers")
    return noise
