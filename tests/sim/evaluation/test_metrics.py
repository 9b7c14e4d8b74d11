"""metrics.json: the stable keys of DESIGN.md, and that its numbers add up."""

from __future__ import annotations

import asyncio
import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from consumer.summary.evaluation import Evaluation
from consumer.summary.verdict import FormQuality, Yardstick, verdict_on
from curator.run.summary_record import SummaryRecord, write_run
from fedkme.errors import OwnerLostError
from fedkme.ledgers.ledger_set import read_ledgers
from fedkme.ledgers.statements import statements
from owner.runs import RunManager
from sim.config import Baseline, SimulationSettings, SummaryTable
from sim.engines.inprocess import InProcessMarket, KeptRecords, run_in_process
from sim.engines.loopback import Loopback
from sim.engines.run_folder import write_ledgers
from sim.evaluation.baselines import BaselineResult
from sim.evaluation.metrics import (
    Metrics,
    assemble,
    over_greedy,
    payouts,
    read_rounds,
    with_reading,
    write_metrics,
)
from sim.scenarios.images import Digits
from tests.curator.summary.fakes import owners, small_market, table

P = 5
STABLE = {
    *("engine", "seed", "K", "p", "rounds", "points_accessed", "mmd2", "downstream", "privacy"),
    *("timing", "bytes", "payouts"),
}
OURS = {
    *("status", "reason", "code", "scenario", "protocol", "gamma", "dimension", "faults", "curator_only"),
    *("mmd2_counted", "mmd2_test", "percent_over_greedy", "percent_over_greedy_counted"),
    *("plan", "cells", "points_accessed_baselines", "downstream_baselines", "privacy_published"),
    *("effective", "verdict"),
}
STABLE_PARTS = {
    "points_accessed": {"total", "by_owner", "wasted", "rho", "bound"},
    "timing": {"startup_s", "round_p50_ms", "round_p99_ms", "total_s"},
    "bytes": {"sent", "received"},
}
OUR_PARTS = {
    "points_accessed": {"by_round", "validation_points", "owners_agree"},
    "timing": {"launch_s"},
    "bytes": set(),
}
STATEMENT = {"protected", "observer", "accountant", "epsilon", "delta", "neighbouring", "raw_points"}
TIMING = {"startup_s": 1.0, "launch_s": 1.5, "total_s": 2.0}
EVALUATION = Evaluation(mmd2=0.3, mmd2_test=None, mmd2_counted=0.4, downstream={"linear_svm": 0.9})
FORMS = {
    "effective": 5.0,
    "weighted": asdict(EVALUATION) | {"mmd2": 0.1, "mmd2_counted": None, "effective": 3.5},
    "repeats": asdict(EVALUATION) | {"mmd2": 0.2, "effective": 3.0},
    "spread": 0.2,
}
"""Further entries of a consumer's evaluation.json."""
GREEDY = Evaluation(mmd2=0.2, mmd2_test=None, mmd2_counted=0.25, downstream={})
BASELINES: dict[Baseline, BaselineResult] = {"greedy": BaselineResult(GREEDY, P)}


class Mortal(RunManager):
    """An owner that is gone after it was asked some questions, and ever after."""

    left = 0

    def answer(self, directive: Any) -> Any:
        self.left -= 1
        if self.left < 0:
            raise OwnerLostError("a: its connection ended", "Start it again.")
        return super().answer(directive)


def metrics_of(
    directory: Path,
    market: InProcessMarket,
    baselines: dict[Baseline, BaselineResult] = BASELINES,
    **changes: Any,
) -> tuple[Metrics, SummaryRecord]:
    """Metrics of a run of 5 rows, by the files that it leaves; |D_v| = 6."""
    summary = SummaryTable.model_validate({"p": P, **changes})
    settings = SimulationSettings(scenario=Digits(), summary=summary, engine="inprocess", seed=4)
    records, parts = KeptRecords(), (summary.curator_part(), summary.consumer_part())
    asyncio.run(run_in_process(market, table(6, 8), *parts, records))
    record = records.summary
    assert record is not None
    write_ledgers(directory, market.stores())
    write_run(directory, record, records.facts)
    on_disk = json.loads((directory / "record.json").read_text())
    evaluation = asdict(EVALUATION) | FORMS if record.selected else None
    results = baselines if record.selected else {}
    facts = (settings.chosen(on_disk), on_disk, read_rounds(directory), evaluation, results, TIMING)
    metrics = assemble(*facts, statements(read_ledgers([directory]), 1e-5), ("weight", "alike"))
    write_metrics(directory, metrics)
    assert json.loads((directory / "metrics.json").read_text()) == metrics
    return metrics, record


@pytest.mark.parametrize("protocol", ["algorithm3", "uniform"])
def test_metrics_have_the_keys_of_the_design_and_ours(protocol: str, tmp_path: Path) -> None:
    # DESIGN.md, Command line: "`metrics.json` keys (stable)"; ours are explained in docs/metrics.md.
    metrics, _ = metrics_of(tmp_path, small_market(owners(9, 4), 4), protocol=protocol)
    assert metrics.keys() == STABLE | OURS
    for name, keys in STABLE_PARTS.items():
        assert metrics[name].keys() == keys | OUR_PARTS[name]
    for statement in metrics["privacy"]:
        assert statement.keys() == STATEMENT | {"reason", "unit", "whole_set"}


@pytest.mark.parametrize("share", ["embedding", "rows"])
def test_the_numbers_add_up(share: str, tmp_path: Path) -> None:
    # DESIGN.md, Words: rho = points accessed / (p + |D_v|).
    metrics, record = metrics_of(tmp_path, small_market(owners(9, 4), 4), share=share, preset="published")
    points, counts = metrics["points_accessed"], record.accessed_by_owner()
    sent = len(record.accesses)
    assert points["by_owner"] == counts == record.closings
    assert points["owners_agree"] is True
    assert sum(points["by_round"]) == sent == points["wasted"] + P
    assert points["validation_points"] == (6 if share == "rows" else 0)
    assert points["total"] == sent + points["validation_points"]
    assert points["rho"] == points["total"] / (P + 6)
    assert points["bound"] > 2 * P  # Lemma 5 at the paper's parameters is above K p for small K
    assert (metrics["K"], metrics["p"], metrics["rounds"]) == (2, P, P)
    assert (metrics["status"], metrics["reason"], metrics["faults"]) == ("complete", None, [])
    assert (metrics["engine"], metrics["seed"], metrics["scenario"]) == ("inprocess", 4, "digits")
    assert metrics["payouts"] == {name: count / sent for name, count in counts.items()}
    assert sum(metrics["payouts"].values()) == pytest.approx(1)
    gains = sum(row.gain for row in record.selected)
    assert sum(metrics["curator_only"]["value_by_owner"].values()) == pytest.approx(gains)
    assert 0 < metrics["timing"]["round_p50_ms"] <= metrics["timing"]["round_p99_ms"]


def test_baselines_stand_beside_the_summary(tmp_path: Path) -> None:
    # Section 4: percentage over greedy, of both measures (MATH.md, "Always report both measures").
    metrics, _ = metrics_of(tmp_path, small_market(owners(9, 4), 4))
    forms = {"summary_weighted": 0.1, "summary_repeats": 0.2}
    assert metrics["mmd2"] == {"summary": 0.3, "greedy": 0.2} | forms
    assert metrics["effective"] == {"summary": 5.0, "summary_weighted": 3.5, "summary_repeats": 3.0}
    alike, weighted, repeats = FormQuality(0.3), FormQuality(0.1), FormQuality(0.2)
    qualities = {"weighted": weighted, "repeats": repeats, "alike": alike}
    assert metrics["verdict"] == asdict(verdict_on(qualities, Yardstick(0.2, P, 6)))
    assert metrics["mmd2_counted"] == {"summary": 0.4, "greedy": 0.25, "summary_repeats": 0.4}
    assert metrics["mmd2_test"] == {}
    over = {"summary": pytest.approx(50), "summary_weighted": pytest.approx(-50), "summary_repeats": 0.0}
    assert metrics["percent_over_greedy"] == over
    counted = {"summary": pytest.approx(60), "summary_repeats": pytest.approx(60)}
    assert metrics["percent_over_greedy_counted"] == counted
    assert metrics["downstream"] == {"linear_svm": 0.9}
    assert metrics["downstream_baselines"] == {name: {"linear_svm": 0.9} for name in forms}
    assert metrics["points_accessed_baselines"] == {"greedy": P}


@pytest.mark.parametrize("name", ["winner_only", "ask_everyone"])
def test_two_baselines_that_select_the_same_rows_are_one(name: Baseline, tmp_path: Path) -> None:
    # They always showed the same MMD^2; what they differ in is the rows accessed.
    both: dict[Baseline, BaselineResult] = {
        "winner_only": BaselineResult(GREEDY, P),
        "ask_everyone": BaselineResult(GREEDY, 3 * P),
    }
    metrics, _ = metrics_of(tmp_path, small_market(owners(9, 4), 4), both)
    assert metrics["points_accessed_baselines"] == {"winner_only": P, "ask_everyone": 3 * P}
    for key in ("mmd2", "mmd2_counted"):
        assert metrics[key].keys() & both.keys() == {"winner_only"}
    alone, _ = metrics_of(tmp_path, small_market(owners(9, 4), 4), {name: both[name]})
    assert alone["mmd2"].keys() & both.keys() == {name}


@pytest.mark.parametrize("rounds", [0, 2])
def test_a_run_cut_short_has_metrics_too(rounds: int, tmp_path: Path) -> None:
    # It stops, keeping what it has; no key is missing and nothing is NaN.
    market = small_market({"a": table(9, 1)}, 4)
    mortal = Mortal(market.owners["a"])
    # It says that it will take part; then its opening, and a bid and a row each round.
    mortal.left = 2 + 2 * rounds if rounds else 1
    connection = market.members.connection("a")
    assert isinstance(connection, Loopback)
    connection.runs = mortal
    metrics, _ = metrics_of(tmp_path, market, preset="published")
    assert metrics.keys() == STABLE | OURS
    assert metrics["status"] == "stopped"
    assert "quorum" in metrics["reason"]
    assert metrics["rounds"] == len(metrics["points_accessed"]["by_round"]) == rounds
    assert [fault["code"] for fault in metrics["faults"]] == [23]
    assert metrics["payouts"] == ({"a": 1.0} if rounds else {})


@given(st.dictionaries(st.text("abc", max_size=2), st.integers(0, 99), min_size=1))
def test_payouts_are_shares_of_the_rows_sent(accessed: dict[str, int]) -> None:
    # Payouts to owners go by rows sent; nobody who sent nothing is paid.
    paid = payouts(accessed)
    assert paid.keys() == accessed.keys()
    assert sum(paid.values()) == pytest.approx(1 if any(accessed.values()) else 0)
    assert all((share > 0) == (accessed[name] > 0) for name, share in paid.items())


def test_percent_over_greedy() -> None:
    assert over_greedy({"greedy": 0.5, "summary": 0.75, "exact_greedy": 0.25}) == {
        "summary": 50.0,
        "exact_greedy": -50.0,
    }
    assert over_greedy({"summary": 0.75}) == {}
    assert over_greedy({"greedy": 0.0, "summary": 0.75}) == {}


def test_owners_that_refused_from_the_start_are_counted_among_all() -> None:
    # Of three owners one refused: the verdict said "1 of 2 owners dropped out".
    verdict = {"grade": "good", "sentence": "", "advice": "", "grades": {}}
    metrics = {"faults": [{"owner": "n"}], "K": 2, "verdict": verdict}
    metrics |= {"points_accessed": {"by_owner": {"s": 3, "w": 4}}}
    assert with_reading(metrics, {})["verdict"]["doubts"] == ["1 of 3 owners dropped out (n)"]
