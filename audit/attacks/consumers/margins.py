"""Audit of margins that D_v picks over a model of the pool (fedkme.margins.picks), and of their cost to D_v.

Neighbouring: one row of D_v replaced; the number of rows and the model are public.
"""

from __future__ import annotations

from functools import partial

import numpy as np

from audit.attacks.black_box import Experiment
from audit.attacks.cells import CORNERS, SCHEMA
from audit.attacks.confidence import Scores
from audit.attacks.finding import CheckResult, Claim, Effort, Subject
from audit.attacks.recount import recount
from consumer.gate import ConsumerGate
from consumer.settings import RequestSettings
from consumer.summary.offers import make_offer
from fedkme.arrays import FloatArray
from fedkme.cells.disclosures import PICK_SENSITIVITY
from fedkme.cells.histogram import counts
from fedkme.exchange import CellsPlan, Plan
from fedkme.features.fourier import FourierSpec
from fedkme.margins.density import even_density
from fedkme.margins.model import PoolModel
from fedkme.margins.picks import Raked, margin_noise, picked_margins
from fedkme.privacy.events import CONSUMER, OWNERS, BoundedRange, Gaussian
from fedkme.privacy.noise import SimulatedNoise, simulated
from fedkme.privacy.presets import PrivacyTarget
from fedkme.tables.table import Table

_TARGET = PrivacyTarget(epsilon=1.0, delta=1e-5)
_SHARE = 0.25
_WIDTH = SCHEMA.encoded_width
BOOK = even_density(SCHEMA, 0)


def model(random: np.random.Generator, picks: int = 2) -> PoolModel:
    """A model with two bins of each column, of any rows."""
    groups, edges = tuple((place,) for place in range(_WIDTH)), ((0.5,),) * _WIDTH
    codes = random.integers(0, 2, (int(random.integers(1, 9)), _WIDTH))
    return PoolModel(groups, edges, 0, codes, picks, _SHARE)


def margins() -> Subject:
    """Picks and margins at epsilon = 1, delta = 1e-5."""
    claim = Claim(_TARGET.epsilon, _TARGET.delta, "replace one row of D_v")
    experiment = Experiment(claim, "the count of a margin", _play, 4_000)
    return Subject("margins", "sound", claim, (_moves, partial(_spent, claim), experiment))


def _moves(effort: Effort) -> CheckResult:
    """Change of a score, in rows, for the worst pair, after any margins over any model."""
    random, worst = np.random.default_rng([effort.seed, 13]), 0.0
    for _ in range(effort.trials(200)):
        offered, rows = model(random), CORNERS[random.integers(0, 4, int(random.integers(1, 6)))]
        state = Raked(offered, len(rows), 1.0)
        if random.random() < 0.5:
            state.add(0, random.integers(-9, 9, 2))
        moved = np.concatenate([CORNERS[[random.integers(4)]], rows[1:]])
        worst = max(
            worst, float(np.abs(_scores(state, offered, rows) - _scores(state, offered, moved)).max())
        )
    return CheckResult("sensitivity", "change of a score", worst > PICK_SENSITIVITY, PICK_SENSITIVITY, worst)


def _scores(state: Raked, offered: PoolModel, rows: FloatArray) -> FloatArray:
    codes = offered.codes_of(rows)
    return state.scores([counts(codes[:, column], size) for column, size in enumerate(offered.sizes)])


def _spent(claim: Claim, effort: Effort) -> CheckResult:
    """Ledger lines of an offer's picks and margins against the claim."""
    noise = simulated(effort.seed, "audit", "margins")
    offered = model(np.random.default_rng(effort.seed))
    cells = CellsPlan(BOOK.to_json(), 1.0, 1.0, menu=offered.to_json())
    plan = Plan("audit", FourierSpec("paired", 8, 1.0, _WIDTH, 0), cells=cells)
    request = RequestSettings.model_validate({"p": 1, "privacy": _TARGET.model_dump()})
    gate = ConsumerGate(CONSUMER)
    make_offer(plan, request, SCHEMA, Table(CORNERS, np.zeros(4, np.int64)), lambda purpose: noise, gate)
    events = [about.event for about in gate.declared if about.observer == OWNERS]
    return recount(claim, events, [BoundedRange, Gaussian], "picks and margins of D_v")


def _play(second: bool, trials: int, random: np.random.Generator) -> Scores:
    """Rows of one corner, or one row of the opposite corner among them; score: a margin's first count."""
    offered, noise = model(np.random.default_rng(0), 1), SimulatedNoise(random)
    codes = offered.codes_of(CORNERS[[0] * (20 - second) + [3] * second])
    how, event = margin_noise(_TARGET, 1, _SHARE), offered.event(_TARGET.epsilon)
    seen = (picked_margins(offered, codes, how, event, noise, noise) for _ in range(trials))
    return np.array([float(next(iter(each.values()))[0]) for each in seen])
