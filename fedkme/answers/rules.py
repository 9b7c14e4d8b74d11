"""Public rules of a schema as functions of a row, as tables of codes that no row has, and as repairs.

A rule costs no epsilon: it is public before any row is read, it is applied to noisy counts and to rows made
of them (post-processing), and no owner's row is refused or changed by it. A real row that breaks one is
counted like any other; made rows have none like it.

**Of codes** (`impossible`). A cell of codes is impossible if every value that it can hold breaks the rule. A
number's bin is tried at its ends, between the places where a condition may jump, and at these; a whole number
at every value of a short bin. Cells that hold both kinds of rows stay possible: values are drawn in them
until the rule holds (`obeyed`). Rules over more cells than `MOST_CELLS` and sums have no table; rows that
break them are drawn again.

**Of rows** (`obeyed`). Derived columns are computed. Rows that still break a rule are drawn again by the
caller, at first with other values in the same cells, then from the model. What breaks a rule after that is
replaced by copies of rows that do not, which are counted. So no made row breaks a rule, or none is made.
"""

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import cast

import numpy as np
from numpy.typing import NDArray

from fedkme.answers.conditions import Conditions, refuse_contradictions
from fedkme.answers.functions import AnyColumn, Cuts, Function, Values, columns_of, names_of, values_of
from fedkme.answers.grammar import parse_condition
from fedkme.arrays import FloatArray, IntArray
from fedkme.errors import DataError, QuestionError, SchemaError
from fedkme.features.binning import Binning
from fedkme.features.counts import Clique
from fedkme.tables.cells import day_of
from fedkme.tables.names import Category, Label
from fedkme.tables.numbers import Numeric
from fedkme.tables.rules import DerivedColumn
from fedkme.tables.schema import Schema
from fedkme.tables.table import Table
from fedkme.tables.text import dummy_rows

MOST_CELLS = 1 << 18
"""Most combinations of values at which a rule is tried for its table of codes."""
REDRAWS, SAME_CELLS = 60, 10
"""Times that rows which break a rule are drawn again; the first ones keep their cells."""
_SHORT = 64
"""Most whole numbers in a bin that are all tried."""
_SUM_SLACK = 1e-9
"""Part of its largest bound by which a sum may be off."""
Redraw = Callable[[IntArray, int], Table]
"""Draws rows anew for those of some places; the second argument is the number of the attempt, from 0."""


@dataclass(frozen=True, eq=False, slots=True)
class RowRule:
    """A rule as a function of a row.

    Attributes:
        text: the rule as people write it.
        broken: 1 where a row breaks the rule, else 0.
        by_cells: whether cells of codes can be told to be impossible.
    """

    text: str
    broken: Function
    by_cells: bool = True


@dataclass(frozen=True, eq=False, slots=True)
class Obeying:
    """Rows none of which breaks a rule.

    Attributes:
        table: the rows.
        copied: number of rows that are copies of others, as no draw of theirs obeyed the rules.
    """

    table: Table
    copied: int = 0


class RowRules:
    """All rules of a schema.

    Raises:
        SchemaError: on construction, for a rule that names no value of its columns, or rules of which no row
            obeys all; the text names them.
    """

    def __init__(self, schema: Schema) -> None:
        self._schema = schema
        self._columns = columns_of(schema)
        self._conditions = Conditions(schema, of_rules=True)
        self._computed: list[tuple[str, Function]] = []
        never = [self._never(text) for text in schema.never]
        order = [self._order(*pair) for names in schema.order for pair in itertools.pairwise(names)]
        self.rules = (*never, *order, *(self._derived(name, each) for name, each in schema.derived.items()))
        refuse_contradictions({each.text: each.broken for each in self.rules if each.by_cells}, self._columns)

    def counts(self, table: Table) -> dict[str, int]:
        """Number of rows that break each rule."""
        values = self._values(table)
        return {rule.text: int(np.count_nonzero(rule.broken.of(values))) for rule in self.rules}

    def broken(self, table: Table) -> NDArray[np.bool_]:
        """Rows that break a rule, (m,)."""
        values, wrong = self._values(table), np.zeros(len(table), dtype=np.bool_)
        for rule in self.rules:
            wrong |= np.broadcast_to(rule.broken.of(values) > 0, wrong.shape)
        return wrong

    def _values(self, table: Table) -> Values:
        """Columns by name, with public values in place of empty cells."""
        filled = table.values.astype(np.float64)
        for place, name in enumerate(self._schema.names):
            column = self._columns[name]
            assert not isinstance(column, Label)
            filled[:, place] = column._filled(filled[:, [place]])[:, 0]
        return values_of(Table(filled, table.labels), self._schema)

    def repaired(self, table: Table) -> Table:
        """Rows with derived columns computed."""
        values, labels, names = table.values.copy(), table.labels, [*self._schema.names]
        for name, function in self._computed:
            by_name = values_of(Table(values, labels), self._schema)
            computed = function.of(by_name)
            result = np.where(np.isfinite(computed), computed, by_name[name])
            if name in names:
                values[:, names.index(name)] = result
            else:
                labels = result.astype(np.int64)
        return Table(values, labels)

    def obeyed(self, table: Table, redraw: Redraw) -> Obeying:
        """Rows none of which breaks a rule.

        Raises:
            DataError: not one row that was drawn obeys all rules.
        """
        if not self.rules:
            return Obeying(table)
        table = self.repaired(table)
        for attempt in range(REDRAWS):
            wrong = np.flatnonzero(self.broken(table))
            if not len(wrong):
                return Obeying(table)
            table = _with_rows(table, wrong, self.repaired(redraw(wrong, attempt)))
        broken = self.broken(table)
        right, wrong = np.flatnonzero(~broken), np.flatnonzero(broken)
        if not len(right):
            worst = max(self.counts(table).items(), key=lambda item: item[1])[0]
            raise DataError(
                f"no row can be made that obeys the schema's rules: {worst}", "Correct the rules."
            )
        copies = table.take(right[np.arange(len(wrong)) % len(right)])
        return Obeying(_with_rows(table, wrong, copies), len(wrong))

    def impossible(self, binning: Binning) -> list[tuple[RowRule, Clique, NDArray[np.bool_] | None]]:
        """Cells of codes that no row has: for each rule its columns and a table; None: there is no table."""
        return [(rule, *self._cells(rule, binning)) for rule in self.rules]

    def _cells(self, rule: RowRule, binning: Binning) -> tuple[Clique, NDArray[np.bool_] | None]:
        names = [name for name in binning.names if name in rule.broken.columns]
        clique = tuple(binning.names.index(name) for name in names)
        columns, cuts = columns_of(binning.coded), rule.broken.cuts
        tried = [_tried(binning, columns[name], cuts.get(name, frozenset())) for name in names]
        shape = [binning.sizes[place] for place in clique]
        sizes = [len(codes) for codes, _ in tried]
        if not rule.by_cells or np.prod(sizes, dtype=np.float64) > MOST_CELLS:
            return clique, None
        grids = np.meshgrid(*(np.arange(size) for size in sizes), indexing="ij")
        values = {name: tried[i][1][grids[i].ravel()] for i, name in enumerate(names)}
        index = np.ravel_multi_index([tried[i][0][grids[i].ravel()] for i in range(len(names))], shape)
        held = np.bincount(index, minlength=int(np.prod(shape)))
        breaks = np.broadcast_to(rule.broken.of(values) > 0, index.shape)
        wrong = np.bincount(index, breaks, minlength=int(np.prod(shape)))
        return clique, np.asarray((held > 0) & (wrong == held)).reshape(shape)

    def _never(self, text: str) -> RowRule:
        try:
            return RowRule(f"never {text}", self._conditions.function(parse_condition(text)))
        except QuestionError as error:
            raise SchemaError(
                f'the schema\'s rule never = "{text[:80]}": {error.cause}', error.remedy
            ) from None

    def _order(self, first: str, second: str) -> RowRule:
        for name in (first, second):
            if not isinstance(self._columns[name], Numeric):
                raise SchemaError(
                    f"'order' names '{name}', which is neither number nor date", "Leave it out."
                )
        either = Function(
            frozenset([first, second]), lambda values: np.asarray(values[first] > values[second], np.float64)
        )
        return RowRule(f"order {first} <= {second}", self._present(either, first, second))

    def _derived(self, name: str, derived: DerivedColumn) -> RowRule:
        if derived.function_of is None:
            return self._sum(name, derived.sum_of)
        source, column = derived.function_of, self._columns[name]
        categories = names_of(self._columns[source])
        if not categories:
            raise SchemaError(f"'{name}' is a function of '{source}', which is a number", "Name a category.")
        free = free_names(self._columns[source])
        if absent := [each for each in categories if each not in derived.values and each not in free]:
            raise SchemaError(f"derived '{name}' has no value for '{absent[0]}'", "Add it to 'values'.")
        if strange := [each for each in derived.values if each not in categories]:
            raise SchemaError(
                f"'{strange[0]}' is no category of '{source}'", f"Correct 'values' of '{name}'."
            )
        coded = {each: _coded(name, column, value) for each, value in derived.values.items()}
        given = np.array([coded.get(each, np.nan) for each in categories])

        def computed(values: Values) -> FloatArray:
            return np.asarray(given[values[source].astype(np.int64)])

        def wrong(values: Values) -> FloatArray:
            stated = computed(values)
            return np.asarray(np.isfinite(stated) & (stated != values[name]), np.float64)

        self._computed.append((name, Function(frozenset([source]), computed)))
        numeric = isinstance(column, Numeric)
        cuts: Cuts = {name: frozenset(given[np.isfinite(given)].tolist())} if numeric else {}
        broken = Function(frozenset([source, name]), wrong, cuts)
        return RowRule(f"{name} = function of {source}", self._present(broken, name))

    def _sum(self, name: str, parts: Sequence[str]) -> RowRule:
        numbers = [self._columns[each] for each in (name, *parts)]
        if not all(isinstance(each, Numeric) for each in numbers):
            raise SchemaError(f"'{name}' is a sum with a column that is no number", "Correct 'sum_of'.")
        total, *others = (cast(Numeric, each) for each in numbers)
        if total.integer and not all(each.integer for each in others):
            raise SchemaError(f"'{name}' is whole, and a part of it is not", "Take 'integer' from the sum.")
        least, most = (sum(each.limits[end] for each in others) for end in (0, 1))
        apart = least > total.limits[1] or most < total.limits[0]
        if apart and not any(each.nullable for each in (total, *others)):
            cause = f"'{name}' is never the sum of {' and '.join(parts)}, which is {least:g} to {most:g}"
            raise SchemaError(cause, "Correct the rule, or the bounds of its columns.")
        slack = _SUM_SLACK * max(1.0, *map(abs, total.limits))

        def computed(values: Values) -> FloatArray:
            return np.asarray(sum(values[each] for each in parts), np.float64)

        def wrong(values: Values) -> FloatArray:
            off = np.abs(computed(values) - values[name]) > slack
            return np.asarray(off | total.outside(np.asarray(values[name])), np.float64)

        self._computed.append((name, Function(frozenset(parts), computed)))
        broken = self._present(Function(frozenset([name, *parts]), wrong), name, *parts)
        return RowRule(f"{name} = {' + '.join(parts)}", broken, by_cells=False)

    def _present(self, function: Function, *names: str) -> Function:
        """Let a rule hold where one of its numbers has an empty cell."""
        for name in names:
            if (present := self._conditions.present(name)) is not None:
                function = function * present
        return function


def _coded(name: str, column: AnyColumn, value: float | str) -> float:
    """Value of a derived column as a table has it."""
    if not isinstance(column, Numeric):
        names = names_of(column)
        if str(value) not in names:
            raise SchemaError(f"'{value}' is no category of '{name}'", f"Correct 'values' of '{name}'.")
        return float(names.index(str(value)))
    try:
        number = day_of(str(value)) if column.kind == "date" else float(value)
    except ValueError:
        raise SchemaError(f"'{value}' is no value of '{name}'", f"Correct 'values' of '{name}'.") from None
    if any(wrong.any() for _, _, wrong in column.faults(np.array([[number]]))):
        raise SchemaError(f"{value} is outside of column '{name}'", f"Correct 'values' of '{name}'.")
    return number


def _tried(binning: Binning, column: AnyColumn, cuts: frozenset[float]) -> tuple[IntArray, FloatArray]:
    """Values at which a rule is tried, with the code of each."""
    if isinstance(column, Category | Label):
        codes = np.arange(len(names_of(column)))
        return codes, codes.astype(np.float64)
    edges = binning.edges(column)
    pairs: list[tuple[int, float]] = []
    for code, (low, high) in enumerate(itertools.pairwise(edges.tolist())):
        inner = sorted(cut for cut in cuts if low <= cut <= high)
        if column.integer:
            first, last = int(np.ceil(low)), int(np.ceil(high)) - 1
            whole = (
                range(first, last + 1)
                if last - first < _SHORT
                else sorted(
                    {
                        first,
                        last,
                        *(k for c in inner for k in range(int(c) - 1, int(c) + 2) if first <= k <= last),
                    }
                )
            )
            pairs += ((code, float(number)) for number in whole)
        else:
            ends = [low, *inner, high]
            middles = [(a + b) / 2.0 for a, b in itertools.pairwise(ends)]
            pairs += ((code, number) for number in {low, *inner, *middles, float(np.nextafter(high, low))})
    pairs += ((len(edges) - 1 + place, atom) for place, atom in enumerate(column.singles))
    return np.array([code for code, _ in pairs], dtype=np.int64), np.array([number for _, number in pairs])


def _with_rows(table: Table, places: IntArray, rows: Table) -> Table:
    """Table with other rows at some places."""
    values = table.values.copy()
    values[places] = rows.values
    if table.labels is None or rows.labels is None:
        return Table(values, None)
    labels = table.labels.copy()
    labels[places] = rows.labels
    return Table(values, labels)


def dummies(schema: Schema, rows: int, rng: np.random.Generator) -> Table:
    """Random rows of the schema's domain that obey its rules.

    Raises:
        DataError: no such row was drawn.
    """
    table = dummy_rows(schema, rows, rng)
    return RowRules(schema).obeyed(table, lambda places, _: dummy_rows(schema, len(places), rng)).table


def free_names(column: AnyColumn) -> set[str | None]:
    """Categories for which a derived column need not have a value."""
    return {getattr(column, "missing", None), "other" if getattr(column, "other", False) else None}
