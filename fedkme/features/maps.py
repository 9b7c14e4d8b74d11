"""Feature maps of embeddings: phi takes a row to J numbers, the same for every party that holds its spec.

`make_map(spec, schema)` builds the map of a spec; a spec is plain, immutable and JSON-able, so it is what
travels in a request. Nothing in it is a claim: dimension, norm bound and diameter are properties of the
map that each party builds, hence computed by every party for itself and never typed by hand or believed.

Kinds: see the spec classes. All kinds accept the rows of the public schema's domain and no others.
"""

from __future__ import annotations

from typing import Annotated, Any, Protocol

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, TypeAdapter, ValidationError

from fedkme.errors import ConfigError
from fedkme.features.fourier_map import FourierMap, FourierMapSpec, MixedMap, MixedSpec
from fedkme.features.hermite import HermiteProduct, HermiteProductSpec, HermiteSum, HermiteSumSpec
from fedkme.features.kernel_points import PointsMap, PointsSpec
from fedkme.tables.schema import Schema

FloatArray = NDArray[np.float64]
MapSpec = Annotated[
    FourierMapSpec | MixedSpec | HermiteSumSpec | HermiteProductSpec | PointsSpec,
    Field(discriminator="kind"),
]
_ADAPTER: TypeAdapter[MapSpec] = TypeAdapter(MapSpec)


class EmbeddingMap(Protocol):
    """phi over the rows of a public schema."""

    @property
    def spec(self) -> MapSpec:
        """The public value that it was made from."""
        ...

    @property
    def schema(self) -> Schema:
        """The public domain of its rows."""
        ...

    @property
    def dimension(self) -> int:
        """J, coordinates of phi(x)."""
        ...

    @property
    def norm_bound(self) -> float:
        """B: no row of the domain has a longer phi(x), in L2."""
        ...

    @property
    def spread(self) -> float:
        """No two rows x, y of the domain have a larger ||phi(x) - phi(y)||; at most 2 B."""
        ...

    def features(self, rows: NDArray[Any]) -> FloatArray:
        """Phi of each row, (k, c) in the schema's columns -> (k, J) float64.

        Raises:
            DataError: rows outside the domain (NaN, bounds, unknown category); says how many, never which.
        """
        ...

    def of_model(self, points: Any, xp: Any = np) -> Any:
        """Phi of points of model space (as `Schema.encode` makes them), (k, n) -> (k, J), unchecked.

        Written for numpy and for jax.numpy alike, so that generators are trained through the same formula;
        the dtype is that of the points.
        """
        ...


def make_map(spec: MapSpec, schema: Schema) -> EmbeddingMap:
    """The map of a spec over a schema.

    Raises:
        ConfigError: the spec does not go with the schema.
    """
    match spec:
        case FourierMapSpec():
            return FourierMap(spec, schema)
        case MixedSpec():
            return MixedMap(spec, schema)
        case HermiteSumSpec():
            return HermiteSum(spec, schema)
        case HermiteProductSpec():
            return HermiteProduct(spec, schema)
        case PointsSpec():
            return PointsMap(spec, schema)


def spec_to_json(spec: MapSpec) -> dict[str, Any]:
    """Plain values of a spec; `spec_from_json` reads them back to an equal spec."""
    return spec.model_dump(mode="json")


def spec_from_json(plain: object) -> MapSpec:
    """Read what `spec_to_json` wrote.

    Raises:
        ConfigError: an unknown kind, a missing or a strange field, or a value out of its range.
    """
    try:
        return _ADAPTER.validate_python(plain)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(str(part) for part in first["loc"]) or "kind"
        raise ConfigError(
            f"a feature map's '{where}' is wrong: {first['msg'].removeprefix('Value error, ')}",
            "Correct the feature map that the request names.",
        ) from None
