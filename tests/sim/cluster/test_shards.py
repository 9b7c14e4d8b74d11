"""Owners in shards answer as in one process, whatever breaks on the way, and each directive once."""

from __future__ import annotations

import asyncio
import contextlib
import sys
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from consumer.settings import RequestSettings
from curator.owners.connection import Traffic
from curator.run.summary_record import SummaryRecord
from curator.summary.settings import SummarySettings
from curator.sums.settings import SumSettings
from fedkme.directives import Directive, Limits, Refusal, ShowHead
from fedkme.errors import (
    ConfigError,
    ConnectionFailedError,
    DataError,
    MissingDependencyError,
    MissingOwnersError,
    OwnerLostError,
)
from fedkme.heads.files import lines_of
from fedkme.store import Store
from sim.cluster.connections import ActorLostError, UnknownOutcomeError
from sim.cluster.parties import shards_of
from sim.cluster.session import STARTS, connected
from sim.cluster.shard import OwnerShard, RowsRecipe, ShardPlan, rows_of_scenario
from sim.config import load_simulation
from sim.engines.inprocess import (
    KeptRecords,
    SimulatedMarket,
    open_market,
    release_in_process,
    run_in_process,
)
from sim.scenarios import build_scenario
from sim.scenarios.base import Scenario
from tests.curator.summary.fakes import SCHEMA, owners, table
from tests.record_transcripts import record_transcript
from tests.sim.cluster.shards import ShardedMarket, rows_in_memory, travelled
from tests.system.launches import launch, transcript, write_own_files
from tests.system.test_audit_folders import verified

SHARDS = (("a", "b"), ("c", "d", "e"))
TABLES, SEEDS = owners(9, 9, 9, 9, 9), table(12, 7)
PROTOCOLS: dict[str, dict[str, Any]] = {
    "clock": {"protocol": "algorithm3"},
    "ask-everyone": {"auction": {"kind": "ask-everyone"}},
    "uniform": {"protocol": "uniform"},
    "cells": {"protocol": "cells", "cells": {"bits": 2}},
}


def summarize(market: SimulatedMarket, protocol: str) -> SummaryRecord:
    settings = SummarySettings.model_validate(PROTOCOLS[protocol])
    request, records = RequestSettings.model_validate({"p": 6}), KeptRecords()
    pooling = SumSettings.model_validate({"security": {"dropouts": 1}}) if protocol == "cells" else None
    asyncio.run(run_in_process(market, table(6, 8), settings, request, records, pooling=pooling))
    assert records.summary is not None
    return records.summary


def kept(stores: Mapping[str, Store]) -> dict[str, Any]:
    """Ledgers of every party."""
    return {name: [entry.line for entry in store.ledger()] for name, store in stores.items()}


def stores_of(market: SimulatedMarket) -> Mapping[str, Store]:
    return asyncio.run(market.collect_stores())


def sharded(progress_s: float = 60.0) -> ShardedMarket:
    return ShardedMarket(SCHEMA, partial(rows_in_memory, TABLES), SEEDS, SHARDS, progress_s)


def every(nth: int) -> Callable[[], None]:
    """Make what breaks off at each n-th call."""
    calls = 0

    def broken() -> None:
        nonlocal calls
        calls += 1
        if calls % nth == 0:
            raise UnknownOutcomeError

    return broken


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_owners_in_shards_answer_as_in_one_process(protocol: str) -> None:
    # "the same summary, ledgers and accesses bit for bit as in process"; a call that broke
    # off "may or may not have been executed", and is sent again: exactly once is ours.
    local = open_market(SCHEMA, TABLES, SEEDS, 0)
    expected = record_transcript(summarize(local, protocol)), kept(local.stores())
    whole, broken = sharded(), sharded()
    for place, actor in enumerate(broken.actors):
        actor.after, actor.before = every(2 + place), every(5)
    for market in (whole, broken):
        assert (
            record_transcript(summarize(market.market, protocol)),
            kept(stores_of(market.market)),
        ) == expected
    assert lines_of(stores_of(whole.market)["a"])  # heads travel with the ledgers
    calls = [sum(len(actor.calls) for actor in each.actors) for each in (whole, broken)]
    assert calls[1] > 1.2 * calls[0]


def test_directives_to_a_shard_at_the_same_time_are_one_call() -> None:
    # "directives batched per shard and exchange".
    market = sharded()
    record = summarize(market.market, "ask-everyone")
    assert len(record.rounds) >= 6
    for actor, names in zip(market.actors, SHARDS, strict=True):
        asked = [[name for name, each in batch if each.question == "broadcast"] for batch in actor.calls]
        assert [tuple(each) for each in asked if each] == [names] * len(record.rounds)


@pytest.mark.parametrize("protocol", ["clock", "cells"])
def test_owners_of_a_lost_actor_leave_the_run(protocol: str) -> None:
    # "a lost actor makes its owners leave the run as a dead host does".
    market = sharded()
    lost, last = market.actors[1], 3 if protocol == "clock" else 8

    def die() -> None:
        if len(lost.calls) == last:
            raise ActorLostError("c to e: the actor is gone")

    lost.before = die
    record = summarize(market.market, protocol)
    assert {fault.owner for fault in record.faults} == {"c", "d", "e"}
    gone = OwnerLostError if protocol == "clock" else MissingOwnersError  # before its run has begun
    assert {fault.code for fault in record.faults} == {gone.code}
    assert record.status == "complete"
    assert {access.owner for access in record.selected} <= {"a", "b"} or protocol == "clock"
    members = market.market.members
    assert (members.here(), members.missing()) == (["a", "b"], ["c", "d", "e"])
    assert len(lost.calls) == last  # nobody asks it again
    with pytest.raises(MissingOwnersError):
        asyncio.run(members.gather(3, 1.0))


def test_an_actor_that_stays_out_of_reach_is_lost() -> None:
    market = sharded(progress_s=0.2)
    market.actors[0].before = every(1)
    connection = market.market.members.connection("a")
    with pytest.raises(OwnerLostError, match=r"a, round 0: a to b did not answer within 0.2 s"):
        asyncio.run(_show(connection))
    assert len(market.actors[0].calls) > 1


def test_an_actor_that_never_answers_is_lost() -> None:
    market = sharded(progress_s=0.05)

    async def hang(batch: Any) -> Any:
        await asyncio.Event().wait()

    connection = market.market.members.connection("a")
    connection._shard._call = hang  # type: ignore[attr-defined]
    with pytest.raises(OwnerLostError, match="did not answer"):
        asyncio.run(_show(connection))
    assert not market.market.members.here().count("a")


async def _show(connection: Any) -> None:
    await connection.exchange(Directive("run-1/heads", 0, 1, ShowHead(0, "x")), Limits(), Traffic())


def test_a_release_over_shards_equals_that_of_one_process() -> None:
    def released(market: SimulatedMarket) -> tuple[Mapping[str, bytes], Any]:
        records = KeptRecords()
        settings = '{"kind": "marginals", "epsilon": 1.0, "delta": 1e-5, "seed": 3}'
        asyncio.run(release_in_process(market, settings, SumSettings(), records))
        return records.files, records.release and records.release.status

    local, market = open_market(SCHEMA, TABLES, SEEDS, 0), sharded()
    assert released(market.market) == released(local)
    assert kept(stores_of(market.market)) == kept(local.stores())


@given(st.integers(1, 400), st.integers(1, 150))
def test_shards_are_even_and_as_large_as_the_settings_say(count: int, least: int) -> None:
    names = [f"{number:03}" for number in range(count)]
    shards = shards_of(names, least)
    assert [name for shard in shards for name in shard] == names
    sizes = {len(shard) for shard in shards}
    assert max(sizes) - min(sizes) <= 1
    assert min(sizes) >= min(least, count)
    assert max(sizes) < 2 * least or len(shards) == 1


def test_an_actor_reads_the_files_of_its_own_owners_alone(tmp_path: Path) -> None:
    # "rows loaded where the actor is (a path ... per owner, never through the driver)".
    scenario = write_own_files(tmp_path, {"near": 8, "far": 9})
    settings = load_simulation(str(scenario))
    (tmp_path / "far.csv").write_text("nonsense")
    driver = build_scenario(settings.scenario, 0, at_once=False)
    assert list(driver.owners) == ["far", "near"]
    tables = travelled(rows_of_scenario(settings.scenario, 0, ["near"]))
    assert {name: len(rows) for name, rows in tables.items()} == {"near": 8}
    with pytest.raises(DataError, match="far"):
        build_scenario(settings.scenario, 0)


def test_rows_of_a_few_owners_are_those_of_the_whole_scenario() -> None:
    config = load_simulation("digits", ("scenario.owners=7", "copies=2")).scenario
    whole = build_scenario(config, 3).owners
    few = rows_of_scenario(config, 3, ["owner-2", "owner-7"])
    assert {name: rows.digest() for name, rows in few.items()} == {
        name: whole[name].digest() for name in ("owner-2", "owner-7")
    }


@pytest.mark.parametrize("protocol", ["cells", "algorithm3"])
def test_the_engine_makes_the_folder_that_a_run_in_one_process_makes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, protocol: str
) -> None:
    # The whole of `fedkme sim run --engine ray` but for Ray: test_two_nodes has a real cluster.
    @contextlib.asynccontextmanager
    async def local(scenario: Scenario, rows: RowsRecipe, *others: Any) -> AsyncIterator[SimulatedMarket]:
        shards = shards_of(sorted(scenario.owners), others[0].cluster.owners_per_actor)
        yield ShardedMarket(scenario.schema, rows, scenario.seeds, shards).market

    monkeypatch.setattr("sim.cluster.parties.owners_in_actors", local)
    fixed = (f"protocol={protocol}", "scenario.owners=4")
    here, _ = launch(tmp_path / "here", "engine=inprocess", *fixed)
    there, metrics = launch(tmp_path / "there", "engine=ray", "cluster.owners_per_actor=2", *fixed)
    assert transcript(there) == transcript(here)
    assert verified(there)[0] == 0
    assert metrics["engine"] == "ray"


def _no_rows(names: Sequence[str]) -> Any:
    raise ConfigError("scenario.path: there is no file /rows.npz", "Correct it.")


def test_a_shard_that_cannot_open_says_why() -> None:
    plan = ShardPlan(("a",), _no_rows, SCHEMA, 0)
    assert OwnerShard(plan).open() == Refusal(10, "scenario.path: there is no file /rows.npz", "Correct it.")
    other = OwnerShard(replace(plan, version="0.0")).open()
    assert isinstance(other, Refusal)
    assert "and the driver 0.0" in other.cause


def test_a_node_that_is_late_is_started_again(monkeypatch: pytest.MonkeyPatch) -> None:
    # Ray waits 30 s for a node, whatever the machine does beside, and raises a bare Exception then.
    late, ends = Exception("The current node timed out during startup."), [1, 0]

    def init(**_: Any) -> None:
        if ends.pop(0):
            raise late

    ray = SimpleNamespace(is_initialized=lambda: False, init=init, shutdown=lambda: None)
    monkeypatch.setitem(sys.modules, "ray", ray)
    with connected():
        assert not ends
    ends += [1] * STARTS
    with (
        pytest.raises(ConnectionFailedError, match="at this machine: The current node timed out"),
        connected(),
    ):
        pass
    assert not ends


def test_what_is_missing_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(MissingDependencyError, match="Ray is not installed"), connected():
        pass
    with pytest.raises(MissingDependencyError):
        launch(tmp_path / "run", "engine=ray")
