"""Tables of the referee: public rows, split by seed, with a public schema and rules of what cannot be.

A schema has the rules and the atoms that the table's public dictionary states; task.json has them, too.
Scores count impossible records by functions of their own (`RefereeTable.rules`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedkme.errors import DataError
from fedkme.tables.files import read_columns, table_from_columns
from fedkme.tables.schema import Category, Label, Numeric, Schema
from fedkme.tables.table import Table
from lab.referee.site_tables import SiteTable, site_tables
from sim.data.folder import data_file
from sim.scenarios.base import domain

Frame = Mapping[str, NDArray[Any]]
"""Columns by name: numbers, or categories and classes as text."""
Rule = Callable[[Frame], NDArray[np.bool_]]
"""Rows of a frame that cannot be."""


@dataclass(frozen=True, eq=False)
class RefereeSplit:
    """One draw of a table.

    Attributes:
        train: rows of the owners.
        owners: number of each training row's owner, from 0.
        test: real rows that no entrant sees; may be empty.
    """

    train: Table
    owners: NDArray[np.int64]
    test: Table


@dataclass(frozen=True)
class RefereeTable:
    """Table to make rows of.

    Attributes:
        schema: public.
        split: draws training and test rows by seed.
        file: name in the folder of the data; empty for generated rows.
        rules: impossible records by what is wrong with them; no training row breaks one.
        ordered: columns whose ranks mean something.
        delta: delta of the releases.
    """

    schema: Schema
    split: Callable[[int], RefereeSplit]
    file: str = ""
    rules: Mapping[str, Rule] = field(default_factory=dict)
    ordered: tuple[str, ...] = ()
    delta: float = 1e-5

    def is_here(self) -> bool:
        """Check for the table's file."""
        return not self.file or data_file(self.file).is_file()


def columns_of_table(table: Table, schema: Schema) -> dict[str, NDArray[Any]]:
    """Columns by name, categories and classes as text."""
    by_name: dict[str, NDArray[Any]] = {}
    for column, values in zip(schema.columns, np.asarray(table.values).T, strict=True):
        if isinstance(column, Category):
            by_name[column.name] = np.array(column.categories)[values.astype(np.int64)]
        else:
            by_name[column.name] = values.astype(np.int64) if column.integer else values
    if schema.label is not None and table.labels is not None:
        by_name[schema.label.name] = np.array(schema.classes)[table.labels]
    return by_name


def columns_as_plain(schema: Schema) -> list[dict[str, Any]]:
    """Columns for entrants: name, and categories or bounds; the label is the last, a category."""
    plain: list[dict[str, Any]] = []
    for column in schema.columns:
        if isinstance(column, Category):
            plain.append({"name": column.name, "categories": list(column.categories)})
        else:
            bounds = [float(bound) for bound in column.bounds]
            plain.append({"name": column.name, "bounds": bounds, "integer": column.integer})
            for key in ("atoms", "values"):
                if getattr(column, key):
                    plain[-1][key] = list(getattr(column, key))
    if schema.label is not None:
        plain.append({"name": schema.label.name, "categories": list(schema.classes), "label": True})
    return plain


def rules_as_plain(schema: Schema) -> dict[str, Any]:
    """Public rules for entrants, by the keys of a schema; empty without any."""
    keys = {"never", "order", "derived"} & schema.model_fields_set
    return schema.model_dump(mode="json", include=keys) if schema.has_rules else {}


def _drawn(
    table: Table, seed: int, train: float, test: float, owners: int | NDArray[np.int64] = 5
) -> RefereeSplit:
    """Draw the rows of a split; `owners` is their number, of alike ones, or the number of each row's."""
    order = np.random.default_rng(np.random.SeedSequence([seed, 38])).permutation(len(table))
    first, second = round(train * len(table)), round(test * len(table))
    chosen = order[:first]
    held_back = table.take(order[first : first + second])
    of = np.arange(len(chosen)) % owners if isinstance(owners, int) else owners[chosen]
    return RefereeSplit(table.take(chosen), of, held_back)


def _of_sites(given: SiteTable) -> RefereeTable:
    """Table of natural sites, or of five owners alike."""

    def split(seed: int) -> RefereeSplit:
        table, sites = given.rows(data_file(given.file))
        return _drawn(table, seed, given.train, given.train / 4, 5 if sites is None else sites)

    numbers = [column for column in given.schema.columns if isinstance(column, Numeric)]
    ordered = tuple(name for column in numbers for name in column.names)
    return RefereeTable(given.schema, split, given.file, ordered=ordered)


def _adult(train: float, test: float, seed: int) -> RefereeSplit:
    path = data_file("adult_raw.parquet")
    table = table_from_columns(read_columns(path, "adult"), _adult_schema(), "adult")
    return _drawn(table, seed, train, test)


_YEARS = "Preschool,1st-4th,5th-6th,7th-8th,9th,10th,11th,12th,HS-grad,Some-college,Assoc-voc,Assoc-acdm,"
_SCHOOLING = f"{_YEARS}Bachelors,Masters,Prof-school,Doctorate".split(",")


def _unlike_years(frame: Frame) -> NDArray[np.bool_]:
    years = {name: year for year, name in enumerate(_SCHOOLING, 1)}
    stated = np.array([years[name] for name in frame["education"].tolist()])
    return np.asarray(stated != frame["education-num"], dtype=np.bool_)


def _spouse(frame: Frame) -> NDArray[np.bool_]:
    married = np.isin(frame["marital-status"], ["Married-civ-spouse", "Married-AF-spouse"])
    return np.isin(frame["relationship"], ["Husband", "Wife"]) & ~married


def _adult_schema() -> Schema:
    """Schema that a reader of the source's code book writes.

    The years of school number the degrees. A gain or loss of 0 is none, and 99,999 stands for more.
    """
    atoms = {"capital-gain": (0.0, 99_999.0), "capital-loss": (0.0,)}
    whole = domain("adult")
    columns = [
        column.model_dump() | ({"atoms": atoms[column.name]} if column.name in atoms else {})
        for column in whole.columns
    ]
    married = "marital-status in ('Married-civ-spouse', 'Married-AF-spouse')"
    years = {name: year for year, name in enumerate(_SCHOOLING, 1)}
    return Schema.model_validate(
        {
            "columns": columns,
            "label": whole.label,
            "ignore": whole.ignore,
            "never": (
                f"relationship in ('Husband', 'Wife') and not {married}",
                "workclass = 'Never-worked' and occupation != '?'",
                "capital-gain > 0 and capital-loss > 0",
            ),
            "derived": {"education-num": {"function_of": "education", "values": years}},
        }
    )


def _without_rules(schema: Schema) -> Schema:
    return Schema(columns=schema.columns, label=schema.label, ignore=schema.ignore)


_ADULT_RULES: Mapping[str, Rule] = {
    "years of school are not those of the degree": _unlike_years,
    "husband or wife, and not married": _spouse,
    "never worked, with an occupation": lambda x: (
        (x["workclass"] == "Never-worked") & (x["occupation"] != "?")
    ),
    "gain and loss of capital": lambda x: (x["capital-gain"] > 0) & (x["capital-loss"] > 0),
}
_ADULT_ORDERED = ("age", "education-num", "capital-gain", "capital-loss", "hours-per-week")

_DEMOGRAPHIC = ["AGEP", "SEX", "MSP", "HISP", "RAC1P", "HOUSING_TYPE", "OWN_RENT", "EDU"]
_DEGREES = [str(level) for level in range(6, 13)]
_DECILES = ("N", *map(str, range(10)))
_AREAS = (
    *("01-01301", "06-07502", "06-08507", "08-00803", "13-04600", "17-03529", "17-03531", "19-01700"),
    *("24-01004", "26-02702", "28-01100", "29-01901", "30-00600", "32-00405", "36-03710", "36-04010"),
    *("38-00100", "40-00200", "51-01301", "51-51255"),
)


_ACS_NEVER = (
    "AGEP < 15 and MSP != 'N'",
    "AGEP >= 15 and MSP = 'N'",
    "AGEP < 15 and PINCP_DECILE != 'N'",
    "AGEP >= 15 and PINCP_DECILE = 'N'",
    "AGEP < 3 and EDU != 'N'",
    "AGEP >= 3 and EDU = 'N'",
    "AGEP < 5 and EDU in ('4', '5')",
    f"AGEP < 15 and EDU in ({', '.join(map(repr, _DEGREES))})",
    "HOUSING_TYPE = '1' and OWN_RENT = '0'",
    "HOUSING_TYPE != '1' and OWN_RENT != '0'",
)
"""Records that NIST's data dictionary rules out: N stands for persons below an age, 0 for no dwelling. And no
child has finished school."""


def _acs_schema() -> Schema:
    whole = {column.name: column for column in domain("acs").columns}
    chosen = [whole[name] for name in _DEMOGRAPHIC]
    deciles = Category(name="PINCP_DECILE", categories=_DECILES)
    columns = (*chosen, deciles, Category(name="PUMA", categories=_AREAS))
    return Schema(columns=columns, never=_ACS_NEVER)


def _acs(seed: int) -> RefereeSplit:
    """All rows, as in NIST's reports; each area is an owner."""
    path, schema = data_file("acs_national2019_sdnist.parquet"), _acs_schema()
    cells = read_columns(path, "acs")
    if missing := set(schema.names) - set(cells):
        raise DataError(f"{path} has no column '{min(missing)}'", "Take the file of the data folder.")
    table = table_from_columns({name: cells[name] for name in schema.names}, schema, "acs")
    owners = table.values[:, schema.names.index("PUMA")].astype(np.int64)
    return RefereeSplit(table, owners, table.take(np.arange(0)))


def _young(age: int, column: str, most: str) -> Rule:
    """Rule: younger than an age, with more in a column than nothing."""
    return lambda x: (x["AGEP"] < age) & (x[column] != most)


_ACS_RULES: Mapping[str, Rule] = {
    "a child with a marital status": _young(15, "MSP", "N"),
    "an adult without a marital status": lambda x: (x["AGEP"] >= 15) & (x["MSP"] == "N"),
    "an infant with schooling": _young(3, "EDU", "N"),
    "schooling missing": lambda x: (x["AGEP"] >= 3) & (x["EDU"] == "N"),
    "a child with an income": _young(15, "PINCP_DECILE", "N"),
    "an adult without an income": lambda x: (x["AGEP"] >= 15) & (x["PINCP_DECILE"] == "N"),
    "a child with a degree": lambda x: (
        (x["AGEP"] < 15) & np.isin(x["EDU"], ["6", "7", "8", "9", "10", "11", "12"])
    ),
    "group quarters that are owned or rented": lambda x: (x["HOUSING_TYPE"] != "1") & (x["OWN_RENT"] != "0"),
    "a house neither owned nor rented": lambda x: (x["HOUSING_TYPE"] == "1") & (x["OWN_RENT"] == "0"),
}

_BITS = 9


def xor_table(k: int, rows: int = 20_000) -> RefereeTable:
    """Nine even bits; the label is the XOR of the first k (Tab-PE, 2606.08259)."""
    columns = tuple(Category(name=f"x{i}", categories=("0", "1")) for i in range(_BITS))
    schema = Schema(columns=columns, label=Label(name="xor", classes=("0", "1")))

    def split(seed: int) -> RefereeSplit:
        bits = np.random.default_rng(np.random.SeedSequence([seed, 38, k])).integers(
            0, 2, (rows * 5 // 4, _BITS)
        )
        return _drawn(Table(bits, bits[:, :k].sum(axis=1) % 2), seed, 0.8, 0.2)

    return RefereeTable(schema, split)


def tables() -> dict[str, RefereeTable]:
    """All tables by name."""
    adult: dict[str, Any] = {
        "schema": _adult_schema(),
        "file": "adult_raw.parquet",
        "rules": _ADULT_RULES,
        "ordered": _ADULT_ORDERED,
    }
    tables = {
        "adult": RefereeTable(split=lambda seed: _adult(0.9, 0.1, seed), **adult),
        "adult-atoms": RefereeTable(
            split=lambda seed: _adult(0.9, 0.1, seed), **adult | {"schema": _without_rules(_adult_schema())}
        ),
        "adult-thirds": RefereeTable(split=lambda seed: _adult(1 / 3, 1 / 3, seed), **adult),
        "acs": RefereeTable(
            _acs_schema(),
            _acs,
            "acs_national2019_sdnist.parquet",
            _ACS_RULES,
            ("AGEP", "EDU", "PINCP_DECILE"),
        ),
    }
    tables |= {name: _of_sites(table) for name, table in site_tables().items()}
    return tables | {f"xor-{k}": xor_table(k) for k in range(2, 8)}


def codes(table: Table, real: Table, schema: Schema, bins: int = 8) -> NDArray[np.int64]:
    """Whole numbers for each column, label last; numbers in bins at quantiles of the real rows."""
    parts = []
    for place, column in enumerate(schema.columns):
        values = table.values[:, place]
        if isinstance(column, Numeric):
            edges = np.unique(np.quantile(real.values[:, place], np.arange(1, bins) / bins))
            values = np.searchsorted(edges, values)
        parts.append(values.astype(np.int64))
    if table.labels is not None:
        parts.append(table.labels)
    return np.stack(parts, axis=1)
