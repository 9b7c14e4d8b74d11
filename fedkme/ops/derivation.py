"""Post-processing of released numbers: each step runs in one guard, fails alone, and can be repeated.

Released first, computed later (DESIGN.md, decision 8): whoever makes a `Derivation` has the released numbers
on disk. Every computation from these numbers runs in a `step`. A step that raises, for whatever reason (an
unexpected number, an optimiser, a library, memory, a full disk), costs its own result and one line; the other
steps run. Code that may raise is called in steps alone: a release method and a simulation get a file's path,
or a figure, from a step.
"""

from collections.abc import Callable, Sequence
from pathlib import Path
from traceback import extract_tb
from typing import TypeVar

from fedkme.errors import CancelledRunError, FedkmeError, InterruptedRunError, NotMadeError

T = TypeVar("T")

REMEDY = "The released numbers are on disk: `fedkme report DIR`, or asking again, makes the rest at no cost."
"""Remedy for a user who has a folder with the numbers."""
_STOPS = (CancelledRunError, InterruptedRunError)
_PACKAGES = frozenset({"fedkme", "curator", "consumer", "sim"})


class Derivation:
    """Computation of everything that follows from released numbers.

    Attributes:
        losses: errors of the steps that failed, in their order.
        remedy: remedy in each of these errors: how to make the rest.
    """

    def __init__(self, remedy: str = REMEDY) -> None:
        """Begin without losses."""
        self.losses: list[NotMadeError] = []
        self.remedy = remedy

    def step(self, what: str, make: Callable[[], T]) -> T | None:
        """Take one step.

        Args:
            what: result of the step, for the line of its failure.
            make: computes the result.

        Returns:
            Result of `make`; None if it failed, and then `losses` has one error more.

        Raises:
            CancelledRunError: the run was cancelled, and nobody waits for the rest.
            InterruptedRunError: the user interrupted the step.
        """
        try:
            return make()
        except _STOPS:
            raise
        except Exception as error:
            self.losses.append(NotMadeError(f"{what} could not be made: {_why(error)}", self.remedy))
            return None


def total(losses: Sequence[NotMadeError]) -> NotMadeError | None:
    """One error for all losses; None if there are none."""
    if len(losses) < 2:
        return losses[0] if losses else None
    first = losses[0]
    return NotMadeError(f"{first.cause}; {len(losses) - 1} more steps failed", first.remedy)


def _why(error: Exception) -> str:
    """Reason of a failure; for an unexpected one, type and place: its text may hold private numbers."""
    match error:
        case FedkmeError():
            return error.cause
        case MemoryError():
            return "there is not enough memory"
        case OSError(strerror=str(text)):
            return text
    frames = [
        frame for frame in extract_tb(error.__traceback__) if _PACKAGES & set(Path(frame.filename).parts)
    ]
    place = f" at {Path(frames[-1].filename).name}:{frames[-1].lineno}" if frames else ""
    return f"{type(error).__name__}{place}"
