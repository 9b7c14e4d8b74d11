"""FedDP-KMeans: private k-means of all owners' rows (Scott, Lampert and Saulpic, ICML 2025, 2506.05408).

With rows of norm at most 1, replace-one, by a server that has some rows of its own (theirs, section 3; at the
level of rows, sums are made securely and noised in the middle):

1. the second moments of all rows, with Gaussian noise; their top k eigenvectors are a subspace;
2. in it each row is counted for the nearest row of the server's, with Laplace noise on the counts, and
   k-means of the server's rows, weighted by counts of at least LEAST, gives k centres there;
3. sums and counts of the rows nearest to each of these, with Gaussian and Laplace noise, give centres;
4. so are they again after one step of Lloyd.

Each part gets a quarter of epsilon, and 3 and 4 half of theirs for the sums: the authors' own division.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fedkme.arrays import FloatArray, IntArray
from fedkme.privacy.gaussian import gaussian_sigma

LEAST = 5.0
"""Rows of the server with a smaller noisy count are left out; theirs."""
_PARTS = 4
_FARTHEST = np.sqrt(2.0)
"""L2, replace-one, of the second moments of rows of norm 1."""
_DIAMETER = 2.0
"""L2, replace-one, of sums by centre: sqrt 2 between centres, 2 within one."""


@dataclass(frozen=True, slots=True)
class CentreBudget:
    """Budget of private centres: (epsilon, delta), replace-one, for all parts together."""

    epsilon: float
    delta: float

    @property
    def part(self) -> float:
        """Epsilon of each part."""
        return self.epsilon / _PARTS

    def gaussian(self, sensitivity: float, share: float = 1.0) -> float:
        """Deviation of the noise on one of three sums; infinite epsilon: none."""
        if np.isinf(self.epsilon):
            return 0.0
        return sensitivity * gaussian_sigma(share * self.part, self.delta / 3.0)

    def laplace(self, share: float = 1.0) -> float:
        """Scale of the noise on counts, which a replaced row changes by 2 in all."""
        return 2.0 / (share * self.part)


def private_centres(
    rows: FloatArray, server: FloatArray, count: int, budget: CentreBudget, rng: np.random.Generator
) -> FloatArray:
    """Find centres of the rows of all owners, (k, d) with k <= count.

    Args:
        rows: rows of all owners, (N, d), of norm at most 1.
        server: rows that are public, (s, d).
        count: k.
        budget: budget of one row.
        rng: draws the noise and the first centres.
    """
    d = rows.shape[1]
    noise = np.triu(rng.normal(0.0, 1.0, (d, d)))
    noise = budget.gaussian(_FARTHEST) * (noise + np.triu(noise, 1).T)
    _, vectors = np.linalg.eigh(rows.T @ rows + noise)
    subspace = vectors[:, -min(count, d) :]
    inside, server_rows = rows @ subspace, server @ subspace
    counts = np.bincount(nearest(inside, server_rows), minlength=len(server_rows))
    mass = counts + rng.laplace(0.0, budget.laplace(), len(server_rows))
    starts = _weighted_kmeans(server_rows, mass, count, rng)
    centres = _noisy_means(rows, nearest(inside, starts), len(starts), budget, rng)
    return _noisy_means(rows, nearest(rows, centres), len(centres), budget, rng)


def nearest(rows: FloatArray, centres: FloatArray) -> IntArray:
    """Index of the nearest centre of each row, (m,); of equal ones the first."""
    squared = np.square(centres).sum(axis=1) - 2.0 * rows @ centres.T
    places: IntArray = squared.argmin(axis=1).astype(np.int64)
    return places


def _weighted_kmeans(rows: FloatArray, mass: FloatArray, count: int, rng: np.random.Generator) -> FloatArray:
    from sklearn.cluster import KMeans

    large = mass >= LEAST
    if not large.any():
        large = mass >= mass.max()
    size = min(count, len(np.unique(rows[large], axis=0)))
    model = KMeans(size, n_init=1, random_state=int(rng.integers(2**31)))
    fitted = model.fit(rows[large], sample_weight=np.maximum(mass[large], 1e-9))
    return np.asarray(fitted.cluster_centers_, dtype=np.float64)


def _noisy_means(
    rows: FloatArray, owner: IntArray, count: int, budget: CentreBudget, rng: np.random.Generator
) -> FloatArray:
    """Means of the rows of each centre, from noisy sums and noisy counts of at least 1, (k, d)."""
    sums = np.zeros((count, rows.shape[1]))
    np.add.at(sums, owner, rows)
    sums += rng.normal(0.0, 1.0, sums.shape) * budget.gaussian(_DIAMETER, 0.5)
    counts = np.bincount(owner, minlength=count) + rng.laplace(0.0, budget.laplace(0.5), count)
    return sums / np.maximum(counts, 1.0)[:, None]
