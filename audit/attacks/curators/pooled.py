"""Audit of releases: joint noise on pooled sums, noisy rounds, shares of noise by many owners.

Neighbouring: one row replaced, the number of rows public.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Sequence
from functools import partial

import numpy as np

from audit.attacks.black_box import Experiment
from audit.attacks.confidence import Scores
from audit.attacks.finding import CheckResult, Claim, Effort, Subject
from audit.attacks.law import scale_finding
from audit.attacks.recount import gaussian_events, recount
from audit.attacks.scripted import TalliedNoise
from audit.in_memory import PooledOracle, TrustedNoise
from curator.releases import joint
from curator.releases.marginals.rounds import rounds
from curator.releases.marginals.signs import Codes
from fedkme.arrays import FloatArray
from fedkme.features.counts import L2_STEP, PARITY_STEP, Clique, Groups
from fedkme.features.fourier_map import FourierMapSpec
from fedkme.features.maps import ROW_UNIT
from fedkme.features.sums import Layout, PooledSum, pooled_sum
from fedkme.privacy.events import Event, Gaussian
from fedkme.privacy.noise import NoiseSource, SimulatedNoise, simulated
from fedkme.privacy.sums import PooledRelease
from fedkme.releases.counts import Screen
from fedkme.secagg.noise import NoisePlan, draw_share, plan_noise
from fedkme.tables.schema import Label, Numeric, Schema
from fedkme.tables.table import Table

_CLAIM = Claim(1.0, 1e-5, "replace one row; the consumer looks")
_SCHEMA = Schema(
    columns=(Numeric(name="a", bounds=(0, 1)), Numeric(name="b", bounds=(0, 1))),
    label=Label(name="c", classes=("x", "y")),
)
_LAYOUT = Layout(2)
_MAP = FourierMapSpec(dimension=8, gamma=8.0, seed=3).make(_SCHEMA)
_OTHERS = 20
"""Rows that both worlds share."""
_COUNTED = 1000
"""Rows of the counted tables, enough for a screen."""


# An embedding and class counts, with noise once.


def pooled_sums() -> Subject:
    """One embedding and the class counts, jointly at (1, 1e-5), as in DP-MERF and DP-HP."""
    plan = joint.calibrate([_MAP], [1.0], _LAYOUT, epsilon=_CLAIM.epsilon, delta=_CLAIM.delta, counts=True)
    what = "projection of embedding and counts on the neighbours' difference, as a Gaussian"
    game = Experiment(_CLAIM, what, partial(_play_pooled, plan), 20_000, gaussian=True)
    return Subject("pooled-sums", "sound", _CLAIM, (partial(_pooled_units, plan), game))


def _total(point: FloatArray, label: int) -> PooledSum:
    middle = np.full((_OTHERS, 2), 0.5)
    labels = np.arange(_OTHERS, dtype=np.int64) % 2
    rows = Table(np.concatenate([middle, point[np.newaxis]]), np.append(labels, label))
    return pooled_sum(rows, _MAP, _LAYOUT)


def _ends() -> tuple[PooledSum, PooledSum]:
    """Neighbours far apart: of one class, with the most opposed features on a grid of the domain."""
    grid = np.stack(np.meshgrid(np.linspace(0, 1, 21), np.linspace(0, 1, 21)), axis=-1).reshape(-1, 2)
    features = _MAP.features(grid)
    first, second = np.unravel_index(int((features @ features.T).argmin()), (len(grid), len(grid)))
    return _total(grid[first], 0), _total(grid[second], 0)


def _deviations(plan: PooledRelease, total: PooledSum) -> list[float]:
    """Deviations of a release's noise for embedding and counts, in the units of the sums."""
    noise = TalliedNoise(simulated(0, "audit", "pooled"))
    joint.release([_MAP], [total], _LAYOUT, _OTHERS + 1, plan, noise, True)
    calls = list(noise.gaussian_calls)
    return [calls[0] * ROW_UNIT, *calls[1:]]


def _pooled_units(plan: PooledRelease, effort: Effort) -> CheckResult:
    """L2 change of all sums together, each in deviations of its own noise."""
    deviations = _deviations(plan, _total(np.full(2, 0.5), 0))
    random, worst = np.random.default_rng([effort.seed, 9]), 0.0
    pairs = [_ends(), *(_random_ends(random) for _ in range(effort.trials(300)))]
    for first, second in pairs:
        moved = float(np.linalg.norm((first.steps - second.steps) * ROW_UNIT)) / deviations[0]
        counted = float(np.linalg.norm(first.count - second.count))
        worst = max(worst, math.hypot(moved, counted / deviations[-1] if counted else 0.0))
    if len(deviations) < 2:  # counts left without noise
        worst = math.inf
    claimed = 1.0 / plan.multiplier
    what = "change of embedding and counts in deviations of their noise"
    return CheckResult("sensitivity", what, worst > claimed * (1 + 1e-9), claimed, worst)


def _random_ends(random: np.random.Generator) -> tuple[PooledSum, PooledSum]:
    first, second = random.integers(0, 2, (2, 2)) if random.random() < 0.5 else random.random((2, 2))
    return _total(first.astype(float), 0), _total(second.astype(float), int(random.integers(2)))


def _play_pooled(plan: PooledRelease, second: bool, trials: int, random: np.random.Generator) -> Scores:
    ends = _ends()
    apart = (ends[1].steps - ends[0].steps) * ROW_UNIT
    noise = SimulatedNoise(random)
    scores = np.empty(trials)
    for trial in range(trials):
        released = joint.release([_MAP], [ends[int(second)]], _LAYOUT, _OTHERS + 1, plan, noise, True)
        scores[trial] = float((released.embeddings[0].mean * apart).sum())
    return scores


# Noisy rounds.


def noisy_rounds() -> Subject:
    """Marginals in noisy rounds over four columns at (1, 1e-5): the cost of all draws, against the budget."""
    return Subject("rounds", "sound", _CLAIM, (_rounds_recount,))


def _rows_of(sizes: tuple[int, ...], effort: Effort) -> PooledOracle:
    random = np.random.default_rng([effort.seed, 10])
    return PooledOracle([np.stack([random.integers(0, size, _COUNTED) for size in sizes], axis=1)], sizes)


def _rounds_recount(effort: Effort) -> CheckResult:
    sizes, pairs = (2, 3, 2, 2), ((0, 3), (1, 3), (2, 3))
    noise = TalliedNoise(simulated(effort.seed, "audit", "rounds"))
    oracle = _SignsApart(_rows_of(sizes, effort), noise, simulated(effort.seed, "audit", "parities"))
    asked = rounds(oracle, sizes, _COUNTED, _CLAIM.epsilon, _CLAIM.delta, pairs, screened=Codes(sizes, 3))
    asyncio.run(asked)
    drawn = [*gaussian_events(noise, L2_STEP), *oracle.signs]
    return recount(_CLAIM, drawn, [Gaussian], "noise drawn")


class _SignsApart(TrustedNoise):
    """Oracle that tallies the noise of parities apart, because their sensitivity differs."""

    def __init__(self, oracle: PooledOracle, noise: NoiseSource, of_signs: NoiseSource) -> None:
        super().__init__(oracle, noise)
        self._of_signs = of_signs
        self.signs: list[Event] = []

    async def parities(
        self, groups: Sequence[Groups], blocks: Sequence[Sequence[Clique]], sigmas: Sequence[float]
    ) -> Screen:
        tallied = TalliedNoise(self._of_signs)
        screen = await TrustedNoise(self._oracle, tallied).parities(groups, blocks, sigmas)
        scales = sorted(tallied.gaussian_calls.items())  # the larger, the more parities a block has
        for length, (scale, calls) in zip(sorted(map(len, blocks)), scales, strict=True):
            self.signs.append(Gaussian(scale / (PARITY_STEP * math.sqrt(length)), calls))
        return screen


# Shares of noise.


def distributed_noise() -> Subject:
    """Noise shares of five owners at (1, 1e-5): one owner may be lost and one may side with the curator."""
    claim = Claim(1.0, 1e-5, "replace one row; the curator and a colluding owner look")
    owners, dropouts, colluders, length = 5, 1, 1, 2
    diameter = 2.0**26
    noise_plan = plan_noise(
        claim.epsilon,
        claim.delta,
        owners=owners,
        dropouts=dropouts,
        colluders=colluders,
        length=length,
        diameter=diameter,
    )
    honest = owners - dropouts - colluders
    unknown = partial(_unknown_noise, noise_plan.share, honest)
    checks = (
        partial(_shares_law, unknown, noise_plan),
        Experiment(
            claim,
            "total less what is known, as a Gaussian",
            partial(_play_shares, unknown, diameter),
            200_000,
            gaussian=True,
        ),
    )
    return Subject("distributed-noise", "sound", claim, checks)


def _unknown_noise(share: float, honest: int, noise: NoiseSource, size: int) -> FloatArray:
    """Noise of the owners that are neither lost nor colluding, (size,)."""
    total: FloatArray = np.sum([draw_share(noise, share, size) for _ in range(honest)], axis=0).astype(
        np.float64
    )
    return total


def _shares_law(unknown: Callable[..., FloatArray], plan: NoisePlan, effort: Effort) -> CheckResult:
    drawn = unknown(simulated(effort.seed, "audit", "shares"), effort.trials(200_000))
    declared = plan.multiplier * plan.diameter
    return scale_finding(
        drawn / declared, "norm", 1.0, effort.alpha, "honest owners' noise, over the declared"
    )


def _play_shares(
    unknown: Callable[..., FloatArray],
    diameter: float,
    second: bool,
    trials: int,
    random: np.random.Generator,
) -> Scores:
    scores: FloatArray = unknown(SimulatedNoise(random), trials)
    return scores + (diameter if second else 0.0)
