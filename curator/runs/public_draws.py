"""Public draws of a run: its seed, its h1 and its reference rows."""

import hashlib
import secrets

import numpy as np
from numpy.typing import NDArray

from curator.summary.settings import FeatureSettings
from fedkme.features.fourier import FourierSpec
from fedkme.tables.schema import Schema

REFERENCE_ROWS = 256


def public_seed(simulation_seed: int | None) -> int:
    """Draw a seed that every party may know.

    In a simulation the public seed is a hash of the simulation's seed, so that the public seed reveals
    nothing about private streams made from the simulation's seed. Otherwise the seed is fresh.
    """
    if simulation_seed is None:
        return secrets.randbits(64)
    digest = hashlib.blake2b(f"public/{simulation_seed}".encode(), digest_size=8).digest()
    return int.from_bytes(digest, "little")


def draw_features(settings: FeatureSettings, gamma: float, width: int, seed: int) -> FourierSpec:
    """Draw the run's h1, as the plan announces it."""
    return FourierSpec(settings.kind, settings.dimension, gamma, width, seed)


def reference_rows(schema: Schema, seeds: NDArray[np.float32], seed: int) -> NDArray[np.float32]:
    """Encoded public rows by which prices are set: the seed set, or else uniform rows, (r, n)."""
    if len(seeds):
        return seeds
    generator = np.random.Generator(np.random.Philox(np.random.SeedSequence([seed, 1])))
    uniform = generator.random((REFERENCE_ROWS, schema.encoded_width))
    return schema.encode(schema.decode(uniform))
