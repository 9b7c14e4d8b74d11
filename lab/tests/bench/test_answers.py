"""Coverage of intervals, in small: what `fedkme bench answers` measures."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fedkme.answers.answer import ask, in_rows
from fedkme.errors import ConfigError
from lab.bench.answers.beside_rows import people, ratios_beside_rows
from lab.bench.answers.cli import answers, csv_of, summaries
from lab.bench.answers.coverage import METHODS, OF_TABLE, covered, evidences
from lab.bench.answers.populations import population
from tests.places import ROOT

LARGE = (2, 4)
"""Tables of 30,000 rows at a large epsilon, each release of which is a model of 3 to 13 seconds."""
RELEASES = [number for number in range(40) if number % OF_TABLE < (1 if number // OF_TABLE in LARGE else 3)]
"""Three releases of each of eight tables, and one of a large one."""


@pytest.mark.parametrize("method", METHODS)
def test_intervals_hold_as_often_as_they_say_and_shorter_ones_do_not(method: str) -> None:
    # 20 releases of people with fresh rows and noise, seeded: answers of one release are not independent, so
    # the bound is wide; intervals of a quarter of the length hold far less often.
    held = short = total = 0
    for own, table, evidence in evidences(METHODS[method], "people", RELEASES, 5):
        asked = ["count(sex = 'male')", "share(region = 'a')", "mean(age)", "mean(visits)"]
        rows, people = (in_rows(asked, each, own.schema) for each in (table, own.pool))
        for answer, *truths in zip(ask(evidence, asked), rows, people, strict=True):
            assert not np.isnan(answer.low) or "not in the span" in answer.method
            if not np.isnan(answer.low):
                right = truths[answer.target != "rows"]
                held, total = held + (answer.low <= right <= answer.high), total + 1
                short += abs(right - answer.estimate) <= (answer.high - answer.low) / 8
    assert total >= len(RELEASES)
    assert held / total >= 0.9
    assert short / total < 0.85


def test_the_table_of_coverage_is_that_of_its_file() -> None:
    # "Every number in docs comes from a file that a command wrote."
    file = ROOT / "lab" / "bench" / "answers" / "measured.csv"
    with file.open(encoding="utf-8") as text:
        lines = list(csv.DictReader(text))
    page = (ROOT / "docs" / "answers.md").read_text(encoding="utf-8")
    for row in summaries(lines):
        assert f"| {' | '.join(row)} |" in page


def test_lines_of_the_benchmark_are_counts_of_every_form_of_question(tmp_path: Path) -> None:
    found = covered(METHODS["marginals"], "spikes", range(2), 0)
    assert {form for form, _ in found} == set(population("spikes", 0).questions.values())
    lines: list[dict[str, Any]] = [
        {"method": "m", "kind": "spikes", "question": q, "target": t, "releases": 2, **tally.line()}
        for (q, t), tally in found.items()
    ]
    assert csv_of(lines).count("\n") == 1 + len(found)
    assert summaries(lines)[1][1].endswith(f"of {sum(t.tight + t.bounded for t in found.values())}")


def test_a_run_keeps_what_other_methods_and_kinds_have_in_the_file(tmp_path: Path) -> None:
    file = tmp_path / "file.csv"
    for kind in ("spikes", "persons"):
        answers(releases=1, methods="marginals (columns)", kinds=kind, out=file)
    kinds = [line["kind"] for line in csv.DictReader(file.read_text().splitlines())]
    assert list(dict.fromkeys(kinds)) == ["spikes", "persons"]
    with pytest.raises(ConfigError, match="there is no kind of tables 'sand'"):
        answers(kinds="sand")


def test_answers_are_no_worse_than_the_synthetic_rows_beside_them() -> None:
    lines = ratios_beside_rows(people(300), range(3))
    assert len(lines) == 25
    assert all(float(line["low"]) <= 1.0 for line in lines)
    assert float(np.median([float(line["ratio"]) for line in lines])) <= 1.0
