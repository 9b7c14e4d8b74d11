"""Marginals as pooled sums: what owners count, and how far one row moves it."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from audit.in_memory import PooledOracle
from fedkme.errors import ConfigError, DataError
from fedkme.features.binning import MOST_BINS, Binning, MergedBins, check_domain
from fedkme.features.counts import L1_STEP, L2_STEP, marginal_counts
from fedkme.tables.schema import Category, Label, Numeric, Schema
from fedkme.tables.table import Table

SIZES = (3, 2, 4)


async def test_owners_counts_add_up_to_those_of_the_pooled_table() -> None:
    # "integer counts per owner, summed over owners", whatever the partition; an owner may have no rows.
    codes = np.random.default_rng(0).integers(0, SIZES, (200, 3))
    parts = np.split(codes, [0, 7, 8, 120])
    cliques = [c for k in (1, 2, 3) for c in itertools.combinations(range(3), k)]
    split = await PooledOracle(parts, SIZES).counts(cliques)
    for clique, counts in zip(cliques, split, strict=True):
        whole = np.zeros([SIZES[c] for c in clique], dtype=np.int64)
        for row in codes:
            whole[tuple(row[list(clique)])] += 1
        assert counts.dtype == np.int64
        assert (counts == whole.ravel()).all()


def test_a_replaced_row_moves_counts_by_what_is_claimed_and_no_more() -> None:
    # fedkme.features.counts: 2 in L1 and sqrt(2) in L2 for each marginal, over all pairs of rows; reached.
    rows = list(itertools.product(*(range(size) for size in SIZES)))
    cliques = [(0,), (1,), (0, 2), (0, 1, 2)]
    l1, l2, joint = 0.0, 0.0, 0.0
    for old, new in itertools.product(rows, rows):
        moves = [
            marginal_counts(np.array([new]), c, SIZES) - marginal_counts(np.array([old]), c, SIZES)
            for c in cliques
        ]
        l1 = max(l1, *(float(np.abs(move).sum()) for move in moves))
        l2 = max(l2, *(float(np.linalg.norm(move)) for move in moves))
        joint = max(joint, float(np.linalg.norm(np.concatenate(moves))))
    assert l1 == L1_STEP
    assert l2 == pytest.approx(L2_STEP)
    assert joint == pytest.approx(L2_STEP * np.sqrt(len(cliques)))


def _schema() -> Schema:
    return Schema(
        columns=(
            Numeric(name="x", bounds=(-1.0, 3.0), count=2),
            Numeric(name="n", bounds=(0, 9), integer=True),
            Numeric(name="few", bounds=(1, 3), integer=True),
            Category(name="c", categories=("a", "b", "d")),
        ),
        label=Label(name="y", classes=("no", "yes")),
    )


def test_codes_become_rows_of_the_schema_in_the_same_bins() -> None:
    binning = Binning(_schema(), bins=4)
    assert binning.sizes == (4, 4, 4, 3, 3, 2)
    assert binning.names == ("x0", "x1", "n", "few", "c", "y")
    generator = np.random.default_rng(1)
    codes = generator.integers(0, binning.sizes, (500, 6))
    table = binning.decode(codes, generator)
    binning.schema.check(table, "synthetic")
    assert (table.values[:, 2] == np.rint(table.values[:, 2])).all()
    assert len(np.unique(table.values[:, 2])) == 10  # every whole number can come out
    assert (binning.encode(table, "synthetic") == codes).all()


def test_merged_bins_are_runs_of_even_ones() -> None:
    table = Binning(_schema(), 4).decode(np.zeros((200, 6), dtype=np.int64), np.random.default_rng(2))
    table.values[:, 2] = np.arange(200) % 10
    whole = Binning(_schema(), 10).encode(table, "a")
    merged = Binning(_schema(), 4, (MergedBins("n", 10, (1, 7)),))
    assert merged.sizes == (4, 4, 3, 3, 3, 2)
    codes = merged.encode(table, "a")
    assert (codes[:, 2] == np.searchsorted([1, 7], whole[:, 2], side="right")).all()
    assert (
        np.delete(codes, 2, axis=1) == np.delete(Binning(_schema(), 4).encode(table, "a"), 2, axis=1)
    ).all()
    assert (merged.encode(merged.decode(codes, np.random.default_rng(3)), "a") == codes).all()


@pytest.mark.parametrize(
    "merged",
    [
        [("n", 10, (0, 2))],  # an empty run
        [("n", 10, (4, 2))],
        [("n", 10, (2, 10))],  # beyond the grid
        [("n", 64, (2, 12))],  # beyond the whole numbers that there are
        [("n", MOST_BINS + 1, (2,))],
        [("x", 10, (2,))],  # a block
        [("c", 3, (1,))],  # a category
        [("y", 2, (1,))],  # the label
        [("n", 10, (2,)), ("n", 10, (3,))],
    ],
)
def test_a_curator_can_name_no_other_bins(merged: list[tuple[str, int, tuple[int, ...]]]) -> None:
    with pytest.raises(ConfigError, match="bins"):
        Binning(_schema(), 4, tuple(MergedBins(*each) for each in merged))


def test_bounds_belong_to_the_first_and_last_bin() -> None:
    binning = Binning(_schema(), bins=4)
    values = np.array([[-1.0, 3.0, 0, 1, 0], [3.0, -1.0, 9, 3, 2]])
    codes = binning.encode(Table(values, np.array([0, 1])), "a")
    assert codes.tolist() == [[0, 3, 0, 0, 0, 0], [3, 0, 3, 2, 2, 1]]


def test_rows_outside_the_domain_are_refused() -> None:
    with pytest.raises(DataError, match="rows with a code outside the domain: 1"):
        marginal_counts(np.array([[0, 2, 0], [0, 1, 0]]), (0, 1), SIZES)
    with pytest.raises(DataError, match="outside the public bounds"):
        Binning(_schema()).encode(Table(np.array([[9.0, 0, 0, 1, 0]]), np.array([0])), "a")
    with pytest.raises(DataError, match="no labels"):
        Binning(_schema()).encode(Table(np.array([[0.0, 0, 0, 1, 0]])), "a")
    with pytest.raises(DataError, match="no rows"):
        PooledOracle([np.zeros((0, 3), dtype=np.int64)], SIZES)


@pytest.mark.parametrize(
    ("clique", "cause"),
    [((), "ascending"), ((1, 0), "ascending"), ((0, 0), "ascending"), ((0, 3), "not in the schema")],
)
def test_an_invalid_marginal_is_refused(clique: tuple[int, ...], cause: str) -> None:
    with pytest.raises(ConfigError, match=cause):
        marginal_counts(np.zeros((1, 3), dtype=np.int64), clique, SIZES)


def test_a_domain_too_large_is_refused_in_one_line_with_a_remedy() -> None:
    with pytest.raises(ConfigError, match="are the limit") as one:
        marginal_counts(np.zeros((1, 4), dtype=np.int64), (0, 1, 2, 3), (100,) * 4)
    with pytest.raises(ConfigError, match=r"10\^12.1 cells and 8388608 are the limit") as two:
        check_domain((1000,) * 20, 3, 1 << 23)
    for error in (one.value, two.value):
        assert "\n" not in str(error)
        assert error.remedy
    check_domain((10,) * 5, 2, 50 + 1000)
    with pytest.raises(ConfigError):
        check_domain((10,) * 5, 2, 50 + 999)
    with pytest.raises(ConfigError, match="182 columns have 16,653 marginals"):
        check_domain((2,) * 182, 2, 1 << 22)  # "a question asks for no marginals", once the run had begun
    with pytest.raises(ConfigError, match="do not exist"):
        check_domain((10,) * 5, 6, 1 << 23)
