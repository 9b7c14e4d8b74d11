"""Synthetic data that people can use (issue 5, item 7)."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from curator.releases.files import make_synthetic
from curator.releases.method import Making
from curator.releases.synthetic import DataCard, csv_bytes
from fedkme.errors import DataError
from fedkme.privacy.events import Gaussian
from fedkme.privacy.gaussian import gaussian_sigma
from fedkme.tables.files import load_table, table_from_columns
from fedkme.tables.schema import Category, Label, Numeric, Schema, schema_from
from fedkme.tables.table import Table
from fedkme.tables.text import cell_columns, text_columns
from sim.api.frames import frame_of

SCHEMA = Schema(
    columns=(
        Numeric(name="age", bounds=(17, 90), integer=True),
        Numeric(name="share", bounds=(-1, 1)),
        Category(name="work", categories=("self, own", "state | federal", "?")),
        Numeric(name="pixel", bounds=(0, 255), count=2, integer=True),
    ),
    label=Label(name="income", classes=("<=50K", ">50K")),
)
TABLE = Table(
    np.array([[17, -1, 0, 0, 255], [64, 0.1, 2, 7, 8], [90, 1 / 3, 1, 3, 4]], dtype=np.float64),
    np.array([0, 1, 1]),
)


def card(rows: int = 3, **other: Any) -> DataCard:
    values: dict[str, Any] = {
        "mechanism": "DP-MERF (Harder 2021)",
        "schema": SCHEMA,
        "rows": rows,
        "source_rows": 43_958,
        "owners": 5,
        "event": Gaussian(gaussian_sigma(1.0, 1e-5)),
        "relation": "replace-one",
        "delta": 1e-5,
        "utility": {"ROC": 0.75},
        "utility_rows": "the consumer's test rows",
        "settings": {"map": {"kind": "mixed"}},
    }
    return DataCard(**(values | other))


def write(folder: Path, table: Table, about: DataCard) -> None:
    making = Making(b"released", lambda *_: None)
    make_synthetic(table, about, making)
    assert not making.losses
    for name, content in making.finished.files.items():
        (folder / name).write_bytes(content)


@pytest.mark.parametrize("suffix", [".npz", ".csv", ".parquet"])
def test_a_written_table_is_read_back_through_the_schema(suffix: str, tmp_path: Path) -> None:
    """Units, categories and whole numbers: the inverse of the schema, to the last bit."""
    if suffix == ".parquet":
        pytest.importorskip("pyarrow")
    write(tmp_path, TABLE, card())
    assert {path.name for path in tmp_path.iterdir()} >= {"synthetic.card.md", "synthetic.card.json"}
    back = load_table(tmp_path / f"synthetic{suffix}", SCHEMA, "reader")
    np.testing.assert_array_equal(back.values, TABLE.values)
    assert back.labels is not None
    np.testing.assert_array_equal(back.labels, [0, 1, 1])


def test_a_file_has_names_and_whole_numbers_in_place_of_codes(tmp_path: Path) -> None:
    write(tmp_path, TABLE, card())
    lines = (tmp_path / "synthetic.csv").read_text().splitlines()
    assert lines[0] == "age,share,work,pixel0,pixel1,income"
    assert lines[1] == '17,-1.0,"self, own",0,255,<=50K'
    assert lines[2] == "64,0.1,?,7,8,>50K"


def test_a_label_by_threshold_is_a_number_on_its_side_of_it(tmp_path: Path) -> None:
    schema = Schema(
        columns=(Numeric(name="x", bounds=(0, 1)),),
        label=Label(name="sick", classes=("no", "yes"), positive_above=0),
    )
    table = Table(np.array([[0.5], [0.25]]), np.array([0, 1]))
    write(tmp_path, table, card(2, schema=schema))
    back = load_table(tmp_path / "synthetic.csv", schema, "reader")
    assert back.labels is not None
    np.testing.assert_array_equal(back.labels, [0, 1])


@pytest.mark.parametrize("suffix", [".npz", ".csv", ".parquet"])
def test_a_made_gap_is_an_empty_cell_whatever_number_was_made_for_it(suffix: str, tmp_path: Path) -> None:
    # docs/own-data.md: rows that owners have with empty cells are made with empty cells.
    temp = {"name": "temp", "kind": "numeric", "bounds": [30, 44], "nullable": True}
    schema = schema_from({"columns": [temp]})
    write(tmp_path, Table(np.array([[36.5, 0.0], [39.0, 1.0]]), None), card(2, schema=schema))
    assert (tmp_path / "synthetic.csv").read_text() == 'temp\n36.5\n""\n'
    back = load_table(tmp_path / f"synthetic{suffix}", schema, "reader")
    np.testing.assert_array_equal(np.nan_to_num(back.values, nan=37.0), [[36.5, 0.0], [37.0, 1.0]])


@pytest.mark.parametrize(
    ("column", "code"),
    [
        ({"kind": "numeric", "bounds": [30, 44], "missing_codes": [-9]}, "-9"),
        ({"kind": "numeric", "bounds": [30, 44], "missing_codes": [-0.5]}, "-0.5"),
        (
            {"kind": "date", "bounds": ["1970-01-01", "1970-03-01"], "missing_codes": ["1900-01-01"]},
            "1900-01-01",
        ),
    ],
)
@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_a_gap_comes_back_as_the_one_code_of_the_schema(
    column: dict[str, object], code: str, suffix: str, tmp_path: Path
) -> None:
    schema = schema_from({"columns": [{"name": "temp", "nullable": True, **column}]})
    table = Table(np.array([[36.0, 0.0], [36.0, 1.0]]), None)
    write(tmp_path, table, card(2, schema=schema))
    assert (tmp_path / "synthetic.csv").read_text().splitlines()[2] == code
    assert text_columns(table, schema)["temp"][1] == code.strip('"')
    back = load_table(tmp_path / f"synthetic{suffix}", schema, "reader")
    np.testing.assert_array_equal(back.values[:, 1], [0.0, 1.0])


@pytest.mark.parametrize("kind", ["numeric", "date"])
@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_each_of_several_codes_comes_back_as_it_was(kind: str, suffix: str, tmp_path: Path) -> None:
    # -8 (refused) and -9 (not asked) came back as one empty cell.
    days = kind == "date"
    codes = ["1900-01-01", "9999-12-31"] if days else ["-8", "-9.5"]
    cells = ["1970-02-03" if days else "36.5", codes[0], codes[1], "", codes[1]]
    column = {
        "kind": kind,
        "bounds": ["1970-01-01", "1970-03-01"] if days else [30, 44],
        "missing_codes": codes if days else [float(code) for code in codes],
    }
    schema = schema_from({"columns": [{"name": "temp", "nullable": True, **column}]})
    assert schema.columns[1].model_dump()["categories"] == ("no", "empty", *codes)
    table = table_from_columns({"temp": cells}, schema, "owner")
    assert table.values[:, 1].tolist() == [0, 2, 3, 1, 3]
    assert text_columns(table, schema)["temp"] == cells
    write(tmp_path, table, card(5, schema=schema))
    written = (tmp_path / "synthetic.csv").read_text().splitlines()[1:]
    assert [cell.strip('"') for cell in written] == cells
    back = load_table(tmp_path / f"synthetic{suffix}", schema, "reader")
    np.testing.assert_array_equal(back.values[:, 1], table.values[:, 1])
    frame = frame_of(table, schema)
    assert frame["temp"].isna().tolist() == [False, True, True, True, True]


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_gaps_of_a_category_come_out_as_they_came_in(tmp_path: Path, suffix: str) -> None:
    # Answers -1, 0, 1 with gaps came out as names with "missing" among them, and programs failed.
    city = {"name": "city", "kind": "category", "categories": ["-1", "0", "1"], "nullable": True}
    schema = schema_from({"columns": [city]})
    table = table_from_columns({"city": ["0", "", "-1", ""]}, schema, "owner")
    write(tmp_path, table, card(4, schema=schema))
    read = pd.read_csv if suffix == ".csv" else pd.read_parquet
    for frame in (frame_of(table, schema), read(tmp_path / f"synthetic{suffix}")):
        assert frame["city"].isna().tolist() == [False, True, False, True]
        assert frame["city"].dropna().astype(int).tolist() == [0, -1]
    back = load_table(tmp_path / f"synthetic{suffix}", schema, "reader")
    np.testing.assert_array_equal(back.values, table.values)


def test_marks_of_yes_and_no_stay_what_they_are_beside_several_codes() -> None:
    # Schemas of releases that were made before codes were told apart.
    number = {"kind": "numeric", "name": "temp", "bounds": [30, 44], "missing_codes": [-8, -9]}
    mark = {"kind": "category", "name": "temp_missing", "categories": ["no", "yes"], "gaps_of": "temp"}
    schema = schema_from({"columns": [number | {"nullable": True}, mark]})
    table = table_from_columns({"temp": ["36", "-8", "-9", ""]}, schema, "owner")
    assert table.values[:, 1].tolist() == [0, 1, 1, 1]
    assert text_columns(table, schema)["temp"] == ["36", "", "", ""]


def test_rows_without_a_label_have_no_such_column() -> None:
    assert "income" not in cell_columns(Table(TABLE.values), SCHEMA)


def test_the_card_says_mechanism_epsilon_schema_and_utility(tmp_path: Path) -> None:
    write(tmp_path, TABLE, card())
    card_json = json.loads((tmp_path / "synthetic.card.json").read_text())
    assert card_json["mechanism"] == "DP-MERF (Harder 2021)"
    assert card_json["rows"] == 3
    assert card_json["owners"] == 5
    assert card_json["source_rows"] == 43_958
    epsilon = card_json["privacy"]["epsilon"]
    assert epsilon["sound"]["epsilon"] == pytest.approx(1.0, rel=1e-6)
    assert epsilon["sound"]["delta"] == 1e-5
    assert set(epsilon) == {"sound"}  # Sarpatwar's arithmetic is of its own two mechanisms
    assert card_json["privacy"]["relation"] == "replace-one"
    assert Schema.model_validate(card_json["schema"]) == SCHEMA
    assert card_json["schema_sha256"] == SCHEMA.digest()
    assert card_json["utility"] == {"measured_on": "the consumer's test rows", "ROC": 0.75}
    text = (tmp_path / "synthetic.card.md").read_text()
    for part in ("| sound | 1 | 1e-05 |", "state \\| federal", "17 to 90", "| ROC | 0.75 |"):
        assert part in text
    assert "pixel0 to pixel1" in text


def test_a_release_without_noise_says_epsilon_is_infinite() -> None:
    nothing = card(event=None)
    assert all(math.isinf(figure.epsilon) for figure in nothing.figures().values())
    assert nothing.to_json()["privacy"]["epsilon"]["sound"]["epsilon"] == "inf"


def test_rows_that_do_not_fit_the_schema_are_not_written() -> None:
    outside = Table(TABLE.values + 100.0, TABLE.labels)
    for table, about, message in ((outside, card(), "public bounds"), (TABLE, card(4), "other rows")):
        with pytest.raises(DataError, match=message):
            make_synthetic(table, about, Making(b"released", lambda *_: None))


def test_dates_are_written_as_dates_and_read_again(tmp_path: Path) -> None:
    # `kind = "date"`: a table holds days.
    schema = schema_from({"columns": [{"kind": "date", "name": "d", "bounds": ["2020-01-01", "2021-01-01"]}]})
    days = Table(np.array([[18262.0], [18628.0]]))
    assert cell_columns(days, schema) == {"d": ["2020-01-01", "2021-01-01"]}
    path = tmp_path / "rows.csv"
    path.write_bytes(csv_bytes(cell_columns(days, schema)))
    np.testing.assert_array_equal(load_table(path, schema, "consumer").values, days.values)


def test_names_of_a_schema_are_text_in_card_and_csv(tmp_path: Path) -> None:
    name, category = "=1+1 | ![x](http://host/x)", "<img src=x>"
    schema = Schema(columns=(Category(name=name, categories=(category, "-2", "@x")),))
    rows = Table(np.array([[0.0], [1.0], [2.0]]))
    write(tmp_path, rows, card(3, schema=schema, notes=(f"1 marginal was measured: {name}",)))
    text = (tmp_path / "synthetic.card.md").read_text()
    assert text.count(r"=1+1 \| !\[x\](http://host/x)") == 2
    assert r"\<img src=x\>" in text
    lines = (tmp_path / "synthetic.csv").read_text().splitlines()
    assert lines == [f"'{name}", category, "-2", "'@x"]
