"""Balog 2018, Algorithm 2, lines 5 and 6: points whose mean feature is closest to a released mean.

The search runs in JAX. It reads the released mean, the public map and a seed, so it cannot disclose more than
the release. Each restart goes through the same steps:

1. candidates, uniform in the schema's public box, climb <phi(z), released mean>, a noisy kernel density;
2. convex optimisation finds the best distribution over the candidates; new candidates around the places with
   a share join, again and again, until a round gains no more than fitting noise does: the modes alone, with
   any number of points each, are far from a mixture;
3. M points are drawn from the distribution, and copies jittered; if M is above MANY, the distribution itself
   is the answer, with fewer than M points, since the last fit of weights would take M^2 numbers;
4. locations and weights descend || sum_m w_m phi(z_m) - mean ||^2 together (Adam); the weights stay a
   distribution, like weights of rows: this loses nothing, and weights that may change sign get stuck at 0
   more often;
5. the weights are fitted again for the final locations, in float64, over all weights that the constraint
   allows.

The restart with the smallest objective is returned; the objective reads public values, so the choice costs
nothing. The same inputs and seed give the same points on the same kind of machine.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax

from fedkme.arrays import FloatArray
from fedkme.embeddings.simplex_fit import fit_simplex
from fedkme.embeddings.weight_fit import fit_weights, project
from fedkme.embeddings.weighted_points import WeightedPoints, uniform_points
from fedkme.features.domain import Domain
from fedkme.features.kernel_space import kernel_units, one_column
from fedkme.features.maps import EmbeddingMap
from fedkme.features.sums import ReleasedEmbedding
from fedkme.releases.settings import Balog2Settings

MANY = 2000
"""Number of points above which locations are not descended."""
_ROUNDS = 40
"""Most rounds in which candidates join."""
_CHANCE = 4.0
"""Least gain of a round, in variances of the noise: fitting noise alone gains as much."""
_NEAREST = 0.02
"""Distance of the nearest new candidates, in length scales; the furthest are one length scale away."""


@dataclass(frozen=True)
class Step:
    """Progress of the search, for reports.

    Attributes:
        restart: number of the restart, from 1.
        restarts: restarts in all.
        step: steps done in this restart.
        steps: steps of each restart.
        objective: present squared distance to the released mean in feature space.
        floor: objective at the true distribution: the expected squared norm of the noise.
    """

    restart: int
    restarts: int
    step: int
    steps: int
    objective: float
    floor: float

    def __str__(self) -> str:
        head = f"restart {self.restart}/{self.restarts}, step {self.step}/{self.steps}"
        return f"{head}: squared distance {self.objective:.3g} (the noise alone has {self.floor:.3g})"


def _silent(step: Step) -> None:
    """Report no progress."""


def algorithm2(
    released: ReleasedEmbedding,
    features: EmbeddingMap,
    settings: Balog2Settings,
    seed: int,
    progress: Callable[[Step], None] = _silent,
) -> WeightedPoints:
    """Find weighted points in the units of the map's kernel.

    Args:
        released: mean of the features, one column.
        features: feature map of the mean, of a Gaussian kernel.
        settings: M, the constraint on weights, and parameters of the search.
        seed: seed of the candidates and the jitter.
        progress: called after about every tenth of a restart.

    Raises:
        ConfigError: the embedding has several columns or is of another map.
        DataError: the embedding is not finite.
    """
    target = one_column(released, features)
    gain, shift, gamma = kernel_units(features)
    floor = len(target) * released.sigma**2
    search = _Search(target, features, settings, gamma, gain, released.sigma**2)
    best: tuple[float, FloatArray, FloatArray] | None = None
    sources = np.random.SeedSequence([seed]).spawn(settings.restarts)
    for restart, source in enumerate(sources, 1):
        rng = np.random.Generator(np.random.Philox(source))

        def tell(step: int, objective: float, restart: int = restart) -> None:
            progress(Step(restart, settings.restarts, step, settings.steps, objective, floor))

        places, weights = search.run(rng, jitter=0.5 / restart, tell=tell)
        objective = search.exact_objective(places, weights)
        if best is None or objective < best[0]:
            best = objective, places, weights
    assert best is not None
    return WeightedPoints(best[1] * gain + shift, best[2])


class _Search:
    """Search for one target, with its compiled functions; places are points of model space."""

    def __init__(
        self,
        target: FloatArray,
        features: EmbeddingMap,
        settings: Balog2Settings,
        gamma: float,
        gain: FloatArray,
        variance: float,
    ) -> None:
        self._variance = variance
        self._target64 = target
        self._features = features
        self._settings = settings
        domain = Domain(features.schema)
        self._high = np.full(features.schema.encoded_width, math.sqrt(0.5))
        self._high[domain.numbers] = 1.0
        # Coordinates are in length scales, or in widths of the box where these are smaller.
        self._unit = np.minimum(1.0 / (math.sqrt(2.0 * gamma) * np.abs(gain)), self._high)
        self._target = jnp.asarray(target, jnp.float32)
        self._scale = jnp.asarray(self._unit, jnp.float32)
        self._top = jnp.asarray(self._high / self._unit, jnp.float32)
        rate = optax.cosine_decay_schedule(settings.learning_rate, settings.steps)
        self._optimiser = optax.adam(rate)
        self._climb = jax.jit(self._climbed)
        self._descend = jax.jit(self._descended, static_argnums=2)

    def run(
        self, rng: np.random.Generator, jitter: float, tell: Callable[[int, float], None]
    ) -> tuple[FloatArray, FloatArray]:
        """Find locations (M, n) and weights (M,) from one random start."""
        places, shares = self._mixture(rng)
        if self._settings.points > MANY and self._settings.weights != "uniform":
            tell(self._settings.steps, self.exact_objective(places, shares))
            return places, shares
        start, weights = self._drawn(places, shares, rng, jitter)
        parameters: Any = (
            jnp.asarray(start / self._unit, jnp.float32),
            jnp.log(jnp.asarray(weights, jnp.float32)),
        )
        state = self._optimiser.init(parameters)
        steps_done = 0
        chunk = max(1, self._settings.steps // 10)
        while steps_done < self._settings.steps:
            count = min(chunk, self._settings.steps - steps_done)
            parameters, state, objective = self._descend(parameters, state, count)
            steps_done += count
            tell(steps_done, float(objective))
        places = np.asarray(parameters[0], np.float64) * self._unit
        # In float32 a place may end outside the box by a rounding error.
        places = np.clip(places, 0.0, self._high)
        return places, self._final_weights(places, np.asarray(self._weights(parameters[1]), np.float64))

    def exact_objective(self, places: FloatArray, weights: FloatArray) -> float:
        """Squared distance in feature space, in float64."""
        mean = self._features.of_model(places).T @ weights
        return float(np.square(mean - self._target64).sum())

    def _mixture(self, rng: np.random.Generator) -> tuple[FloatArray, FloatArray]:
        """Find places and positive shares of a distribution that has nearly the released mean."""
        blind = rng.random((self._settings.candidates, len(self._high))) * self._high
        climbed = self._climb(jnp.asarray(blind / self._unit, jnp.float32))
        places, shares = self._weighted(np.clip(np.asarray(climbed, np.float64) * self._unit, 0, self._high))
        objective = self.exact_objective(places, shares)
        for _ in range(_ROUNDS):
            near = places[np.arange(max(self._settings.candidates, len(places))) % len(places)]
            reach = _NEAREST ** rng.random((len(near), 1))
            near = near + reach * self._unit * rng.standard_normal(near.shape)
            places, shares = self._weighted(np.concatenate([places, np.clip(near, 0.0, self._high)]))
            before, objective = objective, self.exact_objective(places, shares)
            if before - objective < _CHANCE * self._variance:
                break
        return places, shares

    def _weighted(self, places: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Fit the nearest distribution over places; return the places with a share, and their shares."""
        at = self._features.of_model(places)
        shares = fit_simplex(at @ at.T, at @ self._target64).weights
        return places[shares > 0.0], shares[shares > 0.0]

    def _drawn(
        self, places: FloatArray, shares: FloatArray, rng: np.random.Generator, jitter: float
    ) -> tuple[FloatArray, FloatArray]:
        """Draw M places from a distribution; copies of a place divide its weight."""
        M, order = self._settings.points, np.argsort(-shares, kind="stable")
        # Systematic draws: a place of share s gets s M points up to rounding. The first copy stays.
        ticks = (np.arange(M) + rng.random()) / M
        drawn = order[np.minimum(np.searchsorted(np.cumsum(shares[order]), ticks), len(order) - 1)]
        moved = places[drawn] + jitter * self._unit * rng.standard_normal((M, places.shape[1]))
        first = np.unique(drawn, return_index=True)[1]
        moved[first] = places[drawn[first]]
        weights = shares[drawn] / np.bincount(drawn)[drawn]
        return np.clip(moved, 0.0, self._high), weights / weights.sum()

    def _climbed(self, places: jax.Array) -> jax.Array:
        """Let candidates climb; the density is a sum over candidates, so each climbs by its own Adam."""

        def density(at: jax.Array) -> jax.Array:
            total: jax.Array = (self._features.of_model(at * self._scale, jnp) @ self._target).sum()
            return -total

        optimiser = optax.adam(optax.cosine_decay_schedule(0.5, self._settings.climbs))

        def step(carry: Any, _: None) -> tuple[Any, None]:
            at, state = carry
            updates, state = optimiser.update(jax.grad(density)(at), state)
            return (jnp.clip(at + updates, 0.0, self._top), state), None

        start = (places, optimiser.init(places))
        (climbed, _), _ = jax.lax.scan(step, start, None, length=self._settings.climbs)
        result: jax.Array = climbed
        return result

    def _descended(self, parameters: Any, state: Any, count: int) -> tuple[Any, Any, jax.Array]:
        def objective(parameters: Any) -> jax.Array:
            places, raw = parameters
            at = self._features.of_model(places * self._scale, jnp)
            return jnp.square(self._weights(raw) @ at - self._target).sum()

        def step(carry: Any, _: None) -> tuple[Any, jax.Array]:
            (places, raw), state = carry
            value, gradient = jax.value_and_grad(objective)((places, raw))
            updates, state = self._optimiser.update(gradient, state)
            places = jnp.clip(places + updates[0], 0.0, self._top)
            return ((places, raw + updates[1]), state), value

        (parameters, state), values = jax.lax.scan(step, (parameters, state), None, length=count)
        return parameters, state, values[-1]

    def _weights(self, raw: jax.Array) -> jax.Array:
        if self._settings.weights == "uniform":
            return jnp.full(len(raw), 1.0 / len(raw))
        shares: jax.Array = jax.nn.softmax(raw)
        return shares

    def _final_weights(self, places: FloatArray, weights: FloatArray) -> FloatArray:
        settings = self._settings
        if settings.weights == "uniform":
            return uniform_points(places).weights
        at = self._features.of_model(places)
        fit = fit_weights(
            at @ at.T, at @ self._target64, settings.weights, settings.bound, start=weights, limit=2000
        )
        before = project(weights, settings.weights, settings.bound)
        worse = self.exact_objective(places, fit.weights) > self.exact_objective(places, before)
        return before if worse else fit.weights
