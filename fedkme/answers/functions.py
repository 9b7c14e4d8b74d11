"""Functions of a row whose means answer questions; each depends on a few columns of the schema."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from itertools import combinations

import numpy as np

from fedkme.arrays import FloatArray
from fedkme.tables.names import NO_GAP
from fedkme.tables.schema import Category, Label, Numeric, Schema
from fedkme.tables.table import Table

Values = Mapping[str, FloatArray]
"""Columns by name, (k,) each: numbers unchanged, categories and classes as their index."""
Cuts = Mapping[str, frozenset[float]]
AnyColumn = Numeric | Category | Label
MOST_TESTS = 64


@dataclass(frozen=True, eq=False, slots=True)
class Function:
    """A function of a row, for many rows at once.

    Attributes:
        columns: names of the columns that the function depends on.
        of: maps values of these columns to a number for each row, (k,).
        cuts: values of numeric columns at which the function may jump.
    """

    columns: frozenset[str]
    of: Callable[[Values], FloatArray]
    cuts: Cuts = field(default_factory=dict)

    def __mul__(self, other: Function) -> Function:
        return _joined((self, other), lambda values: self.of(values) * other.of(values))

    def __sub__(self, other: Function) -> Function:
        return combined((1.0, -1.0), (self, other))

    @property
    def square(self) -> Function:
        """Square of the function."""
        return self * self


ONE = Function(frozenset(), lambda values: np.ones(()))
"""Function that is 1 for each row."""


def combined(coefficients: Sequence[float], functions: Sequence[Function], constant: float = 0.0) -> Function:
    """Linear combination of functions, plus a constant."""

    def of(values: Values) -> FloatArray:
        parts = (a * f.of(values) for a, f in zip(coefficients, functions, strict=True))
        return sum(parts, start=np.asarray(constant))

    return _joined(functions, of)


def number(name: str, centre: float = 0.0) -> Function:
    """Function that is a column less a number."""
    return Function(frozenset([name]), lambda values: values[name] - centre)


def inside(name: str, low: float, high: float, closed: bool) -> Function:
    """Function that is 1 where low <= column < high, or <= high where the interval is closed, else 0."""

    def of(values: Values) -> FloatArray:
        above = values[name] >= low
        return (above & (values[name] <= high if closed else values[name] < high)).astype(np.float64)

    return Function(frozenset([name]), of, {name: frozenset([low, high])})


def none_of(name: str, values: Sequence[float]) -> Function:
    """Function that is 1 where a column has none of some values, else 0."""
    return Function(frozenset([name]), lambda rows: (~np.isin(rows[name], values)).astype(np.float64))


def equal(name: str, code: float) -> Function:
    """Function that is 1 where a column is a number, or has the category of an index, else 0."""
    return Function(frozenset([name]), lambda values: (values[name] == code).astype(np.float64))


def gap_of(mark: str) -> Function:
    """Function that is 1 for the rows whose gap a column marks, else 0."""
    return ONE - equal(mark, float(NO_GAP))


def taken_apart(function: Function, schema: Schema) -> Function:
    """Replace a function by one that separates nullable numbers from their gaps, equal on all possible rows.

    Where a number x is empty, its cell holds the public value m, so no possible row has a gap and another
    value. Therefore f(x, gap) may be replaced by f(x, no), plus f(m, gap) - f(m, no), which is 0 without one:
    a function of the number plus a function of the gap, whatever else f depends on. So the number and its gap
    need not be counted together.
    """
    for gap, number in schema.gaps:
        if gap.name in function.columns:
            assert number.missing is not None
            function = replace(function, of=_without_gap(function.of, number.name, number.missing, gap.name))
    return function


def number_and_gap(function: Function, name: str, missing: float, gap: str) -> tuple[Function, Function]:
    """Split a function into one of a nullable number and one of its gap; the sum is equal on possible rows.

    Args:
        function: a function of these two columns at most.
        name: name of the number.
        missing: public value of the number in a gap.
        gap: name of the column that marks gaps.
    """
    no = np.asarray(float(NO_GAP))

    def of_number(values: Values) -> FloatArray:
        return np.broadcast_to(function.of({**values, gap: no}), np.shape(values[name]))

    def of_gap(values: Values) -> FloatArray:
        empty = {**values, name: np.asarray(missing)}
        step = np.subtract(function.of(empty), function.of({**empty, gap: no}))
        return np.broadcast_to(step, np.shape(values[gap]))

    cuts = {name: function.cuts[name]} if name in function.cuts else {}
    return Function(frozenset([name]), of_number, cuts), Function(frozenset([gap]), of_gap)


def _without_gap(
    of: Callable[[Values], FloatArray], name: str, missing: float, gap: str
) -> Callable[[Values], FloatArray]:
    no = np.asarray(float(NO_GAP))

    def apart(values: Values) -> FloatArray:
        full = of({**values, gap: no})
        empty = {**values, name: np.asarray(missing)}
        step: FloatArray = np.subtract(of(empty), of({**empty, gap: no}))
        return full + step

    return apart


def tests_of(columns: Sequence[AnyColumn], names: Sequence[str]) -> list[Function]:
    """Functions that characterise the law of columns: x, x^2, single categories, and products of two columns.

    Products are left out where there would be more than MOST_TESTS functions.
    """
    single = [_tests(column, name) for column, name in zip(columns, names, strict=True)]
    pairs = [f * g for one, other in combinations(single, 2) for f in one for g in other]
    of_one = [f for each in single for f in each]
    return [*of_one, *pairs] if len(of_one) + len(pairs) <= MOST_TESTS else of_one[:MOST_TESTS]


def _tests(column: AnyColumn, name: str) -> list[Function]:
    if not isinstance(column, Numeric):
        return [equal(name, float(code)) for code in range(1, len(names_of(column)))]
    value = number(name, sum(column.limits) / 2.0)
    return [value, value.square]


def columns_of(schema: Schema) -> dict[str, AnyColumn]:
    """Columns of a table by name; the label is the last."""
    columns: dict[str, AnyColumn] = {name: column for column in schema.columns for name in column.names}
    if schema.label is not None:
        columns[schema.label.name] = schema.label
    return columns


def names_of(column: AnyColumn) -> tuple[str, ...]:
    """Categories or classes of a column; empty for a number."""
    if isinstance(column, Numeric):
        return ()
    return column.categories if isinstance(column, Category) else column.classes


def values_of(table: Table, schema: Schema) -> dict[str, FloatArray]:
    """Values of the columns of a table, by name."""
    values = dict(zip(schema.names, np.asarray(table.values, np.float64).T, strict=True))
    if schema.label is not None and table.labels is not None:
        values[schema.label.name] = table.labels.astype(np.float64)
    return values


def _joined(functions: Sequence[Function], of: Callable[[Values], FloatArray]) -> Function:
    cuts: dict[str, frozenset[float]] = {}
    for function in functions:
        for name, places in function.cuts.items():
            cuts[name] = cuts.get(name, frozenset()) | places
    columns = reduce(frozenset.union, (function.columns for function in functions), frozenset[str]())
    return Function(columns, of, cuts)
