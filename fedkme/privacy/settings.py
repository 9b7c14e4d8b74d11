"""Settings of the mechanisms that release a mean of h1: settings make the mechanism of a run.

Another package adds a mechanism by an entry point of the group `fedkme.mechanisms` (docs/extending.md).
"""

import math
from abc import abstractmethod
from collections.abc import Mapping
from functools import partial
from typing import Annotated, Literal, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, SerializeAsAny, model_validator
from typing_extensions import override

from fedkme.config import Settings
from fedkme.extensions import MECHANISMS, Registry, merged
from fedkme.features.fixed_point import MeanVector, normalised_features, quantize_mean
from fedkme.features.fourier import FourierFeatures
from fedkme.privacy.events import Event, MwemSchedule, repeated
from fedkme.privacy.means import Cost, ExactMean, GaussianMean, MeanRelease, MwemMean, later_cost
from fedkme.privacy.noise import NoiseSource, SecureNoise


class MechanismSettings(Settings):
    """Parameters of a mechanism."""

    mechanism: str = ""
    """Name in settings."""

    @abstractmethod
    def make(self, dimension: int, norm_bound: float, releases: int, noise: NoiseSource) -> MeanRelease:
        """Make the mechanism of one run.

        Args:
            dimension: d.
            norm_bound: largest norm of h1.
            releases: how many releases are planned: p for the summary, 1 for D_v.
            noise: private randomness of the party that runs it.
        """


class ExactSettings(MechanismSettings):
    """The exact mean: no privacy at all, the paper's non-private baseline."""

    mechanism: Literal["exact"] = "exact"

    @override
    def make(self, dimension: int, norm_bound: float, releases: int, noise: NoiseSource) -> ExactMean:
        return ExactMean(dimension)


class EpsilonSchedule(Settings):
    """Schedule of h2's parameter over the rounds l = 2..p (Sarpatwar 2019, Theorem 2).

        eps_l = epsilon / sqrt(16 T_sub l log(1/delta) log p)

    `epsilon` and `delta` are the theorem's own numbers, by which the paper calls a run private. They are no
    guarantee: figures come from what the calls cost. The theorem prints 16 and its proof has 36; an epsilon
    of two thirds gives the proof's schedule.
    """

    epsilon: float = Field(1.0, gt=0)
    """The theorem's epsilon, which scales all parameters."""
    delta: float = Field(1e-3, gt=0, lt=math.exp(-1.0))
    """The theorem's delta, below 1/e."""

    def at_first(self, iterations: int, releases: int) -> float:
        """Parameter of one iteration at l = 1; in round l it is this number over sqrt(l)."""
        logs = math.log(1.0 / self.delta) * math.log(max(2, releases))
        return self.epsilon / math.sqrt(16.0 * iterations * logs)


class MwemSettings(MechanismSettings):
    """h2 (Sarpatwar 2019, Algorithm 2) with the warm start of Section 4; defaults are the paper's."""

    mechanism: Literal["mwem"] = "mwem"
    initial_iterations: int = Field(1656, ge=1)
    """T_init: iterations of the first call (d^1.5 at d = 140)."""
    initial_epsilon: float = Field(0.05, gt=0)
    """Parameter of one iteration of the first call, which reads public seeds when there are any."""
    iterations: int = Field(5, ge=1)
    """T_sub: iterations of every later call."""
    epsilon: float | None = Field(None, gt=0)
    """Parameter of one iteration of a later call; by default 0.01 / sqrt(T_sub p)."""
    schedule: EpsilonSchedule | None = None
    """Parameter of one iteration of a later call by Theorem 2, which falls with each round, in place of
    `epsilon`; None: all later calls have one parameter."""
    grid_step: float = Field(0.01, gt=0, le=1)
    """eta, the step of the grid S; 2 / eta must be whole."""
    estimate: Literal["last", "average"] = "last"
    """Distribution whose mean is released: the last iterate P_T, or the printed average P_avg."""

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.epsilon is not None and self.schedule is not None:
            raise ValueError("epsilon and schedule both set the parameter of later calls; give one of them")
        return self

    def later_epsilon(self, releases: int) -> float:
        """Parameter of one iteration after the first call, in a run of p releases (Table 1).

        On a schedule it is the parameter at l = 1, from which others follow.
        """
        if self.schedule is not None:
            return self.schedule.at_first(self.iterations, releases)
        return self.epsilon if self.epsilon is not None else 0.01 / math.sqrt(self.iterations * releases)

    @override
    def make(self, dimension: int, norm_bound: float, releases: int, noise: NoiseSource) -> MwemMean:
        return MwemMean(
            dimension,
            noise,
            grid_step=self.grid_step,
            initial_epsilon=self.initial_epsilon,
            initial_iterations=self.initial_iterations,
            epsilon=self.later_epsilon(releases),
            iterations=self.iterations,
            estimate=self.estimate,
            scheduled=None if self.schedule is None else releases,
        )


class GaussianSettings(MechanismSettings):
    """One Gaussian mechanism per release, calibrated jointly to a total (epsilon, delta)."""

    mechanism: Literal["gaussian"] = "gaussian"
    epsilon: float = Field(1.0, gt=0)
    """Total of all its releases in a run."""
    delta: float = Field(1e-5, gt=0, lt=1)
    """Probability at which epsilon is stated."""

    @override
    def make(self, dimension: int, norm_bound: float, releases: int, noise: NoiseSource) -> GaussianMean:
        return GaussianMean(
            dimension, noise, norm_bound=norm_bound, epsilon=self.epsilon, delta=self.delta, releases=releases
        )


class MwemTargetSettings(MechanismSettings):
    """h2 of D_v: one call; defaults are the paper's."""

    mechanism: Literal["mwem"] = "mwem"
    iterations: int = Field(1656, ge=1)
    """T (d^1.5 at d = 140)."""
    epsilon: float = Field(0.01, gt=0)
    """Parameter of one iteration (eps_v)."""
    grid_step: float = Field(0.01, gt=0, le=1)
    """eta, the step of the grid S; 2 / eta must be whole."""
    estimate: Literal["last", "average"] = "last"
    """Distribution whose mean is released: the last iterate P_T, or the printed average P_avg."""

    @override
    def make(self, dimension: int, norm_bound: float, releases: int, noise: NoiseSource) -> MwemMean:
        # A run of h2 that ends with its first call.
        single = MwemSettings(
            initial_iterations=self.iterations,
            initial_epsilon=self.epsilon,
            grid_step=self.grid_step,
            estimate=self.estimate,
        )
        return single.make(dimension, norm_bound, 1, noise)


def _kinds(mwem: type[MechanismSettings]) -> Registry[MechanismSettings]:
    """Mechanisms by name; h2 is the default, so a table that changes its parameters need not name it."""
    own: Mapping[str, type[MechanismSettings]] = {
        "exact": ExactSettings,
        "mwem": mwem,
        "gaussian": GaussianSettings,
    }
    return Registry(MechanismSettings, "mechanism", "mechanism", partial(merged, own, MECHANISMS), "mwem")


MEANS = _kinds(MwemSettings)
TARGETS = _kinds(MwemTargetSettings)
AnyMean = Annotated[SerializeAsAny[MechanismSettings], MEANS]
"""Broadcast of the mean of the current summary."""
AnyTarget = Annotated[SerializeAsAny[MechanismSettings], TARGETS]
"""Release of the mean of D_v."""


def release_target(
    settings: MechanismSettings, h1: FourierFeatures, validation: NDArray[np.float32], noise: NoiseSource
) -> tuple[MeanVector, Cost]:
    """g~ = h2(h1(D_v)) (Sarpatwar 2019, Algorithm 3, step 3), in fixed point, (d,), and its cost to D_v.

    Args:
        settings: the mechanism that protects D_v; one call.
        h1: the run's draw.
        validation: encoded rows of D_v, (m, n).
        noise: private randomness of the party that holds D_v.
    """
    release = settings.make(h1.dimension, h1.norm_bound, 1, noise)
    release.add(normalised_features(h1.fixed_point(validation)))
    cost = release.cost
    return quantize_mean(release.release()), cost


def target_event(settings: MechanismSettings) -> Event:
    """Event of the release of D_v's mean, known before anything is computed."""
    return settings.make(2, 1.0, 1, SecureNoise()).cost.event


def broadcast_events(settings: MechanismSettings, releases: int, exchanged: int) -> list[Event]:
    """Events of all broadcasts of a run about owners' rows, known before anything is computed.

    Args:
        settings: settings of the mechanism.
        releases: p; every release counts, although the first reads the public seed set alone. On a schedule
            of h2 the releases from the second on count, each at its own cost.
        exchanged: rows of the summary that one replaced row of an owner may replace.
    """
    event = later_cost(settings.make(2, 1.0, releases, SecureNoise())).of_rows(exchanged).event
    return [event if isinstance(event, MwemSchedule) else repeated(event, releases)]
