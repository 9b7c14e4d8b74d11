"""Columns of names: categories and the label."""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain, count
from typing import Any, Literal, Self

import numpy as np
from pydantic import Field, FiniteFloat, model_validator

from fedkme.arrays import FloatArray
from fedkme.config import Settings
from fedkme.tables.cells import Name, Text

Fault = tuple[str, str, Any]
"""Description, remedy, and a bool array of the block's shape that marks the faulty cells."""
Swallowed = tuple[str, Any]  # description of replaced cells, and a bool array that marks them
NO_GAP, GAPS, EMPTY_OR_CODED = 0, ("no", "yes"), ("no", "empty")
"""Index of no gap, and categories, in the column that marks the gaps of a nullable number; codes are behind
the last two."""


def mark_name(number: str, used: Sequence[Any]) -> str:
    """Name of the column that marks a number's gaps: NUMBER_missing, or the next one that is not used."""
    names = (f"{number}_missing{behind}" for behind in chain([""], map("_{}".format, count(2))))
    return next(name for name in names if name not in used)


def _check_words(na: Iterable[str], names: Sequence[str], whose: str) -> None:
    if both := [word for word in na if word in names]:
        raise ValueError(f"'na' of {whose} has {both[0]!r}, which is one of its names")


class Category(Settings):
    """One of a list of names. Rows hold the index of the name; a file holds the name."""

    kind: Literal["category"] = "category"
    name: Name
    """Name of the column."""
    categories: tuple[Name, ...] = Field(min_length=1)
    """Names that a cell may have."""
    missing: Text | None = None
    """Category that stands for an empty cell, and for the few names that are not in the list: a party's file
    with more than its `unknown` of them is refused; none: refuse all."""
    nullable: bool = False
    """Empty cells are a category of their own, "missing", unless `missing` says which. Files that come out
    have empty cells again."""
    other: bool = False
    """Names that are not in the list, however many, are a category of their own, "other"."""
    na: tuple[str, ...] = ()
    """Cells that mean an empty one in any party's file, such as "NA" or "?"."""
    gaps_of: Name | None = None
    """Nullable number whose empty cells this column marks; written out for each when a schema is read."""

    @model_validator(mode="before")
    @classmethod
    def _spelled_out(cls, values: Any) -> Any:
        if not isinstance(values, Mapping) or not isinstance(values.get("categories"), list | tuple):
            return values
        filled = {**values, "categories": (*values["categories"],)}
        gaps = filled.get("nullable") is True and not filled.get("missing")
        if gaps and "missing" not in filled["categories"]:
            filled |= {"missing": "missing", "categories": (*filled["categories"], "missing")}
        if filled.get("other") is True and "other" not in filled["categories"]:
            filled["categories"] = (*filled["categories"], "other")
        return filled

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if len(set(self.categories)) < len(self.categories):
            raise ValueError(f"column '{self.name}' lists a category twice")
        if self.missing is not None and self.missing not in self.categories:
            raise ValueError(f"'missing' of column '{self.name}' is not one of its categories")
        if self.nullable and self.missing is None:
            raise ValueError(f"column '{self.name}' is nullable: name with 'missing' which category a gap is")
        if self.other and self.missing == "other":
            raise ValueError(f"'missing' of column '{self.name}' is its 'other': name another")
        _check_words(self.na, self.categories, f"column '{self.name}'")
        if self.gaps_of is not None and self.categories != GAPS and self.categories[:2] != EMPTY_OR_CODED:
            raise ValueError(f"column '{self.name}' marks gaps: its categories are {list(GAPS)}")
        return self

    @property
    def gap(self) -> str | None:
        """Category of empty cells, and of nothing else; None: there is none, or other cells have it, too."""
        return self.missing if self.nullable and self.missing == "missing" else None

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

    @property
    def parts(self) -> list[tuple[int, int]]:
        """Parts in model space: levels, and columns."""
        return [(len(self.categories), len(self.categories))]

    @property
    def mean_squared_distance(self) -> float:
        """Mean squared distance in model space of two values drawn uniformly."""
        return 1.0 - 1.0 / len(self.categories)

    def _filled(self, block: FloatArray) -> FloatArray:
        if self.missing is None:
            return block
        return np.where(np.isnan(block), self.categories.index(self.missing), block)

    def encode(self, block: FloatArray) -> FloatArray:
        """One-hot of (m, 1) indices over sqrt(2), so that two categories are at distance 1."""
        hot = self._filled(block) == np.arange(self.encoded_width)
        return np.where(hot, math.sqrt(0.5), 0.0)

    def decode(self, block: FloatArray) -> FloatArray:
        """Index of the largest of (m, categories) coordinates."""
        return np.asarray(block.argmax(axis=1, keepdims=True), dtype=np.float64)

    def faults(self, block: FloatArray) -> Iterator[Fault]:
        """Yield each possible fault of (m, 1) indices with a mask of the faulty indices."""
        index = self._filled(block)
        valid = (index >= 0) & (index < self.encoded_width) & (index == np.floor(index))
        remedy = f"Use the indices 0 to {self.encoded_width - 1}, in the order of the schema's categories."
        yield "an unknown category index", remedy, ~valid

    def swallowed(self, block: FloatArray) -> Iterator[Swallowed]:
        """Yield masks of the (m, 1) indices that `missing` replaces."""
        if self.missing is not None and not self.nullable:
            yield "empty, taken as the public 'missing'", np.isnan(block)


class Label(Settings):
    """Label that a model learns to predict; never part of model space."""

    name: Name
    """Name of the column."""
    classes: tuple[Name, ...] = Field(min_length=2)
    """Names that a cell may have."""
    positive_above: FiniteFloat | None = None
    """Threshold of two classes whose file holds a number: the second class is every number above it."""
    na: tuple[str, ...] = ()
    """Cells that mean an empty one in any party's file, such as "NA" or "?"."""
    drop_unlabelled: bool = False
    """Rows without a label are left out and counted; otherwise a file that has any is refused."""

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if len(set(self.classes)) < len(self.classes):
            raise ValueError("the label lists a class twice")
        if self.positive_above is not None and len(self.classes) != 2:
            raise ValueError("'positive_above' needs exactly two classes")
        _check_words(self.na, self.classes, "the label")
        return self
