"""A group secret, maps and rows for the tests of hashes."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fedkme.features.fourier import Kind, SecretFourierSpec
from fedkme.sealed.group import GroupSecret
from fedkme.sealed.secret_fourier import SecretFourier
from fedkme.tables.schema import Label, Numeric, Schema

WIDTH = 6
GAMMA = 1.5
SCHEMA = Schema(
    columns=(Numeric(name="x", bounds=(0.0, 1.0), count=WIDTH),), label=Label(name="y", classes=("no", "yes"))
)
SECRET = GroupSecret("run-1", bytes(range(32)))
ROWS: NDArray[np.float64] = np.random.default_rng(3).random((40, WIDTH))


def spec(
    kind: Kind = "paired",
    dimension: int = 140,
    gamma: float = GAMMA,
    width: int = WIDTH,
    secret: GroupSecret = SECRET,
) -> SecretFourierSpec:
    return SecretFourierSpec(kind, dimension, gamma, width, secret.commitment())


def secret_map(
    kind: Kind = "paired",
    dimension: int = 140,
    gamma: float = GAMMA,
    width: int = WIDTH,
    secret: GroupSecret = SECRET,
) -> SecretFourier:
    return SecretFourier(spec(kind, dimension, gamma, width, secret), secret)
