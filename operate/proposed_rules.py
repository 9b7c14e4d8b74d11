"""Proposals of public rules: what holds in all rows of public tables, for a person to confirm."""

from collections.abc import Mapping, Sequence
from itertools import chain, combinations, permutations

import numpy as np

from fedkme.answers.functions import columns_of, names_of, values_of
from fedkme.answers.rules import free_names
from fedkme.arrays import FloatArray
from fedkme.tables.names import Category
from fedkme.tables.numbers import Numeric
from fedkme.tables.rules import DerivedColumn
from fedkme.tables.schema import Schema
from fedkme.tables.table import Table

_MOST_NAMES, _MOST_NUMBERS, _FEW_NUMBERS = 64, 64, 16
"""Most categories of a column that others are functions of; most numbers of which sums of two, of three are
looked for."""
_ENOUGH = 5
"""Least rows of a category, and of a table in which a sum or an order is looked for."""


def functions_in(schema: Schema, whole: Mapping[str, FloatArray]) -> dict[str, DerivedColumn]:
    """Columns that are functions of a column of categories in all rows, by their `whole_columns`.

    Proposals for `derived`: each category has at least `_ENOUGH` rows, and the column has two values or more.
    """
    columns = columns_of(schema)
    functions: dict[str, DerivedColumn] = {}
    for source, codes in whole.items():
        categories = names_of(columns[source])
        if not 2 <= len(categories) <= _MOST_NAMES:
            continue
        counts = np.bincount(codes.astype(np.int64), minlength=len(categories))
        seen = np.flatnonzero(counts)
        absent = {categories[code] for code in np.flatnonzero(counts == 0)}
        if counts[seen].min() < _ENOUGH or absent - free_names(columns[source]) or len(seen) < 2:
            continue
        first = np.array([np.argmax(codes == code) for code in range(len(categories))])
        for name, cells in whole.items():
            sources = {each for derived in functions.values() for each in derived.sources}
            if name in {source, *functions, *sources} or source in functions:
                continue
            stated = cells[first]
            is_function = (cells == stated[codes.astype(np.int64)]).all() and len(set(cells.tolist())) > 1
            if is_function and getattr(columns[name], "kind", "") != "date":
                shown = names_of(columns[name])
                given = {
                    categories[code]: shown[int(stated[code])] if shown else float(stated[code])
                    for code in seen
                }
                functions[name] = DerivedColumn(function_of=source, values=given)
    return functions


def sums_in(schema: Schema, whole: Mapping[str, FloatArray]) -> dict[str, DerivedColumn]:
    """Columns that are the sum of two others, or of three if numbers are few, in all rows."""
    columns = columns_of(schema)
    names = [
        name for name in whole if getattr(columns[name], "kind", "") == "numeric" and np.ptp(whole[name]) > 0
    ]
    sums: dict[str, DerivedColumn] = {}
    if not 3 <= len(names) <= _MOST_NUMBERS or len(whole[names[0]]) < _ENOUGH:
        return sums
    first = np.stack([whole[name][:_ENOUGH] for name in names])
    threes = combinations(names, 3) if len(names) <= _FEW_NUMBERS else ()
    for parts in chain(combinations(names, 2), threes):
        total = sum(first[names.index(name)] for name in parts)
        for name in (names[place] for place in np.flatnonzero(np.isclose(first, total).all(axis=1))):
            taken = {*parts, *sums, *(each for one in sums.values() for each in one.sources)}
            if name in taken or not sums.keys().isdisjoint(parts):
                continue
            if np.allclose(whole[name], sum(whole[part] for part in parts), 1e-9):
                sums[name] = DerivedColumn(sum_of=parts)
    return sums


def orders_in(schema: Schema, whole: Mapping[str, FloatArray]) -> list[tuple[str, str]]:
    """Pairs of dates of which the first is in no row after the second."""
    columns = columns_of(schema)
    dates = {name: days for name, days in whole.items() if getattr(columns[name], "kind", "") == "date"}
    return [
        (one, other)
        for one, other in permutations(dates, 2)
        if len(dates[one]) >= _ENOUGH
        and (dates[one] <= dates[other]).all()
        and (dates[one] < dates[other]).any()
    ]


def whole_columns(schema: Schema, tables: Sequence[Table]) -> dict[str, FloatArray]:
    """Values of all rows by column, without the label and numbers that have gaps."""
    values = [values_of(table, schema) for table in tables]
    return {
        name: np.concatenate([each[name] for each in values])
        for name, column in columns_of(schema).items()
        if (isinstance(column, Category) and column.gaps_of is None)
        or (isinstance(column, Numeric) and not column.nullable)
    }
