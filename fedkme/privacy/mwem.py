"""h2 of Sarpatwar 2019 (Algorithm 2): quantization and MWEM over product distributions.

**State.** Algorithm 2 keeps a distribution P over S^d, where S = {-1, -1 + eta, .., 1} has
n = 2/eta + 1 points. Lemma 1 shows that P stays a product and stores n numbers per coordinate. One
number is enough: if P_i(s) = exp(theta_i s) / Z(theta_i), then an update with the measured value mu gives

    P_i(s) exp(s (mu - w(P, i)) / (2q)) / Z'  =  exp((theta_i + (mu - w(P, i)) / (2q)) s) / Z''

so P_i stays an exponential tilt of the uniform law and the update is theta_i += (mu - w(P, i)) / (2q).
The uniform start is theta = 0. Memory is O(d), one update O(1), whatever the grid. With a = eta theta / 2
the geometric sum Z = sinh(n a) / sinh(a) gives the mean in closed form,

    E[s_i] = d log Z / d theta = (eta/2) (n coth(n a) - coth(a)).

**Privacy.** One iteration with parameter e releases a coordinate, chosen with probability proportional
to exp(e psi_i), psi_i = |w(P, i) - w(D_Q, i)|, and the value mu = w(D_Q, i) + Lap(1/e). P and theta are
functions of earlier releases and of the public size q. What one iteration costs, with w(P, i) = q E[s_i]:

| neighbouring relation              | change of psi | selection: pure DP, bounded range | value: pure DP |
|------------------------------------|---------------|-----------------------------------|----------------|
| replace one row (q is public)      | 2             | 4e                                | 2e             |
| add or remove, q counted           | 2             | 4e                                | 1e             |
| add or remove, q a public constant | 1             | 2e                                | 1e             |

Proof. Quantized rows lie in [-1, 1]^d. Replacing one moves w(D_Q, i) by at most 2; adding one moves it
by at most 1, and q E[s_i] by at most 1 more where q is counted. That bounds the change D of every psi_i.
Then e psi_i changes by at most eD either way, and so does the log of the normaliser, which is one for
all i: the log ratio of the two worlds' probabilities is at most 2eD, and over all i it varies by at most
2eD. The Laplace mechanism of scale 1/e costs e times the change of w(D_Q, i). Updates use q: where it is
counted, it is itself disclosed and not protected. Quantization acts on each row by itself, so it maps
neighbours to neighbours whatever its coins. QED.
The paper says that "each of them is e differentially private": no relation gives that for the selection.
Accountants compose these costs. A selection is drawn exactly from floating-point weights. The rounding of a
score is charged as a range of CHOICE_SLACK (fedkme.privacy.events), for scores e psi of at most 2^20;
`choose` cuts larger scores to 2^20. psi is the difference of a whole number and a public number, so its
rounding is relative to psi and not to q.

**Warm start.** A call starts from P_T of the previous call (section 4 of the paper). This is free: P_T is
a function of earlier releases. `q` may have grown in between.

**Estimate.** The paper returns the average of P_1, .., P_T. An update closes about a sixth of a gap
(the uniform law has variance near 1/3, halved by the 2 in 2q), so early iterates are near the start and
the average is drawn towards it: with T = d^1.5 = 1656, d = 140 and no noise it is about 0.6 of the truth
and P_T 0.85. The last iterate is also a function of the releases; it is less biased, and noisier.
"""

import math
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from fedkme.errors import ConfigError, DataError
from fedkme.privacy.noise import NoiseSource, choose

Estimate = Literal["last", "average"]


def grid_intervals(grid_step: float) -> int:
    """Number of steps of the grid from -1 to 1, 2/eta.

    Raises:
        ConfigError: 2/eta is not a whole number >= 1.
    """
    intervals = round(2.0 / grid_step) if 0 < grid_step <= 2 else 0
    if intervals < 1 or not math.isclose(intervals * grid_step, 2.0, rel_tol=1e-9):
        cause = f"the grid step {grid_step} does not divide the interval from -1 to 1"
        raise ConfigError(cause, "Take 2 divided by a whole number, for example 0.1.")
    return intervals


def quantize(values: NDArray[np.float64], grid_step: float, noise: NoiseSource) -> NDArray[np.int64]:
    """Round every value up or down to the grid at random, without bias (QUANTIZATION of Algorithm 2).

    With k = floor((x + 1) / eta), the result is k + 1 with probability (x + 1 - k eta) / eta, else k
    (the paper prints k epsilon). Whole numbers, so that sums do not depend on the order of the rows.

    Args:
        values: rows in normalised coordinates, (k, d) in [-1, 1].
        grid_step: eta; 2/eta is a whole number.
        noise: source of one coin per value.

    Returns:
        Index of each value's grid point, (k, d) in 0..2/eta; index i stands for -1 + i eta.

    Raises:
        DataError: a value is outside [-1, 1] or not a number.
    """
    intervals = grid_intervals(grid_step)
    if not np.all(np.abs(values) <= 1.0):
        cause = "a row to quantize has a coordinate outside [-1, 1]"
        raise DataError(cause, "Divide by the bound of the feature map before quantizing.")
    position = (values + 1.0) * (intervals / 2.0)
    lower = np.minimum(np.floor(position), intervals - 1.0)  # x = 1 belongs to the last step
    coins = noise.uniform(values.size).reshape(values.shape)
    return (lower + (coins < position - lower)).astype(np.int64)


def tilted_mean(theta: float, intervals: int) -> float:
    """Mean of the law P(s) ~ exp(theta s) on the grid -1, -1 + eta, .., 1 with 2/eta = `intervals`."""
    points = intervals + 1
    half = theta / intervals  # eta theta / 2
    # The poles of n coth(n a) and coth(a) cancel; Langevin's function is coth without its pole.
    return (points * _langevin(points * half) - _langevin(half)) / intervals


def _langevin(x: float) -> float:
    """coth(x) - 1/x, to rounding error everywhere."""
    if abs(x) > 1.0:
        return 1.0 / math.tanh(x) - 1.0 / x
    # Lambert's continued fraction x / (3 + x^2 / (5 + x^2 / (7 + ..))): no cancellation near 0.
    square = x * x
    tail = 17.0
    for odd in (15.0, 13.0, 11.0, 9.0, 7.0, 5.0, 3.0):
        tail = odd + square / tail
    return x / tail


class Mwem:
    """MWEM over product distributions on S^d, warm from call to call; see the head of this module."""

    def __init__(
        self, dimension: int, noise: NoiseSource, *, grid_step: float, estimate: Estimate = "last"
    ) -> None:
        """Start at the uniform distribution.

        Args:
            dimension: d.
            noise: source of the selections and of the values' noise.
            grid_step: eta; 2/eta is a whole number.
            estimate: return the mean of P_T, or the average over the iterations of the call.
        """
        self._noise = noise
        self._intervals = grid_intervals(grid_step)
        self._estimate = estimate
        self._theta = np.zeros(dimension)
        self._mean = np.zeros(dimension)

    def iterate(
        self, index_sum: NDArray[np.int64], size: int, epsilon: float | None, iterations: int
    ) -> NDArray[np.float64]:
        """Measure `iterations` coordinates of the data and return the new estimate of its mean.

        Args:
            index_sum: sum over the rows of what `quantize` returns, (d,); w(D_Q, .) = eta index_sum - q.
            size: rows q in that sum, public, >= 1.
            epsilon: parameter e of every iteration; None or infinite: no noise, the largest error is
                selected and its value read exactly.
            iterations: T, >= 1.

        Returns:
            Estimate of the mean of the quantized rows, (d,) in [-1, 1].

        Raises:
            ConfigError: a parameter is out of its range.
        """
        exact = epsilon is None or math.isinf(epsilon)
        if size < 1 or iterations < 1 or not (epsilon is None or epsilon > 0):
            cause = f"h2 cannot take {iterations} iterations at epsilon {epsilon} over {size} rows"
            raise ConfigError(cause, "Take at least one iteration, an epsilon above 0 and at least one row.")
        measured = index_sum.astype(np.float64)
        grid_step = 2.0 / self._intervals
        errors = np.abs(measured - (self._mean + 1.0) * (size / grid_step)) * grid_step
        total = np.zeros_like(measured)
        scale = 1.0 if epsilon is None or exact else 1.0 / epsilon
        coins, noise = self._draw(exact, scale, iterations)
        for coin, extra in zip(coins, noise, strict=True):
            i = int(errors.argmax()) if exact else choose(errors / scale, coin, self._noise)
            # Noise is added to the whole number, where the sum is exact, and not to its image in [-q, q].
            value = (float(measured[i]) + extra) * grid_step - size
            self._update(i, value, size)
            errors[i] = abs(measured[i] - (self._mean[i] + 1.0) * (size / grid_step)) * grid_step
            if self._estimate == "average":
                total += self._mean
        return total / iterations if self._estimate == "average" else self._mean.copy()

    def _draw(self, exact: bool, scale: float, iterations: int) -> tuple[list[float], list[float]]:
        """Uniform numbers for the selections and noise for the values, in steps of the grid."""
        if exact:
            return [0.0] * iterations, [0.0] * iterations
        coins = self._noise.uniform(iterations)
        noise = self._noise.laplace(scale * self._intervals / 2.0, iterations)
        return coins.tolist(), noise.tolist()

    def _update(self, i: int, value: float, size: int) -> None:
        theta = float(self._theta[i]) + (value - size * float(self._mean[i])) / (2.0 * size)
        self._theta[i] = theta
        self._mean[i] = tilted_mean(theta, self._intervals)
