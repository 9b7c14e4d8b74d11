"""Owners in one process decide as they do on their hosts: by policy, budget, journal and ledger."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from consumer.settings import RequestSettings
from curator.summary.settings import SummarySettings
from fedkme.errors import ApprovalError, PolicyError
from fedkme.party import noise_for
from fedkme.privacy.ledger import read_ledger
from owner.party import OwnerParty
from owner.runs import RunManager
from sim.engines.inprocess import InProcessMarket, KeptRecords, open_market, run_in_process
from sim.engines.loopback import Loopback
from tests.curator.summary.fakes import SCHEMA, owners, table
from tests.record_transcripts import record_transcript
from tests.system.launches import KeptProgress, launch, read_json, read_lines, transcript

THREE = "scenario.owners=3"
"""Owners of a small run; one of them has a policy."""
REFUSALS = {
    "owner-1": ("protocols=['cells']", "take part in the protocol 'clock'"),
    "owner-2": ("consumers=['hospital']", "runs for the consumer 'consumer'"),
    "owner-3": ("approval='manual'", "owner-3 approves each run by hand"),
    "owner-4": ("rows='none'", "owner-4"),
}
"""Policies of owners, and what they say to a run that these refuse."""


def record_of(folder: Path, engine: str, *assignments: str) -> tuple[Path, dict[str, Any]]:
    directory, _ = launch(folder / engine, f"engine={engine}", *assignments)
    return directory, read_json(directory / "record.json")


@pytest.mark.processes
def test_owners_refuse_a_run_in_one_process_as_over_the_wire(tmp_path: Path) -> None:
    # Consent can be simulated in one process; the others go on, and the lines are the same.
    # The owners that are left have limits: each engine draws the same rows.
    policies = [f"policies.{owner}.{policy}" for owner, (policy, _) in REFUSALS.items()]
    policies += ["policies.owner-5.most_rows_per_run=70", "policies.owner-6.most_rows=80"]
    (wire, over), (here, within) = (
        record_of(tmp_path, engine, "scenario.owners=6", *policies) for engine in ("processes", "inprocess")
    )
    assert transcript(wire) == transcript(here)
    assert over["faults"] == within["faults"]
    assert [fault["owner"] for fault in within["faults"]] == list(REFUSALS)
    for fault in within["faults"]:
        waits = "approval" in REFUSALS[fault["owner"]][0]
        assert (fault["round"], fault["code"]) == (0, (ApprovalError if waits else PolicyError).code)
        assert REFUSALS[fault["owner"]][1] in fault["line"]
        assert read_lines(here / "owners" / f"{fault['owner']}.jsonl") == []
    assert within["status"] == "complete"
    assert set(within["accessed"]) == {"owner-5", "owner-6"}
    assert within["owner_rows"] == {"owner-5": 70, "owner-6": 80}


def test_an_owner_sends_no_more_rows_than_its_policy_allows(tmp_path: Path) -> None:
    directory, record = record_of(
        tmp_path, "inprocess", THREE, "policies.owner-1.most_rows_per_run=2", "p=20"
    )
    assert record["accessed"]["owner-1"] <= 2
    entries = read_ledger(directory / "owners" / "owner-1.jsonl")
    rows = {entry.disclosure.nonce for entry in entries if entry.disclosure.nonce.startswith("row ")}
    assert len(rows) == record["accessed"]["owner-1"]
    assert record["status"] == "complete"


def test_a_policy_of_all_is_that_of_owners_without_their_own(tmp_path: Path) -> None:
    everybody = ("policies.all.protocols=['cells']", "policies.owner-3.protocols=['clock']")
    _, record = record_of(tmp_path, "inprocess", THREE, *everybody)
    assert [fault["owner"] for fault in record["faults"]] == ["owner-1", "owner-2"]
    assert set(record["accessed"]) == {"owner-3"}


class Dying(RunManager):
    """One process of an owner, in place of which another one begins after some directives.

    Attributes:
        after: directives until it ends; none of a process that lives on.
        party: makes the next process, over the same store.
        market: where it takes its place.
        deaths: number of processes that ended.
    """

    after = 3
    party: OwnerParty
    market: InProcessMarket
    deaths = 0

    def answer(self, directive: Any) -> Any:
        answer = super().answer(directive)
        self.after -= 1
        if self.after == 0:
            again = _begin(self.market, self.party.name)
            again.deaths = self.deaths + 1
        return answer


def _begin(market: InProcessMarket, name: str) -> Dying:
    """Begin a process of an owner: it has its store, and the beginning of its seeded noise."""
    before = market.owners[name]
    party = OwnerParty(
        name=name,
        table=before.table,
        schema=before.schema,
        store=before.store,
        noise_for=noise_for(market.seed, name),
    )
    process = Dying(party)
    process.party, process.market = party, market
    _way_to(market, name).runs = process
    return process


def _way_to(market: InProcessMarket, name: str) -> Loopback:
    connection = market.members.connection(name)
    assert isinstance(connection, Loopback)
    return connection


@pytest.mark.parametrize(
    ("protocol", "auction"),
    [("algorithm3", "ask-everyone"), ("algorithm3", "clock"), ("uniform", "clock"), ("cells", "clock")],
)
def test_an_owner_that_begins_again_goes_on_from_its_journal(protocol: str, auction: str) -> None:
    # Deaths in one process: an owner that is built again from its store answers as if it had lived on.
    settings = SummarySettings.model_validate(
        {"protocol": protocol, "auction": {"kind": auction}, "cells": {"bits": 2, "code_book": "seeds"}}
    )
    request = RequestSettings.model_validate({"p": 6})

    def transcript_of(market: InProcessMarket) -> dict[str, Any]:
        records = KeptRecords()
        asyncio.run(run_in_process(market, table(6, 8), settings, request, records))
        assert records.summary is not None
        assert records.summary.status == "complete"
        return record_transcript(records.summary) | {
            "ledgers": [entry.line for entry in market.stores()["b"].ledger()]
        }

    tables, seeds = owners(9, 9, 9), table(12, 7)
    market = open_market(SCHEMA, tables, seeds, 0)
    _begin(market, "b").after = 2
    assert transcript_of(market) == transcript_of(open_market(SCHEMA, tables, seeds, 0))
    last = _way_to(market, "b").runs
    assert isinstance(last, Dying)
    assert last.deaths


def test_picks_that_have_no_effect_are_a_warning_of_the_run(tmp_path: Path) -> None:
    progress = KeptProgress()
    launch(tmp_path / "run", "engine=inprocess", "protocol=cells", "cells.picks=2", progress=progress)
    assert [line for line in progress.warnings if "'cells.picks' = 2 has no effect" in line]
