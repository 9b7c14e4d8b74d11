"""Tracked noise: its addition reveals the mechanism's input.

A recorded source returns arrays that carry their draw through rounding, reshaping and casting, up to the sum
`exact + noise`. There the exact numbers are recorded, and a first run's sum can replace the second run's.
So mechanisms need no hook: every addition of noise in the product is seen, wherever it is.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from fedkme.cells.histogram import IntegerNoise
from fedkme.privacy.noise import NoiseSource

Numbers = NDArray[Any]
Site = tuple[str, str]
"""A mechanism: the party that runs it, and the purpose of its noise."""
LAWS = ("uniform", "laplace", "gaussian", "discrete laplace")
"""Names of laws in requests."""
_SHAPES = {np.rint, np.positive}
"""Functions that change at most the lattice of the noise."""


@dataclass(eq=False)
class NoiseRequest:
    """Request of noise, and its use.

    Attributes:
        site: site of the mechanism.
        number: number of the request at its site, from 0.
        law: name of the law.
        scale: scale of the law; 1 for uniform numbers.
        size: count of numbers.
        exact: numbers that the noise hides, after its addition.
        released: sum of the exact numbers and the noise.
        uses: number of additions of the noise.
        altered: functions that changed the noise before its addition.
        decides: true for a part of a choice, which is judged as a whole.
        drawn: bytes of the numbers; empty if equal numbers may come by chance.
    """

    site: Site
    number: int
    law: str
    scale: float
    size: int
    exact: Numbers | None = None
    released: Numbers | None = None
    uses: int = 0
    altered: list[str] = field(default_factory=list)
    decides: bool = False
    drawn: bytes = b""

    @property
    def request(self) -> tuple[str, float, int]:
        """Law, scale and size."""
        return self.law, self.scale, self.size


Released = Callable[[NoiseRequest, Numbers, Numbers], Numbers]
"""Takes a draw, the exact numbers and the noise; returns their sum, or the sum of another run."""


class Drawn(np.ndarray[Any, np.dtype[Any]]):
    """Numbers of a draw that carry their request until they are added."""

    draw: NoiseRequest | None = None
    released: Released | None = None

    def __array_finalize__(self, other: Any) -> None:
        self.draw = getattr(other, "draw", None)
        self.released = getattr(other, "released", None)

    def __setitem__(self, place: Any, value: Any) -> None:
        """Assign a number, and record that the noise was altered."""
        if self.draw is not None:
            self.draw.altered.append("an assignment")
        super().__setitem__(place, value)

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **options: Any) -> Any:
        """Apply the ufunc as numpy would; a sum ends the tracking of the noise."""
        plain = [np.asarray(value) if isinstance(value, Drawn) else value for value in inputs]
        out = options.pop("out", None)
        draw, released = self.draw, self.released
        if draw is None or released is None:
            result = getattr(ufunc, method)(*plain, **options)
        elif ufunc is np.add and method == "__call__":
            noise = self.view(np.ndarray)
            exact = plain[0] if isinstance(inputs[1], Drawn) else plain[1]
            result = released(draw, np.asarray(exact), noise)
        else:
            if ufunc not in _SHAPES:
                draw.altered.append(f"{ufunc.__name__}")
            result = cast(Drawn, np.asarray(getattr(ufunc, method)(*plain, **options)).view(Drawn))
            result.draw, result.released = draw, released
        if out is None:
            return result
        np.asarray(out[0])[...] = np.asarray(result)
        return np.asarray(out[0])


class RecordedNoise:
    """A source of noise that records every request.

    Attributes:
        site: site of the source's mechanism.
    """

    def __init__(
        self,
        source: NoiseSource,
        site: Site,
        note: Callable[[Site, str, float, int], NoiseRequest],
        released: Released,
    ) -> None:
        self.site = site
        self._source = source
        self._note = note
        self._released = released

    def uniform(self, size: int) -> NDArray[np.float64]:
        """Uniform numbers, untracked: they decide and hide nothing."""
        request, drawn = self._note(self.site, "uniform", 1.0, size), self._source.uniform(size)
        request.drawn = drawn.tobytes()
        return drawn

    def laplace(self, scale: float, size: int) -> NDArray[np.float64]:
        """Tracked Laplace noise."""
        return self._tracked(self._source.laplace(scale, size), "laplace", scale)

    def gaussian(self, scale: float, size: int) -> NDArray[np.float64]:
        """Tracked Gaussian noise."""
        return self._tracked(self._source.gaussian(scale, size), "gaussian", scale)

    def discrete_laplace(self, scale: float, size: int) -> NDArray[np.int64]:
        """Tracked discrete Laplace noise."""
        source = self._source
        assert isinstance(source, IntegerNoise), "sources of this package draw integers"
        return self._tracked(source.discrete_laplace(scale, size), "discrete laplace", scale)

    def _tracked(self, drawn: Numbers, law: str, scale: float) -> Numbers:
        noise = drawn.view(Drawn)
        noise.draw, noise.released = self._note(self.site, law, float(scale), drawn.size), self._released
        if drawn.dtype.kind == "f" or _collision_bits(float(scale)) * drawn.size > _SURE_BITS:
            noise.draw.drawn = drawn.tobytes()
        return noise


_SURE_BITS = 64.0


def _collision_bits(scale: float) -> float:
    """Collision entropy of one number of discrete Laplace noise, in bits."""
    q = math.exp(-1.0 / scale)
    return -math.log2((1.0 - q) * (1.0 + q * q) / (1.0 + q) ** 3)
