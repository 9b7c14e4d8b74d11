"""Issue 2, item 10: ctrl-C leaves no process behind and a readable partial run."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import grpc
import pytest

from curator.server import stopped
from fedkme.errors import InterruptedRunError
from fedkme.tables.files import read_arrays
from tests.hosts.parties import COMMAND, environment
from tests.parties import WAIT_S
from tests.system.any_moment import shots
from tests.system.launches import (
    Process,
    Start,
    end_of,
    line_with,
    processes_that_name,
    read_json,
    rounds,
    rows_in,
    wait_until_gone,
)

ALIVE = "still at it"
"""Words of a line that a slow machine shows at any time."""


def long_run(begin: Start, folder: Path, engine: str) -> Process:
    """A run of many seconds whose processes have `folder` in their environment."""
    folder.mkdir()
    changes = ("protocol=algorithm3", "p=1200", "scenario.copies=4", "scenario.owners=3", f"engine={engine}")
    assignments = [word for change in changes for word in ("--set", change)]
    run = begin("sim", "run", "digits", "--out", folder / "run", *assignments, TMPDIR=str(folder))
    line_with(run, "round 120/1200")
    return run


@pytest.mark.parametrize("engine", ["processes", "inprocess"])
def test_ctrl_c(begin: Start, tmp_path: Path, engine: str) -> None:
    run = long_run(begin, tmp_path / "scratch", engine)
    parties = processes_that_name(tmp_path / "scratch")
    # the launcher, and the template of five parties
    assert len(parties) == (7 if engine == "processes" else 1)
    run.send_signal(signal.SIGINT)
    run.send_signal(signal.SIGINT)  # a second one, in a hurry, does not disturb the order
    status, out, lines = end_of(run)
    assert status == InterruptedRunError.code == 130
    assert not out
    assert lines[-1].startswith("error 130 (interrupted): ")
    assert not [line for line in lines[:-1] if not line.startswith(("round ", ALIVE))]
    assert not processes_that_name(tmp_path / "scratch")
    directory = tmp_path / "scratch" / "run"
    metrics = read_json(directory / "metrics.json")
    assert metrics["status"] == "interrupted"
    assert 120 <= metrics["rounds"] < 1200
    assert len(rounds(directory)) == metrics["rounds"]
    names = metrics["points_accessed"]["by_owner"]
    seen = [event for name in names for event in rows_in(directory / "ledger.jsonl", name)]
    assert len(seen) == metrics["points_accessed"]["total"]
    assert len(read_arrays(directory / "summary.npz", "test")["x"]) == metrics["rounds"]
    assert "interrupted" in (directory / "report.html").read_text(encoding="utf-8")
    assert not [path for path in (tmp_path / "scratch").iterdir() if path.name != "run"]


def test_signals_at_random_moments_show_no_traceback(tmp_path: Path) -> None:
    # `python -m tests.system.any_moment N` sends as many as one likes.
    told = shots(206, tmp_path)
    assert [shot.fault for shot in told if shot.fault] == []
    assert any(shot.sent for shot in told)


def test_ctrl_c_while_baselines_run(begin: Start, tmp_path: Path) -> None:
    # The run itself is complete then, and stays so.
    changes = ("--set", "protocol=algorithm3", "--set", "p=40")
    arguments = ("--engine", "inprocess", *changes, "--out", tmp_path / "run")
    run = begin("sim", "run", "digits", *arguments)
    line_with(run, "running the baselines")
    run.send_signal(signal.SIGINT)
    status, _, lines = end_of(run)
    assert status == InterruptedRunError.code
    said = [line.partition(":")[0] for line in lines if not line.startswith(ALIVE)]
    assert said == ["error 130 (interrupted)"]
    metrics = read_json(tmp_path / "run" / "metrics.json")
    assert (metrics["status"], metrics["rounds"]) == ("complete", 40)
    assert all(name.startswith("summary") for name in metrics["mmd2"])
    assert (tmp_path / "run" / "report.html").is_file()


def test_a_launcher_that_dies_leaves_nobody(begin: Start, tmp_path: Path) -> None:
    # DESIGN and fedkme/ops/supervision.py: when the launcher's end of standard input closes, a party stops.
    run = long_run(begin, tmp_path / "scratch", "processes")
    parties = [pid for pid in processes_that_name(tmp_path / "scratch") if pid != run.pid]
    assert len(parties) == 6
    os.kill(run.pid, signal.SIGKILL)
    run.wait(WAIT_S)
    assert all(wait_until_gone(pid) for pid in parties)
    assert not processes_that_name(tmp_path / "scratch")
    # the curator wrote down what there was; it may have seen its owners leave before it was told itself
    record = read_json(tmp_path / "scratch" / "run" / "curator" / "run-1" / "record.json")
    assert record["status"] in ("interrupted", "stopped")
    assert record["rounds"] >= 120


def test_a_sweep_that_is_told_to_stop_leaves_no_folder(tmp_path: Path) -> None:
    # SIGTERM left the run's folder, with owners' rows and keys, in /tmp.
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    words = ["sim", "sweep", "digits", "--grid", "p=30,40", "--seeds", "0:9", "--jobs", "2"]
    words += ["--set", "baselines=[]", "--set", "downstream=false"]
    with subprocess.Popen(
        [sys.executable, "-P", "-c", COMMAND, *words, "--out", str(tmp_path / "sweep")],
        env=environment() | {"TMPDIR": str(scratch)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as sweep:
        line_with(sweep, "run 1/18")  # the next ones are under way
        sweep.send_signal(signal.SIGTERM)
        status, _, lines = end_of(sweep)
    assert status == InterruptedRunError.code
    assert lines[-1].startswith("error 130 (interrupted): ")
    assert not list(scratch.iterdir())


async def test_a_stopped_server_leaves_no_call_to_the_end_of_the_loop() -> None:
    # grpc printed a traceback for a call that the loop cancelled while it ended, in 9 of 480 ends.
    begun, ended = asyncio.Event(), asyncio.Event()

    async def answer(request: bytes, context: Any) -> bytes:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            for _ in range(50):
                await asyncio.sleep(0.0)
            ended.set()
        return request

    server = grpc.aio.server()
    method: Any = grpc.unary_unary_rpc_method_handler(answer)
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("x", {"y": method}),))
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
        ask: Any = channel.unary_unary("/x/y")
        call = ask(b"")
        await begun.wait()
        calls = [task for task in asyncio.all_tasks() if task.get_name() == "rpc_task"]
        assert calls
        await stopped(server, None)
        assert ended.is_set()
        assert all(task.done() for task in calls)
        with pytest.raises(grpc.aio.AioRpcError):
            await call
