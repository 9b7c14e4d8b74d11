"""Interface of all accountants, and their bounds on epsilon."""

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from fedkme.errors import ConfigError
from fedkme.privacy.events import Event


@dataclass(frozen=True)
class Support:
    """Answer of an accountant to the question whether it supports an event; a truth value in a condition."""

    reason: str = ""
    """Reason why the event is not supported; empty if it is."""

    def __bool__(self) -> bool:
        return not self.reason


@dataclass(frozen=True)
class Bound:
    """A pair (epsilon, delta), the method that gave it, and the reason where epsilon is not finite."""

    epsilon: float
    delta: float
    method: str
    """"none" where no method of the accountant gives a bound."""
    reason: str = ""

    def to_json(self) -> dict[str, Any]:
        """Plain values; JSON has no infinity, so an infinite epsilon is "inf"."""
        epsilon = "inf" if math.isinf(self.epsilon) else self.epsilon
        return {"epsilon": epsilon, "delta": self.delta, "method": self.method, "reason": self.reason}


class Accountant(ABC):
    """Turns events into figures, without any state: every call names all events.

    If an accountant does not support one of the events, at whatever depth, then it gives no figure at all,
    not even for the other events, and says so before it computes anything.
    """

    name: ClassVar[str]

    @abstractmethod
    def supports(self, event: Event) -> Support:
        """Check whether the accountant supports the event and all events inside it."""

    @abstractmethod
    def epsilon(self, events: Iterable[Event], delta: float) -> Bound:
        """Smallest epsilon that the accountant gives for all events together at delta, 0 <= delta < 1."""

    @abstractmethod
    def delta(self, events: Iterable[Event], epsilon: float) -> Bound:
        """Smallest delta that the accountant gives for all events together at epsilon >= 0."""

    def curve(self, events: Iterable[Event], deltas: Iterable[float]) -> Sequence[Bound]:
        """Epsilon as a function of delta."""
        listed = tuple(events)
        return [self.epsilon(listed, delta) for delta in deltas]


def check_delta(delta: float) -> None:
    """Refuse a delta that is no probability of failure.

    Raises:
        ConfigError: delta is not in [0, 1).
    """
    if not 0 <= delta < 1:
        raise ConfigError(f"delta {delta} is not a probability of failure", "Take 0 <= delta < 1.")


def check_epsilon(epsilon: float) -> None:
    """Refuse an epsilon that bounds nothing.

    Raises:
        ConfigError: epsilon is negative or not a number.
    """
    if not epsilon >= 0:
        raise ConfigError(f"epsilon {epsilon} bounds no loss of privacy", "Take epsilon >= 0.")
