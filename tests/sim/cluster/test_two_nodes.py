"""A Ray of two nodes on this machine, one of which is killed midway."""

from __future__ import annotations

import asyncio
import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from fedkme.errors import OwnerLostError
from sim.engines.inprocess import market_of
from sim.scenarios import build_scenario
from sim.sweep.measure import measure
from tests.places import ROOT
from tests.sim.cluster.two_nodes import OWNERS, settings_of, summarize, sweep_runs
from tests.system.launches import write_own_files

IN_A_NAMESPACE = ("unshare", "-n", "sh", "-c", 'ip link set lo up && exec "$@"', "sh")
LONGEST_S = 480


def why_not() -> str:
    """Reason why there can be no cluster; empty where there can."""
    if importlib.util.find_spec("ray") is None:
        return "ray is not installed"
    try:
        process = subprocess.run([*IN_A_NAMESPACE, "true"], capture_output=True, text=True, check=False)
    except FileNotFoundError:
        return "there is no unshare"
    return process.stderr.strip() if process.returncode else ""


def test_two_nodes_one_of_which_dies(tmp_path: Path) -> None:
    # "The same summary, ledgers and accesses bit for bit as in process"; "a lost node costs only its tasks, a
    # lost actor makes its owners leave the run as a dead host does".
    if why := why_not():
        pytest.skip(f"skipped: no Ray cluster can be made here: {why}")
    file = write_own_files(tmp_path, dict.fromkeys(OWNERS, 30))
    found = tmp_path / "outcome.json"
    environment = os.environ | {"PYTHONPATH": str(ROOT), "RAY_USAGE_STATS_ENABLED": "0"}
    with subprocess.Popen(
        [*IN_A_NAMESPACE, sys.executable, "-m", "tests.sim.cluster.two_nodes", file, found],
        cwd=ROOT,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as process:
        settings = settings_of(file, "protocol=cells")
        scenario = build_scenario(settings.scenario, settings.seed)
        local = asyncio.run(summarize(market_of(scenario, settings.seed), scenario, settings))
        run = sweep_runs(file)[0]
        alone = measure(run.settings)
        out, err = process.communicate(timeout=LONGEST_S)
    assert process.returncode == 0, err[-4000:]
    assert not out  # Ray printed "marked dead" where a command prints JSON
    outcome = json.loads(found.read_text(encoding="utf-8"))

    assert local["record"]["status"] == "complete"
    assert outcome["whole"] == local

    record, ledgers = outcome["cut"]["record"], outcome["cut"]["ledgers"]
    gone = sorted(owner for _, owner, code in record["faults"] if code == OwnerLostError.code)
    assert gone in ([*OWNERS[:3]], [*OWNERS[3:]])
    assert len(record["faults"]) == 3
    assert record["status"] == "complete"
    assert sorted(ledgers) == sorted({*OWNERS, "curator", "consumer"} - set(gone))
    assert "the ledgers of 3 owners are gone" in outcome["said"][-1]

    codes = {key: (code, mmd2) for key, code, mmd2 in outcome["rows"]}
    assert {code for code, _ in codes.values()} == {0}
    assert codes.keys() == {each.key for each in sweep_runs(file)}
    assert codes[run.key][1] == alone["mmd2.summary"]
