"""Progress of a release as told to who waits for it, early results included."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from fedkme.tables.table import Table


@dataclass(frozen=True, eq=False)
class Report:
    """The state of a training.

    Attributes:
        step: steps done.
        steps: steps in all.
        initial: the objective before training.
        objective: an unbiased estimate of the objective now; it may be a little below zero.
        floor: what the objective would be at the truth, the squared norm of the noise; 0 if unknown.
        sample: rows drawn from the generator as it is now.
    """

    step: int
    steps: int
    initial: float
    objective: float
    floor: float
    sample: Callable[[int], Table]

    def __str__(self) -> str:
        return f"objective {self.objective:.3g} (was {self.initial:.3g})"


Progress = Callable[[Report], None]


def silent(report: Report) -> None:
    """Report no progress."""
