"""Scenario `digits`: scikit-learn's 1797 digits of 8x8 pixels, laid out as the paper's MNIST experiment."""

import importlib.util
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from fedkme.errors import MissingDependencyError
from fedkme.tables.schema import Label, Numeric, Schema
from fedkme.tables.table import Table
from sim.scenarios.base import (
    DigitSplit,
    Fraction,
    LazyTables,
    Rows,
    Scenario,
    cut,
    deal,
    draw,
    generator,
    sample_targets,
)

_SIDE = 8
_WHITE = 16

SCHEMA = Schema(
    columns=(Numeric(name="pixel", bounds=(0, _WHITE), count=_SIDE * _SIDE, integer=True),),
    label=Label(name="digit", classes=tuple("0123456789")),
)


class Digits(DigitSplit):
    """scikit-learn's digits."""

    kind: Literal["digits"] = "digits"
    test_fraction: Fraction = 0.5
    """Share of each target class that is held back from the owners for validation and test; rows that the
    ratio does not need go back to the owners."""
    copies: int = Field(default=1, ge=1, le=1000)
    """Rows for each row of owners, validation and test: the row itself and jittered copies (see `jitter`)."""

    def build(self, seed: int) -> Scenario:
        """Lay out the digits; a row and its copies are in one party only.

        Raises:
            MissingDependencyError: scikit-learn is not installed.
            ConfigError: more seed rows than there are.
        """
        images, labels = load_images()
        of_targets = np.flatnonzero(np.isin(labels, self.targets))
        held_back, _ = cut(labels, of_targets, self.test_fraction, generator(seed, "digits", "held back"))
        target = sample_targets(labels, held_back, self, generator(seed, "digits", "ratio"))
        validation, test = cut(
            labels, target, self.validation_fraction, generator(seed, "digits", "validation")
        )
        others = np.setdiff1d(np.arange(len(labels)), target)
        seeds = draw(others, self.seeds, "seeds", generator(seed, "digits", "seeds"))
        owners = deal(labels, np.setdiff1d(others, seeds), self, generator(seed, "digits", "owners"))

        def table(name: str, rows: Rows) -> Table:
            jittered = jitter(images[rows], self.copies, generator(seed, "digits", "copies", name))
            return Table(jittered, np.tile(labels[rows], self.copies))

        return Scenario(
            name="digits",
            schema=SCHEMA,
            owners=LazyTables(owners, lambda name: table(name, owners[name])),
            validation=Table(table("validation", validation).values),
            test=table("test", test),
            seeds=Table(images[seeds], labels[seeds]) if self.seeds else None,
        )


def jitter(images: NDArray[np.uint8], copies: int, rng: np.random.Generator) -> NDArray[np.uint8]:
    """The images, then copies - 1 variants of each with up to two grey levels more or less on each pixel.

    A public augmentation in place of more data; the noise depends on no row. Images are not shifted: with
    eight pixels a side, a shift by one pixel makes another digit.

    Args:
        images: (m, 64), pixels 0 to 16, row by row.
        copies: variants of each image, the image included.
        rng: draws the noise.

    Returns:
        (copies * m, 64), pixels 0 to 16.
    """
    variants = np.tile(images.astype(np.int8), (copies - 1, 1))
    noise = rng.integers(-2, 3, variants.shape, dtype=np.int8)
    return np.concatenate([images, np.clip(variants + noise, 0, _WHITE).astype(np.uint8)])


def load_images() -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """The 1797 images that scikit-learn comes with, (m, 64) of pixels 0 to 16, and their digits.

    Reads the package's file: its import takes a second, and a small run needs nothing else of it.

    Raises:
        MissingDependencyError: scikit-learn is not installed.
    """
    spec = importlib.util.find_spec("sklearn")
    if spec is None or not spec.submodule_search_locations:
        cause = "the digits come with the package scikit-learn"
        raise MissingDependencyError(cause, "Run: pip install 'fedkme[sim]'.")
    (package,) = spec.submodule_search_locations
    rows = np.loadtxt(Path(package, "datasets", "data", "digits.csv.gz"), delimiter=",")
    return rows[:, :-1].astype(np.uint8), rows[:, -1].astype(np.int64)
