"""consumer.summary.verdict: good, fair, poor or "cannot tell", by what a consumer can know."""

from __future__ import annotations

import re

import numpy as np
import pytest

from consumer.summary.judging import classes_apart
from consumer.summary.verdict import (
    CERTAIN,
    FAIR_PROMISE,
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
    """Judge rows of equal weight and a weighted form, as far from unseen rows as from D_v."""
    return of_forms(equal(alike), equal(best), by, rival)


def equal(mmd2: float, apart: float | None = 0.0) -> FormQuality:
    """Quality of a form whose MMD^2 to unseen rows is known to be that to D_v."""
    return FormQuality(mmd2, apart, UnseenDistance(mmd2, 0.0))


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
    verdict = judged(0.5, 0.5, yardstick(1.0, 1, 10))
    assert verdict.grade == "cannot tell"
    assert "no yardstick" in verdict.sentence


@pytest.mark.parametrize(
    ("ratio", "grade"),
    [
        (0.1, "good"),
        (PROMISE, "good"),
        (1.01 * PROMISE, "fair"),
        (FAIR_PROMISE, "fair"),
        (1.01 * FAIR_PROMISE, "poor"),
    ],
)
def test_the_grade_follows_the_ratio_to_fresh_rows(ratio: float, grade: str) -> None:
    # p fresh rows have .005 to unseen rows.
    verdict = judged(ratio * 0.005, ratio * 0.005)
    assert verdict.grade == grade
    assert f"{ratio:.2g} times" in verdict.sentence
    assert verdict.grades == {"alike": grade, "weighted": grade}
    assert ("Train on" in verdict.advice) == (grade != "poor")


@pytest.mark.parametrize(
    ("deviation", "grade"), [(0.1, "fair"), (0.9, "fair"), (1.0, "cannot tell"), (3.0, "cannot tell")]
)
def test_what_no_test_shows_is_told(deviation: float, grade: str) -> None:
    # Of 112 forms called fair by an estimate alone 12 were beyond 2.5 times fresh rows, the worst 4.66.
    near = FormQuality(0.001, 0.0, UnseenDistance(1.45 * 0.005, deviation * 0.005))
    verdict = verdict_on({"alike": near}, BY)
    assert verdict.grade == grade
    if grade == "cannot tell":
        assert str(verdict).startswith("Cannot tell as rows alike: the consumer has too few rows")
        assert "more of them" in verdict.advice
        assert "<strong>Cannot tell</strong> as rows" in verdict._repr_html_()
        both = verdict_on({"alike": near, "weighted": near}, BY)
        assert str(both).startswith("Cannot tell in any form: ")


def test_a_form_that_an_estimate_beyond_good_does_not_show_to_be_far_is_not_poor() -> None:
    # The interval has both sides of what good promises: neither good, nor fair, nor shown to be far.
    far = {deviation: UnseenDistance(2.9 * 0.005, deviation * 0.005, 0.2 * 0.005) for deviation in (0.7, 0.8)}
    grades = [verdict_on({"alike": FormQuality(0.01, 0.0, unseen)}, BY).grade for unseen in far.values()]
    assert grades == ["poor", "cannot tell"]


def test_few_rows_of_d_v_show_only_that_a_form_is_far() -> None:
    # d of a form is at least 1.5 times fresh rows' and what D_v's mean is from its law, once in twenty.
    few = Yardstick(spread=0.5, rows=100, validation_rows=20)
    for far, grade in ((0.001, "cannot tell"), (0.15, "cannot tell"), (0.16, "poor")):
        assert verdict_on({"alike": FormQuality(far)}, few).grade == grade


def test_d_v_of_few_rows_seldom_calls_rows_of_its_own_law_poor() -> None:
    # Two columns, of which one is nearly all of the kernel's variance, the worst case of the bound.
    random, poor = np.random.default_rng(0), 0
    for _ in range(200):
        validation, fresh = (random.normal(size=(size, 2)) * (3.0, 0.01) for size in (20, 100))
        by = yardstick(mean_kernel(validation, validation, 0.01), 20, 100)
        poor += verdict_on({"alike": FormQuality(mmd2(fresh, validation, 0.01))}, by).grade == "poor"
    assert poor <= 20  # of 10 at most on average, more once in five hundred


@pytest.mark.parametrize("spread", [0.1, 0.005, None])
def test_a_run_that_loses_to_uniform_rows_is_poor(spread: float | None) -> None:
    # However good the summary is otherwise.
    by = Yardstick(spread, 100, 100)
    verdict = judged(0.001, 0.001, by, rival=0.0007)
    assert verdict.grade == "poor"
    assert "uniform" in verdict.sentence
    assert judged(0.001, 0.001, by, rival=0.001) == judged(0.001, 0.001, by)


def test_rows_that_hold_d_v_by_a_few_of_them_are_not_said_to_miss_it() -> None:
    # Near D_v itself by weights that few rows carry, and far from rows that nobody has seen.
    by = Yardstick(spread=0.53, rows=100, validation_rows=250)
    fitted = FormQuality(0.0045, 0.0, UnseenDistance(0.03, 0.001))
    verdict = of_forms(FormQuality(0.089), fitted, by)
    assert (verdict.grade, verdict.advice.split(":")[0]) == (
        "poor",
        "Few of the rows that came are like D_v, and carry the weights",
    )
    assert judged(0.05, 0.05).advice.startswith("The rows that came do not hold D_v")


def test_only_rows_of_d_v_that_were_held_out_make_a_form_good() -> None:
    # Measured at |D_v| 230, p 100: rows alike "good" by their distance to D_v, at 2.0 times fresh rows.
    fitted = FormQuality(0.001)
    verdict = verdict_on({"alike": fitted}, BY)
    assert verdict.grade == "cannot tell"
    assert "D_v has few rows" in verdict.advice
    fresh = 0.5 / 100
    for deviation, grade in ((0.4 / CERTAIN, "good"), (0.6 / CERTAIN, "fair")):
        form = FormQuality(0.001, unseen=UnseenDistance(fresh, deviation * fresh))
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
    alike = of_forms(equal(0.005), FormQuality(0.005), BY)
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
    verdict = verdict_on({"alike": equal(0.0009, apart)}, Yardstick(0.5, 60, 200))
    assert verdict.grade == "poor"
    assert "shares of classes differ" in verdict.sentence
    assert "classes" in verdict.advice
    weights = np.repeat([0.0, 1.0], (19, 41)) / 41
    assert classes_apart(mixed, weights, cases, 60) == pytest.approx(0.0, abs=1e-12)
    assert classes_apart(cases, None, None, 60) == 0.0


def test_rows_that_lost_their_label_are_no_training_data() -> None:
    # One owner had no label, so that no row had one, and the screen said "Good. Train on summary.csv".
    apart = classes_apart(None, None, np.ones(200, np.int64), 60)
    verdict = verdict_on({"alike": equal(0.0009, apart)}, Yardstick(0.5, 60, 200))
    assert verdict.grade == "fair"
    assert "no row came with its label" in str(verdict)
    assert "Train on" not in str(verdict)
    assert "without the owners that have no labels" in str(verdict)
