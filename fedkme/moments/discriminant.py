"""Discriminant from released moments, without synthetic rows and without training.

The quadratic discriminant uses the Gaussian of each class, the share of the class, and the distance of a row
from the mean of all rows. The distance has a term of its own, as if its square were a gamma variable of known
mean (`Gaussians.spreads`) and public shape. The reason: covariances of classes are estimated entry by entry,
and where no entry exceeds its noise, the estimates are alike even if the classes have different spreads.
"""

import math
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from fedkme.arrays import FloatArray
from fedkme.errors import ConfigError
from fedkme.features.domain import Domain
from fedkme.moments.features import SecondMoments
from fedkme.moments.gaussians import Gaussians, gaussians_of
from fedkme.releases.file import StoredRelease

Shape = Literal["quadratic", "linear"]
"""Covariances of a discriminant. `quadratic`: one for each class; `linear`: one for all classes."""
SPREAD_SHAPE = 3.0
"""Shape of the gamma law of squared distances: that of six squared normal numbers. docs/decisions/022."""
_BLOCK = 4096


@dataclass(frozen=True, eq=False)
class Discriminant:
    """Classifier by the Gaussians of the classes; the shares of the classes are the prior.

    Attributes:
        features: feature map, which gives z of a row.
        gaussians: Gaussians of the classes in z.
        shape: whether each class has a covariance of its own.
    """

    features: SecondMoments
    gaussians: Gaussians
    shape: Shape = "quadratic"

    def log_posterior(self, values: NDArray[Any]) -> FloatArray:
        """Logarithms of the probabilities of the classes, (m, C), for rows of the schema, (m, c).

        Raises:
            DataError: rows do not fit the schema.
        """
        domain, blocks = Domain(self.features.schema), []
        for start in range(0, max(len(values), 1), _BLOCK):
            blocks.append(self._scores(self.features.z(domain.encode(values[start : start + _BLOCK]))))
        scores = np.concatenate(blocks)
        top = scores.max(axis=1, keepdims=True)
        logs: FloatArray = scores - top - np.log(np.exp(scores - top).sum(axis=1, keepdims=True))
        return logs

    def predict(self, values: NDArray[Any]) -> NDArray[np.int64]:
        """Most likely class of each row, (m,)."""
        return np.asarray(self.log_posterior(values).argmax(axis=1), np.int64)

    def _scores(self, z: FloatArray) -> FloatArray:
        """Logarithm of share times density, up to a constant, (m, C)."""
        gaussians = self.gaussians
        scores = np.empty((len(z), len(gaussians.shares)))
        for place, (share, mean, own) in enumerate(
            zip(gaussians.shares, gaussians.means, gaussians.covariances, strict=True)
        ):
            root = np.linalg.cholesky(own if self.shape == "quadratic" else gaussians.pooled)
            white = np.linalg.solve(root, (z - mean).T)
            volume = float(np.log(np.diagonal(root)).sum())
            scores[:, place] = math.log(share) - volume - 0.5 * (white**2).sum(axis=0)
        return scores + self._by_distance(z) if self.shape == "quadratic" else scores

    def _by_distance(self, z: FloatArray) -> FloatArray:
        """Logarithm of the density of the squared distance from all rows' mean, up to a constant, (m, C)."""
        spreads = self.gaussians.spreads
        distances = ((z - self.gaussians.centre) ** 2).sum(axis=1, keepdims=True)
        return np.asarray(-SPREAD_SHAPE * (distances / spreads + np.log(spreads)))


def discriminant_of(stored: StoredRelease, shape: Shape = "quadratic") -> Discriminant:
    """Make the classifier of a release.

    Raises:
        ConfigError: the release is not one of moments, or its schema has no label.
    """
    features = stored.embeddings[0].map_spec.make(stored.schema)
    if not isinstance(features, SecondMoments):
        cause = f"a release of {stored.protocol} has no moments to classify by"
        raise ConfigError(cause, "Train a model on its synthetic rows, or ask for a release of moments.")
    if not stored.schema.classes:
        raise ConfigError("the schema of this release has no label", "Give the schema a [label].")
    return Discriminant(features, gaussians_of(stored.embeddings[0]), shape)
