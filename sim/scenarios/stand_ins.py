"""Stand-ins: invented rows in the shape of a public data set, for trying commands where the set is not here.

They follow from the public schema and a fixed seed, never from rows of the set. Each row is of one of a few
kinds of people (or classes of images); kinds differ in every column and in the label, and groups of rows,
such as hospitals, in their shares of the kinds. So there is something to select and to learn.
"""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, TypeVar

import numpy as np
from numpy.typing import NDArray

from fedkme.arrays import FloatArray
from fedkme.config import Settings
from fedkme.tables.cells import Cells
from fedkme.tables.schema import Category, Numeric, Schema
from sim.data.catalogue import set_of
from sim.data.folder import VARIABLE, is_public, place

StandIn = Literal["stand-in"]
"""Word in the place of a file's path."""
STAND_IN: StandIn = "stand-in"
_KINDS = 6
_SEED = 37
SettingsT = TypeVar("SettingsT", bound=Settings)


def with_stand_in(config: SettingsT) -> SettingsT:
    """Put the stand-in in the place of a shipped scenario's public file.

    A scenario stays as it is if it names another file, if its file is here, or if $FEDKME_DATA is set: who
    named a folder gets the folder's file or an error.
    """
    path = getattr(config, "path", None)
    if not isinstance(path, Path) or not is_public(path) or os.environ.get(VARIABLE):
        return config
    source = set_of(path)
    if source is None or source[0] != getattr(config, "kind", None) or place(path, None).is_file():
        return config
    return config.model_copy(update={"path": STAND_IN})


def stand_in_line(config: Settings) -> str:
    """Warning that a scenario's rows are invented; "" for others."""
    if getattr(config, "path", None) != STAND_IN:
        return ""
    kind = getattr(config, "kind", "")
    return (
        f"stand-in: invented rows in the shape of {kind}, for trying commands; not the data. "
        f"`fedkme data {kind}` brings the data."
    )


def invented_columns(schema: Schema, groups: Mapping[str, int], column: str = "") -> dict[str, Cells]:
    """Columns of invented rows as a file would have them, with their label.

    Args:
        schema: schema of the rows.
        groups: number of rows by group; the rows are shuffled.
        column: name of a column to add, which names each row's group.
    """
    rng = np.random.default_rng([_SEED, len(schema.names)])
    names = rng.permutation(np.repeat([*groups], [*groups.values()]))
    shares = {group: _uneven(rng, _KINDS) for group in groups}
    kinds = np.empty(len(names), np.int64)
    for group, share in shares.items():
        own = names == group
        kinds[own] = rng.choice(_KINDS, int(own.sum()), p=share)
    columns: dict[str, Cells] = {}
    for spec in schema.columns:
        if isinstance(spec, Category):
            columns[spec.name] = _drawn(rng, spec.categories, kinds)
        elif isinstance(spec, Numeric):
            low, high = spec.bounds
            places = rng.uniform(0.15, 0.85, _KINDS)[kinds] + rng.normal(0, 0.12, len(kinds))
            values = low + (high - low) * np.clip(places, 0.0, 1.0)
            columns[spec.name] = spec.rounded(values) if spec.integer or spec.values else values
    if schema.label is not None:
        columns[schema.label.name] = _classes(rng, schema, kinds)
    return columns | ({column: names.tolist()} if column else {})


def _classes(rng: np.random.Generator, schema: Schema, kinds: NDArray[np.int64]) -> Cells:
    """Label of each row: half of the kinds are mostly of the last class, the others of the first."""
    assert schema.label is not None
    last = rng.random(len(kinds)) < np.where(kinds % 2 == 0, 0.85, 0.1)
    if schema.label.positive_above is not None:
        return last + float(schema.label.positive_above)
    first_class, *_, last_class = schema.classes
    return [last_class if one else first_class for one in last.tolist()]


def _drawn(rng: np.random.Generator, names: tuple[str, ...], kinds: NDArray[np.int64]) -> Cells:
    cells = np.empty(len(kinds), np.int64)
    for kind in range(_KINDS):
        own = kinds == kind
        cells[own] = rng.choice(len(names), int(own.sum()), p=_uneven(rng, len(names)))
    return [names[cell] for cell in cells.tolist()]


def _uneven(rng: np.random.Generator, count: int) -> FloatArray:
    """Shares, none below two fifths of an even one."""
    return 0.4 / count + 0.6 * rng.dirichlet(np.full(count, 0.5))


def invented_images(train: int, test: int) -> dict[str, NDArray[Any]]:
    """x_train, y_train, x_test and y_test of 28 x 28 grey levels: each class is a figure of four soft spots.

    An image is its class's figure, moved by up to two pixels, brighter or darker, with noise.
    """
    rng = np.random.default_rng([_SEED, 28])
    axis = np.arange(28.0)
    figures = np.zeros((10, 28, 28))
    for figure in figures:
        for row, column, width in rng.uniform((6, 6, 1.5), (22, 22, 4), (4, 3)):
            figure += np.exp(-((axis[:, None] - row) ** 2 + (axis - column) ** 2) / (2 * width**2))
    figures = np.minimum(figures, 1.0)
    arrays: dict[str, NDArray[Any]] = {}
    for part, count in (("train", train), ("test", test)):
        labels = rng.permutation(np.arange(count) % 10)
        moves, light = rng.integers(-2, 3, (count, 2)), rng.uniform(0.6, 1.0, count)
        moved = (np.roll(figures[label], move, (0, 1)) for label, move in zip(labels, moves, strict=True))
        images = np.stack(list(moved))
        images = images * light[:, None, None] + rng.normal(0.0, 0.03, images.shape)
        arrays |= {f"x_{part}": np.rint(255 * np.clip(images, 0.0, 1.0)).astype(np.uint8)}
        arrays |= {f"y_{part}": labels.astype(np.uint8)}
    return arrays
