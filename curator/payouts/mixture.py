"""Payment by how much of D_v each owner can stand for: mixture weights of private histograms.

    w = argmin over w >= 0 of ||sum_j w_j q_j - v||^2 + 9 (1'w - 1)^2 + (.02)^2 ||w||^2, normalised

with q_j an owner's noised and normalised histogram, v that of D_v (the fit of the cells protocol's orders).
Everything read is the output of a private release that the run has paid for: **post-processing, cost 0**
towards owners, for D_v and for every owner. It says nothing about which rows were sent or kept.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from curator.payouts.payout import Payout, divide
from fedkme.errors import ConfigError

FloatArray = NDArray[np.float64]

MASS_WEIGHT = 3.0
RIDGE = 0.02


def stacked(
    histograms: Mapping[str, Sequence[float]], target: Sequence[float]
) -> tuple[list[str], FloatArray, FloatArray]:
    """Names in order, (K, B) and (B,) arrays.

    Raises:
        ConfigError: no owner, lengths that differ, or an entry that is not a number.
    """
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


def mixture_weights(histograms: FloatArray, target: FloatArray) -> FloatArray:
    """w, (K,), adding up to 1; equal for owners with any mass where nothing fits.

    Args:
        histograms: (K, B), distributions; a row of zeros is an owner without rows.
        target: (B,), a distribution.
    """
    from scipy.optimize import nnls  # most of the time that a command line would take to answer

    owners = len(histograms)
    design = np.concatenate([histograms.T, np.full((1, owners), MASS_WEIGHT), RIDGE * np.eye(owners)])
    found, _ = nnls(design, np.concatenate([target, [MASS_WEIGHT], np.zeros(owners)]))
    present = (histograms != 0).any(axis=1).astype(np.float64)
    weights: FloatArray = np.multiply(found, present)
    if weights.sum() <= 1e-12:
        weights = np.asarray(present if present.any() else np.ones(owners), dtype=np.float64)
    shares: FloatArray = weights / weights.sum()
    return shares


def by_mixture(histograms: Mapping[str, Sequence[float]], target: Sequence[float], total: int) -> Payout:
    """Divide a total by mixture weights of normalised histograms: noised ones of the owners, and D_v's.

    Raises:
        ConfigError: the histograms do not fit together, or the total cannot be divided.
    """
    names, rows, goal = stacked(histograms, target)
    values = dict(zip(names, mixture_weights(rows, goal).tolist(), strict=True))
    amounts, shares = divide(total, values)
    tells = "nothing new: weights are computed from private histograms already paid for"
    return Payout("mixture", total, amounts, shares, "owners", tells)
