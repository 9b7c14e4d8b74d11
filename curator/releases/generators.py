"""Training of generator networks against released embeddings; all of it is post-processing.

A network (curator.releases.networks) turns noise and a class into soft rows. Training minimises the sum over
targets of

    weight * || (released - generated) / column scale ||^2                (DP-MERF eq. 5; DP-HP eq. 16)

where both are (J, C) mean embeddings, one column per class. Releases come in as arrays: no function here
takes a private row.

Two choices differ from the papers' code. First, a step estimates the objective by the inner product of the
errors of two independent half batches, which has no bias. The norm of one batch's error adds the batch's
variance, and the gradient of that norm narrows the generated distribution. Second, categories are fed in as
probabilities: features that are linear in each one-hot block (the one-hot part of DP-MERF, products over
different columns) then have the exact expectation over the draw of the category. Other features need
`gumbel`, samples with a straight-through gradient.
"""

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

import jax
import jax.numpy as jnp
import numpy as np
import optax
from numpy.typing import NDArray

from curator.releases.networks import Network, Parameters, decode, soften
from curator.releases.progress import Progress, Report, silent
from fedkme.arrays import FloatArray
from fedkme.errors import ConfigError, DataError
from fedkme.features.maps import EmbeddingMap
from fedkme.tables.table import Table

Embed = Callable[[jax.Array, jax.Array], jax.Array]
"""Mean embedding of soft rows (b, n) with shares (b, C), row i counting shares[i, c] in column c: (J, C)."""

_SAMPLE_ROWS = 4096
_TEMPERATURE = 0.5  # of the Gumbel softmax
_TELL_S = 2.0


@dataclass(frozen=True)
class Training:
    """Settings of training, which do not affect privacy.

    Attributes:
        steps: optimiser steps.
        batch: rows of a step, in both halves together.
        learning_rate: Adam's learning rate at the start; it falls to a hundredth along a cosine.
        categories: `expectation` or `gumbel`, see the module.
        reports: number of progress reports.
        seed: seed of the initial parameters and of every draw.
    """

    steps: int = 2000
    batch: int = 1024
    learning_rate: float = 3e-3
    categories: Literal["expectation", "gumbel"] = "expectation"
    reports: int = 10
    seed: int = 0


@dataclass(frozen=True, eq=False)
class Target:
    """Released embedding, with the function that embeds generated rows in the same way.

    Attributes:
        released: (J, C), finite.
        embed: differentiable mean embedding.
        weight: weight of this target in the objective, gamma for the product kernel of DP-HP.
        column_scale: (C,) positive; errors of column c are divided by it. DP-MERF divides by class weights.
        floor: expected squared norm of the noise in `released`, for progress; 0 if unknown.
    """

    released: FloatArray
    embed: Embed
    weight: float = 1.0
    column_scale: FloatArray | None = None
    floor: float = 0.0

    def __post_init__(self) -> None:
        if self.released.ndim != 2 or not np.isfinite(self.released).all():
            cause = "a released embedding is not a finite (J, C) array"
            raise DataError(cause, "Release it again; see docs/errors.md.")


def embedding_by(embedding: EmbeddingMap) -> Embed:
    """Make the function that embeds generated rows by a feature map."""

    def embed(rows: jax.Array, shares: jax.Array) -> jax.Array:
        features: jax.Array = embedding.of_model(rows, jnp)
        return features.T @ shares

    return embed


@dataclass(frozen=True, eq=False)
class Trained:
    """Trained generator, which draws any number of rows.

    Attributes:
        network: form of the network.
        parameters: weights of the network.
        masses: (C,) share of every class, summing to at most about 1.
        objectives: (reports + 1,) estimates of the objective, the first before training.
    """

    network: Network
    parameters: Parameters
    masses: FloatArray
    objectives: tuple[float, ...]

    def sample(self, rows: int, seed: int, shares: FloatArray | None = None) -> Table:
        """Draw rows in the schema's columns, equal for equal seeds on one machine.

        Classes have `shares`, (C,), by default the released shares.
        """
        if rows < 1:
            raise ConfigError(f"{rows} rows cannot be generated", "Ask for at least one row.")
        share = self.masses if shares is None else np.asarray(shares, dtype=np.float64)
        share = share / share.sum()
        generator = np.random.default_rng(np.random.SeedSequence([seed, 0x5A]))
        schema, classes = self.network.schema, self.network.classes
        labels = generator.choice(classes, size=rows, p=share)
        values = np.empty((rows, schema.width))
        for start in range(0, rows, _SAMPLE_ROWS):
            part = labels[start : start + _SAMPLE_ROWS]
            padded = np.resize(part, _SAMPLE_ROWS)  # one shape, compiled once
            code = generator.standard_normal((_SAMPLE_ROWS, self.network.code)).astype(np.float32)
            soft = _soft_rows(self.network, self.parameters, jnp.asarray(code), jnp.asarray(padded))
            values[start : start + len(part)] = decode(schema, np.asarray(soft)[: len(part)], generator)
        return Table(values, labels.astype(np.int64) if classes > 1 else None)


@partial(jax.jit, static_argnums=0)
def _soft_rows(network: Network, parameters: Parameters, code: jax.Array, label: jax.Array) -> jax.Array:
    hot = jax.nn.one_hot(label, network.classes)
    return soften(network.schema, network.logits(parameters, code, hot))


WORSE = 1.1
"""Factor on the best reported objective: if the last objective is larger, training returns the best
parameters."""


def train(
    network: Network,
    targets: Sequence[Target],
    masses: FloatArray | None,
    training: Training,
    progress: Progress = silent,
    stepped: Callable[[int], None] = lambda _: None,
) -> Trained:
    """Fit a network to released embeddings, all with the network's C columns.

    `masses` is the share of each class, (C,), released or public; without `masses` the shares are learnt with
    the network. `stepped` is called every other second with the number of steps done, because a tenth of the
    steps, after which `progress` is called, may take minutes. An error that `stepped` raises ends the
    training.

    Raises:
        ConfigError: no target, or columns that do not match.
        DataError: the objective is not finite.
    """
    classes = network.classes
    if not targets or any(target.released.shape[1] != classes for target in targets):
        raise ConfigError("the targets do not have one column per class", "Train with the released layout.")
    fixed = None if masses is None else np.maximum(np.asarray(masses, dtype=np.float64), 1e-9)
    key = jax.random.key(training.seed)
    # Constants are numpy's: JAX compiles a program for each of its own, a tenth of a second long.
    drawn = network.initial(jax.random.fold_in(key, 0))
    parameters = {"network": drawn, "mass": np.zeros(classes, np.float32)}
    optimiser = optax.adam(optax.cosine_decay_schedule(training.learning_rate, training.steps, 0.01))
    objective, step = _compiled(network, targets, fixed, training, optimiser)

    def trained(parameters: Parameters) -> Trained:
        share = fixed
        if share is None:
            odds = np.exp(np.asarray(parameters["mass"], dtype=np.float64))
            share = odds / odds.sum()
        return Trained(network, parameters["network"], share, tuple(seen))

    probe = jax.random.fold_in(key, 1)
    seen = [float(objective(parameters, probe))]
    floor = sum(target.weight * target.floor for target in targets)
    state, steps_done, best = jax.jit(optimiser.init)(parameters), 0, (seen[0], parameters)
    stops = sorted({math.ceil(training.steps * i / training.reports) for i in range(1, training.reports + 1)})
    last_call = time.monotonic()
    for stop in stops:
        while steps_done < stop:  # XLA computes convolutions five times as slowly inside a scan
            parameters, state = step(parameters, state, key, steps_done + 2)
            steps_done += 1
            if time.monotonic() >= last_call + _TELL_S:
                stepped(steps_done)
                last_call = time.monotonic()
        seen.append(float(objective(parameters, probe)))
        if not math.isfinite(seen[-1]):
            raise DataError("the training objective is not finite", "Lower the learning rate.")
        if seen[-1] < best[0]:
            best = (seen[-1], parameters)
        now = trained(parameters)
        progress(Report(steps_done, training.steps, seen[0], seen[-1], floor, partial(now.sample, seed=0)))
    # Long trainings of image generators may drift away from their best parameters; going back costs nothing.
    return trained(best[1] if seen[-1] > WORSE * best[0] > 0 else parameters)


def _compiled(
    network: Network,
    targets: Sequence[Target],
    fixed: FloatArray | None,
    training: Training,
    optimiser: optax.GradientTransformation,
) -> tuple[Callable[..., jax.Array], Callable[..., tuple[Parameters, Any]]]:
    """Compile the objective of a batch, and the optimiser's step by a key and the step's number."""
    classes = network.classes
    labels = _labels(classes, fixed, max(training.batch // 2, 2 * classes))
    hot = jnp.asarray(np.eye(classes, dtype=np.float32)[labels])
    per_class = np.bincount(labels, minlength=classes).astype(np.float32)
    constants = [
        (
            jnp.asarray(target.released.astype(np.float32)),
            jnp.asarray(
                np.ones(classes, np.float32)
                if target.column_scale is None
                else (1.0 / target.column_scale).astype(np.float32)
            ),
            target,
        )
        for target in targets
    ]

    def errors(parameters: Parameters, key: jax.Array) -> list[jax.Array]:
        codes, noise = jax.random.split(key)
        code = jax.random.normal(codes, (len(labels), network.code))
        logits = network.logits(parameters["network"], code, hot)
        gumbel = jax.random.gumbel(noise, logits.shape) if training.categories == "gumbel" else None
        rows = soften(network.schema, logits, gumbel, _TEMPERATURE)
        mass = jax.nn.softmax(parameters["mass"]) if fixed is None else fixed.astype(np.float32)
        shares = hot * (mass / per_class)
        return [(released - target.embed(rows, shares)) * scale for released, scale, target in constants]

    def loss(parameters: Parameters, key: jax.Array) -> jax.Array:
        halves = jax.vmap(errors, (None, 0))(parameters, jax.random.split(key))
        parts = [t.weight * (error[0] * error[1]).sum() for error, t in zip(halves, targets, strict=True)]
        return sum(parts, jnp.zeros(()))

    @jax.jit
    def step(parameters: Parameters, state: Any, key: jax.Array, number: int) -> tuple[Parameters, Any]:
        key = jax.random.fold_in(key, number)
        updates, state = optimiser.update(jax.grad(loss)(parameters, key), state, parameters)
        return optax.apply_updates(parameters, updates), state

    @jax.jit
    def objective(parameters: Parameters, key: jax.Array) -> jax.Array:
        drawn: jax.Array = jax.lax.map(partial(loss, parameters), jax.random.split(key, 4))
        return drawn.mean()

    return objective, step


def _labels(classes: int, masses: FloatArray | None, rows: int) -> NDArray[np.int64]:
    """Classes of a batch: half evenly, half by mass, so that a rare class has rows in every batch."""
    share = np.full(classes, 1.0 / classes) if masses is None else masses / masses.sum()
    counts = np.maximum(1, np.floor(rows * (0.5 * share + 0.5 / classes))).astype(np.int64)
    counts[0] += max(0, rows - int(counts.sum()))
    return np.repeat(np.arange(classes), counts)
