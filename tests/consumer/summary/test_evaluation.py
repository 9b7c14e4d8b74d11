"""consumer.summary.evaluation: figures that the consumer computes on its own machine."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from typing import Any

import numpy as np
import pytest

from consumer.summary.evaluation import Evaluation, Evaluator, Labels
from fedkme.arrays import Rows
from fedkme.embeddings.mmd import ReferenceRows, mmd2
from fedkme.errors import DataError, MissingDependencyError

GAMMA = 0.2


def two_classes(seed: int, count: int) -> tuple[Rows, Labels]:
    random = np.random.default_rng(seed)
    labels = np.arange(count) % 2
    return random.normal(size=(count, 4)) + 3.0 * labels[:, None], labels


def judge(rows: Rows, labels: Labels | None, **changes: Any) -> Evaluation:
    test, test_labels = two_classes(9, 200)
    arguments: dict[str, Any] = {
        "validation": ReferenceRows(test[:20], GAMMA),
        "test": ReferenceRows(test[20:], GAMMA),
        "test_labels": test_labels[20:],
        "seed": 4,
    }
    return Evaluator(**(arguments | changes)).evaluate(rows, labels)


def test_each_mmd_is_against_the_rows_it_names() -> None:
    # Two figures: of the returned rows alone, and together with the seed set.
    rows, labels = two_classes(1, 30)
    validation, _ = two_classes(2, 25)
    test, test_labels = two_classes(3, 40)
    seeds = np.random.default_rng(4).normal(size=(10, 4))
    references = {"validation": ReferenceRows(validation, GAMMA), "test": ReferenceRows(test, GAMMA)}
    evaluation = judge(rows, labels, **references, test_labels=test_labels, seeds=seeds)
    assert evaluation.mmd2 == mmd2(rows, validation, GAMMA)
    assert evaluation.mmd2_test == mmd2(rows, test, GAMMA)
    assert evaluation.mmd2_counted == mmd2(np.vstack([rows, seeds]), validation, GAMMA)


def test_both_models_learn_a_separable_problem_and_repeat_exactly() -> None:
    rows, labels = two_classes(1, 60)
    evaluation = judge(rows, labels)
    assert sorted(evaluation.downstream) == ["linear_svm", "mlp_32"]
    assert min(evaluation.downstream.values()) > 0.95
    assert judge(rows, labels).downstream == evaluation.downstream


def test_a_summary_of_one_class_predicts_it() -> None:
    # A single class is no error; half of the test rows have it.
    rows, _ = two_classes(1, 20)
    evaluation = judge(rows, np.ones(20, dtype=np.int64))
    assert evaluation.downstream == {"linear_svm": 0.5, "mlp_32": 0.5}


def test_missing_inputs_have_no_figures_in_the_result() -> None:
    # Labels, test rows and a seed set are all optional.
    rows, labels = two_classes(1, 20)
    assert judge(rows, None).downstream == {}
    assert judge(rows, labels, test_labels=None).downstream == {}
    assert judge(rows, labels, downstream=False).downstream == {}
    bare = judge(rows, labels, test=None, seeds=np.zeros((0, 4)))
    assert (bare.mmd2_test, bare.mmd2_counted, bare.downstream) == (None, None, {})


def test_missing_scikit_learn_is_told_only_when_models_are_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sklearn.svm", None)
    rows, labels = two_classes(1, 20)
    assert judge(rows, None).mmd2 == judge(rows, labels, downstream=False).mmd2
    with pytest.raises(MissingDependencyError, match=r"pip install 'fedkme\[sim\]'"):
        judge(rows, labels)


def test_convergence_warnings_stay_inside(recwarn: pytest.WarningsRecorder) -> None:
    # Warnings must not reach the user's terminal. The network's line search fails on rows of this scale.
    random = np.random.default_rng(6)
    rows, labels = 1e4 * random.normal(size=(400, 4)), random.integers(0, 2, 400)
    judge(rows, labels)
    assert [str(warning.message) for warning in recwarn] == []


def test_an_empty_summary_is_an_error() -> None:
    # A run that stopped before its first row has nothing to judge.
    with pytest.raises(DataError, match="no rows"):
        judge(np.zeros((0, 4)), None)


def test_to_json_is_plain() -> None:
    evaluation = Evaluation(mmd2=0.1, mmd2_test=None, mmd2_counted=0.2, downstream={"linear_svm": 0.9})
    assert json.loads(json.dumps(asdict(evaluation))) == {
        "mmd2": 0.1,
        "mmd2_test": None,
        "mmd2_counted": 0.2,
        "downstream": {"linear_svm": 0.9},
    }
