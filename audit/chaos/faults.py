"""Faults as values, and the schedule that a seed draws."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, get_args

Gentle = Literal[
    "kill", "stop", "full", "doubt", "file", "cut", "hold", "twice", "slow", "clock", "shake", "beside"
]
Harsh = Literal["away", "restore", "flip", "lie"]
Kind = Gentle | Harsh

GENTLE: tuple[Kind, ...] = get_args(Gentle)
"""Faults after which a run ends as the undisturbed one, bit by bit."""
KINDS: tuple[Kind, ...] = (*GENTLE, *get_args(Harsh))
WORDS: Mapping[Kind, str] = {
    "kill": "is killed",
    "stop": "is told to stop, and started again",
    "full": "has a full disk at a commit",
    "doubt": "has a commit of which the disk does not say whether it is there",
    "file": "has a system call of a result's files fail",
    "cut": "loses its connections",
    "hold": "hears nothing, or is not heard, for a while",
    "twice": "sends or gets a message twice",
    "slow": "computes slowly",
    "clock": "has its clock set",
    "shake": "loses its connections, and its handshakes fail for a while",
    "beside": "lives on beside its next process",
    "away": "is dead for longer than runs wait",
    "restore": "dies, and its store is put back from a backup",
    "flip": "dies, and a line of its ledger is another",
    "lie": "answers with a lie",
}
"""Words for what happens to a party."""
SOON = 30
"""Amount up to which a death comes at its step; a larger amount delays it by the excess in awaits."""
CALLS = 12
"""Approximate number of system calls that write the files of a result."""
HOLD_S = 1.5
"""Seconds for which messages are held up, per unit of amount."""
SHAKE_S, MOST_SHAKEN_S = 3.0, 150.0
"""Seconds for which handshakes fail, per unit of amount, and in a whole schedule: runs wait for longer."""
BESIDE_S = 6
"""Most seconds for which an old process lives on: it looks at its store's lock once in as many."""


_AMOUNTS: Mapping[Kind, Callable[[int], str]] = {
    "kill": lambda amount: f", {amount - SOON} awaits later" if amount > SOON else "",
    "file": lambda amount: f", call {amount % CALLS + 1}",
    "hold": lambda amount: f", {amount * HOLD_S:g} s, {'what it sends' if amount % 2 else 'what it hears'}",
    "slow": lambda amount: f", {amount} s",
    "shake": lambda amount: f", {amount * SHAKE_S:g} s",
    "beside": lambda amount: f", {amount % BESIDE_S + 1} s",
    "clock": lambda amount: f", by {clock_s(amount):+g} s",
    "restore": lambda amount: f", {amount} commits are lost",
}
"""Amount in words, for kinds of faults whose amount matters to a reader."""


def clock_s(amount: int) -> float:
    """Seconds by which a clock is set: up to two weeks back or ahead."""
    return (amount - 30) * 40_000.0


@dataclass(frozen=True, slots=True, order=True)
class InjectedFault:
    """One fault of a party, its disk, clock or network.

    Attributes:
        party: name of the party.
        step: number of the party's step, over all its lives: a message that it sends, a commit, a record.
        kind: kind of the fault.
        amount: awaits until a death, messages, seconds, lost commits, or the number of a lie.
    """

    party: str
    step: int
    kind: Kind
    amount: int = 0

    @property
    def line(self) -> str:
        """The fault in words."""
        return f"{self.party} {WORDS[self.kind]} (step {self.step}{self.amount_words})"

    @property
    def amount_words(self) -> str:
        """Amount in words, after a comma; empty if the amount does not matter to a reader."""
        return _AMOUNTS[self.kind](self.amount) if self.kind in _AMOUNTS else ""


@dataclass(frozen=True, slots=True)
class FaultSchedule:
    """Faults of a world.

    Attributes:
        seed: seed of delays, pauses and order; it also chose the faults of a schedule that is not shrunk.
        world: number of the world in the menu.
        faults: faults in order.
        fresh: each life of a party has other noise, so that noise drawn twice is seen; bits are not compared.
    """

    seed: int
    world: int
    faults: tuple[InjectedFault, ...] = field(default=())
    fresh: bool = False


_FRESH = 0.4  # share of the schedules
MOST = 6
"""Most faults of a schedule."""


def draw(seed: int, world: int, steps: Mapping[str, int], owners: Sequence[str]) -> FaultSchedule:
    """Draw the faults of a seed.

    Args:
        seed: seed of the draw.
        world: number of the world.
        steps: number of steps of each party in the quiet run.
        owners: parties that may lie.
    """
    chance = random.Random(f"faults {seed}")
    parties = sorted(steps)
    # one party in four is the curator, whose steps are the most
    weights = [len(parties) if name == "curator" else 3 for name in parties]
    harsh = chance.random() < 0.3
    faults = []
    for number in range(chance.randint(1, MOST)):
        party = chance.choices(parties, weights)[0]
        kind = chance.choice(KINDS[len(GENTLE) :] if harsh and not number else GENTLE)
        if kind == "lie":
            party = chance.choice(list(owners))
        if kind == "beside" and party not in ("curator", *owners):
            kind = "kill"  # a consumer's command has no supervisor that starts another
        step = chance.randint(1, max(2, round(1.2 * steps[party])))
        faults.append(InjectedFault(party, step, kind, chance.randrange(1, 60)))
    return FaultSchedule(seed, world, tuple(sorted(faults)), chance.random() < _FRESH)
