"""The usual answers of a data card, and the verdict on the release."""

from __future__ import annotations

import asyncio
import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from audit.in_memory import FreshNoise
from curator.releases.method import make_method
from fedkme.answers.answer import FAR_ROWS, NOT_TOLD, Answer
from fedkme.answers.card import advice_on, rounded, usual_answers, usual_questions, verdict_on
from fedkme.answers.cli import print_table
from fedkme.answers.correlations import Target
from fedkme.answers.folder import AskedFolder, evidence_of
from fedkme.answers.grammar import parse
from fedkme.answers.made_rows import WeightedTable
from fedkme.answers.quantities import parts_of
from fedkme.releases.settings import release_settings
from fedkme.tables.schema import Category, Numeric, Schema
from fedkme.tables.table import Table
from fedkme.verdict import CANNOT_TELL, lines_of
from tests.fedkme.answers.people import people, released, schema


def test_the_usual_questions_of_every_schema_can_be_parsed() -> None:
    strange = Schema(
        columns=(Numeric(name="a b", bounds=(0, 1)), Category(name="it's", categories=("x'y", "z")))
    )
    for domain in (schema(), strange, Schema(columns=(Numeric(name="pixel", bounds=(0, 1), count=9),))):
        questions = usual_questions(domain)
        assert questions
        assert parts_of([each for text in questions for each in parse(text)], domain)
    assert len(usual_questions(schema())) == 10


def answer(
    noise: float,
    sampling: float = 1.0,
    low: float = 0.0,
    unseen: float = 0.0,
    target: Target = "population",
    question: str = "mean(x)",
) -> Answer:
    return Answer(question, "", 0.5, low, 1.0, noise, sampling, unseen, target, "released counts", "number")


def test_the_advice_is_sentences_that_are_read_once() -> None:
    # A reader took "for pairs, questions take a larger epsilon" for what questions do.
    grades = dict.fromkeys(("pairs", "questions"), "poor") | {"columns": "fair", "models": CANNOT_TELL}
    assert advice_on(grades) == (
        "Use the rows for columns. For pairs and questions, take a larger epsilon, more rows of owners or "
        "another method. Before you rely on a model, score it on rows of your own."
    )


@pytest.mark.parametrize(
    ("noise", "grade", "share"),
    [(0.0, "good", "100"), (1.0, "good", "50"), (1.1, "fair", "45"), (3.1, "poor", "9.4")],
)
def test_the_grade_follows_the_effective_share_of_the_rows(noise: float, grade: str, share: str) -> None:
    # A mean of n rows has the variance sampling^2 N / n, so n / N = sampling^2 / (sampling^2 + noise^2).
    verdict = verdict_on([answer(noise), answer(0.0), answer(9.0)])
    assert verdict is not None
    assert verdict.grades["questions"] == grade
    assert f"as precise as from {share} % of the rows" in verdict.sentence
    assert ("larger epsilon" in verdict.advice) == (grade == "poor")


def test_columns_and_pairs_are_graded_by_their_answers_and_models_by_none() -> None:
    # Issue 39: a label that is the XOR of two columns has classifiers at chance while the screen said "Good".
    sharp = [answer(0.1), answer(0.1), answer(9.0, question="corr(x, y)")]
    verdict = verdict_on(sharp)
    assert verdict is not None
    assert verdict.grades == {
        "columns": "good",
        "pairs": "cannot tell",  # imprecise answers do not say that rows are far
        "models": "cannot tell",
        "questions": "good",
    }
    assert verdict.grade == "good"
    assert str(verdict).startswith(
        "Good for columns (as precise as from 99 % of the rows) and questions (answers"
    )
    assert "Before you rely on a model, score it on rows of your own" in verdict.advice
    pair = verdict_on([answer(0.1, question="mean(x) where y = 'a'")])
    assert pair is not None
    assert (pair.grades["columns"], pair.grades["pairs"]) == ("cannot tell", "good")
    unlabelled = verdict_on(sharp, labelled=False)
    assert unlabelled is not None
    assert unlabelled.reasons["models"] == "no column is a label"


@pytest.mark.parametrize(
    ("noise", "unseen", "told"), [(0.3, 0.0, False), (0.3, 0.0, True), (0.3, 0.4, False)]
)
def test_answers_that_noise_hides_are_counted_for_a_reader(
    noise: float, unseen: float, told: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    # A mean of 122.6 in 70 to 220, which is all that is possible, was counted as one that says something.
    hidden = answer(noise, unseen=unseen)
    print_table([hidden if told else replace(hidden, method=f"sums; {NOT_TOLD}"), answer(0.1)])
    said = "1 of 2 answers say nothing, noise hides them" in capsys.readouterr().out
    assert said == (not told and noise >= unseen)


def test_a_missing_interval_lowers_the_grade_and_answers_about_rows_do_not_count() -> None:
    nothing = answer(math.nan, math.nan, math.nan)
    verdict = verdict_on([nothing, answer(0.0), nothing, answer(0.0, 0.0, target="rows")])
    assert verdict is not None
    assert verdict.grade == "poor"
    assert verdict_on([answer(0.0, unseen=4.0)]) == verdict_on(
        [answer(4.0)]
    )  # the unseen part counts like noise
    assert verdict_on([answer(0.0, 0.0, target="rows")]) is None


@pytest.mark.parametrize(
    "settings",
    [
        {"kind": "marginals", "mechanism": "independent", "iterations": 20},
        {"kind": "moments"},
        {"kind": "balog2", "features": 100, "points": 20, "steps": 5, "restarts": 1, "candidates": 32},
    ],
    ids=lambda settings: settings["kind"],
)
def test_the_card_says_what_ask_says_of_the_same_files(settings: dict[str, object], tmp_path: Path) -> None:
    method = make_method(release_settings(settings), schema(), None, 1)
    release = asyncio.run(method.ask(FreshNoise(people(600), schema(), 0)))
    for name, data in method.finish(release, lambda *_: None).files.items():
        (tmp_path / name).write_bytes(data)
    (card,) = tmp_path.glob("*.card.json")
    answers = json.loads(card.read_text())["answers"]
    assert any("synthetic rows" in each["method"] for each in answers)
    for each in answers:
        asked, _ = AskedFolder(tmp_path).ask(each["question"])
        assert [rounded(answer) for answer in asked] == [each]


@pytest.mark.parametrize("kind", ["marginals", "moments", "hermite", "merf"])
def test_no_card_calls_columns_good_whose_rows_are_far_outside_the_releases_own_interval(kind: str) -> None:
    settings: dict[str, Any] = {"mechanism": "independent"} if kind == "marginals" else {}
    evidence = evidence_of(released(kind=kind, epsilon=20.0, **settings))
    for far in (False, True):
        values = people(4000, 3).values.copy()
        values[:, 0] = 97 if far else values[:, 0]
        answers = usual_answers(evidence, WeightedTable(Table(values, people(4000, 3).labels)))
        assert any(FAR_ROWS in each.method for each in answers) == far, [each.method for each in answers]
        sharp = [replace(each, noise=0.0, unseen=0.0) for each in answers]  # that alone would be good
        verdict = verdict_on(sharp)
        assert verdict is not None
        assert verdict.grades["columns"] == ("fair" if far else "good")
        assert far == verdict.reasons["columns"].startswith("mean(age) of the rows is far outside")


@pytest.mark.parametrize("settings", [{"kind": "marginals", "mechanism": "independent", "iterations": 20}])
def test_a_card_has_ten_answers_with_their_intervals(settings: dict[str, object]) -> None:
    method = make_method(release_settings(settings), schema(), None, 1)
    release = asyncio.run(method.ask(FreshNoise(people(2000), schema(), 0)))
    files = method.finish(release, lambda *_: None).files
    card = json.loads(files["synthetic.card.json"])
    assert sum(each["low"] is not None for each in card["answers"]) == 10
    share = card["answers"][0]
    assert share["question"] == "share(ill = 'yes')"
    assert share["low"] < share["estimate"] < share["high"]
    text = files["synthetic.card.md"].decode()
    assert "\n\n".join(lines_of(card["verdict"])) in text
    assert "| share(ill = 'yes') |" in text
    assert "Measured on: none; the answers come from the release itself." in text


def test_a_card_adds_questions_until_ten_answers_have_intervals() -> None:
    # Moments of 55 columns gave only six answers with intervals.
    wide = Schema(columns=tuple(Numeric(name=f"c{at}", bounds=(0, 1)) for at in range(12)))
    settings = {"kind": "marginals", "mechanism": "independent", "iterations": 20}
    method = make_method(release_settings(settings), wide, None, 1)
    rows = Table(np.random.default_rng(0).random((500, 12)))
    release = asyncio.run(method.ask(FreshNoise(rows, wide, 0)))
    answers = usual_answers(evidence_of(release))
    assert "corr(c0, c1)" in [each.question for each in answers if math.isnan(each.low)]
    assert sum(not math.isnan(each.low) for each in answers) == 10
    assert verdict_on(answers) == verdict_on(answers[:10])  # the additional answers do not count
