"""Scenario `csv`: a user's own files, one per party, read through a public schema file."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import AfterValidator, BeforeValidator, Field, NonNegativeInt

from fedkme.config import Settings
from fedkme.tables.files import load_table
from fedkme.tables.schema import load_schema
from fedkme.tables.table import Table
from sim.scenarios.base import Scenario, generator, locate, random_rows


class OwnerFile(Settings):
    """Rows of one owner."""

    name: str = Field(pattern="^[a-z0-9-]+$")
    """a-z, 0-9 and '-': it is also the name of a certificate and of a folder."""
    path: Path


def _as_list(owners: Any) -> Any:
    """Accept a table of names and paths too."""
    return (
        [{"name": name, "path": path} for name, path in owners.items()]
        if isinstance(owners, dict)
        else owners
    )


def _distinct(owners: tuple[OwnerFile, ...]) -> tuple[OwnerFile, ...]:
    twice = [name for name, times in Counter(owner.name for owner in owners).items() if times > 1]
    if twice:
        raise ValueError(f"two owners have the name '{twice[0]}'")
    return owners


Owners = Annotated[
    tuple[OwnerFile, ...], Field(min_length=1), BeforeValidator(_as_list), AfterValidator(_distinct)
]


class Csv(Settings):
    """Files of the user: .csv, .npz or .parquet; relative paths start at the scenario's folder."""

    kind: Literal["csv"] = "csv"
    schema_file: Path
    """Public domain of all files, see fedkme.schema."""
    owners: Owners
    """name = path, or a list of tables with both."""
    validation: Path
    """D_v, the consumer's rows; labels in it are not used."""
    test: Path | None = None
    """Rows that score a summary."""
    seeds: NonNegativeInt | Path = 0
    """Public rows, D_init: a file, or how many to draw uniformly from the public domain."""


def build_csv(config: Csv, seed: int, base_dir: Path | None) -> Scenario:
    """Read every file and check it against the schema.

    Raises:
        ConfigError: a file is missing; names the key.
        SchemaError: the schema is inconsistent.
        DataError: a file does not fit the schema; names party and column.
    """
    schema = load_schema(locate(config.schema_file, "schema_file", base_dir))

    def table(path: Path, key: str, party: str, of_persons: bool = False) -> Table:
        return load_table(locate(path, key, base_dir), schema, party, of_persons=of_persons)

    if isinstance(config.seeds, int):
        seeds = random_rows(schema, config.seeds, generator(seed, "csv", "seeds"))
    else:
        seeds = table(config.seeds, "seeds", "seeds")
    nothing = Table(np.empty((0, schema.width)))
    owners = sorted(config.owners, key=lambda owner: owner.name)
    return Scenario(
        name="csv",
        schema=schema,
        owners={owner.name: table(owner.path, f"owners.{owner.name}", owner.name, True) for owner in owners},
        validation=Table(table(config.validation, "validation", "consumer", True).values),
        test=table(config.test, "test", "test") if config.test else nothing,
        seeds=seeds,
    )
