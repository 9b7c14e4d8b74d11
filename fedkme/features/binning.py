"""Public bins: codes of a table's values, in which marginals are counted.

The code of a category is its index. A number falls into one of a fixed count of intervals: even pieces of its
public scale (`fedkme.tables.axis`; at most one interval per whole number), the pieces between its public cuts
where it has cuts, or runs of even pieces (`MergedBins`). Each atom of a number has a code of its own, behind
the intervals; a number whose `values` are listed has a code for each, and no interval. The label is one more
column, the last. Owners encode their rows and the curator decodes synthetic codes, both by the schema and the
bins in the request.

**Merged bins** are the only edges that a curator may choose, by counts that were released before. What a
curator may name: a numeric column of the schema that stands by itself and has no cuts, a grid of at most
MOST_BINS even pieces, and increasing places in that grid. Any such choice is a partition of the column's
values, so every row has exactly one code, whatever was named: the sensitivity of a marginal
(`fedkme.features.counts`) is the same for all of them, and no edge lies where an even grid has none.

**Own values.** A curator may also name the bounds of such a column, and 0 inside of them, as values with a
code of their own: they become atoms of the column (`Binning.coded`). It says which of the three it means and
names no number: each party takes the value from the schema. Codes are still a partition of the column's
values, whichever are named, so the proof above holds for them, too: a replaced row leaves one code of a
column and enters another.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedkme.arrays import IntArray
from fedkme.errors import ConfigError, DataError
from fedkme.features.counts import Place
from fedkme.tables.schema import Category, Numeric, Schema
from fedkme.tables.table import Table

MOST_BINS = 1 << 12


@dataclass(frozen=True, slots=True)
class MergedBins:
    """Bins of a numeric column that are runs of even pieces of its scale.

    Attributes:
        column: name of the column.
        grid: number of even pieces.
        starts: first piece of every run after the first, increasing.

    Raises:
        ConfigError: on construction: the grid is out of range, or the runs are not in order inside of it.
    """

    column: str
    grid: Place
    starts: tuple[Place, ...]

    def __post_init__(self) -> None:
        in_order = all(a < b for a, b in itertools.pairwise((0, *self.starts, self.grid)))
        if not (1 <= self.grid <= MOST_BINS and in_order):
            raise ConfigError(
                "merged bins of a number are not runs of an even grid", "Compare the parties' versions."
            )


OWN_VALUES = ("low", "high", "zero")
"""Values of a number that may have a code of their own: its bounds, and 0 inside of them."""


@dataclass(frozen=True, slots=True)
class OwnValues:
    """Values of a numeric column that have codes of their own, although its schema calls none an atom.

    Attributes:
        column: name of the column.
        which: names from OWN_VALUES, in their order.

    Raises:
        ConfigError: on construction: no value is named, another one, or one twice.
    """

    column: str
    which: tuple[str, ...]

    def __post_init__(self) -> None:
        if not self.which or self.which != tuple(name for name in OWN_VALUES if name in self.which):
            raise ConfigError(
                "values of a number with their own codes are not its bounds or 0",
                "Compare the parties' versions.",
            )


@dataclass(frozen=True)
class Binning:
    """Coding of rows as codes and back, with at most `bins` intervals for a numeric column.

    Attributes:
        schema: schema of the rows.
        bins: most even intervals of a column.
        merged: bins of columns that have no even intervals.
        own: values of columns that have codes of their own, behind those of the schema's atoms.

    Raises:
        ConfigError: on construction: the number of bins is out of range, or bins are merged or values named
            of a column that is no number by itself, has cuts, or no such pieces or values, or is named twice.
    """

    schema: Schema
    bins: int = 16
    merged: tuple[MergedBins, ...] = ()
    own: tuple[OwnValues, ...] = ()

    def __post_init__(self) -> None:
        if not 1 <= self.bins <= MOST_BINS:
            raise ConfigError(
                f"{self.bins} bins for numeric columns are not between 1 and {MOST_BINS}",
                "Take a few: noise is added to every cell.",
            )
        free = _free(self.schema)
        nameable = {name: values_to_name(column) for name, column in free.items()}
        for own in self.own:
            if not set(own.which) <= nameable.pop(own.column, {}).keys():
                raise ConfigError(
                    "values are named of a column that has no such values, or twice",
                    "Compare the parties' schemas.",
                )
        for each in self.merged:
            column = free.pop(each.column, None)
            if column is None or (each.starts and each.starts[-1] >= len(_even(column, each.grid)) - 1):
                raise ConfigError(
                    "bins are merged of a column that has no such even pieces, or twice",
                    "Compare the parties' schemas.",
                )

    @cached_property
    def coded(self) -> Schema:
        """The schema with own values as atoms behind its own: one atom, one code."""
        if not self.own:
            return self.schema
        own = {each.column: each.which for each in self.own}
        columns = tuple(
            column.model_copy(update={"atoms": (*column.atoms, *_named(column, own[column.name]))})
            if isinstance(column, Numeric) and column.name in own
            else column
            for column in self.schema.columns
        )
        return Schema.model_construct(**dict(self.schema) | {"columns": columns})

    @cached_property
    def sizes(self) -> tuple[int, ...]:
        """Number of codes of every column, the label's last."""
        label = [len(self.schema.classes)] if self.schema.label is not None else []
        return (*(self._count_codes(column) for column, _ in self._columns()), *label)

    @property
    def names(self) -> tuple[str, ...]:
        """Name of every column of codes."""
        label = [self.schema.label.name] if self.schema.label is not None else []
        return (*self.schema.names, *label)

    def encode(self, table: Table, party: str) -> IntArray:
        """Codes of rows, (m, columns).

        Raises:
            DataError: rows do not fit the schema, or have no labels although the schema has a label.
        """
        self.schema.check(table, party)
        codes = np.zeros((len(table), len(self.sizes)), dtype=np.int64)
        for column, place in self._columns():
            values = column._filled(table.values[:, [place]].astype(np.float64))[:, 0]
            codes[:, place] = self._codes_of(column, values) if isinstance(column, Numeric) else values
        if self.schema.label is not None:
            if table.labels is None:
                raise DataError(
                    f"{party}: the rows have no labels", "Give the label that the schema describes."
                )
            codes[:, -1] = table.labels
        return codes

    def _codes_of(self, column: Numeric, values: NDArray[np.float64]) -> IntArray:
        edges, level = self.edges(column), column.levels_of(values)
        if column.clip:
            level = np.where(level > 0, level, column.levels_of(column.moved(values)))
        inside = np.searchsorted(edges[1:-1], values, side="right")
        return np.asarray(np.where(level > 0, len(edges) - 2 + level, inside), dtype=np.int64)

    def stand_in(self, place: int) -> int:
        """Code that the rows without a nullable number have."""
        column = self._numeric_column(place)
        assert column.missing is not None
        return int(self._codes_of(column, np.array([column.missing]))[0])

    def decode(self, codes: IntArray, generator: np.random.Generator) -> Table:
        """Rows in the columns and units of the schema; numbers are uniform on their scale in their bin."""
        values = np.zeros((len(codes), self.schema.width))
        for column, place in self._columns():
            code = codes[:, place]
            values[:, place] = (
                self._draw_numbers(column, code, generator) if isinstance(column, Numeric) else code
            )
        return Table(values, codes[:, -1].copy() if self.schema.label is not None else None)

    def numbers(self, place: int, codes: IntArray, generator: np.random.Generator) -> NDArray[np.float64]:
        """Draw values of a numeric column for codes, as `decode` does."""
        return self._draw_numbers(self._numeric_column(place), codes, generator)

    def _numeric_column(self, place: int) -> Numeric:
        column = next(column for column, at in self._columns() if at == place)
        assert isinstance(column, Numeric)
        return column

    def _draw_numbers(
        self, column: Numeric, code: IntArray, generator: np.random.Generator
    ) -> NDArray[np.float64]:
        edges = self.edges(column)
        last = len(edges) - 2
        start, end = edges[np.minimum(code, last)], edges[np.minimum(code, last) + 1]
        drawn = column.rounded(column.axis.between(start, end, generator.random(len(code))))
        singles = np.array([0.0, *column.singles])
        return np.where(code > last, singles[np.maximum(code - last, 0)], drawn)

    @cached_property
    def orders(self) -> dict[int, tuple[int, ...]]:
        """Codes of each numeric column in the order of their numbers, by the column's place."""
        return {
            place: tuple(np.argsort(self.middles(column), kind="stable").tolist())
            for column, place in self._columns()
            if isinstance(column, Numeric)
        }

    @property
    def even_bins(self) -> dict[int, int]:
        """Number of bins of each numeric column with even ones, by the column's place."""
        merged = {each.column for each in self.merged}
        return {
            place: len(self.edges(column)) - 1
            for column, place in self._columns()
            if isinstance(column, Numeric)
            and not (column.cuts or column.values)
            and column.name not in merged
        }

    def count_atoms(self, place: int) -> int:
        """Number of atoms or values of a numeric column, which have the last codes."""
        return len(self._numeric_column(place).singles)

    def within(self, place: int, coarse: Binning) -> IntArray:
        """Code of a coarser binning that contains each code of a numeric column, (codes,).

        A value that is an atom here and none there lies in its bin there.
        """
        column, theirs = self._numeric_column(place), coarse._numeric_column(place)
        mine, ends = self.edges(column), coarse.edges(theirs)
        values = np.concatenate([mine[:-1] + 1e-9 * np.diff(mine), column.singles])
        bins, level = np.searchsorted(ends[1:-1], values, side="right"), theirs.levels_of(values)
        level[: len(mine) - 1] = 0  # a bin is no atom, though it may start at one
        return np.where(level > 0, len(ends) - 2 + level, bins)

    def edges(self, column: Numeric) -> NDArray[np.float64]:
        """Ends of the bins of a numeric column, increasing; a whole number k stands for [k, k + 1)."""
        for each in self.merged:
            if each.column == column.name:
                return _even(column, each.grid)[[0, *each.starts, -1]]
        return _even(column, self.bins)

    def middles(self, column: Numeric) -> NDArray[np.float64]:
        """Middle of the values of each code of a numeric column: bins, then atoms or values."""
        edges = self.edges(column)
        return np.array([*(edges[:-1] + edges[1:] - column.integer) / 2.0, *column.singles])

    def _count_codes(self, column: Numeric | Category) -> int:
        if isinstance(column, Category):
            return len(column.categories)
        return len(self.edges(column)) - 1 + len(column.singles)

    def _columns(self) -> Iterator[tuple[Numeric | Category, int]]:
        """Each column of a table with its place; a block counts as its columns."""
        place = 0
        for column in self.coded.columns:
            for _ in range(column.count):
                yield column, place
                place += 1


def _even(column: Numeric, bins: int) -> NDArray[np.float64]:
    """Ends of at most `bins` even pieces of a column's scale, or of the pieces between its cuts.

    A column whose values are listed has no piece, and so the start alone.
    """
    if column.values:
        return np.array(column.bounds[:1])
    if column.cuts:
        return column.axis.edges(len(column.cuts) + 1)
    whole = column.bounds[1] - column.bounds[0] + 1.0
    return column.axis.edges(int(min(bins, whole)) if column.integer else bins)


def finer(binning: Binning, pieces: int) -> Binning:
    """Binning with `pieces` pieces of each bin, within the limit of bins, and the same own values."""
    bins = min(binning.bins * pieces, MOST_BINS // binning.bins * binning.bins)
    return Binning(binning.schema, bins, own=binning.own)


def values_to_name(column: Numeric) -> dict[str, float]:
    """Values of a number that may have a code of their own, by name; the schema's atoms have one already."""
    low, high = column.bounds
    values = dict(zip(OWN_VALUES, (low, high, 0.0), strict=True))
    if column.kind == "date" or not low < 0.0 < high:
        del values["zero"]
    return {name: value for name, value in values.items() if value not in column.atoms}


def all_own_values(binning: Binning, fine: Binning) -> tuple[OwnValues, ...]:
    """Name all own values of numbers that have more bins in a finer binning."""
    sizes = dict(zip(binning.names, zip(binning.sizes, fine.sizes, strict=True), strict=True))
    return tuple(
        OwnValues(name, tuple(values))
        for name, column in _free(binning.schema).items()
        if sizes[name][1] > sizes[name][0] and (values := values_to_name(column))
    )


def own_values_of(plain: Iterable[Mapping[str, Any]]) -> tuple[OwnValues, ...]:
    """Read own values from plain values, as questions and files of releases have them.

    Raises:
        ConfigError: what is named has no code of its own.
        KeyError: a key is not there.
    """
    return tuple(OwnValues(str(each["column"]), tuple(map(str, each["which"]))) for each in plain)


def _free(schema: Schema) -> dict[str, Numeric]:
    """Numbers whose codes a curator may change, by name."""
    numbers = (each for each in schema.columns if isinstance(each, Numeric) and each.count == 1)
    return {each.name: each for each in numbers if not each.cuts and not each.values}


def _named(column: Numeric, which: Sequence[str]) -> list[float]:
    """Own values by name."""
    values = values_to_name(column)
    return [values[name] for name in which]


MOST_TABLES = 1 << 14
"""Marginals that a question may ask for."""


def check_domain(sizes: Sequence[int], ways: int, limit: int) -> None:
    """Refuse all marginals of at most `ways` columns together where an owner would send too many counts.

    Raises:
        ConfigError: the cells exceed the limit, or there are no such marginals.
    """
    if not 1 <= ways <= len(sizes):
        raise ConfigError(
            f"{ways}-way marginals of {len(sizes)} columns do not exist", "Take fewer columns in a marginal."
        )
    tables = sum(math.comb(len(sizes), k) for k in range(1, ways + 1))
    if ways > 1 and tables > MOST_TABLES:
        cause = (
            f"{len(sizes)} columns have {tables:,} marginals of up to {ways} columns and {MOST_TABLES:,} are"
        )
        raise ConfigError(
            f"{cause} the limit", "Leave columns out of the schema, or choose another method: auto does."
        )
    # Sums of products over all subsets of a size: elementary symmetric polynomials.
    symmetric = [1] + [0] * ways
    for size in sizes:
        for k in range(ways, 0, -1):
            symmetric[k] += size * symmetric[k - 1]
    total = sum(symmetric[1:])
    if total > limit:
        raise ConfigError(
            f"all marginals of up to {ways} of {len(sizes)} columns have 10^{math.log10(total):.1f} cells "
            f"and {limit} are the limit",
            "Take fewer columns in a marginal, fewer bins, or leave columns out of the schema.",
        )
