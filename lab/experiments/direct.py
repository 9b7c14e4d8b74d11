"""Discriminants straight from released moments at (1, 1e-5), quadratic and linear; no rows are made.

Accuracy on real test rows, and the area under the ROC curve of scores where there are two classes. Seeds are
those of the noise, and of the split of a table.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import get_args

from fedkme.config import Settings
from fedkme.moments.discriminant import Shape, discriminant_of
from fedkme.tables.schema import Schema
from fedkme.tables.table import Table
from lab.experiments.curves import CurveValue
from lab.experiments.datasets import SOURCES, load
from lab.experiments.images import FILES, image_schema, load_images
from lab.experiments.moments import released_moments
from lab.experiments.piece import Piece, data_folder

NAMES = (*FILES, *SOURCES)
OWNERS = 5


class DirectEffort(Settings):
    """Number of seeds."""

    seeds: int = 5


class DirectPiece(Piece):
    """Both discriminants of one release."""

    data: str
    edges: bool = False
    """Public features: edges of images beside their pixels."""

    def measure(self) -> Iterator[CurveValue]:
        """Yield accuracies, and AUC where there are two classes."""
        schema, owners, test = self._rows()
        stored = released_moments(schema, owners, self.seed, self.edges)
        for shape in get_args(Shape):
            way = f"{shape}, edges" if self.edges else shape
            logs = discriminant_of(stored, shape).log_posterior(test.values)
            accuracy = float((logs.argmax(axis=1) == test.labels).mean())
            yield CurveValue("accuracy", way, self.data, self.seed, accuracy)
            if logs.shape[1] == 2:
                from sklearn.metrics import roc_auc_score

                auc = float(roc_auc_score(test.labels, logs[:, 1] - logs[:, 0]))
                yield CurveValue("auc", way, self.data, self.seed, auc)

    def _rows(self) -> tuple[Schema, Sequence[Table], Table]:
        """Schema, rows of owners, test rows."""
        if self.data in FILES:
            return image_schema(), *load_images(data_folder() / FILES[self.data], OWNERS, self.seed)
        source = SOURCES[self.data]()
        split = load(source, data_folder(), OWNERS, self.seed)
        return source.schema, split.owners, split.test


def pieces(data: str, effort: DirectEffort) -> list[DirectPiece]:
    """Pieces of a data set, one a seed; of images with and without edges."""
    ways = (False, True) if data in FILES else (False,)
    return [DirectPiece(data=data, seed=seed, edges=way) for way in ways for seed in range(effort.seeds)]


def file_of(data: str) -> str:
    """File of a data set in the folder of the data."""
    return FILES[data] if data in FILES else SOURCES[data]().file
