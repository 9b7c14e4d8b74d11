"""Rows of a small market, and neighbours that an adversary would choose: one row, replaced.

Rows stand in the corners of the domain and between them, some twice, so that bids tie; one owner holds the
only row of a class and the only one of a corner.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from fedkme.tables.schema import Category, Label, Numeric, Schema
from fedkme.tables.table import Table

Kind = Literal["corner", "last of a class", "winner", "tie", "decider", "empty cell", "random"]
KINDS: tuple[Kind, ...] = get_args(Kind)
OWNERS = ("east", "north", "south", "west")
HOLDER = "north"
"""The owner whose row is replaced."""
CLASSES = ("no", "maybe", "yes")
_SIZES = (9, 12, 11, 10)
_VALIDATION, _SEEDS = 10, 24

SCHEMA = Schema(
    columns=(
        Numeric(name="age", bounds=(0.0, 100.0)),
        Numeric(name="level", bounds=(-1.0, 1.0), count=2),
        Category(name="kind", categories=("a", "b", "c")),
    ),
    label=Label(name="ill", classes=CLASSES),
)
UNLABELLED = SCHEMA.model_copy(update={"label": None})


@dataclass(frozen=True, eq=False)
class World:
    """Rows of all parties.

    Attributes:
        owners: by name.
        validation: D_v.
        seeds: public rows.
    """

    owners: Mapping[str, Table]
    validation: Table
    seeds: Table


def make_world(seed: int, times: int = 1) -> World:
    """Rows of a market; every number follows from the seed. Owners have `times` as many as usual."""
    random = np.random.default_rng([seed, zlib.crc32(b"world")])
    owners = {name: random_table(random, times * size) for name, size in zip(OWNERS, _SIZES, strict=True)}
    held = owners[HOLDER]
    values, labels = held.values.copy(), _labels(held)
    labels[labels == 2] = 0
    for table in owners.values():  # the holder alone has the third class, once, and its corner
        others = _labels(table)
        others[others == 2] = 1
    labels[4], values[4] = 2, _corner(2)
    values[6] = owners["south"].values[0]  # two owners bid the same
    labels[6] = _labels(owners["south"])[0]
    owners[HOLDER] = Table(values, labels)
    validation = random_table(random, _VALIDATION)
    return World(owners, validation, random_table(random, _SEEDS))


def neighbour(world: World, protected: str, kind: Kind, seed: int, decider: int = 0) -> World:
    """The world in which one row of the protected set is another.

    Args:
        world: the first.
        protected: the owner's name; else D_v.
        kind: which row, and by which it is replaced.
        seed: of what is drawn.
        decider: the row that a first run was decided by.
    """
    random = np.random.default_rng([seed, zlib.crc32(b"neighbour"), KINDS.index(kind)])
    if protected not in world.owners:
        changed = _replaced(world.validation, kind, random, 0)
        return replace(world, validation=changed)
    table = _replaced(world.owners[protected], kind, random, decider)
    return replace(world, owners={**world.owners, protected: table})


def _replaced(table: Table, kind: Kind, random: np.random.Generator, decider: int) -> Table:
    values, labels = table.values.copy(), None if table.labels is None else table.labels.copy()
    places = {"last of a class": 4, "empty cell": 4, "tie": 6, "decider": decider, "winner": decider + 1}
    place = places.get(kind, 1) % len(table)
    if kind == "random":
        place = int(random.integers(len(table)))
    match kind:
        case "tie":
            other = (place + 2) % len(table)
            new, label = values[other], None if labels is None else int(labels[other])
        case "winner":  # one more that is as good
            new, label = values[decider], None if labels is None else int(labels[decider])
        case "random":
            drawn = random_table(random, 1)
            new, label = drawn.values[0], int(_labels(drawn)[0])
        case "empty cell":
            new, label = values[0], None if labels is None else int(labels[place])
        case _:
            new = _opposite(values[place])
            label = None if labels is None else (int(labels[place]) + 1) % len(CLASSES)
    values[place] = new
    if labels is not None and label is not None:
        labels[place] = label
    return Table(values, labels)


def random_table(random: np.random.Generator, rows: int) -> Table:
    """Draw rows, of which up to three are in corners of the domain, of the first two classes."""
    values = np.column_stack(
        [100.0 * random.random(rows), random.uniform(-1.0, 1.0, (rows, 2)), random.integers(0, 3, rows)]
    )
    for place in range(min(3, rows)):
        values[place] = _corner(int(random.integers(4)))
    return Table(values, random.integers(0, 2, rows))


def _corner(number: int) -> NDArray[np.float64]:
    """A corner of the domain."""
    low, high = (0.0, -1.0, -1.0, 0.0), (100.0, 1.0, 1.0, 2.0)
    corners = (low, high, (100.0, -1.0, 1.0, 1.0), (0.0, 1.0, -1.0, 2.0))
    return np.array(corners[number % len(corners)])


def _opposite(row: NDArray[np.floating]) -> NDArray[np.float64]:
    """The corner of the domain that is furthest from a row, in every column."""
    age, first, second, kind = row.tolist()
    return np.array(
        [
            0.0 if age > 50.0 else 100.0,
            -1.0 if first > 0.0 else 1.0,
            -1.0 if second > 0.0 else 1.0,
            0.0 if kind > 0.0 else 2.0,
        ]
    )


def _labels(table: Table) -> NDArray[np.int64]:
    assert table.labels is not None, "rows here have labels"
    return table.labels
