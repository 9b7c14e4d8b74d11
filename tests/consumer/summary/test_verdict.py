"""consumer.summary.verdict: good, fair or poor, by what a consumer can know."""

from __future__ import annotations

import re

import numpy as np
import pytest

from consumer.summary.judging import classes_apart
from consumer.summary.verdict import (
    CERTAIN,
    LOSS,
    PROMISE,
    FormQuality,
    UnseenDistance,
    Yardstick,
    verdict_on,
    yardstick,
)
from fedkme.embeddings.kernels import mean_kernel
from fedkme.embeddings.mmd import mmd2
from fedkme.verdict import MEANINGS, QualityVerdict

BY = Yardstick(spread=0.5, rows=100, validation_rows=100)
"""Yardstick under which fresh rows have an MMD^2 of .01."""


def judged(alike: float, best: float, by: Yardstick = BY, rival: float | None = None) -> QualityVerdict:
    """Judge rows of equal weight and a weighted form with the effective size p, as far from unseen rows."""
    return of_forms(equal(alike, by.rows), equal(best, by.rows), by, rival)


def equal(mmd2: float, effective: float, apart: float | None = 0.0) -> FormQuality:
    """Quality of a form whose MMD^2 to unseen rows is known to be that to D_v."""
    return FormQuality(mmd2, effective, apart, UnseenDistance(mmd2, 0.0))


def of_forms(
    alike: FormQuality, weighted: FormQuality, by: Yardstick, rival: float | None = None
) -> QualityVerdict:
    return verdict_on({"alike": alike, "weighted": weighted}, by, rival)


def test_the_yardstick_is_what_fresh_rows_of_the_same_law_have_on_average() -> None:
    # E MMD^2 = (1 - k)(1/p + 1/m), k estimated without the pairs of a row with itself: over 400 pairs of
    # draws its own mean and MMD^2's agree within five standard errors.
    random, m, p = np.random.default_rng(0), 30, 20
    off = []
    for _ in range(400):
        validation, fresh = random.normal(size=(m, 2)), random.normal(size=(p, 2))
        expected = yardstick(mean_kernel(validation, validation, 0.5), m, p).expected
        assert expected is not None
        off.append(mmd2(fresh, validation, 0.5) - expected)
    assert abs(np.mean(off)) < 5 * np.std(off) / np.sqrt(len(off))


def test_one_row_is_no_yardstick() -> None:
    assert yardstick(1.0, 1, 10).expected is None
    assert judged(0.5, 0.5, yardstick(1.0, 1, 10)).grade == "fair"


@pytest.mark.parametrize(
    ("ratio", "grade"),
    [(0.1, "good"), (PROMISE, "good"), (1.01 * PROMISE, "fair"), (3.9, "fair"), (4.1, "poor")],
)
def test_the_grade_follows_the_ratio_to_fresh_rows(ratio: float, grade: str) -> None:
    # Of p fresh rows .005 to unseen rows; fair is FAIR times .01, the mean of p fresh rows to D_v.
    verdict = judged(ratio * 0.005, ratio * 0.005)
    assert verdict.grade == grade
    assert f"{ratio:.2g} times" in verdict.sentence
    assert verdict.grades == {"alike": grade, "weighted": grade}
    assert ("Train on" in verdict.advice) == (grade != "poor")


def test_weights_that_few_rows_carry_are_charged_for() -> None:
    # Measured on hospitals, Algorithm 3, seed 1: .0155 to D_v, twice greedy's to held-back rows, on 14 rows.
    by = Yardstick(spread=0.453, rows=100, validation_rows=74)
    assert of_forms(FormQuality(0.136, 100), FormQuality(0.0155, 14), by).grade == "poor"
    assert of_forms(FormQuality(0.136, 100), FormQuality(0.0155, 90), by).grade == "fair"
    assert verdict_on({"alike": FormQuality(0.01, 5)}, by).grade == "poor"  # five rows of the hundred


@pytest.mark.parametrize("spread", [0.1, 0.005, None])
def test_a_run_that_loses_to_uniform_rows_is_poor(spread: float | None) -> None:
    # However good the summary is otherwise.
    by = Yardstick(spread, 100, 100)
    verdict = judged(0.001, 0.001, by, rival=0.0007)
    assert verdict.grade == "poor"
    assert "uniform" in verdict.sentence
    assert judged(0.001, 0.001, by, rival=0.001) == judged(0.001, 0.001, by)


def test_rows_that_hold_d_v_by_a_few_of_them_are_not_said_to_miss_it() -> None:
    # Measured on police stops, p = 100: .0045 to D_v, and no farther from unseen rows than 100 fresh ones, on
    # 29 effective rows of about 100 like it that owners had.
    by = Yardstick(spread=0.53, rows=100, validation_rows=250)
    verdict = of_forms(FormQuality(0.089, 100), FormQuality(0.0045, 29), by)
    assert (verdict.grade, verdict.advice.split(":")[0]) == (
        "poor",
        "Few of the rows that came are like D_v, and carry the weights",
    )
    assert judged(0.05, 0.05).advice.startswith("The rows that came do not hold D_v")


def test_only_rows_of_d_v_that_were_held_out_make_a_form_good() -> None:
    # Measured at |D_v| 230, p 100: rows alike "good" by their distance to D_v, at 2.0 times fresh rows.
    fitted = FormQuality(0.001, 100)
    verdict = verdict_on({"alike": fitted}, BY)
    assert verdict.grade == "fair"
    assert "D_v has few rows" in verdict.advice
    fresh = 0.5 / 100
    for deviation, grade in ((0.4 / CERTAIN, "good"), (0.6 / CERTAIN, "fair")):
        form = FormQuality(0.001, 100, unseen=UnseenDistance(fresh, deviation * fresh))
        assert verdict_on({"alike": form}, BY).grade == grade


def test_a_run_behind_uniform_rows_by_less_than_noise_says_so() -> None:
    # Measured on hospitals, seed 0: .0017 against .0013 on D_v, .0091 against .0101 on held-back rows.
    verdict = judged(0.0037, 0.0017, rival=0.0013)
    assert verdict.grade == "good"
    assert "uniform rows with weights were as close" in verdict.sentence
    assert "uniform" not in judged(0.0037, 0.0017, rival=0.0017 / LOSS).sentence


def test_each_form_has_its_grade_and_two_lines_say_which_to_train_on() -> None:
    # Issue 37: "Good with weights: train on summary.csv, sample_weight = weight. Rows alike: poor"; nine of
    # fifty good or fair runs were judged by a form that `run.rows` was not.
    verdict = judged(0.05, 0.005)
    assert (verdict.grade, verdict.grades) == ("good", {"alike": "poor", "weighted": "good"})
    assert str(verdict).splitlines() == [
        f"Good with weights: {MEANINGS['good']}. Poor as rows alike.",
        "Next: Train on summary.csv, sample_weight = weight.",
    ]
    assert "<strong>Good</strong> with weights" in verdict._repr_html_()
    both = judged(0.006, 0.005)
    assert str(both).startswith("Good in every form: ")
    assert "alike = 1 do as well without weights" in both.advice
    alike = of_forms(equal(0.005, 100), FormQuality(0.005, 5), BY)
    assert (alike.grade, alike.advice) == ("good", "Train on the rows of summary.npz.")


def test_rows_that_are_all_equal_match_or_do_not() -> None:
    # k = 1 throughout D_v: the yardstick is 0, and only the same row again meets it.
    same = yardstick(1.0, 5, 3)
    assert same.expected == 0.0
    assert judged(0.0, 0.0, same).grade == "good"
    assert judged(0.1, 0.1, same).grade == "poor"


def test_grade_and_advice_hold_no_number_of_private_rows() -> None:
    # Both go to the log, and both lines to a consumer's output.
    for best in (0.001234, 0.02345, 0.3456):
        verdict = judged(1.5 * best, best, rival=0.3)
        assert not re.search(r"\d\.\d", str(verdict))


def test_rows_of_other_classes_than_those_of_d_v_are_not_good() -> None:
    # The kernel knows no label: for 200 cases of fraud, 1 % of the owners' rows, 60 rows came of which
    # a third were none, "Good: .1 times that of fresh rows".
    cases, mixed = np.ones(200, np.int64), np.repeat([0, 1], (19, 41))
    apart = classes_apart(mixed, None, cases, 60)
    verdict = verdict_on({"alike": equal(0.0009, 60, apart)}, Yardstick(0.5, 60, 200))
    assert verdict.grade == "poor"
    assert "shares of classes differ" in verdict.sentence
    assert "classes" in verdict.advice
    weights = np.repeat([0.0, 1.0], (19, 41)) / 41
    assert classes_apart(mixed, weights, cases, 60) == pytest.approx(0.0, abs=1e-12)
    assert classes_apart(cases, None, None, 60) == 0.0


def test_rows_that_lost_their_label_are_no_training_data() -> None:
    # One owner had no label, so that no row had one, and the screen said "Good. Train on summary.csv".
    apart = classes_apart(None, None, np.ones(200, np.int64), 60)
    verdict = verdict_on({"alike": equal(0.0009, 60, apart)}, Yardstick(0.5, 60, 200))
    assert verdict.grade == "fair"
    assert "no row came with its label" in str(verdict)
    assert "Train on" not in str(verdict)
    assert "without the owners that have no labels" in str(verdict)
