"""Scenario `states`: the layout of Sarpatwar 2019, Section 4 (Figure 1), on regions of a table.

In the paper four owners hold even parts of Florida's rows, one of them also holds most of Connecticut's rows,
the consumer looks for the rest of Connecticut, and seeds come from Ohio, in the data of Allstate's
competition. Those data may not be passed on, so the shipped scenario uses three areas of the American
Community Survey in the same layout.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, PositiveInt, model_validator

from fedkme.config import Settings
from fedkme.errors import DataError
from fedkme.tables.cells import Cells, texts
from fedkme.tables.files import read_columns, table_from_columns
from fedkme.tables.schema import Schema
from fedkme.tables.table import Table, joined
from sim.scenarios.base import Fraction, Rows, Scenario, cut, domain, draw, generator, locate, owner_names
from sim.scenarios.stand_ins import STAND_IN, StandIn, invented_columns

Regions = NDArray[np.str_]
"""Region of each row, (m,)."""


class States(Settings):
    """Regions of a table: a region that all owners share, the consumer's target, a region of public rows."""

    kind: Literal["states"] = "states"
    data: Literal["acs", "allstate"] = "acs"
    """`acs`: the survey as NIST's SDNist has it; `allstate`: train.csv of the competition."""
    path: StandIn | Path
    """File of the data; `stand-in`: invented rows of the three regions."""
    crowd: str
    """Region whose rows all owners share in even parts; the paper's FL."""
    target: str
    """Region that the consumer looks for; the first owner has rows of it. The paper's CT."""
    public: str
    """Region of the seed rows; the paper's OH."""
    owners: PositiveInt = 4
    """Number of owners."""
    held_back: Fraction = 0.3
    """Share of the target's rows that no owner has."""
    validation_fraction: Fraction = 0.25
    """Share of the held-back rows that is D_v; the rest is the test set."""
    seeds: int = Field(default=150, ge=0)
    """Public rows, D_init."""

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if len({self.crowd, self.target, self.public}) < 3:
            raise ValueError("'crowd', 'target' and 'public' are three regions")
        return self

    def build(self, seed: int) -> Scenario:
        """Lay out the regions; every row is in one party only.

        Raises:
            ConfigError: no such file, or more seed rows than the public region has.
            DataError: the file does not fit, or a region has no rows.
        """
        if self.path == STAND_IN:
            table, regions, schema = _invented(self)
        else:
            read = read_acs if self.data == "acs" else read_allstate
            table, regions, schema = read(locate(self.path, "path"))
        labels = table.labels if table.labels is not None else np.zeros(len(table), np.int64)
        crowd, target, public = (_rows_of(name, regions) for name in (self.crowd, self.target, self.public))
        held, owned = cut(labels, target, self.held_back, generator(seed, "states", "held back"))
        validation, test = cut(
            labels, held, self.validation_fraction, generator(seed, "states", "validation")
        )
        seeds = draw(public, self.seeds, "seeds", generator(seed, "states", "seeds"))
        parts = np.array_split(generator(seed, "states", "owners").permutation(crowd), self.owners)
        owners = dict(zip(owner_names(self.owners), map(table.take, parts), strict=True))
        first = next(iter(owners))
        return Scenario(
            name="states",
            schema=schema,
            owners=owners | {first: joined([owners[first], table.take(owned)])},
            validation=Table(table.values[validation]),
            test=table.take(test),
            seeds=table.take(seeds) if self.seeds else None,
        )


def _rows_of(region: str, regions: Regions) -> Rows:
    rows = np.flatnonzero(regions == region)
    if not len(rows):
        examples = ", ".join(sorted(set(regions.tolist()))[:8])
        raise DataError(f"states: no row is of region '{region}'", f"Regions of the file: {examples}, ...")
    return rows


def _invented(config: States) -> tuple[Table, Regions, Schema]:
    sizes = {config.crowd: 2400, config.target: 2000, config.public: 1000}
    return _described(invented_columns(domain(config.data), sizes, "region"), config.data, "region")


def read_acs(path: Path) -> tuple[Table, Regions, Schema]:
    """People of the survey, the area of each, and the schema; label: income in the upper half of deciles.

    Raises:
        DataError: the file does not fit.
        MissingDependencyError: pyarrow is not installed.
    """
    columns = read_columns(path, "acs")
    deciles = _column(columns, "PINCP_DECILE", "acs")
    columns["income"] = ["upper" if decile in tuple("56789") else "lower" for decile in deciles]
    return _described(columns, "acs", "PUMA")


def read_allstate(path: Path) -> tuple[Table, Regions, Schema]:
    """Customers of train.csv as they bought, the state of each, and the schema; label: option A.

    A customer has a row for each quote; the last row, of record type 1, is the purchase.

    Raises:
        DataError: the file does not fit.
    """
    columns = read_columns(path, "allstate")
    bought = [row for row, kind in enumerate(_column(columns, "record_type", "allstate")) if kind == "1"]
    purchases: dict[str, Cells] = {
        name: ["" if words[row] == "NA" else words[row] for row in bought]
        for name, words in zip(columns, map(texts, columns.values()), strict=True)
    }
    return _described(purchases, "allstate", "state")


def _described(columns: Mapping[str, Cells], name: str, region: str) -> tuple[Table, Regions, Schema]:
    base = domain(name)
    described = {*base.names, *(part.name for part in [base.label] if part)}
    schema = base.model_copy(update={"ignore": tuple(sorted(set(columns) - described))})
    table = table_from_columns(columns, schema, name)
    schema.check(table, name)
    return table, np.asarray(_column(columns, region, name), dtype=str), schema


def _column(columns: Mapping[str, Cells], name: str, party: str) -> Sequence[str]:
    if name not in columns:
        raise DataError(f"{party}: the file has no column '{name}'", "Give the file as its source has it.")
    return texts(columns[name])
