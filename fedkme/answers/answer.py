"""Answers to questions: estimates with intervals, drawn to the synthetic rows.

Answers are post-processing of a release. They read nothing private and cost no privacy, however many
questions are asked.
"""

import math
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass

from fedkme.answers.correlations import Target
from fedkme.answers.estimates import estimate_of
from fedkme.answers.evidence import Evidence
from fedkme.answers.grammar import parse
from fedkme.answers.intervals import possible
from fedkme.answers.made_rows import WeightedTable, drawn_to, value_in_rows
from fedkme.answers.quantities import QuestionPart, Ratio, Unit, parts_of
from fedkme.errors import DataError
from fedkme.tables.schema import Schema
from fedkme.tables.table import Table

MOST_UNSEEN = 0.4
"""Ratio of `unseen` to the standard deviation up to which an interval covers with 95 to 96.6 %."""
BOUNDED = "bounded: covers 95 % or more"
"""Note in the method of an answer whose interval may be wider than noise and sampling alone require."""
DRAWN = "drawn to the synthetic rows"
NOT_TOLD = "the release does not tell"
"""Notes in an answer's method: its estimate is of made rows, too; its interval is all that is possible."""
FAR_ROWS = "the synthetic rows are far off"
"""Note in an answer's method: made rows are farther from its interval than the interval is long."""


@dataclass(frozen=True, slots=True)
class Answer:
    """One answer: an estimate with its interval.

    Attributes:
        question: text of the question.
        group: category or bin that the answer is about; empty: all rows.
        estimate: NaN where nothing is known.
        low: lower end of the 95 % interval; NaN where there is no interval.
        high: upper end of the interval.
        noise: standard deviation of the privacy noise in the estimate.
        sampling: standard deviation from N rows being a sample of a population; 0 where `target` is `rows`.
        unseen: bound on the error that the release cannot see, such as where rows lie in their bins; the
            interval includes it.
        target: subject of the interval: the rows held, or the population that they are drawn from.
        method: way in which the answer was computed, and what the interval leaves out.
        unit: `date` where the estimate and its interval are days from 1970-01-01.
    """

    question: str
    group: str
    estimate: float
    low: float
    high: float
    noise: float
    sampling: float
    unseen: float
    target: Target
    method: str
    unit: Unit


def ask(
    evidence: Evidence,
    questions: str | Sequence[str],
    target: Target | None = None,
    synthetic: Callable[[], WeightedTable | None] = lambda: None,
) -> list[Answer]:
    """Answer questions.

    Args:
        evidence: means that the release gives.
        questions: one text or several texts; a text may hold several questions, with `;` between them.
        target: subject of the intervals; None: the rows held for `count` and `sum`, else the population.
        synthetic: gives the synthetic rows of the release, which answer where its means do not.

    Raises:
        QuestionError: a question is not understood, or does not fit the schema.
    """
    return [_answer(evidence, part, target, synthetic) for part in _parts(questions, evidence.schema)]


def in_rows(questions: str | Sequence[str], table: Table, schema: Schema) -> list[float]:
    """Exact answers of the rows of a table, in the order of `ask`.

    Raises:
        QuestionError: a question is not understood, or does not fit the schema.
    """
    rows = WeightedTable(table)
    return [value_in_rows(part.quantity, schema, len(table), rows) for part in _parts(questions, schema)]


def _parts(questions: str | Sequence[str], schema: Schema) -> Sequence[QuestionPart]:
    texts = [questions] if isinstance(questions, str) else questions
    return parts_of([each for text in texts for each in parse(text)], schema)


def _answer(
    evidence: Evidence,
    part: QuestionPart,
    target: Target | None,
    synthetic: Callable[[], WeightedTable | None],
) -> Answer:
    quantity = part.quantity
    total = isinstance(quantity, Ratio) and quantity.total
    about: Target = target or ("rows" if total else "population")
    estimate = estimate_of(quantity, evidence, about)
    if isinstance(estimate, str):
        return _unanswered(part, about, estimate, evidence, synthetic())
    scale = evidence.rows if total else 1.0
    ends = possible(estimate.value, estimate.low, estimate.high, quantity.limits)
    errors = (estimate.noise, estimate.sampling, estimate.unseen)
    value, low, high, noise, sampling, unseen = (each * scale for each in (*ends, *errors))
    deviation = math.hypot(estimate.noise, estimate.sampling)
    method = evidence.method + estimate.assumption
    if about == "population" and evidence.together > 1:
        method += f"; up to {evidence.together} rows of a person or group may be alike"
    if estimate.bounded or estimate.unseen > MOST_UNSEEN * deviation * (1 + 1e-9):
        method += f"; {BOUNDED}"
    tells = (low, high) != tuple(scale * limit for limit in quantity.limits)
    if not tells:
        method += f"; {NOT_TOLD}"
    with suppress(DataError):  # the release tells all the same where its rows cannot be read
        if (rows := synthetic()) is not None:
            made = value_in_rows(quantity, evidence.schema, evidence.rows, rows)
            drawn = drawn_to(made, value, noise**2 + unseen**2 / 3) if tells else made  # unseen: uniform
            if math.isfinite(drawn) and drawn != value:
                value = min(max(drawn, low), high)
                method += f"; {DRAWN}" if tells else ": the value of the synthetic rows"
                if about == "population" and max(low - made, made - high) > high - low:
                    method += f"; {FAR_ROWS}: {made:.4g}"
            elif not tells and math.isnan(made):
                value, method = math.nan, f"{method}, nor do the synthetic rows"
    return Answer(
        part.question, part.group, value, low, high, noise, sampling, unseen, about, method, part.unit
    )


def _unanswered(
    part: QuestionPart, target: Target, reason: str, evidence: Evidence, synthetic: WeightedTable | None
) -> Answer:
    """Answer without an interval: the value in the synthetic rows, where there are any."""
    value, method, none = math.nan, f"no interval: {reason}", math.nan
    if synthetic is not None:
        value = value_in_rows(part.quantity, evidence.schema, evidence.rows, synthetic)
        known = "; the estimate is that of the synthetic rows, with an unknown error"
        method += "; the synthetic rows have none, either" if math.isnan(value) else known
    return Answer(part.question, part.group, value, none, none, none, none, none, target, method, part.unit)
