"""Audit of limits on rows: a policy never changes the messages to another owner.

Neighbouring: one row replaced. The holder has as many rows near D_v as its limits let out, or one more: an
owner that left the run at a sale over its limit would be missing from the counts of the second clock.
"""

from __future__ import annotations

import asyncio
from functools import partial
from pathlib import Path

import numpy as np

from audit.attacks.finding import CheckResult, Claim, Effort, Subject
from audit.attacks.runs import FAR, NEAR, OBSERVER, SCHEMA, OwnerView, RunGame, first_scores, make_task
from audit.attacks.wire import GRPC, LOOPBACK, looped
from curator.run.summary_record import SummaryRecord
from curator.summary.auctions.clock import Clock, ClockSettings
from fedkme.privacy.noise import NoiseSource, simulated
from fedkme.store.memory import MemoryStore
from owner.consent.gate import OwnerGate, SentRows
from owner.consent.history import History
from owner.consent.policy import Policy
from owner.consent.pools import RowPools
from owner.settings import PolicySettings

_EPSILON = 0.5
"""Epsilon of the clock for a row added or removed; a row that is replaced costs twice that."""
HELD = 30
"""Rows near D_v, as many as may leave, and so many that the clock stops at once; likewise rows half way."""
_HALF = (NEAR + FAR) / 2.0
POLICIES = (
    PolicySettings(most_rows_per_run=HELD),
    PolicySettings(most_rows=HELD),
    PolicySettings(most_rows=2 * HELD, most_rows_per_run=HELD, consumers=("consumer",)),
)


def limited_clock() -> Subject:
    """A clock over two rounds; one owner limits its rows."""
    claim = Claim(2.0 * _EPSILON, 0.0, "replace one row of another owner, which has a limit; an owner looks")
    games = [limited_game(settings, claim) for settings in POLICIES]
    return Subject(
        "clock-limits",
        "sound",
        claim,
        (
            partial(_owners_that_leave, games),
            *(game.over(LOOPBACK, 300) for game in games[:2]),
            games[0].over(GRPC, 200),
        ),
    )


def limited_game(limits: PolicySettings, claim: Claim) -> RunGame:
    """Two clocks of a run; score: 1 if the second clock goes on to the last price."""
    # Without a spread equal rows sell at one price: the sale that may go over the limit is the first.
    settings = ClockSettings(epsilon=_EPSILON, block=1, highest=1.0, lowest=-1.0, step=0.5, spread=0.0)
    task = make_task(2)
    low = float(first_scores(task, np.stack([_HALF, FAR])).mean())

    def gate(name: str, rows: int, noise: NoiseSource) -> OwnerGate:
        if name == OBSERVER:
            return OwnerGate(name)
        store = MemoryStore(name)
        pools = RowPools(store, b"rows", rows, noise, limits)
        history = History(name, store)
        policy = Policy(name, limits, SCHEMA, store, history, pools, Path("no-approvals"))
        return OwnerGate(name, None, SentRows(), policy)

    return RunGame(
        claim,
        "second price of a two-round run, from an owner's messages: below the price of rows half way",
        task,
        lambda second: {
            "holder": np.concatenate(
                [np.tile(NEAR, (HELD + second, 1)), np.tile(_HALF, (2 * HELD - second, 1))]
            ),
            OBSERVER: np.tile(FAR, (3, 1)),
        },
        lambda noise: Clock(settings, noise),
        lambda view: float(view.prices[1] < low),
        protocol="clock",
        gate=gate,
    )


def _owners_that_leave(games: list[RunGame], effort: Effort) -> CheckResult:
    """Runs in which a limit made an owner leave, or more rows left than it allows."""
    odd, runs = 0, 0
    for number, game in enumerate(games):
        for second in (False, True):
            noise = simulated(effort.seed + number, "audit", "limits")
            owners = game.owners(second, noise, OwnerView())
            record = SummaryRecord()
            asyncio.run(game.play(looped(owners, SCHEMA.encoded_width), noise, record))
            sent = sum(owner == "holder" for _, owner, _ in record.accesses)
            odd += bool(record.faults) or sent > HELD
            runs += 1
    what = "runs in which a limit was exceeded, or made an owner leave"
    return CheckResult("sensitivity", what, odd > 0, 0.0, float(odd), trials=runs, power=None)
