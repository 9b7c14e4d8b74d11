"""Figures 1 and 5 of DP-HP: how well Hermite and random Fourier features approximate a Gaussian kernel.

Both need no data and no privacy: rows are drawn from normal laws by the seed. Features are the product's own.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import numpy as np
from scipy.spatial.distance import pdist

from fedkme.arrays import FloatArray
from fedkme.config import Settings
from fedkme.features.fourier_map import FourierMapSpec
from fedkme.features.hermite import hermite_functions, rho_of_length
from fedkme.tables.schema import Numeric, Schema
from lab.experiments.curves import CurveValue
from lab.experiments.piece import Piece

ROWS = 100
FEATURES = (2, 4, 6, 8, 10, 20, 50, 100, 200, 500)
"""Numbers of features of Figure 1: orders up to one less of Hermite features."""
LENGTHS = (0.71, 7.07)
CUTS = (20, 5)
"""Orders at which the features of Figure 5 have decayed, by the paper's words, at LENGTHS."""
ORDERS = (0, 1, 2, 5, 10, 15, 20, 30, 40)
_SCHEMA = Schema(columns=(Numeric(name="x", bounds=(-20.0, 20.0)),))


class ApproximationEffort(Settings):
    """Size of the figures."""

    draws: int = 100
    """Draws of random features."""
    seeds: int = 20
    """Draws of the rows."""


QUICK = ApproximationEffort(draws=20, seeds=5)


class KernelErrorPiece(Piece):
    """Figure 1: mean absolute error of the kernel between rows of N(0, 1) and N(1, 1), for one draw."""

    effort: ApproximationEffort

    def measure(self) -> Iterator[CurveValue]:
        """Yield the error by number of features, and that of 500 random ones over that of order 2."""
        rng = np.random.default_rng(np.random.SeedSequence([self.seed, 1]))
        one, two = rng.normal(0.0, 1.0, ROWS), rng.normal(1.0, 1.0, ROWS)
        length = float(np.median(pdist(np.concatenate([one, two])[:, None])))
        kernel = np.exp(-((one[:, None] - two) ** 2) / (2.0 * length**2))

        def hermite(order: int) -> float:
            features = [hermite_functions(x, order, rho_of_length(length)) for x in (one, two)]
            return float(np.abs(kernel - features[0] @ features[1].T).mean())

        def fourier(count: int) -> float:
            draws = [
                _fourier(np.concatenate([one, two]), length, count, 1000 * self.seed + draw)
                for draw in range(self.effort.draws)
            ]
            return float(np.mean([np.abs(kernel - at[:ROWS] @ at[ROWS:].T).mean() for at in draws]))

        for count in FEATURES:
            yield CurveValue("error", "hermite", count, self.seed, hermite(count - 1))
            yield CurveValue("error", "merf", count, self.seed, error := fourier(count))
        yield CurveValue("order 2", "merf", FEATURES[-1], self.seed, error / hermite(2))


class LengthScalePiece(Piece):
    """Figure 5: features of four rows of N(0, 1) at a small and a large length scale, for one draw."""

    effort: ApproximationEffort

    def measure(self) -> Iterator[CurveValue]:
        """Yield the largest squared norm that orders leave, and how much random features vary over rows."""
        rows = np.random.default_rng(np.random.SeedSequence([self.seed, 2])).normal(0.0, 1.0, 4)
        spreads = []
        for length, cut in zip(LENGTHS, CUTS, strict=True):
            squares = np.cumsum(hermite_functions(rows, ORDERS[-1], rho_of_length(length)) ** 2, axis=1)
            left = np.maximum(1.0 - squares, 0.0).max(axis=0)
            for order in ORDERS:
                yield CurveValue(f"left {length}", "hermite", order, self.seed, float(left[order]))
            yield CurveValue("cut", "hermite", length, self.seed, float(left[cut]))
            drawn = [_fourier(rows, length, 100, 1000 * self.seed + d) for d in range(self.effort.draws)]
            spreads.append(math.sqrt(float(np.mean([at.var(axis=0).sum() for at in drawn]))))
            yield CurveValue("varies", "merf", length, self.seed, spreads[-1])
        yield CurveValue("varies less", "merf", LENGTHS[1], self.seed, spreads[1] / spreads[0])


def error_pieces(effort: ApproximationEffort) -> Sequence[KernelErrorPiece]:
    """Pieces of Figure 1."""
    return [KernelErrorPiece(effort=effort, seed=seed) for seed in range(effort.seeds)]


def length_pieces(effort: ApproximationEffort) -> Sequence[LengthScalePiece]:
    """Pieces of Figure 5."""
    return [LengthScalePiece(effort=effort, seed=seed) for seed in range(effort.seeds)]


def _fourier(rows: FloatArray, length: float, count: int, seed: int) -> FloatArray:
    spec = FourierMapSpec(dimension=count, gamma=0.5 / length**2, seed=seed, units="table")
    return spec.make(_SCHEMA).features(rows[:, None])
