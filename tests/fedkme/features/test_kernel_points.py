"""Features of public points: coordinates in an orthonormal basis of the span of their kernels."""

from __future__ import annotations

import numpy as np
import pytest

from audit.contracts import MIXED as SCHEMA
from audit.contracts import random_table
from fedkme.arrays import FloatArray
from fedkme.errors import ConfigError
from fedkme.features.domain import Domain
from fedkme.features.kernel_points import PointsMap, PointsSpec, rbf
from fedkme.features.maps import spec_from_json


def model_points(count: int, seed: int) -> FloatArray:
    return Domain(SCHEMA).encode(random_table(SCHEMA, count, seed).values)


def test_points_embed_orthonormally() -> None:
    # MATH.md 2: alpha = L^-1 k_z(x). On the points themselves inner products are the kernel's.
    z = model_points(12, 4)
    phi = PointsSpec.of(z, 0.7).make(SCHEMA)
    assert isinstance(phi, PointsMap)
    assert phi.norm_bound == 1.0
    features = phi.of_model(z)
    np.testing.assert_allclose(features @ features.T, rbf(z, z, 0.7), atol=1e-10)
    factor = np.linalg.cholesky(rbf(z, z, 0.7))
    x = model_points(5, 9)
    np.testing.assert_allclose(phi.of_model(x), np.linalg.solve(factor, rbf(z, x, 0.7)).T, atol=1e-9)


def test_points_in_files_of_0_2_0_are_read() -> None:
    spec = PointsSpec.of(model_points(3, 5), 0.7)
    plain = {**spec.model_dump(mode="json"), "whitening": None}
    assert spec_from_json(plain) == spec
    with pytest.raises(ConfigError, match="whitening"):
        spec_from_json({**plain, "whitening": "AAAAAAAA8D8="})


def test_dependent_points_are_refused() -> None:
    z = model_points(3, 4)
    with pytest.raises(ConfigError, match="depend"):
        PointsSpec.of(np.concatenate([z, z]), 0.7).make(SCHEMA)
    with pytest.raises(ConfigError, match="depend"):
        PointsSpec.of(np.concatenate([z, z + 1e-9]), 0.7).make(SCHEMA)


def test_points_of_another_space_are_refused() -> None:
    with pytest.raises(ConfigError, match="4 columns"):
        PointsSpec.of(np.zeros((2, 4)), 0.7).make(SCHEMA)
