"""Answers as text, the ten that a data card has without being asked, and what they say of the release."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from statistics import median
from typing import Any, Literal

from fedkme.answers.answer import Answer, ask
from fedkme.answers.evidence import Evidence
from fedkme.answers.functions import columns_of, names_of
from fedkme.answers.quantities import Unit
from fedkme.tables.columns import date_of
from fedkme.tables.schema import Schema

MOST = 10
_SEVERAL = 3
GOOD = 0.5
"""Share of the rows from which on a release is good: it adds no more variance than sampling has."""
FAIR = 0.1
"""Share of the rows from which on it is fair."""


@dataclass(frozen=True, slots=True)
class ReleaseVerdict:
    """Quality in words of what a release itself can answer; it reads no row.

    Attributes:
        grade: in one word.
        sentence: why.
        advice: what to try, empty where nothing needs to be.
    """

    grade: Literal["good", "fair", "poor"]
    sentence: str
    advice: str


def verdict_on(answers: Sequence[Answer]) -> ReleaseVerdict | None:
    """Judge a release by the parts of its card's intervals: noise and unseen beside sampling.

    Squares of noise v and unseen part u beside sampling variance s make an answer from N rows as exact as
    s / (s + v + u) N rows would be by themselves. The median over answers is graded; one without an interval,
    or without a sampling variance that is told from 0, counts as 0. Answers about the rows held have no
    sampling and are left out, as are those after the tenth, which stand in for some without an interval.

    Returns:
        The verdict, or None without an answer about the population.
    """
    about = [each for each in answers[:MOST] if each.target == "population"]
    if not about:
        return None
    share = median(map(_effective, about))
    grade: Literal["good", "fair", "poor"] = "good" if share >= GOOD else "fair" if share >= FAIR else "poor"
    sentence = f"the median answer of the card is as exact as {share:.2g} of the owners' rows would give it"
    return ReleaseVerdict(grade, sentence, "" if grade == "good" else _ADVICE)


def _effective(answer: Answer) -> float:
    """Share of the rows that would be as exact by themselves as an answer is."""
    if math.isnan(answer.low) or answer.sampling == 0.0:
        return 0.0
    return answer.sampling**2 / (answer.sampling**2 + answer.noise**2 + answer.unseen**2)


_ADVICE = (
    "A larger epsilon, more rows, or a method that counts what is asked (docs/answers.md) help; fedkme ask "
    "gives each answer's interval."
)


def usual_answers(
    evidence: Evidence,
    step: Callable[[str, Callable[[], list[Answer]]], list[Answer] | None] = lambda _, make: make(),
) -> list[Answer]:
    """Answers to the usual questions, and to further ones while fewer than ten have an interval.

    Each question is a step of who makes the card (`fedkme.ops.derivation`): one that fails costs its answers.
    """
    usual = usual_questions(evidence.schema)
    further = [each for each in _questions(evidence.schema, MOST) if each not in usual]
    found: list[Answer] = []
    for question in [*usual, *further[:MOST]]:
        if len(found) < MOST or sum(not math.isnan(each.low) for each in found) < MOST:
            found += step(f"the answer to {question}", partial(ask, evidence, question)) or []
    return found


def usual_questions(schema: Schema) -> list[str]:
    """Questions about the first numbers, and about the label and the columns of fewest categories."""
    return list(itertools.islice(_questions(schema, _SEVERAL), MOST))


def _named(name: str) -> str:
    return name if re.fullmatch(r"[^\W\d][\w.-]*", name) else f'"{name}"'


def _questions(schema: Schema, several: int) -> Iterator[str]:
    columns = {name: column for name, column in columns_of(schema).items() if '"' not in name}
    numbers = [_named(name) for name, column in columns.items() if not names_of(column)][:several]
    label = schema.label.name if schema.label is not None else ""
    named = [name for name, column in columns.items() if names_of(column) and "'" not in names_of(column)[-1]]
    named.sort(key=lambda name: (name != label, len(names_of(columns[name]))))
    tests = [f"{_named(name)} = '{names_of(columns[name])[-1]}'" for name in named][:several]
    yield from (f"share({test})" for test in tests)
    yield from (f"mean({name})" for name in numbers)
    if tests and numbers:
        yield f"mean({numbers[0]}) where {tests[0]}"
    if len(tests) > 1:
        yield f"share({tests[0]}) where {tests[1]}"
    if len(numbers) > 1:
        yield f"corr({numbers[0]}, {numbers[1]})"
    yield from (f"var({name})" for name in numbers)
    yield from (f"count({test})" for test in tests)


def rows_of(answers: Sequence[Answer]) -> list[tuple[str, ...]]:
    """Answers as cells of a table, method aside."""
    return [
        (
            answer.question,
            answer.group,
            _value(answer.estimate, answer.unit),
            _interval(answer),
            *(_text(part, answer.unit) for part in (answer.noise, answer.sampling, answer.unseen)),
            answer.target,
        )
        for answer in answers
    ]


def rounded(answer: Answer) -> dict[str, Any]:
    """Values of an answer, to six digits; None where there is none."""
    return {name: _plain(value) for name, value in asdict(answer).items()}


def _plain(value: Any) -> Any:
    if not isinstance(value, float):
        return value
    return None if math.isnan(value) else float(f"{value:.6g}")


def _interval(answer: Answer) -> str:
    if math.isnan(answer.low):
        return "none"
    return f"{_value(answer.low, answer.unit)} to {_value(answer.high, answer.unit)}"


def _value(value: float, unit: Unit) -> str:
    return date_of(value) if unit == "date" and not math.isnan(value) else _text(value)


def _text(value: float, unit: Unit = "number") -> str:
    if math.isnan(value):
        return "-"
    return (f"{value:.4g}" if abs(value) < 1e4 else f"{value:.0f}") + (" days" if unit == "date" else "")
