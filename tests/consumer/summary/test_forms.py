"""consumer.summary.forms: three forms of the received rows."""

from __future__ import annotations

import csv
import io
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from consumer.summary import forms as forms_module
from consumer.summary.evaluation import evaluator
from consumer.summary.forms import REPEATS, WEIGHTED, added_names, make_forms, rest, unweighted
from consumer.summary.judging import judge_tables
from consumer.summary.verdict import FormQuality, Yardstick, verdict_on
from fedkme.embeddings.mmd import ReferenceRows, mmd2
from fedkme.embeddings.prune import prune
from fedkme.tables.files import load_table, read_arrays
from fedkme.tables.schema import Category, Label, Numeric, Schema, schema_from
from fedkme.tables.table import Table
from fedkme.tables.text import harmless, text_columns
from fedkme.verdict import GRADES
from sim.api.views import verdict_of

SCHEMA = Schema(
    columns=(Numeric(name="x", bounds=(0.0, 10.0), count=2),), label=Label(name="y", classes=("low", "high"))
)
GAMMA = 20.0
P = 12


def table(seed: int, count: int) -> Table:
    random = np.random.default_rng(seed)
    values = random.uniform(0.0, 10.0, size=(count, 2))
    return Table(values, (values.sum(axis=1) > 10.0).astype(np.int64))


CAME, VALIDATION = table(1, 60), table(2, 25)
ENCODED = ReferenceRows(SCHEMA.encode(VALIDATION.values), GAMMA)
AGAINST = evaluator(SCHEMA, VALIDATION, table(3, 200), None, GAMMA, True)
KEPT = prune(SCHEMA.encode(CAME.values), ENCODED.rows, P, GAMMA)


def keys(of: Table) -> set[bytes]:
    return {row.tobytes() for row in of.values}


def test_every_form_is_of_rows_that_came_and_says_what_it_holds(tmp_path: Path) -> None:
    forms = make_forms(SCHEMA, CAME, CAME.take(KEPT), ENCODED, P)
    for name, content in forms.files(SCHEMA).items():
        (tmp_path / name).write_bytes(content)
    weighted, repeats = read_arrays(tmp_path / WEIGHTED, "test"), load_table(tmp_path / REPEATS, SCHEMA, "t")
    assert weighted["w"].sum() == pytest.approx(1.0)
    assert weighted["w"].min() > 0.0
    assert len(weighted["w"]) == len(weighted["x"]) == len(weighted["y"]) <= P
    assert len(repeats) == P
    assert repeats.labels is not None
    for rows, labels in ((weighted["x"], weighted["y"]), (repeats.values, repeats.labels)):
        assert {row.tobytes() for row in rows} <= keys(CAME)
        assert all((row.sum() > 10.0) == y for row, y in zip(rows, labels, strict=True))
    assert mmd2(
        SCHEMA.encode(weighted["x"]), SCHEMA.encode(VALIDATION.values), GAMMA, weighted["w"]
    ) == pytest.approx(forms.fit.mmd2, abs=1e-9)


def test_rows_beside_the_summary_are_those_that_pruning_left() -> None:
    # Of equal rows only the number counts.
    came = Table(np.array([[1.0, 1.0], [1.0, 1.0], [2.0, 2.0], [1.0, 1.0]]), np.array([0, 0, 1, 1]))
    others = rest(came, came.take(np.array([0, 2])))
    assert others.values.tolist() == [[1.0, 1.0], [1.0, 1.0]]
    assert others.labels is not None
    assert others.labels.tolist() == [0, 1]
    assert not len(rest(came, came))


def test_all_rows_that_came_are_weighed_up_to_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    # Memory is bounded. The p rows come first, so that the weighted form is not worse than these.
    whole = make_forms(SCHEMA, CAME, CAME.take(KEPT), ENCODED, P)
    monkeypatch.setattr(forms_module, "MOST_ROWS", 20)
    part = make_forms(SCHEMA, CAME, CAME.take(KEPT), ENCODED, P)
    assert not keys(whole.weighted) <= keys(CAME.take(KEPT))
    assert whole.least < part.least
    monkeypatch.setattr(forms_module, "MOST_ROWS", P)
    least = make_forms(SCHEMA, CAME, CAME.take(KEPT), ENCODED, P)
    assert keys(least.weighted) <= keys(CAME.take(KEPT))


def test_every_form_is_judged() -> None:
    judged = judge_tables(AGAINST, SCHEMA, VALIDATION, CAME, CAME.take(KEPT), P)
    values = judged.to_json()
    assert values["weighted"]["mmd2"] <= values["mmd2"] + 1e-12
    assert values["repeats"]["mmd2"] <= 1.05 * values["mmd2"]
    assert values["weighted"]["least"] <= values["weighted"]["mmd2"]
    for form in (values, values["weighted"], values["repeats"]):
        assert form["mmd2_test"] is not None
        assert 1.0 <= form["effective"] <= P + 1e-9
    for form in (values, values["weighted"], values["repeats"]):
        assert set(form["downstream"]) == {"linear_svm", "mlp_32"}
    counts = Counter(row.tobytes() for row in judged.forms.repeats.values)
    assert values["repeats"]["rows"] == len(counts)
    assert values["repeats"]["effective"] == pytest.approx(P**2 / sum(count**2 for count in counts.values()))
    assert values["verdict"]["grade"] in GRADES


def test_models_are_trained_with_weights() -> None:
    # A row with a weight of almost 0 does not change the fit.
    rows = table(4, 30)
    judged = judge_tables(AGAINST, SCHEMA, VALIDATION, rows, rows, 30)
    assert judged.weighted.downstream["linear_svm"] > 0.6


def test_summary_csv_has_names_and_weights_of_every_row_with_a_weight() -> None:
    forms = make_forms(SCHEMA, CAME, CAME.take(KEPT), ENCODED, P)
    (head, *lines) = list(csv.reader(forms.listed.csv(SCHEMA).decode().splitlines()))
    assert head[-2:] == ["weight", "alike"]
    assert sum(float(line[-2]) for line in lines) == pytest.approx(1, abs=1e-4)
    assert sum(line[-1] == "1" for line in lines) == len(forms.summary)
    assert sum(float(line[-2]) > 0 for line in lines) == len(forms.weighted)
    own = zip(*text_columns(forms.summary, SCHEMA).values(), strict=True)
    assert [line[:-2] for line in lines if line[-1] == "1"] == [list(row) for row in own]


@pytest.mark.parametrize("sign", "=+-@")
def test_no_name_is_a_formula_of_a_spreadsheet(sign: str) -> None:
    odd = Category(name=f"{sign}name", categories=(f"{sign}1+1", "-2", "plain"))
    table = unweighted(Table(np.array([[0.0], [1.0], [2.0]]))).csv(Schema(columns=(odd,)))
    head, *lines = list(csv.reader(io.StringIO(table.decode(), newline="")))
    assert [cell for cell, *_ in lines] == [f"'{sign}1+1", "-2", "plain"]
    assert head == [f"'{sign}name", "weight", "alike"]
    assert lines[0][1] == "0.333333"


def test_the_advice_names_the_added_columns_as_the_file_does() -> None:
    # It said "sample_weight = weight" of a file whose column `weight` is the patients' own.
    names = [{"kind": "numeric", "name": name, "bounds": [0, 9]} for name in ("weight", "weight_", "alike")]
    own = schema_from({"columns": names})
    equal = FormQuality(0.0001)
    judged = verdict_on({"alike": equal, "weighted": equal}, Yardstick(0.5, 100, 100), None, added_names(own))
    written = judged.advice
    assert "sample_weight = weight__; the rows with alike_ = 1 do" in written
    header = unweighted(Table(np.ones((2, 3)))).csv(own).splitlines()[0]
    assert header == b"weight,weight_,alike,weight__,alike_"
    verdict = verdict_of({"verdict": {"grade": "good", "sentence": "", "advice": written}})
    assert verdict is not None
    assert verdict.advice.startswith("Train on .weighted, sample_weight = .weights; .rows do as well")


def test_a_column_that_is_called_weight_keeps_its_name() -> None:
    own = Schema(columns=(Numeric(name="weight", bounds=(0.0, 9.0)),))
    assert unweighted(Table(np.ones((2, 1)))).csv(own).splitlines()[0] == b"weight,weight_,alike"


@pytest.mark.parametrize(
    ("cell", "safe"),
    [
        *(("\t1", "\t1"), ("\t=1", "'\t=1"), ("\r=1", "'\r=1"), ("-3.5", "-3.5"), ("", "")),
        *(("+", "+"), ("--", "--"), ("-A1", "'-A1"), ("=()", "'=()")),
    ],
)
def test_numbers_are_no_formulas_and_blanks_hide_none(cell: str, safe: str) -> None:
    # Classes + and - were '+ and '- in summary.csv, which a model knows from no other file.
    assert harmless(cell) == safe
