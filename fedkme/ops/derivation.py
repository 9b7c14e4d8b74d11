"""Post-processing of what was paid for: each step runs in one guard, fails alone, and can be taken again.

Released first, computed later (DESIGN.md, decision 8): whoever makes a `Derivation` has the released numbers
on disk. Everything that is computed from them runs in a `step`. A step that raises, for whatever reason (a
number that no formula expected, an optimiser, a library, memory, a full disk), costs what that step makes and
one line; the other steps are taken. Nothing else calls what may raise: a release method and a simulation get
hold of a file's place, or of a figure, by a step alone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from traceback import extract_tb
from typing import TypeVar

from fedkme.errors import CancelledRunError, FedkmeError, InterruptedRunError, NotMadeError

T = TypeVar("T")

REMEDY = "The released numbers are on disk: `fedkme report DIR`, or asking again, makes the rest at no cost."
"""Remedy of who has a folder with the numbers."""
_STOPS = (CancelledRunError, InterruptedRunError)
_PACKAGES = frozenset({"fedkme", "curator", "consumer", "sim"})


class Derivation:
    """Computation of everything that follows from released numbers.

    Attributes:
        losses: errors of the steps that failed, in their order.
        remedy: says in each how the rest is made.
    """

    def __init__(self, remedy: str = REMEDY) -> None:
        """Begin without losses."""
        self.losses: list[NotMadeError] = []
        self.remedy = remedy

    def step(self, what: str, make: Callable[[], T]) -> T | None:
        """Take one step.

        Args:
            what: thing that the step makes, for the line of its failure.
            make: makes it.

        Returns:
            What `make` returned; None where it failed, and `losses` has one error more.

        Raises:
            CancelledRunError: nobody waits for the rest.
            InterruptedRunError: the user interrupted it.
        """
        try:
            return make()
        except _STOPS:
            raise
        except Exception as error:
            self.losses.append(NotMadeError(f"{what} could not be made: {_why(error)}", self.remedy))
            return None


def total(losses: Sequence[NotMadeError]) -> NotMadeError | None:
    """One error for all losses; None without any."""
    if len(losses) < 2:
        return losses[0] if losses else None
    first = losses[0]
    return NotMadeError(f"{first.cause}; {len(losses) - 1} more steps failed", first.remedy)


def _why(error: Exception) -> str:
    """Reason of a failure; of an unexpected one type and place, as its text may hold numbers of rows."""
    match error:
        case FedkmeError():
            return error.cause
        case MemoryError():
            return "there is not enough memory"
        case OSError(strerror=str(text)):
            return text
    frames = [each for each in extract_tb(error.__traceback__) if _PACKAGES & set(Path(each.filename).parts)]
    place = f" at {Path(frames[-1].filename).name}:{frames[-1].lineno}" if frames else ""
    return f"{type(error).__name__}{place}"
