"""Interface to what a release knows of means over its rows, whichever method it is of.

A method of release is asked through one implementation of `Evidence`; `fedkme.answers.folder` chooses it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from fedkme.answers.functions import Function
from fedkme.answers.intervals import Between, Bound, Released
from fedkme.arrays import FloatArray
from fedkme.tables.schema import Schema, rows_of_person


@dataclass(frozen=True, eq=False, slots=True)
class Law:
    """Estimates of means over the rows, and the law of their error.

    Attributes:
        means: (k,) estimates, linear in what was released.
        covariance: (k, k) of the released noise in them, exact.
        whole: the combination that was asked for, between what its rows may have at least and at most.
        reach: most that the combination can be of a row, in size.
        supposed: words of what the bounds suppose of the rows, empty where they suppose nothing.
        reason: why they are no answer, or empty: they are in the span of what was released.
    """

    means: FloatArray
    covariance: FloatArray
    whole: Between
    reach: float
    reason: str = ""
    supposed: str = ""


def outside(count: int, reason: str) -> Law:
    """Law of what is not in the span of a release."""
    nothing = Released(0.0)
    between = Between(nothing, nothing, nothing, nothing)
    return Law(np.zeros(count), np.zeros((count, count)), between, 0.0, reason)


@dataclass(frozen=True, slots=True)
class Spread:
    """Mean square over the rows of a function, which the variance of sampling follows from.

    Attributes:
        estimate: of it.
        most: bound on it.
        told: whether the release tells it; else it is supposed.
    """

    estimate: float
    most: Bound
    told: bool


class Evidence(Protocol):
    """Knowledge of means over N rows."""

    @property
    def schema(self) -> Schema:
        """Schema of the rows."""

    @property
    def rows(self) -> int:
        """N, public."""

    @property
    def together(self) -> int:
        """Rows of one person, or of one group that epsilon holds for, at most: they may be all alike."""

    @property
    def method(self) -> str:
        """Way in which answers are computed, in a few words."""

    def law(self, functions: Sequence[Function], coefficients: Sequence[float]) -> Law:
        """Means of functions, as one combination of them needs them.

        Args:
            functions: of a row.
            coefficients: of the combination, one for each; (k,).

        Raises:
            QuestionError: the functions are of more columns together than can be tabled.
        """

    def spread(self, functions: tuple[Function, Function], coefficients: tuple[float, float]) -> Spread:
        """Mean square of a combination of two functions."""


def rows_together(schema: Schema, settings: Mapping[str, Any]) -> int:
    """Count the rows that may be of one person, or of one group, by what is public."""
    return max(rows_of_person(schema), int(settings.get("group", 1)))
