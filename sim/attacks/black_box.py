"""Layer 3: play the game. Which of two neighbouring worlds made this output?

The neighbours are a worst-case pair and the score a likelihood ratio, or an event that decides; both are
fixed before anything is sampled. See `confidence` for what is concluded from the scores.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from sim.attacks.confidence import LowerBound, Scores, smallest_factor, smallest_gaussian_factor, split_bound
from sim.attacks.finding import CheckResult, Claim, Effort

Sample = Callable[[bool, int, np.random.Generator], Scores]
"""Scores of n independent outputs, (n,), in the second world or the first; large means the second."""


@dataclass(frozen=True, slots=True)
class Experiment:
    """One game.

    Attributes:
        claim: what is to be refuted.
        statistic: the score in words.
        sample: plays it.
        trials: per world, when in a hurry.
        gaussian: see `split_bound`.
        note: where it was played.
    """

    claim: Claim
    statistic: str
    sample: Sample
    trials: int
    gaussian: bool = False
    note: str = ""

    def __call__(self, effort: Effort) -> CheckResult:
        """Sample both worlds and bound epsilon."""
        trials = effort.trials(self.trials)
        streams = np.random.SeedSequence([effort.seed, 3]).spawn(2)
        first, second = (
            self.sample(world, trials, np.random.Generator(np.random.Philox(stream)))
            for world, stream in zip((False, True), streams, strict=True)
        )
        claim, alpha = self.claim, effort.alpha
        bound = split_bound(first, second, claim.delta, alpha, self.gaussian)
        return CheckResult(
            "black box",
            self.statistic,
            bound.epsilon > claim.epsilon,
            claim.epsilon,
            bound.epsilon,
            bound.trials,
            alpha,
            self._power(bound, alpha),
            self.note,
        )

    def _power(self, bound: LowerBound, alpha: float) -> float | None:
        epsilon, delta = self.claim.epsilon, self.claim.delta
        if not 0 < epsilon < math.inf:
            return None
        if self.gaussian:
            return smallest_gaussian_factor(epsilon, delta, bound.trials, alpha)
        return smallest_factor(epsilon, delta, bound, alpha)
