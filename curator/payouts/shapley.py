"""Shapley values of owners in the game of approximating D_v's embedding by mixtures of theirs.

v(S) = ||b - t||^2 - min ||u - t||^2 over u in the convex hull of b and the x_j of S

x_j are private embeddings or histograms of owners, t D_v's, b a reference that nobody is paid for: 0 (the
default), what uniform sampling would give, a public seed set's embedding. v(empty) = 0, v is >= 0 and grows
with S; with embeddings the distance is an MMD^2. An owner that helps no coalition gets 0, equal owners get
the same, and values add up to v(all).

All inputs are outputs of private releases, so the values are **post-processing: cost 0**. The noise on an x_j
is part of its value: an owner's value is its release's.

Exactly for K <= 12 owners (2^K small least squares). Above, permutations in antithetic pairs (a random order
and its reverse): each pair's marginal contributions add up to v(all) exactly, pairs are independent, and the
interval is the normal one over pairs. The order is drawn from a seed: the same seed, the same value.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from curator.payouts.payout import Payout, divide
from fedkme.arrays import FloatArray
from fedkme.errors import ConfigError

EXACT_OWNERS = 12
"""Up to here all coalitions are computed."""
PAIRS = 200
"""Pairs of permutations above that."""
_QUANTILE = 1.959963984540054


@dataclass(frozen=True, slots=True, eq=False)
class Shapley:
    """Values of all players, (K,), which add up to `worth`.

    Standard errors are 0 where all coalitions were computed.
    """

    values: FloatArray
    errors: FloatArray
    worth: float

    @property
    def margins(self) -> FloatArray:
        """Half the widths of 95 % intervals, (K,)."""
        return _QUANTILE * self.errors


class MixtureGame:
    """v as above; coalitions are bit masks, and each is computed once."""

    def __init__(
        self, embeddings: FloatArray, target: FloatArray, reference: FloatArray | None = None
    ) -> None:
        """Set the game up.

        Args:
            embeddings: x, (K, D), K >= 1.
            target: t, (D,).
            reference: b, (D,); None for 0.

        Raises:
            ConfigError: shapes that do not fit, or something that is no number.
        """
        x = np.asarray(embeddings, dtype=np.float64)
        t = np.asarray(target, dtype=np.float64)
        b = np.zeros_like(t) if reference is None else np.asarray(reference, dtype=np.float64)
        if x.ndim != 2 or not len(x) or t.shape != x.shape[1:] or b.shape != t.shape:
            raise ConfigError("embeddings do not fit together", "Give (K, D) with targets of length D.")
        if not all(np.isfinite(part).all() for part in (x, t, b)):
            raise ConfigError("an embedding holds something that is no number", "Use a record that is whole.")
        self.players = len(x)
        apart = np.concatenate([b[None], x]) - t
        if apart.shape[1] > len(apart):  # only inner products count: K + 1 coordinates hold them all
            apart = np.asarray(np.linalg.qr(apart.T, mode="r")).T
        self._apart = apart
        self._origin = float(apart[0] @ apart[0])
        self._known: dict[int, float] = {0: 0.0}

    def worth(self, coalition: int) -> float:
        """The worth of the players whose bits are set."""
        if coalition not in self._known:
            members = [0, *(i + 1 for i in range(self.players) if coalition >> i & 1)]
            gain = self._origin - _nearest(self._apart[members])
            self._known[coalition] = max(gain, 0.0)  # b itself is in the hull: below 0 is rounding
        return self._known[coalition]


def _nearest(points: FloatArray) -> float:
    """Squared norm of the point of the convex hull of (k, D) points that is nearest to 0.

    min over u >= 0 of ||A'u||^2 + (1'u - 1)^2: for u = s w with w in the simplex the best s leaves
    n / (1 + n) with n = ||A'w||^2, which grows with n, so that u normalised is the simplex's own minimum.
    """
    from scipy.optimize import nnls

    # In units of the longest point both terms are of like size, which keeps rounding small.
    scale = math.sqrt(float(np.einsum("ij,ij->i", points, points).max())) or 1.0
    design = np.concatenate([points.T / scale, np.ones((1, len(points)))])
    goal = np.zeros(len(design))
    goal[-1] = 1.0
    weights, _ = nnls(design, goal)
    nearest = (weights / weights.sum()) @ points
    return float(nearest @ nearest)


def exact_shapley(game: MixtureGame) -> Shapley:
    """Values from all 2^K coalitions.

    Raises:
        ConfigError: more than 12 players.
    """
    players = game.players
    if players > EXACT_OWNERS:
        raise ConfigError(f"{players} owners have too many coalitions", "Sample permutations.")
    worth = np.array([game.worth(mask) for mask in range(1 << players)])
    masks = np.arange(1 << players)
    sizes = np.array([mask.bit_count() for mask in range(1 << players)])
    weights = np.array([1.0 / (players * math.comb(players - 1, k)) for k in range(players)])
    values = np.empty(players)
    for player in range(players):
        without = masks[(masks >> player & 1) == 0]
        values[player] = weights[sizes[without]] @ (worth[without | 1 << player] - worth[without])
    return Shapley(values, np.zeros(players), float(worth[-1]))


def sampled_shapley(game: MixtureGame, seed: int, pairs: int = PAIRS) -> Shapley:
    """Values from `pairs` random orders and their reverses.

    Raises:
        ConfigError: fewer than two pairs.
    """
    if pairs < 2:
        raise ConfigError(f"{pairs} pairs of permutations have no spread", "Take two or more.")
    rng = np.random.Generator(np.random.Philox(seed))
    found = np.empty((pairs, game.players))
    for pair in found:
        order = rng.permutation(game.players)
        pair[:] = 0.5 * (_contributions(game, order) + _contributions(game, order[::-1]))
    errors = found.std(axis=0, ddof=1) / math.sqrt(pairs)
    return Shapley(found.mean(axis=0), errors, game.worth((1 << game.players) - 1))


def _contributions(game: MixtureGame, order: NDArray[np.int64]) -> FloatArray:
    marginal, coalition, before = np.empty(game.players), 0, 0.0
    for player in order.tolist():
        coalition |= 1 << player
        after = game.worth(coalition)
        marginal[player], before = after - before, after
    return marginal


def shapley(game: MixtureGame, seed: int = 0, pairs: int = PAIRS) -> Shapley:
    """Exact values for up to 12 owners, else sampled ones."""
    return exact_shapley(game) if game.players <= EXACT_OWNERS else sampled_shapley(game, seed, pairs)


def by_shapley(
    embeddings: Mapping[str, Sequence[float]],
    target: Sequence[float],
    total: int,
    reference: Sequence[float] | None = None,
    seed: int = 0,
    pairs: int = PAIRS,
) -> Payout:
    """Divide a total by Shapley values of private embeddings or histograms.

    For the reference nobody is paid. Above 12 owners, `pairs` of permutations and their reverses are sampled.

    Raises:
        ConfigError: the inputs do not fit together, or the total cannot be divided.
    """
    names, rows, goal = _stacked(embeddings, target)
    game = MixtureGame(rows, goal, None if reference is None else np.asarray(reference, dtype=np.float64))
    found = shapley(game, seed, pairs)
    amounts, shares = divide(total, dict(zip(names, found.values.tolist(), strict=True)))
    margins = None
    if found.errors.any() and found.worth > 0:
        scaled = found.margins * total / found.worth
        margins = dict(zip(names, scaled.tolist(), strict=True))
    tells = "nothing new: values are computed from private releases already paid for"
    return Payout("shapley", total, amounts, shares, "owners", tells, margins=margins)


def _stacked(
    histograms: Mapping[str, Sequence[float]], target: Sequence[float]
) -> tuple[list[str], FloatArray, FloatArray]:
    """Names in order, (K, B) and (B,) arrays."""
    names = sorted(histograms)
    goal = np.asarray(target, dtype=np.float64)
    if not names or any(len(histograms[name]) != len(goal) for name in names) or not len(goal):
        raise ConfigError(
            "histograms do not fit together", "Give one of each owner, and D_v's, of equal length."
        )
    rows = np.array([histograms[name] for name in names], dtype=np.float64)
    if not (np.isfinite(rows).all() and np.isfinite(goal).all()):
        raise ConfigError("a histogram holds something that is no number", "Use a record that is whole.")
    return names, rows, goal
