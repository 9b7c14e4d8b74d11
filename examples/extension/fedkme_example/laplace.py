"""Laplace noise on every coordinate of the mean of h1.

**Neighbouring relation** one row replaced by another; the number of rows is public. **Sensitivity** a row is
in [-1, 1]^d, so the sum moves by at most 2 d in L1, at every release. **Claim** a release with noise of scale
2 d / epsilon is (epsilon, 0)-DP (Dwork 2006, proposition 1). Rows are cut to fixed point towards 0 when they
are added, so that the sum is whole in units of 2^-14, as a secure source of noise wants it.
"""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field
from typing_extensions import override

from fedkme.errors import DataError
from fedkme.features.fixed_point import FEATURE_UNIT, quantize_features
from fedkme.privacy.events import Laplace
from fedkme.privacy.means import Cost
from fedkme.privacy.noise import NoiseSource
from fedkme.privacy.settings import MechanismSettings


class LaplaceSettings(MechanismSettings):
    """Laplace noise on every release."""

    mechanism: Literal["laplace"] = "laplace"
    epsilon: float = Field(1.0, gt=0)
    """Epsilon of one release."""

    @override
    def make(self, dimension: int, norm_bound: float, releases: int, noise: NoiseSource) -> LaplaceMean:
        return LaplaceMean(dimension, noise, self.epsilon)


class LaplaceMean:
    """Means released with Laplace noise."""

    def __init__(self, dimension: int, noise: NoiseSource, epsilon: float) -> None:
        self._noise = noise
        self._scale = 2.0 * dimension / epsilon
        self.cost = Cost(Laplace(1.0 / epsilon), 2.0 * dimension)
        self._steps = np.zeros(dimension, dtype=np.int64)  # the sum of rows in units of FEATURE_UNIT
        self.size = 0

    def add(self, rows: NDArray[np.float64]) -> None:
        """Add rows, (k, d) in [-1, 1].

        Raises:
            DataError: wrong shape, or a coordinate outside [-1, 1].
        """
        if rows.ndim != 2 or rows.shape[1] != self._steps.size or not np.all(np.abs(rows) <= 1.0):
            raise DataError("rows to average do not fit", "Give rows of one length within [-1, 1].")
        self._steps += quantize_features(rows).sum(axis=0, dtype=np.int64)
        self.size += len(rows)

    def release(self) -> NDArray[np.float64]:
        """The mean with fresh noise, (d,); zeros with no rows."""
        if not self.size:
            return np.zeros(self._steps.size)
        noise = self._noise.laplace(self._scale / FEATURE_UNIT, self._steps.size)
        return (self._steps + noise) * (FEATURE_UNIT / self.size)
