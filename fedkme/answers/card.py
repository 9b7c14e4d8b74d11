"""Answers as text, the ten usual answers of a data card, and the verdict on the release that follows."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from statistics import median
from typing import Any, Literal

from fedkme.answers.answer import Answer, ask
from fedkme.answers.evidence import Evidence
from fedkme.answers.functions import columns_of, names_of
from fedkme.answers.quantities import Unit
from fedkme.tables.cells import date_of
from fedkme.tables.schema import Schema

MOST = 10
"""Answers of a data card."""
_SEVERAL = 3
"""Columns of one kind that the usual questions are about, at most."""
GOOD = 0.5
"""Least share of the rows at which a release is good: it adds no more variance than sampling has."""
FAIR = 0.1
"""Least share of the rows at which a release is fair."""


@dataclass(frozen=True, slots=True)
class ReleaseVerdict:
    """Quality of the answers of a release, in words. No row is read for it.

    Attributes:
        grade: the verdict in one word.
        sentence: reason for the grade.
        advice: steps to a better release; empty for a good one.
    """

    grade: Literal["good", "fair", "poor"]
    sentence: str
    advice: str


def verdict_on(answers: Sequence[Answer]) -> ReleaseVerdict | None:
    """Judge a release by the noise and the unseen part of its card's answers, compared with sampling.

    Let s be an answer's sampling variance, v the square of its noise and u the square of its unseen part. An
    answer from N rows is then as precise as s / (s + v + u) N rows would be without noise. The grade follows
    from the median of that share; an answer without an interval or with a sampling variance of 0 has the
    share 0. Answers about the rows held are left out, as they have no sampling variance. So are answers after
    the tenth, which the card has because some of the first ten have no interval.

    Returns:
        The verdict; None if no answer is about the population.
    """
    graded = [answer for answer in answers[:MOST] if answer.target == "population"]
    if not graded:
        return None
    share = median(map(_effective_share, graded))
    grade: Literal["good", "fair", "poor"] = "good" if share >= GOOD else "fair" if share >= FAIR else "poor"
    sentence = f"answers from this release are as precise as from {100 * share:.3g} % of the owners' rows"
    return ReleaseVerdict(grade, sentence, "" if grade == "good" else _ADVICE)


def at_most_fair(verdict: Mapping[str, Any], doubts: Sequence[str]) -> dict[str, Any]:
    """Lower a good verdict to fair where rows or owners are in doubt, and say why.

    Args:
        verdict: `grade`, `sentence` and `advice`.
        doubts: reasons; without any the verdict stays.
    """
    if not doubts:
        return dict(verdict)
    grade = "fair" if verdict["grade"] == "good" else verdict["grade"]
    return {**verdict, "grade": grade, "sentence": f"{verdict['sentence']}; {'; '.join(doubts)}"}


def _effective_share(answer: Answer) -> float:
    """Share of the rows that would give the answer with the same precision, without noise."""
    if math.isnan(answer.low) or answer.sampling == 0.0:
        return 0.0
    return answer.sampling**2 / (answer.sampling**2 + answer.noise**2 + answer.unseen**2)


_ADVICE = (
    "Take a larger epsilon, more rows, or a method that counts what you ask for (docs/answers.md). "
    "'fedkme ask' gives the interval of each answer."
)


def usual_answers(
    evidence: Evidence,
    step: Callable[[str, Callable[[], list[Answer]]], list[Answer] | None] = lambda _, make: make(),
) -> list[Answer]:
    """Answers to the usual questions, and to further questions until ten answers have an interval.

    Args:
        evidence: means that the release gives.
        step: runs the step of a derivation (`fedkme.ops.derivation`), or returns None where the step fails;
            then the answers to that question are missing.
    """
    usual = usual_questions(evidence.schema)
    further = [question for question in _questions(evidence.schema, MOST) if question not in usual]
    answers: list[Answer] = []
    for question in [*usual, *further[:MOST]]:
        if len(answers) < MOST or sum(not math.isnan(answer.low) for answer in answers) < MOST:
            answers += step(f"the answer to {question}", partial(ask, evidence, question)) or []
    return answers


def usual_questions(schema: Schema) -> list[str]:
    """Questions about the first numeric columns, the label and the columns with the fewest categories."""
    return list(itertools.islice(_questions(schema, _SEVERAL), MOST))


def _quoted_name(name: str) -> str:
    return name if re.fullmatch(r"[^\W\d][\w.-]*", name) else f'"{name}"'


def _questions(schema: Schema, several: int) -> Iterator[str]:
    columns = {name: column for name, column in columns_of(schema).items() if '"' not in name}
    numbers = [_quoted_name(name) for name, column in columns.items() if not names_of(column)][:several]
    label = schema.label.name if schema.label is not None else ""
    named = [name for name, column in columns.items() if names_of(column) and "'" not in names_of(column)[-1]]
    named.sort(key=lambda name: (name != label, len(names_of(columns[name]))))
    tests = [f"{_quoted_name(name)} = '{names_of(columns[name])[-1]}'" for name in named][:several]
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
    """Answers as rows of a table, without the method."""
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
    """Values of an answer to six digits, as JSON has them; None in place of NaN."""
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
