"""Lines with which a run ends on a terminal: the first ones, and the table of `--details`."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any

import pytest
from rich.console import Console

from fedkme.verdict import MEANINGS, at_most_fair
from sim.report.write import print_outcome, print_summary
from tests.sim.report.sample import BARE, sample_metrics


def printed(
    metrics: dict[str, Any], width: int, show: Callable[[dict[str, Any], Console], None] = print_summary
) -> list[str]:
    stream = io.StringIO()
    show(metrics, Console(file=stream, width=width))
    return stream.getvalue().splitlines()


@pytest.mark.parametrize("width", [80, 100, 200])
def test_the_final_table_is_plain_text_that_fits(width: int) -> None:
    # Brief: must fit 100 columns (80 where there are no more) and read well without a terminal.
    lines = printed(sample_metrics(), width)
    assert max(map(len, lines)) <= min(width, 100)
    assert all(line.isascii() and "\x1b" not in line for line in lines)
    this_run = next(line.split() for line in lines if "this run" in line)
    assert this_run == ["this", "run", "0.0216", "+8.0", "%", "0.0310", "0.0250", "98.1%", "97.3%"]
    text = "\n".join(lines)
    for expected in ("digits: complete, 20 rows, 3 owners", "60 (40 never used)", "rho 0.75", "81.5"):
        assert expected in text
    assert "D_v against owners, sound: epsilon inf (the winner is asked)" in text
    assert "3.91 ms median" in text


def test_the_final_lines_of_a_run_that_gathered_nothing() -> None:
    metrics = BARE | {"status": "stopped", "reason": "quorum", "scenario": "[red]x", "rounds": 0}
    for shown in (print_summary, print_outcome):
        assert printed(metrics, 100, shown) == ["[red]x: stopped (quorum), 0 of 20 rows, 3 owners"]


def test_a_run_ends_with_a_few_lines_for_a_first_reader() -> None:
    # Issue 37: what came out, how good it is, who saw what; the tables come with --details.
    worse = {"accountant": "sound", "protected": "north", "observer": "curator", "delta": 0.0}
    privacy = [
        worse | {"epsilon": 1.0, "raw_points": 5, "reason": "PLD"},
        worse | {"epsilon": "inf", "raw_points": 2, "reason": "rows are seen as they are"},
        worse | {"epsilon": 0.5, "raw_points": 0, "protected": "D_v", "observer": "owners", "reason": "PLD"},
        worse | {"epsilon": 9.0, "raw_points": 0, "accountant": "published"},
    ]
    change = {"what": "empty", "cells": 3, "column": "a", "party": "north", "extremes": []}
    grades = {"weighted": "good", "repeats": "fair", "alike": "poor"}
    verdict = {"grade": "good", "sentence": "MMD^2 is 1", "advice": "Train on weights.", "grades": grades}
    metrics = sample_metrics(
        privacy=privacy,
        verdict=verdict,
        downstream={"linear_svm": 0.125},
        downstream_baselines={
            "summary_weighted": {"linear_svm": 0.5},
            "uniform": {"linear_svm": 0.125},
            "uniform_weighted": {"linear_svm": 0.25},
        },
        reading={"parties": 2, "left_out": {}, "changes": [change, change | {"party": "south"}]},
    )
    first, *rest = printed(metrics, 100, print_outcome)
    assert first.startswith("digits: complete, 20 rows, 3 owners")
    expected = [
        f"Good with weights: {MEANINGS['good']}. Fair with repeats. Poor as rows alike.",
        "Next: Train on weights.",
        "Right on test rows when trained on these rows with weights: linear SVM 50.0%; as many rows drawn at "
        "random, with weights: 25.0%.",
        "Rows seen as they are: owners' rows by curator 7; D_v by owners 0.",
        "Epsilon (inf: no bound): owners' rows to curator inf; D_v to owners 0.5.",
        "6 cells were changed while reading: empty. Which: report.html.",
    ]
    assert " ".join(rest) == " ".join(expected)
    doubted = metrics | {"verdict": at_most_fair(verdict, ["1 owner dropped out"])}
    text = " ".join(printed(doubted, 100, print_outcome))
    # A good form in doubt was "usable, but ... fresh rows ... would be nearer", which nothing supports.
    assert "Fair with weights and with repeats: usable. Poor" in text
    assert "Poor as rows alike. At most fair, because 1 owner dropped out. Next: " in text
    old = {"grade": "fair", "sentence": "close", "advice": ""}  # of an earlier fedkme
    bare = metrics | {"downstream": {}, "mmd2": {"summary": 0.25, "uniform": 0.5}, "verdict": old}
    text = " ".join(printed(bare, 100, print_outcome))
    assert "Fair: close. Squared distance to D_v (MMD^2): 0.250; as many rows drawn at random: 0.500." in text


def test_rows_seen_as_they_are_are_summed_on_the_terminal() -> None:
    # The page has a line per owner and observer; with fifty owners a terminal has room for their sum.
    entry = sample_metrics()["privacy"][0] | {"observer": "curator", "raw_points": 7, "epsilon": "inf"}
    lines = printed(sample_metrics(privacy=[entry] * 50), 100)
    (seen,) = [line for line in " ".join(lines).split("against")[1:] if "rows seen" in line]
    assert "rows seen: 350" in seen
