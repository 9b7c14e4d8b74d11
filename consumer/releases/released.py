"""A received release: a folder of files, loaded for `consumer.releases.estimators`.

    released = load_release(Path("runs/release-1"))
    older = probability(released.release, released.on_rows(lambda rows: rows[:, 0] > 40))
    test = released.two_sample_test(my_rows)

No party is asked for anything: everything here is post-processing of `release.npz` and the files next to it.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from consumer.releases.estimators import Release, TwoSampleTest, two_sample_test
from fedkme.arrays import FloatArray
from fedkme.embeddings.weighted_points import WeightedPoints
from fedkme.errors import ConfigError, DataError, on_disk
from fedkme.features.domain import Domain
from fedkme.features.kernel_space import kernel_units, to_model
from fedkme.features.maps import EmbeddingMap
from fedkme.features.sums import Layout, ReleasedEmbedding
from fedkme.inputs import read_bytes
from fedkme.releases.counts import PROTOCOL, protocol_of
from fedkme.releases.file import StoredRelease, from_bytes
from fedkme.tables.files import load_table, read_arrays
from fedkme.tables.schema import Schema
from fedkme.tables.table import Table

ASK = "Ask it: `fedkme ask` or fk.load(folder).ask, which know every method; its rows are in synthetic.csv."
"""Remedy where a release has no embedding, or no points, to compute with."""


@dataclass(frozen=True, eq=False)
class Released:
    """Contents of a folder with a release.

    Attributes:
        stored: the noisy embeddings and their settings.
        points: weighted points in the kernel's units (Balog's methods only), or None.
        rows: the same points in the schema's columns and units, (M, c), or None.
        synthetic: rows of equal weight, or None.
    """

    stored: StoredRelease
    points: WeightedPoints | None
    rows: Table | None
    synthetic: Table | None

    @property
    def schema(self) -> Schema:
        """Schema of all rows."""
        return self.stored.schema

    @cached_property
    def features(self) -> tuple[EmbeddingMap, ...]:
        """The feature map of each released embedding."""
        return tuple(each.map_spec.make(self.schema) for each in self.stored.embeddings)

    @cached_property
    def release(self) -> Release:
        """Points, their embedding and its map, for `consumer.releases.estimators`.

        Raises:
            ConfigError: there are no weighted points, as Balog's methods alone make them.
        """
        if self.points is None:
            raise ConfigError(f"a release of {self.stored.protocol} has no weighted points", ASK)
        return Release(self.points, self.stored.embeddings[0], self.features[0])

    def embedding(self, number: int = 0) -> ReleasedEmbedding:
        """A released embedding summed over classes, with all their noise: one column.

        Args:
            number: index of the embedding.
        """
        each = self.stored.embeddings[number]
        if each.layout.columns == 1:
            return replace(each, layout=Layout())
        mean = each.mean.sum(axis=1, keepdims=True)
        return ReleasedEmbedding(
            each.map_spec, Layout(), mean, each.sigma * each.layout.columns**0.5, each.rows
        )

    def two_sample_test(self, sample: Table, number: int = 0) -> TwoSampleTest:
        """Test that a sample, its labels left aside, has the distribution of the private rows.

        Args:
            sample: rows of the schema, ten or more.
            number: index of the embedding.

        Raises:
            DataError: rows are too few, or do not fit the schema.
        """
        model = Domain(self.schema).encode(sample.values)
        return two_sample_test(self.embedding(number), self.features[number], model)

    def in_kernel(self, values: NDArray[Any]) -> FloatArray:
        """Convert rows of the schema, (k, c), to the kernel's units, (k, n), for estimators.

        Raises:
            ConfigError: the release's kernel is not on whole rows.
            DataError: rows that do not fit.
        """
        gain, shift, _ = kernel_units(self.features[0])
        return Domain(self.schema).encode(values) * gain + shift

    def on_rows(self, h: Callable[[FloatArray], NDArray[Any]]) -> Callable[[FloatArray], NDArray[Any]]:
        """Convert a function of rows of the schema, (k, c) -> (k,), to one of points in the kernel's units.

        Args:
            h: takes rows in the schema's columns and units, a category as its index.
        """
        return lambda points: h(self.schema.decode(to_model(points, self.features[0])))

    def in_units_of_kernel(
        self, schema: Schema, values: NDArray[Any]
    ) -> tuple[WeightedPoints, float, FloatArray]:
        """The points, gamma, and given rows in the kernel's units, for distances.

        Args:
            schema: schema of the rows.
            values: the rows, (k, c).

        Raises:
            DataError: another schema, or rows that do not fit.
        """
        if schema.digest() != self.schema.digest():
            raise DataError("the rows are of another schema than the release", "Give rows of its schema.")
        release = self.release
        return release.points, kernel_units(release.features)[2], self.in_kernel(values)


def load_release(folder: Path) -> Released:
    """Read the files of a release.

    Args:
        folder: has `release.npz` and, for some methods, `weighted.npz` and `synthetic.npz`.

    Raises:
        DataError: a file is missing, cannot be read, or does not belong to the release; or the release is one
            of marginals, which has counts and no embedding.
    """
    path = folder / "release.npz"
    with on_disk(f"{path} cannot be read", "Give a release's folder.", DataError):
        data = read_bytes(path)
    if protocol_of(data, str(path)) == PROTOCOL:
        raise DataError(f"{path} is a release of {PROTOCOL}, which has counts and no embedding", ASK)
    stored = from_bytes(data, str(path))
    synthetic, weighted = folder / "synthetic.npz", folder / "weighted.npz"
    rows = load_table(synthetic, stored.schema, "synthetic") if synthetic.exists() else None
    if not weighted.exists():
        return Released(stored, None, None, rows)
    arrays = read_arrays(weighted, "weighted points")
    if not {"x", "weight"} <= set(arrays):
        raise DataError(f"{weighted} holds no weighted points", "Fetch the release again.")
    table = Table(arrays["x"])
    stored.schema.check(table, "weighted points")
    gain, shift, _ = kernel_units(stored.embeddings[0].map_spec.make(stored.schema))
    at = Domain(stored.schema).encode(table.values) * gain + shift
    return Released(stored, WeightedPoints(at, arrays["weight"].astype(np.float64)), table, rows)
