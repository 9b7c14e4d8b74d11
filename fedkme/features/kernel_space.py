"""Units of the Gaussian kernel that a map's inner products compute or estimate, for maps of whole rows."""

import numpy as np

from fedkme.arrays import FloatArray
from fedkme.embeddings.weighted_points import WeightedPoints
from fedkme.errors import ConfigError, DataError
from fedkme.features.domain import Domain
from fedkme.features.fourier_map import FourierMapSpec
from fedkme.features.kernel_points import PointsSpec
from fedkme.features.maps import EmbeddingMap
from fedkme.features.sums import ReleasedEmbedding
from fedkme.tables.table import Table


def kernel_units(features: EmbeddingMap) -> tuple[FloatArray, FloatArray, float]:
    """Gain and shift, (n,), that take model space to the space of k = exp(-gamma r^2), and gamma.

    Raises:
        ConfigError: the map has no such kernel.
    """
    spec = features.spec
    if isinstance(spec, PointsSpec):
        return (*Domain(features.schema).affine(spec.units, None), spec.gamma)
    if isinstance(spec, FourierMapSpec):
        return (*Domain(features.schema).affine(spec.units, spec.scales), spec.gamma)
    raise ConfigError(f"a map of kind '{spec.kind}' has no Gaussian kernel of whole rows", "Use 'fourier'.")


def to_table(points: WeightedPoints, features: EmbeddingMap) -> tuple[Table, FloatArray]:
    """Points as rows of the schema in its units, and their weights, (M,).

    Numbers are clipped to the public bounds and categories rounded to the nearest, so the schema accepts the
    table. A point outside the bounds moves.
    """
    return Table(features.schema.decode(to_model(points.points, features))), points.weights


def to_model(points: FloatArray, features: EmbeddingMap) -> FloatArray:
    """Points in the kernel's units, (M, n), as points of model space."""
    gain, shift, _ = kernel_units(features)
    model: FloatArray = (points - shift) / gain
    return model


def one_column(released: ReleasedEmbedding, features: EmbeddingMap) -> FloatArray:
    """The mean of an embedding without classes, (J,).

    Raises:
        ConfigError: the embedding has several columns, or belongs to another map.
        DataError: the embedding is not finite.
    """
    if released.mean.shape != (features.dimension, 1) or released.map_spec != features.spec:
        raise ConfigError(
            f"an embedding of shape {released.mean.shape} does not belong to this map of "
            f"{features.dimension} features and one column",
            "Release one column with the map of this call.",
        )
    if not np.isfinite(released.mean).all():
        raise DataError("the released embedding is not finite", "Release it again.")
    return released.mean[:, 0]
