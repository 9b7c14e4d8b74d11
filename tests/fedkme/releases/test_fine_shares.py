"""Shares of fine cells: their estimates, their bounds, and rows that are drawn by them."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from fedkme.answers.intervals import Between, DoubtfulBound, ReleasedFigure, critical, with_best_ends
from fedkme.releases.fine import FineShares, ToldMean

TRUE = np.array([0.4, 0.1, 0.05, 0.05, 0.2, 0.0, 0.1, 0.1])
WITHIN = np.array([0, 0, 0, 1, 1, 2, 2, 3], dtype=np.int64)
COARSE = np.bincount(WITHIN, TRUE).astype(np.float64)
S, V = 0.02, 0.01**2


def noisy(seed: int) -> FineShares:
    """Fine and coarse shares with noise of the stated deviations; coarse shares add up to 1."""
    rng = np.random.default_rng(seed)
    away = rng.normal(0, math.sqrt(V), 4)
    return FineShares(TRUE + rng.normal(0, S, 8), S, WITHIN, COARSE + away - away.mean(), V)


def test_estimates_have_the_stated_law_and_less_noise_than_the_fine_table() -> None:
    one, two = np.arange(8.0), (np.arange(8) < 4).astype(float)
    # 4,000 draws: means within five standard errors (1e-6), covariances within six (1e-8). Seeds are fixed.
    means = np.array([noisy(seed).law([one, two])[0] for seed in range(4000)])
    _, covariance = noisy(0).law([one, two])
    np.testing.assert_allclose(means.mean(axis=0), [TRUE @ one, TRUE @ two], atol=5 * 0.05 / math.sqrt(4000))
    np.testing.assert_allclose(np.cov(means.T), covariance, rtol=0.15, atol=2e-5)
    away = two - two.mean()
    assert covariance[1, 1] < S**2 * (away @ away)
    # The share of all rows has no noise, as N is public.
    whole, law = noisy(1).law([np.ones(8)])
    assert whole[0] == pytest.approx(1.0)
    assert law[0, 0] == pytest.approx(0.0)
    assert noisy(1).shares.sum() == pytest.approx(1.0)


def test_a_cell_of_two_counts_has_the_noise_of_both() -> None:
    parts = np.array([2, 1, 1, 1, 3, 1, 1, 1])

    def folded(seed: int) -> FineShares:
        rng, plain = np.random.default_rng([seed, 1]), noisy(seed)
        more = rng.normal(0, S * np.sqrt(parts - 1.0))
        return replace(plain, fine=plain.fine + more, parts=parts)

    functions = [np.arange(8.0), (np.arange(8) == 0).astype(float), (np.arange(8) > 3).astype(float)]
    # 4,000 draws: see the test above. Each deviation is at most .05.
    means = np.array([folded(seed).law(functions)[0] for seed in range(4000)])
    _, covariance = folded(0).law(functions)
    truths = [TRUE @ each for each in functions]
    np.testing.assert_allclose(means.mean(axis=0), truths, atol=5 * 0.06 / math.sqrt(4000))
    np.testing.assert_allclose(np.cov(means.T), covariance, rtol=0.15, atol=3e-5)
    assert covariance[1, 1] > noisy(0).law(functions)[1][1, 1]
    assert folded(2).shares.sum() == pytest.approx(1.0)


def test_a_told_mean_leaves_estimates_with_the_stated_law_and_less_noise() -> None:
    scores, parts = np.clip(np.arange(8.0) / 3.0 - 1.0, -1.0, 1.0), np.array([2, 1, 1, 1, 3, 1, 1, 1])

    def told(seed: int, folded: bool) -> FineShares:
        rng, plain = np.random.default_rng([seed, 2]), noisy(seed)
        mean = ToldMean(scores, float(TRUE @ scores + rng.normal(0, 0.01)), 0.01)
        if not folded:
            return replace(plain, told=mean)
        return replace(
            plain, told=mean, parts=parts, fine=plain.fine + rng.normal(0, S * np.sqrt(parts - 1.0))
        )

    functions = [np.arange(8.0), (np.arange(8) == 0).astype(float)]
    for folded in (False, True):
        # 2,000 draws: means within five standard errors, covariances within six. Seeds are fixed.
        drawn = [told(seed, folded) for seed in range(2000)]
        means = np.array([each.law(functions)[0] for each in drawn])
        _, covariance = drawn[0].law(functions)
        truths = [TRUE @ each for each in functions]
        np.testing.assert_allclose(means.mean(axis=0), truths, atol=5 * 0.05 / math.sqrt(2000))
        np.testing.assert_allclose(np.cov(means.T), covariance, rtol=0.2, atol=3e-5)
        without = replace(drawn[0], told=None).law(functions)[1]
        assert (np.diag(covariance) < np.diag(without)).all()
        assert covariance[0, 0] < 0.5 * without[0, 0]
        for each in drawn[:20]:  # shares are those by which the same means follow
            np.testing.assert_allclose(each.law([*np.eye(8)])[0], each.shares, atol=1e-9)
            assert each.shares.sum() == pytest.approx(1.0)


@pytest.mark.parametrize("hidden", [True, False])
def test_bounds_of_a_mean_in_a_wide_range_hold_with_less_noise_than_its_estimate(hidden: bool) -> None:
    # A curve of rows in a tenth of the range: noise of empty cells must not widen the interval.
    rng, cells = np.random.default_rng(4), np.arange(256)
    true = np.exp(-(((cells - 40) / 9.0) ** 2))
    true /= true.sum()
    values = cells / 255.0
    exact, lengths, held = float(true @ values), list[float](), 0
    for _ in range(60):
        within = cells // 16
        fine = FineShares(
            true + 0.002 * rng.standard_normal(256), 0.002, within, np.full(16, 1 / 16), math.inf
        )
        means, covariance = fine.law([values])
        middle = ReleasedFigure(float(means[0]), math.sqrt(float(covariance[0, 0])))
        whole = Between(middle, middle, middle, ReleasedFigure(0.0), hidden=hidden)
        best = with_best_ends(whole, fine, values, values)
        assert hidden or best.unseen == 0.0  # the ends differ by choice
        low, high = best.ends(DoubtfulBound(0.0))
        held += low <= exact <= high
        lengths.append((high - low) / (2.0 * critical(0.0) * middle.deviation))
    assert held >= 52  # of exact 95 % intervals, fewer of 60 hold with a chance of 6e-3
    assert np.mean(lengths) < 0.8


def test_a_share_of_cells_that_hide_nothing_keeps_its_unbiased_interval() -> None:
    fine, above = noisy(1), np.arange(8) > 3
    means, covariance = fine.law([above.astype(np.float64)])
    middle = ReleasedFigure(float(means[0]), math.sqrt(float(covariance[0, 0])))
    whole = Between(middle, middle, middle, ReleasedFigure(0.0), hidden=False)
    assert with_best_ends(whole, fine, above.astype(np.float64), above.astype(np.float64)) is whole


def test_rows_are_drawn_to_have_a_told_mean_whatever_the_noise_of_fine_counts() -> None:
    scores = np.linspace(-1.0, 1.0, 8)
    codes = np.repeat(np.arange(4), np.rint(3000 * COARSE).astype(int))
    told = ToldMean(scores, float(TRUE @ scores), 1e-4)
    for seed in range(5):
        plain = replace(noisy(seed), sigma=0.2, coarse=COARSE, variance=1e-9)
        plain = replace(plain, fine=TRUE + np.random.default_rng(seed).normal(0, 0.2, 8))
        off, near = (
            abs(scores[each.drawn(codes, np.random.default_rng(seed))].mean() - told.mean)
            for each in (plain, replace(plain, told=told))
        )
        assert near < max(0.02, off / 2)
        assert near < 0.05


def test_fine_counts_are_used_alone_without_coarse_counts() -> None:
    fine = FineShares(TRUE, S, WITHIN, np.full(4, 0.25), math.inf)
    np.testing.assert_allclose(fine.shares, TRUE)
    away = np.arange(8.0) - 3.5
    assert fine.law([np.arange(8.0)])[1][0, 0] == pytest.approx(S**2 * (away @ away))


def test_rows_are_drawn_by_fine_shares_or_evenly_where_these_are_noise() -> None:
    # 3,000 draws: .04 is 4.3 standard errors of a share (2e-5) or more. Seeds are fixed.
    codes = np.repeat([0, 1, 2], 3000)
    sharp = FineShares(TRUE, 1e-6, WITHIN, COARSE, 1e-12).drawn(codes, np.random.default_rng(0))
    assert (WITHIN[sharp] == codes).all()
    share = np.bincount(sharp, minlength=8) / 3000
    np.testing.assert_allclose(share[:7], (TRUE / COARSE[WITHIN])[:7], atol=0.04)
    vague = FineShares(TRUE, 10.0, WITHIN, COARSE, 1e-12).drawn(codes, np.random.default_rng(0))
    # The halves of three cells are one and two; of noise alone a half is between a third and a half.
    np.testing.assert_allclose(np.bincount(vague[:3000], minlength=3) / 3000, 1 / 3, atol=0.1)
