"""Conditions of questions as functions of a row, checked against the columns of a schema."""

import difflib
import operator
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedkme.answers.functions import AnyColumn, Cuts, Function, Values, columns_of, equal, names_of
from fedkme.answers.grammar import Both, Column, ColumnTest, Condition, Either, Not, OneOf, Value, wrong
from fedkme.arrays import FloatArray
from fedkme.errors import SchemaError
from fedkme.tables.cells import date_of, day_of
from fedkme.tables.names import NO_GAP
from fedkme.tables.numbers import Numeric
from fedkme.tables.schema import Schema

MOST_TRIED = 1 << 18
"""Most combinations of values at which the rules of some columns are tried."""

_SIGNS: Mapping[str, Callable[[Any, Any], Any]] = {
    "=": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
_MOST_NAMES = 30


class Conditions:
    """Look-up of columns and conditions in one schema, of questions or of the schema's rules."""

    def __init__(self, schema: Schema, *, of_rules: bool = False) -> None:
        self._of_rules = of_rules
        self._columns = columns_of(schema)
        self._marks = {number.name: mark.name for mark, number in schema.gaps}

    def column(self, reference: Column) -> AnyColumn:
        """Look up a column by its name.

        Raises:
            QuestionError: the schema has no such column; the message lists its columns.
        """
        if reference.name not in self._columns:
            close = difflib.get_close_matches(reference.name, self._columns, n=1)
            hint = f"Did you mean '{close[0]}'? " if close else ""
            raise wrong(
                reference.place,
                f"there is no column '{reference.name[:40]}'",
                f"{hint}Columns: {_listed(self._columns)}.",
            )
        return self._columns[reference.name]

    def number(self, reference: Column, call: str) -> Numeric:
        """Look up a numeric column.

        Raises:
            QuestionError: the schema has no such column, or it is not numeric.
        """
        column = self.column(reference)
        if not isinstance(column, Numeric):
            numbers = _listed(name for name, each in self._columns.items() if isinstance(each, Numeric))
            share = f"share({reference.name} = '{names_of(column)[0]}')"
            raise wrong(
                reference.place,
                f"'{reference.name}' is no number, which '{call}' needs",
                f"Ask for {share}, or take one of the numbers: {numbers or 'there are none'}.",
            )
        return column

    def categories(self, reference: Column) -> tuple[str, ...]:
        """Categories of a column.

        Raises:
            QuestionError: the schema has no such column, or it is numeric.
        """
        names = names_of(self.column(reference))
        if not names:
            named = [name for name, each in self._columns.items() if names_of(each)]
            raise wrong(
                reference.place,
                f"'{reference.name}' is a number, and 'by' takes a column of categories",
                f"Take one of {_listed(named)}, or 'where'." if named else "Ask with 'where'.",
            )
        return names

    def present(self, name: str) -> Function | None:
        """Function that is 1 where a nullable number has a value; None if no cell of the column is empty."""
        mark = self._marks.get(name)
        return None if mark is None else equal(mark, NO_GAP)

    def function(self, condition: Condition) -> Function:
        """Function that is 1 where a condition holds, else 0; no comparison with an empty cell holds.

        Raises:
            QuestionError: a column or a value is not in the schema.
        """
        match condition:
            case Not(inner):
                negated = self.function(inner)
                return Function(negated.columns, lambda values: 1.0 - negated.of(values), negated.cuts)
            case Both(left, right):
                return self.function(left) * self.function(right)
            case Either(left, right):
                one, other = self.function(left), self.function(right)
                both = one * other
                return Function(
                    both.columns, lambda values: np.maximum(one.of(values), other.of(values)), both.cuts
                )
            case OneOf(column, values, places):
                tests = [
                    self._test(column, "=", value, place) for value, place in zip(values, places, strict=True)
                ]
                cuts = {
                    name: frozenset[float]().union(*(t.cuts[name] for t in tests)) for name in tests[0].cuts
                }
                return Function(
                    tests[0].columns, lambda values: np.max([test.of(values) for test in tests], axis=0), cuts
                )
            case ColumnTest(column, sign, value, place):
                return self._test(column, sign, value, place)

    def _test(self, reference: Column, sign: str, value: Value, place: int) -> Function:
        column, name, compare = self.column(reference), reference.name, _SIGNS[sign]
        if isinstance(column, Numeric):
            threshold = _number(column, reference, sign, value, place)
            if not self._of_rules:
                _refuse_moved(column, sign, threshold, place)
        else:
            threshold = _code(names_of(column), reference, sign, value, place)

        def of(values: Values) -> FloatArray:
            return np.asarray(compare(values[name], threshold), np.float64)

        cuts: Cuts = {name: frozenset([threshold])} if isinstance(column, Numeric) else {}
        test = Function(frozenset([name]), of, cuts)
        present = self.present(name)
        return test if present is None else test * present


def _number(column: Numeric, reference: Column, sign: str, value: Value, place: int) -> float:
    if column.kind == "date":
        try:
            return day_of(str(value))
        except ValueError:
            raise wrong(place, f"'{reference.name}' is a date", "Write it as 2024-12-31.") from None
    if isinstance(value, str):
        low, high = column.limits
        raise wrong(place, f"'{reference.name}' is a number", f"Give one between {low:g} and {high:g}.")
    if sign in ("=", "!=") and not column.integer and value not in column.singles:
        raise wrong(
            place,
            f"'{reference.name}' is not a whole number, so hardly any row equals one value",
            "Ask with < and >=.",
        )
    return value


def _refuse_moved(column: Numeric, sign: str, threshold: float, place: int) -> None:
    """Refuse what only values beyond the bounds can be, which `clip` has moved: nobody can tell of these."""
    low, high = column.limits
    above = (sign in (">", ">=", "=") and threshold > high) or (sign == ">" and threshold == high)
    below = (sign in ("<", "<=", "=") and threshold < low) or (sign == "<" and threshold == low)
    if column.clip and (above or below):
        text = date_of if column.kind == "date" else "{:.12g}".format
        most = f">= {text(high)}" if above else f"<= {text(low)}"
        cause = f"'{column.name}' has only values of {text(low)} to {text(high)}; 'clip' moves others there"
        raise wrong(place, cause, f"Ask with {most}.")


def _code(names: tuple[str, ...], reference: Column, sign: str, value: Value, place: int) -> float:
    if sign not in ("=", "!="):
        raise wrong(place, f"categories of '{reference.name}' have no order", "Ask with =, != or in.")
    if value not in names:
        shown = f"'{value[:40]}'" if isinstance(value, str) else f"{value:g}"
        raise wrong(
            place,
            f"{shown} is no category of '{reference.name}'",
            f"Categories, between single quotes: {_listed(names)}.",
        )
    return float(names.index(str(value)))


def _listed(names: Any) -> str:
    listed = list(names)
    more = f" and {len(listed) - _MOST_NAMES} more" if len(listed) > _MOST_NAMES else ""
    return ", ".join(listed[:_MOST_NAMES]) + more


def refuse_contradictions(broken: Mapping[str, Function], columns: Mapping[str, AnyColumn]) -> None:
    """Refuse public rules of which no row can obey all, before owners are asked for counts, and pay.

    Conditions are constant between the values at which they may jump, so each column is tried at and between
    these. A value stays while values of the other columns of a rule, which stayed, obey with it all rules of
    these columns (arc consistency, Mackworth 1977). A column without a value proves that no row obeys all.
    Other contradictions are not seen: then no row can be made (`fedkme.answers.rules`).

    Args:
        broken: functions that are above 0 where a row breaks a rule, by the rule's text.
        columns: all columns by name.

    Raises:
        SchemaError: names the rules.
    """
    cuts = {name: [f.cuts.get(name, frozenset()) for f in broken.values()] for name in columns}
    values = {
        name: _representatives(columns[name], frozenset().union(*cuts[name]))
        for name in sorted(frozenset().union(*(f.columns for f in broken.values())))
    }
    stays = {name: np.ones(len(own), dtype=np.bool_) for name, own in values.items()}
    before, left = -1, 0
    while before != left:
        before = left
        for own in {f.columns: None for f in broken.values()}:
            names = sorted(own)
            if np.prod([len(values[name]) for name in names], dtype=np.float64) > MOST_TRIED:
                continue
            inside = {text: f for text, f in broken.items() if f.columns <= own}
            right = _right(names, values, stays, inside.values())
            if not right.any():
                raise SchemaError(
                    f"no row can obey the schema's rules: {'; '.join(inside)}", "Correct the rules."
                )
            for place, name in enumerate(names):
                stays[name] &= right.any(axis=tuple(axis for axis in range(len(names)) if axis != place))
        left = sum(int(np.count_nonzero(~each)) for each in stays.values())


def _right(
    names: Sequence[str],
    values: Mapping[str, FloatArray],
    stays: Mapping[str, NDArray[np.bool_]],
    broken: Collection[Function],
) -> NDArray[np.bool_]:
    """Mark combinations of values that stayed and that obey rules, one axis for each column."""
    right = np.logical_and.reduce(np.meshgrid(*(stays[name] for name in names), indexing="ij"))
    grid = dict(zip(names, np.meshgrid(*(values[name] for name in names), indexing="ij"), strict=True))
    for function in broken:
        right = right & (function.of(grid) <= 0)
    return np.asarray(right)


def _representatives(column: AnyColumn, cuts: Collection[float]) -> FloatArray:
    """Values of a column at and between which conditions may jump, with its bounds and atoms."""
    if not isinstance(column, Numeric):
        return np.arange(len(names_of(column)), dtype=np.float64)
    if column.values:
        return np.array(column.values)
    low, high = column.bounds
    ends = np.array([low, *sorted(cut for cut in cuts if low < cut < high), high])
    tried = np.concatenate([ends, (ends[:-1] + ends[1:]) / 2.0])
    if column.integer:
        near = np.concatenate([np.floor(ends), np.ceil(ends)])
        tried = np.concatenate([near - 1.0, near, near + 1.0])
    tried = tried[(tried >= low) & (tried <= high)]
    return np.unique([*tried, *column.singles])
