"""Classifiers straight from released moments at (1, 1e-5), and of images six that are trained on its rows.

Accuracy on real test rows, and the area under the ROC curve of scores where there are two classes; the
quadratic discriminant and the linear one. Seeds are those of the noise, and of the split of a table.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import numpy as np

from curator.releases.in_memory import OwnersInMemory
from curator.releases.method import make_method
from curator.releases.moments import rows_of
from fedkme.moments.discriminant import Shape, discriminant_of
from fedkme.privacy.noise import NoiseSource, simulated
from fedkme.releases.file import StoredRelease, from_bytes
from fedkme.releases.settings import MomentsSettings
from fedkme.tables.schema import Schema
from fedkme.tables.table import Table
from sim.experiments import classifiers
from sim.experiments.datasets import SOURCES, load
from sim.experiments.images import FILES, image_schema, load_images
from sim.experiments.seeds import Figures, require

NAMES = (*FILES, *SOURCES)
SHAPES: tuple[Shape, ...] = ("quadratic", "linear")
OWNERS = 5
TRAINED = ("LR", "GNB", "BNB", "DT", "LDA", "MLP")
ROWS = 6000
"""Synthetic images that they are trained on, as in the papers' tables."""


def run(name: str, folder: Path, trained: bool, quick: bool, out: Path | None) -> None:
    """Score a release of moments over five seeds: its discriminants, or classifiers trained on its rows.

    Raises:
        FedkmeError: the data is not there, or of another form.
    """
    path = folder / (FILES[name] if name in FILES else SOURCES[name]().file)
    require([path])
    figures = Figures(range(1 if quick else 5), {})
    figures.add(name, "moments", partial(_trained if trained else _direct, name, folder))
    figures.write(out)


def _direct(name: str, folder: Path, seed: int) -> dict[str, float]:
    """Figures of one release, by discriminant."""
    stored, test = _released(name, folder, seed)
    found = {}
    for shape in SHAPES:
        logs = discriminant_of(stored, shape).log_posterior(test.values)
        found[f"{shape} accuracy"] = float((logs.argmax(axis=1) == test.labels).mean())
        if logs.shape[1] == 2:
            from sklearn.metrics import roc_auc_score

            found[f"{shape} AUC"] = float(roc_auc_score(test.labels, logs[:, 1] - logs[:, 0]))
    return found


def _trained(name: str, folder: Path, seed: int) -> dict[str, float]:
    """Accuracy of classifiers trained on rows of one release, and their mean."""
    stored, test = _released(name, folder, seed)
    scores = classifiers.evaluate(rows_of(stored).sample(ROWS, seed), test, stored.schema, TRAINED, seed)
    return {
        "mean": classifiers.mean(scores).accuracy,
        **{each: score.accuracy for each, score in scores.items()},
    }


def _released(name: str, folder: Path, seed: int) -> tuple[StoredRelease, Table]:
    """A release, and test rows."""
    schema, owners, test = _rows(name, folder, seed)
    method = make_method(MomentsSettings(seed=seed), schema, None, seed)
    return from_bytes(asyncio.run(method.ask(_Owners(owners, schema, seed)))), test


def _rows(name: str, folder: Path, seed: int) -> tuple[Schema, Sequence[Table], Table]:
    """Schema, rows of owners, test rows."""
    if name in FILES:
        return image_schema(), *load_images(folder / FILES[name], OWNERS, seed)
    source = SOURCES[name]()
    split = load(source, folder, OWNERS, seed)
    return source.schema, split.owners, split.test


class _Owners(OwnersInMemory):
    """Owners in memory whose noise goes on from question to question, by seed."""

    def __init__(self, owners: Sequence[Table], schema: Schema, seed: int) -> None:
        super().__init__(Table(np.zeros((0, schema.width))), schema, 1)
        self.tables = list(owners)
        self._stream = simulated(seed, "curator", "moments")

    @property
    def noise(self) -> NoiseSource:
        """One stream for all questions."""
        return self._stream
