"""Sources of noise with a fault planted in them; a party calls the function for its own."""

from __future__ import annotations

import functools
import math
import os
import random
import time
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from audit.attacks.sources import step_of
from fedkme.arrays import FloatArray, IntArray
from fedkme.privacy import samplers
from fedkme.privacy.noise import NoiseSource, SecureNoise, SimulatedNoise


class LibraryFloats(SecureNoise):
    """Laplace and Gaussian of a library: new entropy for each call, floating-point numbers."""

    def laplace(self, scale: float, size: int) -> FloatArray:
        return np.random.default_rng().laplace(0.0, scale, size)

    def gaussian(self, scale: float, size: int) -> FloatArray:
        return np.random.default_rng().normal(0.0, scale, size)


def library_floats() -> NoiseSource:
    return LibraryFloats()


def seeded_once() -> NoiseSource:
    return _SEEDED


def shared_generator() -> NoiseSource:
    return _SHARED


_SEEDED = SimulatedNoise(np.random.default_rng(7))
_SHARED = SimulatedNoise(np.random.default_rng())


def seeded_by_time() -> NoiseSource:
    return SimulatedNoise(np.random.default_rng(int(time.time())))


def seeded_by_process() -> NoiseSource:
    return SimulatedNoise(np.random.default_rng([time.time_ns(), os.getpid()]))


def seeded_by_system() -> NoiseSource:
    return SimulatedNoise(np.random.default_rng(int.from_bytes(os.urandom(32), "big")))


class SystemFloats(SecureNoise):
    """Random bits of the operating system, and floating-point numbers made of 53 such bits."""

    def laplace(self, scale: float, size: int) -> FloatArray:
        chance = random.SystemRandom()
        return np.array(
            [scale * math.log((1.0 - chance.random()) / (1.0 - chance.random())) for _ in range(size)]
        )

    def gaussian(self, scale: float, size: int) -> FloatArray:
        chance = random.SystemRandom()
        return np.array([chance.gauss(0.0, scale) for _ in range(size)])


def system_floats() -> NoiseSource:
    return SystemFloats()


class RoundedFloats(SystemFloats):
    """Floating-point numbers, rounded to the lattice."""

    def laplace(self, scale: float, size: int) -> FloatArray:
        step = step_of("laplace", scale)
        return np.asarray(np.rint(super().laplace(scale, size) / step) * step)

    def gaussian(self, scale: float, size: int) -> FloatArray:
        step = step_of("gaussian", scale)
        return np.asarray(np.rint(super().gaussian(scale, size) / step) * step)


def rounded_floats() -> NoiseSource:
    return RoundedFloats()


class Buffered(SecureNoise):
    """Exact samplers on words that are read ahead, by whichever process."""

    words = np.zeros(0, dtype=np.uint64)

    def _words(self, size: int) -> NDArray[np.uint64]:
        if len(Buffered.words) < size:
            Buffered.words = np.frombuffer(os.urandom(8 * max(4096, size)), dtype=np.uint64)
        given, Buffered.words = Buffered.words[:size], Buffered.words[size:]
        return given

    def uniform(self, size: int) -> FloatArray:
        return np.asarray((self._words(size) >> np.uint64(11)) / 2.0**53)

    def laplace(self, scale: float, size: int) -> FloatArray:
        step = step_of("laplace", scale)
        return np.asarray(step * samplers.discrete_laplace(scale / step, size, self._words))

    def gaussian(self, scale: float, size: int) -> FloatArray:
        step = step_of("gaussian", scale)
        return np.asarray(step * samplers.discrete_gaussian(scale / step, size, self._words))

    def discrete_laplace(self, scale: float, size: int) -> IntArray:
        return samplers.discrete_laplace(scale, size, self._words)


def buffered() -> NoiseSource:
    return Buffered()


class Changed(SecureNoise):
    """Draws of the real source, changed: a method of the class `SecureNoise`, its scale, size and draws."""

    def __init__(self, change: Callable[[str, float, int, Callable[[float, int], Any]], Any]) -> None:
        self._change = change

    def uniform(self, size: int) -> FloatArray:
        return np.asarray(self._change("uniform", 1.0, size, lambda scale, n: SecureNoise.uniform(self, n)))

    def laplace(self, scale: float, size: int) -> FloatArray:
        return np.asarray(self._change("laplace", scale, size, super().laplace))

    def gaussian(self, scale: float, size: int) -> FloatArray:
        return np.asarray(self._change("gaussian", scale, size, super().gaussian))

    def discrete_laplace(self, scale: float, size: int) -> IntArray:
        return np.asarray(self._change("discrete_laplace", scale, size, super().discrete_laplace))


def _cached() -> Callable[..., Any]:
    drawn: dict[Any, Any] = {}

    def change(method: str, scale: float, size: int, draw: Callable[[float, int], Any]) -> Any:
        return drawn.setdefault((method, scale, size), draw(scale, size))

    return change


def cached() -> NoiseSource:
    return Changed(_cached())


def same_for_owners() -> NoiseSource:
    """Every source begins with the noise of the first: fresh when the process began, and then the same."""
    return SimulatedNoise(np.random.default_rng(_first_seed()))


@functools.cache
def _first_seed() -> int:
    return int.from_bytes(os.urandom(32), "big")


def half_scale() -> NoiseSource:
    return Changed(
        lambda method, scale, size, draw: draw(scale if method == "uniform" else scale / 2.0, size)
    )


def half_counts() -> NoiseSource:
    return Changed(
        lambda method, scale, size, draw: draw(scale / (2.0 if method == "discrete_laplace" else 1.0), size)
    )


class LaplaceForGaussian(SecureNoise):
    def gaussian(self, scale: float, size: int) -> FloatArray:
        return self.laplace(scale / math.sqrt(2.0), size)


def laplace_for_gaussian() -> NoiseSource:
    return LaplaceForGaussian()


def _cut(method: str, scale: float, size: int, draw: Callable[[float, int], Any]) -> Any:
    return np.clip(draw(scale, size), -8.0 * scale, 8.0 * scale)


def cut_tails() -> NoiseSource:
    return Changed(_cut)


def _even(method: str, scale: float, size: int, draw: Callable[[float, int], Any]) -> Any:
    drawn = draw(scale, size)
    return drawn if method == "discrete_laplace" else drawn - drawn % (2.0 * step_of(method, scale))


def coarse() -> NoiseSource:
    return Changed(_even)


def _of_32_bits(method: str, scale: float, size: int, draw: Callable[[float, int], Any]) -> Any:
    return np.floor(draw(scale, size) * 2.0**32) / 2.0**32 if method == "uniform" else draw(scale, size)


def uniform_of_32_bits() -> NoiseSource:
    return Changed(_of_32_bits)


def _wasteful(method: str, scale: float, size: int, draw: Callable[[float, int], Any]) -> Any:
    os.urandom(1024 * size)
    return _draws_of_library(method, scale, size)


def _draws_of_library(method: str, scale: float, size: int) -> Any:
    source = _SHARED
    return source.uniform(size) if method == "uniform" else getattr(source, method)(scale, size)


def bytes_thrown_away() -> NoiseSource:
    return Changed(_wasteful)


SOURCES: Mapping[str, tuple[Callable[[], NoiseSource], str]] = {
    "library-float Gaussian": (library_floats, "off the lattice"),
    "a generator that was seeded once": (seeded_once, "come again among processes"),
    "a generator that forks share": (shared_generator, "come again among sources, threads and forks"),
    "a generator seeded by the second": (seeded_by_time, "come again among sources, threads and forks"),
    "a generator seeded by nanoseconds and the process": (seeded_by_process, "bits of the operating system"),
    "a generator seeded by the system": (seeded_by_system, "bits of the operating system"),
    "bits of the system, as floats": (system_floats, "off the lattice"),
    "floats rounded to the lattice": (rounded_floats, "farthest draw"),
    "bytes of the system that forks share": (buffered, "come again among sources, threads and forks"),
    "bytes of the system read ahead": (buffered, "bits of the operating system"),
    "noise that is kept for the next call": (cached, "come again among sources, threads and forks"),
    "the same noise for two owners": (same_for_owners, "come again among sources, threads and forks"),
    "half the scale": (half_scale, "scale of"),
    "half the scale of whole noise": (half_counts, "whole Laplace noise"),
    "Laplace for Gaussian of one variance": (laplace_for_gaussian, "shape of norm"),
    "tails that are cut at 8 scales": (cut_tails, "farthest draw"),
    "every second step of the lattice": (coarse, "last bits"),
    "uniform numbers of 32 bits": (uniform_of_32_bits, "last bits"),
    "bytes of the system that are thrown away": (bytes_thrown_away, "no function of the bytes"),
}
"""Sources, and words of the statistic that must find each source."""
