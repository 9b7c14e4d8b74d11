"""The public schema: model space, refusals, digest, file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from fedkme.errors import ConfigError, DataError, FedkmeError, SchemaError
from fedkme.tables.schema import Category, Label, Numeric, Schema, load_schema
from fedkme.tables.table import Table

names = st.text(st.characters(codec="utf-8", exclude_categories=("C", "Z")), min_size=1, max_size=6)
finite = st.floats(-1e6, 1e6, width=32)


@st.composite
def numerics(draw: st.DrawFn, name: str) -> Numeric:
    low = draw(finite)
    high = low + draw(st.floats(1e-3, 1e6))
    count = draw(st.integers(1, 4))
    missing = draw(st.none() | st.sampled_from([low, high]))
    return Numeric(name=name, bounds=(low, high), count=count, missing=missing, clip=draw(st.booleans()))


@st.composite
def categories(draw: st.DrawFn, name: str) -> Category:
    listed = tuple(draw(st.lists(names, min_size=1, max_size=5, unique=True)))
    return Category(name=name, categories=listed, missing=draw(st.none() | st.sampled_from(listed)))


@st.composite
def schemas(draw: st.DrawFn) -> Schema:
    kinds = draw(st.lists(st.sampled_from([numerics, categories]), min_size=1, max_size=4))
    columns = tuple(draw(kind(f"c{i}_")) for i, kind in enumerate(kinds))
    classes = tuple(draw(st.lists(names, min_size=2, max_size=4, unique=True)))
    label = draw(st.none() | st.just(Label(name="label!", classes=classes)))
    return Schema(columns=columns, label=label, ignore=tuple(draw(st.lists(st.just("id!"), max_size=1))))


def rows_of(schema: Schema, rng: np.random.Generator, count: int = 7) -> NDArray[np.float64]:
    parts: list[NDArray[Any]] = []
    for column in schema.columns:
        if isinstance(column, Numeric):
            low, high = column.bounds
            parts.append(np.clip(low + rng.random((count, column.count)) * (high - low), low, high))
        else:
            parts.append(rng.integers(0, len(column.categories), (count, 1)))
    return np.hstack(parts).astype(np.float64)


@given(schemas(), st.integers(0, 2**32))
@settings(max_examples=60, deadline=None)
def test_decode_inverts_encode_to_float32_rounding(schema: Schema, seed: int) -> None:
    # Schema.encode: numbers to [0, 1], a category to one-hot / sqrt(2); decode is its inverse up to rounding.
    values = rows_of(schema, np.random.default_rng(seed))
    encoded = schema.encode(values)
    assert encoded.shape == (7, schema.encoded_width)
    assert encoded.dtype == np.float32
    assert encoded.min() >= 0
    assert encoded.max() <= 1
    spans = [
        c.bounds[1] - c.bounds[0] if isinstance(c, Numeric) else 1.0 for c in schema.columns for _ in c.names
    ]
    assert (np.abs(schema.decode(encoded) - values) <= 1e-6 * np.array(spans) + 1e-9).all()


@given(schemas(), st.integers(0, 2**32))
@settings(max_examples=40, deadline=None)
def test_any_point_of_model_space_decodes_to_rows_of_the_domain(schema: Schema, seed: int) -> None:
    # A release may leave [0, 1]; what is decoded from it must still be in the public domain.
    points = np.random.default_rng(seed).normal(0, 3, (6, schema.encoded_width)).astype(np.float32)
    schema.check(Table(schema.decode(points)), "release")


@given(schemas())
@settings(max_examples=60, deadline=None)
def test_a_schema_file_round_trips(tmp_path_factory: pytest.TempPathFactory, schema: Schema) -> None:
    # A user's own files are read through a public schema file.
    path = tmp_path_factory.mktemp("schema") / "schema.toml"
    path.write_text(schema.to_toml(), encoding="utf-8")
    assert load_schema(path) == schema
    assert load_schema(path).digest() == schema.digest()


def test_two_categories_are_at_distance_one() -> None:
    # Category.encode: two categories are at distance 1, as the two ends of a number are.
    encoded = Schema(columns=(Category(name="c", categories=("a", "b", "c")),)).encode(
        np.array([[0], [1], [2]])
    )
    distances = np.linalg.norm(encoded[:, None] - encoded[None], axis=2)
    np.testing.assert_allclose(distances, 1 - np.eye(3), atol=1e-6)


@given(st.integers(0, 2**32), st.integers(1, 6))
@settings(max_examples=20, deadline=None)
def test_a_row_is_encoded_the_same_whatever_rows_are_beside_it(seed: int, cut: int) -> None:
    # Scaling and one-hot come from the public schema only, never from private rows.
    schema = Schema(
        columns=(Numeric(name="x", bounds=(-3, 9), count=2), Category(name="c", categories=("a", "b")))
    )
    values = rows_of(schema, np.random.default_rng(seed))
    parts = [schema.encode(values[:cut]), schema.encode(values[cut:])]
    np.testing.assert_array_equal(np.concatenate(parts), schema.encode(values))


def test_encoding_does_not_depend_on_the_blocks_of_rows() -> None:
    # 3000 rows of 700 columns span several blocks; uint8 as images have it.
    schema = Schema(columns=(Numeric(name="pixel", bounds=(0, 255), count=700, integer=True),))
    images = np.random.default_rng(0).integers(0, 256, (3000, 700), dtype=np.uint8)
    np.testing.assert_array_equal(schema.encode(images), (images / 255).astype(np.float32))
    np.testing.assert_array_equal(schema.decode(schema.encode(images)), images)
    schema.check(Table(images), "owner-1")


def test_missing_values_become_the_public_value() -> None:
    # Numeric.missing: in place of NaN, infinity or a code; Category.missing: which of them stands for a gap.
    schema = Schema(
        columns=(
            Numeric(name="chol", bounds=(50, 700), missing=220, missing_codes=(0,)),
            Category(name="c", categories=("a", "gap"), missing="gap"),
        )
    )
    values = np.array([[np.nan, np.nan], [0, 1], [220, 1], [np.inf, 1]])
    schema.check(Table(values), "va")
    np.testing.assert_array_equal(schema.encode(values), np.tile(schema.encode(values[2:3]), (4, 1)))


def test_clip_moves_values_to_the_bounds_and_still_refuses_nan() -> None:
    # Numeric.clip: moves a value outside the bounds to the nearest bound instead of refusing it.
    schema = Schema(columns=(Numeric(name="x", bounds=(0, 10), clip=True),))
    schema.check(Table(np.array([[-5.0], [50.0]])), "owner-1")
    assert schema.encode(np.array([[-5.0], [50.0]])).tolist() == [[0], [1]]
    with pytest.raises(DataError, match="NaN"):
        schema.check(Table(np.array([[np.nan]])), "owner-1")


DOMAIN = Schema(
    columns=(Numeric(name="age", bounds=(0, 120)), Category(name="colour", categories=("red", "blue"))),
    label=Label(name="ill", classes=("no", "yes")),
)
SECRET = 987.654


def table(*rows: tuple[float, float], labels: list[int] | None = None) -> Table:
    return Table(
        np.array(rows, dtype=float).reshape(-1, 2),
        None if labels is None else np.array(labels, dtype=np.int64),
    )


BAD: dict[str, tuple[Table, str]] = {
    "NaN": (table((np.nan, 0), (5, 1), (np.nan, 1)), "'age': NaN.*rows: 2"),
    "infinity": (table((np.inf, 0), (5, 1)), "'age': NaN, infinity.*rows: 1"),
    "above": (table((SECRET, 0), (5, 1)), "'age': outside the public bounds, rows: 1"),
    "below": (table((-SECRET, 0), (-1, 1)), "'age': outside the public bounds, rows: 2"),
    "unknown category": (table((5, 2), (5, 0.5), (5, np.nan), (5, -1)), "'colour': an unknown.*rows: 4"),
    "unknown class": (table((5, 0), (5, 1), labels=[0, 2]), "'ill': an unknown class index, rows: 1"),
    "negative class": (table((5, 0), labels=[-1]), "'ill': an unknown class index, rows: 1"),
    "too few labels": (table((5, 0), (5, 1), labels=[0]), r"labels of shape \(1,\).*2 rows"),
    "one axis": (Table(np.zeros(2)), r"shape \(2,\).*2 columns"),
    "three columns": (Table(np.zeros((4, 3))), r"shape \(4, 3\).*2 columns"),
    "text": (Table(np.array([["987.654", "red"]])), "type str"),
    "objects": (Table(np.array([[SECRET, None]], dtype=object)), "type object"),
}


@pytest.mark.parametrize("case", BAD)
def test_check_names_party_column_and_rows_and_never_a_value(case: str) -> None:
    # Wrong shapes, NaN or infinity, values outside the schema, unknown categories: one
    # line with cause and remedy. CONVENTIONS: never a private value.
    bad, message = BAD[case]
    with pytest.raises(DataError, match=message) as caught:
        DOMAIN.check(bad, "owner-3")
    text = str(caught.value)
    assert "owner-3" in text
    assert "987" not in text
    assert "\n" not in text
    assert not caught.value.cause.endswith(".")
    assert caught.value.remedy.endswith(".")


def test_check_refuses_labels_that_the_schema_does_not_describe() -> None:
    # DESIGN, The house: schema.py is the public column domain (bounds, categories, label).
    with pytest.raises(DataError, match="the schema has none"):
        Schema(columns=DOMAIN.columns).check(table((5, 0), labels=[0]), "owner-3")


def test_an_owner_without_rows_is_accepted() -> None:
    # Owners may have different sizes; none at all is one.
    DOMAIN.check(table(labels=[]), "owner-3")
    assert DOMAIN.encode(table().values).shape == (0, 3)
    assert DOMAIN.decode(np.empty((0, 3), np.float32)).shape == (0, 2)


def test_widths_and_names_of_the_domain() -> None:
    # Schema: width is c, encoded_width is n, classes are the label's; a block's columns are numbered.
    schema = Schema(
        columns=(Numeric(name="pixel", bounds=(0, 16), count=3), *DOMAIN.columns), label=DOMAIN.label
    )
    assert (schema.width, schema.encoded_width, schema.classes) == (5, 6, ("no", "yes"))
    assert schema.names == ("pixel0", "pixel1", "pixel2", "age", "colour")


def test_the_digest_depends_on_the_domain_alone() -> None:
    # Schema.digest: two parties compare it; only what defines the domain counts, in its order.
    digest = DOMAIN.digest()
    assert len(digest) == 64
    assert digest == Schema.model_validate(DOMAIN.model_dump(mode="json")).digest()
    assert digest == DOMAIN.model_copy(update={"ignore": ("id",)}).digest()
    others = [
        DOMAIN.model_copy(update={"label": None}),
        DOMAIN.model_copy(update={"columns": DOMAIN.columns[::-1]}),
        DOMAIN.model_copy(update={"columns": (Numeric(name="age", bounds=(0, 121)), DOMAIN.columns[1])}),
        DOMAIN.model_copy(
            update={"columns": (Numeric(name="age", bounds=(0, 120), missing=1), DOMAIN.columns[1])}
        ),
        Schema(
            columns=(DOMAIN.columns[0], Category(name="colour", categories=("blue", "red"))),
            label=DOMAIN.label,
        ),
    ]
    assert len({digest, *(other.digest() for other in others)}) == 6


AGE = '[[columns]]\nname = "age"\nkind = "numeric"\nbounds = [0, 120]\n'
COLOUR = '[[columns]]\nname = "colour"\nkind = "category"\ncategories = ["red", "blue"]\n'
BAD_FILES = {
    "unknown key": (AGE + "bound = 3\n", "'columns.age.bound' is not a key.*'columns.bounds'"),
    "no bounds": (AGE.replace("bounds = [0, 120]", ""), "bounds' is missing"),
    "order of bounds": (AGE.replace("[0, 120]", "[120, 0]"), "bounds of column 'age'"),
    "infinite bounds": (AGE.replace("120", "inf"), "finite"),
    "missing outside": (AGE + "missing = 130\n", "'missing' of column 'age' is outside"),
    "codes alone": (AGE + "missing_codes = [0]\n", "'missing_codes' and no 'missing'"),
    "integer bounds": (AGE.replace("120", "1.5") + "integer = true\n", "not whole numbers"),
    "no columns": ("columns = []\n", "columns"),
    "column twice": (AGE + AGE, "'age' is used twice"),
    "ignored column": (
        'ignore = ["age"]\n' + AGE,
        "'age' is used twice; take its table out, or list it no longer under 'ignore'",
    ),
    "block twice": (AGE + "count = 2\n" + AGE.replace("age", "age1"), "'age1' is used twice"),
    "category twice": (COLOUR.replace("blue", "red"), "lists a category twice"),
    "missing category": (COLOUR + 'missing = "gap"\n', "not one of its categories"),
    "class twice": (AGE + '[label]\nname = "y"\nclasses = ["a", "a"]\n', "class twice"),
    "rule": (AGE + '[label]\nname = "y"\nclasses = ["a", "b", "c"]\npositive_above = 0\n', "exactly two"),
    "spaces": (AGE.replace('"age"', '" age"'), "without spaces"),
    "kind": (AGE.replace("numeric", "number"), "kind"),
    "circle of orders": (
        'order = [["age", "year"], ["year", "age"]]\n' + AGE + AGE.replace("age", "year"),
        "'order' goes in a circle of 'year', 'age'",
    ),
    "order of days": (
        AGE.replace("numeric", "date").replace("[0, 120]", "[2024-12-31, 2024-01-01]"),
        r"bounds of column 'age' are not \[first, last\]",
    ),
}


@pytest.mark.parametrize("case", BAD_FILES)
def test_an_inconsistent_schema_file_is_refused_in_one_line(tmp_path: Path, case: str) -> None:
    # Unknown keys in a TOML file end in one clear line. SchemaError: is inconsistent.
    text, message = BAD_FILES[case]
    path = tmp_path / "schema.toml"
    path.write_text(text)
    with pytest.raises(SchemaError, match=message) as caught:
        load_schema(path)
    assert str(path) in str(caught.value)


@pytest.mark.parametrize("text", [None, "columns = ["])
def test_a_missing_or_malformed_schema_file_is_refused(tmp_path: Path, text: str | None) -> None:
    # One clear line with cause and remedy.
    path = tmp_path / "schema.toml"
    if text is not None:
        path.write_text(text)
    with pytest.raises(ConfigError) as caught:
        load_schema(path)
    assert isinstance(caught.value, FedkmeError)


@pytest.mark.parametrize(
    ("bounds", "value", "code"),
    [
        ((0, 120), -9, True),
        ((0, 120), 999, True),
        ((0, 90), 99, False),
        ((0, 120), 131, False),
        ((-50, 50), -999, True),
        ((-50, 50), -99, False),
        ((0, 120), -3, False),
    ],
)
def test_a_code_beyond_the_bounds_is_a_fault_and_never_clipped(
    bounds: tuple[float, float], value: float, code: bool
) -> None:
    # -9 passed `schema check`, became a patient aged 0 under `clip`, and came back as -9 in summary.csv.
    ages = Schema(columns=(Numeric(name="age", bounds=bounds, clip=True),))
    faults = [fault.what for fault in ages.faults(np.array([[value], [1.0]]))]
    assert bool(faults) is code
    assert bool(ages.swallowed(np.array([[value], [1.0]]))) is not code
    atoms = Schema(columns=(Numeric(name="age", bounds=bounds, clip=True, atoms=(value,)),))
    assert not list(atoms.faults(np.array([[value], [1.0]])))


@pytest.mark.parametrize(
    "keys",
    [
        {"bounds": (0, 1e300)},  # squares are infinite: the release ended without a verdict
        {"bounds": (0, 1e-200)},
        {"bounds": (1e17, 1e17 + 16)},  # sixteen bins have one edge
        {"bounds": (0, 1), "atoms": (1e200,)},
    ],
)
def test_numbers_that_cannot_be_squared_or_told_apart_are_in_no_schema(keys: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="1e\\+100"):
        Numeric(name="a", **keys)
    assert Numeric(name="a", bounds=(0, 1e100), nullable=True, missing_codes=(1.7976931348623157e308,))


def test_a_day_that_stands_for_nothing_is_a_fault_under_clip() -> None:
    seen = Schema(columns=(Numeric(kind="date", name="seen", bounds=(0, 20_000), clip=True),))
    assert list(seen.faults(np.array([[-25567.0]])))  # 1900-01-01
