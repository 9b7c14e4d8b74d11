"""Sensitivity of winners, by a replay of both neighbouring worlds, and the law of the noise."""

import math
from collections.abc import Sequence

import numpy as np
import pytest
from numpy.typing import NDArray

from curator.payouts.gains import GainRelease, WinRelease, by_noised_gains, by_noised_wins, gain_sensitivity
from fedkme.arrays import FloatArray
from fedkme.errors import ConfigError
from fedkme.privacy.accountants import Sound
from fedkme.privacy.noise import simulated

ROUNDS, BLOCK, OWNERS, CLIP = 24, 6, 4, 0.8


def winners(
    rows: FloatArray, means: FloatArray, target: FloatArray, prices: Sequence[float]
) -> list[tuple[int, int, float]]:
    """Algorithm 3 under the clock with its transcript given: (round, row, gain) of every winner."""
    unsent, pool, won = set(range(len(rows))), list[int](), []
    for number, mean in enumerate(means):
        scores = rows @ (target - mean)
        if number % BLOCK == 0:
            worth = [row for row in sorted(unsent) if scores[row] >= prices[number // BLOCK]]
            unsent -= set(worth)
            pool += worth
        if pool:
            best = max(pool, key=lambda row: (scores[row], -row))
            pool.remove(best)
            won.append((number, best, float(scores[best])))
    return won


def credited(won: list[tuple[int, int, float]], owners: NDArray[np.int64], wins: bool) -> FloatArray:
    value = np.zeros(OWNERS)
    for _, row, gain in won:
        value[owners[row]] += 1.0 if wins else min(max(gain, 0.0), CLIP)
    return value


def worlds(seed: int, jump: float) -> tuple[list[float], list[float], float]:
    """L1 distances of wins and gains between worlds that differ in one row, and the public bound."""
    rng = np.random.default_rng(seed)
    rows = rng.standard_normal((40, 5))
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    target = rng.standard_normal(5) * 0.4
    means = 0.3 * rng.standard_normal(5) + np.cumsum(jump * rng.standard_normal((ROUNDS, 5)), axis=0)
    prices = rng.uniform(-0.2, 0.5, ROUNDS // BLOCK).tolist()
    owners = rng.integers(0, OWNERS, 40)
    steps = np.linalg.norm(np.diff(means, axis=0), axis=1).tolist()
    before = winners(rows, means, target, prices)
    by_wins: list[float] = []
    by_gains: list[float] = []
    for row in range(40):
        other = rows.copy()
        other[row] = rng.standard_normal(5)
        other[row] /= np.linalg.norm(other[row])
        after = winners(other, means, target, prices)
        for wins, distances in ((True, by_wins), (False, by_gains)):
            distances.append(
                float(np.abs(credited(before, owners, wins) - credited(after, owners, wins)).sum())
            )
    bound = 2.0 * (2.0 * CLIP + sum(min(CLIP, step) for step in steps))
    assert bound <= gain_sensitivity(CLIP, ROUNDS)
    return by_wins, by_gains, bound


@pytest.mark.parametrize("jump", [0.0, 0.02, 0.5])
def test_replacing_a_row_moves_wins_and_gains_by_no_more_than_is_claimed(jump: float) -> None:
    """The proof in curator/payouts/gains.py, on 1200 pairs of neighbours for each path."""
    most_wins, nearest = 0.0, 0.0
    for seed in range(30):
        by_wins, by_gains, bound = worlds(seed, jump)
        most_wins = max(most_wins, *by_wins)
        nearest = max(nearest, max(by_gains) / bound)
        assert max(by_gains) <= bound + 1e-9
    assert most_wins == 2.0  # the claim, and it is reached
    assert nearest > (0.2 if jump < 0.5 else 0.02)  # the bound is of the right order where means stand still


def test_without_a_clip_there_is_no_bound_and_the_path_is_capped() -> None:
    for clip in (math.inf, math.nan, 0.0):
        with pytest.raises(ConfigError, match="infinite"):
            GainRelease(1.0, clip, 10)
    assert gain_sensitivity(1.0, 100) == 2 * 101


def test_noise_of_wins_has_the_law_that_is_charged() -> None:
    """Neighbouring numbers of wins: an event's frequencies differ by e^epsilon at most, and nearly do.

    8,000 draws each; the bound fails by chance with a probability below 1e-4.
    """
    epsilon, draws = 1.0, 8_000
    release = WinRelease(epsilon)
    assert Sound().epsilon([release.event], 1e-12).epsilon == pytest.approx(epsilon, rel=1e-2)
    noise = simulated(1, "curator", "payout")
    counts = []
    for wins in ({"a": 11, "b": 9}, {"a": 10, "b": 10}):
        hits = 0
        for _ in range(draws):
            amounts = by_noised_wins(wins, 10**6, release, noise).amounts
            hits += amounts["a"] > amounts["b"] + 100_000  # a at least 10 % of all above b
        counts.append(hits)
    ratio = counts[0] / counts[1]
    assert 1.05 < ratio < math.exp(epsilon)


def test_noised_gains_are_centred_and_as_wide_as_their_scale() -> None:
    """Value of owner a over all: mean and spread over 400 seeds, within 5 standard errors."""
    release = GainRelease(400.0, 1.0, 20)
    assert release.sensitivity == 4096 * 2 * 21
    gains = {"a": [0.9] * 10, "b": [0.3, 5.0, math.nan, -1.0] + [0.3] * 6}  # b: clipped to 1, 0 and 0
    shares = [by_noised_gains(gains, 10**6, release, simulated(s, "c", "p")).shares["a"] for s in range(400)]
    expected = 9.0 / (9.0 + 0.3 * 7 + 1.0)
    assert abs(np.mean(shares) - expected) < 0.01
    scale = release.sensitivity / release.epsilon / 4096
    deviation = math.sqrt(2) * scale * math.hypot(1 - expected, expected) / 12.1
    assert 0.7 < np.std(shares) / deviation < 1.3


def test_more_winners_than_rounds_are_refused() -> None:
    with pytest.raises(ConfigError):
        by_noised_gains({"a": [0.1] * 3}, 10, GainRelease(1.0, 1.0, 2), simulated(0, "c", "p"))
