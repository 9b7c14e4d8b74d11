"""Mixture of owners that stands for D_v, from private histograms: post-processing, cost 0.

A part is an owner, or an owner's rows of one class where owners count by class; q_i is its distribution over
cells, nu/m D_v's, both noisy; s_i its share of all rows; a kind is all parts of one class, or all owners.

    w = argmin over w >= 0 of  ||sum_i w_i q_i - nu/m||^2 + 9 (1'w - 1)^2 + (.02)^2 sum_i w_i^2 mean(s)/s_i
                               + sum over kinds g of lam_g sum over i in g of (w_i - f_i W_g)^2 / f_i

with W_g = sum over g of w_i and f_i = s_i / sum over g of s: **parts of one kind are used in proportion to
their rows, but for differences that noise does not explain**. Two parts with the same rows have histograms
that differ by noise alone, of deviation sigma_i in each cell. That moves the slope of the first term by about
2 sigma_i ||r||, r its residual, and the last term answers with w_i - f_i W_g = f_i sigma_i ||r|| / lam_g. So

    lam_g = EVENNESS ||r|| (sum over g of f_i sigma_i) / W_g

leaves a deviation of f_i W_g / EVENNESS, whatever the noise, the number of owners and how far D_v is from all
of them; ||r|| and W_g are those of a first fit whose parts are the kinds, each as all its owners together.
Without noise lam is 0.

**What no mixture explains is ordered by rows.** Where D_v is a category that every owner has a few rows of,
the fit gives all weight to the owners in which it is a little more frequent, and they run out of it. So
orders go by (1 - t) w + t s (`shared`): t is the share of the squared distance of nu/m from the pool that w
leaves, each without the noise that is expected in it, B (sigma_v^2 + sum_i w_i^2 sigma_i^2). For D_v that
is a mixture of owners t is near 0, whatever the noise.

Everything is symmetric in owners: equal histograms and sizes get equal weights.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]

MASS_WEIGHT = 3.0
RIDGE = 0.02
EVENNESS = 4.0
"""Deviations of the noise that move an owner's part of a kind by all of it."""
_EMPTY = 1e-12


@dataclass(frozen=True, eq=False, slots=True)
class Parts:
    """Parts that D_v is to be mixed of.

    Attributes:
        shares: q, (P, B), each a distribution over cells, or 0.
        mass: s, share of all rows in each part, (P,).
        kinds: the kind of each part, (P,) from 0.
        noise: sigma, deviation of the noise on each entry of a part's row of q, (P,).
    """

    shares: FloatArray
    mass: FloatArray
    kinds: IntArray
    noise: FloatArray


def mixture(parts: Parts, nu: FloatArray) -> FloatArray:
    """w, normalised, (P,); by mass where nothing fits, 0 where there are no rows.

    Args:
        parts: by owner, or by owner and class.
        nu: (B,), noisy counts of D_v over m.
    """
    mass = _present(parts)
    if not mass.any():
        return mass
    present = mass > 0
    loads = np.sqrt(mass[present].mean() / np.maximum(mass, 1e-6))
    weights = _fitted(parts.shares, nu, [RIDGE * np.diag(loads), _pull(parts, mass, nu)])
    weights = np.where(present, weights, 0.0)
    if weights.sum() <= _EMPTY:
        weights = mass
    found: FloatArray = weights / weights.sum()
    return found


def shared(parts: Parts, weights: FloatArray, nu: FloatArray, noise: float = 0.0) -> FloatArray:
    """(1 - t) w + t s, (P,): what no mixture explains of D_v is shared by rows.

    Args:
        parts: by owner, or by owner and class.
        weights: w, of their `mixture`.
        nu: (B,), noisy counts of D_v over m.
        noise: sigma_v, deviation of the noise on each entry of nu.
    """
    mass = _present(parts)
    by_rows = mass / max(float(mass.sum()), _EMPTY)
    far, left = (_distance(parts, each, nu, noise) for each in (by_rows, weights))
    t = min(1.0, max(0.0, left) / far) if far > 0 else 0.0
    return (1.0 - t) * weights + t * by_rows


def _present(parts: Parts) -> FloatArray:
    """Mass of parts, 0 for those without a histogram."""
    return np.where(parts.shares.any(axis=1), parts.mass, 0.0)


def _distance(parts: Parts, weights: FloatArray, nu: FloatArray, noise: float) -> float:
    """Squared distance of D_v from parts so weighted, less what noise is expected to add to it."""
    seen = np.square(nu - weights @ parts.shares).sum()
    return float(seen - len(nu) * (noise**2 + np.square(weights * parts.noise).sum()))


def _pull(parts: Parts, mass: FloatArray, nu: FloatArray) -> FloatArray:
    """Rows whose squares are the last term, (P, P)."""
    members = (parts.kinds == np.arange(int(parts.kinds.max()) + 1)[:, None]).astype(np.float64)
    total = members @ mass
    within = members * mass / np.maximum(total, _EMPTY)[:, None]
    kinds = within @ parts.shares
    first = _fitted(kinds, nu, [RIDGE * np.eye(len(kinds))])
    residual = float(np.linalg.norm(nu - first @ kinds))
    strength = EVENNESS * residual * (within @ parts.noise) / np.maximum(first, 0.01)
    f, g = within.sum(axis=0), parts.kinds
    centred = np.eye(len(f)) - f[:, None] * (g[:, None] == g)
    pull: FloatArray = np.sqrt(strength[g] / np.maximum(f, 1e-6))[:, None] * centred
    return pull


def _fitted(shares: FloatArray, nu: FloatArray, ridges: list[FloatArray]) -> FloatArray:
    from scipy.optimize import nnls  # a second that a curator's start need not wait for

    size = len(shares)
    design = np.concatenate([shares.T, np.full((1, size), MASS_WEIGHT), *ridges])
    goal = np.zeros(len(design))
    goal[: len(nu)], goal[len(nu)] = nu, MASS_WEIGHT
    weights, _ = nnls(design, goal, maxiter=30 * size)
    found: FloatArray = weights
    return found
