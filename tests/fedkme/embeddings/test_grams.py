"""fedkme.embeddings.grams: choosing and weighing 50,000 rows without their whole matrix."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedkme.arrays import FloatArray, IntArray
from fedkme.embeddings import grams as grams_module
from fedkme.embeddings import prune as prune_module
from fedkme.embeddings import summary_weights as weights_module
from fedkme.embeddings.grams import KernelColumns, WholeGram, gram_of
from fedkme.embeddings.kernels import kernel_mean_at, rbf, squared_norms
from fedkme.embeddings.mmd import ReferenceRows, mmd2
from fedkme.embeddings.prune import NONE, Candidates, candidates, greedy, pruned, swapped
from fedkme.embeddings.simplex_fit import GAP, fit_simplex
from fedkme.embeddings.summary_weights import received, repeat, weigh
from tests.fedkme.embeddings.test_summary_weights import GAMMA, SEEDS, layout


def columns(rows: FloatArray) -> KernelColumns:
    return KernelColumns(rows, GAMMA, squared_norms(rows))


def greedy_of_matrix(
    gram: FloatArray, closeness: FloatArray, first: IntArray, p: int, again: bool
) -> IntArray:
    """The greedy choice by J(S + x) of each row in turn, from the whole matrix."""
    chosen = list(first)
    while len(chosen) < p:
        crowding = np.sum([gram[row] for row in chosen], axis=0) if chosen else np.zeros(len(gram))
        gain = closeness - crowding / (len(chosen) + 1)
        if not again:
            gain[chosen] = -np.inf
        chosen.append(int(gain.argmax()))
    return np.array(chosen)


def swapped_of_matrix(gram: FloatArray, closeness: FloatArray, chosen: IntArray, again: bool) -> IntArray:
    """Exchanges by the first best of all pairs, without leaving out any pair."""
    chosen, p = chosen.copy(), len(chosen)
    sums = gram[:, chosen].sum(axis=1)
    for _ in range(20 * p):
        leave = 2.0 * sums - 1.0 - 2.0 * p * closeness
        enter = 2.0 * p * closeness - 2.0 * sums - 1.0
        outside = np.array([j for j in range(len(gram)) if again or j not in chosen])
        change = leave[chosen][:, None] + enter[outside] + 2.0 * gram[np.ix_(chosen, outside)]
        place, other = np.unravel_index(int(change.argmax()), change.shape)
        if change[place, other] <= 1e-12 * p * p:
            break
        sums += gram[outside[other]] - gram[chosen[place]]
        chosen[place] = outside[other]
    return chosen


@settings(max_examples=60, deadline=None)
@given(
    SEEDS, st.integers(4, 60), st.integers(1, 12), st.booleans(), st.booleans(), st.sampled_from([1, 7, 64])
)
def test_kernel_columns_give_the_choice_of_the_whole_matrix(
    seed: int, rows: int, p: int, whole: bool, again: bool, together: int
) -> None:
    # Ties included: of equal rows the first.
    p = min(p, rows - 1)
    pool, validation = layout(seed, rows, whole)
    matrix, closeness = rbf(pool, pool, GAMMA), kernel_mean_at(pool, validation, GAMMA)
    first = np.array([1, 1] if again and p > 1 else NONE, np.int64)
    start = greedy_of_matrix(matrix, closeness, first, p, again)
    end = swapped_of_matrix(matrix, closeness, start, again)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(prune_module, "_TOGETHER", together)
        for gram in (WholeGram(matrix), columns(pool)):
            seen = Candidates(gram, closeness, np.arange(rows))
            assert greedy(seen, p, first, again).tolist() == start.tolist()
            assert swapped(seen, start, again).tolist() == end.tolist()


@settings(max_examples=40, deadline=None)
@given(SEEDS, st.integers(1, 200), st.booleans(), st.sampled_from([0.0, 0.01, 1.0]))
def test_kernel_columns_give_the_weights_of_the_whole_matrix(
    seed: int, rows: int, whole: bool, ridge: float
) -> None:
    # The gap over all rows is computed here again; dropped columns are computed again, too.
    pool, validation = layout(seed, rows, whole)
    matrix, closeness = rbf(pool, pool, GAMMA), kernel_mean_at(pool, validation, GAMMA)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(grams_module, "KEPT_VALUES", 1)
        patch.setattr(grams_module, "_BATCH", 3)
        fit = fit_simplex(columns(pool), closeness, ridge)
    slope = matrix @ fit.weights + ridge * fit.weights - closeness
    assert fit.gap <= GAP
    assert fit.gap == pytest.approx(max(2.0 * (slope @ fit.weights - slope.min()), 0.0), abs=1e-13)
    expected = fit_simplex(matrix, closeness, ridge).weights
    reached, least = (w @ matrix @ w - 2.0 * closeness @ w + ridge * w @ w for w in (fit.weights, expected))
    assert reached == pytest.approx(least, abs=GAP)


@settings(max_examples=40, deadline=None)
@given(SEEDS, st.integers(2, 120), st.integers(1, 30), st.sampled_from([0.01, 1.0]))
def test_equal_rows_are_chosen_and_weighed_as_one_row(seed: int, rows: int, p: int, ridge: float) -> None:
    # Merged rows are chosen as often as single rows, and the weight W of n copies costs a ridge W^2 / n.
    pool, validation = layout(seed, rows, True)
    merged, apart = candidates(pool, validation, GAMMA), np.arange(rows)
    matrix, closeness = rbf(pool, pool, GAMMA), kernel_mean_at(pool, validation, GAMMA)
    p = min(p, rows - 1)
    pruned_rows = pruned(merged, p)
    single = Candidates(WholeGram(matrix), closeness, apart)
    assert len(set(pruned_rows.tolist())) == p
    mmd2_merged, expected = (mmd2(pool[some], validation, GAMMA) for some in (pruned_rows, pruned(single, p)))
    assert mmd2_merged == pytest.approx(expected, abs=1e-12)
    fit = fit_simplex(merged.gram, merged.closeness, ridge / merged.copies)
    weights = (fit.weights / merged.copies)[merged.groups]
    slope = matrix @ weights + ridge * weights - closeness
    assert weights.sum() == pytest.approx(1.0, abs=1e-12)
    assert 2.0 * (slope @ weights - slope.min()) <= 2.0 * GAP  # Karush, Kuhn, Tucker of all rows


def test_copies_of_few_distinct_rows_share_weight() -> None:
    # 64 distinct rows with 20 copies each: the effective size is that of many rows, not of one copy of each.
    random = np.random.default_rng(5)
    kinds = np.stack(np.meshgrid(*[range(4)] * 3), axis=-1).reshape(-1, 3) / 3.0
    pool = random.permutation(np.repeat(kinds, 20, axis=0))
    validation = kinds[random.choice(64, 300, p=kinds.sum(axis=1) / kinds.sum())]
    about = received(pool, ReferenceRows(validation, GAMMA))
    weighted = weigh(about, 300, pruned(about.seen, 300))
    assert len(weighted) <= 300
    assert weighted.effective > 250
    assert weighted.mmd2 == pytest.approx(
        mmd2(pool[weighted.indices], validation, GAMMA, weighted.weights), abs=1e-9
    )
    shares = {
        (row.tobytes(), weight) for row, weight in zip(pool[weighted.indices], weighted.weights, strict=True)
    }
    assert len(shares) <= 64  # copies weigh alike
    counts = repeat(about, 300)
    assert counts.max() <= 2  # copies take turns


def test_columns_are_exact_and_the_cache_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    pool, _ = layout(1, 50, False)
    monkeypatch.setattr(grams_module, "KEPT_VALUES", 50 * 6)
    monkeypatch.setattr(grams_module, "_BATCH", 4)
    gram, matrix = columns(pool), rbf(pool, pool, GAMMA)
    some, weights = np.array([3, 9, 3, 40, 2, 49, 0, 1, 8]), np.arange(9.0)
    np.testing.assert_allclose(gram.applied(some, weights), weights @ matrix[some], atol=1e-13)
    np.testing.assert_allclose(gram.column(9), matrix[9], atol=1e-13)
    np.testing.assert_allclose(gram.among(some, some[:2]), matrix[np.ix_(some, some[:2])], atol=1e-13)
    assert len(gram._cache) == 6
    monkeypatch.setattr(grams_module, "WHOLE_ROWS", 8)
    assert isinstance(gram_of(pool[:8], GAMMA), WholeGram)
    np.testing.assert_allclose(gram.some(some).column(1), matrix[9, some], atol=1e-13)


def test_rows_beyond_the_limit_of_a_ridge_are_weighed_too(monkeypatch: pytest.MonkeyPatch) -> None:
    pool, validation = layout(4, 300, False)
    about, pruned_rows = received(pool, ReferenceRows(validation, GAMMA)), np.arange(20)
    monkeypatch.setattr(weights_module, "SPREAD_ROWS", 60)
    assert len(about.near) == 60
    assert set(np.flatnonzero(about.nearest.weights)) <= set(about.near)
    weighted = weigh(about, 20, pruned_rows)
    assert len(weighted) <= 20
    assert weighted.ridge > 0.0
    assert weighted.mmd2 == pytest.approx(
        mmd2(pool[weighted.indices], validation, GAMMA, weighted.weights), abs=1e-9
    )
    assert weighted.mmd2 <= mmd2(pool[pruned_rows], validation, GAMMA)


def test_a_matrix_by_columns_gives_the_same_forms_of_a_summary(monkeypatch: pytest.MonkeyPatch) -> None:
    pool, validation = layout(6, 200, False)
    whole = received(pool, ReferenceRows(validation, GAMMA))
    monkeypatch.setattr(grams_module, "WHOLE_ROWS", 10)
    parts = received(pool, ReferenceRows(validation, GAMMA))
    assert parts.least == pytest.approx(whole.least, abs=GAP)
    assert repeat(parts, 30).tolist() == repeat(whole, 30).tolist()
    one, other = (weigh(about, 30, np.arange(30)) for about in (whole, parts))
    assert one.indices.tolist() == other.indices.tolist()
    np.testing.assert_allclose(one.weights, other.weights, atol=1e-6)
