"""consumer.summary.verdict: good, fair or poor beside what a consumer can know (issue 13, item 2)."""

from __future__ import annotations

import re

import numpy as np
import pytest

from consumer.summary.verdict import FAIR, GOOD, LOSS, expected_mmd2, verdict_on
from fedkme.embeddings.kernels import mean_kernel
from fedkme.embeddings.mmd import mmd2


def test_the_yardstick_is_what_fresh_rows_of_the_same_law_have_on_average() -> None:
    # E MMD^2 = (1 - k)(1/p + 1/m), k estimated without the pairs of a row with itself: over 400 pairs of
    # draws its own mean and MMD^2's agree within five standard errors.
    random, m, p = np.random.default_rng(0), 30, 20
    off = []
    for _ in range(400):
        validation, fresh = random.normal(size=(m, 2)), random.normal(size=(p, 2))
        expected = expected_mmd2(mean_kernel(validation, validation, 0.5), m, p)
        assert expected is not None
        off.append(mmd2(fresh, validation, 0.5) - expected)
    assert abs(np.mean(off)) < 5 * np.std(off) / np.sqrt(len(off))


def test_one_row_is_no_yardstick() -> None:
    assert expected_mmd2(1.0, 1, 10) is None
    assert verdict_on(0.5, 0.5, None).grade == "fair"


@pytest.mark.parametrize(
    ("ratio", "grade"), [(0.1, "good"), (GOOD, "good"), (1.01 * GOOD, "fair"), (FAIR, "fair"), (3.1, "poor")]
)
def test_grades(ratio: float, grade: str) -> None:
    found = verdict_on(ratio * 0.01, ratio * 0.01, 0.01)
    assert found.grade == grade
    assert f"{ratio:.2g} times" in found.sentence
    assert bool(found.advice) == (grade != "good")


@pytest.mark.parametrize("expected", [0.01, 1e-4, None])
def test_a_run_that_loses_to_uniform_rows_is_never_silent(expected: float | None) -> None:
    # "A silent result that loses to doing nothing never happens", however good it is otherwise.
    assert verdict_on(0.001, 0.001, expected, rival=0.001 / LOSS / 1.01).grade == "poor"
    assert "uniform" in verdict_on(0.001, 0.001, expected, rival=0.001 / LOSS / 1.01).sentence
    assert verdict_on(0.001, 0.001, expected, rival=0.001) == verdict_on(0.001, 0.001, expected)


def test_who_needs_weights_is_told() -> None:
    assert verdict_on(0.05, 0.005, 0.01).grade == "good"
    assert "weighted.npz" in verdict_on(0.05, 0.005, 0.01).advice
    assert not verdict_on(0.006, 0.005, 0.01).advice


def test_rows_that_are_all_equal_match_or_do_not() -> None:
    # k = 1 throughout D_v: the yardstick is 0, and only the same row again meets it.
    assert expected_mmd2(1.0, 5, 3) == 0.0
    assert verdict_on(0.0, 0.0, 0.0).grade == "good"
    assert verdict_on(0.1, 0.1, 0.0).grade == "poor"


def test_grade_and_advice_hold_no_number_of_private_rows() -> None:
    # They go to the log (issue 12, A7).
    for best in (0.001234, 0.02345, 0.3456):
        found = verdict_on(1.5 * best, best, 0.01, rival=0.3)
        assert not re.search(r"\d\.\d", found.advice + found.grade)
