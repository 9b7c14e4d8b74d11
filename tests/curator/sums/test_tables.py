"""Pooled counts, and the sketch of decision 007, over the same primitive."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from curator.releases.marginals.budget import measurement_cost, parity_cost
from curator.releases.marginals.products import products_cost
from curator.releases.method import make_method
from curator.sums.answers import NoisyAnswer
from fedkme.arrays import IntArray
from fedkme.cells import sketch
from fedkme.cells.projection import Projection, spec_for
from fedkme.errors import CancelledRunError, ConfigError, SecureAggregationError
from fedkme.features.binning import Binning, MergedBins, OwnValues
from fedkme.features.counts import (
    SCORE_STEPS,
    Groups,
    NumberScores,
    marginal_counts,
    parity_sums,
    product_sums,
)
from fedkme.features.sums import Layout
from fedkme.privacy.events import CURATOR, Gaussian
from fedkme.protocol import Security
from fedkme.releases.counts import counts_from_bytes
from fedkme.releases.settings import release_settings
from fedkme.secagg.parameters import Parameters
from fedkme.secagg.signing import KeyBinding
from fedkme.sums.values import MOST_PARITIES, Marginals, Parities, ScoreProducts, SumQuery
from fedkme.sums.vector import SumVector
from fedkme.tables.table import Table
from fedkme.wire import sums as wire
from tests.curator.sums.fake_owners import SCHEMA, At, FakeOwner, dealt, table

BINNING = Binning(SCHEMA, 4)
LAST = len(BINNING.sizes) - 1
MARGINALS = Marginals(4, ((0,), (LAST,), (0, LAST)))
HALVES = Groups(0, (0, 0, 1, 1))
SIGNS = (HALVES, Groups(1, (0, 1)), Groups(LAST, tuple(c % 2 for c in range(BINNING.sizes[-1]))))
PARITIES = Parities(4, SIGNS, (((0, 2), (1, 2)), ((0, 1, 2),)))
SCORES = tuple(
    NumberScores(
        column, tuple((97 * code + 41 * column) % 513 - 256 for code in range(BINNING.sizes[column]))
    )
    for column, size in ((c, BINNING.sizes[c]) for c in (0, 1, LAST))
)
PRODUCTS = ScoreProducts(4, SCORES, ((0, 1, 2), (1, 2)))
SHARED = Security(dropouts=1, colluders=1)


def owners(count: int, rows: int = 300) -> list[FakeOwner]:
    parts = dealt(table(rows), count)
    return [FakeOwner(f"owner-{i:03}", part) for i, part in enumerate(parts)]


def assert_charged(at: At, paid: float) -> None:
    """Check that each owner is charged for the whole question towards the curator."""
    events = [line.event for line in at.gate.came() if line.observer == CURATOR]
    assert events
    for event in events:
        assert isinstance(event, Gaussian)
        assert 0.98 * paid < event.noise_multiplier**-2 <= paid * (1 + 1e-6)


async def test_pooled_marginals_are_those_of_the_whole_table() -> None:
    codes = BINNING.encode(table(300), "all")
    at = At(owners(5))
    await at.pool.invite()
    tables = await at.pool.marginals(MARGINALS, [1e-9] * len(MARGINALS.cliques))
    for clique, (counts, deviation) in zip(MARGINALS.cliques, tables, strict=True):
        assert deviation == 1e-9
        assert counts == pytest.approx(marginal_counts(codes, clique, BINNING.sizes), abs=1e-6)


async def test_owners_noise_on_marginals_is_as_requested_at_the_planned_cost() -> None:
    # Each block gets at least its own sigma from honest owners alone, and the vector costs no more than the
    # mechanism paid: its weights only round up.
    codes = BINNING.encode(table(300), "all")
    sigmas = [3.0, 7.0, 11.0]
    at = At(owners(6), SHARED)
    await at.pool.invite()
    tables = await at.pool.marginals(MARGINALS, sigmas)
    for clique, (counts, deviation), sigma in zip(MARGINALS.cliques, tables, sigmas, strict=True):
        errors = counts - marginal_counts(codes, clique, BINNING.sizes)
        spread = math.sqrt(6 / 4) * sigma  # six owners' shares, of which four must do
        assert spread <= deviation < 1.01 * spread  # what is in the sum, for whoever asks of it
        assert np.abs(errors).max() < 6 * spread
        assert np.abs(errors).max() > 0
    lines = [line for line in at.gate.came() if line.observer == CURATOR]
    assert len(lines) == 6
    paid = math.fsum(measurement_cost(sigma) for sigma in sigmas)
    for line in lines:
        assert isinstance(line.event, Gaussian)
        assert line.event.noise_multiplier**-2 <= paid * (1 + 1e-6)
        assert line.event.noise_multiplier**-2 >= paid * 0.98


async def test_pooled_parities_are_those_of_the_whole_table_and_cost_what_was_paid() -> None:
    codes, sigmas = BINNING.encode(table(300), "all"), [3.0, 7.0]
    exact = parity_sums(codes, SIGNS, PARITIES.products).tolist()
    signs = np.stack([1 - 2 * np.array(each.of)[codes[:, each.column]] for each in SIGNS], axis=1)
    assert exact == [int(signs[:, list(product)].prod(axis=1).sum()) for product in PARITIES.products]
    for security, spread in ((None, 1.0), (SHARED, math.sqrt(6 / 4))):
        at = At(owners(6), security)
        await at.pool.invite()
        blocks = await at.pool.parities(PARITIES, sigmas)
        for (sums, deviation), sigma, place in zip(blocks, sigmas, (0, 2), strict=True):
            assert spread * sigma <= deviation < 1.01 * spread * sigma
            assert np.abs(sums - exact[place : place + len(sums)]).max() < 6 * deviation
        if security is not None:
            assert_charged(at, sum(map(parity_cost, sigmas, (2, 1))))


@pytest.mark.parametrize(
    "question",
    [
        lambda: Parities(4, SIGNS, (((0, 1, 3),),)),
        lambda: Parities(4, SIGNS, (((1, 0),),)),
        lambda: Parities(4, SIGNS, ((),)),
        lambda: Parities(4, SIGNS, ()),
        lambda: Parities(4, (Groups(0, (0, 1, 2, 0)),), (((0,),),)),
        lambda: Parities(4, SIGNS, (((0, 1),) * (MOST_PARITIES + 1),)),
        lambda: SumVector(SumQuery((), Layout(), parities=Parities(9, SIGNS, (((0,),),))), SCHEMA),
        lambda: SumVector(
            SumQuery((), Layout(), marginals=Marginals(4, ((0,),), (Groups(9, (0,)),))), SCHEMA
        ),
    ],
)
def test_a_question_names_no_other_parities_than_signs_of_its_schema(question: Callable[[], object]) -> None:
    with pytest.raises(ConfigError):
        question()


async def test_pooled_products_are_those_of_the_whole_table_and_cost_what_was_paid() -> None:
    codes, sigmas = BINNING.encode(table(300), "all"), [3e5, 3e5]
    exact = product_sums(codes, PRODUCTS.scores, PRODUCTS.blocks).tolist()
    scores = np.stack([np.array(each.of)[codes[:, each.column]] for each in PRODUCTS.scores], axis=1)
    assert exact == [int((scores[:, i] * scores[:, j]).sum()) for i, j in ((0, 1), (0, 2), (1, 2), (1, 2))]
    for security, spread in ((None, 1.0), (SHARED, math.sqrt(6 / 4))):
        at = At(owners(6), security)
        await at.pool.invite()
        blocks = await at.pool.products(PRODUCTS, sigmas)
        for (sums, deviation), sigma, place in zip(blocks, sigmas, (0, 3), strict=True):
            assert spread * sigma <= deviation < 1.01 * spread * sigma
            assert np.abs(sums - exact[place : place + len(sums)]).max() < 6 * deviation
        if security is not None:
            assert_charged(at, products_cost(3e5 / SCORE_STEPS**2, 3, 2))


@pytest.mark.parametrize(
    "question",
    [
        lambda: ScoreProducts(4, PRODUCTS.scores, ((0, 3),)),
        lambda: ScoreProducts(4, PRODUCTS.scores, ((1, 0),)),
        lambda: ScoreProducts(4, PRODUCTS.scores, ((1,),)),
        lambda: ScoreProducts(4, PRODUCTS.scores, ()),
        lambda: ScoreProducts(4, PRODUCTS.scores * 100, ((0, 1),)),
        lambda: ScoreProducts(4, (NumberScores(0, (0, 0, 0, SCORE_STEPS + 1)),) * 2, ((0, 1),)),
        lambda: SumVector(
            SumQuery((), Layout(), products=ScoreProducts(9, PRODUCTS.scores, ((0, 1),))), SCHEMA
        ),
    ],
)
def test_a_question_names_no_other_products_than_scores_of_its_schema(question: Callable[[], object]) -> None:
    with pytest.raises(ConfigError):
        question()


@pytest.mark.parametrize(("security", "phase"), [(None, "embed"), (SHARED, "propose")])
async def test_a_release_goes_on_where_an_owner_was_lost_before_the_curator_died(
    security: Security | None, phase: str
) -> None:
    # Questions follow from N too. The next process took N without the lost owner, made other questions than
    # those of its stored answers, and gave the release up, which owners had paid for.
    settings = {"kind": "marginals", "mechanism": "rounds", "bins": 4, "epsilon": 3.0}
    method, kept = make_method(release_settings(settings), SCHEMA, None, 1), list[NoisyAnswer]()

    def keep(answer: NoisyAnswer) -> None:
        kept.append(NoisyAnswer.from_bytes(answer.to_bytes()))
        if len(kept) == 6:
            raise CancelledRunError("the curator dies", "Start it again.")

    first = At(owners(6, 3000), security)
    first.owners["owner-002"].lost_at = {phase: 5}
    await first.pool.invite()
    first.pool.restore((), keep)
    with pytest.raises(CancelledRunError):
        await method.ask(first.pool)
    left = [each for each in owners(6, 3000) if each.name in kept[-1].owners]
    second = At(left, security)
    await second.pool.invite()
    second.pool.restore(tuple(kept), kept.append)
    stored = counts_from_bytes(await method.ask(second.pool))
    assert len(left) == 5
    assert len(kept) > 6
    assert (stored.rows, stored.owners) == (3000, 6)  # the card had 3000 rows of 5 owners


@pytest.mark.parametrize("classes", [None, len(SCHEMA.classes)], ids=["rows", "by class"])
async def test_a_pooled_sketch_is_that_of_the_whole_table(classes: int | None) -> None:
    spec = spec_for(SCHEMA, 7, 6)
    query = SumQuery((), Layout(classes), sketch=spec)
    whole = table(300)
    exact = sketch.coordinates(
        SCHEMA.encode(whole.values),
        None if classes is None else whole.labels,
        Projection(spec, SCHEMA),
        classes,
    )
    at = At(owners(5))
    await at.pool.invite()
    pooled = await at.pool.sketch(query, 0.0, 1.0, 1e-5)
    expected = sketch.from_coordinates(exact.astype(np.float64), 300, spec.dimension, classes, 0.0)
    assert np.array_equal(pooled.second, expected.second)
    assert np.array_equal(pooled.sums, expected.sums)


@pytest.mark.parametrize(
    "query",
    [
        SumQuery((), Layout(), marginals=MARGINALS),
        SumQuery((), Layout(), weights=(1, 2, 3), marginals=MARGINALS),
        SumQuery((), Layout(), marginals=Marginals(4, ((0, LAST + 1),), (HALVES,))),
        SumQuery((), Layout(), weights=(3, 2), parities=PARITIES),
        SumQuery((), Layout(), weights=(3, 2), products=PRODUCTS),
        SumQuery((), Layout(), sketch=spec_for(SCHEMA, 7, 6)),
        SumQuery((), Layout(len(SCHEMA.classes)), sketch=spec_for(SCHEMA, 7, 6)),
    ],
)
def test_questions_survive_the_wire(query: SumQuery) -> None:
    read = wire.query_from_wire(wire.query_to_wire(query))
    assert read == query
    assert SumVector(read, SCHEMA).length == SumVector(query, SCHEMA).length


def test_replacing_a_row_moves_weighted_marginals_by_no_more_than_the_diameter() -> None:
    # The bound is reached by a row that differs in a column of each.
    vector = SumVector(SumQuery((), Layout(), weights=(5, 2, 3), marginals=MARGINALS), SCHEMA)
    whole, others = table(40), table(40, seed=3)
    before = vector.of(whole)
    moved = []
    for row in range(len(whole)):
        values, labels = whole.values.copy(), np.array(whole.labels)
        values[row], labels[row] = others.values[row], np.array(others.labels)[row]
        after = vector.of(type(whole)(values, labels))
        moved.append(float(np.linalg.norm((after - before).astype(np.float64))))
    assert max(moved) <= vector.diameter
    assert max(moved) > 0.999 * vector.diameter


def drawn(random: np.random.Generator) -> SumQuery:
    """Any question of counts, signs or scores that a curator may name."""

    def some(most: int, least: int = 1) -> tuple[int, ...]:
        size = int(random.integers(least, max(least, min(most, 5)) + 1))
        return tuple(sorted(random.choice(most, size, replace=False).tolist()))

    codes: dict[str, Any] = {"own": tuple(OwnValues("x", ("low", "zero")) for _ in range(random.integers(2)))}
    kind, bins = random.choice(["marginals", "parities", "products"]), int(random.integers(1, 6))
    if kind != "products":
        starts = tuple(place + 1 for place in some(15))
        codes["merged"] = tuple(MergedBins("x", 16, starts) for _ in range(random.integers(2)))
    sizes = Binning(SCHEMA, bins, **codes).sizes
    columns, count = random.integers(0, len(sizes), 6).tolist(), int(random.integers(1, 4))
    groups = tuple(Groups(c, tuple(random.integers(0, 2, sizes[c]).tolist())) for c in columns)
    scores = tuple(
        NumberScores(c, tuple(random.choice([-256, 0, 255, 256], sizes[c]).tolist())) for c in columns
    )
    weights = tuple(2 ** int(power) for power in random.integers(0, 40, count))
    if kind == "marginals":
        cliques = tuple(some(len(sizes) + len(groups)) for _ in range(count))
        return SumQuery((), Layout(), False, weights, marginals=Marginals(bins, cliques, groups, **codes))
    if kind == "parities":
        blocks = tuple(tuple(some(6) for _ in range(random.integers(1, 9))) for _ in range(count))
        return SumQuery((), Layout(), False, weights, parities=Parities(bins, groups, blocks, **codes))
    products = ScoreProducts(bins, scores, tuple(some(6, 2) for _ in range(count)), **codes)
    return SumQuery((), Layout(), False, weights, products=products)


@given(st.integers(0, 2**32 - 1))
def test_a_replaced_row_moves_whatever_is_asked_by_no_more_than_the_diameter(seed: int) -> None:
    random = np.random.default_rng(seed)
    vector = SumVector(wire.query_from_wire(wire.query_to_wire(drawn(random))), SCHEMA)
    numbers = random.choice([-2.0, np.nextafter(-2.0, 0), -0.0, 5e-324, 0.5, np.nextafter(3.0, 0), 3.0], 9)
    rows = np.stack([numbers, random.integers(0, 2, 9)], axis=1)
    labels = random.integers(0, 3, 9)
    answers = [vector.of(Table(rows[[0, 1, k]], labels[[0, 1, k]])) for k in range(2, 9)]
    moved = [
        [int(a) - int(b) for a, b in zip(*pair, strict=True)] for pair in itertools.combinations(answers, 2)
    ]
    assert max(math.hypot(*map(float, move)) for move in moved) <= vector.diameter
    assert max(abs(int(number)) for answer in answers for number in answer) <= vector.bound(3)


@pytest.mark.parametrize(("cell", "by"), [(0, 1), (0, -1), (-1, -10_000)])
async def test_a_table_of_counts_of_other_rows_than_an_owner_has_puts_it_out(cell: int, by: int) -> None:
    # "A range check that a lying owner cannot pass by more than a stated factor". In the
    # clear the factor is 1: its tables are those of m_j rows.
    def lies(counts: IntArray) -> IntArray:
        counts[cell] += by
        return counts

    everybody = owners(3)
    everybody[1].changes["embed"] = lies
    at = At(everybody)
    await at.pool.invite()
    await at.pool.marginals(MARGINALS, [1.0] * len(MARGINALS.cliques))
    assert [fault.owner for fault in at.faults] == ["owner-001"]
    assert "owner-000" in at.pool.contributions


@pytest.mark.parametrize(("moved", "fits"), [(0.9, True), (2.1, False)])
def test_a_liar_moves_a_cell_of_a_noisy_total_by_all_rows_and_the_noise_at_most(
    moved: float, fits: bool
) -> None:
    # The stated bound under masks: N rows and twice the bound of the noise, and the table still adds up.
    vector = SumVector(SumQuery((), Layout(), marginals=Marginals(4, ((0,),)), weights=(2**20,)), SCHEMA)
    noise, rows = 3 * 2**20, 300
    total = vector.of(table(rows)) + np.random.default_rng(0).integers(-noise // 4, noise // 4, vector.length)
    vector.check_total(total, rows, noise)
    total[0] -= round(moved * noise) + int(total[0])
    total[1] += vector.of(table(rows))[0]
    if fits:
        vector.check_total(total, rows, noise)
        return
    with pytest.raises(SecureAggregationError, match="counts other rows than its owners have"):
        vector.check_total(total, rows, noise)


class _Invented(SumVector):
    """Counts with rows that an owner has not, within the bound of all owners."""

    def of(self, table: Table, owner: str = "") -> IntArray:
        counts = super().of(table, owner)
        counts[:] = self.bound(len(table))
        return counts


class _Inventor(FakeOwner):
    async def propose(
        self, number: int, parameters: Parameters, query: SumQuery, moves: int = 0
    ) -> KeyBinding:
        binding = await super().propose(number, parameters, query, moves)
        self.vector = _Invented(query, SCHEMA)
        return binding


async def test_an_owner_that_invents_rows_under_masks_voids_the_sum() -> None:
    part = dealt(table(300), 6)[5]
    at = At([*owners(6)[:5], _Inventor("owner-005", part)], SHARED)
    await at.pool.invite()
    with pytest.raises(SecureAggregationError, match="a total counts other rows than its owners have"):
        await at.pool.marginals(MARGINALS, [0.5, 0.5, 0.5])
