"""Pooled sums: equal for any partition, in bounded memory, with diameters that a search confirms."""

from __future__ import annotations

import itertools
import math
import tracemalloc
from typing import Any

import numpy as np
import pytest
from hypothesis import given, reject, settings
from hypothesis import strategies as st

from audit.in_memory import pool
from curator.releases.subspace import subspace
from fedkme.arrays import FloatArray
from fedkme.errors import ConfigError, DataError
from fedkme.features.domain import Units
from fedkme.features.fourier_map import FourierMapSpec, MixedSpec
from fedkme.features.hermite import HermiteProductSpec, HermiteSumSpec
from fedkme.features.kernel_points import PointsSpec
from fedkme.features.maps import ROW_UNIT, EmbeddingMap, MapSpec
from fedkme.features.sums import (
    SLACK,
    Layout,
    counted,
    other_class_distance,
    pooled_sum,
    row_limit,
    same_class_distance,
)
from fedkme.moments.features import SecondMomentsSpec
from fedkme.privacy.noise import simulated
from fedkme.privacy.sums import release_embedding
from fedkme.tables.schema import Label, Numeric, Schema
from fedkme.tables.table import Table
from tests.curator.sums.fake_owners import BY_CLASS, SCHEMA, dealt, table

CORNERS: FloatArray = np.array(list(itertools.product(np.linspace(-2, 3, 60), (0.0, 1.0))))
SPECS: list[MapSpec] = [
    FourierMapSpec(dimension=2, gamma=500.0, seed=0),
    MixedSpec(dimension=2, gamma=500.0, seed=0),
    HermiteSumSpec(order=60, length=0.5),
    HermiteProductSpec(order=60, length=0.5, columns=(0, 1)),
    PointsSpec.of(np.array([[0.0, 0.7, 0.0], [1.0, 0.0, 0.7], [0.5, 0.7, 0.0]]), 1.3),
]
maps = pytest.mark.parametrize("spec", SPECS, ids=lambda spec: str(spec.kind))


@maps
@pytest.mark.parametrize("owners", [5, 20, 100])
def test_pooling_over_owners_equals_one_owner_to_the_last_bit(spec: MapSpec, owners: int) -> None:
    # Sums of integers are exact in any order, and not only up to rounding.
    phi = spec.make(SCHEMA)
    whole = table(700)
    alone = pooled_sum(whole, phi, BY_CLASS)
    answers = [
        pooled_sum(part, phi, BY_CLASS, block_rows=7 + i) for i, part in enumerate(dealt(whole, owners, 1))
    ]
    for order in (answers, answers[::-1]):
        total = pool(order)
        assert np.array_equal(total.steps, alone.steps)
        assert np.array_equal(total.count, alone.count)
        released, one = (
            release_embedding(sums, phi, BY_CLASS, 0.5, simulated(1, "curator", "embedding"))
            for sums in (total, alone)
        )
        assert np.array_equal(released.mean, one.mean)


@maps
def test_a_sum_is_the_sum_of_features_by_class(spec: MapSpec) -> None:
    # To half a step for each row, against math.fsum of the features themselves; angles by table have steps
    # of their own (test_maps has the bound).
    phi = spec.make(SCHEMA)
    rows = table(300)
    assert rows.labels is not None
    answer = pooled_sum(rows, phi, BY_CLASS, block_rows=11)
    features = phi.arranged(phi.steps(phi.domain.encode(rows.values)).T).T * ROW_UNIT
    np.testing.assert_allclose(features, phi.features(rows.values), atol=1e-4)
    for c in range(3):
        mine = features[rows.labels == c]
        exact = [math.fsum(column) for column in mine.T]
        np.testing.assert_allclose(
            answer.sum[:, c], exact, atol=len(mine) * ROW_UNIT / 2 * (1 + 1e-6), rtol=0
        )
        assert answer.count[c] == len(mine)
    assert answer.rows == 300
    single = pooled_sum(Table(rows.values), phi, Layout())
    assert np.array_equal(single.steps[:, 0], answer.steps.sum(axis=1))
    assert single.count.tolist() == [300]


def test_memory_is_bounded_whatever_the_number_of_rows() -> None:
    phi = FourierMapSpec(dimension=512, gamma=1.0, seed=0).make(SCHEMA)

    def peak(rows: int) -> int:
        data = table(rows)
        tracemalloc.start()
        pooled_sum(data, phi, BY_CLASS, block_rows=200)
        _, most = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        return most

    few, many = peak(400), peak(8000)
    assert many < 1.2 * few
    assert many < 8000 * 512 * 8 / 4  # a quarter of all features at once


class Stretched:
    """A map with a bug: its features are longer than its norm bound."""

    def __init__(self, inner: EmbeddingMap, factor: float) -> None:
        self._inner, self._factor = inner, factor

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def steps(self, points: FloatArray) -> FloatArray:
        steps = self._inner.steps(points)
        wrong = SCHEMA.decode(points)[:, 0] > 2.5
        steps[wrong] = steps[wrong] * self._factor if math.isfinite(self._factor) else self._factor
        return steps


@pytest.mark.parametrize("factor", [1.1, 1e300, math.nan, math.inf])
def test_a_row_over_the_norm_bound_is_shortened_silently(factor: float) -> None:
    # A curator names the map: an error would tell it the number of such rows.
    rows = table(500)
    phi: Any = SPECS[1].make(SCHEMA)
    wrong = rows.values[:, 0] > 2.5
    longest = phi.norm_bound * SLACK + math.sqrt(phi.dimension) * ROW_UNIT
    stretched: Any = Stretched(phi, factor)
    with np.errstate(over="ignore"):
        embeddings = [
            pooled_sum(Table(rows.values[at : at + 1]), stretched, Layout()).sum
            for at in np.flatnonzero(wrong)
        ]
        total = pooled_sum(rows, stretched, BY_CLASS, block_rows=50)
    lengths = np.array([np.linalg.norm(embedding) for embedding in embeddings])
    assert lengths.max() <= longest
    assert bool((lengths == 0.0).all()) is (factor != 1.1)  # squares of 1e300 are not finite
    assert total.rows == 500
    right = pooled_sum(rows.take(np.flatnonzero(~wrong)), phi, BY_CLASS)
    assert np.linalg.norm(total.sum - right.sum) <= wrong.sum() * longest


def test_tables_without_rows_or_with_wrong_labels_are_refused() -> None:
    phi = SPECS[0].make(SCHEMA)
    with pytest.raises(DataError, match="no rows"):
        pooled_sum(table(0), phi, BY_CLASS)
    with pytest.raises(DataError, match="no labels"):
        pooled_sum(Table(table(3).values), phi, BY_CLASS)
    for label in (3, -1):
        with pytest.raises(DataError, match=r"a class .*: 2[.]"):
            pooled_sum(Table(table(3).values, np.array([label, 0, label])), phi, BY_CLASS)
    with pytest.raises(DataError, match="column 'c'"):
        pooled_sum(Table(np.array([[0.0, 7.0]]), np.array([0])), phi, BY_CLASS)
    with pytest.raises(ConfigError, match="class"):
        Layout(0)


def test_sums_stay_exact_in_float64() -> None:
    # "every partial sum is exact": at the limit of rows the longest coordinate is below 2^53 steps.
    for spec in SPECS:
        phi = spec.make(SCHEMA)
        assert row_limit(phi) >= 10**7
        assert row_limit(phi) * (phi.norm_bound / ROW_UNIT + 0.5) < 2**53


# Sensitivity


def diameter(features: EmbeddingMap, layout: Layout) -> float:
    """L2 sensitivity of the (J, C) sum: the larger of both distances that a replaced row moves it by."""
    if layout.columns == 1:
        return same_class_distance(features)
    return max(same_class_distance(features), other_class_distance(features))


@maps
@pytest.mark.parametrize("layout", [Layout(), BY_CLASS], ids=["single", "by-class"])
def test_a_search_over_neighbours_reaches_the_declared_diameter(spec: MapSpec, layout: Layout) -> None:
    # Replace-one, N public: every row of a table is replaced by every row of a grid of the domain, in every
    # class. No replacement moves the sum further than declared, and one replacement moves it that far.
    phi = spec.make(SCHEMA)
    features = phi.features(CORNERS)
    gram = features @ features.T
    squares = np.diag(gram)[:, None] + np.diag(gram) - 2 * gram
    worst2 = squares.max()
    if layout.columns > 1:  # phi leaves one column and enters another
        worst2 = max(worst2, 2 * np.diag(gram).max())
    declared = diameter(phi, layout)
    assert math.sqrt(worst2) <= declared * (1 + 1e-9)
    assert math.sqrt(worst2) >= 0.99 * declared


@maps
def test_neighbouring_tables_give_sums_within_the_diameter(spec: MapSpec) -> None:
    # The same for the computed sums in fixed point: every neighbour of one table, rows and labels.
    phi = spec.make(SCHEMA)
    base = Table(np.array([[-2.0, 0.0], [0.5, 1.0], [3.0, 1.0]]), np.array([0, 1, 2]))
    whole = pooled_sum(base, phi, BY_CLASS)
    bound = counted(diameter(phi, BY_CLASS), phi)
    count_bound = math.sqrt(2)
    furthest = 0.0
    for row, label in itertools.product(CORNERS[::7], range(3)):
        values, labels = base.values.copy(), np.array([label, 1, 2])
        values[0] = row
        other = pooled_sum(Table(values, labels), phi, BY_CLASS)
        assert other.rows == whole.rows  # N does not change
        furthest = max(furthest, float(np.linalg.norm(other.sum - whole.sum)))
        assert np.linalg.norm(other.count - whole.count) <= count_bound * (1 + 1e-12)
    assert furthest <= bound


def test_declared_diameters_are_at_most_those_of_the_papers() -> None:
    # MATH.md 3: 2/m for the whole matrix and not C queries; sqrt(5)/m for 0/1 codes. MATH.md 2: 2/N; the
    # projections reach less: at most sqrt(2).
    fourier, mixed, hermite_sum, product, points = (spec.make(SCHEMA) for spec in SPECS)
    assert diameter(fourier, Layout()) == diameter(fourier, BY_CLASS) == 2.0
    assert diameter(mixed, BY_CLASS) == pytest.approx(math.sqrt(5), rel=1e-12)
    for phi in (hermite_sum, product, points):
        assert diameter(phi, Layout()) < math.sqrt(2) * (1 + 1e-12)
        assert diameter(phi, BY_CLASS) == math.sqrt(2)
        assert phi.norm_bound == 1.0  # under add-remove


def test_the_counted_distance_covers_rounding() -> None:
    # Two rows that round in opposite directions in every coordinate stay within `counted`.
    phi = HermiteSumSpec(order=200, length=0.5).make(SCHEMA)
    assert counted(1.0, phi) >= 1.0 + math.sqrt(phi.dimension) * ROW_UNIT
    assert counted(1.0, phi) < 1.0 + 1e-5


HOSTILE_LOWS = [0.0, -1e3, 1e8, -1e8, 1e15, 1e-90]
HOSTILE_WIDTHS = [1.0, 1e-3, 1e6, 1e-9]


@st.composite
def hostile(draw: st.DrawFn) -> tuple[MapSpec, Schema, FloatArray]:
    """A map, a schema of bounds far from 0 and near each other, and rows at corners and next to points."""
    low, width = draw(st.sampled_from(HOSTILE_LOWS)), draw(st.sampled_from(HOSTILE_WIDTHS))
    high = low + max(width, 64 * float(np.spacing(abs(low))))
    columns = draw(st.integers(1, 3))
    schema = Schema(
        columns=(Numeric(name="x", bounds=(low, high), count=columns),),
        label=Label(name="y", classes=("no", "yes")),
    )
    random = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    public = random.uniform(low, high, (draw(st.integers(1, 6)), columns))
    ends = np.array([*itertools.product((low, high), repeat=columns)])
    near = np.clip(
        public + random.normal(0, draw(st.sampled_from([0.0, 1e-8, 1e-3])) * width, public.shape), low, high
    )
    rows = np.concatenate([ends, public, near, random.uniform(low, high, (20, columns))])
    every: tuple[Units, ...] = ("table", "model")
    units = draw(st.sampled_from(every))
    gamma = draw(st.sampled_from([1e-6, 0.5, 4.0, 1e3, 1e7, 1e13, 1e17]))
    gamma = gamma / (high - low) ** 2 if units == "table" else gamma
    kind = draw(st.sampled_from(["points", "points", "fourier", "mixed", "sum", "product", "moments"]))
    z = public if units == "table" else (public - low) / (high - low)
    spec: MapSpec
    match kind:
        case "points":
            try:
                spec = subspace(z, gamma, 1e-6, units)
            except ConfigError:
                reject()
        case "fourier":
            spec = FourierMapSpec(dimension=4, gamma=gamma, seed=1, units=units)
        case "mixed":
            spec = MixedSpec(dimension=4, gamma=min(gamma, 2.0**40), seed=1)
        case "sum":
            spec = HermiteSumSpec(
                order=draw(st.integers(0, 300)), length=draw(st.sampled_from([2e-4, 0.1, 9e3]))
            )
        case "product":
            spec = HermiteProductSpec(order=draw(st.integers(0, 12)), length=0.3, columns=(0,))
        case _:
            spec = SecondMomentsSpec(
                chosen=(0,),
                centre=(draw(st.sampled_from([0.5, -1e3, 0.5 + 1e-12])),),
                scale=(draw(st.sampled_from([2e-9, 1.0, 1e6])),),
            )
    return spec, schema, rows


@given(hostile())
@settings(max_examples=100, deadline=None)
def test_rows_of_a_hostile_domain_stay_within_the_counted_distance(
    drawn: tuple[MapSpec, Schema, FloatArray],
) -> None:
    # The distance of the calibration holds for the computed whole numbers, in tables far from 0 with tiny
    # ranges, for any width of the kernel, and for any points or basis that a curator names.
    spec, schema, rows = drawn
    try:
        phi = spec.make(schema)
    except ConfigError:
        reject()  # refused by public numbers alone
    steps = phi.steps(phi.domain.encode(rows)) * ROW_UNIT
    assert np.isfinite(steps).all()
    apart = np.sqrt(np.square(steps[:, None] - steps).sum(axis=2))
    assert apart.max() <= counted(same_class_distance(phi), phi)
    norms = np.sqrt(np.square(steps).sum(axis=1))
    assert math.sqrt(2.0) * norms.max() <= counted(other_class_distance(phi), phi)
