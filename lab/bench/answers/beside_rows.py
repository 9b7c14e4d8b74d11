"""Errors of answers beside those of the synthetic rows in the same folder, by question.

A release of marginals of fresh rows, its answers, and the answers of its synthetic rows: all are held against
the owners' rows, for counts and sums as for shares and means, since sampling would blur both.
"""

from __future__ import annotations

import asyncio
import io
import math
from collections import defaultdict
from dataclasses import dataclass, replace

import numpy as np

from audit.in_memory import FreshNoise
from curator.releases.methods.marginals import MarginalsMethod
from fedkme.answers.answer import NOT_TOLD, ask, in_rows
from fedkme.answers.folder import evidence_of
from fedkme.answers.made_rows import WeightedTable
from fedkme.releases.settings import MarginalsSettings
from fedkme.tables.table import Table
from lab.bench.answers.populations import PEOPLE, Population, population

MORE = (
    "corr(age, income)",
    "count(region = 'd' and ill = 'yes')",
    "share(age < 30) by region",
    "quantile(age, 0.95)",
    "mean(income) where visits >= 4",
)
"""Questions beside those of the coverage of intervals, 25 together."""


@dataclass(frozen=True, slots=True)
class ErrorBesideRows:
    """Errors of one answer, and what the release tells without its rows.

    Attributes:
        question: text of the question; a question by groups has several answers.
        form: kind of the question.
        of_answer: error of the product's answer.
        of_rows: error of the synthetic rows' answer.
        linear: error of the released means' answer; NaN where the release does not tell.
        doubt: deviation of its noise and of what bins hide.
        ends: ends of its interval about the owners' rows, less the truth.
    """

    question: str
    form: str
    of_answer: float
    of_rows: float
    linear: float
    doubt: float
    ends: tuple[float, float]


def people(rows: int) -> Population:
    """`rows` people of the benchmark, with all 25 questions, at epsilon 1."""
    own = population(PEOPLE, 0)
    more = {question: question.partition("(")[0] for question in MORE}
    return replace(own, questions={**own.questions, **more}, rows=rows, epsilon=1.0)


def errors_beside_rows(own: Population, seed: int) -> list[ErrorBesideRows]:
    """Errors of all answers of one release of fresh rows."""
    schema, questions = own.schema, list(own.questions)
    table = own.sampled(np.random.default_rng([seed, own.rows]))
    method = MarginalsMethod(MarginalsSettings(epsilon=own.epsilon, copies=0, seed=seed), schema, None, seed)
    release = asyncio.run(method.ask(FreshNoise(table, schema, 1_000_003 * own.rows + seed)))
    arrays = np.load(io.BytesIO(method.finish(release, lambda *_: None).files["synthetic.npz"]))
    made, evidence = Table(arrays["x"], arrays.get("y")), evidence_of(release)
    alone = ask(evidence, questions, "rows")
    answers = ask(evidence, questions, synthetic=lambda: WeightedTable(made))
    of_rows, truths = in_rows(questions, made, schema), in_rows(questions, table, schema)
    errors = []
    for linear, answer, other, truth in zip(alone, answers, of_rows, truths, strict=True):
        error = math.nan if NOT_TOLD in answer.method else linear.estimate - truth
        doubt = math.hypot(linear.noise, linear.unseen / math.sqrt(3.0))
        ends = linear.low - truth, linear.high - truth
        text = answer.question
        errors.append(
            ErrorBesideRows(
                text, own.questions[text], answer.estimate - truth, other - truth, error, doubt, ends
            )
        )
    return errors


def ratios_beside_rows(own: Population, seeds: range) -> list[dict[str, str | float | int]]:
    """RMSE of answers over that of the synthetic rows, for each question: a line with its 2.5 % quantile.

    The quantile is of 2,000 draws of the releases with replacement. Releases in which the rows have no value
    are left out.
    """
    squares: defaultdict[str, list[tuple[float, float]]] = defaultdict(list)
    for seed in seeds:
        parts: defaultdict[str, list[tuple[float, float]]] = defaultdict(list)
        for each in errors_beside_rows(own, seed):
            if math.isfinite(each.of_answer) and math.isfinite(each.of_rows):
                parts[each.question].append((each.of_answer**2, each.of_rows**2))
        for question, pairs in parts.items():
            answer, rows = np.mean(pairs, axis=0)
            squares[question].append((float(answer), float(rows)))
    lines: list[dict[str, str | float | int]] = []
    for question, pairs in squares.items():
        values, random = np.array(pairs), np.random.default_rng(0)
        draws = values[random.integers(0, len(values), (2000, len(values)))].mean(axis=1)
        ratio, *drawn = (_ratio(*each) for each in (values.mean(axis=0), *draws))
        low = round(float(np.quantile(drawn, 0.025)), 3)
        lines.append({"question": question, "releases": len(values), "ratio": round(ratio, 3), "low": low})
    return lines


def _ratio(answer: float, rows: float) -> float:
    if rows > 0.0:
        return math.sqrt(answer / rows)
    return 1.0 if answer == 0.0 else math.inf
