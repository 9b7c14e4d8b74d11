"""`Evidence`: the interface by which answers read means of rows from a release of any method.

Each kind of release has one implementation of `Evidence`; `fedkme.answers.folder` chooses it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from fedkme.answers.functions import Function
from fedkme.answers.intervals import Between, DoubtfulBound, ReleasedFigure
from fedkme.arrays import FloatArray
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


@dataclass(frozen=True, eq=False, slots=True)
class ScoredNumber:
    """A number by fine bins, with a score of each bin.

    Attributes:
        scores: score of each bin, from -1 to 1, that rises with the number.
        values: middle of each bin.
        within: half of the width of each bin.
        shares: denoised share of rows in each bin.
        deviation: deviation of the noise in the mean of a function of a bin, by the denoised shares.
        law: means of functions of a bin without bias, with the covariance of their noise.
        gaps: share of rows without the number, all of which are in one bin; None: every row has it.
        stand_in: that bin.
    """

    scores: FloatArray
    values: FloatArray
    within: FloatArray
    shares: FloatArray
    deviation: Callable[[FloatArray], float]
    law: Callable[[list[FloatArray]], tuple[FloatArray, FloatArray]]
    gaps: ReleasedFigure | None = None
    stand_in: int = 0


@dataclass(frozen=True, eq=False, slots=True)
class ScoredPair:
    """Scores of two numbers whose product was released.

    Attributes:
        numbers: the numbers.
        product: mean of the product of both scores over the rows.
    """

    numbers: tuple[ScoredNumber, ScoredNumber]
    product: ReleasedFigure


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

    def scored(self, one: str, two: str) -> ScoredPair | None:
        """Scores of two numbers; None where their product was not released."""

    def spread(self, functions: tuple[Function, Function], coefficients: tuple[float, float]) -> Spread:
        """Mean square of a linear combination of two functions."""


def rows_together(schema: Schema, settings: Mapping[str, Any]) -> int:
    """Largest number of rows of one person, or of one group, by the public schema and settings."""
    return max(rows_of_person(schema), int(settings.get("group", 1)))
