"""Interface of all accountants, and their bounds on epsilon."""

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, ClassVar

from fedkme.errors import ConfigError
from fedkme.privacy.events import Event


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
    def refusal(self, event: Event) -> str:
        """Reason why the accountant supports the event, or one inside it, not; empty if it supports all."""

    @abstractmethod
    def epsilon(self, events: Iterable[Event], delta: float) -> Bound:
        """Smallest epsilon that the accountant gives for all events together at delta, 0 <= delta < 1."""


def check_delta(delta: float) -> None:
    """Refuse a delta that is no probability of failure.

    Raises:
        ConfigError: delta is not in [0, 1).
    """
    if not 0 <= delta < 1:
        raise ConfigError(f"delta {delta} is not a probability of failure", "Take 0 <= delta < 1.")
