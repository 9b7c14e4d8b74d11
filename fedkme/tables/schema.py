"""The public column domain: bounds, categories and label that all parties agree on before any row is read.

Everything that turns rows into model space comes from here: a scale or a list of categories learnt from
private rows leaks them.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, Literal, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import AfterValidator, Field, FiniteFloat, model_validator

from fedkme.config import Settings, dump_toml, load_toml, validate
from fedkme.errors import ConfigError, DataError, SchemaError
from fedkme.tables.table import Table

Floats = NDArray[np.float64]
Fault = tuple[str, str, Any]  # what is wrong, the remedy, which cells: an array of the block's shape, bool

_BLOCK_CELLS = 1 << 19  # cells converted at a time: 4 MiB of float64


def _plain_name(name: str) -> str:
    if not name or name != name.strip() or not name.isprintable():
        raise ValueError("a name is printable text without spaces around it")
    return name


Name = Annotated[str, AfterValidator(_plain_name)]


class Numeric(Settings):
    """A number, or a block of like numbers such as the pixels of an image."""

    kind: Literal["numeric"] = "numeric"
    name: Name
    bounds: tuple[FiniteFloat, FiniteFloat]
    """Smallest and largest value there can be, known without looking at rows."""
    count: int = Field(default=1, ge=1)
    """Columns in the block; with more than one they are called name0, name1, ..."""
    missing: FiniteFloat | None = None
    """Public value in place of NaN, infinity, an empty cell or one of `missing_codes`; none: refuse them."""
    missing_codes: tuple[FiniteFloat, ...] = ()
    clip: bool = False
    """Move a value outside the bounds to the nearest bound instead of refusing it."""
    integer: bool = False
    """Decoded values are whole numbers."""

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        low, high = self.bounds
        if not (low < high and math.isfinite(high - low)):
            raise ValueError(f"the bounds of column '{self.name}' are not [lower, upper]")
        if self.missing is not None and not low <= self.missing <= high:
            raise ValueError(f"'missing' of column '{self.name}' is outside its bounds")
        if self.missing_codes and self.missing is None:
            raise ValueError(f"column '{self.name}' has 'missing_codes' and no 'missing' in their place")
        if self.integer and not (low.is_integer() and high.is_integer()):
            raise ValueError(f"column '{self.name}' is 'integer' and its bounds are not whole numbers")
        return self

    @property
    def names(self) -> list[str]:
        """Name of each column of the block."""
        return [self.name] if self.count == 1 else [f"{self.name}{i}" for i in range(self.count)]

    @property
    def encoded_width(self) -> int:
        """Columns in model space."""
        return self.count

    def _filled(self, block: Floats) -> Floats:
        if self.missing is None:
            return block
        absent = ~np.isfinite(block) | np.isin(block, self.missing_codes)
        return np.where(absent, self.missing, block)

    def encode(self, block: Floats) -> Floats:
        """Scale (m, count) values to [0, 1] by the bounds."""
        low, high = self.bounds
        filled = self._filled(block)
        return ((np.clip(filled, low, high) if self.clip else filled) - low) / (high - low)

    def decode(self, block: Floats) -> Floats:
        """Values of (m, count) points of model space, inside the bounds."""
        low, high = self.bounds
        values = np.clip(low + block * (high - low), low, high)
        return np.rint(values) if self.integer else values

    def faults(self, block: Floats) -> Iterator[Fault]:
        """Faults that (m, count) values can have, and the values that have them."""
        low, high = self.bounds
        filled = self._filled(block)
        finite = np.isfinite(filled)
        remedy = "Remove these rows, or give the column a public 'missing' value in the schema."
        yield "NaN, infinity or an empty cell", remedy, ~finite
        if not self.clip:
            remedy = "Correct or remove these rows, set 'clip = true' or agree on wider bounds."
            yield "outside the public bounds", remedy, (filled < low) | (filled > high)


class Category(Settings):
    """One of a list of names. Rows hold the index of the name; a file holds the name."""

    kind: Literal["category"] = "category"
    name: Name
    categories: tuple[Name, ...] = Field(min_length=1)
    missing: str | None = None
    """Category that stands for an empty cell or a name that is not in the list; none: refuse them."""

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if len(set(self.categories)) < len(self.categories):
            raise ValueError(f"column '{self.name}' lists a category twice")
        if self.missing is not None and self.missing not in self.categories:
            raise ValueError(f"'missing' of column '{self.name}' is not one of its categories")
        return self

    @property
    def names(self) -> list[str]:
        """Name of the column."""
        return [self.name]

    @property
    def count(self) -> int:
        """Columns in a table."""
        return 1

    @property
    def encoded_width(self) -> int:
        """Columns in model space: one per category."""
        return len(self.categories)

    def _filled(self, block: Floats) -> Floats:
        if self.missing is None:
            return block
        return np.where(np.isnan(block), self.categories.index(self.missing), block)

    def encode(self, block: Floats) -> Floats:
        """One-hot of (m, 1) indices over sqrt(2), so that two categories are at distance 1."""
        hot = self._filled(block) == np.arange(self.encoded_width)
        return np.where(hot, math.sqrt(0.5), 0.0)

    def decode(self, block: Floats) -> Floats:
        """Index of the largest of (m, categories) coordinates."""
        return np.asarray(block.argmax(axis=1, keepdims=True), dtype=np.float64)

    def faults(self, block: Floats) -> Iterator[Fault]:
        """Faults that (m, 1) indices can have, and the indices that have them."""
        known = np.isin(self._filled(block), np.arange(self.encoded_width))
        remedy = f"Use the indices 0 to {self.encoded_width - 1}, in the order of the schema's categories."
        yield "an unknown category index", remedy, ~known


class Label(Settings):
    """Label that a model learns to predict; never part of model space."""

    name: Name
    classes: tuple[Name, ...] = Field(min_length=2)
    positive_above: FiniteFloat | None = None
    """Threshold of two classes whose file holds a number: the second class is every number above it."""

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if len(set(self.classes)) < len(self.classes):
            raise ValueError("the label lists a class twice")
        if self.positive_above is not None and len(self.classes) != 2:
            raise ValueError("'positive_above' needs exactly two classes")
        return self


class Person(Settings):
    """Column that tells whose a row is, with the bounds for statements about a person; it never leaves."""

    column: Name
    """Column of an owner's file and of D_v's; equal cells are one person."""
    rows: int = Field(ge=1)
    """Rows of one person that count at an owner, or in D_v: the first in the file."""
    owners: int = Field(1, ge=1)
    """Owners at which the same person may be."""


Column = Annotated[Numeric | Category, Field(discriminator="kind")]


class Schema(Settings):
    """Columns and label of a table, agreed in public."""

    columns: tuple[Column, ...] = Field(min_length=1)
    label: Label | None = None
    person: Person | None = None
    """Person whose rows are; without it every statement is about one row."""
    ignore: tuple[str, ...] = ()
    """Columns of a file that are not used; any other column that is not described above is an error."""

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        label = [self.label.name] if self.label else []
        person = [self.person.column] if self.person else []
        used = Counter([*self.names, *label, *person, *self.ignore])
        twice = [name for name, times in used.items() if times > 1]
        if twice:
            raise ValueError(f"the name '{twice[0]}' is used twice")
        return self

    @property
    def names(self) -> tuple[str, ...]:
        """Name of each of the `width` columns."""
        return tuple(name for column in self.columns for name in column.names)

    @property
    def width(self) -> int:
        """Columns of a table, c."""
        return sum(column.count for column in self.columns)

    @property
    def encoded_width(self) -> int:
        """Columns in model space, n."""
        return sum(column.encoded_width for column in self.columns)

    @property
    def classes(self) -> tuple[str, ...]:
        """Classes of the label; empty without a label."""
        return self.label.classes if self.label else ()

    def digest(self) -> str:
        """SHA-256 of the canonical JSON, for two parties to compare; without `ignore`, each one's own."""
        own = (
            {"ignore"} if self.person else {"ignore", "person"}
        )  # the digests of schemas that name nobody stay
        domain = self.model_dump(mode="json", exclude=own)
        canonical = json.dumps(domain, sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(canonical.encode()).hexdigest()

    def to_toml(self) -> str:
        """The text of a schema file that `load_schema` reads back."""
        return dump_toml(self.model_dump())

    def encode(self, values: NDArray[Any]) -> NDArray[np.float32]:
        """Map rows that `check` accepts to model space: numbers to [0, 1], a category to one-hot / sqrt(2).

        Args:
            values: (m, width), any numeric dtype.

        Returns:
            (m, encoded_width) float32; computed in float64 a block of rows at a time.
        """
        encoded = np.empty((len(values), self.encoded_width), dtype=np.float32)
        for rows in self._blocks(len(values)):
            for column, source, target in self._layout():
                encoded[rows, target] = column.encode(values[rows, source].astype(np.float64))
        return encoded

    def decode(self, encoded: NDArray[np.floating[Any]]) -> Floats:
        """Inverse of `encode` up to rounding; `check` accepts the values of any finite point.

        Args:
            encoded: (m, encoded_width).

        Returns:
            (m, width) float64.
        """
        values = np.empty((len(encoded), self.width))
        for rows in self._blocks(len(encoded)):
            for column, source, target in self._layout():
                values[rows, source] = column.decode(encoded[rows, target].astype(np.float64))
        return values

    def check(self, table: Table, party: str) -> None:
        """Refuse a table that does not fit; the error names party, column and number of rows, never a value.

        Raises:
            DataError: shape, NaN or infinity without `missing`, bounds, unknown category index or class.
        """
        self._check_shape(table.values, party)
        for column, source, _ in self._layout():
            counts: Counter[tuple[str, str]] = Counter()
            for rows in self._blocks(len(table)):
                for what, remedy, wrong in column.faults(table.values[rows, source].astype(np.float64)):
                    counts[what, remedy] += int(wrong.any(axis=1).sum())
            for (what, remedy), wrong_rows in counts.items():
                if wrong_rows:
                    raise DataError(f"{party}: column '{column.name}': {what}, rows: {wrong_rows}", remedy)
        if table.labels is not None:
            self._check_labels(table.labels, len(table), party)

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

    def _layout(self) -> Iterator[tuple[Numeric | Category, slice, slice]]:
        """Each column with its place in a table and in model space."""
        source = target = 0
        for column in self.columns:
            yield column, slice(source, source + column.count), slice(target, target + column.encoded_width)
            source += column.count
            target += column.encoded_width


def rows_of_person(schema: Schema) -> int:
    """Count the rows that one person may have in all; 1 where the schema names nobody."""
    return 1 if schema.person is None else schema.person.rows * schema.person.owners


def load_schema(path: Path) -> Schema:
    """Read a schema file.

    Raises:
        ConfigError: the file is missing or not TOML.
        SchemaError: the schema is inconsistent.
    """
    values = load_toml(path)
    try:
        return validate(Schema, values, str(path))
    except ConfigError as error:
        raise SchemaError(error.cause, error.remedy) from None
