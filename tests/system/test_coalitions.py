"""Issue 13, item 9: many small owners count together under one noise, and split their coalitions' orders."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from consumer.settings import RequestSettings
from curator.run.summary_record import SummaryRecord
from curator.summary.settings import SummarySettings
from curator.sums.settings import SecuritySettings, SumSettings
from fedkme.cells.coalitions import CoalitionNoise, coalition_noise
from fedkme.cells.plan import SKETCH_SHARE
from fedkme.ledgers.reconcile import verify
from fedkme.privacy.accountants import Sound
from fedkme.privacy.events import CONSUMER, CURATOR, OWNERS, Disclosure, Gaussian, PureDp
from fedkme.privacy.ledger import disclosures_in
from fedkme.tables.schema import Label, Numeric, Schema
from fedkme.tables.table import Table
from operate.payout_cli import app as payout
from owner.settings import PeriodBudget, PolicySettings
from sim.engines.inprocess import InProcessMarket, KeptRecords, open_market, run_in_process
from tests.system.launches import launch, owners_agree, read_json, transcript

SCHEMA = Schema(
    columns=(Numeric(name="x", bounds=(-4.0, 4.0), count=4),), label=Label(name="y", classes=("no", "yes"))
)
NAMES = tuple(f"owner-{n:03d}" for n in range(40))
P = 30
SECURE = SumSettings(security=SecuritySettings(dropouts=1, colluders=1))


def drawn(rows: int, side: float, seed: int) -> Table:
    """Rows of one of two kinds: large in the first two columns, or in the others."""
    random = np.random.default_rng(seed)
    labels = random.integers(0, 2, rows)
    values = random.normal(0.0, 1.0, (rows, 4)) + side * np.array([1.0, 1.0, -1.0, -1.0])
    return Table(np.clip(values, -4.0, 4.0), labels)


def small_owners(policies: Mapping[str, PolicySettings] | None = None) -> InProcessMarket:
    """Forty owners of 24 to 60 rows; half of the rows of each are of D_v's kind."""
    sizes = np.random.default_rng(1).integers(24, 60, len(NAMES), endpoint=True).tolist()
    tables = {}
    for seed, (name, size) in enumerate(zip(NAMES, sizes, strict=True)):
        near, far = drawn(size // 2, 1.5, seed), drawn(size - size // 2, -1.5, 100 + seed)
        values, labels = (
            np.concatenate([getattr(near, what), getattr(far, what)]) for what in ("values", "labels")
        )
        tables[name] = Table(values, labels)
    return open_market(SCHEMA, tables, drawn(50, 0.0, 7), 5, policies)


def summarised(
    market: InProcessMarket, content: str = "rows", pooling: SumSettings | None = None, **cells: Any
) -> tuple[SummaryRecord, Table]:
    """The record, and the rows that the consumer found."""
    settings = SummarySettings.model_validate({"protocol": "cells", "content": content, "cells": cells})
    request = RequestSettings.model_validate({"p": P, "kernel": {"gamma": 0.1}})
    records, validation = KeptRecords(), drawn(200, 1.5, 9)
    summary = asyncio.run(run_in_process(market, validation, settings, request, records, pooling=pooling))
    assert records.summary is not None
    return records.summary, summary.table


def lines(market: InProcessMarket, party: str) -> list[Disclosure]:
    return disclosures_in(entry.line for entry in market.stores()[party].ledger())


def planned(share: float = SKETCH_SHARE) -> CoalitionNoise:
    """Noise of the default budget; of so few rows the sketch has the usual share."""
    return coalition_noise(1.0, 1e-5, share)


WAYS = {
    "trusted": ("rows", None),
    "secure": ("rows", SECURE),
    "sealed": ("hashed", None),
    "secure, sealed": ("hashed", SECURE),
}


@pytest.mark.parametrize("way", WAYS)
def test_small_owners_count_together_by_default(way: str) -> None:
    content, pooling = WAYS[way]
    market = small_owners()
    record, table = summarised(market, content, pooling)
    released = record.released
    assert record.status == "complete"
    assert record.faults == []
    assert "histograms" not in released
    coalitions = released["coalitions"]
    assert [name for each in coalitions for name in each["owners"]] == list(NAMES)
    assert sum(each["rows"] for each in coalitions) == sum(record.owner_rows.values())
    asked = released["orders"]
    assert sum(asked.values()) == 2 * P
    assert all(asked[name] <= record.owner_rows[name] for name in NAMES)
    assert len([count for count in asked.values() if count]) == 2 * P // 4
    assert record.closings == asked
    # D_v's kind is half of the pool's rows, and most of those that were ordered.
    assert np.mean(table.values @ [1.0, 1.0, -1.0, -1.0] > 0) > 0.7


@pytest.mark.parametrize("way", ["trusted", "secure"])
def test_sketch_and_counts_cost_owners_all_of_epsilon_and_no_more(way: str) -> None:
    market = small_owners()
    summarised(market, *WAYS[way])
    for observer in (OWNERS, CONSUMER):
        for name in NAMES[:3]:
            own, curators = (
                [
                    each.event
                    for each in lines(market, party)
                    if (each.protected, each.observer) == (name, observer)
                    and isinstance(each.event, Gaussian)
                ]
                for party in (name, CURATOR)
            )
            assert own == curators == list(planned().events)
            assert Sound().epsilon(own, 1e-5).epsilon == pytest.approx(1.0, rel=1e-4)
    kinds = {type(each.event) for name in NAMES for each in lines(market, name) if each.protected == name}
    assert PureDp not in kinds


def test_under_secure_aggregation_the_curator_sees_no_owner_alone() -> None:
    market = small_owners()
    summarised(market, *WAYS["secure"])
    seen = [each for each in lines(market, NAMES[0]) if each.observer == CURATOR and each.round > 0]
    of_sums = [each.event for each in seen if each.nonce.startswith("sums")]
    assert len(of_sums) == 2
    assert Sound().epsilon(of_sums, 1e-5).epsilon <= 1.0


def test_a_policy_decides_by_what_both_cost() -> None:
    tight = PolicySettings(budgets=(PeriodBudget(epsilon=0.5, delta=1e-5),))
    market = small_owners({NAMES[3]: tight})
    record, _ = summarised(market)
    assert record.status == "complete"
    named = {name for each in record.released["coalitions"] for name in each["owners"]}
    assert NAMES[3] not in named
    assert not [each for each in lines(market, NAMES[3]) if each.protected == NAMES[3]]


def test_owners_count_by_themselves_where_settings_say_so() -> None:
    record, _ = summarised(small_owners(), coalitions=False)
    assert "coalitions" not in record.released
    assert set(record.released["histograms"]) == set(NAMES)


def test_coalitions_need_a_sketch() -> None:
    with pytest.raises(ValueError, match="coalitions need a sketch"):
        SummarySettings.model_validate({"cells": {"coalitions": True, "code_book": "seeds"}})


DIGITS = ("protocol=cells", "scenario.owners=2", "scenario.copies=1", "cells.coalitions=true")


def test_engines_agree_bit_for_bit(tmp_path: Path) -> None:
    made = [
        launch(tmp_path / engine, f"engine={engine}", *DIGITS)[0] for engine in ("processes", "inprocess")
    ]
    first, second = map(transcript, made)
    assert first == second
    assert owners_agree(made[0])
    assert all(not verdict.fault for each in made for verdict in verify(each))
    record = read_json(made[0] / "record.json")
    assert [each["owners"] for each in record["coalitions"]] == [["owner-1", "owner-2"]]
    sound = [s for s in read_json(made[0] / "metrics.json")["privacy"] if s["accountant"] == "sound"]
    between = [s for s in sound if "owner" in s["observer"]]
    assert between
    assert all(float(s["epsilon"]) <= 1.0 for s in between)
    # Nobody's own histogram is there to pay by, and the mixture's weights are split by rows.
    answer = CliRunner().invoke(payout, [str(made[0]), "--method", "mixture", "--json"])
    assert sum(json.loads(answer.stdout)["amounts"].values()) == 1000
    answer = CliRunner().invoke(payout, [str(made[0]), "--rank"])
    assert answer.exit_code != 0
