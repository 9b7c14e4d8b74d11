"""Runs that went on without an owner, and why: the last of them in the store of the curator and of the owner.

An owner may be away when a run ends. The curator keeps the reason and gives it again whenever the owner
joins; the owner keeps it for its operator, and knows one that it has heard.
"""

import json
import time
from dataclasses import asdict, dataclass

from fedkme.directives import Directive, Dismiss, Refusal
from fedkme.store import Store

MOST = 20
"""Departures that a store keeps of an owner."""
_KEY = "left_out"


@dataclass(frozen=True, slots=True)
class Departure:
    """A run that went on without an owner; `at` is when this party noted it, Unix seconds."""

    run: str
    reason: Refusal
    at: float

    @property
    def directive(self) -> Directive:
        """The directive that tells the owner."""
        return Directive(self.run, 0, 0, Dismiss(self.reason))


def departures_in(store: Store, owner: str) -> list[Departure]:
    """Last departures of an owner in a party's store, the oldest first.

    Raises:
        StoreError: the store fails.
    """
    plain = json.loads(store.get(f"{_KEY}/{owner}") or b"[]")
    return [Departure(run, Refusal(**reason), at) for run, reason, at in plain]


def keep_departure(store: Store, owner: str, run: str, reason: Refusal) -> bool:
    """Keep why a run went on without an owner; return False if the store has that already.

    Raises:
        StoreError: the store fails.
    """
    before = departures_in(store, owner)
    if any((each.run, each.reason) == (run, reason) for each in before):
        return False
    others = [each for each in before if each.run != run]
    last = [*others, Departure(run, reason, time.time())][-MOST:]
    plain = [[each.run, asdict(each.reason), each.at] for each in last]
    store.put(f"{_KEY}/{owner}", json.dumps(plain).encode("ascii"))
    return True
