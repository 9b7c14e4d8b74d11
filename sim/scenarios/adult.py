"""Scenario `adult`: the census income table of UCI, mixed numbers and categories, split over owners."""

from pathlib import Path
from typing import Literal

import numpy as np
from pydantic import Field

from fedkme.config import Settings
from fedkme.errors import ConfigError, DataError
from fedkme.tables.files import load_table, table_from_columns
from fedkme.tables.schema import Category, Schema
from fedkme.tables.table import Table
from sim.scenarios.base import (
    Fraction,
    LazyTables,
    Scenario,
    domain,
    generator,
    locate,
    owner_names,
    random_rows,
)
from sim.scenarios.stand_ins import STAND_IN, StandIn, invented_columns

GAINS = ("capital-gain", "capital-loss")
"""Columns that are 0 for nine people in ten."""


class Adult(Settings):
    """Adult over a number of owners."""

    kind: Literal["adult"] = "adult"
    path: StandIn | Path
    """adult_raw.parquet: 14 columns and `income`; `stand-in`: invented rows."""
    owners: int = Field(5, ge=1)
    """Owners, who hold equal random parts."""
    target: str = Field("Masters")
    """Education of the people that the consumer of a summary looks for."""
    validation: int = Field(250, ge=1)
    """Rows of D_v."""
    test_fraction: Fraction = 0.1
    """Share of all rows that is the test set."""
    seeds: int = Field(150, ge=0)
    """Seed rows, drawn uniformly from the public domain."""

    def build(self, seed: int) -> Scenario:
        """Draw the test rows from all rows and D_v from the target; deal the rest to the owners.

        Raises:
            ConfigError: no such file.
            DataError: the file does not fit the schema, or has too few rows of the target.
        """
        schema = public_schema()
        if self.path == STAND_IN:
            table = table_from_columns(invented_columns(schema, {"": 12_000}), schema, "adult")
        else:
            table = load_table(locate(self.path, "path"), schema, "adult")
        if table.labels is None:
            raise DataError("adult: the file has no column 'income'", "Give a file with it.")
        order = generator(seed, "adult", "split").permutation(len(table))
        test, rest = np.split(order, [round(self.test_fraction * len(table))])
        column, levels = next(
            (place, spec.categories)
            for place, spec in enumerate(schema.columns)
            if isinstance(spec, Category) and spec.name == "education"
        )
        if self.target not in levels:
            cause = f"scenario.target: there is no education {self.target!r}"
            raise ConfigError(cause, f"Choose one of {', '.join(levels)}.")
        candidates = rest[table.values[rest, column] == levels.index(self.target)]
        if len(candidates) <= self.validation:
            raise DataError(
                "adult: the target has too few rows", "Set scenario.validation to a smaller number."
            )
        validation = candidates[: self.validation]
        owned = np.setdiff1d(rest, validation)
        shares = np.array_split(generator(seed, "adult", "owners").permutation(owned), self.owners)
        parts = dict(zip(owner_names(self.owners), shares, strict=True))
        return Scenario(
            name="adult",
            schema=schema,
            owners=LazyTables(parts, lambda name: table.take(np.sort(parts[name]))),
            validation=Table(table.values[np.sort(validation)]),
            test=table.take(np.sort(test)),
            seeds=random_rows(schema, self.seeds, generator(seed, "adult", "seeds")),
        )


def public_schema() -> Schema:
    """Make the domain of the papers' experiments, with an atom at 0 and a logarithmic scale for `GAINS`."""
    base = domain("adult")
    skewed = {"atoms": (0.0,), "scale": "log"}
    columns = (spec.model_copy(update=skewed) if spec.name in GAINS else spec for spec in base.columns)
    return base.model_copy(update={"columns": tuple(columns)})
