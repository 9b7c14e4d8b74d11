"""consumer.summary.judging: weights judged by held-out rows of D_v."""

from __future__ import annotations

import numpy as np
import pytest

from consumer.summary.judging import LEAST, MOST_RECEIVED, by_halves
from consumer.summary.verdict import FormQuality, Yardstick, verdict_on
from fedkme.embeddings.mmd import ReferenceRows
from fedkme.embeddings.prune import pruned
from fedkme.embeddings.summary_weights import received, weigh
from fedkme.verdict import QualityVerdict

GAMMA, P, M = 0.5, 40, 80


@pytest.mark.parametrize("shift", [0.0, 1.5])
def test_by_halves_estimates_the_distance_to_unseen_rows(shift: float) -> None:
    # Of rows that hold the law of D_v and of rows that do not, means of 6 draws: not below .8 of the MMD^2 of
    # D_v's weights to fresh rows, and above it by what half of D_v is noisier at most. MMD^2 to D_v hides it.
    random = np.random.default_rng(1)
    law = ReferenceRows(random.normal(size=(1000, 2)), GAMMA)
    estimates, truths, fitted = [], [], []
    for _ in range(6):
        rows = random.normal(shift, size=(2 * P, 2))
        validation = ReferenceRows(random.normal(size=(M, 2)), GAMMA)
        estimate = by_halves(rows, validation, P)
        assert estimate is not None
        about = received(rows, validation)
        fit = weigh(about, P, pruned(about.seen, P))
        alike, weighted, repeats = estimate
        assert 0.9 * weighted < repeats < 1.5 * weighted + 0.01
        assert alike > -0.01
        estimates.append(weighted)
        truths.append(law.mmd2(rows[fit.indices], fit.weights))
        fitted.append(fit.mmd2)
    truth, noise = np.mean(truths), (1.0 - law.own) / M
    assert 0.8 * truth < np.mean(estimates) < truth + 2.0 * noise
    assert np.mean(fitted) < truth - 0.5 * noise


def test_by_halves_gives_no_estimate_for_few_or_very_many_rows() -> None:
    few = ReferenceRows(np.zeros((LEAST - 1, 1)), GAMMA)
    assert by_halves(np.zeros((5, 1)), few, 2) is None
    assert by_halves(np.zeros((MOST_RECEIVED + 1, 1)), ReferenceRows(np.zeros((LEAST, 1)), GAMMA), 2) is None
    assert by_halves(np.zeros((5, 1)), ReferenceRows(np.zeros((LEAST, 1)), GAMMA), 2) == (0.0, 0.0, 0.0)


def test_a_few_rows_that_hold_the_law_are_not_poor() -> None:
    # Measured on police stops: .0045 to D_v on 29 effective rows, "poor" by the charge for few rows, and .83
    # of fresh rows' MMD^2 to unseen rows; by_halves gives 1.49. Weights that fit D_v alone keep their grade.
    by = Yardstick(spread=0.53, rows=100, validation_rows=250)
    assert by.expected is not None

    def seen(halves: float | None) -> QualityVerdict:
        return verdict_on(
            {"alike": FormQuality(0.089, 100), "weighted": FormQuality(0.0045, 29, halves=halves)}, by
        )

    assert seen(None).grade == "poor"
    verdict = seen(1.49 * by.expected - 0.53 / 250)
    assert verdict.grades == {"alike": "poor", "weighted": "fair"}
    assert "fitted to one half of D_v, has, to the other, 1.5 times" in verdict.sentence
    assert seen(3 * by.expected) == seen(None)
    assert seen(-1.0).grade == "good"  # an estimate without bias is below 0 at times
