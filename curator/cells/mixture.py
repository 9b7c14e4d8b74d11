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
Without noise lam is 0. Everything is symmetric in owners: equal histograms and sizes get equal weights.
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
    present = parts.shares.any(axis=1) & (parts.mass > 0)
    if not present.any():
        return np.zeros(len(present))
    mass = np.where(present, parts.mass, 0.0)
    loads = np.sqrt(mass[present].mean() / np.maximum(mass, 1e-6))
    weights = _fitted(parts.shares, nu, [RIDGE * np.diag(loads), _pull(parts, mass, nu)])
    weights = np.where(present, weights, 0.0)
    if weights.sum() <= _EMPTY:
        weights = mass
    found: FloatArray = weights / weights.sum()
    return found


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
