"""`fedkme new form`: a simulation of own files that is filled in on a page."""

from __future__ import annotations

import shutil
import subprocess
import sys
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from fedkme.tables.schema import load_schema
from fedkme.watch.access import PageAddress
from fedkme.watch.server import shown
from operate.scaffolding.form import RunRequest, SimulationForm, carry_out
from sim.engines.processes import ANY_PORT
from tests.places import ROOT

CLINICS = ("north.csv", "south.csv", "west.csv")
CHOSEN = {"owner": CLINICS, "sample": ["validation.csv"], "label": ["ill"], "rows": ["30"], "epsilon": ["1"]}


@pytest.fixture
def form(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> SimulationForm:
    monkeypatch.chdir(tmp_path)
    for name in (*CLINICS, "validation.csv"):
        shutil.copy(ROOT / "examples" / "own-files" / name, tmp_path)
    return SimulationForm(tmp_path)


@pytest.fixture
def address(form: SimulationForm) -> Iterator[str]:
    with shown(PageAddress(ANY_PORT), form.watch.state, form.watch.report, form) as place:
        yield place.rstrip("/")


def sent(address: str, fields: dict[str, str] | None = None, **headers: str) -> tuple[int, str]:
    body = None if fields is None else urllib.parse.urlencode(fields).encode()
    asked = urllib.request.Request(address, body, headers)
    try:
        with urllib.request.urlopen(asked) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


@pytest.mark.parametrize("kind", ["release", "summary"])
def test_files_are_chosen_columns_looked_at_and_the_simulation_runs(form: SimulationForm, kind: str) -> None:
    first = form.answer({})
    assert all(f'value="{name}"' in first for name in CLINICS)
    chosen = {**CHOSEN, "kind": [kind]}
    second = form.answer(chosen)
    assert "FROM DATA" in second
    assert "north.csv: 200 rows, no faults" in second
    assert "Every file fits" in second
    (made,) = form.folder.glob("study-*")
    text = (
        (made / "schema.toml").read_text(encoding="utf-8").replace("bounds = [0, 100]", "bounds = [0, 120]")
    )
    assert form.answer({**chosen, "made": [made.name], "schema": [text.replace("\n", "\r\n")]}) == ""
    assert "[0, 120]" in (made / "schema.toml").read_text(encoding="utf-8")
    asked = form.requests.get_nowait()
    assert "noise=secure" in asked.assignments
    small = ("engine=inprocess", *(["downstream=false"] if kind == "summary" else []))
    assert carry_out(replace(asked, assignments=(*asked.assignments, *small))) == 0
    assert f"{made.name}" in form.watch.report()
    assert form.watch is asked.watch


def test_what_does_not_fit_is_said_and_nothing_runs(form: SimulationForm) -> None:
    second = form.answer({**CHOSEN, "kind": ["release"]})
    (made,) = form.folder.glob("study-*")
    text = (made / "schema.toml").read_text(encoding="utf-8")
    for wrong, words in (
        (text.replace('categories = ["no", "unknown", "yes"]', 'categories = ["no", "unknown"]'), "smoker"),
        ("[[columns]\n", "not TOML"),
    ):
        assert wrong != text
        answer = form.answer({**CHOSEN, "made": [made.name], "schema": [wrong]})
        assert words in answer
        assert "Not every file fits" in answer
        assert "textarea" in answer
    assert "textarea" in second
    assert form.requests.empty()


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"owner": ["../secret.csv"], "sample": ["validation.csv"]}, "no file"),
        ({"owner": ["/etc/passwd"], "sample": ["validation.csv"]}, "no file"),
        ({"owner": ["north.csv"]}, "no sample"),
        ({"schema": ["x"], "made": [".."]}, "not of this start"),
        ({**CHOSEN, "label": ["<b>none</b>"]}, "&lt;b&gt;none&lt;/b&gt;"),
    ],
)
def test_a_wrong_choice_is_said(form: SimulationForm, fields: dict[str, list[str]], words: str) -> None:
    (form.folder.parent / "secret.csv").write_text("a\n1\n", encoding="utf-8")
    answer = form.answer(fields)
    assert words in answer
    assert "<b>" not in answer
    assert not list(form.folder.glob("study-*"))
    assert form.requests.empty()


def test_nobody_else_submits_the_form(form: SimulationForm, address: str) -> None:
    # A web page in the user's browser may send a form here, and read a page under a name of its own.
    own = address.removesuffix("/")
    assert sent(f"{own}{form.place}")[0] == 200
    assert sent(f"{own}{form.place}", Host="evil.example")[0] == 403
    assert sent(f"{own}/form")[0] == 404
    assert sent(own, {"owner": "north.csv"})[0] == 405
    fields = {"owner": "north.csv", "sample": "validation.csv"}
    for origin in ({}, {"Origin": "https://evil.example"}, {"Origin": "null"}):
        assert sent(f"{own}{form.place}", fields, **origin)[0] == 403
    assert sent(f"{own}{form.place}", {"owner": "x" * (1 << 20)}, Origin=own)[0] == 403
    assert not list(form.folder.glob("study-*"))
    status, page = sent(f"{own}{form.place}", fields, Origin=own)
    assert (status, "textarea" in page) == (200, True)


def test_the_verb_says_where_the_form_is(form: SimulationForm) -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "fedkme", "new", "form"], cwd=form.folder, stderr=subprocess.PIPE, text=True
    )
    try:
        assert process.stderr is not None
        said = process.stderr.readline()
        assert "/form-" in said
        assert "north.csv" in sent(said.split(" at ")[1].strip())[1]
    finally:
        process.terminate()
        process.wait()


def test_a_failure_is_shown(form: SimulationForm) -> None:
    gone = RunRequest(form.watch, form.folder / "none.toml", True, ())
    assert carry_out(gone) == 10
    assert "none.toml" in form.watch.state().note


def test_columns_are_nullable_where_a_file_has_empty_cells(form: SimulationForm) -> None:
    # Made rows had no age and no word on smoking, of owners that each know both of every row.
    def nullable() -> list[str]:
        form.answer({**CHOSEN, "kind": ["release"]})
        schema = load_schema(max(form.folder.glob("study-*")) / "schema.toml")
        return [column.name for column in schema.columns if getattr(column, "nullable", False)]

    assert nullable() == ["pressure"]
    north = form.folder / "north.csv"
    north.write_text(north.read_text(encoding="utf-8").replace("35,", ",", 1), encoding="utf-8")
    assert nullable() == ["age", "pressure"]
