"""Convolutional generator of images, as in the code of DP-MERF (Harder 2021)."""

import math
from dataclasses import dataclass, field

import jax
import jax.numpy as jnp

from curator.releases.networks import Parameters, layer_of, normalised
from fedkme.errors import ConfigError
from fedkme.tables.schema import Schema


@dataclass(frozen=True)
class ImageNetwork:
    """Convolutional generator of DP-MERF: two dense layers, then twice (bilinear x2, 5x5 convolution).

    Images are square, with one channel and a side that is a multiple of 4: side * side numeric columns.
    """

    schema: Schema
    classes: int = 10
    code: int = 5
    hidden: int = 200
    channels: int = 16
    _side: int = field(init=False, default=0)

    def __post_init__(self) -> None:
        side = math.isqrt(self.schema.width)
        if side * side != self.schema.width or side % 4 or self.schema.encoded_width != self.schema.width:
            cause = f"{self.schema.width} columns are no square image with a side that is a multiple of 4"
            raise ConfigError(cause, "Use the generator for tables.")
        object.__setattr__(self, "_side", side)

    def initial(self, key: jax.Array) -> Parameters:
        """He-normal weights."""
        small = self._side // 4
        shapes = [
            (self.code + self.classes, self.hidden),
            (self.hidden, self.channels * small * small),
            (5, 5, self.channels, self.channels // 2),
            (5, 5, self.channels // 2, 1),
        ]
        layers = []
        for i, shape in enumerate(shapes):
            scale = math.sqrt(2.0 / math.prod(shape[:-1]))
            layers.append(layer_of(jax.random.fold_in(key, i), shape, scale))
        return layers

    def logits(self, parameters: Parameters, code: jax.Array, label: jax.Array) -> jax.Array:
        """Soft rows before their heads, (b, encoded width)."""
        first, second, third, last = parameters
        small = self._side // 4
        x = jnp.concatenate([code, label], axis=1)
        x = jax.nn.relu(normalised(x @ first["w"]) * first["g"] + first["b"])
        x = jax.nn.relu(normalised(x @ second["w"]) * second["g"] + second["b"])
        x = x.reshape(len(x), small, small, self.channels)
        for layer, side in ((third, 2 * small), (last, 4 * small)):
            x = jax.image.resize(x, (x.shape[0], side, side, x.shape[3]), "bilinear")
            x = jax.lax.conv_general_dilated(
                x, layer["w"], (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC")
            )
            x = x + layer["b"]
            if layer is third:
                x = jax.nn.relu(x)
        return x.reshape(x.shape[0], self.schema.width)
