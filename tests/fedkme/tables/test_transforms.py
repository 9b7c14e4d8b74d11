"""Decision 019: scales, cuts, atoms and decimals of numbers, in model space, in bins and back."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from audit.contracts import corners, random_table
from fedkme.errors import ConfigError, DataError, SchemaError
from fedkme.features.binning import Binning
from fedkme.features.domain import Domain
from fedkme.features.fourier_map import FourierMapSpec, MixedSpec
from fedkme.features.hermite import HermiteProductSpec, HermiteSumSpec
from fedkme.features.maps import MapSpec
from fedkme.moments.features import ShellsSpec
from fedkme.tables.axis import Axis
from fedkme.tables.files import load_table, table_from_columns
from fedkme.tables.schema import Category, Numeric, Schema, load_schema, schema_from
from fedkme.tables.table import Table

GAIN = Numeric(name="gain", bounds=(100, 100_000), scale="log", atoms=(0, -1), integer=True)
PRICE = Numeric(name="price", bounds=(0, 1000), cuts=(1, 10, 250), decimals=2)
SEEN = Numeric.model_validate(
    {"name": "seen", "kind": "date", "bounds": ["2020-01-01", "2024-12-31"], "atoms": ["1900-01-01"]}
)
SKEWED = Schema(columns=(GAIN, PRICE, Category(name="kind", categories=("a", "b")), SEEN))


@st.composite
def axes(draw: st.DrawFn) -> Axis:
    whole = draw(st.booleans())
    numbers = (
        st.integers(-(10**6), 10**6) if whole else st.floats(-1e6, 1e6).filter(lambda x: x == round(x, 2))
    )
    knots = sorted(draw(st.lists(numbers, min_size=2, max_size=5, unique=True)))
    unit = draw(st.none() | st.sampled_from([0.01, 1.0, 500.0]))
    return Axis(float(knots[0]), float(knots[-1]), tuple(map(float, knots[1:-1])), unit, whole)


@given(axes(), st.integers(1, 40), st.lists(st.floats(0, 1), min_size=1, max_size=9))
@settings(max_examples=100, deadline=None)
def test_an_axis_keeps_order_and_is_undone(axis: Axis, bins: int, places: list[float]) -> None:
    at = np.sort([0.0, *places, 1.0])
    values = axis.value(at)
    width = axis.high - axis.low  # a bound near 0 keeps as many digits as the wide one beside it
    np.testing.assert_allclose(values[[0, -1]], [axis.low, axis.high], rtol=1e-12, atol=1e-15 * width)
    assert (np.diff(values) >= 0).all()
    np.testing.assert_allclose(axis.place(values), at, atol=1e-6)
    knots = np.array([axis.low, *axis.cuts, axis.high])
    np.testing.assert_allclose(axis.place(knots), np.linspace(0, 1, len(knots)), atol=1e-12)
    edges = axis.edges(bins)
    assert (edges[0], edges[-1]) == (axis.low, axis.high + axis.whole)
    assert (np.diff(edges) > 0).all()
    assert axis.edges(len(knots) - 1).tolist() == [*knots[:-1], axis.high + axis.whole]
    drawn = axis.between(edges[:-1], edges[1:], np.full(len(edges) - 1, at[len(at) // 2]))
    assert (drawn >= edges[:-1]).all()
    assert (drawn <= edges[1:] - axis.whole).all()


def test_atoms_are_exact_and_numbers_come_back_rounded() -> None:
    table = random_table(SKEWED, 500)
    back = SKEWED.decode(Domain(SKEWED).encode(table.values))
    np.testing.assert_allclose(back, table.values, rtol=1e-9)
    atoms = np.isin(table.values[:, 0], GAIN.atoms)
    assert 100 < atoms.sum() < 400
    assert (back[atoms, 0] == table.values[atoms, 0]).all()
    anywhere = SKEWED.decode(np.random.default_rng(0).random((300, SKEWED.encoded_width)))
    SKEWED.check(Table(anywhere), "nobody")
    assert (np.round(anywhere[:, 1], 2) == anywhere[:, 1]).all()
    assert SKEWED.encoded_width == (1 + 3) + 1 + 2 + (1 + 2)


def test_two_atoms_are_apart_as_two_categories_are() -> None:
    points = Schema(columns=(GAIN,)).encode(np.array([[0], [-1], [100], [100_000]]))
    distances = ((points[:, None] - points[None]) ** 2).sum(axis=2)
    np.testing.assert_allclose(distances[0], [0, 1, 1, 2], atol=1e-6)  # 0 is taken to lie at the bound 100


def test_the_mean_distance_is_that_of_rows_drawn_evenly() -> None:
    rng = np.random.default_rng(1)
    evenly = Domain(SKEWED).encode(SKEWED.decode(rng.random((20_000, SKEWED.encoded_width))))
    apart = ((evenly[::2] - evenly[1::2]) ** 2).sum(axis=1).mean()
    assert SKEWED.mean_squared_distance == pytest.approx(apart, rel=0.02)


@pytest.mark.parametrize(
    "spec",
    [
        FourierMapSpec(dimension=6, gamma=3.0, seed=1),
        MixedSpec(dimension=6, gamma=3.0, seed=1, weight=2.0),
        HermiteSumSpec(order=20, length=0.1),
        HermiteProductSpec(order=8, length=0.3, columns=(0, 1, 5)),
        ShellsSpec(shells=3),
    ],
    ids=lambda spec: str(spec.kind),
)
def test_no_row_with_atoms_moves_a_sum_by_more_than_is_declared(spec: MapSpec) -> None:
    phi = spec.make(SKEWED)
    features = phi.of_model(
        Domain(SKEWED).encode(np.concatenate([corners(SKEWED), random_table(SKEWED, 60).values]))
    )
    assert features.shape[1] == phi.dimension
    assert np.linalg.norm(features, axis=1).max() <= phi.norm_bound + 1e-9
    apart = max(np.linalg.norm(a - b) for a, b in itertools.combinations(features, 2))
    assert apart <= phi.spread + 1e-9


def test_an_atom_is_a_bin_of_its_own_and_cuts_are_the_bins() -> None:
    binning = Binning(SKEWED, 8)
    assert binning.sizes == (8 + 2, 4, 2, 8 + 1)
    day = SEEN.bounds[0]
    rows = [[0, 0.5, 0, day], [-1, 1, 1, SEEN.atoms[0]], [100, 9.99, 0, day], [100_000, 1000, 0, day]]
    codes = binning.encode(Table(np.array(rows)), "all")
    assert codes.tolist() == [[8, 0, 0, 0], [9, 1, 1, 8], [0, 1, 0, 0], [7, 3, 0, 0]]
    table = random_table(SKEWED, 2000)
    codes = binning.encode(table, "all")
    decoded = binning.decode(codes, np.random.default_rng(2))
    assert (
        binning.encode(decoded, "all") == codes
    ).mean() > 0.995  # rounded to a cent, 9.999 is another bin's
    assert (np.isin(decoded.values[:, 0], GAIN.atoms) == np.isin(table.values[:, 0], GAIN.atoms)).all()
    middle = np.log(decoded.values[codes[:, 0] == 7, 0])
    assert np.median(middle) == pytest.approx((middle.min() + middle.max()) / 2, abs=0.1)  # even on the scale


LISTED = Schema(
    columns=(
        Numeric(name="dose", bounds=(0, 500), values=(2.5, 10, 500), atoms=(10,), clip=True),
        Numeric(name="band", bounds=(0, 10**6), values=(0, 999, 10**6), integer=True, nullable=True),
    )
)


@given(st.lists(st.floats(0, 700), min_size=1, max_size=20), st.integers(1, 40))
@settings(max_examples=50, deadline=None)
def test_numbers_of_a_few_values_have_these_alone(doses: list[float], bins: int) -> None:
    # Of ratings 0, 4.5, 14.5, .. 44 to 67 % of the made rows had other numbers.
    dose, binning = LISTED.columns[0], Binning(LISTED, bins)
    assert isinstance(dose, Numeric)
    nearest = [min(dose.values[::-1], key=lambda value, d=d: abs(value - d)) for d in doses]  # type: ignore[misc]
    rows = Table(np.array([[d, 999.0, 0.0] for d in doses]))
    assert binning.sizes == (3, 3, 2)
    codes = binning.encode(rows, "all")
    assert binning.decode(codes, np.random.default_rng(0)).values[:, 0].tolist() == nearest
    assert LISTED.decode(LISTED.encode(rows.values))[:, 0].tolist() == nearest
    with pytest.raises(DataError, match="none of the public 'values'"):
        LISTED.check(Table(np.array([[2.5, 998.0, 0.0]])), "all")
    anywhere = LISTED.decode(np.random.default_rng(0).random((50, LISTED.encoded_width)))
    LISTED.check(Table(anywhere), "nobody")
    assert LISTED.columns[1].missing == 999


def test_a_file_may_hold_an_atom_outside_the_bounds_and_nothing_else_there(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    path.write_text("gain,price,kind,seen\n-1,2.5,a,1900-01-01\n0,0,b,2020-02-03\n")
    assert load_table(path, SKEWED, "north").values[:, 0].tolist() == [-1, 0]
    path.write_text("gain,price,kind,seen\n1,2.5,a,1900-01-01\n")
    with pytest.raises(DataError, match="outside the public bounds"):
        load_table(path, SKEWED, "north")
    moved = Schema(columns=(GAIN.model_copy(update={"clip": True}),))
    points = moved.encode(np.array([[-1.0], [7.0], [10.0**7]]))
    assert moved.decode(points)[:, 0].tolist() == [-1, 100, 100_000]


@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_numbers_of_a_file_are_those_of_the_schema_at_any_precision(kind: type) -> None:
    # Of a parquet file of float32 54 gaps of -99.9 became the coldest day there is, no cell was the atom 0.1
    # and 76 % of the doses were "moved".
    temp = Numeric(name="temp", bounds=(-40, 99.9), nullable=True, missing_codes=(-99.9, -88.8))
    rain = Numeric(name="rain", bounds=(0.1, 30), atoms=(0.1,))
    schema = Schema(columns=(temp, rain, Numeric(name="dose", bounds=(0, 1), values=(0.1, 0.7))))
    rows: NDArray[Any] = np.array([[-99.9, 0.1, 0.1], [99.9, 0.2, 0.7], [-88.8, 30, 0.7]], kind)
    frame = {name: rows[:, place] for place, name in enumerate(("temp", "rain", "dose"))}
    table = table_from_columns(frame, schema, "own")
    assert table.values[:, schema.names.index("temp_missing")].tolist() == [2, 0, 3]
    codes = Binning(schema, 4).encode(table, "own")
    assert codes[:, schema.names.index("rain")].tolist() == [4, 0, 3]
    assert codes[:, schema.names.index("dose")].tolist() == [0, 1, 1]
    points = Domain(schema).encode(table.values.astype(np.float64))
    assert 0.0 <= points.min() <= points.max() <= 1.0


def test_a_schema_file_has_them_and_digests_of_others_are_as_they_were(tmp_path: Path) -> None:
    path = tmp_path / "schema.toml"
    path.write_text(SKEWED.to_toml(), encoding="utf-8")
    assert load_schema(path) == SKEWED
    assert load_schema(path).digest() == SKEWED.digest()
    plain = Schema(columns=(Numeric(name="x", bounds=(0, 1)),))
    assert plain.digest() == "11616128c8e1c8e65db9222b222974e2c6ce9dcfd0141fc3aae5e66a977db1c0"
    others: list[dict[str, Any]] = [{"scale": "log"}, {"cuts": [0.5]}, {"atoms": [0.0]}, {"decimals": 2}]
    others.append({"values": [0.0, 1.0]})
    digests = {
        schema_from({"columns": [{"kind": "numeric", "name": "x", "bounds": [0, 1], **o}]}).digest()
        for o in others
    }
    assert len({plain.digest(), *digests}) == 6


@pytest.mark.parametrize(
    ("keys", "words"),
    [
        ({"cuts": [5, 2]}, "'cuts' of column 'x' do not increase"),
        ({"cuts": [0, 2]}, "'cuts' of column 'x' do not increase"),
        ({"cuts": [2.5], "integer": True}, "whole if it is"),
        ({"atoms": [1, 1]}, "an atom twice"),
        ({"atoms": [1], "count": 2}, "stands by itself"),
        ({"decimals": 2, "integer": True}, "'integer' and has 'decimals'"),
        ({"values": [1, 1]}, "'values' of column 'x' do not increase"),
        ({"values": [1, 11]}, "inside its bounds"),
        ({"values": [1, 2], "atoms": [3]}, "'values' beside"),
        ({"values": ["a", "b"], "nullable": True}, "number"),
        ({"values": [1, 9], "missing": 5}, "none of its values"),
    ],
)
def test_keys_that_do_not_fit_are_refused(keys: dict[str, Any], words: str) -> None:
    with pytest.raises(SchemaError, match=words):
        schema_from({"columns": [{"kind": "numeric", "name": "x", "bounds": [0, 10], **keys}]})


def test_a_scale_of_its_own_has_no_table_units() -> None:
    with pytest.raises(ConfigError, match="no units"):
        FourierMapSpec(dimension=2, gamma=1.0, seed=0, units="table").make(Schema(columns=(PRICE,)))
