"""Distributed noise: each owner adds a share that it alone knows, and the sum of the honest shares protects.

Every owner adds an independent discrete Gaussian N_Z(0, s^2) to each coordinate of its vector of integers
(Kairouz, Liu, Steinke 2021, "The distributed discrete Gaussian mechanism"). At most D of n owners drop out,
and at most T tell the curator their shares. An owner that learns a total, or something computed from it,
knows its own share in any case. So at least m = n - D - max(T, 1) shares stay unknown to each observer. All
statements are about these m shares; more shares only add noise. Sums are taken modulo 2**k, which is
post-processing. The sum of m discrete Gaussians is not a discrete Gaussian, and the two lemmas below say how
little this matters. Write, for v > 0,

    h(v) = 2 sum_{j>=1} exp(-2 pi^2 v j^2),    lambda(v) = log((1 + h(v)) / (1 - h(v)))    (h(v) < 1).

By Poisson's summation, for every real c,

    sum_{x in Z} exp(-(x-c)^2 / (2v)) = sqrt(2 pi v) (1 + 2 sum_{j>=1} exp(-2 pi^2 v j^2) cos(2 pi j c)),

which lies within sqrt(2 pi v) (1 -+ h(v)).

**Lemma 1 (sum).** Let p be the law of the sum of m shares and q = N_Z(0, m s^2). Then |log(p/q)| <= tau at
every integer, with tau = sum_{k=1}^{m-1} lambda(s^2 k/(k+1)).
*Proof.* Write the law of k shares as exp(-x^2 / (2 k s^2)) g_k(x) / Z with g_1 = 1. With one more share, by
completing the square, the law is exp(-x^2 / (2 (k+1) s^2)) sum_y g_k(y) exp(-(y-c)^2 / (2v)) with c = x
k/(k+1) and v = s^2 k/(k+1). If max g_k / min g_k <= exp(t), the sum over y varies over all x by a factor of
at most exp(t + lambda(v)). Last, p/q = g_m / E_q[g_m], and a positive function over a mean of itself lies
within the ratio of its extremes. (Kairouz et al., theorem 11, have 10 sum_k exp(-2 pi^2 s^2 k/(k+1)) for the
same.)

**Lemma 2 (one continuous Gaussian).** For 0 < w < V let R send a real y to a draw x of Z with probability
proportional to exp(-(x-y)^2 / (2w)); R commutes with shifts by integers. The law r of R(N(0, V - w)) and
q = N_Z(0, V) satisfy |log(q/r)| <= lambda(w).
*Proof.* Up to constants r(x) = integral phi_{V-w}(y) exp(-(x-y)^2 / (2w)) / (1 + e(y)) dy with |e| <= h(w),
and without the last factor the integral is exp(-x^2 / (2V)). So r/q is, up to a constant that makes both sum
to 1, an average of 1/(1 + e).

**Theorem.** Let a query with values in Z^d have L2 diameter Delta, in steps. With xi = d r (tau + lambda(w))
and V = m s^2, r releases, each chosen after those before, are (eps + 2 xi, delta exp(xi))-DP whenever r
releases of the Gaussian mechanism with multiplier sqrt(V - w) / Delta are (eps, delta)-DP.
*Proof.* For all releases together P(S) <= e^xi R(S) <= e^xi (e^eps R'(S) + delta) <= e^(eps + 2 xi) P'(S) +
e^xi delta; R is a post-processing of the Gaussian mechanism.

So the analytic calibration of fedkme.privacy.gaussian holds for the distributed noise, and ledgers write the
event of a Gaussian. With w = 16 and s >= 2**24 (below), xi < 1e-120 for a million coordinates, a million
releases and a thousand owners: the figures count xi, and no float shows it.
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fedkme.errors import ConfigError
from fedkme.privacy.events import Gaussian
from fedkme.privacy.gaussian import gaussian_epsilon, gaussian_sigma
from fedkme.privacy.noise import NoiseSource, whole
from fedkme.secagg.parameters import Parameters

LEAST_SHARE = 2.0**24
"""Least deviation of a share in steps: from this deviation on SecureNoise draws integers."""
_LARGEST_SHARE = 2.0**45
"""A share stays below 2**53, where float64 holds every integer, with probability 1 - exp(-2**15)."""
SMOOTHING = 16.0
"""w of lemma 2; h(w) = 2 exp(-316)."""


def lattice_excess(variance: float) -> float:
    """lambda(v): log((1 + h) / (1 - h)); infinite where h >= 1.

    Args:
        variance: v, > 0.
    """
    # The terms after the fifth are below the first's rounding wherever h < 1 (v > 0.06).
    h = 2.0 * math.fsum(math.exp(-2.0 * math.pi**2 * variance * j * j) for j in range(1, 8))
    return math.log1p(h) - math.log1p(-h) if h < 1.0 else math.inf


def sum_excess(share: float, honest: int) -> float:
    """Largest difference (tau of lemma 1) of the log-probability of a sum of shares from a Gaussian's.

    Args:
        share: s, in steps.
        honest: m, number of shares.
    """
    return math.fsum(lattice_excess(share**2 * k / (k + 1)) for k in range(1, honest))


@dataclass(frozen=True)
class NoisePlan:
    """Shares of noise and their privacy, under the neighbouring relation of the diameter.

    Raises:
        ConfigError: on construction, if no statement holds.
    """

    share: float
    """Deviation of each owner's noise in each coordinate, in steps."""
    honest: int
    """m."""
    length: int
    """d."""
    diameter: float
    """L2 diameter of the sum of all owners' integers, in steps, see fedkme.sums.vector.SumVector.diameter."""
    releases: int = 1
    """r, number of releases, all with this noise."""
    smoothing: float = SMOOTHING
    """w of lemma 2."""

    def __post_init__(self) -> None:
        numbers = (self.share, self.diameter, self.smoothing)
        if min(self.honest, self.length, self.releases) < 1 or not all(0 < x < math.inf for x in numbers):
            remedy = "Give at least one honest owner, one coordinate, one release and positive scales."
            raise ConfigError("distributed noise is planned without owners, coordinates or scales", remedy)
        if not (self.excess < math.inf and self.variance > self.smoothing):
            cause = "shares of noise are too small for their sum to be Gaussian"
            raise ConfigError(cause, "Take a finer step.")

    @property
    def variance(self) -> float:
        """Variance of the sum of the honest shares, in each coordinate, in steps squared."""
        return self.honest * self.share**2

    @property
    def excess(self) -> float:
        """Xi, of the theorem."""
        per_coordinate = sum_excess(self.share, self.honest) + lattice_excess(self.smoothing)
        return self.length * self.releases * per_coordinate

    @property
    def multiplier(self) -> float:
        """Noise multiplier of the Gaussian mechanism that one release equals, up to the excess."""
        return math.sqrt(self.variance - self.smoothing) / self.diameter

    @property
    def event(self) -> Gaussian:
        """Event of all releases, for a ledger; with `plan_noise` figures are too coarse for the excess."""
        return Gaussian(self.multiplier, self.releases)

    def epsilon(self, delta: float) -> float:
        """Epsilon of all releases together at this delta, the excess included."""
        sigma = self.multiplier / math.sqrt(self.releases)
        return gaussian_epsilon(sigma, delta * math.exp(-self.excess)) + 2.0 * self.excess


def plan_noise(
    epsilon: float,
    delta: float,
    *,
    owners: int,
    dropouts: int,
    colluders: int,
    length: int,
    diameter: float,
    releases: int = 1,
) -> NoisePlan:
    """Plan the least shares with which all releases are (epsilon, delta)-DP against curator and colluders.

    The sum then has noise of variance up to n / (n - D - T) times what a trusted curator would add.

    Args:
        epsilon: > 0.
        delta: in (0, 1).
        owners: n.
        dropouts: D.
        colluders: shares that an observer knows, max(T, 1).
        length: d.
        diameter: L2 diameter of the sum, in steps.
        releases: r.

    Raises:
        ConfigError: no such noise exists, or the step is too coarse for it.
    """
    honest = owners - dropouts - colluders
    if honest < 1 or not 0 < diameter < math.inf:
        remedy = "Invite more owners, or allow fewer drop-outs and colluders; check the feature map's bounds."
        raise ConfigError("distributed noise needs an honest owner and a finite diameter", remedy)
    excess = NoisePlan(LEAST_SHARE, honest, length, diameter, releases).excess
    if not epsilon > 2.0 * excess:
        raise ConfigError(f"epsilon {epsilon} leaves nothing for noise", "Ask for a larger epsilon.")
    sigma = gaussian_sigma(epsilon - 2.0 * excess, delta * math.exp(-excess), releases) * diameter
    # The factor makes up for rounding: the share must not come out too small.
    share = math.sqrt((sigma**2 + SMOOTHING) / honest) * (1.0 + 2.0**-48)
    if not LEAST_SHARE <= share <= _LARGEST_SHARE:
        way = "finer" if share < LEAST_SHARE else "coarser"
        cause = f"a share of noise would deviate by 2**{math.log2(share):.0f} steps, outside 2**24 to 2**45"
        raise ConfigError(cause, f"Take a {way} step.")
    return NoisePlan(share, honest, length, diameter, releases)


def plan_of(parameters: Parameters, diameter: float, releases: int = 1) -> NoisePlan:
    """Compute the privacy of an aggregation's noise; every owner does so itself before it takes part.

    Args:
        parameters: parameters as the curator proposes them.
        diameter: L2 diameter of the sum, in steps, as this owner computes it.
        releases: r.

    Raises:
        ConfigError: the noise gives no privacy.
    """
    honest = parameters.least_survivors - max(1, parameters.colluders)
    return NoisePlan(parameters.noise, honest, parameters.length, diameter, releases)


def draw_share(noise: NoiseSource, share: float, size: int) -> NDArray[np.int64]:
    """One owner's noise, (size,) int64 in steps.

    SecureNoise draws exactly from the discrete Gaussian on the integers at these scales, about half a
    microsecond a coordinate (up to 70 at 2**45, where exact arithmetic decides often); a simulated source
    draws reals that are rounded, which is near enough for a simulation.

    Args:
        noise: source.
        share: standard deviation in steps.
        size: number of coordinates.

    Raises:
        ConfigError: the source of noise cannot draw integers of this deviation.
    """
    if not LEAST_SHARE <= share <= _LARGEST_SHARE:
        cause = "shares of noise are drawn for deviations of 2**24 to 2**45 steps"
        raise ConfigError(cause, "Take another step.")
    return whole(noise.gaussian(share, size))
