"""Audit of directions that D_v picks from a menu (fedkme.cells.directions), and of the cost to D_v.

Neighbouring: one row of D_v replaced; the number of rows and the menu are public.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from audit.attacks.black_box import Experiment
from audit.attacks.cells import CORNERS, SCHEMA, SPEC, Integers
from audit.attacks.confidence import Scores
from audit.attacks.finding import CheckResult, Claim, Effort, Subject
from audit.attacks.law import outcome_finding
from audit.attacks.recount import recount
from consumer.gate import ConsumerGate
from consumer.settings import RequestSettings
from consumer.summary.offers import make_offer
from fedkme.cells.codebook import CodeBook
from fedkme.cells.directions import Menu, pick, scores
from fedkme.cells.disclosures import PICK_SENSITIVITY
from fedkme.cells.histogram import HistogramNoise
from fedkme.exchange import CellsPlan, Plan
from fedkme.features.fourier import FourierSpec
from fedkme.privacy.events import CHOICE_SLACK, CONSUMER, OWNERS, BoundedRange, PureDp
from fedkme.privacy.noise import SimulatedNoise, simulated
from fedkme.tables.table import Table

BOOK = CodeBook(
    "sketch",
    SPEC,
    {"origin": np.zeros(2), "directions": np.eye(2), "weights": np.zeros((1, 2)), "offsets": np.zeros(1)},
    SCHEMA,
)
_OPPOSED = 11
_HALF = 20
"""Rows of D_v on each side: with so many rows all directions are far, and "none" is seldom picked."""
_EPSILON = 2.0
"""Total epsilon of D_v; half of it is for the one pick."""


def menu() -> Menu:
    """Menu of one axis with opposite levels: a reflected row moves all scores at once."""
    size = _OPPOSED + 1
    levels = np.array([0.5] * _OPPOSED + [-0.5])
    close, none = tuple((i,) for i in range(size)), ((),) * size
    return Menu((0,) * size, np.zeros(size), np.full(size, 0.25), levels, close, 1, 0.5, 4, none, none)


def picked() -> Subject:
    """A pick at epsilon = 1, and an offer of pick and histogram at epsilon = 2."""
    claim = Claim(_EPSILON / 2.0, 0.0, "replace one row of D_v")
    whole = Claim(_EPSILON, 0.0, claim.relation)
    checks = (
        _moves,
        _law,
        partial(_spent, whole),
        Experiment(claim, "which direction is picked", _play, 8_000),
    )
    return Subject("cells-picks", "sound", claim, checks)


def _moves(effort: Effort) -> CheckResult:
    """Change of a score, in rows, for the worst pair."""
    random, worst, offered = np.random.default_rng([effort.seed, 12]), 0.0, menu()
    for _ in range(effort.trials(100)):
        rows = random.random((int(random.integers(1, 6)), 2))
        moved = rows.copy()
        rows[0], moved[0] = CORNERS[random.integers(4)], CORNERS[random.integers(4)]
        worst = max(worst, float(np.abs(scores(offered, BOOK, rows) - scores(offered, BOOK, moved)).max()))
    return CheckResult("sensitivity", "change of a score", worst > PICK_SENSITIVITY, PICK_SENSITIVITY, worst)


def _law(effort: Effort) -> CheckResult:
    """Frequencies of picks, "none" included, against the declared law."""
    offered, rows = menu(), CORNERS[[0, 1, 1]]
    far, event = scores(offered, BOOK, rows), offered.event(_EPSILON)
    noise = simulated(effort.seed, "audit", "picks")
    trials = effort.trials(5_000)
    drawn = np.array([pick(offered, far, len(rows), event, noise)[0] for _ in range(trials)])
    none = 0.1 * len(rows) + 2.0 * np.log(len(offered)) / (event.epsilon - CHOICE_SLACK)
    weights = np.exp((event.epsilon - CHOICE_SLACK) / 2.0 * np.append(far, none))
    observed = np.bincount(drawn, minlength=len(offered) + 1)
    return outcome_finding(observed, weights / weights.sum(), effort.alpha, "directions that were picked")


def _spent(claim: Claim, effort: Effort) -> CheckResult:
    """Ledger lines of an offer's picks, and the noise of its histogram, against the claim."""
    noise = Integers(simulated(effort.seed, "audit", "offer"))
    features = FourierSpec("paired", 8, 1.0, 3, 0)
    plan = Plan("audit", features, cells=CellsPlan(BOOK.to_json(), 1.0, 1.0, menu=menu().to_json()))
    request = RequestSettings.model_validate({"p": 1, "privacy": {"epsilon": _EPSILON}})
    gate = ConsumerGate(CONSUMER)
    make_offer(plan, request, SCHEMA, Table(CORNERS, np.zeros(4, np.int64)), lambda purpose: noise, gate)
    picks = [
        about.event
        for about in gate.declared
        if about.observer == OWNERS and isinstance(about.event, BoundedRange)
    ]
    counts: list[Any] = [HistogramNoise(scale).event for scale in noise.scales]
    return recount(claim, [*picks, *counts], [BoundedRange, PureDp], "picks and a histogram of D_v")


def _play(second: bool, trials: int, random: np.random.Generator) -> Scores:
    """Half of the rows on each side, or one row moved; score: 1 if the one opposed direction is picked."""
    offered, noise = menu(), SimulatedNoise(random)
    rows = CORNERS[[0] * (_HALF - second) + [1] * (_HALF + second)]
    far, event = scores(offered, BOOK, rows), offered.event(_EPSILON)
    return np.array(
        [float(pick(offered, far, len(rows), event, noise)[0] == _OPPOSED) for _ in range(trials)]
    )
