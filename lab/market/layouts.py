"""Layouts of MarketBench: the experiments' layouts, and further kinds.

The further kinds: only discrete rows; owners and D_v all alike; a rare target; hundreds of owners with a few
dozen rows. The protocol's constants were set only with the sites and images of lab/experiments/cells_data.py;
`UNSEEN` are the other layouts.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedkme.arrays import IntArray
from fedkme.errors import ConfigError, DataError
from fedkme.tables.files import read_columns, table_from_columns
from fedkme.tables.schema import Category, Label, Schema
from fedkme.tables.table import Table
from lab.experiments.cells_data import layouts as experiments
from lab.experiments.cells_data import mixed_images
from lab.experiments.cells_draw import SEEDS, Build, ExperimentDraw, draw_of
from sim.scenarios.base import Scenario, domain, generator, owner_names, random_rows

KINDS: Mapping[str, str] = {
    "hospitals": "real sites",
    "isolet": "real sites",
    "acs": "real sites",
    "air-winter": "real sites",
    "covtype-areas": "real sites",
    "diabetes-wards": "real sites",
    "adult-jobs": "different owners",
    "adult-codes": "discrete",
    "adult-codes-rare": "discrete, rare target",
    "adult-alike": "alike, and like D_v",
    "adult-rare": "rare target",
    "wine-alike": "alike owners",
    "acs-small200": "many small owners",
    "mnist-small200": "many small owners",
    "acs-small500": "many small owners, mixed",
    "mnist-small500": "many small owners, mixed",
    "mnist-group5": "images",
    "mnist-mixed50": "images",
    "fashion-mixed5": "images",
    "digits-group5": "images",
}
"""The benchmark's layouts with their kinds, in the order of its tables."""

UNSEEN = tuple(
    name for name in KINDS if "-" in name and name.partition("-")[0] not in ("mnist", "fashion", "digits")
)
"""Layouts on which no constant of the protocol was set, and no method was chosen."""

QUICK = ("hospitals", "wine-alike", "adult-rare", "acs-small200", "digits-group5")

SMALLEST, LARGEST = 24, 60
"""Rows of a small owner."""
SHARE = 1500
"""Rows of any other owner here."""


def layouts() -> Mapping[str, Build]:
    """All layouts of the benchmark, by name, in the order of `KINDS`."""
    builds: Mapping[str, Build] = {
        **experiments(),
        "adult-codes": partial(_codes, "adult-codes", False),
        "adult-codes-rare": partial(_codes, "adult-codes-rare", True),
        "adult-alike": _alike,
        "adult-rare": _rare,
        "acs-small200": _small_acs,
        "mnist-small200": _small_mnist,
        "acs-small500": _mixed_acs,
        "mnist-small500": _mixed_mnist,
    }
    return {name: builds[name] for name in KINDS}


def _codes(name: str, married: bool, folder: Path, rows: int, seed: int) -> ExperimentDraw:
    """Adult in whole numbers, each column a category. Owners: occupations. D_v: half of some women.

    Of the pool one row in thirteen is of a woman who never married, and one in forty of one who is married.
    """
    schema, table = _coded(folder / "adult_discretized")
    columns = [column.name for column in schema.columns]
    job, sex, tie = (table.values[:, columns.index(name)] for name in ("occupation", "sex", "marital-status"))
    rng = generator(seed, "market", "codes")
    women = sex == np.bincount(sex).argmin()
    usual = np.bincount(tie[women != married]).argmax()  # of men: to be married; of women: not
    sought = women & (tie == usual) & (rng.random(len(table)) < 0.5)
    jobs = np.argsort(-np.bincount(job), kind="stable")[:10]
    parts = [np.flatnonzero((job == code) & ~sought) for code in jobs]
    return dealt(name, schema, table, parts, np.flatnonzero(sought), rows, rng)


def _alike(folder: Path, rows: int, seed: int) -> ExperimentDraw:
    """Eight owners and D_v of people drawn at random: uniform rows are the target itself."""
    schema, people = adults(folder)
    rng = generator(seed, "market", "alike")
    held, *parts = np.array_split(rng.permutation(len(people)), 9)
    return dealt("adult-alike", schema, people, parts, held, rows, rng)


def _rare(folder: Path, rows: int, seed: int) -> ExperimentDraw:
    """Eight alike owners; D_v: doctors, 1.6 % of the pool."""
    schema, people = adults(folder)
    rng = generator(seed, "market", "rare")
    column = next(c for c in schema.columns if c.name == "education")
    assert isinstance(column, Category)
    place = [c.name for c in schema.columns].index("education")
    doctor = people.values[:, place] == column.categories.index("Doctorate")
    held = doctor & (rng.random(len(people)) < 2 / 3)
    remaining = np.flatnonzero(doctor & ~held)
    others = rng.permutation(np.flatnonzero(~doctor))[: 8 * SHARE - len(remaining)]
    parts = np.array_split(rng.permutation(np.concatenate([remaining, others])), 8)
    return dealt("adult-rare", schema, people, parts, np.flatnonzero(held), rows, rng)


def _small_acs(folder: Path, rows: int, seed: int) -> ExperimentDraw:
    """The people of nineteen areas at two hundred small owners, each of one area."""
    return small(experiments()["acs"](folder, rows, seed), "acs-small200", 200, seed, mixed=False)


def _small_mnist(folder: Path, rows: int, seed: int) -> ExperimentDraw:
    """Images of all digits at two hundred small owners."""
    return small(experiments()["mnist-mixed50"](folder, rows, seed), "mnist-small200", 200, seed, mixed=True)


def _mixed_acs(folder: Path, rows: int, seed: int) -> ExperimentDraw:
    """The people of nineteen areas, shuffled, at five hundred small owners."""
    return small(experiments()["acs"](folder, rows, seed), "acs-small500", 500, seed, mixed=True)


def _mixed_mnist(folder: Path, rows: int, seed: int) -> ExperimentDraw:
    """Images of all digits at five hundred small owners."""
    return small(mixed_images(folder, rows, seed, 24_000), "mnist-small500", 500, seed, mixed=True)


def small(
    draw: ExperimentDraw,
    name: str,
    owners: int,
    seed: int,
    *,
    mixed: bool,
    span: tuple[int, int] = (SMALLEST, LARGEST),
) -> ExperimentDraw:
    """Deal the rows of a draw to many owners with few rows each.

    Args:
        draw: has the rows to deal; leftover rows go to no owner.
        name: name of the new layout.
        owners: K.
        seed: seed of the deal.
        mixed: shuffle the rows of all owners first; otherwise a small owner's rows are neighbours.
        span: fewest and most rows of an owner.

    Raises:
        ConfigError: there are not enough rows.
    """
    rng = generator(seed, "market", name)
    scenario = draw.scenario
    tables = list(scenario.owners.values())
    values = np.concatenate([table.values for table in tables])
    labels = np.concatenate(draw.labels)
    sizes = rng.integers(*span, owners, endpoint=True)
    if sizes.sum() > len(values):
        raise ConfigError(f"{len(values)} rows do not make {owners} owners", "Take fewer owners.")
    order = rng.permutation(len(values)) if mixed else np.arange(len(values))
    ends = np.linspace(0, len(values), owners + 1).astype(np.int64)[:-1] if not mixed else _starts(sizes)
    cuts = [order[start : start + size] for start, size in zip(ends, sizes, strict=True)]
    names = owner_names(owners)
    parts = {who: Table(values[cut], labels[cut]) for who, cut in zip(names, cuts, strict=True)}
    dealt = Scenario(name, scenario.schema, parts, scenario.validation, scenario.test, scenario.seeds)
    return draw_of(name, dealt, draw.gamma)


def _starts(sizes: IntArray) -> IntArray:
    return np.cumsum(sizes) - sizes


def adults(folder: Path) -> tuple[Schema, Table]:
    """Adult with its public schema."""
    schema = domain("adult")
    people = table_from_columns(read_columns(folder / "adult_raw.parquet", "adult"), schema, "adult")
    return schema, people


def _coded(folder: Path) -> tuple[Schema, Table]:
    """Adult as whole numbers; columns with more than 20 values are cut to ten bins of their domain."""
    if not (folder / "adult.csv.gz").is_file():
        raise DataError(f"there is no file {folder / 'adult.csv.gz'}", "Give the folder of the data sets.")
    domains: dict[str, int] = json.loads((folder / "adult-domain.json").read_text(encoding="utf-8"))
    with gzip.open(folder / "adult.csv.gz", "rt", encoding="utf-8") as file:
        header = file.readline().strip().split(",")
        cells = np.loadtxt(file, delimiter=",", dtype=np.int64)
    columns, values = [], []
    for place, name in enumerate(header[:-1]):
        size, codes = domains[name], cells[:, place]
        if size > 20:
            codes, size = codes * 10 // size, 10
        columns.append(Category(name=name, categories=tuple(f"c{code}" for code in range(size))))
        values.append(codes)
    label = Label(name="income", classes=("low", "high"))
    return Schema(columns=tuple(columns), label=label), Table(np.stack(values, axis=1), cells[:, -1])


def dealt(
    name: str,
    schema: Schema,
    table: Table,
    parts: Sequence[NDArray[Any]],
    sought: NDArray[Any],
    rows: int,
    rng: np.random.Generator,
) -> ExperimentDraw:
    """Give each part to an owner, at most SHARE rows; D_v gets `rows` of `sought`, at most half of it."""
    wanted = rng.permutation(sought)
    held = min(rows, len(wanted) // 2)
    chosen = [np.sort(rng.permutation(part)[:SHARE]) for part in parts]
    owners = {who: table.take(part) for who, part in zip(owner_names(len(chosen)), chosen, strict=True)}
    validation, test = table.take(wanted[:held]), table.take(wanted[held : held + SHARE])
    seeds = random_rows(schema, SEEDS, rng)
    return draw_of(name, Scenario(name, schema, owners, validation, test, seeds), None)
