"""Baselines that a summary is compared with: issue 2, item 4 and item 8."""

from __future__ import annotations

import asyncio
from typing import get_args

import numpy as np
import pytest

from curator.summary.auctions.base import AskEveryoneSettings, WinnerOnlySettings
from curator.summary.auctions.clock import ClockSettings
from fedkme.embeddings.mmd import mmd2
from fedkme.privacy.settings import ExactSettings
from fedkme.tables.table import Table, joined
from sim.arguments import ComparedWith
from sim.config import Baseline, SimulationSettings, SummaryTable, compared_with
from sim.engines.inprocess import KeptRecords, market_of, run_in_process
from sim.evaluation.baselines import BaselineResult, altered, run_baselines
from sim.scenarios.base import Scenario
from sim.scenarios.images import Digits
from tests.curator.summary.fakes import SCHEMA, owners, table

P = 12
TABLE = SummaryTable.model_validate(
    {
        "protocol": "algorithm3",
        "p": P,
        "kernel": {"gamma": 2.0},
        "quorum": 2,
        "seed_set": "subtracted",
        "features": {"dimension": 64},
    }
)
CORNER = Table(0.3 * table(25, 50).values)
SCENARIO = Scenario("digits", SCHEMA, owners(30, 20, 10), CORNER, table(0, 0), table(8, 51))


def simulation(summary: SummaryTable, *baselines: Baseline) -> SimulationSettings:
    return SimulationSettings(scenario=Digits(), summary=summary, downstream=False, baselines=baselines)


def results(summary: SummaryTable, *baselines: Baseline) -> dict[Baseline, BaselineResult]:
    return asyncio.run(run_baselines(SCENARIO, simulation(summary, *baselines), 2.0, 3 * P))


def test_a_baseline_changes_its_own_rule_and_nothing_else() -> None:
    # Item 4: greedy = exact averages of h1; winner only and ask everyone = this run's h2, another auction.
    exact = ExactSettings()
    rules: dict[str, object] = {"protocol": "algorithm3"}
    greedy = rules | {"broadcast": exact, "target": exact, "auction": WinnerOnlySettings()}
    expected: dict[Baseline, dict[str, object]] = {
        "greedy": greedy,
        "winner_only": rules | {"auction": WinnerOnlySettings()},
        "ask_everyone": rules | {"auction": AskEveryoneSettings()},
        "uniform": {"protocol": "uniform", "uniform_ratio": 1.0},
    }
    drawn = TABLE.model_copy(update={"protocol": "uniform"})  # a run may itself be uniform
    for table_of_run in (TABLE, drawn):
        for name, changes in expected.items():
            assert altered(table_of_run, name) == table_of_run.model_copy(update=changes)
    assert isinstance(TABLE.auction, ClockSettings)


def test_every_baseline_costs_the_rows_that_its_rule_says() -> None:
    # Item 8: points accessed of every baseline. Exact-kernel greedy needs every row in one place.
    by_name = results(TABLE, *get_args(Baseline))
    assert list(by_name) == list(get_args(Baseline))
    accessed = {name: result.points_accessed for name, result in by_name.items()}
    assert 3 * P >= accessed.pop("ask_everyone") > P
    # Uniform rows with weights: as many as the run accessed. All rows there are are 60.
    drawn = {"uniform_pruned": 2 * P, "uniform_5p_pruned": 60, "uniform_weighted": 3 * P}
    assert accessed == {"greedy": P, "winner_only": P, "uniform": P, "exact_greedy": 60} | drawn
    error = {name: result.evaluation.mmd2 for name, result in by_name.items()}
    assert error["exact_greedy"] < error["greedy"] < error["uniform"]
    assert error["uniform_5p_pruned"] <= error["uniform_pruned"] < error["uniform"]
    assert error["uniform_weighted"] < error["uniform_pruned"]


def test_only_the_baselines_that_are_named_run() -> None:
    assert list(results(TABLE, "uniform")) == ["uniform"]
    assert results(TABLE) == {}


def test_quick_baselines_ask_nobody_in_every_round() -> None:
    # "Baselines that would cost more than the run are ... skipped by `--baselines`."
    names = get_args(Baseline)
    asking = [name for name in ("greedy", "winner_only", "ask_everyone", "uniform") if _asks(name)]
    whole = simulation(TABLE, *names)
    assert compared_with(whole, ComparedWith.QUICK).baselines == tuple(n for n in names if n not in asking)
    assert compared_with(whole, ComparedWith.NONE).baselines == ()


def _asks(name: Baseline) -> bool:
    return altered(TABLE, name).protocol == "algorithm3"


@pytest.mark.parametrize("auction", [WinnerOnlySettings(), AskEveryoneSettings()])
def test_a_baseline_is_the_run_under_another_rule(auction: WinnerOnlySettings | AskEveryoneSettings) -> None:
    # Same owners, D_v, h1 and noise: under the same rule it is the same summary.
    summary, records = TABLE.model_copy(update={"auction": auction}), KeptRecords()
    parts = summary.curator_part(), summary.consumer_part()
    asyncio.run(run_in_process(market_of(SCENARIO, 0), SCENARIO.validation, *parts, records))
    record = records.summary
    assert record is not None
    name: Baseline = "winner_only" if auction.kind == "winner-only" else "ask_everyone"
    result = results(TABLE, name)[name]
    rows, validation = SCHEMA.encode(record.values()), SCHEMA.encode(CORNER.values)
    assert result.evaluation.mmd2 == mmd2(rows, validation, 2.0)
    assert result.points_accessed == len(record.accesses)


@pytest.mark.parametrize("seed", range(3))
def test_winner_only_and_ask_everyone_select_the_same_rows(seed: int) -> None:
    settings = simulation(TABLE, "winner_only", "ask_everyone").model_copy(update={"seed": seed})
    winner, everyone = asyncio.run(run_baselines(SCENARIO, settings, 2.0, 3 * P)).values()
    assert winner.evaluation == everyone.evaluation
    assert winner.points_accessed == P < everyone.points_accessed


def test_tables_are_pooled_with_labels_where_all_have_them() -> None:
    first, second = table(3, 1), table(2, 2)
    both = joined([first, second])
    assert np.array_equal(both.values, np.concatenate([first.values, second.values]))
    assert both.labels is not None
    assert len(both.labels) == len(both) == 5
    assert joined([first, Table(second.values)]).labels is None
