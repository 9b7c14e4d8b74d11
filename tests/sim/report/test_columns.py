"""Reports compare rows with real ones by column, by pair, by value, and name what was lost."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest

from consumer.results import EVALUATION, SUMMARY
from consumer.summary.forms import REPEATS, WEIGHTED
from fedkme.tables.files import save_table
from fedkme.tables.npz import npz_bytes
from fedkme.tables.schema import Schema, schema_from
from fedkme.tables.table import Table, joined
from sim.api import verbs
from sim.evaluation.releases import compare_columns, compare_with_validation
from sim.report import columns
from tests.places import ROOT


@pytest.fixture(scope="module")
def schema() -> Schema:
    numbers = [{"kind": "numeric", "name": name, "bounds": [-9, 9]} for name in ("a", "b", "c")]
    return schema_from({"columns": numbers, "label": {"name": "y", "classes": ["no", "yes"]}})


def rows(size: int, seed: int, *, shift: float = 0.0, together: float = 0.9) -> Table:
    random = np.random.default_rng(seed)
    a, noise, c = random.normal(size=(3, size))
    b = together * a + np.sqrt(1 - together**2) * noise
    labels = (random.normal(size=size) > 0).astype(np.int64)
    return Table(np.stack([a, b, c + shift], 1), labels)


def test_what_is_lost_is_named_and_nothing_else(schema: Schema) -> None:
    real = rows(4_000, 0)
    same = columns.lost(compare_columns(rows(4_000, 1), real, schema))
    assert same == "All columns are kept. All pairs of columns are kept."
    pair = columns.lost(compare_columns(rows(4_000, 1, together=0.0), real, schema))
    assert pair == "All columns are kept. Lost or blurred: 1 of 6 pairs of columns (a x b)."
    moved = columns.lost(compare_columns(rows(4_000, 1, shift=1.0), real, schema))
    assert moved.startswith("Lost or blurred: 1 of 3 columns (c). Lost or blurred: 3 of 6 pairs of columns (")
    assert columns.lost({}) == ""


def test_a_summary_is_compared_with_d_v(schema: Schema, tmp_path: Path) -> None:
    assert compare_with_validation(tmp_path, rows(50, 0), schema) == {}
    save_table(tmp_path / SUMMARY, rows(400, 1, shift=2.0))
    compared = compare_with_validation(tmp_path, rows(400, 0), schema)
    drawn = columns.distances(compared, "summary", "Real: D_v.")
    assert "Lost or blurred: 1 of 3 columns (c)." in drawn
    assert "a x b</text>" in drawn
    assert "grey D_v" in columns.shares(compared, "summary", "D_v", "")


def test_fresh_rows_of_d_v_lose_nothing(schema: Schema, tmp_path: Path) -> None:
    # As few rows as a summary has differ from D_v by more than D_v's halves do: that is no loss.
    judged = [compare_columns(rows(40, seed), rows(400, 0), schema, fresh=40) for seed in range(1, 21)]
    gone = [line for line in map(columns.lost, judged) if "Lost" in line.partition(" pairs")[0]]
    assert len(gone) <= 2, gone
    halves = [columns.lost(compare_columns(rows(40, seed), rows(400, 0), schema)) for seed in range(1, 21)]
    assert sum("pairs of columns (" in line for line in halves) == 20  # what the page said until now


def test_the_columns_are_those_of_the_form_that_is_advised(schema: Schema, tmp_path: Path) -> None:
    # The weighted form is good, and the page judged the repeats, which were fair.
    near, far = rows(400, 1), rows(400, 2, shift=3.0)
    both = joined([near, far])
    weights = np.repeat([1 / 400, 0.0], 400)
    save_table(tmp_path / SUMMARY, far)
    save_table(tmp_path / REPEATS, far)
    assert both.labels is not None
    (tmp_path / WEIGHTED).write_bytes(npz_bytes({"x": both.values, "y": both.labels, "w": weights}))
    grades = {"weighted": "good", "alike": "poor", "repeats": "fair"}
    (tmp_path / EVALUATION).write_text(json.dumps({"verdict": {"grades": grades}}))
    compared = compare_with_validation(tmp_path, rows(400, 0), schema)
    assert compared["form"] == "weighted"
    assert columns.lost(compared).startswith("All columns are kept.")
    grades = {"weighted": "poor", "alike": "good", "repeats": "good"}
    (tmp_path / EVALUATION).write_text(json.dumps({"verdict": {"grades": grades}}))
    compared = compare_with_validation(tmp_path, rows(400, 0), schema)
    assert compared["form"] == "alike"
    assert "columns (c)" in columns.lost(compared)


def test_the_page_of_a_summary_has_its_columns(tmp_path: Path) -> None:
    folder = ROOT / "examples" / "own-files" / "scenario.toml"
    run = verbs.simulate(folder, out=tmp_path / "run", progress=False, downstream=False, baselines=[])
    assert set(run.metrics["columns"]["columns"]["by_name"]) == {"age", "pressure", "smoker"}
    page = re.sub("<.*?>", "", run.report)
    assert "Columns and pairs of columns" in page
    assert "blue summary, grey D_v" in page
