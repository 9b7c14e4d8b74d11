"""Answers: estimates with intervals, from whatever a release knows of means.

Nothing private is read here: questions are answered from what was released, as often as anybody likes, at no
cost in privacy (post-processing).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from fedkme.answers.evidence import Evidence, Law
from fedkme.answers.functions import ONE, Function, Values, combined, inside, values_of
from fedkme.answers.grammar import parse
from fedkme.answers.intervals import critical, of_correlation, of_ratio, possible
from fedkme.answers.quantities import AskedPart, Moment, Quantile, Quantity, Ratio, Unit, parts_of
from fedkme.arrays import FloatArray
from fedkme.tables.schema import Schema
from fedkme.tables.table import Table

Target = Literal["rows", "population"]
MOST_UNSEEN = 0.4
"""Unseen part over standard deviation up to which an interval covers with 95 to 96.6 %."""
BOUNDED = "bounded: covers 95 % or more"
"""Words of an answer whose interval is wider than chance alone would make it."""
_STEPS = 512
_TAILS = 4.0
"""Factor of the sampling variance of a variance or a correlation that the release does not tell.

A law of exponential tails has it over a normal one: 8 against 2 sigma^4."""
_TOLD = 0.1
"""Part of a variance above which its interval has to be for a correlation to be told from it."""


@dataclass(frozen=True, slots=True)
class Answer:
    """One row of the answers to questions.

    Attributes:
        question: as it was asked.
        group: category, or bin, that it is about; empty: all.
        estimate: NaN where nothing is known.
        low: lower end of the 95 % interval; NaN without one.
        high: upper end.
        noise: standard deviation of the privacy noise in the estimate.
        sampling: standard deviation from N rows being a sample of a population; 0 where `target` is `rows`.
        unseen: bound on what the release cannot see; counted in the interval.
        target: what the interval is about: the rows held, or the population that they are drawn from.
        method: how it was computed, and what the interval leaves out.
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


@dataclass(frozen=True, slots=True)
class Made:
    """Rows that were made of a release, for questions that it does not answer itself, with their weights."""

    table: Table
    weights: FloatArray | None = None


def ask(
    evidence: Evidence,
    questions: str | Sequence[str],
    target: Target | None = None,
    made: Callable[[], Made | None] = lambda: None,
) -> list[Answer]:
    """Answer questions.

    Args:
        evidence: what the release knows.
        questions: one text, or several; each may hold several, with `;` between.
        target: of the intervals; None: the rows held for `count` and `sum`, the population for all else.
        made: rows of the release, for questions that it does not answer.

    Raises:
        QuestionError: a question is not understood, or is none about these columns.
    """
    return [_answer(evidence, part, target, made) for part in _parts(questions, evidence.schema)]


def in_rows(questions: str | Sequence[str], table: Table, schema: Schema) -> list[float]:
    """Answers of the rows of a table themselves, in the order of `ask`.

    Raises:
        QuestionError: a question is not understood, or is none about these columns.
    """
    made = Made(table)
    return [_in_rows(part.quantity, schema, len(table), made) for part in _parts(questions, schema)]


def _parts(questions: str | Sequence[str], schema: Schema) -> Sequence[AskedPart]:
    texts = [questions] if isinstance(questions, str) else questions
    return parts_of([each for text in texts for each in parse(text)], schema)


def _answer(
    evidence: Evidence, part: AskedPart, target: Target | None, made: Callable[[], Made | None]
) -> Answer:
    quantity = part.quantity
    about: Target = target or ("rows" if isinstance(quantity, Ratio) and quantity.total else "population")
    found = _of(quantity, evidence, about)
    if isinstance(found, str):
        return _unanswered(part, about, found, evidence, made)
    scale = evidence.rows if isinstance(quantity, Ratio) and quantity.total else 1.0
    limits = quantity.column.limits if isinstance(quantity, Quantile) else quantity.limits
    value, start, end = (each * scale for each in possible(found.value, found.low, found.high, limits))
    noise, sampling, unseen = (each * scale for each in (found.noise, found.sampling, found.unseen))
    deviation = math.hypot(found.noise, found.sampling)
    bounded = found.guessed or found.unseen > MOST_UNSEEN * deviation * (1 + 1e-9)
    method = f"{evidence.method}; {BOUNDED}" if bounded else evidence.method
    return Answer(
        part.question, part.group, value, start, end, noise, sampling, unseen, about, method, part.unit
    )


@dataclass(frozen=True, slots=True)
class _Found:
    value: float
    low: float
    high: float
    noise: float
    sampling: float
    unseen: float
    guessed: bool = False  # its length is no less than what chance makes it, and may be more


def _of(quantity: Quantity, evidence: Evidence, target: Target) -> _Found | str:
    """Estimate and interval, or why there is none."""
    match quantity:
        case Ratio():
            return _ratio(quantity, evidence, target)
        case Moment():
            return _moment(quantity, evidence, target)
        case Quantile():
            return _quantile(quantity, evidence, target)


def _ratio(quantity: Ratio, evidence: Evidence, target: Target) -> _Found | str:
    functions = (quantity.numerator, quantity.denominator or ONE)
    law = evidence.law(functions, (1.0, 0.0))
    if quantity.denominator is not None and not law.reason and law.means[1] > 0.0:
        law = evidence.law(functions, (1.0, -float(law.means[0] / law.means[1])))
    if law.reason:
        return law.reason
    over, under = law.means.tolist()
    if under <= 0.0:
        return "no row is known to be in this group"
    value = over / under
    aa, ab, bb = law.covariance[0, 0], law.covariance[0, 1], law.covariance[1, 1]
    noise2 = max(float(aa - 2 * value * ab + value**2 * bb), 0.0)
    more = 0.0
    if target == "population":
        more = _spread(evidence, combined((1.0, -value), functions))[0] / evidence.rows
        if quantity.counts and noise2:
            # A few rows are not a normal number, and none among N is not certainly none (Wilson 1927).
            more += (critical(0.0) / evidence.rows) ** 2
    factor = critical(_over(law.unseen, noise2 + more))
    more += 0.0 if noise2 + more else _least(law.unseen, factor)
    low, high = of_ratio((over, under), (float(aa), float(ab), float(bb)), more, factor)
    parts = (math.sqrt(noise2) / under, math.sqrt(more) / under, law.unseen / under)
    offset = quantity.offset
    return _Found(offset + value, offset + low, offset + high, *parts)


def _moment(quantity: Moment, evidence: Evidence, target: Target) -> _Found | str:
    start = evidence.law(quantity.functions, np.eye(len(quantity.functions))[0].tolist())
    if start.reason:
        return start.reason
    slope = _slope(quantity, start)
    if slope is None:
        return "its variance is not told from 0"
    law = evidence.law(quantity.functions, slope.tolist())
    if law.reason:
        return law.reason
    found = _slope(quantity, law)
    variances = [_moment(each, evidence, "rows") for each in quantity.variances]
    hidden = [each.unseen for each in variances if isinstance(each, _Found) and each.low > _TOLD * each.value]
    if found is None or len(hidden) < len(variances):
        return "its variance is not told from 0"
    unseen = law.unseen + quantity.curved(law.means, _unseen_means(quantity, law, evidence), hidden)
    if not math.isfinite(unseen):
        return "its variance is not told from 0"
    slope, value = found, quantity.value(law.means)
    noise2 = max(float(slope @ law.covariance @ slope), 0.0)
    more, told = 0.0, True
    if target == "population":
        influence = combined(slope.tolist(), quantity.functions, -float(slope @ law.means))
        spread, told = _spread(evidence, influence)
        more = spread * (1.0 if told else _TAILS) / evidence.rows
    deviation = math.sqrt(noise2 + more)
    half = critical(_over(unseen, noise2 + more)) * deviation if deviation else unseen
    low, high = of_correlation(value, half) if quantity.variances else (value - half, value + half)
    return _Found(value, low, high, math.sqrt(noise2), math.sqrt(more), unseen, not told)


def _slope(quantity: Moment, law: Law) -> FloatArray | None:
    """Gradient at estimated means; None where they are none of a distribution that varies."""
    if law.means[-1] <= 0.0:
        return None
    slope = quantity.slope(law.means)
    return slope if np.isfinite(slope).all() else None


def _unseen_means(quantity: Moment, law: Law, evidence: Evidence) -> list[float]:
    """Bounds on what cannot be seen of the mean of each column."""
    rows, found = float(law.means[-1]), list[float]()
    for place in quantity.columns:
        away = np.zeros(len(law.means))
        away[place], away[-1] = 1.0 / rows, -float(law.means[place]) / rows**2
        found.append(evidence.law(quantity.functions, away.tolist()).unseen)
    return found


def _quantile(quantity: Quantile, evidence: Evidence, target: Target) -> _Found | str:
    """Woodruff's interval: values at which the share below is not told from the level."""
    column, (low, high) = quantity.column, quantity.column.limits
    values = column.rounded(column.axis.value(np.linspace(0.0, 1.0, _STEPS + 1)))
    values = np.unique([*values, *column.atoms])
    level, rows = quantity.level, quantity.rows
    reasons: list[str] = []
    shares: dict[int, tuple[float, float, float, float]] = {}

    def share(place: int) -> tuple[float, float, float, float]:
        """Excess of the share up to a value over the level, its half-width, and both variances."""
        if place not in shares:
            below = inside(quantity.name, low, float(values[place]), closed=True) * rows
            law = evidence.law((below, rows), (1.0, -level))
            reasons.extend([law.reason] if law.reason else [])
            away = np.array([1.0, -level])
            noise2 = max(float(away @ law.covariance @ away), 0.0)
            under = max(float(law.means[1]), 0.0)
            more = level * (1.0 - level) * under / evidence.rows if target == "population" else 0.0
            half = critical(_over(law.unseen, noise2 + more)) * math.sqrt(noise2 + more)
            shares[place] = (float(away @ law.means), half or law.unseen, noise2, more)
        return shares[place]

    last = len(values) - 1
    share(last // 2)
    if reasons:
        return reasons[0]
    at = _first(last, lambda place: share(place)[0] >= 0.0)
    start = _first(at, lambda place: share(place)[0] + share(place)[1] >= 0.0)
    end = at + _first(last - at, lambda place: share(at + place)[0] - share(at + place)[1] >= 0.0)
    if reasons:
        return reasons[0]
    whole = column.integer and len(values) == high - low + 1
    ends = float(values[start if whole else max(start - 1, 0)]), float(values[end])
    _, _, noise2, more = share(at)
    deviation = (ends[1] - ends[0]) / (2.0 * critical(0.0))
    of_noise = math.sqrt(noise2 / (noise2 + more)) if noise2 + more else 0.0
    step = 0.0 if whole else (ends[1] - ends[0]) / 2.0
    parts = (deviation * of_noise, deviation * math.sqrt(1.0 - of_noise**2), step)
    return _Found(float(values[at]), *ends, *parts, guessed=True)


def _first(last: int, holds: Callable[[int], bool]) -> int:
    """The first place from 0 to `last` where what holds from some place on holds."""
    low, high = 0, last
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if holds(middle) else (middle + 1, high)
    return low


def _spread(evidence: Evidence, influence: Function) -> tuple[float, bool]:
    """Variance over rows of a function whose mean is 0 by its estimates, and whether it is told."""
    value, told = evidence.mean(influence.square)
    return max(value, 0.0), told


def _over(unseen: float, variance: float) -> float:
    return unseen / math.sqrt(variance) if variance > 0.0 else 0.0


def _least(unseen: float, factor: float) -> float:
    """Variance that makes an interval of the unseen part where there is no noise."""
    return (unseen / factor) ** 2


def _unanswered(
    part: AskedPart, target: Target, reason: str, evidence: Evidence, made: Callable[[], Made | None]
) -> Answer:
    """Answer with what rows that were made of the release have, without an interval."""
    nothing, rows = math.nan, made()
    value = math.nan
    if rows is not None:
        value = _in_rows(part.quantity, evidence.schema, evidence.rows, rows)
    method = f"no interval: {reason}"
    if rows is not None:
        method += "; the estimate is that of the synthetic rows, whose error nobody knows"
    return Answer(
        part.question,
        part.group,
        value,
        nothing,
        nothing,
        nothing,
        nothing,
        nothing,
        target,
        method,
        part.unit,
    )


def _in_rows(quantity: Quantity, schema: Schema, total: int, made: Made) -> float:
    values = values_of(made.table, schema)
    count = len(made.table)
    weights = np.full(count, 1.0 / count) if made.weights is None else made.weights

    def mean(function: Function) -> float:
        return float(weights @ np.broadcast_to(_evaluated(function, values), count))

    match quantity:
        case Ratio(numerator, denominator, offset):
            under = mean(denominator or ONE)
            value = offset + mean(numerator) / under if under > 0.0 else math.nan
            value = min(max(value, quantity.limits[0]), quantity.limits[1])  # weights may be negative
            scale = total if quantity.total else 1
        case Moment():
            means = np.array([mean(function) for function in quantity.functions])
            value, scale = quantity.value(means) if means[-1] > 0.0 else math.nan, 1
            value = min(max(value, quantity.limits[0]), quantity.limits[1])
        case Quantile(name, _, level, rows):
            held = np.broadcast_to(_evaluated(rows, values), count) * weights
            order = np.argsort(values[name])
            place = int(np.searchsorted(np.cumsum(held[order]), level * held.sum()))
            value, scale = float(values[name][order[min(place, count - 1)]]), 1
    return value * scale


def _evaluated(function: Function, values: Values) -> FloatArray:
    return function.of(values) if function.columns <= values.keys() else np.full((), math.nan)
