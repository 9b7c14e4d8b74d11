"""Layer 3: games. Which of two neighbouring worlds made this output?

The neighbours are a worst-case pair, the score is a likelihood ratio or a deciding event; both are fixed
before any sample is drawn. `confidence` turns scores into bounds.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from audit.attacks.confidence import (
    LowerBound,
    Scores,
    fixed_bound,
    smallest_factor,
    smallest_gaussian_factor,
    split_bound,
)
from audit.attacks.finding import CheckResult, Claim, Effort

Sample = Callable[[bool, int, np.random.Generator], Scores]
"""Draws the scores of n independent outputs, (n,), in the second world or the first; large scores speak for
the second world."""

USUAL_ALPHA = 0.05
"""False alarm rate of the bound in a finding's note; the verdict uses the audit's rate."""


@dataclass(frozen=True, slots=True)
class Experiment:
    """One game.

    Attributes:
        claim: the claim to refute.
        statistic: the score in words.
        sample: draws scores.
        trials: number of trials per world, in a quick audit.
        gaussian: see `split_bound`.
        note: note on the place of the game.
        threshold: least score that speaks for the second world; None: chosen on half of the trials.
    """

    claim: Claim
    statistic: str
    sample: Sample
    trials: int
    gaussian: bool = False
    note: str = ""
    threshold: float | None = None

    def __call__(self, effort: Effort) -> CheckResult:
        """Sample both worlds and bound epsilon."""
        trials = effort.trials(self.trials)
        first, second = (self.sample(world, trials, random) for world, random in self.streams(effort))
        claim, alpha = self.claim, effort.alpha
        bound, usual = (self._bound(first, second, level) for level in (alpha, USUAL_ALPHA))
        return CheckResult(
            "black box",
            self.statistic,
            bound.epsilon > claim.epsilon,
            claim.epsilon,
            bound.epsilon,
            bound.trials,
            alpha,
            self._power(bound, alpha),
            f"{self.note}; epsilon >= {usual.epsilon:.3g} at {1.0 - USUAL_ALPHA:.0%}".removeprefix("; "),
        )

    @staticmethod
    def streams(effort: Effort) -> Iterator[tuple[bool, np.random.Generator]]:
        """Yield each world with its randomness, which is the same for every game of one effort."""
        streams = np.random.SeedSequence([effort.seed, 3]).spawn(2)
        for world, stream in zip((False, True), streams, strict=True):
            yield world, np.random.Generator(np.random.Philox(stream))

    def _bound(self, first: Scores, second: Scores, alpha: float) -> LowerBound:
        if self.threshold is None:
            return split_bound(first, second, self.claim.delta, alpha, self.gaussian)
        return fixed_bound(first, second, self.threshold, self.claim.delta, alpha, self.gaussian)

    def _power(self, bound: LowerBound, alpha: float) -> float | None:
        epsilon, delta = self.claim.epsilon, self.claim.delta
        if not 0 < epsilon < math.inf:
            return None
        if self.gaussian:
            return smallest_gaussian_factor(epsilon, delta, bound.trials, alpha)
        return smallest_factor(epsilon, delta, bound, alpha)
