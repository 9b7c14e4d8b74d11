"""Products of scores in the default release: their cost, what is asked, and what they tell."""

from __future__ import annotations

import asyncio
import functools
import itertools

import numpy as np
import pytest
from scipy.stats import rankdata

from audit.in_memory import FreshNoise
from curator.releases.marginals.coupling import _clear, coupling_of
from curator.releases.marginals.descent import fit
from curator.releases.marginals.model import Model
from curator.releases.marginals.products import (
    MOST_PRODUCTS_SHARE,
    PRODUCTS_SHARE,
    SeenProducts,
    ToldRanks,
    plan_products,
    products_cost,
    products_share,
    products_sigma,
)
from curator.releases.method import make_method
from fedkme.answers.answer import ask, in_rows
from fedkme.answers.correlations import SUPPOSED
from fedkme.answers.counts import CountEvidence
from fedkme.arrays import FloatArray
from fedkme.features.binning import Binning
from fedkme.features.counts import SCORE_STEPS, Clique
from fedkme.privacy.events import Gaussian, event_from_json, leaves
from fedkme.privacy.gaussian import gaussian_sigma
from fedkme.releases.counts import Measurement, Products, counts_from_bytes
from fedkme.releases.settings import release_settings
from fedkme.tables.schema import Category, Numeric, Schema
from fedkme.tables.table import Table

SCHEMA = Schema(
    columns=(
        Numeric(name="even", bounds=(-5.0, 5.0)),
        Numeric(name="late", bounds=(0.0, 60.0)),
        Numeric(name="often", bounds=(0.0, 40.0), atoms=(0.0,)),
        Numeric(name="few", bounds=(1.0, 6.0), integer=True),
        Category(name="kind", categories=("a", "b")),
    )
)
QUESTIONS = [f"corr({a}, {b})" for a, b in itertools.combinations(("even", "late", "often", "few"), 2)]


def table(rows: int = 8000, seed: int = 0) -> Table:
    random = np.random.default_rng(seed)
    first, second, third = random.normal(size=(3, rows))
    late = np.exp(0.8 * first + 0.6 * second)
    often = np.where(third + first < -0.5, 0.0, np.clip(8.0 + 4.0 * third, 0.5, 39.0))
    few = np.clip(np.round(3.5 - 0.7 * second + 0.9 * third), 1, 6)
    columns = (np.clip(first, -5, 5), np.clip(late, 0, 60), often, few, random.integers(0, 2, rows))
    return Table(np.stack(columns, axis=1).astype(np.float64))


@functools.cache
def released(rows: int = 8000, epsilon: float = 2.0) -> bytes:
    settings = release_settings({"kind": "marginals", "epsilon": epsilon, "delta": 1e-5})
    method = make_method(settings, SCHEMA, None, 1)
    return asyncio.run(method.ask(FreshNoise(table(rows), SCHEMA, 5, 1.25)))


def test_every_correlation_of_two_numbers_has_an_interval_that_holds() -> None:
    answers = ask(CountEvidence(counts_from_bytes(released())), QUESTIONS, "rows")
    for answer, truth in zip(answers, in_rows(QUESTIONS, table(), SCHEMA), strict=True):
        assert answer.low <= truth <= answer.high
    assert sum(answer.high - answer.low < 1.5 for answer in answers) >= 3
    assert any(SUPPOSED in answer.method for answer in answers)


@pytest.mark.parametrize("seed", range(3))
def test_every_correlation_of_few_rows_of_mostly_zeros_has_an_interval_that_holds(seed: int) -> None:
    # Of 1,000 rows no correlation had one: "the variance of one of its columns may be 0".
    random = np.random.default_rng(seed)
    first, second, third = random.normal(size=(3, 1000))
    amounts = [
        np.where(each > cut, np.exp(6.0 + far * (each + first)), 0.0).clip(0.0, 1e5)
        for each, cut, far in ((second, 0.5, 1.5), (third, 1.5, 0.8))
    ]
    gaps = np.where(second > 0.3, np.nan, third)
    schema = Schema.model_validate(
        {
            "columns": [
                {"kind": "numeric", "name": "claims", "bounds": [0, 1e5]},
                {"kind": "numeric", "name": "fines", "bounds": [0, 1e5]},
                {"kind": "numeric", "name": "score", "bounds": [-5, 5], "nullable": True},
            ]
        }
    )
    rows = Table(np.column_stack([*amounts, np.nan_to_num(gaps), np.isnan(gaps)]))
    method = make_method(release_settings({"kind": "marginals", "iterations": 5}), schema, None, 1)
    release = counts_from_bytes(asyncio.run(method.ask(FreshNoise(rows, schema, seed))))
    questions = [f"corr({a}, {b})" for a, b in itertools.combinations(("claims", "fines", "score"), 2)]
    answers = ask(CountEvidence(release), questions, "rows")
    for answer, truth in zip(answers, in_rows(questions, rows, schema), strict=True):
        assert answer.low <= truth <= answer.high, answer
    assert any("the variance of one of its columns may be 0" in answer.method for answer in answers)


@pytest.mark.parametrize("seed", range(6))
def test_the_correlation_of_numbers_that_are_alike_has_an_interval(seed: int) -> None:
    # Noise puts every other estimate above 1, and the root of its distance from 1 was no number.
    first = np.random.default_rng(seed).normal(size=4000).clip(-4.9, 4.9)
    rows = Table(np.column_stack([first, -first + 1e-4]))
    schema = Schema(columns=tuple(Numeric(name=name, bounds=(-5.0, 5.0)) for name in "ab"))
    method = make_method(release_settings({"kind": "marginals", "epsilon": 8.0}), schema, None, 1)
    release = CountEvidence(counts_from_bytes(asyncio.run(method.ask(FreshNoise(rows, schema, seed)))))
    for target in ("rows", "population"):
        (answer,) = ask(release, ["corr(a, b)"], target)
        assert answer.low < -0.99 < -0.5 > answer.high


def test_products_are_in_the_file_and_in_the_cost() -> None:
    stored = counts_from_bytes(released())
    assert stored.products is not None
    assert stored.to_bytes() == released()
    assert [len(stored.products.ranks), len(stored.products.values)] == [4, 4]
    sizes = [len(sums) for sums in (stored.products.rank_sums, stored.products.value_sums)]
    assert sizes == [6, 10]  # products of values have the sums of values among them
    spent = [leaf for leaf in leaves([event_from_json(stored.pieces)]) if isinstance(leaf, Gaussian)]
    total = sum(leaf.count / leaf.noise_multiplier**2 for leaf in spent)
    assert total <= gaussian_sigma(2.0, 1e-5) ** -2 * (1 + 1e-9)
    assert products_cost(products_sigma(0.1, 4, 3), 4, 3) == pytest.approx(0.1)


def test_steep_products_tell_the_products_of_ranks_with_less_noise() -> None:
    # A normal copula, with zeros of .3 of the rows and whole numbers of uneven shares, without noise.
    random = np.random.default_rng(5)
    normal = random.normal(size=(200_000, 4)) @ np.linalg.cholesky(0.5 * np.eye(4) + 0.5).T
    first, second, third, fourth = np.clip(normal, -4.0, 4.0).T
    zeros, few = np.where(third < -0.5, 0.0, 8.0 + third), np.clip(np.round(3.5 + fourth), 1, 6)
    columns = [first, np.exp(second), zeros, few, np.zeros(len(normal))]
    finer = Binning(SCHEMA, 64)
    codes = finer.encode(Table(np.column_stack(columns)), "a test")
    fine = [
        Measurement((place,), np.bincount(codes[:, place], minlength=size).astype(float), 1e-3)
        for place, size in enumerate(finer.sizes[:3])
    ]
    plan = plan_products(finer, fine, len(codes), 5e-5, 5e-6)
    assert plan is not None
    scores = np.stack([np.array(each.of)[codes[:, each.column]] / SCORE_STEPS for each in plan.ranks])
    sums = (scores @ scores.T)[np.triu_indices(4, 1)]
    told = ToldRanks.of(Products(plan.ranks, (), sums, np.zeros(0), 1.0), fine, finer, len(codes))
    for (one, two), mean in told.means.items():
        truth = float((told.ranks[one][codes[:, one]] * told.ranks[two][codes[:, two]]).mean())
        assert abs(mean - truth) < (0.01 if two == 3 else 0.003), (one, two)
    assert told.noise * len(codes) < 0.7


def test_few_rows_are_not_asked_for_products() -> None:
    assert counts_from_bytes(released(150, 1.0)).products is None


def test_few_rows_have_more_of_the_budget_for_products() -> None:
    finer = Binning(SCHEMA, 256)
    total = gaussian_sigma(1.0, 1e-5) ** -2
    assert products_share(finer, 100_000, total) == PRODUCTS_SHARE
    assert PRODUCTS_SHARE < products_share(finer, 5000, total) < MOST_PRODUCTS_SHARE
    assert products_share(finer, 1000, total) == MOST_PRODUCTS_SHARE


def test_products_tell_which_pair_of_numbers_a_model_lacks() -> None:
    stored = counts_from_bytes(released())
    seen = SeenProducts.of(stored.products, stored.folded, stored.finer, stored.binning, stored.rows)
    assert seen is not None
    codes = stored.binning.encode(table(), "a test")
    joint = np.zeros([stored.binning.sizes[0], stored.binning.sizes[1]])
    np.add.at(joint, (codes[:, 0], codes[:, 1]), 1.0 / len(codes))
    apart = np.outer(joint.sum(axis=1), joint.sum(axis=0))
    assert seen.error((0, 1), joint) < 0.03
    assert 0.2 < seen.error((0, 1), apart) < 0.4  # they correlate by .8
    assert SeenProducts.of(None, stored.folded, stored.finer, stored.binning, stored.rows) is None


def test_two_numbers_of_few_rows_are_counted_for_their_product_alone() -> None:
    stored = counts_from_bytes(released(2500, 1.0))
    asked = (*stored.others, *stored.fitted)
    rough = {pair: max(m.sigma for m in asked if m.clique == pair) for pair in ((0, 3), (0, 4))}
    assert rough[0, 3] > 2.5 * rough[0, 4]  # a pair with a category keeps its rough table


GAPPY = Schema.model_validate(
    {
        "columns": [
            {"kind": "numeric", "name": name, "bounds": [-5, 5], "nullable": True, "missing": missing}
            for name, missing in (("even", 0), ("odd", 3), ("whole", -2))
        ]
    }
)


@pytest.mark.parametrize("law", ["random", "high", "half", "most high"])
def test_every_correlation_of_numbers_with_gaps_is_of_the_rows_that_have_both(law: str) -> None:
    # Two columns of a sample with gaps let every number have some: then no correlation had an interval.
    random = np.random.default_rng(3)
    even = random.normal(size=20_000)
    odd = 0.6 * even + 0.8 * random.normal(size=20_000)
    columns = np.clip(np.stack([even, odd, random.normal(size=20_000) - 0.4 * odd], axis=1), -5, 5)
    chances = {"random": np.full(20_000, 0.03), "high": 0.2 * (odd > 1.0)}
    chances |= {"half": np.full(20_000, 0.5), "most high": np.where(even > 0.0, 0.8, 0.2)}
    gaps = np.stack([random.random(20_000) < chances[law], random.random(20_000) < 0.02], axis=1)
    gaps = np.column_stack([gaps, np.zeros(20_000, bool)])  # the last column has none, though it may
    filled = np.where(gaps, np.array([column.missing for _, column in GAPPY.gaps], float), columns)
    rows = Table(np.column_stack([part for pair in zip(filled.T, gaps.T, strict=True) for part in pair]))
    method = make_method(release_settings({"kind": "marginals", "epsilon": 2.0}), GAPPY, None, 1)
    release = counts_from_bytes(asyncio.run(method.ask(FreshNoise(rows, GAPPY, 7, 1.25))))
    questions = [f"corr({a}, {b})" for a, b in itertools.combinations(("even", "odd", "whole"), 2)]
    answers = ask(CountEvidence(release), questions, "rows")
    for answer, truth in zip(answers, in_rows(questions, rows, GAPPY), strict=True):
        assert answer.low <= truth <= answer.high, answer
        assert answer.high - answer.low < (1.2 if "half" in law or "most" in law else 1.0), answer


def test_scores_rise_with_the_number_and_ranks_are_even() -> None:
    finer = Binning(SCHEMA, 64)
    codes = finer.encode(table(), "a test")
    fine = [
        Measurement((place,), np.bincount(codes[:, place], minlength=size).astype(float), 2.0)
        for place, size in enumerate(finer.sizes[:3])
    ]
    plan = plan_products(finer, fine, 8000, 1.0, 0.05)
    assert plan is not None
    for scores in (*plan.ranks, *plan.values):
        ordered = np.array(scores.of)[list(finer.orders[scores.column])]
        assert (np.diff(ordered) >= 0).all()
    late = np.array(plan.ranks[1].of)[codes[:, 1]] / 256
    assert abs(late.mean()) < 0.02
    assert abs(late.var() - 1 / 3) < 0.06


def _ranks_off(rows: Table) -> float:
    """Mean error of the rank correlations of all numbers."""
    made, real = (np.corrcoef(rankdata(each.values[:, :4], axis=0).T) for each in (rows, table()))
    return float(np.abs(made - real)[np.triu_indices(4, 1)].mean())


def test_coupled_rows_have_the_released_products_and_the_counts_of_every_table() -> None:
    stored = counts_from_bytes(released())
    random = np.random.default_rng(2)
    sizes = stored.binning.sizes
    tables: dict[Clique, FloatArray] = {(column,): np.zeros(size) for column, size in enumerate(sizes)}
    model = fit(sizes, stored.fitted[:5], stored.rows, 50, Model(sizes, tables))
    coupling = coupling_of(stored, model)
    assert coupling is not None
    plain, coupled = (model.sample(8000, random, dealer) for dealer in (None, coupling))
    for column, size in enumerate(stored.binning.sizes):
        counts = [np.bincount(codes[:, column], minlength=size) for codes in (plain, coupled)]
        assert np.abs(counts[0] - counts[1]).max() <= 4
    apart, together = (stored.finer.decode(codes, random) for codes in (plain, coupled))
    fine = coupling.fine_codes(coupled, random)
    for column, drawn in fine.items():
        assert (stored.finer.within(column, stored.binning)[drawn] == coupled[:, column]).all()
        together.values[:, column] = stored.finer.numbers(column, drawn, random)
    assert _ranks_off(apart) > 0.15
    assert _ranks_off(together) < 0.05


@pytest.mark.parametrize("constant", [(), (3,), (2, 3), (1, 2, 3)])
@pytest.mark.parametrize("rows", [1, 2, 50])
def test_rows_that_are_alike_in_numbers_have_fine_bins(rows: int, constant: tuple[int, ...]) -> None:
    # A single row was a division by zero, and so was a single number in which rows differ.
    stored = counts_from_bytes(released())
    model = fit(stored.binning.sizes, stored.fitted[:5], stored.rows, 5)
    coupling = coupling_of(stored, model)
    assert coupling is not None
    random = np.random.default_rng(rows)
    codes = model.sample(rows, random, coupling)
    codes[:, constant] = [stored.binning.sizes[column] - 1 for column in constant]
    for column, drawn in coupling.fine_codes(codes, random).items():
        assert (stored.finer.within(column, stored.binning)[drawn] == codes[:, column]).all()


def test_products_without_more_than_noise_couple_nothing() -> None:
    excess, doubt = np.full(50, 0.01), np.full(50, 0.02)
    assert (_clear(excess, doubt) == 0.0).all()
    assert _clear(np.array([1.0]), np.array([0.1])) == pytest.approx(0.99)
