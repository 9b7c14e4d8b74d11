"""Issue 35, item B.7: drafted schemas that are read and edited, and checks of frames, in a notebook."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow
import pytest

import fedkme as fk
from sim.api.drafts import ColumnDraft
from sim.api.frames import owners_of, table_of
from tests.sim.api.frames import SCHEMA, people
from tests.sim.api.test_names import OF_OBJECTS


def public() -> pd.DataFrame:
    frame = people(60, 3).fillna({"pressure": 120.0, "smoker": "no"})
    return frame.assign(id=[f"p{row}" for row in range(60)], seen=pd.Timestamp("2021-05-01"))


@pytest.fixture
def draft() -> fk.SchemaDraft:
    with pytest.warns(fk.FedkmeWarning, match="ignores: "):
        return fk.draft_schema(public(), "ill")


def test_a_draft_is_a_table_that_can_be_read(draft: fk.SchemaDraft) -> None:
    assert list(draft) == ["age", "pressure", "smoker", "ill"]
    assert len(draft) == 4
    assert "age" in draft
    assert "id" not in draft
    lines = str(draft).splitlines()
    assert re.match(r"age +numeric +\d+ to \d+", lines[0])
    assert "FROM DATA" in lines[0]
    assert re.match(r"ill +label +no, yes", lines[3])
    assert any(line.startswith("not used: id (differs in every row") for line in lines)
    assert repr(draft["smoker"]).startswith("smoker: category: no, yes")
    draft["smoker"].categories = ["<b>no</b>", "yes"]
    page = draft._repr_html_()
    assert "&lt;b&gt;no&lt;/b&gt;, yes" in page
    HTMLParser().feed(page)
    assert draft["age"].kind == "numeric"
    assert draft["age"].nullable is False
    assert "bounds" in dir(draft["age"])
    assert draft.columns == draft.schema().columns


def test_keys_are_set_and_the_text_follows(draft: fk.SchemaDraft, tmp_path: Path) -> None:
    draft["age"].bounds = (np.int64(0), np.int64(120))
    draft["age"].nullable = True
    draft["smoker"].categories = pd.Series(["no", "yes", "once"])
    assert draft.schema().names == ("age", "age_missing", "pressure", "smoker")
    assert "bounds = [0, 120]\n" in draft.to_toml()  # its FROM DATA went: a person wrote it
    assert "FROM DATA" in draft.to_toml()
    (tmp_path / "schema.toml").write_text(draft.to_toml(), encoding="utf-8")
    assert draft == fk.SchemaDraft((tmp_path / "schema.toml").read_text(encoding="utf-8"))
    assert draft == draft.schema()
    assert fk.SchemaDraft.of(draft.schema()) == draft
    draft["age"].nullable = None
    assert "age_missing" not in draft.names
    assert draft != draft.of(SCHEMA)


def test_columns_are_taken_out_and_put_in_and_the_label_is_chosen(draft: fk.SchemaDraft) -> None:
    ignored = draft.ignore
    del draft["pressure"]
    assert draft.ignore == (*ignored, "pressure")
    draft["pressure"] = {"bounds": [70, 220], "missing": 120}
    assert draft.ignore == ignored
    assert draft.names == ("age", "smoker", "pressure")
    draft.label = "smoker"
    assert isinstance(draft.label, ColumnDraft)
    assert draft.schema().classes == ("no", "yes")
    assert draft["ill"].categories == ["no", "yes"]
    draft["smoker"].drop_unlabelled = True
    draft.label = "age"
    assert draft.schema().classes == ("low", "high")
    draft.label = None
    assert draft.schema().label is None
    assert draft.ignore == (*ignored, "age")  # a number that was cut in two


@pytest.mark.parametrize(
    ("edit", "message"),
    [
        (lambda s: setattr(s["age"], "nulable", True), "'nulable' is not a key. Did you mean 'nullable'?"),
        (lambda s: setattr(s["smoker"], "bounds", [0, 1]), "column 'smoker': 'bounds' is not a key"),
        (lambda s: s["agee"], "no column 'agee'. Did you mean 'age'?"),
        (lambda s: s["id"], "no column 'id'. It is not used: put it in"),
        (lambda s: fk.check(s, 3), "rows"),
        (lambda s: fk.check(None, {}), "there is no schema"),  # type: ignore[arg-type]
    ],
)
def test_one_error_names_the_column(draft: fk.SchemaDraft, edit: Any, message: str) -> None:
    with pytest.raises(fk.FedkmeError, match=re.escape(message)):
        edit(draft)


@pytest.mark.parametrize(
    ("bounds", "message"), [([5, 1], "the bounds of column 'age'"), ("wide", "'columns.age.bounds' is wrong")]
)
def test_a_wrong_value_is_found_when_the_draft_is_used(
    draft: fk.SchemaDraft, bounds: object, message: str
) -> None:
    draft["age"].bounds = bounds
    with pytest.raises(fk.FedkmeError, match=re.escape(message)):
        draft.schema()


def test_all_faults_of_all_frames_are_found_with_the_edit_that_mends_them(draft: fk.SchemaDraft) -> None:
    north, south = people(60, 1), people(60, 2).rename(columns={"pressure": "Pressure"})
    south["smoker"] = ["ja" if n % 3 else "nein" for n in range(60)]
    checked = fk.check(draft, {"north": north, "south": south})
    assert {fault.file for fault in checked.faults} == {"north", "south"}
    assert {fault.column for fault in checked.faults} == {"pressure", "smoker", ""}
    assert not checked.left
    assert "schema['pressure'].nullable = True" in checked.edit
    assert "column 'pressure'" in repr(checked)
    assert "<td>pressure</td>" in checked._repr_html_()
    names: dict[str, Any] = {"schema": draft, "south": south}
    exec(checked.edit, names)
    schema, south = names["schema"], names["south"]
    again = fk.check(schema, {"north": north, "south": south})
    assert (again.faults, again.edit) == ((), "")
    assert schema == checked.schema


def test_decimal_commas_of_one_column_are_mended(draft: fk.SchemaDraft, tmp_path: Path) -> None:
    # pandas leaves "148,9" as text where a column has words for nothing too; two systems fill one file.
    frame = public()
    frame["pressure"] = frame["pressure"] + 0.25
    mixed = frame.assign(pressure=frame["pressure"].map(str).str.replace(".", ","), age=frame["age"] + 0.5)
    mixed.loc[0, "pressure"] = "n/a"
    checked = fk.check(draft, {"north": mixed})
    assert not checked.left
    mixed.to_csv(tmp_path / "mixed.csv", index=False)
    checked = fk.check(draft, {"north": {"path": str(tmp_path / "mixed.csv")}})
    assert not checked.left
    settings = checked.owners["north"]
    assert isinstance(settings, dict)
    assert settings["columns"]["pressure"]["decimal"] == ","
    assert not fk.check(checked.schema, checked.owners).faults


@pytest.mark.parametrize("seed", range(12))
def test_the_edit_of_a_frame_reads_all_of_it(draft: fk.SchemaDraft, seed: int) -> None:
    # The edit was lines of pandas: 0, 1, True and "1,234" stayed what they were, and pyarrow has other verbs.
    random = np.random.default_rng(seed)
    frame = public().drop(columns=["id", "seen"])
    frame["pressure"] = 1000 * frame["pressure"].round()
    draft["pressure"].bounds = [50_000, 300_000]
    written: dict[str, Sequence[Callable[[Any], Any]]] = {
        "ill": [str.upper, lambda v: v == "yes", lambda v: int(v == "yes"), lambda v: float(v == "yes")],
        "smoker": [{"yes": "ja", "no": "nein"}.get, lambda v: v == "yes", str.title],
        "pressure": ["{:,.1f}".format, "{} mg".format, lambda v: f"{v:.1f}".replace(".", ","), float],
        "age": ["{} years".format, str, float],
    }
    for name, ways in written.items():
        way = ways[int(random.integers(len(ways)))]
        frame[name] = [way(cell) for cell in frame[name]]
        if random.random() < 0.3:
            frame = frame.rename(columns={name: random.choice([name.upper(), f" {name}", f"{name}_"])})
    if random.random() < 0.3:
        frame["site"] = "here"
    north = pyarrow.Table.from_pandas(frame) if seed % 2 else frame
    checked = fk.check(draft, {"north": north})
    assert not checked.left
    if checked.faults:
        with pytest.raises(fk.FedkmeError, match=re.escape("fk.check(schema, rows) finds every fault")):
            table_of(north, draft.schema(), "north")
    assert not fk.check(checked.schema, checked.owners).faults
    names: dict[str, Any] = {"schema": draft, "north": north}
    exec(checked.edit, names)
    assert not fk.check(names["schema"], {"north": names["north"]}).faults


def test_an_index_with_a_name_is_a_column_where_the_schema_has_it(draft: fk.SchemaDraft) -> None:
    # `frame.set_index("age")` lost the column in a draft without a word; a run said that there is none.
    indexed = public().drop(columns=["id", "seen"]).set_index(["age", "ill"])
    assert list(fk.draft_schema(indexed, "ill")) == ["age", "pressure", "smoker", "ill"]
    assert not fk.check(draft, {"north": indexed}).faults
    assert not fk.check(draft, {"north": indexed.reset_index().rename_axis("row")}).faults
    table = table_of(indexed, draft.schema(), "north")
    assert table.values[:, 0].tolist() == public()["age"].tolist()
    (north, *_) = owners_of(public().set_index("smoker"), "smoker", draft.schema()).items()
    assert north[0] == "no"


def test_the_edit_of_a_frame_with_settings_adds_to_them(draft: fk.SchemaDraft) -> None:
    # The edit's line put the frame and its settings into a frame once more, which nothing reads.
    frame = public().drop(columns=["id", "seen"]).rename(columns={"age": "Alter"})
    frame["smoker"] = frame["smoker"].str.upper()
    names: dict[str, Any] = {"north": {"frame": frame, "columns": {"age": {"from": "Alter"}}}}
    checked = fk.check(draft, {"north": names["north"]})
    assert checked.faults
    exec(checked.edit, names)
    assert not fk.check(draft, {"north": names["north"]}).faults


def test_the_edit_is_python_whatever_the_rows_are_called(draft: fk.SchemaDraft, tmp_path: Path) -> None:
    # "rows 1 = {'frame': rows 1, ..."
    frame = public().drop(columns=["id", "seen"]).rename(columns={"pressure": "Pressure"})
    frame.to_csv(tmp_path / "north.csv", index=False)
    checked = fk.check(draft, [frame, tmp_path / "north.csv"])
    names: dict[str, Any] = {"rows": frame}
    for line in checked.edit.splitlines():
        exec(line, names)
        assert not fk.check(draft, names["rows"]).faults
    assert "  # rows 1" in checked.edit


def test_text_in_place_of_a_path_is_refused_with_one_line(draft: fk.SchemaDraft) -> None:
    # "OSError: [Errno 36] File name too long"; of a shorter text, the error had the rows.
    for rows in (public(), public()[:2]):
        with pytest.raises(fk.FedkmeError, match="north: text of several lines is no path") as error:
            table_of(rows.to_csv(index=False), draft.schema(), "north")
        assert "yes" not in str(error.value)
    with pytest.raises(fk.FedkmeError, match="File name too long"):
        table_of("x" * 300 + ".csv", draft.schema(), "north")


@pytest.mark.parametrize("key", ["path", "sep", "skip", "skip_end", "encoding"])
def test_settings_that_only_files_have_are_refused_beside_a_frame(draft: fk.SchemaDraft, key: str) -> None:
    # `skip_end` was ignored: the totals at the end were rows.
    rows = {"frame": public(), key: 3 if "skip" in key else "x"}
    with pytest.raises(fk.FedkmeError, match=f"'{key}' is a setting of files"):
        table_of(rows, draft.schema(), "north")


def test_a_frame_may_be_called_path() -> None:
    schema = fk.draft_schema({"age": [20, 31, 47], "sex": ["f", "m", "f"]})
    found = fk.check(schema, {"path": {"age": [25], "sex": ["x"]}})
    assert [(fault.file, fault.column) for fault in found.faults] == [("path", "sex")]


def test_none_is_no_file(draft: fk.SchemaDraft) -> None:
    # "north: . is neither a .csv, .tsv, .txt, .parquet nor .npz file"
    for call in (lambda: table_of(None, draft.schema(), "north"), lambda: fk.check(draft, {"north": None})):
        with pytest.raises(
            fk.FedkmeError, match="north: the rows are neither a data frame nor columns by name"
        ):
            call()


def test_what_the_edit_does_not_mend_is_said(draft: fk.SchemaDraft) -> None:
    # The list of edits ended as if all were mended.
    frame = public()
    frame["pressure"] = frame["pressure"].map(lambda number: f"{number:.0f}/80")
    frame["smoker"] = frame["smoker"].str.upper()
    checked = fk.check(draft, {"north": frame})
    assert [fault.column for fault in checked.left] == ["pressure"]
    said = "read so, these are left:"
    assert said in repr(checked)
    assert said in checked._repr_html_()


def test_the_edit_of_files_written_their_own_way_goes_straight_into_a_run(
    draft: fk.SchemaDraft, tmp_path: Path
) -> None:
    # Found in a notebook: the edit of a file was TOML, and no value of the check went into `fk.release`.
    people(60, 1).to_csv(tmp_path / "north.csv", index=False)
    south = people(60, 2).rename(columns={"pressure": "Pressure"})
    south.to_csv(tmp_path / "south.csv", sep=";", decimal=",", index=False)
    files = {name: tmp_path / f"{name}.csv" for name in ("north", "south")}
    checked = fk.check(draft, files)
    assert not checked.left
    assert {fault.file for fault in fk.check(checked.schema, files).faults} == {str(files["south"])}
    assert fk.check(checked.schema, checked.owners).faults == ()
    release = fk.release(checked.owners, schema=checked.schema, progress=False, out=tmp_path / "run")
    assert len(release.rows) == 120
    names: dict[str, Any] = {"schema": draft}
    exec(checked.edit, names)
    assert names["south"] == checked.owners["south"]
    assert checked.owners["north"] == files["north"]


def test_columns_that_are_guessed_are_left_to_the_caller(draft: fk.SchemaDraft, tmp_path: Path) -> None:
    people(60, 1).rename(columns={"age": "Alter"}).to_csv(tmp_path / "north.csv", index=False)
    checked = fk.check(draft, {"north": tmp_path / "north.csv"})
    assert "# confirm: 'Alter' as age" in checked.edit
    assert checked.owners == {"north": tmp_path / "north.csv"}


def test_frames_and_files_have_the_same_findings(draft: fk.SchemaDraft, tmp_path: Path) -> None:
    north = people(60, 1)
    north.to_csv(tmp_path / "north.csv", index=False)
    (tmp_path / "schema.toml").write_text(draft.to_toml(), encoding="utf-8")
    frame = fk.check(draft, north)
    file = fk.check(tmp_path / "schema.toml", tmp_path / "north.csv")
    listed = fk.check(draft.schema(), [str(tmp_path / "north.csv"), north])

    def kinds(faults: Any) -> list[tuple[str, str, int]]:
        return [(fault.column, fault.what, len(fault.lines)) for fault in faults]

    assert kinds(frame.faults) == kinds(file.faults)
    assert kinds(listed.faults) == 2 * kinds(frame.faults)
    assert frame.edit == file.edit == listed.edit
    assert file.schema == frame.schema
    assert all(not fault.values for fault in frame.faults)
    assert any(
        fault.values for fault in fk.check(draft, north.assign(smoker="Smith"), show_values=True).faults
    )


def test_a_draft_is_a_schema_for_every_verb(draft: fk.SchemaDraft, tmp_path: Path) -> None:
    owners = {name: public().drop(columns=["id", "seen"]) for name in ("north", "south")}
    given: dict[str, Any] = {"epsilon": 1.0, "progress": False, "method": "moments", "out": tmp_path / "run"}
    release = fk.release(owners, schema=draft, **given)
    assert release.schema == draft.schema()
    assert "Held against" not in release.report  # nobody looked at the owners' rows
    assert len(fk.select(public(), 5, schema=draft).rows) == 5


def test_the_public_names_of_drafts_and_checks_are_those_of_the_stub() -> None:
    assert {fk.SchemaDraft, fk.SchemaCheck} <= set(OF_OBJECTS)


@pytest.mark.parametrize("several", [False, True])
@pytest.mark.parametrize(
    "carrier", [lambda frame: frame.to_dict("list"), lambda frame: frame.to_dict("records")]
)
def test_rows_without_a_frame_are_the_rows_of_one_table(carrier: Any, several: bool) -> None:
    # Found by the docstring of fk.check: columns by name were taken for owners' tables by name.
    frame = pd.DataFrame({"age": [20, 31, 47], "sex": ["f", "m", "x"]})
    schema = fk.draft_schema(frame.head(2))
    rows = carrier(frame)
    faults = fk.check(schema, {"north": rows} if several else rows).faults
    assert [(fault.file, fault.column) for fault in faults] == [("north" if several else "rows", "sex")]
    with_list = fk.check(schema, [rows, rows]).faults
    assert [fault.file for fault in with_list] == ["rows 1", "rows 2"]


def test_columns_of_a_frame_may_have_numbers_for_names(tmp_path: Path) -> None:
    # "there is no column '2'. The columns are 0, 1, 2", and a TypeError for draft[3].
    frame: Any = pd.DataFrame({0: np.arange(60) / 7, 1: ["p", "q"] * 30, 2: ["a", "a", "b"] * 20})
    label: Any = 1
    draft: Any = fk.draft_schema(frame, label)
    draft[0].bounds = [0, 9]
    draft[2] = {"kind": "category", "categories": ["a", "b"]}
    assert draft.schema().classes == ("p", "q")
    assert 2 in draft
    del draft[2]
    given: dict[str, Any] = {"epsilon": 1.0, "progress": False, "out": tmp_path / "run", "site_column": 2}
    assert [*fk.release(frame, schema=draft, **given).rows.columns] == ["0", "1"]


def test_a_sample_that_is_the_text_of_a_file_is_refused_without_its_rows() -> None:
    # The error had all rows.
    with pytest.raises(fk.FedkmeError, match="text of several lines is no path") as error:
        fk.draft_schema(public().to_csv(index=False))
    assert "yes" not in str(error.value)


def test_a_check_refuses_rules_that_a_release_refuses() -> None:
    # No faults were found, and `fk.release` then refused the schema.
    rows = {"age": [20, 31, 47], "sex": ["f", "m", "f"]}
    columns = [
        {"name": "age", "kind": "numeric", "bounds": [0, 99]},
        {"name": "sex", "kind": "category", "categories": ["f", "m"]},
    ]
    for rule in ("age < 15 and sex", "sex = 'x'", "age < 500"):
        with pytest.raises(fk.FedkmeError, match="rule"):
            fk.check({"columns": columns, "never": [rule]}, {"north": rows})


def test_what_has_no_columns_is_said_to_have_none() -> None:
    # "the rows are neither a data frame nor columns by name", of a data frame
    with pytest.raises(fk.FedkmeError, match="the rows have no columns"):
        fk.draft_schema(pd.DataFrame())
    with pytest.raises(fk.FedkmeError, match="'dead' has one value and cannot be the label"):
        fk.draft_schema({"age": [20, 31, 47], "dead": [0, 0, 0]}, "dead")


def test_whole_numbers_with_a_decimal_comma_are_matched_to_names() -> None:
    # The check found no edit; a draft of them said "signs between thousands".
    schema = fk.draft_schema({"code": ["0", "1", "2"] * 20, "sex": ["f", "m", "f"] * 20})
    frame = {"code": ["0,0", "1,0", "2,0"] * 20, "sex": ["f", "m", "f"] * 20}
    checked = fk.check(schema, {"north": frame})
    assert checked.owners["north"]["columns"]["code"]["map"] == {"0,0": "0", "1,0": "1", "2,0": "2"}
    assert not fk.check(checked.schema, checked.owners).faults
    with pytest.warns(fk.FedkmeWarning, match="decimal commas, or signs between thousands"):
        fk.draft_schema(frame)
