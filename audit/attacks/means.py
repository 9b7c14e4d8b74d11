"""The audit of the Gaussian mechanism, one per release, and of the exact mean.

Neighbouring: one row replaced, the number of rows public.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial

import numpy as np

from audit.attacks.black_box import Experiment
from audit.attacks.confidence import Scores
from audit.attacks.finding import Check, CheckResult, Claim, Effort, Subject
from audit.attacks.law import independence_finding, scale_finding, shape_finding
from audit.attacks.recount import gaussian_events, recount
from audit.attacks.scripted import TalliedNoise
from audit.attacks.sensitivity import empty_release, gaussian_units
from fedkme.arrays import FloatArray
from fedkme.features.fixed_point import FEATURE_UNIT
from fedkme.privacy.events import Gaussian
from fedkme.privacy.gaussian import gaussian_sigma
from fedkme.privacy.means import ExactMean, GaussianMean, MeanRelease
from fedkme.privacy.noise import NoiseSource, simulated

MakeMean = Callable[..., MeanRelease]

_RELATION = "replace one row"


def gaussian() -> Subject:
    """One Gaussian mechanism per release, all together at (1, 1e-5)."""
    claim, norm_bound, releases = Claim(1.0, 1e-5, _RELATION), 1.0, 2
    multiplier = gaussian_sigma(claim.epsilon, claim.delta, releases)

    def one(dimension: int, noise: NoiseSource, planned: int = releases) -> MeanRelease:
        return GaussianMean(
            dimension,
            noise,
            norm_bound=norm_bound,
            epsilon=claim.epsilon,
            delta=claim.delta,
            releases=planned,
        )

    checks: tuple[Check, ...] = (
        partial(empty_release, one),
        partial(gaussian_units, one, norm_bound, multiplier),
        *(partial(check, one, norm_bound, claim) for check in (_noise_scale, _noise_shape, _noise_replayed)),
        partial(_gaussian_recount, one, norm_bound, claim, releases),
        _gaussian_experiment(one, norm_bound, claim, releases, True),
        _gaussian_experiment(one, norm_bound, claim, releases, False),
    )
    return Subject("gaussian", "sound", claim, checks)


def _residuals(one: MakeMean, norm_bound: float, claim: Claim, effort: Effort) -> FloatArray:
    """Noise of many releases of one zero row over its declared deviation, (releases, d)."""
    releases, dimension = effort.trials(500), 2000
    mechanism = one(dimension, simulated(effort.seed, "audit", "gaussian"), releases)
    mechanism.add(np.zeros((1, dimension)))
    multiplier = gaussian_sigma(claim.epsilon, claim.delta, releases)
    declared = 2.0 * norm_bound * math.sqrt(dimension / 2.0) * multiplier
    return np.asarray(np.stack([mechanism.release() for _ in range(releases)]) / declared)


def _noise_scale(one: MakeMean, norm_bound: float, claim: Claim, effort: Effort) -> CheckResult:
    draws = _residuals(one, norm_bound, claim, effort).ravel()
    return scale_finding(draws, "norm", 1.0, effort.alpha, "a release's noise, over the declared one")


def _noise_shape(one: MakeMean, norm_bound: float, claim: Claim, effort: Effort) -> CheckResult:
    draws = _residuals(one, norm_bound, claim, effort)[:50].ravel()
    return shape_finding(draws, "norm", 1.0, effort.alpha, "a release's noise")


def _noise_replayed(one: MakeMean, norm_bound: float, claim: Claim, effort: Effort) -> CheckResult:
    draws = _residuals(one, norm_bound, claim, effort)[:50]
    return independence_finding(
        draws[:-1].ravel(), draws[1:].ravel(), effort.alpha, "one release's noise with the next one's"
    )


def _gaussian_recount(
    one: MakeMean, norm_bound: float, claim: Claim, releases: int, effort: Effort
) -> CheckResult:
    noise = TalliedNoise(simulated(effort.seed, "audit", "run"))
    mechanism = one(8, noise)
    mechanism.add(np.zeros((1, 8)))
    for _ in range(releases):
        mechanism.release()
    events = gaussian_events(noise, 2.0 * norm_bound * math.sqrt(8 / 2.0) / FEATURE_UNIT)
    return recount(claim, events, [Gaussian])


def _gaussian_experiment(
    one: MakeMean, norm_bound: float, claim: Claim, releases: int, model: bool
) -> Experiment:
    """A row against its opposite; score: all releases projected on their difference."""
    dimension = 4
    row = np.full((1, dimension), norm_bound * math.sqrt(0.5))  # as long as it may be

    def sample(second: bool, trials: int, random: np.random.Generator) -> Scores:
        noise = simulated(int(random.integers(2**62)), "curator", "broadcast")
        scores = np.empty(trials)
        for trial in range(trials):
            mechanism = one(dimension, noise)
            mechanism.add(row if second else -row)
            scores[trial] = sum(float(mechanism.release().sum()) for _ in range(releases))
        return scores

    what = "projection of all releases on the neighbours' difference"
    what += ", as a Gaussian" if model else ""
    note = "power: how much too small the noise would be" if model else ""
    return Experiment(claim, what, sample, 100_000, model, note)


def exact() -> Subject:
    """The exact mean claims nothing; one release tells neighbours apart."""

    def sample(second: bool, trials: int, random: np.random.Generator) -> Scores:
        scores = np.empty(trials)
        for trial in range(trials):
            mechanism = ExactMean(1)
            mechanism.add(np.array([[1.0 if second else -1.0]]))
            scores[trial] = mechanism.release()[0]
        return scores

    claim = Claim(math.inf, 0.0, _RELATION)
    game = Experiment(Claim(1.0, 0.0, _RELATION), "the mean, against epsilon = 1", sample, 2_000)
    return Subject("exact", "none", claim, (game,))
