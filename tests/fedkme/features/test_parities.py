"""Parities: how far a replaced row moves them, proven at the head of fedkme.features.counts."""

from __future__ import annotations

import itertools
import math

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from fedkme.features.counts import PARITY_STEP, Groups, parity_sums

SIZES = (2, 3, 5, 2, 4)


@st.composite
def questions(draw: st.DrawFn) -> tuple[list[Groups], list[tuple[int, ...]]]:
    """Any groups and products that a curator may name."""
    groups = []
    for _ in range(draw(st.integers(1, 6))):
        column = draw(st.integers(0, len(SIZES) - 1))
        size = SIZES[column]
        groups.append(Groups(column, tuple(draw(st.lists(st.integers(0, 1), min_size=size, max_size=size)))))
    places = st.sets(st.integers(0, len(groups) - 1), min_size=1).map(lambda chosen: tuple(sorted(chosen)))
    return groups, draw(st.lists(places, min_size=1, max_size=12))


@given(questions(), st.integers(0, 2**32 - 1))
def test_a_replaced_row_moves_parities_by_no_more_than_their_bound(
    question: tuple[list[Groups], list[tuple[int, ...]]], seed: int
) -> None:
    groups, products = question
    pairs = np.random.default_rng(seed).integers(0, SIZES, (40, 2, len(SIZES)))
    moves = [
        np.linalg.norm(parity_sums(one[None], groups, products) - parity_sums(other[None], groups, products))
        for one, other in pairs
    ]
    assert max(moves) <= PARITY_STEP * math.sqrt(len(products)) * (1 + 1e-12)


@given(st.integers(2, 6), st.sets(st.integers(1, 4), min_size=1))
def test_the_bound_is_exact_where_the_label_is_in_every_product(width: int, sizes: set[int]) -> None:
    groups = [Groups(column, (0, 1)) for column in range(width + 1)]
    products = [
        (*chosen, width) for size in sorted(sizes) for chosen in itertools.combinations(range(width), size)
    ]
    if not products:
        return
    one = np.zeros((1, width + 1), dtype=np.int64)
    other = one.copy()
    other[0, width] = 1
    move = np.linalg.norm(parity_sums(one, groups, products) - parity_sums(other, groups, products))
    assert move == np.float64(PARITY_STEP * math.sqrt(len(products)))


def test_sums_of_many_rows_are_whole_and_exact() -> None:
    codes = np.random.default_rng(0).integers(0, SIZES, (10_000, len(SIZES)))
    groups = [Groups(column, tuple(code % 2 for code in range(size))) for column, size in enumerate(SIZES)]
    products = [p for k in range(1, 6) for p in itertools.combinations(range(len(SIZES)), k)]
    signs = 1 - 2 * (codes % 2)
    assert parity_sums(codes, groups, products[::-1]).tolist() == [
        int(signs[:, list(product)].prod(axis=1).sum()) for product in products[::-1]
    ]
    assert parity_sums(codes[:0], groups, products).tolist() == [0] * len(products)
