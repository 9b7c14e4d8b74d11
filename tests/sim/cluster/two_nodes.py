"""Runs on a Ray cluster of two nodes on this machine, one of which dies: started by test_two_nodes.

Ray replaces 127.0.0.1 by the machine's own address, so that this runs in a network namespace that has nothing
but loopback.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

from fedkme.store import Store
from sim.cluster.parties import owners_in_actors
from sim.cluster.session import connected, started
from sim.cluster.shard import rows_of_scenario
from sim.config import SimulationSettings, load_simulation
from sim.engines.inprocess import Hear, KeptRecords, SimulatedMarket, run_in_process, silent
from sim.scenarios import build_scenario
from sim.scenarios.base import Scenario
from sim.sweep.grid import SweepRun, SweepSettings, runs_of
from sim.sweep.run import measured
from tests.record_transcripts import record_transcript

OWNERS = tuple(f"owner-{number}" for number in range(1, 7))
SMALL = ("p=12", "baselines=[]", "downstream=false")
STORE = 80 * 2**20
QUICK_VERDICT = {
    "health_check_initial_delay_ms": 0,
    "health_check_period_ms": 500,
    "health_check_timeout_ms": 20_000,
    "health_check_failure_threshold": 4,
}
"""A dead node refuses four checks in 2 s, where Ray's own settings take 15; one that is slow has 80 s."""


def settings_of(file: Path, *more: str) -> SimulationSettings:
    """Settings of a summary, over shards of three owners."""
    return load_simulation(str(file), (*SMALL, "engine=ray", "cluster.owners_per_actor=3", *more))


def sweep_runs(file: Path) -> list[SweepRun]:
    """Four short runs of a sweep."""
    grid = {"protocol": ("uniform", "cells"), "p": (4, 6)}
    values = {"scenario": str(file), "out": file.parent, "assignments": SMALL, "grid": grid}
    return runs_of(SweepSettings.model_validate(values))


async def summarize(
    market: SimulatedMarket, scenario: Scenario, settings: SimulationSettings, hear: Hear = silent
) -> dict[str, Any]:
    """Run one summary; its transcript, and the ledgers of every party that there is."""
    records, parts = KeptRecords(), (settings.summary.curator_part(), settings.summary.consumer_part())
    await run_in_process(market, scenario.validation, *parts, records, hear)
    assert records.summary is not None
    stores: dict[str, Store] = dict(await market.collect_stores())
    ledgers = {name: [entry.line for entry in store.ledger()] for name, store in stores.items()}
    outcome = {"record": record_transcript(records.summary), "ledgers": ledgers}
    values: dict[str, Any] = json.loads(json.dumps(outcome))
    return values


def kill_node(node: Any) -> None:
    """Kill a node as a host dies: its raylet, and every worker that this has started."""
    for info in node.all_processes["raylet"]:
        pid = info.process.pid
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="ascii").split()
        for each in (pid, *map(int, children)):
            os.kill(each, signal.SIGKILL)


async def lose_a_node(node: Any, file: Path) -> dict[str, Any]:
    """Run a summary; then another one beside a sweep, and kill a node in the middle of both."""
    settings = settings_of(file, "protocol=cells")
    lines: list[str] = []
    scenario = build_scenario(settings.scenario, settings.seed, at_once=False)
    rows = partial(rows_of_scenario, settings.scenario, settings.seed)

    def hear(event: str, **fields: Any) -> None:
        if event == "round" and fields["record"]["round"] == 1:
            kill_node(node)

    async with owners_in_actors(scenario, rows, settings, lines.append) as market:
        whole = await summarize(market, scenario, settings)
        with closing(measured(sweep_runs(file), "ray", file.parent)) as results:
            found = [next(results)]
            cut = await summarize(market, scenario, settings_of(file, "protocol=algorithm3"), hear)
            found += results
    rows_found = [[run.key, row["code"], row.get("mmd2.summary")] for run, row in found]
    return {"whole": whole, "cut": cut, "said": lines, "rows": rows_found}


def two_nodes() -> tuple[Any, Any]:
    """Start a cluster of two nodes; the cluster, and its second node."""
    from ray import cluster_utils

    size: dict[str, Any] = {"num_cpus": 1, "object_store_memory": STORE}
    head = {**size, "include_dashboard": False, "_system_config": QUICK_VERDICT}
    cluster: Any = cluster_utils.Cluster(initialize_head=True, head_node_args=head)
    try:
        return cluster, cluster.add_node(**size)
    except BaseException:
        cluster.shutdown()
        raise


def main(file: Path, outcome: Path) -> None:
    """Start two nodes, do everything, and write what came of it as JSON."""
    cluster, node = started(two_nodes)
    try:
        with connected(cluster.address):
            outcome.write_text(json.dumps(asyncio.run(lose_a_node(node, file))), encoding="utf-8")
    finally:
        cluster.shutdown()


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
