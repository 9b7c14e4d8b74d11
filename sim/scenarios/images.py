"""Scenarios `digits` and `mnist`: images laid out as in Sarpatwar 2019, appendix G.

`digits` are scikit-learn's 1797 images of 8x8 pixels; `mnist` is the paper's experiment itself, on MNIST or
data of the same layout.
"""

import importlib.util
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, PositiveFloat, model_validator

from fedkme.config import Settings
from fedkme.errors import DataError, MissingDependencyError
from fedkme.tables.files import read_arrays
from fedkme.tables.schema import Label, Numeric, Schema
from fedkme.tables.table import Table, table_from_arrays
from sim.scenarios.base import Fraction, LazyTables, Rows, Scenario, cut, draw, generator, locate, owner_names
from sim.scenarios.stand_ins import STAND_IN, StandIn, invented_images

CLASSES = tuple("0123456789")


class DigitSplit(Settings):
    """The layout of Sarpatwar 2019, appendix G: owners by groups of classes, a target of a few classes."""

    groups: Annotated[tuple[tuple[int, ...], ...], Field(min_length=1)] = (
        (0, 1),
        (3, 4),
        (5, 6),
        (7, 8),
        (9, 2),
    )
    """Classes of each owner."""
    owners: int | None = Field(default=None, ge=1)
    """Number of owners, default one per group. More: each group is cut into even shards. Fewer: an owner has
    several groups."""
    targets: tuple[int, ...] = (3, 4)
    """Classes of the validation and test rows."""
    ratio: tuple[PositiveFloat, ...] = (0.7, 0.3)
    """Share of each of `targets`."""
    validation_fraction: Fraction = 0.25
    """Share of the target rows that is D_v; the rest is the test set."""
    seeds: int = Field(default=150, ge=0)
    """Public rows, D_init; 0: none."""

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        owned = [digit for group in self.groups for digit in group]
        for name, digits in (("groups", owned), ("targets", self.targets)):
            if len(set(digits)) < len(digits) or not set(digits) <= set(range(10)):
                raise ValueError(f"'{name}' names a class twice or one that is not 0 to 9")
        if len(self.ratio) != len(self.targets) or not self.targets:
            raise ValueError("'ratio' needs one share for each of 'targets'")
        return self


def deal(
    labels: NDArray[Any], candidates: Rows, split: DigitSplit, rng: np.random.Generator
) -> dict[str, Rows]:
    """Rows of each owner, ascending: its classes, or an even random shard of them.

    Candidates of a class in no group go to no owner.
    """
    groups = [rng.permutation(candidates[np.isin(labels[candidates], group)]) for group in split.groups]
    count = split.owners or len(groups)
    if count < len(groups):
        parts = [np.concatenate(groups[first::count]) for first in range(count)]
    else:
        shards = [count // len(groups) + (i < count % len(groups)) for i in range(len(groups))]
        parts = [part for group, n in zip(groups, shards, strict=True) for part in np.array_split(group, n)]
    return {name: np.sort(part) for name, part in zip(owner_names(count), parts, strict=True)}


def sample_targets(
    labels: NDArray[Any], candidates: Rows, split: DigitSplit, rng: np.random.Generator
) -> Rows:
    """Sample, without repetition, as many candidates as the ratio of the target classes allows."""
    classes = [rng.permutation(candidates[labels[candidates] == digit]) for digit in split.targets]
    total = min(len(rows) / share for rows, share in zip(classes, split.ratio, strict=True))
    chosen = [rows[: round(total * share)] for rows, share in zip(classes, split.ratio, strict=True)]
    return np.sort(np.concatenate(chosen))


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
