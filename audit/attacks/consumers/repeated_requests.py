"""Audit of repeated requests about one D_v: its Gaussian counts, and the total cost of many requests.

Neighbouring: one row of D_v replaced; the number of rows public.
"""

from __future__ import annotations

import math
from functools import partial

import numpy as np

from audit.attacks.black_box import Experiment
from audit.attacks.cells import BOOK, CORNERS, SCHEMA
from audit.attacks.confidence import Scores
from audit.attacks.finding import CheckResult, Claim, Effort, Subject
from audit.attacks.law import scale_finding
from audit.attacks.recount import gaussian_events, recount
from audit.attacks.scripted import TalliedNoise
from fedkme.arrays import IntArray
from fedkme.cells.histogram import GaussianNoise, noisy_counts, on_integers
from fedkme.cells.repeated_requests import costs_of_asks
from fedkme.features.counts import L2_STEP
from fedkme.privacy.events import Gaussian
from fedkme.privacy.noise import SimulatedNoise, simulated
from fedkme.privacy.presets import PrivacyTarget

ASKS = 20
_TARGET = PrivacyTarget()
_SIZE = BOOK.cells
_CELLS: IntArray = BOOK.cells_of(SCHEMA.encode(CORNERS))
"""Cells of the corners, all different."""


class _Tallied(TalliedNoise):
    """Tallied noise that refuses discrete Laplace draws, which these requests must not make."""

    def discrete_laplace(self, scale: float, size: int) -> IntArray:
        """Refuse to draw."""
        raise AssertionError("Gaussian counts draw no Laplace noise")


def often() -> Subject:
    """Twenty requests at (1, 1e-5) each, against the total that the product states to a consumer."""
    costs = costs_of_asks(_TARGET, ASKS)
    how = costs.noise
    assert isinstance(how, GaussianNoise), "with so many requests the noise is Gaussian"
    claim = Claim(costs.gaussian, _TARGET.delta, "replace one row of D_v; 20 requests")
    checks = (
        partial(_units, how, claim),
        partial(_law, how),
        Experiment(claim, "log likelihood ratio of all counts", partial(_play, how), 4_000, True),
        partial(_spent, how, claim),
    )
    return Subject("cells-asks", "sound", claim, checks)


def _units(how: GaussianNoise, claim: Claim, effort: Effort) -> CheckResult:
    """Largest L2 change of one row's counts, in deviations of the noise."""
    one = [
        noisy_counts(_CELLS[place : place + 1], _SIZE, None, simulated(0, "", ""))
        for place in range(len(_CELLS))
    ]
    units = max(float(np.linalg.norm(a - b)) for a in one for b in one) / how.deviation
    least = 1.0 / how.event.noise_multiplier
    what = "change of counts of D_v in deviations of their noise"
    return CheckResult("sensitivity", what, units > least * (1 + 1e-9), least, units)


def _law(how: GaussianNoise, effort: Effort) -> CheckResult:
    """Noise on the counts of an empty D_v, against the deviation in the ledger."""
    noise = simulated(effort.seed, "audit", "law of asks")
    drawn = [noisy_counts(_CELLS[:0], _SIZE, how, noise) for _ in range(effort.trials(20_000))]
    numbers = np.concatenate(drawn).astype(np.float64)
    return scale_finding(numbers, "norm", math.sqrt(how.variance), effort.alpha, "noise on counts of D_v")


def _play(how: GaussianNoise, second: bool, trials: int, random: np.random.Generator) -> Scores:
    """One row in the first corner's cell or in the last corner's; score: by the counts of twenty requests."""
    cells, noise = _CELLS[-1:] if second else _CELLS[:1], SimulatedNoise(random)
    counts = np.array(
        [sum(noisy_counts(cells, _SIZE, how, noise) for _ in range(ASKS)) for _ in range(trials)]
    )
    scores: Scores = (counts[:, _CELLS[-1]] - counts[:, _CELLS[0]]) / how.deviation**2
    return scores


def _spent(how: GaussianNoise, claim: Claim, effort: Effort) -> CheckResult:
    """Composed cost of the noise of twenty requests, against the claim."""
    noise = _Tallied(simulated(effort.seed, "audit", "asks"))
    for _ in range(ASKS):
        noisy_counts(_CELLS, _SIZE, how, on_integers(noise))
    return recount(claim, gaussian_events(noise, L2_STEP), [Gaussian], "the noise of twenty requests")
