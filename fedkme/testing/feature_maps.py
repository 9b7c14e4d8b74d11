"""The contract of a feature map."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest

from fedkme.errors import DataError
from fedkme.features.maps import MAPS, ROW_UNIT, MapSpec, spec_from_json, spec_to_json
from fedkme.features.sums import counted, same_class_distance
from fedkme.testing.rows import MIXED, corners, random_table

_CORNERS = corners(MIXED)


class FeatureMapContract:
    """Tests of any feature map over the schema MIXED; a subclass gives the fixture `spec`."""

    @pytest.fixture
    def spec(self) -> MapSpec:
        """The public value that a map is made from."""
        raise NotImplementedError

    def test_norm_and_spread_hold_on_corners_and_inside(self, spec: MapSpec) -> None:
        """No row of the public domain exceeds what noise is calibrated by: adversarial rows first."""
        phi = spec.make(MIXED)
        features = phi.features(np.concatenate([_CORNERS, random_table(MIXED, 200).values]))
        assert features.shape == (len(_CORNERS) + 200, phi.dimension)
        assert features.dtype == np.float64
        norms = np.linalg.norm(features, axis=1)
        assert norms.max() <= phi.norm_bound * (1 + 1e-12)
        gram = features @ features.T
        squares = np.diag(gram)[:, None] + np.diag(gram) - 2 * gram
        assert math.sqrt(squares.max()) <= phi.spread * (1 + 1e-9)
        assert phi.spread <= 2 * phi.norm_bound
        steps = phi.steps(phi.domain.encode(_CORNERS)) * ROW_UNIT
        apart = np.sqrt(np.square(steps[:, None] - steps).sum(axis=2))
        assert apart.max() <= counted(same_class_distance(phi), phi)

    def test_a_spec_travels_as_json_and_makes_the_same_map(self, spec: MapSpec) -> None:
        """Two parties make the same phi of what is on the wire."""
        again = spec_from_json(json.loads(json.dumps(spec_to_json(spec))))
        assert again == spec
        assert MAPS[spec.kind] is type(spec)
        mine, theirs = spec.make(MIXED), again.make(MIXED)
        assert (mine.norm_bound, mine.spread) == (theirs.norm_bound, theirs.spread)
        assert np.array_equal(mine.features(_CORNERS), theirs.features(_CORNERS))

    def test_an_owner_knows_what_the_map_needs_before_it_makes_it(self, spec: MapSpec) -> None:
        """Numbers that the spec declares: entries of matrices, and coordinates where they are known."""
        entries, coordinates = spec.numbers(MIXED)
        assert entries >= 0
        assert coordinates <= spec.make(MIXED).dimension

    @pytest.mark.parametrize("code", [-1.0, 2.0, 0.5, math.nan])
    def test_integer_codes_and_unknown_ones_are_refused(self, spec: MapSpec, code: float) -> None:
        """Only an index of the public schema is a category."""
        rows = random_table(MIXED, 3).values
        rows[1, 1] = code
        with pytest.raises(DataError, match=r"column 'sex'.*rows: 1"):
            spec.make(MIXED).features(rows)

    @pytest.mark.parametrize("value", [100.5, -1e300, math.inf, math.nan])
    def test_numbers_outside_the_public_bounds_are_refused(self, spec: MapSpec, value: float) -> None:
        """The refusal says in how many rows, and no value."""
        rows = random_table(MIXED, 3).values
        rows[:2, 0] = value
        with pytest.raises(DataError, match=r"column 'age'.*rows: 2") as caught:
            spec.make(MIXED).features(rows)
        assert not math.isfinite(value) or str(value) not in str(caught.value)

    def test_rows_of_another_shape_are_refused(self, spec: MapSpec) -> None:
        """Rows have the columns of the schema and are numbers."""
        phi = spec.make(MIXED)
        with pytest.raises(DataError, match="shape"):
            phi.features(np.zeros((2, 4)))
        with pytest.raises(DataError, match="type"):
            phi.features(np.full((2, 5), "1"))

    def test_jax_traces_the_same_formula(self, spec: MapSpec) -> None:
        """Generators are trained through `of_model` with jax.numpy, in float32."""
        jax = pytest.importorskip("jax")
        points = MIXED.encode(random_table(MIXED, 20).values)
        phi = spec.make(MIXED)
        traced = jax.jit(lambda p: phi.of_model(p, jax.numpy))(points)
        assert traced.dtype == np.float32
        exact = phi.of_model(points.astype(np.float64))
        np.testing.assert_allclose(traced, exact, atol=2e-3 * phi.norm_bound)
