"""fedkme.embeddings.summary_weights: weights of received rows and their guarantees."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedkme.arrays import FloatArray
from fedkme.embeddings.mmd import ReferenceRows, mmd2
from fedkme.embeddings.prune import prune
from fedkme.embeddings.simplex_fit import GAP
from fedkme.embeddings.summary_weights import RIDGES, SLACK, received, repeat, weigh

GAMMA = 0.3
SEEDS = st.integers(0, 10**6)
ROUNDING = 1e-12


def layout(seed: int, rows: int, whole: bool = False) -> tuple[FloatArray, FloatArray]:
    """Rows of owners, and D_v with another mean; if `whole`, of whole numbers, so many rows are equal."""
    random = np.random.default_rng(seed)
    pool, validation = random.normal(size=(rows, 3)), random.normal(size=(25, 3)) * 0.7 + 0.6
    return (np.rint(pool), np.rint(validation)) if whole else (pool, validation)


@settings(max_examples=40, deadline=None)
@given(SEEDS, st.integers(1, 40), st.integers(1, 40), st.booleans())
def test_more_rows_are_never_worse(seed: int, few: int, more: int, whole: bool) -> None:
    # least(T) <= least(S) where S is contained in T: the squared distance to a convex hull.
    pool, validation = layout(seed, few + more, whole)
    small, large = (received(rows, ReferenceRows(validation, GAMMA)) for rows in (pool[:few], pool))
    assert large.least <= small.least + GAP + ROUNDING


@settings(max_examples=40, deadline=None)
@given(SEEDS, st.integers(2, 60), st.sampled_from([0.25, 0.5, 1.0]))
def test_weighted_rows_are_never_worse_than_the_uniform_rows_among_them(
    seed: int, total: int, share: float
) -> None:
    # The other rows here are the rows farthest from D_v. The least MMD^2 is at most that of the uniform rows
    # with weights, and so at most that of these rows with equal weights.
    pool, validation = layout(seed, 200)
    random = np.random.default_rng(seed + 1)
    uniform = pool[random.choice(200, size=max(1, round(share * total)), replace=False)]
    worst = pool[np.argsort(pool.sum(axis=1))[: total - len(uniform)]]
    both = received(np.concatenate([worst, uniform]), ReferenceRows(validation, GAMMA))
    assert both.least <= received(uniform, ReferenceRows(validation, GAMMA)).least + GAP + ROUNDING
    assert both.least <= mmd2(uniform, validation, GAMMA) + ROUNDING


@settings(max_examples=40, deadline=None)
@given(SEEDS, st.integers(1, 50), st.integers(1, 20), st.booleans())
def test_a_weighted_summary_has_p_rows_and_is_not_worse_than_equal_weights(
    seed: int, rows: int, p: int, whole: bool
) -> None:
    pool, validation = layout(seed, rows, whole)
    about, pruned_rows = received(pool, ReferenceRows(validation, GAMMA)), prune(pool, validation, p, GAMMA)
    weighted = weigh(about, p, pruned_rows)
    assert 1 <= len(weighted) <= p
    assert weighted.weights.min() > 0.0
    assert weighted.weights.sum() == pytest.approx(1.0, abs=1e-12)
    assert weighted.gap <= GAP
    assert 1.0 <= weighted.effective <= len(weighted) + 1e-9
    assert weighted.mmd2 == pytest.approx(
        mmd2(pool[weighted.indices], validation, GAMMA, weighted.weights), abs=1e-9
    )
    assert about.least - ROUNDING <= weighted.mmd2 <= mmd2(pool[pruned_rows], validation, GAMMA) + ROUNDING


def test_the_ridge_spreads_weight_as_far_as_the_slack_allows() -> None:
    pool, validation = layout(8, 300)
    about = received(pool, ReferenceRows(validation, GAMMA))
    pruned_rows = prune(pool, validation, 100, GAMMA)
    weighted = weigh(about, 100, pruned_rows)
    assert weighted.ridge in RIDGES[1:]
    assert weighted.mmd2 <= about.least + SLACK * about.noise + 1e-4
    assert weighted.effective > 1.05 / float(about.nearest.weights @ about.nearest.weights)


@settings(max_examples=30, deadline=None)
@given(SEEDS, st.integers(1, 50), st.integers(1, 20))
def test_no_exchange_improves_repeated_rows(seed: int, rows: int, p: int) -> None:
    pool, validation = layout(seed, rows)
    counts = repeat(received(pool, ReferenceRows(validation, GAMMA)), p)
    assert counts.shape == (rows,)
    assert counts.sum() == p
    drawn = np.repeat(np.arange(rows), counts)
    mmd2_repeated = mmd2(pool[drawn], validation, GAMMA)
    for place in np.random.default_rng(seed).choice(p, size=min(p, 5), replace=False):
        for row in range(rows):
            other = drawn.copy()
            other[place] = row
            assert mmd2_repeated <= mmd2(pool[other], validation, GAMMA) + 1e-4 / p + ROUNDING


def test_repeats_and_weights_are_far_closer_where_few_rows_fit() -> None:
    # Five good rows and thirty bad rows, p = 20: p rows with equal weights must include bad rows.
    random = np.random.default_rng(2)
    validation = random.normal(size=(40, 2))
    pool = np.concatenate([random.normal(size=(5, 2)), random.normal(size=(30, 2)) + 4.0])
    about, pruned_rows = received(pool, ReferenceRows(validation, GAMMA)), prune(pool, validation, 20, GAMMA)
    alike = mmd2(pool[pruned_rows], validation, GAMMA)
    counts = repeat(about, 20)
    assert about.mmd2(np.arange(35), counts / 20) < alike / 3
    assert weigh(about, 20, pruned_rows).mmd2 < alike / 3
