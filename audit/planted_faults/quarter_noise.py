"""Party with a quarter of its noise; arguments: the party's module and the module's arguments."""

from __future__ import annotations

import runpy
import sys

from fedkme.arrays import FloatArray, IntArray
from fedkme.privacy.noise import SecureNoise

_gaussian, _laplace = SecureNoise.gaussian, SecureNoise.discrete_laplace


def quarter_gaussian(self: SecureNoise, scale: float, size: int) -> FloatArray:
    return _gaussian(self, scale / 4.0, size)


def quarter_laplace(self: SecureNoise, scale: float, size: int) -> IntArray:
    return _laplace(self, scale / 4.0, size)


if __name__ == "__main__":
    SecureNoise.gaussian = quarter_gaussian  # type: ignore[method-assign]
    SecureNoise.discrete_laplace = quarter_laplace  # type: ignore[method-assign]
    sys.argv = sys.argv[1:]
    runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
