"""Rows of a small market, and adversarial neighbours with one row replaced.

Rows are in the corners of the domain and between them; some are equal, so that bids tie. One owner holds the
only row of a class and the only row of a corner.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from fedkme.tables.schema import Category, Label, Numeric, Person, Schema
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
PERSONS = SCHEMA.model_copy(update={"person": Person(column="who", rows=2)})
CROWDED = SCHEMA.model_copy(
    update={"columns": (Numeric(name="income", bounds=(0.0, 100.0)), *SCHEMA.columns[1:])}
)
"""Most incomes are near the lower bound, a quarter are at it: bins follow fine counts, and it has its own."""
IMAGES = Schema(columns=(Numeric(name="pixel", bounds=(0.0, 1.0), count=64),), label=SCHEMA.label)
"""Rows that are images of eight times eight numbers."""


@dataclass(frozen=True, eq=False)
class World:
    """Rows of all parties.

    Attributes:
        owners: owners by name.
        validation: D_v.
        seeds: public rows.
        schema: schema of all rows.
    """

    owners: Mapping[str, Table]
    validation: Table
    seeds: Table
    schema: Schema


def make_world(seed: int, times: int = 1, schema: Schema = SCHEMA) -> World:
    """Make the rows of a market from a seed; owners have `times` as many rows as usual."""
    random = np.random.default_rng([seed, zlib.crc32(b"world")])
    sizes = zip(OWNERS, _SIZES, strict=True)
    owners = {name: random_table(random, times * size, schema) for name, size in sizes}
    held = owners[HOLDER]
    values, labels = held.values.copy(), _labels(held)
    labels[labels == 2] = 0
    for table in owners.values():  # the holder alone has the third class, once, and its corner
        others = _labels(table)
        others[others == 2] = 1
    labels[4], values[4] = 2, _corner(domain_of(schema), 2)
    values[6] = owners["south"].values[0]  # two owners bid the same
    labels[6] = _labels(owners["south"])[0]
    owners[HOLDER] = Table(values, labels)
    validation, seeds = (random_table(random, size, schema) for size in (_VALIDATION, _SEEDS))
    return World(owners, validation, seeds, schema)


def neighbour(world: World, protected: str, kind: Kind, seed: int, decider: int = 0, group: int = 1) -> World:
    """Make the neighbouring world: one row of the protected set is replaced, or all rows of a group.

    Args:
        world: the first world.
        protected: name of an owner; any other name: D_v.
        kind: kind of the replaced row and its replacement.
        seed: seed of random replacements.
        decider: the row that decided the first run.
        group: number of replaced rows.
    """
    random = np.random.default_rng([seed, zlib.crc32(b"neighbour"), KINDS.index(kind)])
    of_owner = protected in world.owners
    table = world.owners[protected] if of_owner else world.validation
    for turn in range(group):
        table = _replaced(table, kind, random, decider if of_owner else 0, turn, world.schema)
    if of_owner:
        return replace(world, owners={**world.owners, protected: table})
    return replace(world, validation=table)


def _replaced(
    table: Table, kind: Kind, random: np.random.Generator, decider: int, turn: int, schema: Schema
) -> Table:
    values, labels = table.values.copy(), None if table.labels is None else table.labels.copy()
    places = {"last of a class": 4, "empty cell": 4, "tie": 6, "decider": decider, "winner": decider + 1}
    place = (places.get(kind, 1) + turn) % len(table)
    if kind == "random":
        place = int(random.integers(len(table)))
    match kind:
        case "tie":
            other = (place + 2) % len(table)
            new, label = values[other], None if labels is None else int(labels[other])
        case "winner":  # another row as good as the decider
            new, label = values[decider], None if labels is None else int(labels[decider])
        case "random":
            new, label = _drawn(random, 1, schema)[0], int(random.integers(0, 2))
        case "empty cell":
            new, label = values[0], None if labels is None else int(labels[place])
        case _:
            domain = domain_of(schema)
            new = np.where(values[place] > domain.mean(axis=0), *domain)
            label = None if labels is None else (int(labels[place]) + 1) % len(CLASSES)
    values[place] = new
    if labels is not None and label is not None:
        labels[place] = label
    return Table(values, labels)


def domain_of(schema: Schema) -> NDArray[np.float64]:
    """Bounds of each column of a table, low and high, (2, c)."""
    bounds = [
        (0.0, len(column.categories) - 1.0) if isinstance(column, Category) else column.bounds
        for column in schema.columns
        for _ in column.names
    ]
    return np.array(bounds, dtype=np.float64).T


def random_table(random: np.random.Generator, rows: int, schema: Schema = SCHEMA) -> Table:
    """Draw rows of the first two classes; up to three rows are in corners of the domain."""
    values = _drawn(random, rows, schema)
    for place in range(min(3, rows)):
        values[place] = _corner(domain_of(schema), int(random.integers(4)))
    return Table(values, random.integers(0, 2, rows))


def _drawn(random: np.random.Generator, rows: int, schema: Schema) -> NDArray[np.float64]:
    """Rows from all of the domain, (m, c)."""
    low, high = domain_of(schema)
    values = random.uniform(low, high, (rows, len(low)))
    whole = [isinstance(column, Category) for column in schema.columns for _ in column.names]
    crowded = [name == "income" for column in schema.columns for name in column.names]
    shares = values[:, crowded] / 100.0
    values[:, crowded] = np.where(shares < 0.25, 0.0, 100.0 * shares**8)
    values[:, whole] = np.floor(random.uniform(low[whole], high[whole] + 1.0, (rows, sum(whole))))
    return values


def _corner(domain: NDArray[np.float64], number: int) -> NDArray[np.float64]:
    """A corner of the domain: all columns low, all high, or alternating."""
    turns = np.arange(domain.shape[1]) % 2
    high = (turns < 0, turns >= 0, turns == 0, turns == 1)[number % 4]
    corner: NDArray[np.float64] = np.where(high, domain[1], domain[0])
    return corner


def _labels(table: Table) -> NDArray[np.int64]:
    assert table.labels is not None, "rows here have labels"
    return table.labels
