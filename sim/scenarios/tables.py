"""Scenario `csv`: a user's own files, read through a public schema file.

Each owner has a file, or one table has the rows of all owners and a column of sites.
"""

from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, Self

import numpy as np
from pydantic import AfterValidator, BeforeValidator, Field, NonNegativeInt, PositiveInt, model_validator

from fedkme.config import Settings
from fedkme.errors import ConfigError
from fedkme.tables.cells import Cells
from fedkme.tables.data_file import PLAIN, DataFile, Source, allowed_names, as_file
from fedkme.tables.files import load_table, read_columns, table_from_columns
from fedkme.tables.schema import Schema, load_schema
from fedkme.tables.table import Table
from sim.scenarios.base import LazyTables, Rows, Scenario, generator, locate, random_rows
from sim.scenarios.sites import rows_by_site


class OwnerFile(DataFile):
    """Rows of one owner, and how to read its file."""

    name: str = Field(pattern="^[a-z0-9-]+$")
    """a-z, 0-9 and '-': it is also the name of a certificate and of a folder."""


def _as_list(owners: Any) -> Any:
    """Accept also a table from names to paths or tables."""
    if not isinstance(owners, dict):
        return owners
    return [
        {**(own if isinstance(own, dict) else {"path": own}), "name": name} for name, own in owners.items()
    ]


def _distinct(owners: tuple[OwnerFile, ...]) -> tuple[OwnerFile, ...]:
    twice = [name for name, times in Counter(owner.name for owner in owners).items() if times > 1]
    if twice:
        raise ValueError(f"two owners have the name '{twice[0]}'")
    return owners


_Written = dict[str, Path | DataFile] | list[OwnerFile]
Owners = Annotated[
    tuple[OwnerFile, ...],
    Field(min_length=1),
    BeforeValidator(_as_list, json_schema_input_type=_Written),
    AfterValidator(_distinct),
]


class Csv(Settings):
    """Files of the user: .csv, .npz or .parquet; relative paths start at the scenario's folder."""

    kind: Literal["csv"] = "csv"
    schema_file: Path
    """Public domain of all files, see fedkme.tables.schema."""
    owners: Owners | None = None
    """name = path, or name = a table with the path and how to read the file; or a list of such tables."""
    table: Source | None = None
    """File with the rows of all owners, .csv, .tsv, .txt or .parquet, in place of `owners`."""
    site_column: str | None = None
    """Column of `table` with the site of each row; each site is an owner."""
    least_rows: PositiveInt = 1
    """A site of `table` with fewer rows is left out."""
    validation: Source | None = None
    """D_v, the consumer's rows, which releases do not need. If D_v has labels, all rows are counted by class,
    as in a deployment."""
    test: Source | None = None
    """Rows that score a summary."""
    seeds: NonNegativeInt | Source = 0
    """Public rows, D_init: a file, or a number of rows to draw uniformly from the public domain."""

    @model_validator(mode="after")
    def _one_source(self) -> Self:
        if (self.owners is None) == (self.table is None):
            raise ValueError("give either 'owners' or 'table' with 'site_column'")
        if (self.table is None) != (self.site_column is None):
            raise ValueError("'table' and 'site_column' belong together")
        return self

    def build(self, seed: int) -> Scenario:
        """Read every file and check it against the schema.

        Raises:
            ConfigError: a file is missing; names the key.
            SchemaError: the schema is inconsistent.
            DataError: a file does not fit the schema; names party and column.
        """
        schema = load_schema(locate(self.schema_file, "schema_file"))

        def table(source: Source, key: str, party: str, of_persons: bool = False) -> Table:
            return load_table(_located(source, key), schema, party, of_persons=of_persons)

        if isinstance(self.seeds, int):
            seeds = random_rows(schema, self.seeds, generator(seed, "csv", "seeds"))
        else:
            seeds = table(self.seeds, "seeds", "seeds")
        nothing = Table(np.empty((0, schema.width)))
        owners: Mapping[str, Table]
        if self.table and self.site_column:
            source = _located(self.table, "table")
            owners = dict(sorted(tables_of_sites(source, self.site_column, self.least_rows, schema).items()))
        else:
            files = {owner.name: owner for owner in self.owners or ()}
            owners = LazyTables(sorted(files), lambda name: table(files[name], f"owners.{name}", name, True))
        return Scenario(
            name="csv",
            schema=schema,
            owners=owners,
            validation=table(self.validation, "validation", "consumer", True) if self.validation else nothing,
            test=table(self.test, "test", "test") if self.test else nothing,
            seeds=seeds,
        )


def _located(source: Source, key: str) -> DataFile:
    file = as_file(source)
    return file.model_copy(update={"path": locate(file.path, key)})


def tables_of_sites(file: DataFile, site_column: str, least_rows: int, schema: Schema) -> dict[str, Table]:
    """Rows of each owner of one table, by name; see `rows_by_site`.

    Raises:
        ConfigError: the file has no named columns.
        DataError: sites cannot be told apart, or rows do not fit the schema; names owner and column.
    """
    if file.path.suffix == ".npz":
        cause = f"scenario.table: {file.path} is an .npz, whose columns have no names"
        raise ConfigError(cause, "Write it as .csv, .tsv or .parquet.")
    return split_by_site(read_columns(file, "table"), site_column, schema, least_rows, file)


def split_by_site(
    columns: Mapping[str, Cells],
    site_column: str,
    schema: Schema,
    least_rows: int = 1,
    file: DataFile = PLAIN,
) -> dict[str, Table]:
    """Rows of each owner of one table's columns, read as `file` says; see `rows_by_site`.

    Raises:
        DataError: sites cannot be told apart, or rows do not fit the schema; names owner and column.
    """
    sites = rows_by_site(columns, site_column, least_rows)
    if site_column not in allowed_names(schema, file):
        columns = {name: cells for name, cells in columns.items() if name != site_column}
    return {
        name: table_from_columns(_taken(columns, rows), schema, name, of_persons=True, file=file)
        for name, rows in sites.items()
    }


def _taken(columns: Mapping[str, Cells], rows: Rows) -> dict[str, Cells]:
    return {
        name: cells[rows] if isinstance(cells, np.ndarray) else [cells[row] for row in rows]
        for name, cells in columns.items()
    }
