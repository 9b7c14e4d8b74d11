"""The answers that a data card has without being asked."""

from __future__ import annotations

import asyncio
import json

import pytest

from curator.releases.method import make_method
from fedkme.answers.card import usual_questions
from fedkme.answers.grammar import parse
from fedkme.answers.quantities import parts_of
from fedkme.releases.settings import release_settings
from fedkme.tables.schema import Category, Numeric, Schema
from tests.fedkme.answers.people import Drawing, people, schema


def test_every_schema_suggests_questions_that_can_be_asked() -> None:
    strange = Schema(
        columns=(Numeric(name="a b", bounds=(0, 1)), Category(name="it's", categories=("x'y", "z")))
    )
    for domain in (schema(), strange, Schema(columns=(Numeric(name="pixel", bounds=(0, 1), count=9),))):
        questions = usual_questions(domain)
        assert questions
        assert parts_of([each for text in questions for each in parse(text)], domain)
    assert len(usual_questions(schema())) == 10


@pytest.mark.parametrize("settings", [{"kind": "marginals", "mechanism": "independent", "iterations": 20}])
def test_a_card_has_ten_answers_with_their_intervals(settings: dict[str, object]) -> None:
    # Issue 16, item 3: "The data card prints ten such rows".
    method = make_method(release_settings(settings), schema(), None, 1)
    release = asyncio.run(method.ask(Drawing(people(2000), 0)))
    files = method.finish(release, lambda *_: None).files
    card = json.loads(files["synthetic.card.json"])
    assert len(card["answers"]) == 10
    share = card["answers"][0]
    assert share["question"] == "share(ill = 'yes')"
    assert share["low"] < share["estimate"] < share["high"]
    text = files["synthetic.card.md"].decode()
    assert "| share(ill = 'yes') |" in text
    assert "Measured on: none; the release answers for itself." in text
