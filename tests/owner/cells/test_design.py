"""Design fill: each pick minimizes the expected distance; equal rows on every host."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedkme.arrays import FloatArray
from fedkme.embeddings.kernels import rbf
from fedkme.errors import DataError
from owner.cells.fill import ANCHORS, CANDIDATES, DRAWS, NEARBY, RIDGE, Span, candidates_for, design

GAMMA = 0.7
NONE = np.zeros(0, dtype=np.int64)
RNG = np.random.default_rng(0)
ROWS = RNG.normal(size=(40, 3))
WEIGHTS = np.where(np.arange(40) % 3 == 0, RNG.random(40), 0.0)
WEIGHTS /= WEIGHTS.sum()


def residual_kernel(rows: FloatArray, chosen: list[int]) -> FloatArray:
    """k_S between all rows, by the inverse of the chosen rows' Gram matrix."""
    gram = rbf(rows, rows, GAMMA)
    if not chosen:
        return gram
    residual: FloatArray = gram - gram[:, chosen] @ np.linalg.solve(
        gram[np.ix_(chosen, chosen)], gram[chosen]
    )
    return residual


def gains(rows: FloatArray, weights: FloatArray, chosen: list[int]) -> FloatArray:
    """Gains by the rule of owner/cells/fill.py, without the term of NEARBY."""
    kernel = residual_kernel(rows, chosen)
    mean = kernel @ weights
    own = np.diagonal(kernel)
    gain: FloatArray = (np.maximum(mean, 0) ** 2 + kernel**2 @ weights / DRAWS) / (own + RIDGE)
    return gain


def brute_force(rows: FloatArray, weights: FloatArray, chosen: list[int], count: int) -> list[int]:
    chosen = list(chosen)
    while len(chosen) < count:
        closeness = rbf(rows, rows, GAMMA) @ weights
        gain = gains(rows, weights, chosen) + NEARBY * closeness * np.diagonal(residual_kernel(rows, chosen))
        gain[chosen] = -np.inf
        chosen.append(int(np.round(gain, 10).argmax()))
    return chosen


def test_design_equals_brute_force() -> None:
    assert design(ROWS, WEIGHTS, 25, GAMMA, NONE, 0).tolist() == brute_force(ROWS, WEIGHTS, [], 25)


def test_rows_that_were_drawn_come_first_and_are_projected_out() -> None:
    drawn = np.array([30, 2, 17])
    picks = design(ROWS, WEIGHTS, 12, GAMMA, drawn, 0).tolist()
    assert picks == brute_force(ROWS, WEIGHTS, [30, 2, 17], 12)
    assert picks[3:] != design(ROWS, WEIGHTS, 9, GAMMA, NONE, 0).tolist()


def test_a_gain_is_the_fall_of_the_expected_distance() -> None:
    # D_v of DRAWS rows of the law w: E ||P mu||^2 before and after each candidate, by its closed form. What
    # the rule leaves out: 1/DRAWS of the mean's part, the ridge, and negative parts of m_S.
    chosen = brute_force(ROWS, WEIGHTS, [], 5)

    def expected(rows: list[int]) -> float:
        kernel = residual_kernel(ROWS, rows)
        return float(WEIGHTS @ kernel @ WEIGHTS + np.diagonal(kernel) @ WEIGHTS / DRAWS)

    before, rule = expected(chosen), gains(ROWS, WEIGHTS, chosen)
    kernel = residual_kernel(ROWS, chosen)
    for row in sorted(set(range(40)) - set(chosen)):
        own, mean = kernel[row, row], float(kernel[row] @ WEIGHTS)
        fall = before - expected([*chosen, row])
        without = min(mean, 0.0) ** 2 / own
        assert rule[row] * (own + RIDGE) / own + without == pytest.approx(fall, rel=1e-6)


def test_samples_of_the_law_are_closer_to_the_designed_span() -> None:
    # Monte Carlo of the same expectation: 400 targets of 200 rows each; the difference is 20 times its error.
    chosen = design(ROWS, WEIGHTS, 6, GAMMA, NONE, 0).tolist()
    others = np.random.default_rng(1).choice(40, 6, replace=False, p=WEIGHTS).tolist()
    counts = np.random.default_rng(2).multinomial(DRAWS, WEIGHTS, size=400) / DRAWS
    distances = [
        np.einsum("ti,ij,tj->t", counts, residual_kernel(ROWS, rows), counts) for rows in (chosen, others)
    ]
    assert distances[0].mean() < 0.7 * distances[1].mean()


@settings(max_examples=30, deadline=None)
@given(st.integers(1, 60), st.integers(0, 20), st.integers(0, 2**32))
def test_picked_rows_are_different_and_as_many_as_ordered(count: int, few: int, seed: int) -> None:
    # Also if most rows are equal, or the law has fewer rows than were ordered.
    random = np.random.default_rng(seed)
    rows = ROWS[random.integers(0, few + 1, 40)]
    drawn = random.permutation(40)[: min(few, count)]
    picks = design(rows, np.eye(40)[few], count, GAMMA, drawn, seed).tolist()
    assert len(set(picks)) == len(picks) == min(count, 40)
    assert picks[: len(drawn)] == drawn.tolist()


def test_an_order_beyond_the_rows_of_its_cells_gets_the_most_similar_rows() -> None:
    # The owner's other rows fill the order, by the kernel.
    rows = np.linspace(0.0, 4.0, 40)[:, None]
    picks = design(rows, np.eye(40)[0], 3, GAMMA, NONE, 0).tolist()
    assert picks[0] == 0
    assert max(picks) < 20


def test_equal_rows_tie_and_the_first_goes_first() -> None:
    rows = np.repeat(ROWS[:5], 4, axis=0)
    picks = design(rows, np.full(20, 0.05), 20, GAMMA, NONE, 0)
    assert set((picks[:5] % 4).tolist()) == {0}
    assert picks[5:].tolist() == sorted(set(range(20)) - set(picks[:5].tolist()))


def test_candidates_are_drawn_by_the_law_and_repeat() -> None:
    # A repeated order gets the same rows, also from another process: the seed of the draw is public.
    rows = RNG.normal(size=(CANDIDATES + 900, 3))
    weights = np.where(np.arange(len(rows)) < 1_000, 1e-3, 0.0)
    picks = design(rows, weights, 15, GAMMA, NONE, 7)
    assert picks.tolist() == design(rows.copy(), weights, 15, GAMMA, NONE, 7).tolist()
    assert picks.tolist() != design(rows, weights, 15, GAMMA, NONE, 8).tolist()
    exact = brute_force(rows[:1_000], weights[:1_000], [], 15)
    assert spread(rows, weights, picks.tolist()) < 1.1 * spread(rows, weights, exact)


def spread(rows: FloatArray, weights: FloatArray, chosen: list[int]) -> float:
    """Expected squared distance of the law's samples to the span."""
    mine = np.flatnonzero(weights)
    kernel = residual_kernel(rows[[*chosen, *mine]], list(range(len(chosen))))[len(chosen) :, len(chosen) :]
    law = weights[mine]
    return float(law @ kernel @ law + np.diagonal(kernel) @ law / DRAWS)


def test_the_work_depends_on_public_numbers_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    sizes: list[tuple[int, ...]] = []
    begin = Span.__init__

    def begun(span: Span, points: FloatArray, anchors: FloatArray, *more: Any) -> None:
        sizes.append((len(points), len(anchors)))
        begin(span, points, anchors, *more)

    monkeypatch.setattr(Span, "__init__", begun)
    rows = RNG.normal(size=(CANDIDATES + 5, 2))
    for place in (0, 3, 9):
        design(rows, np.eye(len(rows))[place], 4, GAMMA, NONE, 0)
    assert sizes == [(CANDIDATES, ANCHORS)] * 3
    assert candidates_for(300, 20) == candidates_for(300, 400) == 300
    assert candidates_for(10**5, 3_000) == 6_000


def test_rows_that_are_not_finite_are_refused() -> None:
    with pytest.raises(DataError, match="not finite"):
        design(np.full((3, 2), np.nan), np.full(3, 1 / 3), 2, GAMMA, NONE, 0)
