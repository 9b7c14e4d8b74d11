"""An auto-encoder trained over pooled owners with DP-SGD (DP-MERF, Algorithm 2, with the privacy it lacks).

DP-MERF embeds codes e(x) in place of images x. As the paper describes it the encoder e is trained on the
private rows without noise; then e depends on every row, and the sensitivity 2/m of the embedding bounds
nothing. Here an encoder is trained in one of three ways (`Origin`):

- `private`: by DP-SGD over the owners, this module; its cost is part of the release's event.
- `public`: on rows that are public, or given; costs nothing.
- `published`: on private rows without noise, to reproduce the paper; epsilon is infinite under `sound`.

One step of DP-SGD. Every owner takes each of its rows with probability `rate`, by coins of its own;
computes the gradient of each taken row's loss, shortens it to L2 norm `clip` at most, rounds it to steps of
clip * GRADIENT_STEP and adds up integers. The curator adds these sums, adds Gaussian noise once, divides
by the public `expected` number of rows and moves the parameters; everything after the noise is
post-processing.

Relation: add or remove one row of one owner. Number of rows: not public; `rate` and `expected` are constants
that are settled before.

Proof. Fix the parameters before a step, which come from noisy answers. Let S be the sum of the rounded
gradients f(x) of the taken rows, ||f(x)|| <= s := clip (SLACK + sqrt(P) GRADIENT_STEP / 2) in L2: the
norm is shortened in float64 to clip, and rounding moves each of P coordinates by half a step at most. A row
whose gradient is not finite adds nothing, whatever other rows are. With a row z added, all other coins being
independent of z's, S becomes S + f(z) with probability `rate` and stays S otherwise. S + noise of
deviation `noise_multiplier` s is therefore a Poisson-subsampled Gaussian mechanism of that multiplier over a
query of add-remove sensitivity 1 in units of s, the event `SubsampledGaussian(noise_multiplier, rate)`; a
step's query may depend on the answers before it, so the steps compose as `count` of them. That f(x)
depends on x and the parameters alone holds bit for bit: gradients are computed in blocks of one shape, in
which no operation mixes rows, and a test compares the bits of rows in other places and company.

The amplification needs that nobody learns whose rows were taken: coins come from each owner's own
`NoiseSource`, never from a public seed, and only sums leave. It protects against everybody who sees the
parameters; a trusted curator sees the exact sums. It does not hold under replace-one as stated: exchanging a
row is one removal and one addition, (2 epsilon, (1 + e^epsilon) delta) at most.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from fedkme.errors import ConfigError, DataError, MissingDependencyError
from fedkme.features.sums import SLACK
from fedkme.privacy.events import SubsampledGaussian
from fedkme.privacy.noise import NoiseSource
from fedkme.tables.schema import Numeric, Schema
from fedkme.tables.table import Table

try:
    import jax
    import jax.numpy as jnp
    import optax
    from jax.flatten_util import ravel_pytree
except ImportError:
    raise MissingDependencyError(
        "training an auto-encoder needs the packages jax and optax", "Run: pip install 'fedkme[release]'."
    ) from None

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]
Origin = Literal["private", "public", "published"]

GRADIENT_STEP = 2.0**-24
"""A clipped gradient is rounded to multiples of this part of the clip norm."""

_BLOCK_CELLS = 2**22
_LARGEST_BLOCK = 128
_LEAK = 0.1
_GAIN = 4.0
"""Codes start spread over [0, 1], and the decoder sees them centred: both train in fewer steps."""


@dataclass(frozen=True)
class AutoEncoder:
    """A perceptron to a code in [0, 1]^k and back to model space.

    Attributes:
        schema: of the rows; categories take part as one-hot / sqrt(2).
        code: k.
        hidden: layers of the encoder, in reverse order of the decoder. Few parameters train best with noise.
    """

    schema: Schema
    code: int = 16
    hidden: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        if self.code < 1 or any(width < 1 for width in self.hidden):
            raise ConfigError("a code or a layer has no width", "Correct the auto-encoder.")

    @property
    def code_schema(self) -> Schema:
        """Public domain of the codes, with the label of the rows."""
        column = Numeric(name="code", bounds=(0.0, 1.0), count=self.code)
        return Schema(columns=(column,), label=self.schema.label)

    @cached_property
    def _widths(self) -> list[int]:
        rows = self.schema.encoded_width
        return [rows, *self.hidden, self.code, *reversed(self.hidden), rows]

    @property
    def size(self) -> int:
        """P, parameters."""
        return sum(a * b + b for a, b in pairwise(self._widths))

    def initial(self, seed: int) -> FloatArray:
        """Parameters before training, (P,), from a public seed."""
        flat, _ = ravel_pytree(self._layers(seed))
        return np.asarray(flat, np.float64)

    def encode(self, parameters: Any, rows: jax.Array) -> jax.Array:
        """Codes of rows of model space, (b, n) -> (b, k) in [0, 1]."""
        half = len(self.hidden) + 1
        return jax.nn.sigmoid(_GAIN * self._through(self._tree(parameters)[:half], rows))

    def decode(self, parameters: Any, codes: jax.Array) -> jax.Array:
        """Rows of model space of codes, (b, k) -> (b, n), each in [0, 1]."""
        half = len(self.hidden) + 1
        spread = _GAIN * (codes - 0.5)
        line = self._through(self._tree(parameters)[half:], spread)
        # Clipped, so that a background of zeros is one; a small slope outside lets values come back.
        outside = _LEAK * (line - jax.lax.stop_gradient(line))
        rows: jax.Array = jnp.clip(line, 0.0, 1.0) + outside
        return rows

    def loss(self, parameters: jax.Array, row: jax.Array) -> jax.Array:
        """Squared error of one row, (n,), through its code."""
        again = self.decode(parameters, self.encode(parameters, row[None]))[0]
        return jnp.square(again - row).sum()

    def encoded(self, parameters: FloatArray, table: Table) -> Table:
        """A table of codes, which an owner makes for itself; labels as they are."""
        run = jax.jit(self.encode)
        step = max(1, _BLOCK_CELLS // self.schema.encoded_width)
        codes = [
            np.asarray(run(parameters, jnp.asarray(self.schema.encode(table.values[i : i + step]))))
            for i in range(0, len(table), step)
        ]
        values = np.concatenate(codes) if codes else np.zeros((0, self.code))
        return Table(np.clip(values.astype(np.float64), 0.0, 1.0), table.labels)

    def decoded(self, parameters: FloatArray, codes: Table) -> Table:
        """Rows in the schema's columns and units, of a table of codes."""
        soft = np.asarray(jax.jit(self.decode)(parameters, jnp.asarray(codes.values, jnp.float32)))
        return Table(self.schema.decode(soft), codes.labels)

    def _layers(self, seed: int) -> Any:
        keys = jax.random.split(jax.random.key(seed), len(self._widths))
        scales = [1.0] * (len(self._widths) - 2) + [0.2]  # rows start near 0, whatever the code
        return [
            (scale * jax.random.normal(key, (a, b)) * math.sqrt(1.0 / a), jnp.zeros(b))
            for key, scale, (a, b) in zip(keys[1:], scales, pairwise(self._widths), strict=True)
        ]

    @cached_property
    def _unravel(self) -> Callable[[Any], Any]:
        shapes: Callable[[Any], Any] = ravel_pytree(self._layers(0))[1]
        return shapes

    def _tree(self, parameters: Any) -> Any:
        return self._unravel(jnp.asarray(parameters, jnp.float32))

    @staticmethod
    def _through(layers: Sequence[Any], x: jax.Array) -> Any:
        for weight, bias in layers[:-1]:
            x = jax.nn.relu(x @ weight + bias)
        weight, bias = layers[-1]
        return x @ weight + bias


def gradient_sum(network: AutoEncoder, parameters: FloatArray, table: Table, clip: float) -> IntArray:
    """An owner's answer: the sum of its rows' clipped gradients, (P,) int64 in steps of clip * GRADIENT_STEP.

    Args:
        network: what is trained.
        parameters: now, (P,).
        table: the rows that the owner's coins took; may be empty.
        clip: largest L2 norm of a row's gradient; a longer one is shortened to it.

    Raises:
        DataError: rows that do not fit the schema.
    """
    network.schema.check(table, "rows to train on")
    total = np.zeros(network.size, dtype=np.int64)
    step = max(1, min(_LARGEST_BLOCK, _BLOCK_CELLS // network.size))
    encoded = network.schema.encode(table.values)
    for start in range(0, len(table), step):
        block = encoded[start : start + step]
        padded = np.zeros((step, block.shape[1]), np.float32)  # one shape, compiled once
        padded[: len(block)] = block
        gradients = np.asarray(_row_gradients(network, parameters, padded), np.float64)[: len(block)]
        norms = np.sqrt(np.einsum("ij,ij->i", gradients, gradients))
        known = np.isfinite(norms)
        gradients[~known] = 0.0
        scale = np.minimum(1.0 / clip, 1.0 / np.maximum(norms, 1e-300, where=known, out=np.ones(len(norms))))
        total += np.rint(gradients * (scale / GRADIENT_STEP)[:, None]).astype(np.int64).sum(axis=0)
    return total


def poisson_sample(rows: int, rate: float, coins: NoiseSource) -> IntArray:
    """Sample rows of an owner: each with probability `rate`, independently; secret."""
    return np.flatnonzero(coins.uniform(rows) < rate)


class PooledGradients(Protocol):
    """The curator's only view of rows."""

    def __call__(self, parameters: FloatArray, step: int) -> IntArray:
        """The owners' sums of a step added up, (P,) int64."""
        ...


@dataclass(frozen=True)
class PrivateTraining:
    """DP-SGD, settled before an owner reads a row.

    Attributes:
        steps: T.
        rate: probability with which a row is taken in a step.
        expected: rows in a step, a public constant that sums are divided by.
        noise_multiplier: deviation of the noise over the sensitivity of a step.
        clip: norm of gradients.
        learning_rate: of momentum, for gradients of norm `clip` at most; post-processing.
    """

    steps: int
    rate: float
    expected: float
    noise_multiplier: float
    clip: float = 1.0
    learning_rate: float = 0.3

    def __post_init__(self) -> None:
        values = (self.expected, self.noise_multiplier, self.clip, self.learning_rate)
        if not (self.steps >= 1 and 0 < self.rate <= 1 and all(v > 0 and math.isfinite(v) for v in values)):
            raise ConfigError(
                "private training needs steps, a rate in (0, 1] and positive numbers",
                "Correct the settings of the auto-encoder.",
            )

    @property
    def event(self) -> SubsampledGaussian:
        """All steps, under add-remove; see the proof in the module."""
        return SubsampledGaussian(self.noise_multiplier, self.rate, self.steps)

    def sensitivity(self, size: int) -> float:
        """Add-remove sensitivity of a step's sum of P = `size` coordinates, in the loss's units."""
        return self.clip * (SLACK + 0.5 * math.sqrt(size) * GRADIENT_STEP)


Told = Callable[[int, int, float], None]
"""Steps done, steps in all, length of the noisy mean gradient (noise included: no private number)."""


def _silent(done: int, steps: int, length: float) -> None:
    """Report no progress."""


def train_private(
    network: AutoEncoder,
    training: PrivateTraining,
    pooled_gradients: PooledGradients,
    noise: NoiseSource,
    seed: int,
    progress: Told = _silent,
) -> FloatArray:
    """The curator's loop: ask, add noise once, move; (P,) parameters, paid for by `training.event`.

    The seed is public, of the initial parameters; `progress` is told about every tenth of the steps.

    Raises:
        DataError: an answer of another shape.
    """
    parameters = network.initial(seed)
    # Not Adam: it moves every parameter by a full step, those whose gradient is all noise too.
    optimiser = optax.sgd(optax.cosine_decay_schedule(training.learning_rate, training.steps, 0.05), 0.9)
    state = optimiser.init(parameters)
    unit = training.clip * GRADIENT_STEP
    sigma = training.noise_multiplier * training.sensitivity(network.size)
    for step in range(training.steps):
        answer = pooled_gradients(parameters, step)
        if answer.shape != (network.size,) or answer.dtype.kind not in "iu":
            raise DataError("pooled gradients are not one integer a parameter", "Update the owners.")
        noisy = (answer + noise.gaussian(sigma / unit, network.size)) * unit
        mean = noisy / training.expected
        updates, state = optimiser.update(mean, state)
        parameters = parameters + np.asarray(updates, np.float64)
        if (step + 1) % max(1, training.steps // 10) == 0:
            progress(step + 1, training.steps, float(np.linalg.norm(mean)))
    return parameters


def train_openly(
    network: AutoEncoder, rows: Table, steps: int, seed: int, batch: int = 256, learning_rate: float = 5e-3
) -> FloatArray:
    """Parameters trained without noise: on public rows, or, as `published`, on private ones."""
    encoded = jnp.asarray(network.schema.encode(rows.values))
    optimiser = optax.adam(optax.cosine_decay_schedule(learning_rate, steps, 0.05))

    def mean_loss(parameters: jax.Array, at: jax.Array) -> jax.Array:
        return jax.vmap(network.loss, (None, 0))(parameters, encoded[at]).mean()

    @jax.jit
    def advance(parameters: jax.Array, state: Any, key: jax.Array) -> tuple[jax.Array, Any]:
        at = jax.random.randint(key, (batch,), 0, len(encoded))
        updates, state = optimiser.update(jax.grad(mean_loss)(parameters, at), state)
        return parameters + updates, state

    parameters = jnp.asarray(network.initial(seed), jnp.float32)
    state = optimiser.init(parameters)
    for key in jax.random.split(jax.random.key(seed), steps):
        parameters, state = advance(parameters, state, key)
    return np.asarray(parameters, np.float64)


@dataclass(frozen=True, eq=False)
class GradientOwner:
    """An owner in one process: throws its coins and answers with its sum."""

    network: AutoEncoder
    rows: Table
    rate: float
    clip: float
    coins: NoiseSource

    def answer(self, parameters: FloatArray) -> IntArray:
        """The sum over the rows that this step's coins took."""
        taken = poisson_sample(len(self.rows), self.rate, self.coins)
        return gradient_sum(self.network, parameters, self.rows.take(taken), self.clip)


def pooled_by(owners: Iterable[GradientOwner]) -> PooledGradients:
    """The pool of owners in one process; sums of integers, so their order does not matter."""
    listed = tuple(owners)

    def ask(parameters: FloatArray, step: int) -> IntArray:
        total: IntArray = np.sum([owner.answer(parameters) for owner in listed], axis=0, dtype=np.int64)
        return total

    return ask


def _gradients(network: AutoEncoder, parameters: jax.Array, rows: jax.Array) -> jax.Array:
    found: jax.Array = jax.vmap(jax.grad(network.loss), (None, 0))(parameters, rows)
    return found


_compiled_gradients = jax.jit(_gradients, static_argnums=0)


def _row_gradients(network: AutoEncoder, parameters: FloatArray, rows: NDArray[np.float32]) -> jax.Array:
    found: jax.Array = _compiled_gradients(network, jnp.asarray(parameters, jnp.float32), jnp.asarray(rows))
    return found
