"""Public schema: agreed on before any row is read, since a scale learnt from private rows would leak them."""

import hashlib
import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, ValidationError, model_validator

from fedkme.arrays import FloatArray
from fedkme.config import Settings, dump_toml, load_json, load_toml, validate
from fedkme.errors import ConfigError, DataError, SchemaError
from fedkme.tables.cells import Name, Text, date_of
from fedkme.tables.names import GAPS, Category, Label, mark_name
from fedkme.tables.numbers import Numeric
from fedkme.tables.rules import PublicRules
from fedkme.tables.table import FaultyCells, Table
from fedkme.tables.table_schema import from_table_schema

__all__ = ["Category", "Label", "Numeric", "Person", "Schema", "load_schema", "rows_of_person", "schema_from"]

_BLOCK_CELLS = 1 << 19  # cells converted at a time: 4 MiB of float64
_LATER: dict[str, Any] = {
    "nullable": False,
    "gaps_of": None,
    "decimals": None,
    "scale": "linear",
    "cuts": [],
    "atoms": [],
    "values": [],
    "other": False,
}
"""Keys that later releases added, with defaults: a default is left out of the digest, so old digests stay."""

_WRITTEN = ("na", "format", "drop_unlabelled")
"""Keys of columns and the label that say how files write cells; no digest has them."""

Column = Annotated[Numeric | Category, Field(discriminator="kind")]


class Person(Settings):
    """Column that tells whose a row is, with the bounds for statements about a person; it never leaves."""

    column: Name
    """Column of an owner's file and of D_v's; equal cells are one person."""
    rows: int = Field(ge=1)
    """Rows of one person that count at an owner, or in D_v: the first in the file."""
    owners: int = Field(1, ge=1)
    """Owners at which the same person may be."""


class Schema(PublicRules):
    """Columns and label of a table, agreed in public.

    Examples:
        >>> Schema(columns=({"kind": "numeric", "name": "age", "bounds": [0, 120]},)).names
        ('age',)
    """

    columns: tuple[Column, ...] = Field(min_length=1)
    """Columns that rows are compared by, in the order of a table."""
    label: Label | None = None
    """Column that a model learns to predict; none: rows have no labels."""
    person: Person | None = None
    """Person whose rows are; without it every statement is about one row."""
    ignore: tuple[Text, ...] = ()
    """Columns of a file that are not used; any other column that is not described above is an error."""

    @model_validator(mode="before")
    @classmethod
    def _with_gaps(cls, values: Any) -> Any:
        """Add the column that marks the gaps of a nullable number, where it is missing."""
        lists = isinstance(values, Mapping) and (values.get("columns"), values.get("ignore", ()))
        if not lists or not all(isinstance(each, list | tuple) for each in lists):
            return values
        marked = {_key(column, "gaps_of") for column in values["columns"]}
        used = [_key(column, "name") for column in (*values["columns"], values.get("label"))]
        used += [_key(values.get("person"), "column"), *values.get("ignore", ())]
        columns: list[Any] = []
        for column in values["columns"]:
            columns.append(column)
            name = _key(column, "name")
            if _key(column, "nullable") is True and _key(column, "kind") != "category" and name not in marked:
                marks = {"name": mark_name(name, used), "categories": _gap_names(column), "gaps_of": name}
                columns.append({"kind": "category", **marks})
        return {**values, "columns": tuple(columns)}

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        marked = {column.gaps_of for column in self.columns if isinstance(column, Category)} - {None}
        if strangers := marked - {c.name for c in self.columns if isinstance(c, Numeric) and c.nullable}:
            raise ValueError(f"'gaps_of' names '{min(map(str, strangers))}', which is no nullable number")
        label = [self.label.name] if self.label else []
        person = [self.person.column] if self.person else []
        used = Counter([*self.names, *label, *person, *self.ignore])
        if twice := [name for name, times in used.items() if times > 1]:
            ignored = "; take its table out, or list it no longer under 'ignore'"
            raise ValueError(f"the name '{twice[0]}' is used twice{ignored * (twice[0] in self.ignore)}")
        self.check_names([*self.names, *label])
        return self

    @property
    def gaps(self) -> tuple[tuple[Category, Numeric], ...]:
        """Each column that marks gaps, with the nullable number whose gaps it marks."""
        numbers = {column.name: column for column in self.columns if isinstance(column, Numeric)}
        marks = (column for column in self.columns if isinstance(column, Category))
        return tuple((mark, numbers[mark.gaps_of]) for mark in marks if mark.gaps_of is not None)

    def number_of(self, mark: Category) -> Numeric:
        """Nullable number whose gaps a column marks."""
        return next(number for gaps, number in self.gaps if gaps.name == mark.name)

    @property
    def names(self) -> tuple[str, ...]:
        """Name of each of the `width` columns."""
        return tuple(name for column in self.columns for name in column.names)

    @property
    def width(self) -> int:
        """Number of columns of a table, c."""
        return int(self._layout[-1][1].stop)

    @property
    def encoded_width(self) -> int:
        """Number of columns in model space, n."""
        return int(self._layout[-1][2].stop)

    @property
    def mean_squared_distance(self) -> float:
        """Mean squared distance in model space of two rows drawn uniformly from the domain."""
        return sum(column.mean_squared_distance for column in self.columns)

    @property
    def classes(self) -> tuple[str, ...]:
        """Classes of the label; empty without a label."""
        return self.label.classes if self.label else ()

    def digest(self) -> str:
        """SHA-256 of the canonical JSON, for two parties to compare.

        `ignore` and the keys that say how files write cells are left out: they may differ.
        """
        return self._digest

    @cached_property
    def _digest(self) -> str:
        # Old digests of schemas without a person column stay.
        own = {"ignore"} if self.person else {"ignore", "person"}
        domain = self.model_dump(mode="json", exclude=own)
        for column in domain["columns"]:
            for key in [key for key, silent in _LATER.items() if column.get(key, ...) == silent]:
                del column[key]
        for part in (*domain["columns"], domain["label"] or {}):
            for key in _WRITTEN:
                part.pop(key, None)
        canonical = json.dumps(domain, sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(canonical.encode()).hexdigest()

    def to_toml(self) -> str:
        """Text of a schema file, for `load_schema`."""
        return dump_toml(self.model_dump())

    def encode(self, values: NDArray[Any]) -> NDArray[np.float32]:
        """Map rows that `check` accepts to model space: numbers to [0, 1], categories to one-hot / sqrt(2).

        Args:
            values: (m, width), any numeric dtype.

        Returns:
            (m, encoded_width) float32; computed in float64 in blocks of rows.
        """
        encoded = np.empty((len(values), self.encoded_width), dtype=np.float32)
        for rows in self._blocks(len(values)):
            for column, source, target in self._layout:
                encoded[rows, target] = column.encode(values[rows, source].astype(np.float64))
        return encoded

    def decode(self, encoded: NDArray[np.floating[Any]]) -> FloatArray:
        """Inverse of `encode` up to rounding; `check` accepts the values of any finite point.

        Args:
            encoded: (m, encoded_width).

        Returns:
            (m, width) float64.
        """
        values = np.empty((len(encoded), self.width))
        for rows in self._blocks(len(encoded)):
            for column, source, target in self._layout:
                values[rows, source] = column.decode(encoded[rows, target].astype(np.float64))
        return values

    def check_digest(self, theirs: str, parties: str) -> None:
        """Compare another party's digest with this one's; `parties` names the other party first.

        Raises:
            SchemaError: the digests differ.
        """
        if theirs != self.digest():
            given = "".join(filter(str.isalnum, theirs[:8])) or "none"
            raise SchemaError(
                f"{parties} hold different public schemas, of digests {given} and {self.digest()[:8]}",
                "Give both the same schema file; `fedkme doctor` shows the digest of each.",
            )

    def check(self, table: Table, party: str) -> None:
        """Refuse a table that does not fit; the error names party, column and number of rows, never a value.

        Raises:
            DataError: shape, NaN or infinity without `missing`, bounds, unknown category index or class.
        """
        self.check_form(table, party)
        for fault in self.faults(table.values):
            cause = f"{party}: column '{fault.column}': {fault.what}, rows: {len(fault.rows)}"
            raise DataError(cause, fault.remedy)

    def check_form(self, table: Table, party: str) -> None:
        """Refuse a table of another shape or type, or with labels that are no classes of the schema.

        Raises:
            DataError: names the party.
        """
        self._check_shape(table.values, party)
        if table.labels is not None:
            self._check_labels(table.labels, len(table), party)

    def faults(self, values: NDArray[Any]) -> Iterator[FaultyCells]:
        """Yield the faults of (m, width) values by column, each kind once."""
        for column, source, _ in self._layout:
            wrong_rows: dict[tuple[str, str], list[NDArray[np.int64]]] = {}
            for rows in self._blocks(len(values)):
                for what, remedy, wrong in column.faults(values[rows, source].astype(np.float64)):
                    if wrong.any():
                        wrong_rows.setdefault((what, remedy), []).append(
                            np.flatnonzero(wrong.any(axis=1)) + rows.start
                        )
            for (what, remedy), parts in wrong_rows.items():
                yield FaultyCells(column.name, what, remedy, np.concatenate(parts))

    def swallowed(self, values: NDArray[Any]) -> Counter[tuple[str, str]]:
        """Count the cells of (m, width) values that `missing` and `clip` replace, by column and reason."""
        counts: Counter[tuple[str, str]] = Counter()
        for column, source, _ in self._layout:
            for rows in self._blocks(len(values)):
                for what, cells in column.swallowed(values[rows, source].astype(np.float64)):
                    counts[column.name, what] += int(cells.sum())
        return +counts

    def moved(self, values: NDArray[Any]) -> dict[str, tuple[str, str]]:
        """Smallest and largest of the numbers that `clip` moves, as text, by column."""
        extremes: dict[str, tuple[str, str]] = {}
        for column, source, _ in self._layout:
            if isinstance(column, Numeric) and column.clip:
                numbers = values[:, source].astype(np.float64)
                outside = numbers[column.outside(numbers)]
                if len(outside):
                    text = date_of if column.kind == "date" else "{:.12g}".format
                    extremes[column.name] = text(outside.min()), text(outside.max())
        return extremes

    def _check_shape(self, values: NDArray[Any], party: str) -> None:
        if values.ndim != 2 or values.shape[1] != self.width:
            cause = f"{party}: the rows have shape {values.shape} and the schema has {self.width} columns"
            raise DataError(cause, f"Give an array of shape (rows, {self.width}).")
        if values.dtype.kind not in "biuf":
            cause = f"{party}: the rows are of type {values.dtype.name}, not numbers"
            raise DataError(cause, "Give numbers, and for a category its index in the schema.")

    def _check_labels(self, labels: NDArray[np.int64], rows: int, party: str) -> None:
        if self.label is None:
            raise DataError(
                f"{party}: there are labels and the schema has none", "Add [label] to the schema."
            )
        if labels.shape != (rows,) or labels.dtype.kind not in "iu":
            cause = f"{party}: labels of shape {labels.shape} and type {labels.dtype.name} for {rows} rows"
            raise DataError(cause, "Give one integer class index per row.")
        wrong = int(((labels < 0) | (labels >= len(self.classes))).sum())
        if wrong:
            cause = f"{party}: label '{self.label.name}': an unknown class index, rows: {wrong}"
            raise DataError(cause, f"Use 0 to {len(self.classes) - 1}, in the order of the schema's classes.")

    def _blocks(self, rows: int) -> Iterator[slice]:
        step = max(1, _BLOCK_CELLS // self.encoded_width)
        return (slice(start, start + step) for start in range(0, rows, step))

    @cached_property
    def _layout(self) -> Sequence[tuple[Numeric | Category, slice, slice]]:
        """Each column with its slices of a table and of model space."""
        source = target = 0
        layout = []
        for column in self.columns:
            after, behind = source + column.count, target + column.encoded_width
            layout.append((column, slice(source, after), slice(target, behind)))
            source, target = after, behind
        return layout


def _gap_names(column: Any) -> tuple[str, ...]:
    with suppress(ValidationError):  # told when the columns are validated
        return Numeric.model_validate(column).gap_names
    return GAPS


def _key(column: Any, key: str) -> Any:
    """Value of a column's key; the column is validated settings or a plain mapping."""
    return column.get(key) if isinstance(column, Mapping) else getattr(column, key, None)


def rows_of_person(schema: Schema) -> int:
    """Number of rows that one person may have in all; 1 without a person column."""
    return 1 if schema.person is None else schema.person.rows * schema.person.owners


def load_schema(path: Path) -> Schema:
    """Read a schema file: TOML, the same as JSON, or a Table Schema of Frictionless in JSON.

    Raises:
        ConfigError: the file is missing, or neither TOML nor JSON.
        SchemaError: the schema is inconsistent.
    """
    values = load_json(path) if path.suffix == ".json" else load_toml(path)
    return schema_from(values, str(path))


def schema_from(values: Mapping[str, Any], source: str = "the schema") -> Schema:
    """Build a schema from plain values: keys of a schema file, or a Table Schema of Frictionless.

    Args:
        values: parsed content of a schema file.
        source: name of the schema in errors.

    Raises:
        SchemaError: the schema is inconsistent.
    """
    try:
        return validate(Schema, from_table_schema(values) if "fields" in values else values, source)
    except ConfigError as error:
        raise SchemaError(error.cause, error.remedy) from None
