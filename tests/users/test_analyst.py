"""An analyst of a release: from three owners' files to ten questions, their intervals, and refusals."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from fedkme.errors import QuestionError
from tests.hosts.guide import Terminals
from tests.places import ROOT
from tests.users.terminal import terminals

OWN = ROOT / "examples" / "own-files"
SCENARIO = f"{OWN}/scenario.toml"
RELEASE = f"fedkme release marginals {SCENARIO} --engine inprocess --epsilon 8 --set seed=1 --out release"
"""Seed 0 misses the truth in two intervals, about old age; over 50 seeds each question's intervals hold
94 to 100 %."""
TEN = (
    "count()",
    "share(smoker = 'yes')",
    "share(age > 60)",
    "mean(age)",
    "median(pressure)",
    "quantile(age, 0.9)",
    "var(age)",
    "histogram(age, 4)",
    "count(ill = 'yes')",
    "share(ill = 'yes') where smoker = 'yes'",
)
SMOKER = ("yes", "no", "unknown")
IN_PYTHON = """
import fedkme as fk
rel = fk.load("release")
found = rel.ask("mean(age) by smoker; share(ill = 'yes')")
print(found[["group", "estimate", "low", "high"]].to_csv(index=False))
print(rel.card.splitlines()[0])
some = rel.ask(["mean(weight)", "mean(age); corr(age)", "count()"])
assert some["question"].tolist() == ["mean(age)", "count()", "mean(weight)", "corr(age)"]
assert some["estimate"].notna().tolist() == [True, True, False, False]
assert some["method"].str.startswith("not answered: error 15").tolist() == [False, False, True, True]
try:
    rel.ask("mean(weight)")
except fk.FedkmeError as error:
    print(error.code)
"""


@pytest.fixture
def laptop(tmp_path: Path) -> Terminals:
    return terminals(tmp_path, "laptop")


def rows() -> pd.DataFrame:
    """Rows of all owners, which the analyst never sees."""
    files = (pd.read_csv(OWN / f"{name}.csv") for name in ("north", "south", "west"))
    return pd.concat(files, ignore_index=True)


@pytest.mark.timeout(600)
def test_ten_questions_of_a_release(laptop: Terminals) -> None:
    assert "synthetic rows: release/synthetic.csv" in laptop.type("laptop", RELEASE)
    questions = "; ".join(TEN)
    shown = laptop.type("laptop", f'fedkme ask release "{questions}"')
    assert all(each.split("(")[0] in shown for each in TEN)
    answers = json.loads(laptop.type("laptop", f'fedkme ask release "{questions}" --target rows --json'))
    assert {answer["question"] for answer in answers} == set(TEN)
    own, answers_by_question = (
        rows(),
        {answer["question"]: answer for answer in answers if not answer["group"]},
    )
    truth = {
        "count()": len(own),
        "share(smoker = 'yes')": (own["smoker"] == "yes").mean(),
        "share(age > 60)": (own["age"] > 60).mean(),
        "mean(age)": own["age"].mean(),
        "quantile(age, 0.9)": np.quantile(own["age"], 0.9),
        "var(age)": own["age"].var(ddof=0),
        "count(ill = 'yes')": (own["ill"] == "yes").sum(),
    }
    held = [
        answers_by_question[question]["low"] <= value <= answers_by_question[question]["high"]
        for question, value in truth.items()
    ]
    assert sum(held) >= len(truth) - 1  # each with 95 %: the seed is fixed
    assert held[0]
    bins = [answer for answer in answers if answer["group"].startswith("age ")]
    assert [answer["group"].count(" to ") for answer in bins] == [1] * 4
    card = (laptop.home("laptop") / "release" / "consumer" / "synthetic.card.md").read_text()
    assert "## Answers" in card
    lines = [line for line in card.splitlines() if line.endswith(("| population |", "| rows |"))]
    assert len([line for line in lines if "| none |" not in line]) == 10
    ask_in_python(laptop)
    ask_what_cannot_be_answered(laptop)


def ask_in_python(laptop: Terminals) -> None:
    """Ask as a program does: a data frame, the card, an error with its number."""
    (laptop.home("laptop") / "ask.py").write_text(IN_PYTHON)
    laptop.stand_in("python", f'#!/bin/sh\nPYTHONPATH={ROOT} exec {sys.executable} "$@"\n')
    table, _, rest = laptop.type("laptop", "python ask.py").partition("\n\n")
    header, *answers = table.splitlines()
    assert header == "group,estimate,low,high"
    assert [line.partition(",")[0] for line in answers] == [*(f"smoker = {name}" for name in SMOKER), ""]
    assert rest.startswith("# ")
    assert rest.split()[-1] == str(QuestionError.code)


def ask_what_cannot_be_answered(laptop: Terminals) -> None:
    """Ask outside the span, and about an unknown column."""
    four = (
        "share(ill = 'yes' and smoker = 'yes' and age > 50 and pressure > 120)"  # tables are of three at most
    )
    (answer,) = json.loads(laptop.type("laptop", f'fedkme ask release "{four}" --json'))
    assert answer["low"] is None
    assert 0 <= answer["estimate"] <= 1
    assert "not in the span of what was released" in answer["method"]
    wrong = laptop.type("laptop", 'fedkme ask release "mean(presure)" || echo status $?')
    assert "Did you mean 'pressure'? Columns: age, pressure, smoker, ill." in wrong
    assert f"status {QuestionError.code}" in wrong
