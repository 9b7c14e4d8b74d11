"""Issue 35, item A.4: the smallest edit that makes all files fit."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fedkme.drafts.writing import FROM_DATA
from fedkme.errors import DataError
from tests.fedkme.drafts.own_files import OWNER, REMARKS, SCHEMA, rows, scenario, typed, write


def test_what_several_files_need_goes_to_the_schema_and_else_to_own_settings(folder: Path) -> None:
    north, south, west = rows(), rows(), rows()
    north["sex"][3] = south["sex"][5] = ""  # gaps at two sites
    north["age"] = [f"{cell}" if n % 9 else "NA" for n, cell in enumerate(north["age"])]
    south["age"] = [f"{cell}" if n % 9 else "?" for n, cell in enumerate(south["age"])]
    west["weight"] = [cell if n % 9 else "n.d." for n, cell in enumerate(west["weight"])]
    west["sex"] = [cell if n % 4 else "diverse" for n, cell in enumerate(west["sex"])]
    west["sex"][1] = "Zaphod"
    north["weight"] = [cell if n % 3 else "312.5" for n, cell in enumerate(north["weight"])]
    for name, columns in (("north", north), ("south", south), ("west", west)):
        write(f"{name}.csv", columns)
    scenario(north="north.csv", south="south.csv", west="west.csv")
    output = typed("check", "schema.toml", "scenario.toml", code=DataError.code)
    assert "Zaphod" not in output
    before = output.count("no faults")
    assert before == 1  # "read so, it has no faults"
    output = typed("check", "schema.toml", "scenario.toml", "--fix")
    assert "Zaphod" not in output
    text = Path("schema.toml").read_text()
    columns_of = {each["name"]: each for each in tomllib.loads(text)["columns"]}
    assert columns_of["age"]["na"] == ["?", "NA"]
    assert (
        columns_of["age"]["nullable"]
        is columns_of["sex"]["nullable"]
        is columns_of["weight"]["nullable"]
        is True
    )
    assert columns_of["sex"]["categories"] == ["female", "male", "diverse"]
    assert columns_of["sex"]["other"] is True
    assert columns_of["weight"]["bounds"] == [0, 400]
    for remark in REMARKS:
        assert remark in text
    for start in ('categories = ["female", "male", "diverse"]', "bounds = [0, 400]"):
        assert f"{start}  {FROM_DATA}" in text
    owners = tomllib.loads(Path("scenario.toml").read_text())["scenario"]["owners"]
    assert owners == {
        "north": "north.csv",
        "south": "south.csv",
        "west": {"path": "west.csv", "na": ["n.d."]},
    }
    assert "# of west" in Path("scenario.toml").read_text()
    assert typed("check", "schema.toml", "scenario.toml").count("no faults") == 3


def test_a_word_of_many_columns_stands_once_in_each_file_and_numbers_keep_their_names(folder: Path) -> None:
    # Found on cervical.parquet as three csv files: 14 lines of `na` in the schema in place of one in each of
    # two files, and "0,0" of a file with decimal commas beside "0.0" in the list of names.
    schema = SCHEMA.replace('["female", "male"]', '["0.0", "1.0"]')
    Path("schema.toml").write_text(schema, encoding="utf-8")
    for name, word, names in (("north", "NULL", ["0", "1"]), ("south", "k. A.", ["0,0", "1,0"])):
        own = rows()
        own["sex"] = [names[n % 2] for n in range(60)]
        own["weight"] = [f"{cell}".replace(".", "," if name == "south" else ".") for cell in own["weight"]]
        for column in ("age", "sex", "weight"):
            own[column][9] = word
        write(f"{name}.csv", own, sep=";")
    scenario(north="north.csv", south="south.csv")
    typed("check", "schema.toml", "scenario.toml", "--fix")
    owners = tomllib.loads(Path("scenario.toml").read_text())["scenario"]["owners"]
    assert owners["north"]["na"] == ["NULL"]
    assert owners["south"]["na"] == ["k. A."]
    assert typed("check", "schema.toml", "scenario.toml").count("no faults") == 2  # with "0,0" as 0
    columns = tomllib.loads(Path("schema.toml").read_text())["columns"]
    assert not any("na" in column for column in columns)
    assert columns[1]["categories"] == ["0.0", "1.0"]
    assert typed("check", "schema.toml", "scenario.toml").count("no faults") == 2


def test_files_without_settings_are_mended_by_the_schema(folder: Path) -> None:
    own = rows()
    own["age"][4] = "unknown"
    own["note"] = ["x"] * 60
    own["seen"] = [f"{8}.{1 + n % 12:02}.2021" for n in range(60)]
    own["ill"][7] = ""
    write("own.csv", own)
    typed("check", "schema.toml", "own.csv", "--fix")
    values = tomllib.loads(Path("schema.toml").read_text())
    assert values["ignore"] == ["id", "note"]
    assert values["columns"][0]["na"] == ["unknown"]
    assert values["columns"][2]["format"] == "%d.%m.%Y"
    assert values["label"]["drop_unlabelled"] is True
    assert "own.csv: 59 rows, no faults" in typed("check", "schema.toml", "own.csv")


def test_rare_words_of_cells_are_named_in_own_settings_and_only_if_asked(folder: Path) -> None:
    # "Cells are private: what is printed without --show-values holds no cell except through the edit".
    own = rows()
    own["age"][4], own["ill"][7], own["sex"][9] = "Smith", "perhaps", "Jones"
    write("own.csv", own)
    Path("owner.toml").write_text(OWNER + "[data]\npath = 'own.csv'\n")
    for name in ("owner.toml", "own.csv"):
        output = typed("check", "schema.toml", name, code=DataError.code)
        assert not any(word in output for word in ("Smith", "perhaps", "Jones"))
        reports = json.loads(typed("check", "schema.toml", name, "--json", code=DataError.code))
        assert not any(word in json.dumps(reports) for word in ("Smith", "perhaps", "Jones"))
    assert "2 more words of cells can be named" in typed(
        "check", "schema.toml", "owner.toml", code=DataError.code
    )
    typed("check", "schema.toml", "own.csv", "--fix", code=DataError.code)
    assert not any(word in Path("schema.toml").read_text() for word in ("Smith", "perhaps", "Jones"))
    typed("check", "schema.toml", "owner.toml", "--fix")
    assert not any(word in Path("schema.toml").read_text() for word in ("Smith", "perhaps", "Jones"))
    data = tomllib.loads(Path("owner.toml").read_text())["data"]
    assert data["columns"] == {"age": {"na": ["Smith"]}, "ill": {"na": ["perhaps"]}}
    assert "own.csv: 59 rows, no faults" in typed("check", "schema.toml", "owner.toml")


def test_other_units_and_missing_columns_are_left_to_people(folder: Path) -> None:
    own = rows()
    own["weight"] = [f"{500 + n}" for n in range(60)]
    write("own.csv", own)
    output = typed("check", "schema.toml", "own.csv", "--fix", code=DataError.code)
    assert "bounds" not in output.partition("smallest edit")[2]
    assert Path("schema.toml").read_text() == SCHEMA
    del own["weight"]
    write("own.csv", own | {"f": own["age"], "g": own["age"]})
    output = typed("check", "schema.toml", "own.csv", "--fix", code=DataError.code)
    assert "no column 'weight'" in output
    assert Path("schema.toml").read_text() == SCHEMA


@pytest.mark.parametrize(
    ("others", "values", "bounds"),
    [([61.5, 250.0] * 15, [60, 61.5, 70, 250], [0, 300]), ([n / 4 for n in range(40)], [], [0, 200])],
    ids=["a few more", "too many to list"],
)
def test_listed_values_of_a_schema_become_those_of_the_files(
    folder: Path, others: list[float], values: list[float], bounds: list[float]
) -> None:
    Path("schema.toml").write_text(
        SCHEMA.replace("bounds = [0, 200]", "bounds = [0, 200]\nvalues = [60, 70]")
    )
    write("own.csv", rows() | {"weight": [str(n) for n in (others + [60, 70] * 30)[:60]]})
    typed("check", "schema.toml", "own.csv", "--fix")
    weight = tomllib.loads(Path("schema.toml").read_text())["columns"][3]
    assert (weight["values"], weight["bounds"]) == (values, bounds)
    assert "own.csv: 60 rows, no faults" in typed("check", "schema.toml", "own.csv")


def test_settings_that_would_contradict_each_other_are_not_proposed(folder: Path) -> None:
    write("own.csv", rows() | {"weight": ["61.5"] * 60})
    Path("owner.toml").write_text(OWNER + '[data]\npath = "own.csv"\nsep = ";"\ndecimal = ","\n')
    output = typed("check", "schema.toml", "owner.toml", code=DataError.code)
    assert "no column" in output
    Path("owner.toml").write_text(OWNER + '[data]\npath = "own.csv"\ncolumns.age.from = "weight"\n')
    typed("check", "schema.toml", "owner.toml", "--fix", "--confirm", code=DataError.code)


def test_a_schema_that_cannot_be_edited_is_left_as_it_is(folder: Path) -> None:
    fields = [
        {"name": "sex", "type": "string", "constraints": {"enum": ["f"], "required": True}},
        {"name": "age", "type": "integer", "constraints": {"minimum": 0, "maximum": 9, "required": True}},
    ]
    Path("table.json").write_text(json.dumps({"fields": fields}))
    write("own.csv", {"sex": ["f", ""] * 9, "age": ["1"] * 18})
    assert "nullable = true" in typed("check", "table.json", "own.csv", code=DataError.code)
    typed("check", "table.json", "own.csv", "--fix", code=10)


WORDS = ("NA", "?", "k. A.", "unknown", "s/o", "", "#N/A")
MESS = st.fixed_dictionaries(
    {
        "seed": st.integers(0, 10**6),
        "sep": st.sampled_from([",", ";", "\t"]),
        "encoding": st.sampled_from(["utf-8", "cp1252"]),
        "word": st.sampled_from(WORDS),
        "gaps": st.sets(st.sampled_from(["age", "sex", "seen", "weight", "ill"])),
        "outside": st.sampled_from([0, 2, 20]),
        "code": st.sampled_from([None, "-9", "999"]),
        "sex": st.sampled_from([None, {"male": "m", "female": "w"}, {"male": "Homme", "female": "Femme"}]),
        "strange": st.sampled_from([0, 3, 25]),
        "days": st.sampled_from(["%Y-%m-%d", "%d.%m.%Y", "%m/%d/%Y"]),
        "header": st.sampled_from(
            [str, str.upper, str.title, lambda name: f"{name}_", lambda name: f" {name}"]
        ),
        "extra": st.booleans(),
        "unread": st.integers(0, 2),
    }
)


def messy(mess: dict[str, Any]) -> dict[str, list[str]]:
    from datetime import date

    random = np.random.default_rng(mess["seed"])
    columns = rows(120)
    columns["seen"] = [date.fromisoformat(day).strftime(mess["days"]) for day in columns["seen"]]
    if mess["sex"]:
        columns["sex"] = [mess["sex"][cell] for cell in columns["sex"]]

    def put(column: str, cells: Sequence[str]) -> None:
        for place, cell in zip(random.permutation(120), cells, strict=False):
            columns[column][place] = cell

    put("weight", [str(250 + n) for n in range(mess["outside"])])
    put("sex", ["diverse" if n % 3 else "Zoë" for n in range(mess["strange"])])
    for column in sorted(mess["gaps"]):
        put(column, [mess["word"]] * 7)
    put("age", [mess["code"]] * 5 if mess["code"] else [])
    put("age", [f"Smith {n}" for n in range(mess["unread"])])
    if mess["extra"]:
        columns["note"] = ["x"] * 120
    return {mess["header"](name): cells for name, cells in columns.items()}


@given(st.lists(MESS, min_size=1, max_size=3))
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_after_a_fix_the_same_check_says_no_faults(folder: Path, sites: list[dict[str, Any]]) -> None:
    Path("schema.toml").write_text(SCHEMA, encoding="utf-8")
    for number, mess in enumerate(sites):
        write(f"site{number}.csv", messy(mess), mess["sep"], mess["encoding"])
    scenario(**{f"site{number}": f"site{number}.csv" for number in range(len(sites))})
    typed("check", "schema.toml", "scenario.toml", "--fix")
    assert "kinds of faults" not in typed("check", "schema.toml", "scenario.toml")
    text = Path("schema.toml").read_text()
    assert all(remark in text for remark in REMARKS)
    changed = [line for line in text.splitlines() if line.startswith(("bounds", "categories"))]
    assert all(FROM_DATA in line for line in changed if line not in SCHEMA.splitlines())
    assert "Smith" not in text


@pytest.mark.parametrize(("unlike", "share"), [("own", 0.0), ("far", 0.3), ("units", 0.85)])
def test_many_numbers_beyond_a_draft_widen_it_and_other_units_do_not(
    folder: Path, unlike: str, share: float
) -> None:
    # A sample of a year and files of eight: 39 % of the days were moved to its last day, with "no faults".
    schema = SCHEMA.replace("bounds = [0, 200]", "bounds = [0, 200]\nclip = true")
    Path("schema.toml").write_text(
        schema.replace("2024-12-31]", "2024-12-31]\nclip = true"), encoding="utf-8"
    )
    own = rows(100)
    beyond = int(100 * share)
    own["weight"][:beyond] = [f"{201 + n}" for n in range(beyond)]
    own["seen"][:beyond] = [f"{2025 + n % 4}-03-01" for n in range(beyond)]
    write("own.csv", own)
    typed("check", "schema.toml", "own.csv", "--fix")
    columns = tomllib.loads(Path("schema.toml").read_text())["columns"]
    assert columns[3]["bounds"] == ([0, 300] if unlike == "far" else [0, 200])
    assert str(columns[2]["bounds"][1])[:4] == ("2028" if share else "2024")


def test_numbers_in_other_units_are_no_codes_and_gaps_do_not_hide_them(folder: Path) -> None:
    # Haemoglobin in g/L, the schema in g/dL: 127 was a code for nothing in the settings, and 111 of 125 cells
    # (the others were empty) were moved to the bound, with "no faults".
    schema = SCHEMA.replace("bounds = [0, 200]", "bounds = [9, 19]\nclip = true\nnullable = true")
    Path("schema.toml").write_text(schema, encoding="utf-8")
    own = rows(100)
    own["weight"] = ["" if n % 8 == 0 else f"{110 + n % 40}" for n in range(100)]
    write("own.csv", own)
    scenario(north="own.csv")
    output = typed("check", "schema.toml", "scenario.toml", "--fix", code=DataError.code)
    assert "column 'weight': nearly all outside the bounds" in output
    assert "127" not in Path("scenario.toml").read_text()
    assert Path("schema.toml").read_text() == schema


@pytest.mark.parametrize(
    ("column", "codes", "added"),
    [
        ("sex", "12", False),
        ("ill", "12", False),
        ("ill", ["well", "poorly"], False),
        ("sex", ["x", "y"], False),
    ],
)
def test_other_codes_for_the_same_names_are_no_new_names(
    folder: Path, column: str, codes: list[str], added: bool
) -> None:
    # 1 and 2 for m and w, 1 to 5 for answers, "cancelled" for 1: --fix added them to the schema, and "fit".
    own = rows()
    own[column] = [codes[n % 2] for n in range(60)]
    write("own.csv", own)
    write("north.csv", rows())
    scenario(south="own.csv", north="north.csv")
    typed("check", "schema.toml", "scenario.toml", "--fix", code=0 if added else DataError.code)
    assert (Path("schema.toml").read_text() != SCHEMA) == added
    values = tomllib.loads(Path("schema.toml").read_text())
    names = values["label"]["classes"] if column == "ill" else values["columns"][1]["categories"]
    mapped = f'{codes[0]} = "{names[0]}", {codes[1]} = "{names[1]}"'
    settings = f'{{path = "own.csv", columns.{column}.map = {{{mapped}}}}}'
    text = Path("scenario.toml").read_text().replace('"own.csv"', settings)
    Path("scenario.toml").write_text(text, encoding="utf-8")
    assert typed("check", "schema.toml", "scenario.toml").count("no faults") == 2  # the remedy
