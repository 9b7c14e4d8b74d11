"""Tables of the data folder whose public schemas are bounds and names alone, without rules and atoms.

Owners are natural sites where the file names them: colours of wine, stations, wilderness areas, schools; of
other tables the rows of five owners are drawn alike.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedkme.tables.files import read_columns, table_from_columns
from fedkme.tables.schema import Label, Numeric, Schema
from fedkme.tables.table import Table
from lab.experiments.cells_tables import Columns, air_schema, diabetes_schema, read_air, read_diabetes
from lab.experiments.datasets import SOURCES
from sim.scenarios.base import domain

Sites = NDArray[np.int64] | None
"""Number of each row's owner; None without natural sites."""


@dataclass(frozen=True, slots=True)
class SiteTable:
    """Table of the data folder.

    Attributes:
        file: its name.
        schema: public.
        read: rows and their sites; `rows` has them inside the public bounds.
        train: share of the rows to train on; a quarter as many are for tests.
    """

    file: str
    schema: Schema
    read: Callable[[Path, Schema], tuple[Table, Sites]]
    train: float = 0.8

    def rows(self, path: Path) -> tuple[Table, Sites]:
        """Read rows as entrants get them: empty cells have the public value, others lie inside the bounds."""
        table, sites = self.read(path, self.schema)
        values = table.values.copy()
        for place, column in enumerate(self.schema.columns):
            if isinstance(column, Numeric):
                low, high = map(float, column.bounds)
                gap = low if column.missing is None else float(column.missing)
                values[:, place] = np.nan_to_num(values[:, place], nan=gap).clip(low, high)
        return Table(values, table.labels), sites


def site_tables() -> Mapping[str, SiteTable]:
    """Tables by name; of long ones a share of the rows, another one by seed."""
    forests = SOURCES["covtype"]()
    cards = SOURCES["credit"]()
    patients = diabetes_schema()
    return {
        "air": SiteTable("beijing_air_12stations.parquet", _whole(air_schema(), "CO"), _air, 0.08),
        "covtype": SiteTable(forests.file, forests.schema, _covtype),
        "credit": SiteTable(cards.file, _spread(cards.schema), cards.read),
        "diabetes": SiteTable("diabetes130.parquet", _whole(patients, *_numbers(patients)), _diabetes, 0.32),
        "student": SiteTable("student_performance.parquet", _labelled("student", "G3", "passed"), _student),
        "wine": SiteTable("wine_quality.parquet", _labelled("wine", "quality", "good"), _wine),
    }


def _labelled(name: str, column: str, label: str) -> Schema:
    """Domain with a label of yes and no in place of a column of marks."""
    whole = domain(name)
    columns = tuple(each for each in whole.columns if each.name != column)
    return Schema(columns=columns, label=Label(name=label, classes=("no", "yes")))


def _numbers(schema: Schema) -> list[str]:
    return [column.name for column in schema.columns if isinstance(column, Numeric)]


def _whole(schema: Schema, *names: str) -> Schema:
    """Schema that calls the numbers of some columns whole, as their public dictionary does."""
    columns = [
        column.model_copy(update={"integer": True}) if column.name in names else column
        for column in schema.columns
    ]
    return Schema(columns=tuple(columns), label=schema.label)


def _spread(schema: Schema) -> Schema:
    """Schema with a column for each name of a column of many."""
    columns = [
        column.model_copy(update={"name": name, "count": 1})
        for column in schema.columns
        for name in column.names
    ]
    return Schema(columns=tuple(columns), label=schema.label)


def _wine(path: Path, schema: Schema) -> tuple[Table, Sites]:
    columns = dict(read_columns(path, "wine"))
    columns["good"] = _yes(np.asarray(columns["quality"]) >= 6)
    return _cut(columns, schema), _numbered(columns["colour"])


def _student(path: Path, schema: Schema) -> tuple[Table, Sites]:
    columns = dict(read_columns(path, "student"))
    columns["passed"] = _yes(np.asarray(columns["G3"]) >= 10)
    return _cut(columns, schema), _numbered(columns["school"])


def _air(path: Path, schema: Schema) -> tuple[Table, Sites]:
    columns = read_air(path)
    measured = np.isfinite(np.asarray(columns["PM2.5"], np.float64))
    return _cut(columns, schema).take(measured), _numbered(columns["station"])[measured]


def _diabetes(path: Path, schema: Schema) -> tuple[Table, Sites]:
    return _cut(read_diabetes(path), schema), None


def _covtype(path: Path, schema: Schema) -> tuple[Table, Sites]:
    table, _ = SOURCES["covtype"]().read(path, schema)
    return table, table.values[:, schema.names.index("Wilderness_Area")].astype(np.int64)


def _yes(condition: NDArray[np.bool_]) -> NDArray[np.str_]:
    return np.where(condition, "yes", "no")


def _numbered(sites: Any) -> NDArray[np.int64]:
    """Numbers of sites in the order of their names."""
    return np.unique(np.asarray(sites).astype(str), return_inverse=True)[1].astype(np.int64)


def _cut(columns: Columns, schema: Schema) -> Table:
    assert schema.label is not None
    used = {name: np.asarray(columns[name]) for name in (*schema.names, schema.label.name)}
    return table_from_columns(used, schema, "rows")
