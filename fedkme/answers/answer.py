"""Answers: estimates with intervals, from whatever a release knows of means.

Nothing private is read here: questions are answered from what was released, as often as anybody likes, at no
cost in privacy (post-processing).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Literal

import numpy as np

from fedkme.answers.evidence import Evidence, Law, Spread
from fedkme.answers.functions import ONE, Function, Values, inside, values_of
from fedkme.answers.grammar import parse
from fedkme.answers.intervals import LEVEL, SURE, Bound, Released, critical, possible
from fedkme.answers.quantities import (
    AskedPart,
    Correlation,
    Quantile,
    Quantity,
    Ratio,
    Unit,
    Variance,
    parts_of,
)
from fedkme.arrays import FloatArray
from fedkme.tables.schema import Schema
from fedkme.tables.table import Table

Target = Literal["rows", "population"]
MOST_UNSEEN = 0.4
"""Unseen part over standard deviation up to which an interval covers with 95 to 96.6 %."""
BOUNDED = "bounded: covers 95 % or more"
"""Words of an answer whose interval is wider than chance alone would make it."""
_STEPS, _STRIDE = 512, 8
_TRIES, _CLOSE = 30, 1e-5
"""Steps to an end of an interval, and its error over the distance from the estimate."""
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
    method = evidence.method + found.supposed
    if about == "population" and evidence.together > 1:
        method += f"; up to {evidence.together} rows of a person or group may be alike"
    if found.guessed or found.unseen > MOST_UNSEEN * deviation * (1 + 1e-9):
        method += f"; {BOUNDED}"
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
    supposed: str = ""
    guessed: bool = False  # its length is no less than what chance makes it, and may be more


def _of(quantity: Quantity, evidence: Evidence, target: Target) -> _Found | str:
    """Estimate and interval, or why there is none."""
    match quantity:
        case Ratio():
            return _ratio(quantity, evidence, target)
        case Variance():
            return _variance(quantity, evidence, target)
        case Correlation():
            return _correlation(quantity, evidence, target)
        case Quantile():
            return _quantile(quantity, evidence, target)


def _ratio(quantity: Ratio, evidence: Evidence, target: Target, level: float = LEVEL) -> _Found | str:
    """All q at which the mean of numerator - q denominator is not told from 0 (Fieller)."""
    functions = (quantity.numerator, quantity.denominator or ONE)
    law = evidence.law(functions, (1.0, 0.0))
    if law.reason:
        return law.reason
    over, under = law.means.tolist()
    if under <= 0.0:
        return "no row is known to be in this group"
    value = over / under
    spread = _Spreads(quantity, evidence, target)

    @cache
    def ends(q: float) -> tuple[float, float]:
        """Interval of the mean of numerator - q denominator."""
        law = evidence.law(functions, (1.0, -q))
        return law.whole.ends(spread.at(q, law).most, level)

    law = evidence.law(functions, (1.0, -value))
    if law.reason:
        return law.reason
    own = spread.at(value, law)  # the first, which others are guessed by
    least, most = (each - quantity.offset for each in quantity.limits)
    low = _crossing(lambda q: ends(q)[0], min(least, value), value)
    high = _crossing(lambda q: -ends(q)[1], max(most, value), value)
    noise, sampling, unseen = law.whole.middle.deviation, math.sqrt(own.estimate), law.whole.unseen
    value, low, high = (quantity.offset + each for each in (value, low, high))
    guessed = not own.told or (target == "population" and evidence.together > 1)
    parts = noise / under, sampling / under, unseen / under
    return _Found(value, low, high, *parts, supposed=law.supposed, guessed=guessed)


@dataclass(frozen=True, slots=True)
class _Spreads:
    """Variance of sampling of the mean of numerator - q denominator, where that is 0 in the population."""

    quantity: Ratio
    evidence: Evidence
    target: Target

    def at(self, q: float, law: Law) -> Spread:
        """The variance at q, whose `estimate` is that of independent rows.

        Rows of one person may be all alike: the square of a sum of m numbers is at most m times the sum of
        their squares. A few rows are not a normal number, and none among N is not certainly none (Wilson
        1927).
        """
        if self.target == "rows":
            return Spread(0.0, Bound(0.0), told=True)
        rows, together = self.evidence.rows, self.evidence.together
        own, few = self._square(q), 0.0
        if self.quantity.counts and max(law.whole.least.deviation, law.whole.most.deviation) > 0.0:
            few = (critical(0.0) / rows) ** 2
        most = own.most.value * together / rows + few * together**2
        return Spread(own.estimate / rows + few, Bound(most, own.most.doubt), own.told)

    def _square(self, q: float) -> Spread:
        if not self.quantity.counts:
            functions = (self.quantity.numerator, self.quantity.denominator or ONE)
            return self.evidence.spread(functions, (1.0, -q))
        varies, group = max(q * (1.0 - q), 0.0), _share_of(self.quantity.denominator, self.evidence)
        return Spread(varies * group.estimate, Bound(varies * group.most.value, group.most.doubt), group.told)


def _share_of(rows: Function | None, evidence: Evidence) -> Spread:
    """Share of the rows that a question is about."""
    if rows is None:
        return Spread(1.0, Bound(1.0), told=True)
    return evidence.spread((rows, ONE), (1.0, 0.0))


def _crossing(excess: Callable[[float], float], limit: float, value: float) -> float:
    """The limit, or a number with an excess right before one without (secants, a step beside each)."""
    if limit == value or (outer := excess(limit)) <= 0.0:
        return limit
    if (inner := excess(value)) >= 0.0:
        return value
    start, end = limit, value
    for turn in range(_TRIES):
        part = 0.5 if turn % 4 == 3 else outer / (outer - inner)
        middle = start + (end - start) * part
        step = _CLOSE * (value - middle)
        if (found := excess(middle)) > 0.0:
            start, outer = middle, found
            if (found := excess(middle + step)) <= 0.0:
                break
        else:
            end, inner = middle, found
            if (found := excess(middle - step)) > 0.0:
                return middle - step
    return start


def _variance(quantity: Variance, evidence: Evidence, target: Target, level: float = LEVEL) -> _Found | str:
    """The mean square distance to the estimated mean, which is off by the square of that one's error."""
    centred = _centred(quantity, evidence, target)
    if isinstance(centred, str):
        return centred
    centre, away = centred
    found = _ratio(quantity.around(centre), evidence, target, level + 1.0 - SURE)
    if isinstance(found, str):
        return found
    return replace(found, low=found.low - away**2, high=found.high + away**2)


def _centred(quantity: Variance, evidence: Evidence, target: Target) -> tuple[float, float] | str:
    """Estimated mean, and how far the mean is from there at most, at the level SURE."""
    mean = _ratio(quantity.mean, evidence, target, SURE)
    if isinstance(mean, str):
        return mean
    low, high = quantity.column.limits
    centre = min(max(mean.value, low), high)
    return centre, max(mean.high - centre, centre - mean.low)


def _correlation(quantity: Correlation, evidence: Evidence, target: Target) -> _Found | str:
    rest = 2.0 * (1.0 - SURE)  # a variance's own chance to be wrong, and that of the mean which it rests on
    columns, both = (quantity.one, quantity.two), list[tuple[float, float, _Found]]()
    for column in columns:
        centred, variance = (
            _centred(column, evidence, target),
            _variance(column, evidence, target, 1.0 - rest),
        )
        if isinstance(centred, str):
            return centred
        if isinstance(variance, str):
            return variance
        if not variance.low > _TOLD * variance.value > 0.0:
            return "its variance is not told from 0"
        both.append((*centred, variance))
    (one, away, first), (two, apart, second) = both
    units = math.sqrt(first.value), math.sqrt(second.value)
    found = _ratio(quantity.around((one, two), units), evidence, target, LEVEL + 2.0 * rest)
    if isinstance(found, str):
        return found
    # In these units: least and most variances, and the distances of both means.
    a, b = ((each.low / each.value, each.high / each.value) for each in (first, second))
    d, e = away / units[0], apart / units[1]
    unlike = max((t + 1.0 / t) / 2.0 for t in (math.sqrt(a[0] / b[1]), math.sqrt(a[1] / b[0])))
    least = math.sqrt(a[0] * b[0])
    more, off = unlike + (d * d + e * e) / (2.0 * least), d * e / least
    low, high = min(found.low, found.low * more) - off, max(found.high, found.high * more) + off
    return replace(found, low=low, high=high)


def _quantile(quantity: Quantile, evidence: Evidence, target: Target) -> _Found | str:
    """Woodruff's interval: values at which the share below is not told from the level."""
    column, (low, high) = quantity.column, quantity.column.limits
    values = column.rounded(column.axis.value(np.linspace(0.0, 1.0, _STEPS + 1)))
    values = np.unique([*values, *column.atoms])
    level, rows = quantity.level, quantity.rows
    if reason := evidence.law((rows,), (1.0,)).reason:
        return reason
    group = _share_of(None if rows is ONE else rows, evidence)
    varies = level * (1.0 - level) / evidence.rows if target == "population" else 0.0
    more = Bound(varies * group.most.value * evidence.together, group.most.doubt if varies else 0.0)
    reasons: list[str] = []

    @cache
    def below(place: int) -> tuple[Released, float, float]:
        """Excess of the share up to a value over the level, and its interval."""
        up_to = inside(quantity.name, low, float(values[place]), closed=True)
        law = evidence.law((up_to * rows, rows), (1.0, -level))
        reasons.extend([law.reason] if law.reason else [])
        return law.whole.middle, *law.whole.ends(more)

    last = len(values) - 1
    below(last // 2)
    if reasons:
        return reasons[0]
    at = _first(last, lambda place: below(place)[0].estimate >= 0.0)
    start = min(_found_first(last, lambda place: below(place)[2] >= 0.0), at)
    end = max(last - _found_first(last, lambda place: below(last - place)[1] < 0.0) + 1, at)
    end = min(end, last)
    if reasons:
        return reasons[0]
    whole = column.integer and len(values) == high - low + 1
    ends = float(values[start if whole else max(start - 1, 0)]), float(values[end])
    noise2, own = below(at)[0].deviation ** 2, varies * group.estimate
    deviation = (ends[1] - ends[0]) / (2.0 * critical(0.0))
    of_noise = math.sqrt(noise2 / (noise2 + own)) if noise2 + own else 0.0
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


def _found_first(last: int, holds: Callable[[int], bool]) -> int:
    """The first place from 0 to `last` where something holds, in strides; one after it where nothing does.

    Noise makes it hold and not hold by turns, where `_first` may find any of these places.
    """
    for stride in range(0, last + 1, _STRIDE):
        if holds(stride):
            return next(each for each in range(max(stride - _STRIDE + 1, 0), stride + 1) if holds(each))
    return next((each for each in range(last - last % _STRIDE, last + 1) if holds(each)), last + 1)


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

    def ratio(asked: Ratio) -> float:
        under = mean(asked.denominator or ONE)
        value = asked.offset + mean(asked.numerator) / under if under > 0.0 else math.nan
        return min(max(value, asked.limits[0]), asked.limits[1])  # weights may be negative

    def variance(asked: Variance) -> float:
        value = ratio(asked.around(ratio(asked.mean)))
        return min(value, asked.limits[1])

    match quantity:
        case Ratio():
            value, scale = ratio(quantity), total if quantity.total else 1
        case Variance():
            value, scale = variance(quantity), 1
        case Correlation(one, two):
            units = [math.sqrt(max(variance(each), 0.0)) for each in (one, two)]
            if not all(unit > 0.0 for unit in units):
                return math.nan
            asked = quantity.around([ratio(each.mean) for each in (one, two)], units)
            value, scale = ratio(asked), 1
        case Quantile(name, _, level, rows):
            held = np.broadcast_to(_evaluated(rows, values), count) * weights
            order = np.argsort(values[name])
            place = int(np.searchsorted(np.cumsum(held[order]), level * held.sum()))
            value, scale = float(values[name][order[min(place, count - 1)]]), 1
    return value * scale


def _evaluated(function: Function, values: Values) -> FloatArray:
    return function.of(values) if function.columns <= values.keys() else np.full((), math.nan)
