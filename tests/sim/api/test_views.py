"""Views of results in a notebook."""

from __future__ import annotations

import re

import pytest

import fedkme as fk
from consumer.summary.verdict import _training
from fedkme.answers.card import advice_on
from sim.api.views import verdict_of


@pytest.mark.parametrize(
    ("advice", "said"),
    [
        (
            _training({"weighted", "alike"}, ("weight", "alike")),
            "Train on .weighted, sample_weight = .weights; .rows do as well without weights.",
        ),
        (_training({"weighted"}, ("weight", "alike")), "Train on .weighted, sample_weight = .weights."),
        (_training({"alike"}, ("weight", "alike")), "Train on .rows."),
        (_training({"repeats"}, ("weight", "alike")), "Train on .repeats."),
        (advice_on({"questions": "good"}), "Ask with `.ask`, which gives intervals."),
    ],
)
def test_the_advice_in_python_names_attributes_and_no_file(advice: str, said: str) -> None:
    # Found in a notebook: "Train on summary.csv", where the rows are `run.weighted`.
    verdict = verdict_of({"verdict": {"grade": "good", "sentence": "", "advice": advice}})
    assert verdict is not None
    assert verdict.advice == said
    for name in re.findall(r"[.](\w+)", verdict.advice):
        assert hasattr(fk.SummaryResult, name) or hasattr(fk.ReleaseResult, name)


def test_without_a_verdict_there_is_none() -> None:
    assert verdict_of({}) is None
