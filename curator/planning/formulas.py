"""MMD^2 to D_v relative to uniform sampling, and rows accessed, from public facts.

Numbers are in units of U, what uniform sampling has for p -> infinity (the distance of the pool from D_v):
.04 to .08 for the images and patients measured. The kernel's bandwidth is of the median distance.

    uniform       1 + 14 / p                          14 = spread of the pool over U
    greedy        3.1 / p + 2.1 / m + 2.4 (p/N)^2     herding, what m rows cannot show, rows that run out
    cells, rho    greedy + f X
        X         x / (1 + x),  x = .9/m + 11 B 7.84/(m eps)^2 + 9.8 B 7.84/(m_j eps_2)^2 + 12 (p/N)^2 + bias
        bias      .018 where every owner has one kind of rows, .13 where all have all kinds
        f         f_0 + (f_1 - f_0) X^1.35: pruning undoes most of a small error, little of a large one
    uniform + prune   greedy + phi (1 - rho p / N)
    clock         .47 (p/100)^-.37 + (.89 - that) n^2 / (n^2 + .0016^2),  n = d (2 sigma(eps, delta) / m)^2

B 7.84/(m eps)^2 is the expected error of discrete Laplace noise on a histogram of B cells, d (2 sigma/m)^2
that of Gaussian noise on g~. Their factors, and all other constants, are fits to what was measured
(sim/planning/measured.py): docs/planning.md says how far off they are.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from curator.planning.facts import PublicFacts
from curator.summary.auctions.clock import ClockSettings
from curator.summary.auctions.privauction import PrivAuctionSettings
from fedkme.cells.plan import SKETCH_SHARE
from fedkme.privacy.gaussian import gaussian_sigma

SPREAD = 14.0
GREEDY_ROWS, GREEDY_TARGET = 3.1, 2.1
GREEDY_SCARCE, CELLS_SCARCE = 2.4, 12.0
"""Factors for a p that is no small part of the pool: of the hospitals, whose 700 rows run out at p = 200."""
SAMPLE, TARGET_NOISE, OWNER_NOISE = 0.9, 11.0, 9.8
PURE_BIAS, MIXED_BIAS = 0.018, 0.13
MIDDLE_BIAS = math.sqrt(PURE_BIAS * MIXED_BIAS)
"""Bias where it is not known how owners divide the kinds of rows."""
LEFT = {1.0: 1.0, 1.5: 0.30, 2.0: 0.15, 3.0: 0.10}
"""f_0: what pruning rho p rows to p leaves of a small error."""
LEFT_OF_LARGE = {1.0: 1.0, 1.5: 0.60, 2.0: 0.41, 3.0: 0.26}
"""Part that is left of an error like that of MNIST's uniform rows; 2 measured, others interpolated."""
UNIFORM_LEFT = {1.0: 1.0, 2.0: 0.23, 3.0: 0.09, 5.0: 0.04}
"""phi: what it leaves of uniform rows' error, between classes of images (.41 at 2) and real sites (.13)."""
LEFT_POWER = 1.35
CLOCK_EXACT, CLOCK_POWER, CLOCK_NOISY, CLOCK_SCALE = 0.47, 0.37, 0.89, 0.0016
OVERSHOOT = 5.0
"""Rows that a clock sells beyond its threshold, and half of its patience; fitted."""


def uniform(p: int) -> float:
    """Estimate for p rows in equal numbers of each owner."""
    return 1.0 + SPREAD / p


def greedy(facts: PublicFacts) -> float:
    """Estimate for exact greedy without privacy: no other is lower."""
    scarce = GREEDY_SCARCE * (facts.rows / facts.pool) ** 2
    return GREEDY_ROWS / facts.rows + GREEDY_TARGET / facts.validation_rows + scarce


def uniform_pruned(facts: PublicFacts, rho: float) -> float:
    """Estimate for rho p uniform rows, rho > 1, pruned to p; all rows of the pool pruned are greedy's."""
    out_of_reach = max(0.0, 1.0 - rho * facts.rows / facts.pool)
    return greedy(facts) + _between(UNIFORM_LEFT, rho) * out_of_reach


def histogram_epsilon(facts: PublicFacts) -> float:
    """eps_2: what owners' histograms get; all of it with a code book of public seed rows."""
    return facts.epsilon * (1.0 if facts.seed_rows else 1.0 - SKETCH_SHARE)


def cell_count(facts: PublicFacts) -> int:
    """B of SOUND.md's rule: 8 to 64, so that both histograms are above their noise where that can be."""
    usable = min(facts.validation_rows * facts.epsilon / 3, facts.median_owner * histogram_epsilon(facts) / 5)
    return int(2 ** min(max(math.floor(math.log2(max(usable, 1.0))), 3), 6))


def cells(facts: PublicFacts, rho: float, bias: float) -> float:
    """Estimate for the cells protocol.

    Args:
        facts: sizes and budget.
        rho: rows ordered over p, >= 1; between the measured ones of LEFT it is interpolated.
        bias: PURE_BIAS, MIXED_BIAS or between them: how owners divide the kinds of rows is not public.
    """
    count, m = cell_count(facts), facts.validation_rows
    noise = TARGET_NOISE * count * 7.84 / (m * facts.epsilon) ** 2
    owners = OWNER_NOISE * count * 7.84 / (facts.median_owner * histogram_epsilon(facts)) ** 2
    scarce = CELLS_SCARCE * (facts.rows / facts.pool) ** 2
    x = SAMPLE / m + noise + owners + scarce + bias
    error = x / (1.0 + x)
    small = _between(LEFT, rho)
    left: float = small + (_between(LEFT_OF_LARGE, rho) - small) * error**LEFT_POWER
    return greedy(facts) + left * error


def clock(facts: PublicFacts) -> float:
    """Estimate for Algorithm 3 under the clock with Gaussian means, over that of p uniform rows."""
    sigma = gaussian_sigma(facts.epsilon, facts.delta)
    noise = facts.dimension * (2.0 * sigma / facts.validation_rows) ** 2
    exact: float = CLOCK_EXACT * (facts.rows / 100) ** -CLOCK_POWER
    exact = min(exact, CLOCK_NOISY)
    return exact + (CLOCK_NOISY - exact) * noise**2 / (noise**2 + CLOCK_SCALE**2)


def clock_rows(facts: PublicFacts, share: float = 0.5) -> float:
    """Rows accessed under the clock, whatever K is: every clock sells about its threshold T = 5/e + B - 1.

    Args:
        facts: p and the budget.
        share: of epsilon, that the clock gets; replacing a row costs it twice.
    """
    settings = ClockSettings(epsilon=facts.epsilon * share / 2.0)
    clocks = math.ceil(facts.rows / settings.block)
    sold = clocks * (settings.threshold() + 0.5 / settings.epsilon + OVERSHOOT)
    return min(max(sold, float(facts.rows)), float(facts.pool))


def privauction_rows(facts: PublicFacts) -> float:
    """Rows accessed under PRIVAUCTION: p sum over ranks r < K of exp(-eps_auc r).

    The paper's K^(1/3) is 1.7 and 3.7 at K = 5 and 50; its own parameters ask 4.8 and 40 owners a round.
    """
    rate, _ = PrivAuctionSettings().parameters(facts.owners)
    asked = math.fsum(math.exp(-rate * rank) for rank in range(facts.owners))
    return min(facts.rows * asked, float(facts.pool))


def _between(measured: Mapping[float, float], rho: float) -> float:
    """Interpolate what was measured at some rho; beyond the largest it stays."""
    return float(np.interp(rho, list(measured), list(measured.values())))
