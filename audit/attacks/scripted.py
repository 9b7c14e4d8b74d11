"""Noise that an audit controls or counts, in place of a mechanism's own."""

from __future__ import annotations

from collections import Counter

import numpy as np

from fedkme.arrays import FloatArray
from fedkme.privacy.noise import NoiseSource


class ScriptedNoise:
    """Deterministic noise: every draw is `units` times its scale, every coin is `coin`."""

    def __init__(self, units: float = 0.0, coin: float = 0.0) -> None:
        self._units = units
        self._coin = coin

    def uniform(self, size: int) -> FloatArray:
        """`coin`, (size,)."""
        return np.full(size, self._coin)

    def laplace(self, scale: float, size: int) -> FloatArray:
        """`units` times the scale, (size,)."""
        return np.full(size, self._units * scale)

    def gaussian(self, scale: float, size: int) -> FloatArray:
        """`units` times the scale, (size,)."""
        return np.full(size, self._units * scale)


class TalliedNoise:
    """Noise of another source, with a tally of the draws.

    Attributes:
        laplace_draws: count of numbers by scale.
        gaussian_calls: count of vectors by scale.
    """

    def __init__(self, source: NoiseSource) -> None:
        self._source = source
        self.laplace_draws: Counter[float] = Counter()
        self.gaussian_calls: Counter[float] = Counter()

    def uniform(self, size: int) -> FloatArray:
        """Draw from the source."""
        return self._source.uniform(size)

    def laplace(self, scale: float, size: int) -> FloatArray:
        """Draw from the source, and count."""
        self.laplace_draws[scale] += size
        return self._source.laplace(scale, size)

    def gaussian(self, scale: float, size: int) -> FloatArray:
        """Draw from the source, and count."""
        self.gaussian_calls[scale] += 1
        return self._source.gaussian(scale, size)
