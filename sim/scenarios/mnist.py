"""Scenario `mnist`: the experiment of Sarpatwar 2019, appendix G, on MNIST or data of the same layout."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from fedkme.errors import DataError
from fedkme.tables.files import read_arrays
from fedkme.tables.schema import Label, Numeric, Schema
from fedkme.tables.table import Table, table_from_arrays
from sim.scenarios.base import (
    DigitSplit,
    LazyTables,
    Scenario,
    cut,
    deal,
    draw,
    generator,
    locate,
    sample_targets,
)
from sim.scenarios.stand_ins import STAND_IN, StandIn, invented_images

CLASSES = tuple("0123456789")


class Mnist(DigitSplit):
    """Images of ten classes in an .npz with x_train, y_train, x_test and y_test."""

    kind: Literal["mnist"] = "mnist"
    path: StandIn | Path
    """File of the images, .npz; `stand-in`: invented images."""
    rows: int | None = Field(default=None, ge=1)
    """Training rows to use, drawn at random; default all."""

    def build(self, seed: int) -> Scenario:
        """Training rows go to the owners; D_v, test and seeds (of the other classes) come from the test part.

        Raises:
            ConfigError: no such file, or more seed or training rows than there are.
            DataError: the file does not have this layout.
        """
        if self.path == STAND_IN:
            arrays = invented_images(8000, 3000)
        else:
            arrays = read_arrays(locate(self.path, "path"), "mnist")
        train, digits = _part(arrays, "train")
        test, test_digits = _part(arrays, "test")
        schema = Schema(
            columns=(Numeric(name="pixel", bounds=(0, 255), count=train.values.shape[1], integer=True),),
            label=Label(name="class", classes=CLASSES),
        )
        schema.check(train, "mnist, training part")
        schema.check(test, "mnist, test part")
        target = sample_targets(test_digits, np.arange(len(test)), self, generator(seed, "mnist", "ratio"))
        fraction = self.validation_fraction
        validation, scored = cut(test_digits, target, fraction, generator(seed, "mnist", "validation"))
        others = np.flatnonzero(~np.isin(test_digits, self.targets))
        seeds = draw(others, self.seeds, "seeds", generator(seed, "mnist", "seeds"))
        used = np.arange(len(train))
        if self.rows is not None:
            used = draw(used, self.rows, "rows", generator(seed, "mnist", "rows"))
        owners = deal(digits, used, self, generator(seed, "mnist", "owners"))
        return Scenario(
            name="mnist",
            schema=schema,
            owners=LazyTables(owners, lambda name: train.take(owners[name])),
            validation=Table(test.values[validation]),
            test=test.take(scored),
            seeds=test.take(seeds) if self.seeds else None,
        )


def _part(arrays: Mapping[str, NDArray[Any]], part: str) -> tuple[Table, NDArray[Any]]:
    images, labels = arrays.get(f"x_{part}"), arrays.get(f"y_{part}")
    if images is None or labels is None or images.ndim < 2:
        cause = f"mnist: the file has no images x_{part} with labels y_{part}"
        raise DataError(cause, "Give an .npz with x_train, y_train, x_test and y_test.")
    return table_from_arrays(images, labels), labels
