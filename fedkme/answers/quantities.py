"""Questions as quantities, each made of means of functions over rows, with the values that it can have."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal, TypeAlias

from fedkme.answers.conditions import Conditions
from fedkme.answers.functions import ONE, Function, combined, equal, inside, none_of, number
from fedkme.answers.grammar import ParsedQuestion, wrong
from fedkme.errors import QuestionError
from fedkme.tables.columns import date_of
from fedkme.tables.schema import Numeric, Schema

Unit = Literal["number", "date"]
"""Unit of an answer: `date` is a day, as days from 1970-01-01, whose deviations are in days."""
MOST_BINS = 1000
MOST_ANSWERS = 10_000


@dataclass(frozen=True, eq=False, slots=True)
class Ratio:
    """offset + E numerator / E denominator, or N times that.

    Attributes:
        numerator: over the rows that the question is about; 0 for others.
        denominator: 1 for these rows; None: all rows.
        offset: public number that the numerator was centred by.
        limits: smallest and largest value that there can be.
        total: whether it is a number of rows, or a sum over them: N times the mean.
        counts: whether it is a share of rows, or their number.
    """

    numerator: Function
    denominator: Function | None
    offset: float
    limits: tuple[float, float]
    total: bool = False
    counts: bool = False


@dataclass(frozen=True, eq=False, slots=True)
class Variance:
    """Variance of a column over some rows.

    Attributes:
        name: of the column.
        column: its description.
        rows: 1 for rows that the question is about; None: all.
    """

    name: str
    column: Numeric
    rows: Function | None

    @property
    def limits(self) -> tuple[float, float]:
        """Smallest and largest variance that there can be."""
        low, high = self.column.limits
        return 0.0, (high - low) ** 2 / 4.0

    @property
    def mean(self) -> Ratio:
        """Mean of the column over these rows."""
        return _mean(self.name, self.column, self.rows, total=False)

    def around(self, centre: float) -> Ratio:
        """Mean square distance to a number, which is the variance and the square of the mean's distance."""
        low, high = self.column.limits
        square = number(self.name, centre).square
        most = max(centre - low, high - centre) ** 2
        return Ratio(square * (self.rows or ONE), self.rows, 0.0, (0.0, most))


@dataclass(frozen=True, eq=False, slots=True)
class Correlation:
    """Correlation of two columns over some rows, by the variances of both."""

    one: Variance
    two: Variance

    limits = (-1.0, 1.0)

    def around(self, centres: Sequence[float], deviations: Sequence[float]) -> Ratio:
        """Mean of a product over that of half the squares, each column less a centre and in a unit.

        By means and deviations themselves it is the correlation. With variances A and B, d and e the
        distances of the means, all in these units, and r the correlation, it is (r sqrt(A B) + d e) /
        ((A + d^2 + B + e^2) / 2): wrong by squares and products of what the units are off.
        """
        columns = zip((self.one, self.two), centres, deviations, strict=True)
        a, b = (combined((1.0 / unit,), (number(each.name, centre),)) for each, centre, unit in columns)
        rows = self.one.rows or ONE
        return Ratio(a * b * rows, combined((0.5, 0.5), (a.square, b.square)) * rows, 0.0, self.limits)


@dataclass(frozen=True, eq=False, slots=True)
class Quantile:
    """Smallest value of a column that at least a share `level` of rows do not exceed."""

    name: str
    column: Numeric
    level: float
    rows: Function


Quantity: TypeAlias = Ratio | Variance | Correlation | Quantile


@dataclass(frozen=True, eq=False, slots=True)
class AskedPart:
    """One answer of a question: its group, such as `sex = Female` or a bin, and its quantity."""

    question: str
    group: str
    quantity: Quantity
    unit: Unit = "number"


def parts_of(questions: Sequence[ParsedQuestion], schema: Schema) -> list[AskedPart]:
    """Every answer that questions ask for, in order.

    Raises:
        QuestionError: a column, a category or an argument that does not fit the schema.
    """
    conditions = Conditions(schema)
    found: list[AskedPart] = []
    for question in questions:
        unit = _unit(question, conditions)
        for name, rows in _groups(question, conditions):
            for piece, quantity in _quantities(question, rows, conditions):
                group = ", ".join(text for text in (name, piece) if text)
                found.append(AskedPart(question.text, group, quantity, unit))
    if len(found) > MOST_ANSWERS:
        raise QuestionError(
            f"these questions have {len(found)} answers and {MOST_ANSWERS} are the limit", "Ask in parts."
        )
    return found


def _unit(question: ParsedQuestion, conditions: Conditions) -> Unit:
    if question.call not in ("mean", "median", "quantile"):
        return "number"
    return "date" if conditions.number(question.columns[0], question.call).kind == "date" else "number"


def _groups(question: ParsedQuestion, conditions: Conditions) -> Iterator[tuple[str, Function | None]]:
    """Name, and 1 for the rows, of each group; None: all rows."""
    rows = None if question.where is None else conditions.function(question.where)
    if question.by is None:
        yield "", rows
        return
    for code, name in enumerate(conditions.categories(question.by)):
        chosen = equal(question.by.name, float(code))
        yield f"{question.by.name} = {name}", chosen if rows is None else rows * chosen


def _quantities(
    question: ParsedQuestion, rows: Function | None, conditions: Conditions
) -> Iterator[tuple[str, Quantity]]:
    if question.call in ("count", "share"):
        yield "", _counted(question, rows, conditions)
        return
    columns = [(each.name, conditions.number(each, question.call)) for each in question.columns]
    for name, _ in columns:
        if (present := conditions.present(name)) is not None:
            rows = present if rows is None else rows * present
    (name, column), *_ = columns
    match question.call:
        case "histogram":
            yield from _histogram(question, name, column, rows)
        case "median" | "quantile":
            yield "", _quantile(question, name, column, rows)
        case "var":
            yield "", Variance(name, column, rows)
        case "corr":
            one, two = (Variance(*each, rows) for each in columns)
            yield "", Correlation(one, two)
        case call:
            yield "", _mean(name, column, rows, total=call == "sum")


def _counted(question: ParsedQuestion, rows: Function | None, conditions: Conditions) -> Ratio:
    asked = None if question.condition is None else conditions.function(question.condition)
    held = [each for each in (asked, rows) if each is not None]
    numerator = ONE
    for each in held:
        numerator = each if numerator is ONE else numerator * each
    if question.call == "count":
        return Ratio(numerator, None, 0.0, (0.0, 1.0), total=True, counts=True)
    return Ratio(numerator, rows, 0.0, (0.0, 1.0), counts=True)


def _mean(name: str, column: Numeric, rows: Function | None, total: bool) -> Ratio:
    low, high = column.limits
    middle = 0.0 if total and rows is not None else (low + high) / 2.0  # 0 for rows that are left out
    value = number(name, middle)
    numerator = value if rows is None else value * rows
    limits = (min(low, 0.0), max(high, 0.0)) if total and rows is not None else (low, high)
    return Ratio(numerator, None if total else rows, middle, limits, total)


def _histogram(
    question: ParsedQuestion, name: str, column: Numeric, rows: Function | None
) -> Iterator[tuple[str, Quantity]]:
    usual = len(column.cuts) + 1.0 if column.cuts else 10.0
    bins = usual if question.number is None else question.number
    if not (bins.is_integer() and 1 <= bins <= MOST_BINS):
        raise wrong(question.columns[0].place, f"{bins:g} bins cannot be made", f"Take 1 to {MOST_BINS}.")
    edges = column.axis.edges(int(bins)).tolist()
    pieces = [(f"= {_said(column)(atom)}", equal(name, atom)) for atom in column.atoms]
    for start, stop in pairwise(edges):
        last = stop == edges[-1]
        chosen = inside(name, start, column.bounds[1] if last else stop, closed=last)
        if column.atoms:
            chosen = chosen * none_of(name, column.atoms)
        pieces.append((_bin(start, stop, last, column), chosen))
    for text, chosen in pieces:
        numerator = chosen if rows is None else chosen * rows
        yield f"{name} {text}", Ratio(numerator, rows, 0.0, (0.0, 1.0), counts=True)


def _bin(start: float, stop: float, last: bool, column: Numeric) -> str:
    if column.integer:
        text = _said(column)
        return text(start) if stop - start == 1 else f"{text(start)} to {text(stop - 1)}"
    return f"[{start:.6g}, {stop:.6g}{']' if last else ')'}"


def _said(column: Numeric) -> Callable[[float], str]:
    return date_of if column.kind == "date" else "{:.12g}".format


def _quantile(question: ParsedQuestion, name: str, column: Numeric, rows: Function | None) -> Quantile:
    level = 0.5 if question.number is None else question.number
    if not 0.0 < level < 1.0:
        raise wrong(question.columns[0].place, f"a level of {level:g} is not between 0 and 1", "Take 0.9.")
    return Quantile(name, column, level, ONE if rows is None else rows)
