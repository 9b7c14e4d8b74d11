"""Generator network for tables, from noise and a class to soft rows.

A *soft row* is a point of the schema's model space: numbers in [0, 1] by the public bounds, and for each
category a vector of probabilities, divided by sqrt(2).
"""

import math
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Protocol

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from fedkme.arrays import FloatArray
from fedkme.tables.schema import Schema

Parameters = Any
"""Tree of arrays."""

_LEAK = 0.05
_HOT = math.sqrt(0.5)  # a category's coordinate in model space, see fedkme.tables.schema


class Network(Protocol):
    """Network from noise and a class to soft rows."""

    @property
    def schema(self) -> Schema:
        """Schema of the rows."""

    @property
    def classes(self) -> int:
        """C, number of classes; 1 without a label."""

    @property
    def code(self) -> int:
        """Number of noise inputs of a row."""

    def initial(self, key: jax.Array) -> Parameters:
        """Parameters before training."""

    def logits(self, parameters: Parameters, code: jax.Array, label: jax.Array) -> jax.Array:
        """Soft rows before their heads, (b, encoded width), of noise (b, code) and one-hot classes (b, C)."""


@dataclass(frozen=True)
class TableNetwork:
    """Perceptron with layer normalisation and the heads of `soften`."""

    schema: Schema
    classes: int = 1
    code: int = 16
    hidden: tuple[int, ...] = (256, 256)

    def initial(self, key: jax.Array) -> Parameters:
        """He-normal weights; the last layer starts small, so that all categories start equally likely."""
        widths = [self.code + self.classes, *self.hidden, self.schema.encoded_width]
        layers = []
        for i, (fan_in, fan_out) in enumerate(pairwise(widths)):
            scale = math.sqrt(2.0 / fan_in) * (0.3 if i == len(widths) - 2 else 1.0)
            layers.append(layer_of(jax.random.fold_in(key, i), (fan_in, fan_out), scale))
        return layers

    def logits(self, parameters: Parameters, code: jax.Array, label: jax.Array) -> jax.Array:
        """Soft rows before their heads, (b, encoded width)."""
        x = jnp.concatenate([code, label], axis=1)
        for layer in parameters[:-1]:
            x = jax.nn.relu(normalised(x @ layer["w"]) * layer["g"] + layer["b"])
        logits: jax.Array = x @ parameters[-1]["w"] + parameters[-1]["b"]
        return logits


def layer_of(key: jax.Array, shape: tuple[int, ...], scale: float) -> dict[str, NDArray[np.float32]]:
    """Make a layer: normal weights of a scale, offsets of 0 and gains of 1."""
    weights = np.float32(scale) * np.asarray(jax.random.normal(key, shape))
    return {"w": weights, "b": np.zeros(shape[-1], np.float32), "g": np.ones(shape[-1], np.float32)}


def normalised(x: jax.Array) -> jax.Array:
    """Scale each row to mean 0 and variance 1."""
    centred = x - x.mean(axis=1, keepdims=True)
    return centred * jax.lax.rsqrt((centred * centred).mean(axis=1, keepdims=True) + 1e-5)


def soften(
    schema: Schema, logits: jax.Array, gumbel: jax.Array | None = None, temperature: float = 1.0
) -> jax.Array:
    """Apply the heads: a clipped line for a number; for a category softmax, or with `gumbel` a hard sample.

    A clipped line puts any share of rows exactly on a bound, as in columns such as `capital-gain`. A sigmoid
    only comes close to a bound, and a decision tree then tells classes apart by the distance.

    Args:
        schema: schema of the rows.
        logits: soft rows before the heads, (b, encoded width).
        gumbel: standard Gumbel noise of the same shape, or None.
        temperature: temperature of the softmax whose gradient the samples take (straight-through).

    Returns:
        Soft rows, (b, encoded width).
    """
    parts, start = [], 0
    for levels, width in (part for column in schema.columns for part in column.parts):
        part = logits[:, start : start + width]
        start += width
        if not levels:
            parts.append(_clipped(part))
        elif gumbel is None:
            parts.append(_HOT * jax.nn.softmax(part, axis=1))
        else:
            noisy = part + gumbel[:, start - width : start]
            smooth = jax.nn.softmax(noisy / temperature, axis=1)
            hard = jax.nn.one_hot(noisy.argmax(axis=1), width)
            parts.append(_HOT * (smooth + jax.lax.stop_gradient(hard - smooth)))
    return jnp.concatenate(parts, axis=1)


def _clipped(logits: jax.Array) -> jax.Array:
    """Compute clip(1/2 + x/4, 0, 1), with a small gradient outside so that a row can leave a bound."""
    line = 0.5 + 0.25 * logits
    leak = _LEAK * (line - jax.lax.stop_gradient(line))
    return jnp.clip(line, 0.0, 1.0) + leak


def decode(schema: Schema, soft: NDArray[Any], generator: np.random.Generator) -> FloatArray:
    """Convert soft rows, (b, encoded width), to rows in the schema's columns, (b, c) float64.

    A category, and whether a number is an atom, is drawn by its probabilities.
    """
    points, start = soft.astype(np.float64), 0
    for levels, width in (part for column in schema.columns for part in column.parts):
        if levels:
            part = points[:, start : start + width]
            cumulated = part.cumsum(axis=1)
            drawn = generator.random((len(soft), 1)) * cumulated[:, -1:]
            part[:] = (cumulated < drawn).sum(axis=1, keepdims=True).clip(0, width - 1) == np.arange(width)
        start += width
    return schema.decode(points)
