"""`releases`: a training step of a generator against the same in plain jax and, where it is there, torch.

The generator is the default one for tables, of 14 numbers, against 2,000 Fourier features (DP-MERF). The
plain step knows no schema, targets or classes: one function of arrays, compiled as anybody would. Both draw
the same numbers, so that both end with the same parameters, but for rounding. CPU time of all threads.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from importlib.util import find_spec
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
from numpy.typing import NDArray

from curator.releases.generators import Target, Trained, Training, embedding_by, train
from curator.releases.networks import Parameters, TableNetwork
from curator.releases.progress import Report
from fedkme.features.fourier_map import FourierMap, FourierMapSpec
from lab.bench.costs import COLUMNS, FEATURES
from lab.bench.result import BenchSettings, Cell, Result
from lab.bench.synthetic import synthetic_schema

_NETWORK = TableNetwork(synthetic_schema(COLUMNS))
PHI = FourierMap(FourierMapSpec(dimension=FEATURES, gamma=1.0, seed=0), _NETWORK.schema)
Step = Callable[[Parameters, Any, jax.Array], tuple[Parameters, Any]]


def measure_releases(settings: BenchSettings) -> Result:
    """A table of one row."""
    training = Training(steps=2 * settings.training_steps, reports=2)
    steps: dict[str, Callable[[], float]] = {
        "ours": lambda: ours_in(training)[1],
        "plain jax": lambda: plain_in(training)[1],
    }
    if find_spec("torch"):
        from lab.bench.answers.plain_torch import torch_in

        start = _NETWORK.initial(jax.random.key(training.seed))
        steps["plain torch"] = lambda: torch_in(start, PHI.omega, released()[:, 0], training)
    blocks = np.array([[1e3 * step() for step in steps.values()] for _ in range(settings.blocks)])
    ms = dict(zip(steps, blocks.T, strict=True))
    row: dict[str, Cell] = {"rows of a step": training.batch, "backend": jax.default_backend()}
    row |= {f"{what} CPU ms": float(np.median(times)) for what, times in ms.items()}
    others = list(steps)[1:]
    row |= {f"ours / {what}": float(np.median(ms["ours"] / ms[what])) for what in others}
    if "plain torch" not in steps:
        row["ours / plain torch"] = "torch is not installed"
    return Result("releases", f"a training step: {COLUMNS} columns, {FEATURES} features", [row])


def released() -> NDArray[np.float64]:
    """The mean embedding to be met, (J, 1)."""
    points = np.random.default_rng(0).beta(2.0, 5.0, (2000, COLUMNS))
    mean: NDArray[np.float64] = np.mean(PHI.of_model(points), axis=0, keepdims=True)
    return mean.T


def ours_in(training: Training) -> tuple[Trained, float]:
    """Train; CPU seconds of a step of the second half, as the first compiles it."""
    reports: list[float] = []

    def heard(report: Report) -> None:
        reports.append(time.process_time())

    target = Target(released(), embedding_by(PHI))
    trained = train(_NETWORK, [target], np.ones(1), training, heard)
    return trained, (reports[1] - reports[0]) / (training.steps // 2)


def plain_in(training: Training) -> tuple[Parameters, float]:
    """Train in plain jax; CPU seconds of a step likewise."""
    key, half = jax.random.key(training.seed), training.steps // 2
    parameters = _NETWORK.initial(jax.random.fold_in(key, 0))
    optimiser = optax.adam(optax.cosine_decay_schedule(training.learning_rate, training.steps, 0.01))
    step, state = _plain_step(training.batch // 2, optimiser), optimiser.init(parameters)
    for number in range(training.steps):
        if number == half:
            np.asarray(parameters[0]["w"])  # all before it is done
            began = time.process_time()
        parameters, state = step(parameters, state, jax.random.fold_in(key, number + 2))
    np.asarray(parameters[0]["w"])
    return parameters, (time.process_time() - began) / half


def error(parameters: Parameters, code: jax.Array) -> jax.Array:
    """Error of the mean features of rows that are generated from a code, (J,)."""
    omega = jnp.asarray(PHI.omega, dtype=jnp.float32)
    x = jnp.concatenate([code, jnp.ones((len(code), 1))], axis=1)
    for layer in parameters[:-1]:
        x = x @ layer["w"]
        x = x - x.mean(axis=1, keepdims=True)
        x = x * jax.lax.rsqrt((x * x).mean(axis=1, keepdims=True) + 1e-5)
        x = jax.nn.relu(x * layer["g"] + layer["b"])
    line = 0.5 + 0.25 * (x @ parameters[-1]["w"] + parameters[-1]["b"])
    points = jnp.clip(line, 0.0, 1.0) + 0.05 * (line - jax.lax.stop_gradient(line))
    angles = points @ omega
    features = jnp.concatenate([jnp.cos(angles), jnp.sin(angles)], axis=1) * omega.shape[1] ** -0.5
    missed: jax.Array = jnp.asarray(released()[:, 0], dtype=jnp.float32) - features.mean(axis=0)
    return missed


def _plain_step(rows: int, optimiser: optax.GradientTransformation) -> Step:
    def loss(parameters: Parameters, key: jax.Array) -> jax.Array:
        codes = [
            jax.random.normal(jax.random.split(k)[0], (rows, _NETWORK.code)) for k in jax.random.split(key)
        ]
        return jnp.vdot(*(error(parameters, code) for code in codes))

    @jax.jit
    def step(parameters: Parameters, state: Any, key: jax.Array) -> tuple[Parameters, Any]:
        updates, state = optimiser.update(jax.grad(loss)(parameters, key), state, parameters)
        return optax.apply_updates(parameters, updates), state

    return step
