"""Attacks of a curator on hashes under a secret draw: what digits of scikit-learn it gets from them."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
from scipy.spatial.distance import cdist

from fedkme.arrays import FloatArray
from fedkme.config import Settings
from fedkme.embeddings.kernels import median_gamma
from fedkme.features.fixed_point import Features
from fedkme.features.fourier import SecretFourierSpec
from fedkme.sealed.group import GroupSecret
from fedkme.sealed.secret_fourier import SecretFourier
from sim.attacks.hashes import align, fit_draw, invert, known_draw, squared_distances
from sim.papers.curves import CurveValue
from sim.papers.piece import Piece
from sim.scenarios.digits import load_images

_AXES, _FEW = 6, 20


class AttackEffort(Settings):
    """Size of the experiment."""

    dimensions: tuple[int, ...] = (140, 300, 1000)
    """d of hashes."""
    hashed: tuple[int, ...] = (200, 800)
    """Numbers of hashed rows."""
    seeds: int = 5
    """Seeds of draws and rows."""


QUICK = AttackEffort(dimensions=(300,), hashed=(200,), seeds=1)


class AttackPiece(Piece):
    """All attacks on hashes of one dimension of so many rows, gamma by the median heuristic."""

    dimension: int
    hashed: int

    def measure(self) -> Iterator[CurveValue]:
        """Yield errors of the attacks, and what distances tell.

        Raises:
            MissingDependencyError: scikit-learn is not installed.
        """
        for name, value in attack(_digits(), self.dimension, self.hashed, self.seed).items():
            panel = name if name in ("nearest", "distance correlation") else "error"
            method = "hashes" if panel == name else name
            yield CurveValue(panel, f"{method}, {self.hashed} rows", self.dimension, self.seed, value)


def pieces(effort: AttackEffort) -> Iterator[AttackPiece]:
    """Pieces: every dimension and number of rows under every seed."""
    for seed in range(effort.seeds):
        for dimension in effort.dimensions:
            for hashed in effort.hashed:
                yield AttackPiece(dimension=dimension, hashed=hashed, seed=seed)


def attack(rows: FloatArray, dimension: int, hashed: int, seed: int) -> dict[str, float]:
    """Try all attacks on hashes of some rows; errors are root mean squares of pixels in [0, 1].

    `nearest` is the share of rows whose nearest row is found by hashes. The other rows of the data set are
    public; who knows nothing guesses their mean row.
    """
    order = np.random.default_rng(np.random.SeedSequence([seed, 9])).permutation(len(rows))
    rows, others = rows[order[:hashed]], rows[order[hashed:]]
    gamma = median_gamma(rows)
    h1, wrong = (_secret_map(dimension, gamma, rows.shape[1], s) for s in (seed, seed + 1000))
    hashes, mean = h1.fixed_point(rows), others.mean(axis=0)

    def error(guess: FloatArray) -> float:
        return float(np.sqrt(((guess - rows[: len(guess)]) ** 2).mean()))

    def with_pairs(count: int) -> float:
        known = fit_draw(others[:count], h1.fixed_point(others[:count]), h1.spec)
        return error(invert(hashes[:_FEW], known, mean))

    correlation, nearest = _distances(hashes, rows, gamma)
    return {
        "distance correlation": correlation,
        "nearest": nearest,
        "draw": error(invert(hashes[:_FEW], known_draw(h1), mean)),
        "another draw": error(invert(hashes[:_FEW], known_draw(wrong), mean)),
        "100 pairs": with_pairs(100),
        "200 pairs": with_pairs(200),
        "public rows": error(align(hashes, gamma, others, _AXES)),
        "mean row": error(np.tile(mean, (len(rows), 1))),
    }


def _digits() -> FloatArray:
    """1797 digits of 64 pixels in [0, 1]."""
    return load_images()[0] / 16.0


def _secret_map(dimension: int, gamma: float, width: int, seed: int) -> SecretFourier:
    """A paired map whose group secret is drawn from a seed."""
    secret = GroupSecret("hashes", np.random.default_rng(seed).bytes(32))
    return SecretFourier(SecretFourierSpec("paired", dimension, gamma, width, secret.commitment()), secret)


def _distances(hashes: Features, rows: FloatArray, gamma: float) -> tuple[float, float]:
    estimated, true = squared_distances(hashes, gamma), cdist(rows, rows, "sqeuclidean")
    upper = np.triu_indices(len(rows), 1)
    correlation = float(np.corrcoef(estimated[upper], true[upper])[0, 1])
    for table in (estimated, true):
        np.fill_diagonal(table, math.inf)
    return correlation, float(np.mean(estimated.argmin(axis=1) == true.argmin(axis=1)))
