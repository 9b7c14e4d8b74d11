"""Audit of payouts with noise: numbers of winning rows, and sums of the rows' gains.

Neighbouring: one row of one owner replaced, the transcript of the run fixed; another owner looks.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from audit.attacks.black_box import Experiment
from audit.attacks.confidence import Scores
from audit.attacks.finding import CheckResult, Claim, Effort, Subject
from audit.attacks.recount import recount
from audit.attacks.scripted import TalliedNoise
from curator.payouts import gains
from curator.payouts.gains import UNITS, WIN_SENSITIVITY, GainRelease, WinRelease
from fedkme.privacy.events import Event, Laplace
from fedkme.privacy.noise import NoiseSource, SimulatedNoise, simulated

Pay = Callable[[int, NoiseSource], dict[str, int]]
_CLAIM = Claim(1.0, 0.0, "replace one row, transcript fixed; another owner looks")
_TOTAL = 10**9
"""Units to divide, so many that rounding does not matter."""
_WINS = ({"a": 40, "b": 60}, {"a": 41, "b": 59})
"""A replaced row may move one win from an owner to another owner."""
_CLIP, _ROUNDS = 1.0, 3
_GAINS = ({"a": [50.0, 50.0], "b": [50.0]}, {"a": [0.0, 0.0], "b": [0.0]})
"""Gains above the clip, without broadcasts: the declared sensitivity allows gains any change."""


def wins() -> Subject:
    """Payment by numbers of winning rows at epsilon 1."""
    release = WinRelease(_CLAIM.epsilon)

    def pay(world: int, noise: NoiseSource) -> dict[str, int]:
        return dict(gains.by_noised_wins(_WINS[world], _TOTAL, release, noise).amounts)

    return _subject("payout-wins", pay, float(WIN_SENSITIVITY))


def winning_gains() -> Subject:
    """Payment by clipped winning gains at epsilon 1."""
    release = GainRelease(_CLAIM.epsilon, _CLIP, _ROUNDS)

    def pay(world: int, noise: NoiseSource) -> dict[str, int]:
        return dict(gains.by_noised_gains(_GAINS[world], _TOTAL, release, noise).amounts)

    return _subject("payout-gains", pay, gains.gain_sensitivity(_CLIP, _ROUNDS) / _CLIP * UNITS)


def _subject(name: str, pay: Pay, sensitivity: float) -> Subject:
    def spent(effort: Effort) -> CheckResult:
        noise = TalliedNoise(simulated(effort.seed, "audit", name))
        pay(0, noise)
        drawn: list[Event] = [Laplace(scale / sensitivity) for scale in sorted(noise.laplace_draws)]
        return recount(_CLAIM, drawn, [Laplace], "the noise that a payout drew")

    def play(second: bool, trials: int, random: np.random.Generator) -> Scores:
        noise = SimulatedNoise(random)
        return np.array([float(pay(int(second), noise)["a"]) for _ in range(trials)])

    game = Experiment(_CLAIM, "what an owner is paid", play, 20_000)
    return Subject(name, "sound", _CLAIM, (spent, game))
