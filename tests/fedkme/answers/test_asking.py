"""`fedkme ask` and `rel.ask`: questions to the folder of a release, from a terminal and from a program."""

from __future__ import annotations

import asyncio
import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from audit.in_memory import OwnersInMemory
from curator.releases.method import make_method
from fedkme.answers.folder import AskedFolder
from fedkme.answers.made_rows import drawn_to
from fedkme.errors import DataError
from fedkme.releases.settings import release_settings
from fedkme.tables.npz import npz_bytes
from fedkme.tables.schema import schema_from
from fedkme.tables.table import Table
from operate.cli import main
from sim.api.releases import ReleaseResult
from tests.fedkme.answers.people import people, released

COLUMNS = [
    *("question", "group", "estimate", "low", "high", "noise", "sampling", "unseen", "target", "method"),
    "unit",
]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A consumer's folder with a release and its synthetic rows."""
    (tmp_path / "release.npz").write_bytes(released(kind="marginals", mechanism="independent"))
    table = people(300, 5)
    assert table.labels is not None
    (tmp_path / "synthetic.npz").write_bytes(npz_bytes({"x": table.values, "y": table.labels}))
    return tmp_path


def run_ask(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, *words: Any
) -> tuple[int, str]:
    monkeypatch.setattr("sys.argv", ["fedkme", "ask", *map(str, words)])
    with pytest.raises(SystemExit) as end:
        main()
    out = capsys.readouterr()
    return int(end.value.code or 0), out.out + out.err


def test_answers_are_printed_as_a_table_or_as_json(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    questions = "count(sex = 'female'); share(ill = 'yes' and sex = 'male')"
    code, text = run_ask(capsys, monkeypatch, folder, questions)
    assert code == 0
    assert "95 % interval" in text
    assert "not counted together; the estimate is that of the synthetic rows" in text
    code, text = run_ask(capsys, monkeypatch, folder, questions, "--json", "--target", "population")
    counted, share = json.loads(text)
    assert list(counted) == COLUMNS
    assert counted["low"] < counted["estimate"] < counted["high"]
    assert (share["low"], share["target"]) == (None, "population")


def test_a_question_about_an_unknown_column_ends_with_the_error_code_and_the_columns(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    code, text = run_ask(capsys, monkeypatch, folder, "mean(pressure)")
    assert code == 15
    assert text.startswith(
        "error 15 (question): at character 6: there is no column 'pressure'. Columns: age,"
    )


def test_a_wrong_question_does_not_stop_the_other_answers(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    questions = "count(); mean(vists); share(sex = 'a;b'); share(sex = 'female') by"
    monkeypatch.setattr("sys.argv", ["fedkme", "ask", str(folder), questions, "mean(visits)", "--json"])
    with pytest.raises(SystemExit) as end:
        main()
    out, err = capsys.readouterr()
    assert end.value.code == 15
    assert [answer["question"] for answer in json.loads(out)] == ["count()", "mean(visits)"]
    misspelt, no_category, no_column = err.splitlines()
    assert misspelt.startswith("error 15 (question): mean(vists): at character 6: there is no column 'vists'")
    assert "share(sex = 'a;b'): at character 13" in no_category
    assert "share(sex = 'female') by: at character 25" in no_column


def test_a_program_gets_a_data_frame(folder: Path) -> None:
    rel = ReleaseResult(folder, {"method": "marginals", "rows": 300})
    frame = rel.ask(["mean(visits)", "share(sex = 'female'); count()"])
    assert isinstance(frame, pd.DataFrame)
    assert list(frame.columns) == COLUMNS
    assert frame.estimate.iloc[2] == 20_000
    assert np.isclose(frame.estimate.iloc[1], 0.6, atol=0.02)
    assert (rel.ask("count(ill = 'yes')", target="population").target == "population").all()


def test_a_folder_without_a_release_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="Give the folder of a release"):
        AskedFolder(tmp_path).ask("count()")
    (tmp_path / "release.npz").write_bytes(npz_bytes({"x": np.zeros(3)}))
    with pytest.raises(DataError, match="is no release"):
        AskedFolder(tmp_path).ask("count()")


def test_dates_are_printed_as_dates_and_as_days_in_json(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    domain = schema_from(
        {"columns": [{"name": "seen", "kind": "date", "bounds": ["2020-01-01", "2020-12-31"]}]}
    )
    march, october = 18332.0, 18546.0  # 2020-03-11 and 2020-10-11, with the middle on 2020-06-26
    table = Table(np.repeat(np.arange(march, october + 1), 20)[:, None])
    settings = release_settings({"kind": "marginals", "mechanism": "independent"})
    method = make_method(settings, domain, None, 1)
    (tmp_path / "release.npz").write_bytes(asyncio.run(method.ask(OwnersInMemory(table, domain))))
    questions = "median(seen); mean(seen); var(seen)"
    text = run_ask(capsys, monkeypatch, tmp_path, questions)[1]
    day = r"2020-0[67]-\d\d"
    for call in ("median", "mean"):
        assert re.search(rf"{call}\(seen\) +{day} +{day} to {day} +[\d.]+ days ", text)
    *dated, variance = json.loads(run_ask(capsys, monkeypatch, tmp_path, questions, "--json")[1])
    assert [each["unit"] for each in dated] == ["date", "date"]
    assert all(abs(each["estimate"] - (march + october) / 2) < 10 for each in dated)
    assert variance["unit"] == "number"


def test_what_the_release_does_not_tell_the_rows_say(tmp_path: Path) -> None:
    # Issue 39: "`ask` says mean age 0.0 where the synthetic rows in the same folder say 53".
    (tmp_path / "release.npz").write_bytes(released(kind="marginals", mechanism="independent", epsilon=0.001))
    table = people(300, 5)
    assert table.labels is not None
    bare, _ = AskedFolder(tmp_path).ask("mean(age)")
    (tmp_path / "synthetic.npz").write_bytes(npz_bytes({"x": table.values, "y": table.labels}))
    drawn, _ = AskedFolder(tmp_path).ask("mean(age)")
    told, made = bare[0], float(table.values[:, 0].mean())
    assert drawn[0].estimate == pytest.approx(made, abs=0.5)
    assert abs(told.estimate - made) > 1.0
    assert (drawn[0].low, drawn[0].high, drawn[0].noise) == (told.low, told.high, told.noise)
    assert "synthetic rows" in drawn[0].method


def test_an_estimate_is_drawn_to_the_rows_by_no_more_than_its_noise() -> None:
    # 4,000 draws: the error of each root mean square is 1.1 %.
    noise = np.random.default_rng(0).normal(size=4_000)
    for off, least, most in ((0.0, 0.0, 0.25), (2.0, 1.3, 2.0), (20.0, 0.95, 1.05)):
        errors = [drawn_to(off, estimate, 1.0) for estimate in noise]
        assert least <= float(np.sqrt(np.mean(np.square(errors)))) <= most
    assert drawn_to(5.0, 7.0, 0.0) == 7.0
    assert drawn_to(5.0, 5.0, 1.0) == 5.0


def test_rows_that_cannot_be_read_cost_no_answer_of_the_release(folder: Path) -> None:
    (folder / "synthetic.npz").write_bytes(b"torn")
    answers, failures = AskedFolder(folder).ask("mean(age)")
    assert not failures
    assert answers[0].low <= answers[0].estimate <= answers[0].high
