"""sim.evaluation.grades: columns, pairs and models of a release by the owners' rows."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from fedkme.tables.schema import Category, Label, Numeric, Schema
from fedkme.tables.table import Table
from sim.evaluation.classifiers import boosted_score
from sim.evaluation.grades import by_rows
from sim.evaluation.releases import compare_columns, evaluate_rows

SCHEMA = Schema(
    columns=(
        Category(name="a", categories=("no", "yes")),
        Category(name="b", categories=("no", "yes")),
        Numeric(name="x", bounds=(0, 1)),
    ),
    label=Label(name="y", classes=("no", "yes")),
)
CARD = {
    "grade": "good",
    "sentence": "answers",
    "advice": "",
    "grades": {"columns": "good", "pairs": "good", "models": "cannot tell", "questions": "good"},
    "reasons": {"questions": "answers"},
}


def rows(seed: int, keep: bool = True, shift: float = 0.0) -> Table:
    """Rows whose label is the XOR of a and b, or with the same columns and pairs by chance."""
    draw = np.random.default_rng(seed)
    a, b = (draw.integers(0, 2, 4000) for _ in range(2))
    label = a ^ b if keep else draw.integers(0, 2, 4000)
    x = np.clip(draw.random(4000) + shift, 0, 1)
    return Table(np.column_stack([a, b, x]).astype(np.float64), label.astype(np.int64))


def graded(synthetic: Table) -> dict[str, Any]:
    verdict = by_rows(CARD, evaluate_rows(synthetic, rows(0), rows(1), SCHEMA, 0))
    assert verdict is not None
    return verdict


def test_a_dependence_of_three_columns_that_is_lost_makes_models_poor() -> None:
    # Issue 39: "Good ... .97" where classifiers were at chance: columns and pairs cannot see it.
    pytest.importorskip("sklearn")
    lost, kept = graded(rows(2, keep=False)), graded(rows(2))
    assert kept["grades"] == {"columns": "good", "pairs": "good", "models": "good", "questions": "good"}
    assert kept["grade"] == "good"
    assert lost["grades"] == kept["grades"] | {"models": "poor"}
    assert lost["grade"] == "fair"
    assert lost["reasons"]["models"].startswith("AUC 0.5")
    assert "For models, take" in lost["advice"]


def test_far_columns_and_their_pairs_are_named() -> None:
    verdict = graded(rows(2, shift=0.5))
    assert verdict["grades"]["columns"] != "good"
    assert ", x by 0.5" in verdict["reasons"]["columns"]
    assert " x x by 0." in verdict["reasons"]["pairs"]
    assert "columns: " in verdict["sentence"]


def test_models_that_learn_nothing_of_the_owners_rows_say_nothing() -> None:
    evaluation = {
        "columns": {"by_name": {"x": 0.0}},
        "trained_on_synthetic": {"auc": 0.5},
        "trained_on_real": {"auc": 0.56},
        "noise_of_auc": 0.02,
    }
    verdict = by_rows(None, evaluation)
    assert verdict is not None
    assert (verdict["grades"]["models"], verdict["grades"]["questions"]) == ("cannot tell", "cannot tell")
    certain = by_rows(None, evaluation | {"noise_of_auc": 0.01})
    assert certain is not None
    assert certain["grades"]["models"] == "poor"
    lacks = CARD | {"grades": {"models": "poor"}, "reasons": {"models": "a screen"}}
    for noise, reason in ((0.02, "a screen"), (0.01, "AUC 0.50, of owners' rows 0.56")):
        both = by_rows(lacks, evaluation | {"noise_of_auc": noise})
        assert both is not None
        assert (both["grades"]["models"], both["reasons"]["models"]) == ("poor", reason)
    assert by_rows(None, {}) is None
    assert by_rows(CARD, {}) == CARD


def test_what_is_far_from_the_rows_is_never_fair_however_far_their_halves_are_apart() -> None:
    # Of three rows "Fair for columns (off by 0.66)" was said, as their halves are as far apart.
    for off, grade in ((0.08, "good"), (0.24, "good"), (0.3, "fair"), (0.4, "poor"), (0.66, "poor")):
        by_name, halves = dict.fromkeys("ab", off), dict.fromkeys("ab", 0.7)
        told = by_rows(None, {"columns": {"by_name": by_name}, "real_halves": {"by_name": halves}})
        assert told is not None
        assert told["grades"]["columns"] == grade, off


def test_pairs_are_no_better_than_their_columns() -> None:
    # Two halves of few rows differ much by pairs: "Use the rows for pairs" stood beside poor columns.
    by_name = {f"c{n}": 0.28 for n in range(4)}
    pairs = {f"c{n} x d": 0.5 for n in range(4)}
    evaluation = {
        "columns": {"by_name": by_name},
        "real_halves": {"by_name": dict.fromkeys(by_name, 0.1)},
        "pairs": {"by_name": pairs},
        "real_halves_pairs": {"by_name": dict.fromkeys(pairs, 0.5)},
    }
    verdict = by_rows(CARD, evaluation)
    assert verdict is not None
    assert verdict["grades"]["columns"] == verdict["grades"]["pairs"] == "poor"
    assert "Use the rows for" not in verdict["advice"]


def test_models_are_graded_by_boosted_trees_where_these_lose_more() -> None:
    # Two categories that agree: of three quick models .51 and .53, of boosted trees .52 for .92.
    evaluation = {
        "columns": {"by_name": {"x": 0.0}},
        "trained_on_synthetic": {"auc": 0.74, "boosted": 0.78},
        "trained_on_real": {"auc": 0.75, "boosted": 0.9},
        "noise_of_auc": 0.01,
    }
    verdict = by_rows(None, evaluation)
    assert verdict is not None
    assert verdict["grades"]["models"] == "poor"
    assert verdict["reasons"]["models"] == "AUC 0.78 by boosted trees, of owners' rows 0.90"
    quick = {
        "trained_on_synthetic": {"auc": 0.5, "boosted": 0.9},
        "trained_on_real": {"auc": 0.53, "boosted": 0.92},
    }
    known = by_rows(None, evaluation | quick)
    assert known is not None
    assert known["grades"]["models"] == "good"  # nothing is known of what quick models lose


def test_columns_are_not_good_where_the_mean_of_a_number_is_far_off() -> None:
    evaluation = {"columns": {"by_name": {"x": 0.04}}, "means": {"by_name": {"x": 6.6}}}
    verdict = by_rows(None, evaluation)
    assert verdict is not None
    assert verdict["grades"]["columns"] == "fair"
    assert verdict["reasons"]["columns"].endswith("; the mean of x by 6.6 deviations")
    near = by_rows(None, evaluation | {"means": {"by_name": {"x": 0.4}}})
    assert near is not None
    assert near["grades"]["columns"] == "good"


def test_means_leave_out_what_is_missing() -> None:
    lacking = rows(2)
    lacking.values[:7, 2] = np.nan
    means = compare_columns(lacking, rows(1), SCHEMA)["means"]
    assert means["by_name"]["x"] == pytest.approx(0.0, abs=0.1)
    lacking.values[:, 2] = np.nan
    assert "means" not in compare_columns(lacking, rows(1), SCHEMA)


def test_boosted_trees_learn_that_two_categories_are_the_same() -> None:
    levels = tuple("pqrstu")
    names = ("home", "work")
    schema = Schema(
        columns=tuple(Category(name=name, categories=levels) for name in names),
        label=Label(name="y", classes=("no", "yes")),
    )
    rng = np.random.default_rng(3)
    values = rng.integers(0, 6, (3000, 2))
    values[:900, 1] = values[:900, 0]
    table = Table(values.astype(np.float64), (values[:, 0] == values[:, 1]).astype(np.int64))
    train, test = (table.take(np.arange(start, 3000, 2)) for start in (0, 1))
    assert boosted_score(train, test, schema, 1) > 0.9
    many = schema.model_copy(update={"label": Label(name="y", classes=tuple(map(str, range(101))))})
    assert math.isnan(boosted_score(train, test, many, 1))  # it would take minutes
