"""g~ by landmarks: D_v's mean in the span of the kernels of public rows, then in coordinates of h1.

z_1, ..., z_M are public rows, phi(x) the coordinates of k(x, .) in an orthonormal basis of the span of the
k(z_m, .) (`PointsMap`). **Relation**: one row of D_v replaced, |D_v| public. **Sensitivity** of the sum of
phi: ||phi(x) - phi(y)||^2 <= ||k_x - k_y||^2 = 2 - 2 k(x, y) < 2, since a projection lengthens nothing and
k > 0. So the sensitivity is sqrt 2, where h1 has 2 B, whatever landmarks a curator names. Cutting coordinates
towards zero brings two numbers of unlike signs closer and moves two of like signs apart by less than a unit,
which adds less than unit sqrt J. **Release**: one Gaussian, calibrated exactly, on the J coordinates.

All later steps read only this release and public values. A coordinate shrinks towards the landmarks' own
mean, the more the larger its noise is against the expected difference of a target from that mean. Then
sum_i w_i k(z_i, .) becomes sum_i w_i h1(z_i), as every other party computes with h1.

Landmarks are not the default: the part of D_v outside the span is lost, and the rows of a curator's seed set
may be of another kind than D_v (docs/decisions/003, "g~ by landmarks").
"""

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from fedkme.arrays import FloatArray, Numbers
from fedkme.errors import ConfigError, ProtocolError, fault_of_curator
from fedkme.features.fixed_point import FEATURE_UNIT, MeanVector, quantize_mean
from fedkme.features.fourier import FourierFeatures
from fedkme.features.kernel_points import PointsMap, PointsSpec, principal_basis, rbf
from fedkme.privacy.means import Cost, GaussianMean
from fedkme.privacy.noise import NoiseSource
from fedkme.tables.schema import Schema

MOST = 256
"""Largest number of landmarks."""
_MOST_NUMBERS = 2**18  # 1 MiB in a plan
_TOLERANCE = 1e-6
"""Part of the kernel matrix' trace below which a direction is left out."""
_ENCODED = Numbers(-1.0, 1.0)
_SPREAD = 0.2
"""Expected squared difference of a target from the landmarks' mean, over the mean square of a landmark."""


@dataclass(frozen=True, eq=False)
class Landmarks:
    """Public rows in model space and the kernel of a run.

    Attributes:
        rows: z, (M, n) float32, M >= 1.
        gamma: gamma of the kernel.
        schema: schema of the rows.
    """

    rows: NDArray[np.float32]
    gamma: float
    schema: Schema

    @cached_property
    def map(self) -> PointsMap:
        """Phi, in the basis of principal directions."""
        points = self.rows.astype(np.float64)
        gram = rbf(points, points, self.gamma)
        basis = principal_basis(gram, _TOLERANCE * len(points))
        spec = PointsSpec.of(points, self.gamma, basis)
        return spec.make(self.schema)

    @property
    def sensitivity(self) -> float:
        """Largest distance of two rows' phi in fixed point."""
        return self.map.spread + FEATURE_UNIT * math.sqrt(self.map.dimension)

    def mean(self, epsilon: float, delta: float, noise: NoiseSource) -> GaussianMean:
        """The mechanism that releases a mean of phi once."""
        dimension = self.map.dimension
        bound = self.map.norm_bound * math.sqrt(2.0 / dimension)  # in the units of h1
        return GaussianMean(
            dimension,
            noise,
            norm_bound=bound,
            epsilon=epsilon,
            delta=delta,
            releases=1,
            diameter=self.sensitivity,
        )

    def features(self, rows: NDArray[np.float32]) -> FloatArray:
        """Phi of encoded rows, (m, n) -> (m, J), in [-1, 1] and within the norm bound.

        Only rounding can move phi outside these bounds; phi is then cut, as an error would reveal the row.
        """
        features: FloatArray = np.clip(self.map.of_model(rows.astype(np.float64)), -1.0, 1.0)
        lengths = np.linalg.norm(features, axis=1, keepdims=True)
        longest = self.map.norm_bound * (1.0 + 5e-7)
        return np.where(
            lengths > longest, features * (self.map.norm_bound / np.maximum(lengths, 1e-9)), features
        )

    def in_h1(self, mean: FloatArray, deviation: float, h1: FourierFeatures) -> FloatArray:
        """A noisy mean of phi as a mean of h1, (J,) -> (d,) in normalised units; post-processing.

        Args:
            mean: the released mean.
            deviation: deviation of the noise in each coordinate.
            h1: the run's draw.
        """
        landmarks = self.features(self.rows)
        expected = _SPREAD * np.square(landmarks).mean(axis=0)
        shrinkage = expected / (expected + deviation**2)
        centre = landmarks.mean(axis=0)
        weights = (centre + shrinkage * (mean - centre)) @ self.map.whitening
        mean_h1: FloatArray = weights @ h1.normalised(self.rows)
        return mean_h1


def landmarks_of(data: bytes, gamma: float, schema: Schema) -> Landmarks:
    """Read the landmarks of a plan.

    Raises:
        ProtocolError: the bytes are no finite rows of the schema's width, or too many rows.
    """
    width = schema.encoded_width
    rows = np.frombuffer(data[: len(data) // 4 * 4], dtype="<f4").astype(np.float32)
    if len(data) % (4 * width) or not 0 < len(rows) <= MOST * width:
        raise fault_of_curator("the landmarks of a plan are no rows of its schema")
    try:
        _ENCODED.array(rows.astype(np.float64), (None,), "the landmarks of a plan")
        landmarks = Landmarks(rows.reshape(-1, width), gamma, schema)
        landmarks.map  # noqa: B018  # before D_v is read: the map refuses points that depend on each other
    except ConfigError as error:
        raise ProtocolError(error.cause, error.remedy) from None
    return landmarks


def some_of(seeds: NDArray[np.float32], count: int) -> NDArray[np.float32]:
    """Take up to `count` public rows, evenly spread over their order, and no more than fit into a plan."""
    fit = max(_MOST_NUMBERS // max(seeds.shape[1], 1), 1)
    places = np.linspace(0, len(seeds) - 1, min(count, fit, MOST, len(seeds))).round().astype(np.intp)
    return seeds[places]


def release_by_landmarks(
    epsilon: float,
    delta: float,
    landmarks: Landmarks,
    h1: FourierFeatures,
    validation: NDArray[np.float32],
    noise: NoiseSource,
) -> tuple[MeanVector, Cost]:
    """Release g~ in fixed point, (d,), with its cost to D_v; see the head of this module.

    Args:
        epsilon: epsilon of the release.
        delta: delta of the release.
        landmarks: landmarks of the plan.
        h1: the run's draw.
        validation: encoded rows of D_v, (m, n).
        noise: private randomness of the party that holds D_v.
    """
    release = landmarks.mean(epsilon, delta, noise)
    release.add(landmarks.features(validation))
    mean, deviation = release.release(), release.deviation
    return quantize_mean(landmarks.in_h1(mean, deviation, h1)), release.cost
