"""Faults of noise, of released means and of feature maps."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedkme.arrays import FloatArray
from fedkme.features.fixed_point import FEATURE_UNIT
from fedkme.features.fourier import FourierSpec, RandomFourier
from fedkme.privacy.events import MwemCall
from fedkme.privacy.means import GaussianMean, MwemMean
from fedkme.privacy.mwem import quantize
from fedkme.privacy.noise import NoiseSource


class ScaledNoise:
    """A source whose Laplace and Gaussian scales are wrong by a factor."""

    def __init__(self, source: NoiseSource, factor: float) -> None:
        self._source = source
        self._factor = factor

    def uniform(self, size: int) -> FloatArray:
        return self._source.uniform(size)

    def laplace(self, scale: float, size: int) -> FloatArray:
        return self._source.laplace(self._factor * scale, size)

    def gaussian(self, scale: float, size: int) -> FloatArray:
        return self._source.gaussian(self._factor * scale, size)


class ReplayedNoise(ScaledNoise):
    """A source that gives the same vector again."""

    def __init__(self, source: NoiseSource) -> None:
        super().__init__(source, 1.0)
        self._drawn: dict[tuple[float, int], FloatArray] = {}

    def gaussian(self, scale: float, size: int) -> FloatArray:
        if (scale, size) not in self._drawn:
            self._drawn[scale, size] = super().gaussian(scale, size)
        return self._drawn[scale, size]


class HalfLaplace(MwemMean):
    def __init__(self, dimension: int, noise: NoiseSource, **settings: Any) -> None:
        super().__init__(dimension, ScaledNoise(noise, 0.5), **settings)


class RereadSeedBudget(MwemMean):
    """The first release that reads rows takes the seed set's budget, seed set or not."""

    def release(self) -> FloatArray:
        return super().release() if self.size else np.zeros(self._index_sum.size)


class UndeclaredIterations(MwemMean):
    """Declares one iteration of a call for the ledger."""

    @property
    def cost(self) -> Any:
        honest = super().cost
        event = honest.event
        assert isinstance(event, MwemCall)
        return type(honest)(MwemCall(event.epsilon, 1), honest.sensitivity)


def round_up(values: FloatArray, grid_step: float, noise: NoiseSource) -> NDArray[np.int64]:
    """A quantizer that never rounds down."""
    return quantize(np.minimum(values + 0.5 * grid_step, 1.0), grid_step, noise)


def gaussian_with(wrap: Callable[[NoiseSource], NoiseSource]) -> type[GaussianMean]:
    class Faulty(GaussianMean):
        def __init__(self, dimension: int, noise: NoiseSource, **settings: Any) -> None:
            super().__init__(dimension, wrap(noise), **settings)

    return Faulty


class BatchMean(GaussianMean):
    """The mean of the batches' means, with noise for a mean over all rows."""

    def __init__(self, dimension: int, noise: NoiseSource, **settings: Any) -> None:
        super().__init__(dimension, noise, **settings)
        self._means: list[FloatArray] = []

    def add(self, rows: FloatArray) -> None:
        super().add(rows)
        if len(rows):
            self._means.append(rows.mean(axis=0))

    def release(self) -> FloatArray:
        honest = super().release()
        if not self._means:
            return honest
        return np.asarray(honest - self._steps * FEATURE_UNIT / self.size + np.mean(self._means, axis=0))


class NormOne(RandomFourier):
    """The printed form, as if its norm were 1."""

    def __init__(self, spec: FourierSpec) -> None:
        super().__init__(spec)
        self.norm_bound = 1.0


class AwayFromZero(RandomFourier):
    """Rounds features away from zero, which makes norms longer."""

    def fixed_point(self, rows: NDArray[np.floating]) -> NDArray[np.int16]:
        exact = self.normalised(rows) / FEATURE_UNIT
        return np.copysign(np.ceil(np.abs(exact)), exact).astype(np.int16)


class PrivateOneHot:
    """One-hot over the categories that an owner happens to hold."""

    def __init__(self, rows: NDArray[Any]) -> None:
        self._held = np.unique(rows[:, 0])

    def encode(self, values: NDArray[Any]) -> NDArray[np.float32]:
        hot = math.sqrt(0.5) * (values[:, :1] == self._held)
        return np.concatenate([hot, values[:, 1:] / 100.0], axis=1).astype(np.float32)


class IntegerCategories:
    """A category as its index: some are further apart than others."""

    def encode(self, values: NDArray[Any]) -> NDArray[np.float32]:
        return np.stack([values[:, 0] / 3.0, values[:, 1] / 100.0], axis=1).astype(np.float32)
