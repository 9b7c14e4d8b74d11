"""Answers from released sums: a projection that no row enters, and noise of an exact law."""

from __future__ import annotations

import asyncio
import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from audit.in_memory import FreshNoise
from curator.releases.method import make_method
from fedkme.answers.answer import Answer, ask
from fedkme.answers.sums import SumEvidence
from fedkme.errors import ConfigError
from fedkme.releases.file import StoredRelease, from_bytes
from fedkme.releases.settings import release_settings
from fedkme.tables.schema import schema_from
from fedkme.tables.table import Table
from tests.fedkme.answers.people import people, released

TABLE = people()
AGE, INCOME, VISITS, SEX, REGION = TABLE.values.T
HERMITE: dict[str, Any] = {"kind": "hermite", "sum_order": 30, "epochs": 4}


def stored(**settings: Any) -> StoredRelease:
    pytest.importorskip("jax")
    return from_bytes(released(**settings))


def single_answer(evidence: SumEvidence, question: str) -> Answer:
    (answer,) = ask(evidence, question)
    return answer


def test_functions_in_the_span_are_answered_and_others_have_no_interval() -> None:
    evidence = SumEvidence(stored(**HERMITE))
    labels = TABLE.labels
    assert labels is not None
    for question, truth in {
        "mean(age)": AGE.mean(),
        "mean(income)": INCOME.mean(),
        "share(sex = 'male')": SEX.mean(),
        "count(ill = 'yes' and sex = 'male')": (SEX * labels).sum(),
        "mean(visits) by ill": VISITS[labels == 0].mean(),
        "var(visits)": VISITS.var(),
    }.items():
        answer, *_ = ask(evidence, question, "rows")
        assert abs(answer.estimate - truth) < answer.high - answer.low, question  # four deviations
        assert answer.high - answer.low < 0.1 * max(abs(truth), 1.0) + 6 * answer.noise
    steep = single_answer(evidence, "share(income > 50 and age < 30 and visits = 0)")
    assert math.isnan(steep.low)
    assert "not in the span of what was released: its features miss" in steep.method


def test_shares_of_classes_are_exact_where_a_release_has_more_features_than_a_regression(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # Of 70 columns the feature that counts the rows of a class was left out: .34 to .44 for a share of .18.
    monkeypatch.setattr("fedkme.answers.sums.MOST_FEATURES", 30)
    names = [f"c{at}" for at in range(12)]
    schema = schema_from(
        {
            "columns": [{"name": name, "kind": "numeric", "bounds": [0, 1]} for name in names],
            "label": {"name": "y", "classes": ["no", "yes"]},
        }
    )
    rng = np.random.default_rng(0)
    rows = Table(np.clip(rng.normal(0.1, 0.05, (9000, 12)), 0, 1), (rng.random(9000) < 0.2).astype(np.int64))
    method = make_method(release_settings({"kind": "moments", "epsilon": 5.0}), schema, None, 1)
    release = asyncio.run(method.ask(FreshNoise(rows, schema, 0)))
    assert rows.labels is not None
    for target in ("rows", "population"):
        (answer,) = ask(SumEvidence(from_bytes(release, "release")), "share(y = 'yes')", target)
        assert answer.low <= rows.labels.mean() <= answer.high
        assert answer.unseen < 1e-6
        assert answer.high - answer.low < 0.05


def test_a_release_without_the_label_says_that_it_was_left_out() -> None:
    evidence = SumEvidence(stored(kind="balog1", points=60, z={"kind": "gaussian"}))
    assert all("'ill', the label, was left out" in each.method for each in ask(evidence, "mean(age) by ill"))
    assert not math.isnan(single_answer(evidence, "mean(age)").low)


def test_the_stated_noise_is_the_spread_over_repeated_releases() -> None:
    # Noise is drawn 200 times on the same sums: the deviation of the estimates is the stated noise.
    first = stored(**HERMITE)
    evidence = SumEvidence(first)
    stated, rng = single_answer(evidence, "mean(age)").noise, np.random.default_rng(3)
    estimates = []
    for _ in range(200):
        noisy = tuple(
            replace(each, mean=each.mean + rng.normal(0.0, each.sigma, each.mean.shape))
            for each in first.embeddings
        )
        estimates.append(
            single_answer(evidence.with_release(replace(first, embeddings=noisy)), "mean(age)").estimate
        )
    # chi^2 with 199 degrees of freedom: a ratio outside has a chance of 1e-4, and the seed is fixed.
    assert 0.81 < np.std(estimates, ddof=1) / stated < 1.21


def test_evidence_is_not_reused_for_other_noise() -> None:
    first = stored(**HERMITE)
    other = replace(first, embeddings=tuple(replace(each, sigma=2 * each.sigma) for each in first.embeddings))
    evidence = SumEvidence(first)
    with pytest.raises(ConfigError, match="other noise"):
        evidence.with_release(other)
    assert (
        single_answer(SumEvidence(other), "share(sex = 'male')").noise
        > 1.3 * single_answer(evidence, "share(sex = 'male')").noise
    )


def test_a_release_without_noise_gives_the_mean_up_to_its_features() -> None:
    exact = stored(**HERMITE, epsilon="inf")
    answer = single_answer(SumEvidence(exact), "mean(age)")
    assert answer.noise < 1e-6
    assert abs(answer.estimate - AGE.mean()) < 0.05


def test_moments_of_rows_close_together_in_wide_bounds_are_answered() -> None:
    # Moments of many columns clip nearly all rows of the domain, but not the private rows. Once, var(x0) = 6
    # was answered by 42 +- 16, and half of all correlations were missed.
    rng = np.random.default_rng(5)
    values = np.clip(rng.normal(size=(3000, 6)) @ rng.normal(size=(6, 24)), -10, 10)
    columns = [{"name": f"x{i}", "kind": "numeric", "bounds": [-10, 10]} for i in range(24)]
    schema = schema_from({"columns": columns})
    method = make_method(release_settings({"kind": "moments"}), schema, None, 1)
    release = from_bytes(asyncio.run(method.ask(FreshNoise(Table(values), schema, 0))))
    evidence = SumEvidence(release)
    pairs = [(i, j) for i in range(24) for j in range(i)][::24]
    questions = "; ".join([f"corr(x{i}, x{j})" for i, j in pairs] + [f"var(x{i})" for i in range(12)])
    truths = [np.corrcoef(values[:, i], values[:, j])[0, 1] for i, j in pairs] + list(values.var(axis=0)[:12])
    answers = ask(evidence, questions, "rows")
    missed = [a.question for a, t in zip(answers, truths, strict=True) if t < a.low or t > a.high]
    # Of 24 exact 95 % intervals, more than 2 miss with a chance of 11.6 %; the seeds are fixed.
    assert len(missed) <= 2, missed
    assert sum(not math.isnan(a.low) for a in answers) >= 12


@pytest.mark.parametrize("question", ["mean(age) where age < 100", "share(age >= 100)", "count(age = 999)"])
@pytest.mark.parametrize("whole", [True, False])
def test_questions_may_cut_between_the_bounds_and_an_atom_beyond_them(question: str, whole: bool) -> None:
    # error 28 (not made): "column 'age': outside the public bounds": rows were tried at 99 and 101.
    age = {"name": "age", "kind": "numeric", "bounds": [18, 90], "atoms": [999], "integer": whole}
    schema = schema_from({"columns": [age, {"name": "x", "kind": "numeric", "bounds": [0, 1]}]})
    rng = np.random.default_rng(1)
    ages = np.where(rng.random(200) < 0.1, 999, rng.integers(18, 90, 200))
    values = np.column_stack([ages, rng.random(200)])
    method = make_method(release_settings({"kind": "moments"}), schema, None, 1)
    release = from_bytes(asyncio.run(method.ask(FreshNoise(Table(values), schema, 0))))
    assert single_answer(SumEvidence(release), question).question == question
