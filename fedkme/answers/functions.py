"""Functions of a row that questions are about: each is of a few columns of the schema."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from itertools import combinations

import numpy as np

from fedkme.arrays import FloatArray
from fedkme.tables.columns import GAP, GAPS, NO_GAP
from fedkme.tables.schema import Category, Label, Numeric, Schema
from fedkme.tables.table import Table

Values = Mapping[str, FloatArray]
"""Columns by name, (k,) each: numbers as they are, categories and classes by their index."""
Cuts = Mapping[str, frozenset[float]]
AnyColumn = Numeric | Category | Label
MOST_TESTS = 64


@dataclass(frozen=True, eq=False, slots=True)
class Function:
    """A function of rows.

    Attributes:
        columns: names of those that it depends on.
        of: takes their values to a number for each row, (k,).
        cuts: values of numeric columns at which it may jump.
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
        """Square of it."""
        return self * self


ONE = Function(frozenset(), lambda values: np.ones(()))
"""1 for each row."""


def combined(coefficients: Sequence[float], functions: Sequence[Function], constant: float = 0.0) -> Function:
    """Linear combination of functions, and a constant."""

    def of(values: Values) -> FloatArray:
        parts = (a * f.of(values) for a, f in zip(coefficients, functions, strict=True))
        return sum(parts, start=np.asarray(constant))

    return _joined(functions, of)


def number(name: str, centre: float = 0.0) -> Function:
    """A column less a number."""
    return Function(frozenset([name]), lambda values: values[name] - centre)


def inside(name: str, low: float, high: float, closed: bool) -> Function:
    """1 where low <= column < high, or <= high where the interval is closed."""

    def of(values: Values) -> FloatArray:
        above = values[name] >= low
        return (above & (values[name] <= high if closed else values[name] < high)).astype(np.float64)

    return Function(frozenset([name]), of, {name: frozenset([low, high])})


def none_of(name: str, values: Sequence[float]) -> Function:
    """1 where a column is none of some numbers."""
    return Function(frozenset([name]), lambda rows: (~np.isin(rows[name], values)).astype(np.float64))


def equal(name: str, code: float) -> Function:
    """1 where a column is a number, or a category by its index."""
    return Function(frozenset([name]), lambda values: (values[name] == code).astype(np.float64))


def taken_apart(function: Function, schema: Schema) -> Function:
    """Take a nullable number and its gap apart in a function, which stays the same on every possible row.

    Where the number is empty, its cell holds the public value m: no row has a gap and another value. There
    the function f(x, gap) may be anything, and is f(x, no) + f(m, yes) - f(m, no): a function of the number
    and one of the gap, for whatever else f depends on. So neither has to be counted with the other.
    """
    numbers = {column.name: column for column in schema.columns}
    for gap in schema.columns:
        if isinstance(gap, Category) and gap.gaps_of is not None and gap.name in function.columns:
            number = numbers[gap.gaps_of]
            assert isinstance(number, Numeric)
            assert number.missing is not None
            function = replace(function, of=_without_gap(function.of, number.name, number.missing, gap.name))
    return function


def number_and_gap(function: Function, name: str, missing: float, gap: str) -> tuple[Function, Function]:
    """Write a function of a nullable number and its gap as a sum of one of each, on every possible row.

    Args:
        function: of these two columns at most.
        name: the number.
        missing: its public value in a gap.
        gap: the column that marks gaps.
    """
    no, yes = (np.asarray(float(GAPS.index(each))) for each in (NO_GAP, GAP))

    def of_number(values: Values) -> FloatArray:
        return np.broadcast_to(function.of({**values, gap: no}), np.shape(values[name]))

    def of_gap(values: Values) -> FloatArray:
        empty = {**values, name: np.asarray(missing)}
        step = np.subtract(function.of({**empty, gap: yes}), function.of({**empty, gap: no}))
        return np.where(values[gap] == yes, step, 0.0)

    cuts = {name: function.cuts[name]} if name in function.cuts else {}
    return Function(frozenset([name]), of_number, cuts), Function(frozenset([gap]), of_gap)


def _without_gap(
    of: Callable[[Values], FloatArray], name: str, missing: float, gap: str
) -> Callable[[Values], FloatArray]:
    no, yes = (np.asarray(float(GAPS.index(each))) for each in (NO_GAP, GAP))

    def apart(values: Values) -> FloatArray:
        full = of({**values, gap: no})
        empty = {**values, name: np.asarray(missing)}
        step: FloatArray = np.subtract(of({**empty, gap: yes}), of({**empty, gap: no}))
        return np.where(values[gap] == yes, full + step, full)

    return apart


def tests_of(columns: Sequence[AnyColumn], names: Sequence[str]) -> list[Function]:
    """Functions that tell the law of a few columns: x and x^2, categories, and products of two of these.

    Products are left out where there are more than MOST_TESTS.
    """
    single = [_tests(column, name) for column, name in zip(columns, names, strict=True)]
    pairs = [f * g for one, other in combinations(single, 2) for f in one for g in other]
    alone = [f for each in single for f in each]
    return [*alone, *pairs] if len(alone) + len(pairs) <= MOST_TESTS else alone[:MOST_TESTS]


def _tests(column: AnyColumn, name: str) -> list[Function]:
    if not isinstance(column, Numeric):
        return [equal(name, float(code)) for code in range(1, len(names_of(column)))]
    value = number(name, sum(column.limits) / 2.0)
    return [value, value.square]


def columns_of(schema: Schema) -> dict[str, AnyColumn]:
    """Columns of a table by name; the label's last."""
    columns: dict[str, AnyColumn] = {name: column for column in schema.columns for name in column.names}
    if schema.label is not None:
        columns[schema.label.name] = schema.label
    return columns


def names_of(column: AnyColumn) -> tuple[str, ...]:
    """Categories or classes of a column; none of a number."""
    if isinstance(column, Numeric):
        return ()
    return column.categories if isinstance(column, Category) else column.classes


def values_of(table: Table, schema: Schema) -> dict[str, FloatArray]:
    """Columns of a table, by name."""
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
