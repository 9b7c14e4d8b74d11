"""Products of scores: how far a replaced row moves them, proven at the head of fedkme.features.counts."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from fedkme.features.counts import SCORE_STEPS, NumberScores, product_sums, products_move

ROWS = np.array([[0, 0, 0, 0, 0, 0], [1, 1, 1, 1, 1, 1]])
SCORE = st.one_of(st.sampled_from([-SCORE_STEPS, 0, SCORE_STEPS]), st.integers(-SCORE_STEPS, SCORE_STEPS))


@given(st.lists(st.tuples(SCORE, SCORE), min_size=2, max_size=6))
def test_a_replaced_row_moves_products_by_no_more_than_their_bound(scores: list[tuple[int, int]]) -> None:
    columns = [NumberScores(column, of) for column, of in enumerate(scores)]
    one, other = (product_sums(row[None], columns, [range(len(scores))]) for row in ROWS)
    assert np.linalg.norm((one - other).astype(float)) <= products_move(len(scores))


@given(st.integers(1, 3))
def test_the_bound_is_exact_for_rows_that_differ_in_half_of_the_signs(half: int) -> None:
    signs = [1] * half + [-1] * half
    columns = [NumberScores(c, (SCORE_STEPS, sign * SCORE_STEPS)) for c, sign in enumerate(signs)]
    one, other = (product_sums(row[None], columns, [range(2 * half)]) for row in ROWS)
    assert np.linalg.norm((one - other).astype(float)) == products_move(2 * half)


def test_sums_of_many_rows_are_whole_and_exact() -> None:
    codes = np.random.default_rng(0).integers(0, 5, (10_000, 3))
    scores = [NumberScores(column, (-256, -255, 3, 251, 256)) for column in range(3)]
    of = np.array(scores[0].of)[codes]
    expected = [int((of[:, i] * of[:, j]).sum()) for i, j in ((0, 1), (0, 2), (1, 2), (0, 2))]
    assert product_sums(codes, scores, [(0, 1, 2), (0, 2)]).tolist() == expected
    assert product_sums(codes[:0], scores, [(0, 1, 2)]).tolist() == [0, 0, 0]
