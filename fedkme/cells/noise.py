"""A party's source of noise as one of whole numbers."""

from __future__ import annotations

from fedkme.cells.histogram import IntegerNoise
from fedkme.privacy.noise import NoiseSource


def on_integers(noise: NoiseSource) -> IntegerNoise:
    """Take a source of noise as one of whole numbers, for counts.

    Raises:
        TypeError: it draws real numbers alone.
    """
    if not isinstance(noise, IntegerNoise):
        raise TypeError(f"{type(noise).__name__} draws no whole numbers")
    return noise
