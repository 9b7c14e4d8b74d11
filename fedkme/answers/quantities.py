"""Quantities that questions ask for: each is built from means of functions of a row, and has its limits."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal, TypeAlias

from fedkme.answers.conditions import Conditions
from fedkme.answers.functions import ONE, Function, combined, equal, inside, none_of, number
from fedkme.answers.grammar import ParsedQuestion, wrong
from fedkme.errors import QuestionError
from fedkme.tables.cells import date_of
from fedkme.tables.schema import Numeric, Schema

Unit = Literal["number", "date"]
"""Unit of an answer. `date`: a day, counted from 1970-01-01; its deviations are in days."""
MOST_BINS = 1000
MOST_ANSWERS = 10_000


@dataclass(frozen=True, eq=False, slots=True)
class Ratio:
    """offset + E numerator / E denominator, or N times that.

    Attributes:
        numerator: function whose mean is taken; 0 for rows that the question is not about.
        denominator: 1 for the rows that the question is about, else 0; None: all rows.
        offset: public number by which the numerator was centred.
        limits: smallest and largest possible value.
        total: whether the answer is a number of rows or a sum over rows: N times the mean.
        counts: whether the quantity is a share of rows, or their number.
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
        name: name of the column.
        column: description of the column.
        rows: 1 for the rows that the question is about, else 0; None: all rows.
    """

    name: str
    column: Numeric
    rows: Function | None

    @property
    def limits(self) -> tuple[float, float]:
        """Smallest and largest possible variance."""
        low, high = self.column.limits
        return 0.0, (high - low) ** 2 / 4.0

    @property
    def mean(self) -> Ratio:
        """Mean of the column over these rows."""
        return _mean(self.name, self.column, self.rows, total=False)

    def around(self, centre: float) -> Ratio:
        """Mean square distance to a number: the variance plus the squared distance of the mean."""
        low, high = self.column.limits
        square = number(self.name, centre).square
        most = max(centre - low, high - centre) ** 2
        return Ratio(square * (self.rows or ONE), self.rows, 0.0, (0.0, most))


@dataclass(frozen=True, eq=False, slots=True)
class Correlation:
    """Correlation of two columns over some rows.

    Attributes:
        one, two: variance of each column over the rows, which have both numbers.
        everybody: whether all rows that have both numbers are asked about.
    """

    one: Variance
    two: Variance
    everybody: bool

    limits = (-1.0, 1.0)

    def around(self, centres: Sequence[float], deviations: Sequence[float]) -> Ratio:
        """Mean of the product of both columns over the mean of half their squares, each centred and scaled.

        With the true means and deviations this ratio is the correlation. Let A and B be the variances, d and
        e the distances of the means from the centres, all in the given units, and r the correlation. Then the
        ratio is (r sqrt(A B) + d e) / ((A + d^2 + B + e^2) / 2), so its error is of second order in the
        errors of centres and units.

        Args:
            centres: a number that is taken off each column.
            deviations: a unit by which each column is divided.
        """
        columns = zip((self.one, self.two), centres, deviations, strict=True)
        a, b = (combined((1.0 / unit,), (number(each.name, centre),)) for each, centre, unit in columns)
        rows = self.one.rows or ONE
        return Ratio(a * b * rows, combined((0.5, 0.5), (a.square, b.square)) * rows, 0.0, self.limits)


@dataclass(frozen=True, eq=False, slots=True)
class Quantile:
    """Smallest value of a column that at least a share `level` of rows do not exceed.

    Attributes:
        name: name of the column.
        column: description of the column.
        level: the share, above 0 and below 1.
        rows: 1 for the rows that the question is about, else 0.
    """

    name: str
    column: Numeric
    level: float
    rows: Function

    @property
    def limits(self) -> tuple[float, float]:
        """Smallest and largest possible value."""
        return self.column.limits


Quantity: TypeAlias = Ratio | Variance | Correlation | Quantile


@dataclass(frozen=True, eq=False, slots=True)
class QuestionPart:
    """One answer of a question: its group, such as `sex = Female` or a bin, and its quantity."""

    question: str
    group: str
    quantity: Quantity
    unit: Unit = "number"


def parts_of(questions: Sequence[ParsedQuestion], schema: Schema) -> list[QuestionPart]:
    """Parts of questions, in order: a question by a column, or for a histogram, has many.

    Raises:
        QuestionError: a column, a category or an argument that does not fit the schema.
    """
    conditions = Conditions(schema)
    parts: list[QuestionPart] = []
    for question in questions:
        unit = _unit(question, conditions)
        for name, rows in _groups(question, conditions):
            for piece, quantity in _quantities(question, rows, conditions):
                group = ", ".join(text for text in (name, piece) if text)
                parts.append(QuestionPart(question.text, group, quantity, unit))
    if len(parts) > MOST_ANSWERS:
        raise QuestionError(
            f"these questions have {len(parts)} answers and {MOST_ANSWERS} are the limit", "Ask in parts."
        )
    return parts


def _unit(question: ParsedQuestion, conditions: Conditions) -> Unit:
    if question.call not in ("mean", "median", "quantile"):
        return "number"
    return "date" if conditions.number(question.columns[0], question.call).kind == "date" else "number"


def _groups(question: ParsedQuestion, conditions: Conditions) -> Iterator[tuple[str, Function | None]]:
    """Name of each group, and the function that is 1 for its rows; None: all rows."""
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
    everybody = rows is None
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
            yield "", Correlation(one, two, everybody)
        case call:
            yield "", _mean(name, column, rows, total=call == "sum")


def _counted(question: ParsedQuestion, rows: Function | None, conditions: Conditions) -> Ratio:
    numerator = rows or ONE
    if question.condition is not None:
        condition = conditions.function(question.condition)
        numerator = condition if rows is None else condition * rows
    if question.call == "count":
        return Ratio(numerator, None, 0.0, (0.0, 1.0), total=True, counts=True)
    return Ratio(numerator, rows, 0.0, (0.0, 1.0), counts=True)


def _mean(name: str, column: Numeric, rows: Function | None, total: bool) -> Ratio:
    low, high = column.limits
    middle = 0.0 if total and rows is not None else (low + high) / 2.0  # a row that is left out adds 0
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
    edges = [] if column.values else column.axis.edges(int(bins)).tolist()
    pieces = [(f"= {_formatter(column)(atom)}", equal(name, atom)) for atom in column.singles]
    for start, stop in pairwise(edges):
        last = stop == edges[-1]
        chosen = inside(name, start, column.bounds[1] if last else stop, closed=last)
        if column.singles:
            chosen = chosen * none_of(name, column.singles)
        pieces.append((_bin(start, stop, last, column), chosen))
    for text, chosen in pieces:
        numerator = chosen if rows is None else chosen * rows
        yield f"{name} {text}", Ratio(numerator, rows, 0.0, (0.0, 1.0), counts=True)


def _bin(start: float, stop: float, last: bool, column: Numeric) -> str:
    if column.integer:
        text = _formatter(column)
        return text(start) if stop - start == 1 else f"{text(start)} to {text(stop - 1)}"
    return f"[{start:.6g}, {stop:.6g}{']' if last else ')'}"


def _formatter(column: Numeric) -> Callable[[float], str]:
    return date_of if column.kind == "date" else "{:.12g}".format


def _quantile(question: ParsedQuestion, name: str, column: Numeric, rows: Function | None) -> Quantile:
    level = 0.5 if question.number is None else question.number
    if not 0.0 < level < 1.0:
        raise wrong(
            question.columns[0].place, f"a level of {level:g} is not above 0 and below 1", "Take 0.9."
        )
    return Quantile(name, column, level, ONE if rows is None else rows)
