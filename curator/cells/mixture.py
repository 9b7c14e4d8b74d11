"""Mixture of owners that approximates D_v, from private histograms: post-processing, cost 0.

A part is an owner, or an owner's rows of one class where owners count by class; q_i is its distribution over
cells, nu/m D_v's, both noisy; s_i its share of all rows; a kind is all parts of one class, or all owners.

    w = argmin over w >= 0 of  ||sum_i w_i q_i - nu/m||^2 + 9 (1'w - 1)^2 + (.02)^2 sum_i w_i^2 mean(s)/s_i
                               + sum over kinds g of lam_g sum over i in g of (w_i - f_i W_g)^2 / f_i

with W_g = sum over g of w_i and f_i = s_i / sum over g of s: **parts of one kind are used in proportion to
their rows, but for differences that noise does not explain**. Two parts with the same rows have histograms
that differ by noise alone, of deviation sigma_i in each cell. This noise moves the slope of the first term by
about 2 sigma_i ||r||, r its residual, and the last term balances it at w_i - f_i W_g = f_i sigma_i ||r|| /
lam_g. So

    lam_g = EVENNESS ||r|| (sum over g of f_i sigma_i) / W_g

leaves a deviation of f_i W_g / EVENNESS, for any noise, any number of owners and any distance of D_v from the
owners; ||r|| and W_g come from a first fit whose parts are the kinds, each with all its owners pooled.
Without noise lam is 0.

**The part of D_v that no mixture explains is ordered in proportion to rows.** Suppose D_v is a category of
which every owner has a few rows. The fit gives all weight to the owners in which the category is a little
more frequent, and these owners run out of its rows. So orders follow (1 - t) w + t s (`shared`): t is the
squared distance of nu/m from the mixture w over that from the pool, each less its expected noise, B
(sigma_v^2 + sum_i w_i^2 sigma_i^2). For a D_v that is a mixture of owners t is near 0, whatever the noise.

The fit is symmetric in owners: equal histograms and sizes get equal weights.
"""

from dataclasses import dataclass

import numpy as np

from fedkme.arrays import FloatArray, IntArray

MASS_WEIGHT = 3.0
RIDGE = 0.02
EVENNESS = 4.0
"""Deviations of the noise that move an owner's share of a kind by its full size."""
_EMPTY = 1e-12
_LEAST_SHARE = 1e-6
"""Smallest share of rows by which weights are divided."""
_STEPS = 800
"""Most Newton steps; 800 random problems took at most 173, with noise 2 to 20."""
_ROUNDING = 1e-13
"""Slopes below this part of the largest slope count as 0."""


@dataclass(frozen=True, eq=False, slots=True, repr=False)
class Parts:
    """Parts whose mixture is to approximate D_v.

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
    """Fit w, normalised, (P,): proportional to mass where nothing fits, 0 where there are no rows.

    Args:
        parts: parts by owner, or by owner and class.
        nu: (B,), noisy counts of D_v over m.
    """
    mass = _present(parts)
    if not mass.any():
        return mass
    present = mass > 0
    ridge = RIDGE**2 * mass[present].mean() / np.maximum(mass, _LEAST_SHARE)
    diagonal, basis, middle = _pull(parts, mass, nu)
    weights = _fitted(parts.shares, nu, ridge + diagonal, basis, middle)
    weights = np.where(present, weights, 0.0)
    if weights.sum() <= _EMPTY:
        weights = mass
    normalised: FloatArray = weights / weights.sum()
    return normalised


def shared(parts: Parts, weights: FloatArray, nu: FloatArray, noise: float = 0.0) -> FloatArray:
    """Compute (1 - t) w + t s, (P,): the part of D_v that no mixture explains is shared by rows.

    Args:
        parts: parts by owner, or by owner and class.
        weights: w, of their `mixture`.
        nu: (B,), noisy counts of D_v over m.
        noise: sigma_v, deviation of the noise on each entry of nu.
    """
    mass = _present(parts)
    by_rows = mass / max(float(mass.sum()), _EMPTY)
    far, unexplained = (_distance(parts, candidate, nu, noise) for candidate in (by_rows, weights))
    t = min(1.0, max(0.0, unexplained) / far) if far > 0 else 0.0
    return (1.0 - t) * weights + t * by_rows


def _present(parts: Parts) -> FloatArray:
    """Mass of each part, 0 for a part without a histogram."""
    return np.where(parts.shares.any(axis=1), parts.mass, 0.0)


def _distance(parts: Parts, weights: FloatArray, nu: FloatArray, noise: float) -> float:
    """Squared distance of D_v from the mixture with these weights, less the expected effect of noise."""
    seen = np.square(nu - weights @ parts.shares).sum()
    return float(seen - len(nu) * (noise**2 + np.square(weights * parts.noise).sum()))


def _pull(parts: Parts, mass: FloatArray, nu: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Write the last term as w'(D + U C U')w: D, (P,); U, (P, 2 G) for G kinds; C.

    With F_i = max(f_i, _LEAST_SHARE) below the line, a kind's part of it is
    lam_g (sum w_i^2/F_i - 2 W_g sum w_i f_i/F_i + W_g^2 sum f_i^2/F_i).
    """
    g = parts.kinds
    kinds = np.arange(int(g.max()) + 1)
    members = (g == kinds[:, None]).astype(np.float64)
    within = members * mass / np.maximum(members @ mass, _EMPTY)[:, None]
    pooled = within @ parts.shares
    alone = np.full(len(kinds), RIDGE**2), np.empty((len(kinds), 0)), np.empty((0, 0))
    first = _fitted(pooled, nu, *alone)
    residual = float(np.linalg.norm(nu - first @ pooled))
    strength = EVENNESS * residual * (within @ parts.noise) / np.maximum(first, 0.01)
    f = within.sum(axis=0)
    floor = np.maximum(f, _LEAST_SHARE)
    basis = np.concatenate([members * (f / floor), members]).T
    cross, own = np.diag(-strength), np.diag(strength * (members @ (f**2 / floor)))
    return strength[g] / floor, basis, np.block([[np.zeros_like(cross), cross], [cross, own]])


def _fitted(
    shares: FloatArray, nu: FloatArray, diagonal: FloatArray, basis: FloatArray, middle: FloatArray
) -> FloatArray:
    """Fit w >= 0: ||w'shares - nu||^2 + MASS_WEIGHT^2 (1'w - 1)^2 + w'(diagonal + basis middle basis')w."""
    parts, cells = shares.shape
    observed = cells + 1
    weight, target = np.zeros((observed + len(middle),) * 2), np.zeros(observed + len(middle))
    weight[:observed, :observed] = np.diag([*np.ones(cells), MASS_WEIGHT**2])
    weight[observed:, observed:] = middle
    target[:observed] = *nu, 1.0
    return nonnegative(diagonal, np.concatenate([shares, np.ones((parts, 1)), basis], axis=1), weight, target)


def nonnegative(
    diagonal: FloatArray, basis: FloatArray, middle: FloatArray, target: FloatArray
) -> FloatArray:
    """Minimise w'D w + (U'w - t)'C(U'w - t) over w >= 0, (P,), with work that is linear in P.

    D + U C U' is positive definite. With y = C(U'w - t) the gradient at w is D w + U y, so that w is -U y/D
    where -U y/D is above 0, and 0 elsewhere. Newton steps in y end where no entry changes sides; some steps
    are shortened, since full steps may cycle without noise.

    Args:
        diagonal: D, (P,), > 0.
        basis: U, (P, r), of few columns.
        middle: C, (r, r), symmetric.
        target: t, (r,).
    """
    slope = np.full(len(diagonal), -1.0)
    on, gradient = slope < 0, slope
    for number in range(_STEPS):
        on = slope < 0
        u = basis[on]
        gram = u.T @ (u / diagonal[on, None])
        gradient = basis @ -np.linalg.solve(np.eye(len(target)) + middle @ gram, middle @ target)
        slack = _ROUNDING * float(np.abs(gradient).max(initial=0.0))
        if not np.where(on, gradient > slack, gradient < -slack).any():
            break
        slope = slope + 0.5 ** (number // 16 % 5) * (gradient - slope)
    return np.where(on, np.maximum(-gradient / diagonal, 0.0), 0.0)
