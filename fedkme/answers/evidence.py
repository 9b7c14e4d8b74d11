"""`Evidence`: the interface by which answers read means of rows from a release of any method.

Each kind of release has one implementation of `Evidence`; `fedkme.answers.folder` chooses it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np

from fedkme.answers.functions import Function, columns_of, gap_of
from fedkme.answers.intervals import Between, DoubtfulBound, ReleasedFigure
from fedkme.arrays import FloatArray, IntArray
from fedkme.features.binning import Binning
from fedkme.features.counts import SCORE_STEPS, Clique, NumberScores
from fedkme.releases.counts import Products
from fedkme.releases.fine import FineShares
from fedkme.tables.names import NO_GAP
from fedkme.tables.numbers import Numeric
from fedkme.tables.schema import Schema, rows_of_person


@dataclass(frozen=True, eq=False, slots=True)
class Law:
    """Estimates of means over the rows, and the law of their error.

    Attributes:
        means: (k,) estimates, linear in the released numbers.
        covariance: (k, k) covariance of the released noise in the estimates, exact.
        whole: mean of the requested combination, between the least and the most that the rows allow.
        reach: largest absolute value of the combination for any one row.
        reason: why the release does not give these means; empty: it gives them.
        assumption: assumption of the bounds about the rows, in words for a method; empty: none.
    """

    means: FloatArray
    covariance: FloatArray
    whole: Between
    reach: float
    reason: str = ""
    assumption: str = ""


def outside(count: int, reason: str) -> Law:
    """Law of means that a release does not give."""
    nothing = ReleasedFigure(0.0)
    between = Between(nothing, nothing, nothing, nothing)
    return Law(np.zeros(count), np.zeros((count, count)), between, 0.0, reason)


def added(one: Law, other: Law) -> Law:
    """Law of the sums of functions of two columns, whose noise is independent."""

    def add(a: ReleasedFigure, b: ReleasedFigure) -> ReleasedFigure:
        return ReleasedFigure(a.estimate + b.estimate, math.hypot(a.deviation, b.deviation))

    names = ("middle", "least", "most", "gap", "centre")
    whole = Between(*(add(getattr(one.whole, name), getattr(other.whole, name)) for name in names))
    whole = replace(whole, hidden=one.whole.hidden or other.whole.hidden)
    return Law(one.means + other.means, one.covariance + other.covariance, whole, one.reach + other.reach)


@dataclass(frozen=True, slots=True)
class Spread:
    """Mean square of a function over the rows, from which the variance of sampling follows.

    Attributes:
        estimate: estimate of the mean square.
        most: upper bound on the mean square.
        measured: whether the release gives the mean square; else estimate and bound are assumed.
    """

    estimate: float
    most: DoubtfulBound
    measured: bool

    def times(self, factor: float) -> Spread:
        """Spread of a function whose square is `factor` times as large; factor >= 0."""
        most = DoubtfulBound(factor * self.most.value, self.most.doubt)
        return Spread(factor * self.estimate, most, self.measured)


NOBODY = ReleasedFigure(0.0)
"""Share of no row, which is public."""


@dataclass(frozen=True, eq=False, slots=True)
class ScoredNumber:
    """A number by fine bins, with a score of each bin.

    Attributes:
        scores: score of each bin, from -1 to 1, that rises with the number.
        values: middle of each bin.
        within: half of the width of each bin.
        shares: denoised share of rows in each bin, of those that have the number.
        deviation: deviation of the noise in the sum of a function over these, by the denoised shares.
        law: means of functions of a bin without bias, with the covariance of their noise.
        cells: cell of each bin by which the number was counted with the gaps of the other.
        lacking: share of rows in each cell without the other number, unbiased.
        noise: covariance of the noise in these shares.
        gaps: share of rows without the number, all of which are in one bin.
        stand_in: that bin.
    """

    scores: FloatArray
    values: FloatArray
    within: FloatArray
    shares: FloatArray
    deviation: Callable[[FloatArray], float]
    law: Callable[[list[FloatArray]], tuple[FloatArray, FloatArray]]
    cells: IntArray
    lacking: FloatArray
    noise: FloatArray
    gaps: ReleasedFigure = NOBODY
    stand_in: int = 0


@dataclass(frozen=True, eq=False, slots=True)
class ScoredPair:
    """Scores of two numbers whose product was released.

    Attributes:
        numbers: the numbers.
        product: mean of the product of both scores over the rows.
        neither: share of rows without both numbers.
    """

    numbers: tuple[ScoredNumber, ScoredNumber]
    product: ReleasedFigure
    neither: ReleasedFigure = NOBODY


class Evidence(Protocol):
    """Means of functions over the N rows of a release."""

    @property
    def schema(self) -> Schema:
        """Schema of the rows."""

    @property
    def rows(self) -> int:
        """N, public."""

    @property
    def together(self) -> int:
        """Largest number of rows of one person, or of one group that epsilon protects; all may be alike."""

    @property
    def method(self) -> str:
        """Way in which answers are computed, in a few words."""

    def law(self, functions: Sequence[Function], coefficients: Sequence[float]) -> Law:
        """Estimate means of functions, and bound the mean of one linear combination of the functions.

        Args:
            functions: k functions of a row.
            coefficients: (k,) coefficients of the combination.

        Raises:
            QuestionError: the functions depend on more columns together than a table can hold.
        """

    def untold(self, functions: Sequence[Function]) -> str:
        """Reason why the release does not give means of functions; empty: it does."""

    def scored(self, one: str, two: str) -> ScoredPair | None:
        """Scores of two numbers; None where their product was not released."""

    def spread(self, functions: tuple[Function, Function], coefficients: tuple[float, float]) -> Spread:
        """Mean square of a linear combination of two functions."""


def rows_together(schema: Schema, settings: Mapping[str, Any]) -> int:
    """Largest number of rows of one person, or of one group, by the public schema and settings."""
    return max(rows_of_person(schema), int(settings.get("group", 1)))


class NumberEvidence(Evidence, Protocol):
    """Evidence from counts of numbers by fine bins."""

    @property
    def finer(self) -> Binning:
        """Coding of numbers by fine bins."""

    def shares(self, place: int) -> FineShares | None:
        """Shares of a number by fine bins, or by its own bins where it has few values; None: not counted."""

    def linear(
        self, clique: Clique, tables: Sequence[FloatArray], needed: int
    ) -> tuple[FloatArray, FloatArray, bool] | str:
        """Means of functions of a cell, the covariance of their noise, and whether all needed are told."""


class ScoredNumbers:
    """Numbers with scores by fine bins, whose products were released; each is read once."""

    def __init__(self, evidence: NumberEvidence, products: Products) -> None:
        self._evidence, self._products = evidence, products
        self._scores = {evidence.finer.names[each.column]: each for each in products.values}
        self._marks = {number.name: mark.name for mark, number in evidence.schema.gaps}
        self._numbers: dict[str, ScoredNumber | None] = {}

    def pair(self, one: str, two: str) -> ScoredPair | None:
        """Scores of two numbers; None where their product or their counts were not released."""
        if one == two or not {one, two} <= self._scores.keys():
            return None
        first, second = self._beside(one, two), self._beside(two, one)
        if first is None or second is None:
            return None
        neither, marks = NOBODY, [self._marks[name] for name in (one, two) if name in self._marks]
        if len(marks) == 2:
            neither = self._evidence.law([gap_of(marks[0]) * gap_of(marks[1])], [1.0]).whole.middle
        places, rows = (self._scores[one].column, self._scores[two].column), self._evidence.rows
        product = ReleasedFigure(self._products.value_mean(*places, rows), self._products.sigma / rows)
        return ScoredPair((first, second), product, neither)

    def _beside(self, name: str, other: str) -> ScoredNumber | None:
        """A number with the rows that lack another one."""
        if name not in self._numbers:
            self._numbers[name] = self._alone(self._scores[name], self._marks.get(name))
        number, mark = self._numbers[name], self._marks.get(other)
        if number is None or mark is None:
            return number
        counted = _lacking(self._evidence, self._scores[name].column, len(number.lacking), mark)
        return None if counted is None else replace(number, lacking=counted[0], noise=counted[1])

    def _alone(self, scores: NumberScores, mark: str | None) -> ScoredNumber | None:
        """A number beside one that every row has; `mark` marks the number's own gaps, if it has any."""
        finer, place = self._evidence.finer, scores.column
        shares, column = self._evidence.shares(place), columns_of(finer.coded)[finer.names[place]]
        if shares is None:
            return None
        assert isinstance(column, Numeric)
        half = (np.diff(finer.edges(column)) - column.integer) / 2.0
        gaps, stand_in, present, part = NOBODY, 0, shares, 1.0
        if mark is not None:
            gaps, stand_in = self._evidence.law([gap_of(mark)], [1.0]).whole.middle, finer.stand_in(place)
            part = 1.0 - min(max(gaps.estimate, 0.0), 1.0 - 1e-9)
            present = shares.without(stand_in, 1.0 - part)
        codes = len(shares.coarse)
        return ScoredNumber(
            np.array(scores.of) / SCORE_STEPS,
            finer.middles(column),
            np.concatenate([half, np.zeros(len(column.singles))]),
            part * present.denoised,
            lambda values: part * present.deviation(values),
            shares.law,
            shares.within,
            np.zeros(codes),
            np.zeros((codes, codes)),
            gaps,
            stand_in,
        )


def _lacking(
    evidence: NumberEvidence, place: int, codes: int, mark: str
) -> tuple[FloatArray, FloatArray] | None:
    """Share of rows with each code of a number whose gap a column marks, with the covariance of the noise."""
    at = evidence.finer.names.index(mark)
    lacks = (np.arange(evidence.finer.sizes[at]) != NO_GAP).astype(np.float64)
    first = place < at
    tables = [np.outer(each, lacks) if first else np.outer(lacks, each) for each in np.eye(codes)]
    told = evidence.linear((min(place, at), max(place, at)), tables, codes)
    return None if isinstance(told, str) else (told[0], told[1])
