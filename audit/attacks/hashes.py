"""Four attacks of a curator on hashes.

It holds h1 of rows in fixed point, the public part of the map, and no draw.

1. **Distances** need nothing else: inner products are kernel values, and ||x - y||^2 is
   -log(h1(x) . h1(y)) / gamma. The kernel's error is about 1/sqrt(d): a squared distance beyond
   log(d) / (2 gamma) is noise. Hashes show duplicates, clusters, outliers, and rows that are recognised by
   their distances.
2. **Known pairs**: some rows with their hashes, of an owner that colludes or of public rows that somebody
   hashed for it. Each frequency is then a linear regression on angles modulo 2 pi.
3. **The draw**, from 2 or from a holder of the group secret: each hash is inverted by itself.
4. **Public rows of the same distribution**: the cloud of rows, rebuilt from distances, is laid on them. Where
   many rows are hashed this shows rows approximately, without the draw and without one known pair.

That distances are all there is to learn (the proposition in `fedkme.sealed.secret_fourier`) is no comfort
where distances are enough. lab/results/hashes.md has the figures.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass

import numpy as np
from scipy.spatial import cKDTree

from fedkme.arrays import FloatArray
from fedkme.embeddings.kernels import median_gamma
from fedkme.embeddings.mmd import mmd2
from fedkme.features.fixed_point import Features, normalised_features
from fedkme.features.fourier import FourierShape
from fedkme.sealed.secret_fourier import SecretFourier

_TURN = 2.0 * math.pi


@dataclass(frozen=True, slots=True)
class Draw:
    """A draw of the paired form, known or fitted.

    Attributes:
        omega: (n, d/2).
        offset: b modulo 2 pi, (d/2,).
    """

    omega: FloatArray
    offset: FloatArray

    def angles(self, rows: FloatArray) -> FloatArray:
        """Angles omega . x + b, (m, n) -> (m, d/2)."""
        angles: FloatArray = rows @ self.omega + self.offset
        return angles


def known_draw(h1: SecretFourier) -> Draw:
    """Draw of a paired map that a holder of the group secret can tell from its public behaviour.

    Angles at the origin and at each unit vector, scaled so that none is more than half a turn away.
    """
    n = h1.spec.width
    small = 0.1 / math.sqrt(2.0 * h1.spec.gamma)
    half = h1.spec.dimension // 2
    values = h1.normalised(np.vstack([np.zeros(n), small * np.eye(n)]))
    angles = np.arctan2(values[:, half:], values[:, :half])
    return Draw(_wrapped(angles[1:] - angles[0]) / small, np.mod(angles[0], _TURN))


def hashed_kernel(x: Features, y: Features) -> FloatArray:
    """Estimates of k(x_i, y_j), (m, d) and (k, d) -> (m, k) float64.

    In the paired form the standard deviation is (1 - k^2) / sqrt(d); the bias is that of rounding (2^-12).
    """
    kernel: FloatArray = 2.0 / x.shape[1] * (normalised_features(x) @ normalised_features(y).T)
    return kernel


def squared_distances(features: Features, gamma: float) -> FloatArray:
    """Attack 1: estimates of ||x_i - x_j||^2 from hashes, (m, d) -> (m, m).

    Where the kernel is within its error of 0, the distance at which it would be that error: "far".
    """
    floor = 1.0 / math.sqrt(features.shape[1])
    kernel = np.clip(hashed_kernel(features, features), floor, 1.0)
    return -np.log(kernel) / gamma


def angles_of(features: Features) -> FloatArray:
    """Angles modulo 2 pi that paired hashes show, (m, d) -> (m, d/2) in (-pi, pi]."""
    half = features.shape[1] // 2
    h = normalised_features(features)
    return np.arctan2(h[:, half:], h[:, :half])


def fit_draw(rows: FloatArray, features: Features, shape: FourierShape) -> Draw:
    """Attack 2: the draw from rows whose hashes are known, by regression of angles modulo 2 pi.

    Ridge regression of differences to the mean row with the prior variance 2 gamma of omega, then whole turns
    that the fit asks for are added to the angles and it is fitted again until nothing changes.

    Args:
        rows: known rows in model space, (m, n); m well above n.
        features: their hashes, paired form, (m, d).
        shape: public part of the map.
    """
    centre = rows.mean(axis=0)
    x = rows - centre
    near = int(np.argmin((x * x).sum(axis=1)))
    observed = angles_of(features)
    turned = _wrapped(observed - observed[near])  # of the row nearest to the middle: fewest whole turns
    design = np.column_stack([x, np.ones(len(x))])
    penalty = np.diag(np.append(np.full(x.shape[1], 1e-4 / (2.0 * shape.gamma)), 0.0))
    solve = np.linalg.solve(design.T @ design + penalty, design.T)
    for _ in range(50):
        fitted = design @ (solve @ turned)
        again = fitted + _wrapped(turned - fitted)
        if np.allclose(again, turned):
            break
        turned = again
    coefficients = solve @ turned
    omega = coefficients[:-1]
    offset = coefficients[-1] + observed[near] - centre @ omega
    return Draw(omega, np.mod(offset, _TURN))


def invert(features: Features, draw: Draw, start: FloatArray) -> FloatArray:
    """Attack 3: rows from their hashes under a draw, paired form; needs d/2 > n.

    Gauss-Newton on angles modulo 2 pi from a public guess such as the middle of the domain, with whole turns
    chosen anew in each round and outlying angles weighted down; rows stay in [0, 1]^n.

    Args:
        features: hashes, (m, d).
        draw: known or fitted.
        start: a row of model space, (n,).

    Returns:
        (m, n).
    """
    observed = angles_of(features)
    rows = np.tile(start, (len(features), 1))
    design = draw.omega.T  # (d/2, n)
    ridge = 1e-6 * np.trace(design.T @ design) / design.shape[1] * np.eye(design.shape[1])
    for number in range(60):
        residual = _wrapped(observed - draw.angles(rows))
        width = max(0.05, 1.5 * 0.8**number)  # from all angles to those that fit
        weights = 1.0 / (1.0 + (residual / width) ** 2)
        for place in range(len(rows)):
            weighted = design * weights[place][:, None]
            step = np.linalg.solve(weighted.T @ design + ridge, weighted.T @ residual[place])
            rows[place] = np.clip(rows[place] + step, 0.0, 1.0)
    return rows


def align(features: Features, gamma: float, public: FloatArray, axes: int) -> FloatArray:
    """Attack 4: approximate rows from hashes and public rows of the same distribution, without the draw.

    Classical scaling turns distances into a cloud of points up to a rigid motion; iterated closest points
    lay it on the public rows' principal components, from every choice of signs of the axes, and the motion
    with the smallest MMD to the public rows is kept.

    Args:
        features: hashes, (m, d).
        gamma: gamma of the kernel.
        public: rows of the same distribution in model space, (k, n), none of them among the hashed.
        axes: principal axes to use; 2^axes motions are tried, at most 64.

    Returns:
        (m, n), in the span of those axes.
    """
    squared = squared_distances(features, gamma)
    count = len(squared)
    middle = np.eye(count) - 1.0 / count
    values, vectors = np.linalg.eigh(-0.5 * middle @ squared @ middle)
    top = np.argsort(values)[::-1][:axes]
    cloud = vectors[:, top] * np.sqrt(np.maximum(values[top], 0.0))
    mean = public.mean(axis=0)
    directions = np.linalg.svd(public - mean, full_matrices=False)[2][:axes]
    target = (public - mean) @ directions.T
    cloud *= math.sqrt((target**2).sum(axis=1).mean() / (cloud**2).sum(axis=1).mean())
    tree, scale = cKDTree(target), median_gamma(target)
    best, motion = math.inf, np.eye(axes)
    for signs in itertools.product((1.0, -1.0), repeat=min(axes, 6)):
        turn = np.diag([*signs, *[1.0] * (axes - len(signs))])
        for _ in range(25):
            nearest = tree.query(cloud @ turn)[1]
            left, _, right = np.linalg.svd(cloud.T @ target[nearest])
            turn = left @ right
        distance = mmd2(cloud @ turn, target, scale)
        if distance < best:
            best, motion = distance, turn
    rows: FloatArray = np.clip(mean + cloud @ motion @ directions, 0.0, 1.0)
    return rows


def _wrapped(angles: FloatArray) -> FloatArray:
    """Angles brought into [-pi, pi)."""
    return np.mod(angles + math.pi, _TURN) - math.pi
