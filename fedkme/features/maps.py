"""Feature maps of embeddings: phi takes a row to J numbers, the same at every party that has the map's spec.

`spec.make(schema)` builds the map of a spec. A spec is plain, immutable and JSON-able; requests carry specs.
A spec makes no claim that a party would have to believe: dimension, norm bound and diameter are properties of
the map, and every party computes them for the map that it builds.

All kinds accept the rows of the public schema's domain and no others. Another package adds a kind by an entry
point of the group `fedkme.feature_maps`; every party of a run needs that package (docs/extending.md).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pydantic import ValidationError

from fedkme.arrays import FloatArray
from fedkme.config import Settings
from fedkme.errors import ConfigError
from fedkme.extensions import FEATURE_MAPS, Registry, merged
from fedkme.features.domain import Domain
from fedkme.tables.schema import Schema


class MapSpec(Settings):
    """Base of the specs of all kinds."""

    kind: str = ""
    """The name of the kind, on the wire and in release files."""

    @abstractmethod
    def make(self, schema: Schema) -> EmbeddingMap:
        """The map of this spec over a schema.

        Raises:
            ConfigError: the spec does not fit the schema.
        """

    def numbers(self, schema: Schema) -> tuple[int, int]:
        """Count the numbers in the map's memory; an owner refuses too many before it makes the map.

        Returns:
            Entries of the map's matrices, and coordinates J (0 where the map itself refuses too large a J).
        """
        return 0, 0


ROW_UNIT = 2.0**-28
"""One step of a sum: a row's features are rounded to whole multiples of it before they are added."""


class EmbeddingMap(ABC):
    """Phi over the rows of a public schema.

    Attributes:
        spec: the public spec of the map.
        schema: the public schema of the rows.
        domain: the domain of the schema.
        dimension: J, coordinates of phi(x).
        norm_bound: B: no row of the domain has a longer phi(x), in L2.
        spread: no two rows x, y of the domain have a larger ||phi(x) - phi(y)||; at most 2 B.
        centre: public point of model space, (n,); rows far from it are clipped. None: no row is clipped.
    """

    dimension: int
    norm_bound: float
    spread: float
    centre: FloatArray | None = None

    def __init__(self, spec: MapSpec, schema: Schema) -> None:
        self.spec = spec
        self.schema = schema
        self.domain = Domain(schema)

    def features(self, rows: NDArray[Any]) -> FloatArray:
        """Phi of each row, (k, c) in the schema's columns -> (k, J) float64.

        Raises:
            DataError: rows outside the domain (NaN, bounds, unknown category); the error only counts them.
        """
        features: FloatArray = self.of_model(self.domain.encode(rows))
        return features

    def steps(self, points: FloatArray) -> FloatArray:
        """Phi of points of model space in whole steps of ROW_UNIT, (k, n) -> (k, J), in any fixed order."""
        steps: FloatArray = self.of_model(points)
        steps /= ROW_UNIT
        return np.rint(steps, out=steps)

    def arranged(self, sums: NDArray[Any]) -> NDArray[Any]:
        """Sums of `steps`, (J, C), in the order of phi's coordinates."""
        return sums

    @abstractmethod
    def of_model(self, points: Any, xp: Any = np) -> Any:
        """Phi of points of model space (as `Schema.encode` makes them), (k, n) -> (k, J), unchecked.

        The formula works in numpy and in jax.numpy, so that generators train through it; the dtype is that of
        the points.
        """


_OWN = {
    "fourier": "fedkme.features.fourier_map:FourierMapSpec",
    "mixed": "fedkme.features.fourier_map:MixedSpec",
    "hermite-sum": "fedkme.features.hermite:HermiteSumSpec",
    "hermite-product": "fedkme.features.hermite:HermiteProductSpec",
    "points": "fedkme.features.kernel_points:PointsSpec",
    "shells": "fedkme.moments.features:ShellsSpec",
    "second-moments": "fedkme.moments.features:SecondMomentsSpec",
}
MAPS: Registry[MapSpec] = Registry(MapSpec, "feature map", "kind", partial(merged, _OWN, FEATURE_MAPS))
"""Spec classes of all feature maps, by kind."""


def spec_to_json(spec: MapSpec) -> dict[str, Any]:
    """Plain values of a spec; `spec_from_json` reads them back to an equal spec."""
    return spec.model_dump(mode="json")


def spec_from_json(plain: object) -> MapSpec:
    """Read what `spec_to_json` wrote.

    Raises:
        ConfigError: an unknown kind, a missing or an unknown field, or a value out of its range.
    """
    try:
        return MAPS.model_validate(plain)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        kind = plain.get("kind") if isinstance(plain, dict) else "kind"
        where = ".".join(str(part) for part in first["loc"]) or str(kind)[:40]
        cause = f"a feature map's '{where}' is wrong: {first['msg'].removeprefix('Value error, ')}"
        raise ConfigError(cause, "Correct the feature map that the request names.") from None
