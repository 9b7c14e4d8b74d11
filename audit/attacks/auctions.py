"""Audit of auctions: an owner learns of another owner's row from being asked, or not asked.

Neighbouring: one row added to another owner. The observer is an owner; the curator sees every row.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import partial
from typing import Protocol

import numpy as np

from audit.attacks.black_box import Experiment
from audit.attacks.confidence import Scores
from audit.attacks.finding import CheckResult, Claim, Effort, Subject
from audit.attacks.law import rate_finding
from audit.attacks.recount import recount
from audit.attacks.runs import OBSERVER, RunGame, first_scores, make_task
from audit.attacks.scripted import ScriptedNoise
from audit.attacks.wire import GRPC
from curator.summary.auctions.base import AskEveryoneSettings, Auction, WinnerOnlySettings
from curator.summary.auctions.privauction import PrivAuctionSettings
from fedkme.arrays import FloatArray
from fedkme.privacy.events import PrivAuction as PrivAuctionEvent
from fedkme.privacy.noise import NoiseSource, simulated
from fedkme.protocol import Bid

RELATION = "add or remove a row of another owner; an owner looks"
_OWNERS = 8
_FEW = 2  # owners in whole runs
_CHAIN = 3  # rounds of the attack


class AuditedAuction(Protocol):
    """Auction by ranks, as far as the audit needs it."""

    def open_round(self, bids: Mapping[str, Bid]) -> None:
        """Take in the bids of a round."""

    def asked(self, bids: Mapping[str, Bid]) -> list[str]:
        """Names of the owners to ask."""


MakeAuction = Callable[[NoiseSource], AuditedAuction]


def chain_missed(auction: AuditedAuction, owners: int, rounds: int, with_x: bool) -> bool:
    """Check that the attacker j goes unasked in a round of the chain (SARPATWAR.md, section 5).

    Owner i holds a_2 > a_3 > .. and, in the second world, x = a_1; j holds b_t with a_t > b_t > a_(t+1). So j
    ranks first in the first world and second in the second world, in every round until i or j is not asked.

    Args:
        auction: a fresh auction.
        owners: K; owners other than i and j bid far below.
        rounds: n.
        with_x: play the second world.
    """
    row = {"i": 1 if with_x else 2, "j": 1} | {f"k{other}": 1 for other in range(owners - 2)}
    value: dict[str, Callable[[int], float]] = {"i": lambda t: 1.0 - 2.0 * t, "j": lambda t: -2.0 * t}
    for _ in range(rounds):
        bids = {name: Bid(value[name](t) if name in value else -1e3 - t, t) for name, t in row.items()}
        auction.open_round(bids)
        names = auction.asked(bids)
        if "j" not in names:
            return True
        for name in names:
            row[name] += 1
    return False


def chain_attack(make: MakeAuction, claim: Claim, rounds: int, trials: int) -> Experiment:
    """Game that decides for the second world if j is not asked in one of `rounds` rounds."""

    def sample(second: bool, count: int, random: np.random.Generator) -> Scores:
        noise = simulated(int(random.integers(2**62)), "curator", "auction")
        missed = [chain_missed(make(noise), _OWNERS, rounds, second) for _ in range(count)]
        return np.array(missed, dtype=np.float64)

    what = f"the best bidder is not asked within {rounds} round{'s'[: rounds > 1]} of the chain"
    return Experiment(claim, what, sample, trials, note="through the auction's own class, K = 8")


def chain_game(make: Callable[[NoiseSource], Auction], claim: Claim, rounds: int) -> RunGame:
    """The chain in whole runs over two owners; score: 1 if the observer was not asked in some round.

    Holder and observer have rows in turn, ever farther from D_v; the very first row is x, which the holder
    has in the second world. Broadcasts are silent, so the order of bids does not change.
    """
    task = make_task(rounds)
    rows = np.random.default_rng(0).random((2 * rounds + 2, 2))
    rows = rows[np.argsort(-first_scores(task, rows))]

    def held(second: bool) -> dict[str, FloatArray]:
        return {"holder": rows[0 if second else 2 :: 2], OBSERVER: rows[1::2]}

    return RunGame(
        claim,
        f"the best bidder is not asked within {rounds} rounds of the chain, as it is told",
        task,
        held,
        make,
        lambda view: float(len(view.asked) < rounds),
    )


def privauction() -> Subject:
    """PRIVAUCTION with the claim of Theorem 6, which does not hold."""
    settings = PrivAuctionSettings()
    rate, patience = settings.parameters(_OWNERS)
    claim = Claim(settings.epsilon, settings.delta, RELATION)
    event = PrivAuctionEvent(rate, patience, 100, settings.epsilon, settings.delta)
    return Subject(
        "privauction",
        "published",
        claim,
        (
            lambda effort: recount(claim, [event], [PrivAuctionEvent]),
            chain_attack(partial(settings.make, _OWNERS), claim, 1, 80_000),
            chain_attack(partial(settings.make, _OWNERS), claim, _CHAIN, 80_000),
            chain_game(lambda noise: settings.make(_FEW, noise), claim, _CHAIN).over(GRPC, 1_000),
        ),
    )


def privauction_rule() -> Subject:
    """Check that the audited auction is PRIVAUCTION, with the printed ranks and tau rule."""
    claim = Claim(math.nan, 0.0, "Algorithm 3, steps 12 to 14, as printed; no privacy")
    return Subject("privauction-rule", "sound", claim, (_rank_law, _patience))


def _rank_law(effort: Effort) -> CheckResult:
    """Rank r is asked with probability exp(-eps_auc (r - 1)); a wrong rate shows best at the last rank."""
    rate, _ = PrivAuctionSettings().parameters(_OWNERS)
    auction = PrivAuctionSettings().make(_OWNERS, simulated(effort.seed, "audit", "ranks"))
    trials, last = effort.trials(20_000), _OWNERS - 1
    hits = 0
    for trial in range(trials):
        hits += f"o{last}" in auction.asked({f"o{rank}": Bid(-float(rank), trial) for rank in range(_OWNERS)})
    return rate_finding(hits, trials, math.exp(-rate * last), effort.alpha, "asking the last rank")


def _patience(effort: Effort) -> CheckResult:
    """A row that was its owner's best tau times is asked for, and not before, if every coin says no."""
    _, patience = PrivAuctionSettings().parameters(_OWNERS)
    auction = PrivAuctionSettings().make(_OWNERS, ScriptedNoise(coin=1.0 - 2.0**-53))
    bids = {"a": Bid(2.0, 0), "b": Bid(1.0, 0)}
    first = 0
    for number in range(1, 100):
        auction.open_round(bids)
        if "b" in auction.asked(bids):
            first = number
            break
    due = math.ceil(patience - 1e-9)
    return CheckResult("law", "round in which tau fires", first != due, float(due), float(first), power=None)


def winner_only() -> Subject:
    """Winner only, which claims no privacy: one round tells neighbours apart."""
    return Subject(
        "winner-only",
        "none",
        Claim(math.inf, 0.0, RELATION),
        (
            chain_attack(
                lambda noise: WinnerOnlySettings().make(_OWNERS, noise), Claim(1.0, 0.0, RELATION), 1, 2_000
            ),
        ),
    )


def ask_everyone() -> Subject:
    """Ask everyone: no row decides who is asked, so epsilon is 0 towards owners."""
    claim, make = Claim(0.0, 0.0, RELATION), partial(AskEveryoneSettings().make, _OWNERS)

    def constant(effort: Effort) -> CheckResult:
        random = np.random.default_rng([effort.seed, 4])
        wrong = 0
        for _ in range(effort.trials(500)):
            values: FloatArray = random.choice([-1e9, -1.0, 0.0, 1.0, 1e9], _OWNERS)
            bids = {f"o{i}": Bid(float(v), int(random.integers(3))) for i, v in enumerate(values)}
            auction = make(ScriptedNoise(coin=float(random.random())))
            auction.open_round(bids)
            wrong += set(auction.asked(bids)) != set(bids)
        what = "bids for which an owner is not asked"
        return CheckResult("sensitivity", what, wrong > 0, 0.0, float(wrong), power=None)

    return Subject("ask-everyone", "sound", claim, (constant, chain_attack(make, claim, _CHAIN, 2_000)))
