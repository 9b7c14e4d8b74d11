"""Progress reports of a training, early results included."""

from collections.abc import Callable
from dataclasses import dataclass

from fedkme.tables.table import Table


@dataclass(frozen=True, eq=False)
class Report:
    """State of a training.

    Attributes:
        step: steps done.
        steps: steps in all.
        initial: objective before training.
        objective: unbiased estimate of the present objective; it may be a little below zero.
        floor: objective at the true distribution, the squared norm of the noise; 0 if unknown.
        sample: draws rows from the generator in its present state.
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
