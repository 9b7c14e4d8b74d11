"""Released means of a growing multiset of rows: the curator broadcasts such means of D_v and of the summary.

Rows are normalised features u = h1(x) sqrt(d/2), (d,) in [-1, 1]. On the wire they are fixed-point
numbers, multiples of 2**-14. So sums of up to 2**39 rows are exact in float64, and neither a release nor a
run depends on the order in which rows arrive.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from fedkme.errors import ConfigError, DataError
from fedkme.features.fixed_point import FEATURE_UNIT, quantize_features
from fedkme.privacy.events import Event, ExactStatistic, Gaussian, Laplace, MwemCall, MwemSchedule, PureDp
from fedkme.privacy.gaussian import gaussian_sigma
from fedkme.privacy.mwem import Estimate, Mwem, quantize
from fedkme.privacy.noise import NoiseSource

# Features are computed in float32, so their norm may exceed its bound by rounding. The sensitivity
# counts the excess.
_NORM_SLACK = 1.0 + 1e-6


@dataclass(frozen=True)
class Cost:
    """Cost of one release to its rows, under replace-one, as a ledger states it.

    Attributes:
        event: the mechanism with its parameters.
        sensitivity: sensitivity of the rows' sum, in L2 (Gaussian) or a coordinate (h2); None: no noise.
    """

    event: Event
    sensitivity: float | None

    def of_rows(self, count: int) -> Cost:
        """Cost where up to `count` rows are replaced at once; h2's pieces are linear in its parameter.

        Events of other packages may have no rule here; they have no figure for several rows.
        """
        match self.event:
            case (Gaussian(multiplier) | Laplace(multiplier)) as law:
                event: Event = replace(law, noise_multiplier=multiplier / count)
            case (MwemCall(epsilon) | MwemSchedule(epsilon) | PureDp(epsilon)) as law:
                event = replace(law, epsilon=epsilon * count)
            case _ if count == 1 or isinstance(self.event, ExactStatistic):
                return self
            case other:
                return Cost(ExactStatistic(f"a mean of h1, by '{other.kind}' of {count} rows at once"), None)
        return Cost(event, None if self.sensitivity is None else self.sensitivity * count)


_EXACT = Cost(ExactStatistic("a mean of h1"), None)
_COORDINATE = 2.0  # change of a coordinate when another row replaces a row in [-1, 1]^d


class MeanRelease(Protocol):
    """A protected multiset of rows, and the releases of its mean.

    Neighbouring relation: one row is replaced by another, at any time of the run; the number of rows is
    public.
    """

    @property
    def size(self) -> int:
        """Rows added so far."""

    @property
    def cost(self) -> Cost:
        """Cost of the next release, if it reads protected rows."""

    def add(self, rows: NDArray[np.float64]) -> None:
        """Add rows, (k, d) in [-1, 1]; k may be 0.

        Raises:
            DataError: wrong shape, or a coordinate outside [-1, 1].
        """

    def release(self) -> NDArray[np.float64]:
        """The released mean, (d,), in the units of the rows.

        Without rows the result is zeros: it reads no data, costs nothing and counts as no release.
        """


class ExactMean:
    """The mean itself: the non-private baseline."""

    cost = _EXACT

    def __init__(self, dimension: int) -> None:
        self._sum = np.zeros(dimension)
        self.size = 0

    def add(self, rows: NDArray[np.float64]) -> None:
        """Add rows, (k, d) in [-1, 1]; sums of multiples of 2**-14 are exact in any order."""
        _check(rows, self._sum.size)
        self._sum += rows.sum(axis=0)
        self.size += len(rows)

    def release(self) -> NDArray[np.float64]:
        """The exact mean, (d,); zeros with no rows."""
        return self._sum / max(self.size, 1)


class MwemMean:
    """Means released through h2 (Sarpatwar 2019, Algorithm 2); each release starts from the one before.

    Every iteration has the cost of fedkme.privacy.mwem under replace-one: 4e for the selection and 2e for
    the value.

    A row is quantized once, when it is added; Algorithm 2 prints a fresh quantization at every release. One
    quantization is as private: fix all coins of the quantizer, one set per place in the multiset. Then two
    multisets that differ in one row are quantized to two multisets that differ in one row, all releases
    together satisfy their bound for these fixed coins, and the bound survives averaging over the coins. It
    takes k d coins for k new rows instead of q d coins at every release. The rounding error, below eta per
    coordinate of a row and unbiased, stays the same from release to release.

    **Which l a call has.** A run makes one call in each round, before it asks any owner, and none in between:
    so l is the number of the call and of the round, from 1, and public. A round counts whether or not its
    owners drop out, refuse, or send rows that are refused; a call that is repeated after a restart is the
    same call, with the noise of the journal. On a schedule the call of round l has epsilon / sqrt(l), and
    what it costs follows from that parameter as for any other call: nothing here relies on the sum that
    Theorem 2 claims for the schedule.
    """

    def __init__(
        self,
        dimension: int,
        noise: NoiseSource,
        *,
        grid_step: float,
        initial_epsilon: float | None,
        initial_iterations: int,
        epsilon: float | None,
        iterations: int,
        estimate: Estimate = "last",
        scheduled: int | None = None,
    ) -> None:
        """Start with no rows.

        Args:
            dimension: d.
            noise: source of the quantizer's coins and of the noise.
            grid_step: eta.
            initial_epsilon: parameter of every iteration of the first release; None: no noise.
            initial_iterations: T_init.
            epsilon: parameter of every iteration of later releases; None: no noise.
            iterations: T_sub.
            estimate: see Mwem.
            scheduled: p, if the call of round l has epsilon / sqrt(l), up to l = p; None: all later calls
                have epsilon.
        """
        self._noise = noise
        self._grid_step = grid_step
        self._mwem = Mwem(dimension, noise, grid_step=grid_step, estimate=estimate)
        self._initial = (initial_epsilon, initial_iterations)
        self._later = (epsilon, iterations)
        self._last = None if scheduled is None else max(2, scheduled)  # call of the schedule
        self._call = 1  # number of the next call
        self._index_sum = np.zeros(dimension, dtype=np.int64)
        self.size = 0

    @property
    def cost(self) -> Cost:
        """Cost of the next call of h2; the first call has parameters of its own."""
        if self._call == 1:
            return self._cost_of(*self._initial, None)
        return self._cost_of(*self._later, (self._call, self._call))

    @property
    def later_cost(self) -> Cost:
        """Cost of every call after the first; on a schedule, of all of them together."""
        return self._cost_of(*self._later, (2, self._last or 2))

    def _cost_of(self, epsilon: float | None, iterations: int, calls: tuple[int, int] | None) -> Cost:
        if epsilon is None:
            return _EXACT
        if calls is None or self._last is None:
            return Cost(MwemCall(epsilon, iterations), _COORDINATE)
        return Cost(MwemSchedule(epsilon, iterations, *calls), _COORDINATE)

    def add(self, rows: NDArray[np.float64]) -> None:
        """Quantize and add rows, (k, d) in [-1, 1]."""
        _check(rows, self._index_sum.size)
        self._index_sum += quantize(rows, self._grid_step, self._noise).sum(axis=0)
        self.size += len(rows)

    def release(self) -> NDArray[np.float64]:
        """One call of h2 on the rows so far, (d,); zeros with no rows.

        Raises:
            ConfigError: all calls of the schedule were made.
        """
        number = self._call
        if self._last is not None and number > self._last:
            cause = f"h2 has a schedule of {self._last} calls, and all of them were made"
            raise ConfigError(cause, "Plan as many calls as the run has rounds.")
        epsilon, iterations = self._initial if number == 1 else self._later
        if number > 1 and self._last is not None and epsilon is not None:
            epsilon /= math.sqrt(number)
        self._call += 1
        if self.size == 0:
            # The first call is for the seed set; without a seed set its large budget must not serve private
            # rows.
            return np.zeros(self._index_sum.size)
        return self._mwem.iterate(self._index_sum, self.size, epsilon, iterations)


def later_cost(release: MeanRelease) -> Cost:
    """Cost of each release after the first, known before the first; on a schedule of h2, of all together."""
    return release.later_cost if isinstance(release, MwemMean) else release.cost


class GaussianMean:
    """Means released with Gaussian noise; all planned releases together are (epsilon, delta)-DP.

    Neighbouring relation: replace one row. If ||h1(x)|| <= B then ||u|| <= B sqrt(d/2), and replacing a row
    moves the sum of u by at most 2 B sqrt(d/2) in L2, at every release, whatever the size by then. The noise
    of a release has sqrt(r) times the exactly calibrated deviation of a single release. So r releases, each
    of which may depend on earlier releases, are together (epsilon, delta)-DP (see fedkme.privacy.gaussian).
    Rows are cut to fixed point towards 0. This makes no norm larger, and it makes the sum a whole number of
    steps, which fedkme.privacy.noise.SecureNoise needs.
    """

    def __init__(
        self,
        dimension: int,
        noise: NoiseSource,
        *,
        norm_bound: float,
        epsilon: float,
        delta: float,
        releases: int,
    ) -> None:
        """Start with no rows.

        Args:
            dimension: d.
            noise: source of the noise.
            norm_bound: B, bound of ||h1(x)||: 1 for paired random Fourier features, sqrt(2) for the
                printed form.
            epsilon: epsilon of all releases together.
            delta: delta of all releases together.
            releases: largest number of releases.
        """
        self._noise = noise
        self._largest = norm_bound * math.sqrt(dimension / 2.0) * _NORM_SLACK
        multiplier = gaussian_sigma(epsilon, delta, releases)
        sensitivity = 2.0 * self._largest
        self._scale = sensitivity * multiplier
        self.cost = Cost(Gaussian(multiplier), sensitivity)
        self._planned = self._left = releases
        self._steps = np.zeros(dimension, dtype=np.int64)  # the sum of rows in units of FEATURE_UNIT
        self.size = 0

    def add(self, rows: NDArray[np.float64]) -> None:
        """Add rows, (k, d) in [-1, 1].

        Raises:
            DataError: wrong shape, a coordinate outside [-1, 1], or a row over the norm bound.
        """
        _check(rows, self._steps.size)
        if np.any(np.linalg.norm(rows, axis=1) > self._largest):
            cause = "a row is longer than the norm bound of the feature map"
            raise DataError(cause, "Use the norm bound that belongs to the feature map.")
        self._steps += quantize_features(rows).sum(axis=0, dtype=np.int64)
        self.size += len(rows)

    def release(self) -> NDArray[np.float64]:
        """The mean with fresh noise, (d,); zeros with no rows.

        Raises:
            ConfigError: all planned releases are spent.
        """
        if self.size == 0:
            return np.zeros(self._steps.size)
        if self._left == 0:
            cause = f"the noise was calibrated for {self._planned} releases, and all of them were made"
            raise ConfigError(cause, "Plan as many releases as the run has rounds.")
        self._left -= 1
        noise = self._noise.gaussian(self._scale / FEATURE_UNIT, self._steps.size)
        return (self._steps + noise) * (FEATURE_UNIT / self.size)


def _check(rows: NDArray[np.float64], dimension: int) -> None:
    if rows.ndim != 2 or rows.shape[1] != dimension:
        cause = f"rows to average have shape {rows.shape} and not (k, {dimension})"
        raise DataError(cause, "Use one feature map for all parties.")
    if not np.all(np.abs(rows) <= 1.0):
        remedy = "Multiply features by sqrt(d/2) and check that the map is bounded by sqrt(2/d)."
        raise DataError("a row to average has a coordinate outside [-1, 1]", remedy)
