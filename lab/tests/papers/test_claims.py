"""Claims, curves and verdicts, from measurements that are written down here."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest

from lab.experiments.curves import CurveValue, claimed_curve, curves_of, holds, overall, write_csv
from lab.experiments.paper import PaperClaim, figure_of, method_title
from lab.papers.figures import draw
from lab.papers.measurements import of_access, of_summaries
from lab.papers.summaries import NAMES
from lab.papers.verdict import verdict

FIG1 = figure_of("sarpatwar-fig1")


def claim(**changes: Any) -> PaperClaim:
    values = {
        "text": "words",
        "panel": "accuracy",
        "method": "published",
        "minus": "uniform",
        "over": "every",
    }
    return PaperClaim.model_validate(values | changes)


def drawn(accuracies: dict[str, dict[tuple[int, int], float]]) -> list[CurveValue]:
    return [
        CurveValue("accuracy", method, p, seed, value)
        for method, values in accuracies.items()
        for (p, seed), value in values.items()
    ]


MEASURED = drawn(
    {
        "published": {(50, 0): 70.0, (50, 1): 80.0, (100, 0): 90.0},
        "uniform": {(50, 0): 62.0, (50, 1): 76.0, (100, 0): 92.0},
    }
)


def test_methods_are_compared_draw_by_draw() -> None:
    curve = claimed_curve(MEASURED, claim())
    assert {x: point.mean for x, point in curve.items()} == {50: 6.0, 100: -2.0}
    assert math.isclose(curve[50].error, 2.0)  # of the differences 8 and 4, not of the levels
    assert overall(curve) == 2.0
    ratio = claimed_curve(MEASURED, claim(minus="", times="uniform"))
    assert math.isclose(ratio[100].mean, 90 / 92)


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"low": 0}, False),
        ({"low": -2}, True),
        ({"low": 0, "over": "mean"}, True),
        ({"low": 0, "over": "most"}, False),  # one of two is not most
        ({"low": -3, "high": 6, "over": "most"}, True),
        ({"method": "sound", "low": -99}, False),  # what was not measured is not shown
    ],
)
def test_a_claim_holds_or_does_not(changes: dict[str, Any], expected: bool) -> None:
    compared = claim(**changes)
    assert holds(compared, claimed_curve(MEASURED, compared)) is expected


@pytest.mark.parametrize(("low", "errors", "expected"), [(9, 1, False), (9, 2, True), (11, 2, False)])
def test_a_claim_may_fail_by_noise_alone(low: float, errors: float, expected: bool) -> None:
    at_50 = [each for each in MEASURED if each.x == 50]  # 6 with a standard error of 2
    for over in ("every", "mean"):
        compared = claim(low=low, over=over)
        assert holds(compared, claimed_curve(at_50, compared), errors) is expected


@pytest.mark.parametrize("name", NAMES)
def test_every_claim_is_about_methods_with_a_title(name: str) -> None:
    # The paper's numbers are data; each verdict says why ours may differ.
    figure = figure_of(name)
    assert figure.claims
    assert figure.reasons
    methods = {each for one in figure.claims for each in (one.method, one.minus, one.times) if each}
    assert all(method_title(method) for method in methods)
    assert all(math.isfinite(one.low) or math.isfinite(one.high) for one in figure.claims)


def test_the_verdict_follows_the_numbers() -> None:
    text = verdict(FIG1, MEASURED, "Ran: a test.")
    assert "0 of 1 claims hold" in text
    assert "3 of 4 claims: not measured" in text
    assert "| 2 (p = 50: 6 ± 2; p = 100: -2) | **no** |" in text
    assert "What differs" in text
    better = drawn({"published": {(50, 0): 78.0}, "uniform": {(50, 0): 70.0}, "greedy": {(50, 0): 79.0}})
    assert "2 of 2 claims hold" in verdict(FIG1, better, "")
    assert "not measured" in text


@pytest.mark.long
def test_curves_are_drawn_and_written(tmp_path: Path) -> None:
    first = draw(FIG1, MEASURED, tmp_path / "curves")
    content = [path.read_bytes() for path in first]
    assert [path.suffix for path in first] == [".svg", ".png"]
    assert b"as published" in content[0]
    assert content[1].startswith(b"\x89PNG")
    assert [path.read_bytes() for path in draw(FIG1, MEASURED, tmp_path / "curves")] == content
    write_csv(tmp_path / "m.csv", MEASURED)
    lines = (tmp_path / "m.csv").read_text().splitlines()
    assert lines[:2] == ["panel,method,x,seed,value", "accuracy,published,50,0,70.0"]
    assert len(lines) == 7


def test_summaries_are_measured_against_greedy_of_their_draw() -> None:
    common: dict[str, Any] = {"p": 50, "mmd2_counted.summary": 1.0, "downstream.linear_svm": 0.5}
    published = common | {
        "protocol": "algorithm3",
        "set.protocol": "algorithm3",
        "set.preset": "published",
        **{f"{name}.{method}": 2.0 for name in ("mmd2", "mmd2_counted") for method in ("greedy", "uniform")},
        "downstream_baselines.greedy.linear_svm": 0.75,
    }
    rows: list[dict[str, Any]] = [
        published | {"seed": 0, "mmd2.summary": 3.0},
        published | {"seed": 1, "mmd2.summary": 3.0, "mmd2.greedy": 1.0},
        common | {"seed": 1, "protocol": "cells", "set.protocol": "cells", "mmd2.summary": 0.5},
        {"seed": 2, "code": 20},
    ]
    curves = curves_of(of_summaries(FIG1, rows), "mmd2")
    assert {method: curve[50].mean for method, curve in curves.items()} == {
        "published": 125.0,  # 50 % over greedy's 2, and 200 % over 1
        "cells": -50.0,
        "greedy": 0.0,
        "uniform": 50.0,
    }
    accuracies = curves_of(of_summaries(FIG1, rows), "accuracy")
    assert {method: curve[50].mean for method, curve in accuracies.items()} == {
        "published": 50.0,
        "cells": 50.0,
        "greedy": 75.0,
    }


def test_access_is_measured_beside_the_bounds() -> None:
    rows = [
        {"set.preset": "published", "K": K, "p": 10, "seed": 0, **accessed}
        for K in (8, 64)
        for accessed in [{"points_accessed.total": 10 * K, "points_accessed.bound": 1000.0}]
    ]
    measured = of_access(rows)
    per_row = {method: dict(curve) for method, curve in curves_of(measured, "per_row").items()}
    assert per_row["published"][64].mean == per_row["everyone"][64].mean == 64
    assert math.isclose(per_row["cube_root"][64].mean, 4.0)
    assert math.isclose(per_row["lemma5"][8].mean, 2 * 30.307, rel_tol=1e-3)
    assert math.isclose(curves_of(measured, "exponent")["published"][10].mean, 1.0)
