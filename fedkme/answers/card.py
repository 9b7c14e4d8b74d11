"""Answers as text, the ten usual answers of a data card, and the verdict on the release that follows."""

import itertools
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict
from functools import partial
from statistics import median
from typing import Any

from fedkme.answers.answer import FAR_ROWS, Answer, ask
from fedkme.answers.evidence import Evidence
from fedkme.answers.functions import columns_of, names_of
from fedkme.answers.grammar import parse
from fedkme.answers.made_rows import WeightedTable
from fedkme.answers.quantities import Unit
from fedkme.tables.cells import date_of
from fedkme.tables.schema import Schema
from fedkme.verdict import CANNOT_TELL, USES, Grade, QualityVerdict, overall

MOST = 10
"""Answers of a data card."""
_SEVERAL = 3
"""Columns of one kind that the usual questions are about, at most."""
GOOD = 0.5
"""Least share of the rows at which a release is good: it adds no more variance than sampling has."""
FAIR = 0.1
"""Least share of the rows at which a release is fair."""


def verdict_on(
    answers: Sequence[Answer], labelled: bool = True, models: tuple[str, str] | None = None
) -> QualityVerdict | None:
    """Judge a release by the noise and the unseen part of its card's answers, compared with sampling.

    Let s be an answer's sampling variance, v the square of its noise and u the square of its unseen part. An
    answer from N rows is then as precise as s / (s + v + u) N rows would be without noise. The grade of
    questions follows from the median of that share; an answer without an interval or with a sampling variance
    of 0 has the share 0. Answers about the rows held are left out, as they have no sampling variance. So are
    answers after the tenth, which the card has because some of the first ten have no interval.

    Columns and pairs have the grade of the answers about one column and about several, except that imprecise
    answers do not make them poor: rows are fitted to all that was released at once, and are at times much
    closer to the owners' than each answer is. They are fair at most where rows are far outside an answer's
    interval. No answer sees what models see; a screen for dependences may.

    Args:
        answers: answers of the card.
        labelled: true where rows have a label, so that a model can be trained.
        models: grade of models and its reason, where the release has a screen.

    Returns:
        The verdict; None if no answer is about the population.
    """
    graded = [answer for answer in answers[:MOST] if answer.target == "population"]
    if not graded:
        return None
    share = median(map(_effective_share, graded))
    grades = dict.fromkeys(USES, CANNOT_TELL) | {"questions": str(_grade(share))}
    reasons = {
        "columns": "answers are imprecise, rows may be closer",
        "pairs": "likewise",
        "models": "nothing here has trained one" if labelled else "no column is a label",
        "questions": f"answers are as precise as from {_percent(share)} of the rows",
    }
    if models is not None:
        grades["models"], reasons["models"] = models
    for use, several in (("columns", False), ("pairs", True)):
        about = [_effective_share(each) for each in graded if _is_of_several(each.question) is several]
        if about and (grade := _grade(median(about))) != "poor":
            grades[use], reasons[use] = grade, f"as precise as from {_percent(median(about))} of the rows"
        far = [each.question for each in graded if FAR_ROWS in each.method]
        if far := [question for question in far if _is_of_several(question) is several]:
            grades[use] = "fair" if grades[use] == "good" else grades[use]
            reasons[use] = f"{far[0]} of the rows is far outside the release's interval"
    return QualityVerdict(overall(grades), reasons["questions"], advice_on(grades), grades, reasons)


def _percent(share: float) -> str:
    """A share in percent with two digits: more would claim too much."""
    if share < 1e-3:
        return "less than 0.1 %"
    return f"{float(f'{100 * share:.2g}'):g} %"


def _grade(share: float) -> Grade:
    return "good" if share >= GOOD else "fair" if share >= FAIR else "poor"


def _is_of_several(question: str) -> bool:
    """Check for a question of the card about more than one column."""
    (parsed,) = parse(question)
    return len(parsed.columns) > 1 or parsed.where is not None


def advice_on(grades: Mapping[str, str]) -> str:
    """Say what to do with a release of these grades."""
    usable = [use for use in USES if grades.get(use) in ("good", "fair")]
    rows = [use for use in usable if use != "questions"]
    steps = [f"use the rows for {_listed(rows)}"] if rows else []
    steps += ["ask with `fedkme ask`, which gives intervals"] if "questions" in usable else []
    if poor := [use for use in USES if grades.get(use) == "poor"]:
        steps.append(f"for {_listed(poor)}, take a larger epsilon, more rows of owners or another method")
    if grades.get("models") == CANNOT_TELL:
        steps.append("before you rely on a model, score it on rows of your own")
    return " ".join(f"{step[:1].upper()}{step[1:]}." for step in steps)


def _listed(uses: Sequence[str]) -> str:
    return " and ".join(filter(None, (", ".join(uses[:-1]), uses[-1])))


def _effective_share(answer: Answer) -> float:
    """Share of the rows that would give the answer with the same precision, without noise."""
    if math.isnan(answer.low) or answer.sampling == 0.0:
        return 0.0
    return answer.sampling**2 / (answer.sampling**2 + answer.noise**2 + answer.unseen**2)


def usual_answers(
    evidence: Evidence,
    made: WeightedTable | None = None,
    step: Callable[[str, Callable[[], list[Answer]]], list[Answer] | None] = lambda _, make: make(),
) -> list[Answer]:
    """Answers to the usual questions, and to further questions until ten answers have an interval.

    Args:
        evidence: means that the release gives.
        made: rows that were made from the release, to which answers are drawn.
        step: runs the step of a derivation (`fedkme.ops.derivation`), or returns None where the step fails;
            then the answers to that question are missing.
    """
    usual = usual_questions(evidence.schema)
    further = [question for question in _questions(evidence.schema, MOST) if question not in usual]
    answers: list[Answer] = []
    for question in [*usual, *further[:MOST]]:
        if len(answers) < MOST or sum(not math.isnan(answer.low) for answer in answers) < MOST:
            answers += (
                step(f"the answer to {question}", partial(ask, evidence, question, None, lambda: made)) or []
            )
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
