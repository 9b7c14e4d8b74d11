"""Interface to what a release knows of means over its rows, whichever method it is of.

A method of release is asked through one implementation of `Evidence`; `fedkme.answers.folder` chooses it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from fedkme.answers.functions import Function
from fedkme.arrays import FloatArray
from fedkme.tables.schema import Schema


@dataclass(frozen=True, eq=False, slots=True)
class Law:
    """Estimates of means over the rows, and the law of their error.

    Attributes:
        means: (k,) estimates, linear in what was released.
        covariance: (k, k) of the released noise in them, exact.
        unseen: bound on the bias of the combination that was asked for: what the release cannot see of it.
        reason: why they are no answer, or empty: they are in the span of what was released.
    """

    means: FloatArray
    covariance: FloatArray
    unseen: float
    reason: str = ""


class Evidence(Protocol):
    """Knowledge of means over N rows."""

    @property
    def schema(self) -> Schema:
        """Schema of the rows."""

    @property
    def rows(self) -> int:
        """N, public."""

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

    def mean(self, function: Function) -> tuple[float, bool]:
        """The best guess of a mean, for variances, and whether the release tells it.

        Its error need not be known.
        """
