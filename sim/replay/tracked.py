"""Noise that knows where it was drawn: a mechanism's input is seen at the addition that hides it.

A recorded source gives arrays that follow their draw through rounding, reshaping and casting, up to the sum
`exact + noise`. There the exact numbers are written down, and the sum of a first run can take the place of a
second's. So the mechanisms need no hook: every addition of noise in the product is looked at, wherever it is.
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
"""Laws of noise, as requests have them."""
_SHAPES = {np.rint, np.positive}
"""Functions that keep noise what it is, but for the lattice that it is on."""


@dataclass(eq=False)
class NoiseRequest:
    """Request of noise, and its use.

    Attributes:
        site: of the mechanism.
        number: of the request at its site, from 0.
        law: as `NoiseSource` calls it.
        scale: of the law; 1 for uniform numbers.
        size: how many numbers.
        exact: the numbers that the noise hid, once it was added.
        released: their sum with it.
        uses: how often it was added to something.
        altered: functions that the noise went through before it was added, and that change it.
        decides: part of a choice, which is looked at as a whole.
        drawn: bytes of the numbers; empty where chance may give the same again.
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
"""Sees exact numbers and noise meet, and gives their sum, or that of another run."""


class Drawn(np.ndarray[Any, np.dtype[Any]]):
    """Numbers of a draw, on their way to what they hide."""

    draw: NoiseRequest | None = None
    released: Released | None = None

    def __array_finalize__(self, other: Any) -> None:
        self.draw = getattr(other, "draw", None)
        self.released = getattr(other, "released", None)

    def __setitem__(self, place: Any, value: Any) -> None:
        """Put another number in the place of noise, and say so."""
        if self.draw is not None:
            self.draw.altered.append("an assignment")
        super().__setitem__(place, value)

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **options: Any) -> Any:
        """Do what numpy would, and look at it: a sum ends the way of the noise."""
        plain = [np.asarray(each) if isinstance(each, Drawn) else each for each in inputs]
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
    """A source of noise that has every request written down.

    Attributes:
        site: of the mechanism that it is for.
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
        """Uniform numbers, which decide and hide nothing: they come as they are."""
        request, drawn = self._note(self.site, "uniform", 1.0, size), self._source.uniform(size)
        request.drawn = drawn.tobytes()
        return drawn

    def laplace(self, scale: float, size: int) -> NDArray[np.float64]:
        """Laplace noise that is followed."""
        return self._followed(self._source.laplace(scale, size), "laplace", scale)

    def gaussian(self, scale: float, size: int) -> NDArray[np.float64]:
        """Gaussian noise that is followed."""
        return self._followed(self._source.gaussian(scale, size), "gaussian", scale)

    def discrete_laplace(self, scale: float, size: int) -> NDArray[np.int64]:
        """Whole Laplace noise that is followed."""
        source = self._source
        assert isinstance(source, IntegerNoise), "sources of this package have whole numbers"
        return self._followed(source.discrete_laplace(scale, size), "discrete laplace", scale)

    def _followed(self, drawn: Numbers, law: str, scale: float) -> Numbers:
        found = drawn.view(Drawn)
        found.draw, found.released = self._note(self.site, law, float(scale), drawn.size), self._released
        if drawn.dtype.kind == "f" or _collision_bits(float(scale)) * drawn.size > _SURE_BITS:
            found.draw.drawn = drawn.tobytes()
        return found


_SURE_BITS = 64.0


def _collision_bits(scale: float) -> float:
    """Bits by which two draws of whole Laplace noise, one number each, are unlikely to be equal."""
    q = math.exp(-1.0 / scale)
    return -math.log2((1.0 - q) * (1.0 + q * q) / (1.0 + q) ** 3)
