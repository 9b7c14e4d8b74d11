"""Noise of 0, for tests that know a total to the last bit."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


class Silence:
    """A source of noise that draws zeros."""

    def uniform(self, size: int) -> NDArray[np.float64]:
        return np.zeros(size)

    def laplace(self, scale: float, size: int) -> NDArray[np.float64]:
        return np.zeros(size)

    def gaussian(self, scale: float, size: int) -> NDArray[np.float64]:
        return np.zeros(size)
