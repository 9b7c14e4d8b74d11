"""File of a release of embeddings: the noisy embeddings, and everything that is needed to use them.

The file is one .npz (`release.npz`): an array for each embedding, and `about`, JSON in UTF-8. Nothing in the
file is private any more, and everything that a curator makes from a release follows from its file.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, FiniteFloat, ValidationError

from fedkme.arrays import RELEASED, FloatArray
from fedkme.config import Settings
from fedkme.errors import DataError, FedkmeError
from fedkme.features.maps import spec_from_json, spec_to_json
from fedkme.features.sums import Layout, ReleasedEmbedding
from fedkme.privacy.events import Event, event_from_json
from fedkme.tables.npz import npz_arrays, npz_bytes
from fedkme.tables.schema import Schema


@dataclass(frozen=True, eq=False)
class StoredRelease:
    """A release of embeddings, by any method.

    Attributes:
        protocol: name of the method: balog1, balog2, merf, hermite, ...
        settings: public settings of the method, as plain values, with all defaults filled in.
        schema: schema of the rows.
        embeddings: released embeddings, at least one.
        masses: (C,) released share of each class, or None.
        event: event of everything that was disclosed, under replace-one with N public; None without noise.
        delta: delta at which epsilon is stated.
        owners: number of owners whose rows were pooled.
        public: further public arrays, such as the points of Balog's Algorithm 1.
    """

    protocol: str
    settings: Mapping[str, Any]
    schema: Schema
    embeddings: tuple[ReleasedEmbedding, ...]
    masses: FloatArray | None
    event: Event | None
    delta: float
    owners: int
    public: Mapping[str, FloatArray] = field(default_factory=dict)

    @property
    def rows(self) -> int:
        """N, public."""
        return self.embeddings[0].rows


class _Part(Settings):
    map: dict[str, Any]
    sigma: FiniteFloat = Field(ge=0)
    rows: int = Field(ge=1)


class _About(Settings):
    version: Literal[1]
    protocol: str
    settings: dict[str, Any]
    schema_: Schema = Field(alias="schema")
    classes: int | None = Field(ge=1)
    embeddings: tuple[_Part, ...] = Field(min_length=1)
    relation: Literal["replace-one"]
    event: dict[str, Any] | None
    delta: float = Field(gt=0, lt=1)
    owners: int = Field(ge=1)


def to_bytes(release: StoredRelease) -> bytes:
    """Write the file of a release; equal releases give equal bytes.

    Raises:
        DataError: an embedding or a mass is not finite.
    """
    arrays: dict[str, NDArray[Any]] = {f"mean{i}": each.mean for i, each in enumerate(release.embeddings)}
    if release.masses is not None:
        arrays["masses"] = release.masses
    if not all(np.isfinite(array).all() for array in arrays.values()):
        raise DataError("the released embedding is not finite", "Release it again; see docs/errors.md.")
    about = {
        "version": 1,
        "protocol": release.protocol,
        "settings": dict(release.settings),
        "schema": release.schema.model_dump(mode="json"),
        "classes": release.embeddings[0].layout.classes,
        "embeddings": [
            {"map": spec_to_json(each.map_spec), "sigma": each.sigma, "rows": each.rows}
            for each in release.embeddings
        ],
        "relation": "replace-one",
        "event": None if release.event is None else release.event.to_json(),
        "delta": release.delta,
        "owners": release.owners,
    }
    text = json.dumps(about, sort_keys=True, allow_nan=False)
    arrays["about"] = np.frombuffer(text.encode(), dtype=np.uint8)
    arrays.update({f"public-{name}": array for name, array in release.public.items()})
    return npz_bytes(arrays)


def from_bytes(data: bytes, source: str = "the release") -> StoredRelease:
    """Read what `to_bytes` wrote.

    Raises:
        DataError: the bytes are not a release, a later version wrote them, a number is not finite, or the
        parts
            do not fit each other.
    """
    arrays = npz_arrays(data, source)
    try:
        about = _About.model_validate_json(arrays["about"].astype(np.uint8).tobytes())
        layout = Layout(about.classes)
        embeddings = []
        for i, part in enumerate(about.embeddings):
            mean = _floats(arrays[f"mean{i}"])
            spec = spec_from_json(part.map)
            features = spec.make(about.schema_)
            if mean.shape != (features.dimension, layout.columns):
                raise ValueError("an embedding does not fit its map")
            embeddings.append(ReleasedEmbedding(spec, layout, mean, part.sigma, part.rows))
        masses = _floats(arrays["masses"]) if "masses" in arrays else None
        if masses is not None and masses.shape != (layout.columns,):
            raise ValueError("the masses do not fit the classes")
        event = None if about.event is None else event_from_json(about.event)
        head = "public-"
        public = {n.removeprefix(head): _floats(array) for n, array in arrays.items() if n.startswith(head)}
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(str(part) for part in first["loc"]) or "it"
        raise _unreadable(source, f"{where}: {first['msg']}") from None
    except KeyError as error:
        raise _unreadable(source, f"there is no {error.args[0]} in it") from None
    except (FedkmeError, ValueError) as error:
        raise _unreadable(source, error.cause if isinstance(error, FedkmeError) else str(error)) from None
    return StoredRelease(
        about.protocol,
        about.settings,
        about.schema_,
        tuple(embeddings),
        masses,
        event,
        about.delta,
        about.owners,
        public,
    )


def _floats(array: NDArray[Any]) -> FloatArray:
    if array.dtype != np.float64:
        raise ValueError("numbers are of another type")
    return RELEASED.array(array, (None,) * array.ndim, "released numbers")


def _unreadable(source: str, why: str) -> DataError:
    return DataError(f"{source} is no release that this version reads: {why}", "Fetch it again.")
