"""Feature maps of embeddings: their formulas, their kernels, and that no row exceeds their bounds."""

from __future__ import annotations

import hashlib
import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import eval_hermite, gammaln

from audit.contracts import MIXED as SCHEMA
from audit.contracts import FeatureMapContract, corners, random_table
from fedkme.arrays import FloatArray
from fedkme.errors import ConfigError
from fedkme.features.domain import Domain
from fedkme.features.fourier import FourierSpec, RandomFourier
from fedkme.features.fourier_map import STEPS, FourierMapSpec, MixedMap, MixedSpec, Turns, _table
from fedkme.features.hermite import (
    HermiteProductSpec,
    HermiteSumSpec,
    draw_dimensions,
    hermite_functions,
    rho_of_length,
)
from fedkme.features.kernel_points import PointsSpec, rbf
from fedkme.features.maps import MAPS, ROW_UNIT, EmbeddingMap, MapSpec, spec_from_json
from fedkme.moments.features import SecondMomentsSpec, ShellsSpec
from fedkme.tables.schema import Category, Numeric, Schema

CORNERS = corners(SCHEMA)


def random_rows(count: int, seed: int = 0) -> FloatArray:
    return random_table(SCHEMA, count, seed).values


def model_points(count: int, seed: int) -> FloatArray:
    return Domain(SCHEMA).encode(random_rows(count, seed))


SPECS: list[MapSpec] = [
    FourierMapSpec(dimension=10, gamma=2.0, seed=3),
    FourierMapSpec(dimension=2, gamma=500.0, seed=3, scales=(1.0, 2.0, 0.5, 0.0)),
    MixedSpec(dimension=6, gamma=2.0, seed=3),
    MixedSpec(dimension=2, gamma=200.0, seed=3, weight=2.5),
    HermiteSumSpec(order=12, length=0.2),
    HermiteSumSpec(order=60, length=0.05, origin=0.0),
    HermiteProductSpec(order=6, length=0.3, columns=(0, 2, 4)),
    HermiteProductSpec(order=30, length=0.1, columns=(3,)),
    PointsSpec.of(model_points(15, 5), 0.7),
]


SPECS += [
    ShellsSpec(shells=1),
    ShellsSpec(shells=4),
    SecondMomentsSpec(chosen=(0, 2, 5), centre=(0.5, 0.1, 0.7), scale=(0.3, 0.2, 4.0)),
]


@pytest.mark.parametrize("spec", SPECS, ids=lambda spec: str(spec.kind))
class TestEveryMap(FeatureMapContract):
    pass


def test_the_specs_of_these_tests_cover_every_kind_of_map() -> None:
    assert {spec.kind for spec in SPECS} == set(MAPS.table())


TINY = st.sampled_from([0.0, 5e-324, -1e-310, 1e-160, -1e-154, 1e-45, 1e-30, 0.3, 1.0])
WIDTH = SCHEMA.encoded_width


def tiny(count: int) -> st.SearchStrategy[list[float]]:
    return st.lists(TINY, min_size=count, max_size=count)


HOSTILE = st.one_of(
    st.builds(
        lambda z, gamma: PointsSpec.of(np.reshape(z, (2, WIDTH)), gamma),
        tiny(2 * WIDTH),
        st.sampled_from([2.0**-700, 1e-9, 300.0, 730.0, 1e4, 2.0**700]),
    ),
    st.builds(
        lambda centre: SecondMomentsSpec(chosen=tuple(range(WIDTH)), centre=centre, scale=(1.0,) * WIDTH),
        tiny(WIDTH).map(tuple),
    ),
    st.builds(HermiteSumSpec, order=st.just(40), length=st.sampled_from([0.3, 50.0]), origin=TINY),
    st.builds(
        HermiteProductSpec,
        order=st.just(4),
        length=st.sampled_from([0.3, 5e3]),
        origin=TINY,
        columns=st.just((0, 2, 4)),
    ),
)


@given(HOSTILE)
def test_no_map_of_a_peer_makes_denormal_numbers_of_rows(spec: MapSpec) -> None:
    # Some processors take a hundred times as long for them: the time of an answer told which rows have a 0,
    # or are at a distance that a curator names (3.6 times as long here).
    rows = np.concatenate([Domain(SCHEMA).encode(CORNERS), model_points(20, 5), model_points(1, 7)])
    try:
        features = spec.make(SCHEMA)
    except ConfigError:
        return
    with np.errstate(under="raise"):
        features.steps(rows)


# Fourier


def test_fourier_maps_draw_as_h1_does() -> None:
    # One draw per seed in the whole project: the map is h1 of fedkme.features.fourier in float64.
    points = model_points(9, 1)
    h1 = RandomFourier(FourierSpec("paired", 10, 2.0, SCHEMA.encoded_width, 3))
    np.testing.assert_allclose(SPECS[0].make(SCHEMA).of_model(points), h1(points), atol=1e-14)


def test_fourier_norm_is_one_exactly() -> None:
    norms = np.linalg.norm(SPECS[0].make(SCHEMA).features(CORNERS), axis=1)
    np.testing.assert_allclose(norms, 1.0, atol=1e-14)


def test_fourier_estimates_the_kernel_in_table_units() -> None:
    # Balog's set-up: gamma in the units of the table. Error of a mean of 8192 cosines: 5 deviations are 0.04.
    schema = Schema(columns=(Numeric(name="x", bounds=(-500, 500), count=2),))
    rows = np.random.default_rng(0).normal(0, 60, (20, 2))
    phi = FourierMapSpec(dimension=2**14, gamma=5e-5, seed=1, units="table").make(schema).features(rows)
    np.testing.assert_allclose(phi @ phi.T, rbf(rows, rows, 5e-5), atol=0.04)


def test_scales_multiply_columns() -> None:
    # A column of scale 0 takes no part; a block of like numbers has one scale.
    phi = FourierMapSpec(dimension=8, gamma=2.0, seed=1, scales=(1, 1, 0, 1)).make(SCHEMA)
    rows = random_rows(4)
    moved = rows.copy()
    moved[:, 2:4] = 0.9
    np.testing.assert_allclose(phi.features(rows), phi.features(moved), atol=1e-12)
    with pytest.raises(ConfigError, match="3 scales"):
        FourierMapSpec(dimension=8, gamma=2.0, seed=1, scales=(1, 1, 0)).make(SCHEMA)


def test_categories_have_no_table_units() -> None:
    with pytest.raises(ConfigError, match="'sex'"):
        FourierMapSpec(dimension=8, gamma=2.0, seed=1, units="table").make(SCHEMA)


# Mixed


def binary_schema(categories: int) -> Schema:
    codes = tuple(Category(name=f"c{i}", categories=("no", "yes")) for i in range(categories))
    return Schema(columns=(Numeric(name="x", bounds=(0, 1)), *codes))


@pytest.mark.parametrize("categories", [1, 3])
def test_mixed_rows_with_01_codes_have_diameter_root_five(categories: int) -> None:
    # MATH.md 3: "diameter under replace-one sqrt(5)/m for 0/1 codes"; reached, by search over pairs of rows.
    phi = MixedSpec(dimension=2, gamma=1e3, seed=0).make(binary_schema(categories))
    assert phi.spread == pytest.approx(math.sqrt(5), rel=1e-12)
    corners = list(itertools.product(np.linspace(0, 1, 2000), *[(0.0, 1.0)] * categories))
    features = phi.features(np.array(corners))
    first = features[0]
    assert np.linalg.norm(features - first, axis=1).max() == pytest.approx(math.sqrt(5), rel=1e-3)


@given(st.lists(st.integers(1, 6), min_size=1, max_size=5), st.floats(0.1, 4))
@settings(max_examples=40, deadline=None)
def test_mixed_spread_of_the_codes_is_reached(levels: list[int], weight: float) -> None:
    # Whatever the numbers of names: all categories change at once. With numbers, 4 more in the square.
    codes = tuple(Category(name=f"c{i}", categories=tuple("abcdef"[:n])) for i, n in enumerate(levels))
    phi = MixedSpec(dimension=2, gamma=1.0, seed=0, weight=weight).make(Schema(columns=codes))
    rows = np.array([[0.0] * len(levels), [min(1.0, n - 1.0) for n in levels]])
    features = phi.features(rows)
    assert np.linalg.norm(features[0] - features[1]) == pytest.approx(phi.spread, abs=1e-12)
    assert np.linalg.norm(features[0]) == pytest.approx(phi.norm_bound, rel=1e-12)
    number = Numeric(name="x", bounds=(0, 1))
    both = MixedSpec(dimension=2, gamma=1.0, seed=0, weight=weight).make(Schema(columns=(number, *codes)))
    assert both.spread**2 == pytest.approx(4 + phi.spread**2)
    assert both.norm_bound**2 == pytest.approx(1 + phi.norm_bound**2)
    assert weight != 1 or both.spread <= math.sqrt(5) * (1 + 1e-12)


def test_mixed_features_are_numbers_beside_scaled_codes() -> None:
    # DP-MERF, section 3.3: h(x) = [phi(x_num), x_dis / sqrt(d_dis)], one-hot, d_dis = 6 columns of codes.
    phi = SPECS[2].make(SCHEMA)
    assert isinstance(phi, MixedMap)
    assert phi.dimension == 6 + 6
    codes = phi.features(np.array([[50.0, 1, 0, 0, 2]]))[0, 6:]
    np.testing.assert_allclose(codes, np.array([0, 1, 0, 0, 1, 0]) / math.sqrt(6), atol=1e-12)


# Hermite


def direct(x: FloatArray, order: int, rho: float) -> FloatArray:
    """Closed form, in logarithms: sqrt(sqrt(1-rho^2) rho^k / (2^k k!)) H_k(x) exp(-rho/(1+rho) x^2)."""
    k = np.arange(order + 1)
    half_log = 0.5 * (0.5 * math.log(1 - rho**2) + k * math.log(rho) - k * math.log(2) - gammaln(k + 1))
    values: FloatArray = eval_hermite(k, x[:, None]) * np.exp(half_log - rho / (1 + rho) * x[:, None] ** 2)
    return values


@pytest.mark.parametrize("length", [0.05, 0.3, 1.0, 5.0])
def test_recursion_equals_the_closed_form(length: float) -> None:
    # MATH.md 4, phi_0, phi_1 and the recursion; scipy's Hermite polynomials are the direct formula.
    x = np.linspace(-2, 2, 41)
    rho = rho_of_length(length)
    np.testing.assert_allclose(hermite_functions(x, 40, rho), direct(x, 40, rho), atol=1e-11)


@pytest.mark.parametrize("length", [1e-3, 0.05, math.sqrt(0.5), 1.0, 30.0])
def test_rho_is_the_root_in_the_unit_interval(length: float) -> None:
    # MATH.md 4: "1/(2 l^2) = rho/(1-rho^2), the root in (0,1)".
    rho = rho_of_length(length)
    assert 0 < rho < 1
    assert rho / ((1 - rho) * (1 + rho)) == pytest.approx(0.5 / length**2, rel=1e-8)


@pytest.mark.parametrize("length", [0.25, 0.7, 3.0])
def test_mehlers_formula_holds(length: float) -> None:
    # sum of phi_k(x) phi_k(y) -> exp(-(x-y)^2/(2 l^2)), not the printed normalisation of eq. 5.
    x = np.linspace(-0.5, 0.5, 21)
    phi = hermite_functions(x, 400, rho_of_length(length))
    kernel = np.exp(-((x[:, None] - x) ** 2) / (2 * length**2))
    np.testing.assert_allclose(phi @ phi.T, kernel, atol=1e-9)
    np.testing.assert_allclose((phi**2).sum(axis=1), 1.0, atol=1e-9)


@given(st.floats(-50, 50), st.floats(0.02, 20), st.integers(0, 300))
@settings(max_examples=150, deadline=None)
def test_a_truncation_is_never_longer_than_one(x: float, length: float, order: int) -> None:
    # "sum of phi_k^2 -> 1, so truncation has norm <= 1": wherever, also where phi_0 underflows.
    phi = hermite_functions(np.array([x]), order, rho_of_length(length))
    assert np.isfinite(phi).all()
    assert (phi**2).sum() <= 1 + 1e-9


def test_the_hermite_sum_has_the_sum_kernel() -> None:
    # DP-HP eq. 9: the mean over dimensions of their kernels; a category's kernel is [x = y].
    rows = random_rows(30)
    phi = HermiteSumSpec(order=300, length=0.3).make(SCHEMA).features(rows)
    unit = rows * [0.01, 1, 0.5, 0.5, 1]
    kernels = [np.exp(-((unit[:, None, d] - unit[:, d]) ** 2) / (2 * 0.09)) for d in (0, 2, 3)]
    kernels += [(rows[:, None, d] == rows[:, d]).astype(float) for d in (1, 4)]
    np.testing.assert_allclose(phi @ phi.T, sum(kernels) / 5, atol=1e-9)


def test_the_hermite_product_has_the_product_kernel() -> None:
    # DP-HP eq. 7 and 8, over the columns of the draw only.
    rows = random_rows(30)
    phi = HermiteProductSpec(order=60, length=0.6, columns=(0, 3, 4)).make(SCHEMA)
    assert phi.dimension == 61 * 61 * 4
    unit = rows * [0.01, 1, 0.5, 0.5, 1]
    kernel = np.ones((30, 30))
    for d in (0, 3):
        kernel *= np.exp(-((unit[:, None, d] - unit[:, d]) ** 2) / (2 * 0.36))
    kernel *= rows[:, None, 4] == rows[:, 4]
    features = phi.features(rows)
    np.testing.assert_allclose(features @ features.T, kernel, atol=1e-9)


def test_the_kernel_does_not_depend_on_the_origin() -> None:
    rows = random_rows(10)
    grams = []
    for origin in (0.0, 0.5):
        phi = HermiteSumSpec(order=250, length=0.4, origin=origin).make(SCHEMA).features(rows)
        grams.append(phi @ phi.T)
    np.testing.assert_allclose(grams[0], grams[1], atol=1e-9)


@pytest.mark.parametrize(
    "spec",
    [
        HermiteSumSpec(order=150, length=0.3),
        HermiteProductSpec(order=60, length=0.6, columns=(0, 2)),
        PointsSpec.of(Domain(SCHEMA).encode(CORNERS[[0, -1]]), 0.05),
    ],
    ids=lambda spec: str(spec.kind),
)
def test_declared_spread_is_reached_where_the_kernel_is(spec: MapSpec) -> None:
    # Opposite corners are as far apart as declared, to truncation: the bound is not loose.
    phi = spec.make(SCHEMA)
    features = phi.features(CORNERS[[0, -1]])
    assert np.linalg.norm(features[0] - features[1]) == pytest.approx(phi.spread, rel=1e-6)


def test_draws_of_dimensions_are_public_and_new_each_epoch() -> None:
    draws = [draw_dimensions(100, 3, 7, epoch) for epoch in range(50)]
    assert draws == [draw_dimensions(100, 3, 7, epoch) for epoch in range(50)]
    assert len(set(draws)) > 40
    assert all(len(set(d)) == 3 and d == tuple(sorted(d)) for d in draws)
    assert len({column for draw in draws for column in draw}) > 50
    assert draw_dimensions(2, 5, 7, 0) == (0, 1)


def test_products_of_unknown_or_too_many_columns_are_refused() -> None:
    with pytest.raises(ConfigError, match="column 5"):
        HermiteProductSpec(order=3, length=0.3, columns=(0, 5)).make(SCHEMA)
    with pytest.raises(ConfigError, match="larger"):
        HermiteProductSpec(order=300, length=0.3, columns=(0, 2, 3)).make(SCHEMA)


# Specs


@pytest.mark.parametrize(
    ("plain", "word"),
    [
        ({"kind": "fourier", "dimension": 7, "gamma": 1.0, "seed": 0}, "dimension"),
        ({"kind": "fourier", "dimension": 8, "gamma": math.inf, "seed": 0}, "gamma"),
        ({"kind": "fourier", "dimension": 8, "gamma": 1.0, "seed": 0, "norm_bound": 0.1}, "norm_bound"),
        ({"kind": "laplace"}, "kind"),
        ({}, "kind"),
        ("fourier", "kind"),
        ({"kind": "hermite-product", "order": 3, "length": 1.0, "columns": [1, 1]}, "hermite-product"),
        ({"kind": "points", "gamma": 1.0, "count": 2, "points": "%%"}, "points"),
        ({"kind": "points", "gamma": 1.0, "count": 3, "points": "AAAAAAAA8D8="}, "points"),
    ],
)
def test_the_error_of_a_wrong_spec_names_the_field(plain: object, word: str) -> None:
    # No spec can claim a norm bound: every party computes it.
    with pytest.raises(ConfigError, match=word):
        spec_from_json(plain)


def test_every_map_has_its_spec_and_schema() -> None:
    maps: list[EmbeddingMap] = [spec.make(SCHEMA) for spec in SPECS]
    for phi, spec in zip(maps, SPECS, strict=True):
        assert phi.spec == spec
        assert phi.schema is SCHEMA


# Sums by table


@pytest.mark.parametrize(
    "spec", [FourierMapSpec(dimension=60, gamma=3.0, seed=2), MixedSpec(dimension=60, gamma=3.0, seed=2)]
)
def test_features_by_table_are_phi_to_half_a_step_of_a_turn(spec: FourierMapSpec | MixedSpec) -> None:
    phi = spec.make(SCHEMA)
    points = model_points(400, 3)
    step_features = phi.arranged(phi.steps(points).T).T
    assert (step_features == np.rint(step_features)).all()
    off = np.linalg.norm(step_features * ROW_UNIT - phi.of_model(points), axis=1)
    longest = np.abs(phi.omega).sum(axis=0).max()
    assert off.max() <= math.pi / STEPS + longest * 2.0**-19 + 1e-6
    # Nothing lengthens a row more than the rounding that `counted` counts.
    most = phi.norm_bound / ROW_UNIT + math.sqrt(phi.dimension) / 2
    assert np.linalg.norm(step_features, axis=1).max() <= most


def test_cosines_are_right_to_the_last_bit_and_lie_on_the_circle() -> None:
    table = _table(3)
    exact = np.exp(2j * np.pi * np.arange(STEPS) / STEPS) / (math.sqrt(3) * ROW_UNIT)
    assert max(np.abs((table - exact).real).max(), np.abs((table - exact).imag).max()) <= 0.5 + 1e-6
    assert (table[: STEPS // 4] * 1j == table[STEPS // 4 : STEPS // 2]).all()
    digest = "e0b3c4118c35954dc347aa54ad061b1b8585d59c0cd62e86c74b6b21b1d85d1a"
    assert hashlib.sha256(table.tobytes()).hexdigest() == digest  # integers alone: the same everywhere


@given(st.integers(0, 2**32), st.integers(1, 40))
@settings(max_examples=20, deadline=None)
def test_the_order_of_additions_changes_no_bit_of_an_angle(seed: int, width: int) -> None:
    # Another BLAS, or more threads, adds products in another order.
    rng = np.random.default_rng(seed)
    omega, points = rng.normal(0, 10.0 ** rng.uniform(-2, 3), (width, 6)), rng.random((30, width))
    order = rng.permutation(width)
    whole = Turns(omega).steps(points)
    assert (whole == Turns(omega[order]).steps(points[:, order])).all()
    assert (whole[3:4] == Turns(omega).steps(points[3:4])).all()


def test_frequencies_that_are_not_finite_give_nan() -> None:
    assert np.isnan(Turns(np.array([[1e308, 1.0], [1e308, 1.0]])).steps(np.ones((2, 2)))).all()
