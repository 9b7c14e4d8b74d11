"""Issue 17, item 10: real processes over mTLS under random schedules of deaths and failing disks end well.

`make chaos N=50` plays as many as one likes; these are few, so that the command stays true.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from audit.chaos.worlds import menu
from sim.engines.template import AVAILABLE
from tests.fedkme.store.conftest import server as server  # a fixture
from tests.fedkme.store.server import Server
from tests.system import failing_disk
from tests.system.chaos.between import KINDS as BETWEEN
from tests.system.chaos.releases import dated
from tests.system.chaos.remains import play_processes
from tests.system.chaos.schedules import BOTH, WORLDS, drawn, drawn_between
from tests.system.failing_disk import KINDS, DiskFault, begin_power, lose_power, operations, variables

pytestmark = pytest.mark.skipif(
    not (AVAILABLE and failing_disk.COMPILER), reason="disks fail by a library that is preloaded on Linux"
)

WRITER = """
import os, sys
for number in range(3):
    with open(sys.argv[1] + f"/file-{number}", "wb", buffering=0) as file:
        try:
            print(file.write(b"12345678"), flush=True)
            os.fsync(file)
        except OSError as error:
            print(error.strerror, flush=True)
"""
"""Six operations: a write and a sync of each of three files."""


def written(home: Path, fault: DiskFault | None) -> tuple[int, list[str]]:
    """Status and words of the writer."""
    home.mkdir()
    begin_power(home)
    told = variables(fault, home) | {"LD_PRELOAD": str(failing_disk.library())}
    command = [sys.executable, "-c", WRITER, str(home)]
    process = subprocess.Popen(command, env=os.environ | told, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    if fault is not None and fault.kind == "freeze":
        os.waitpid(process.pid, os.WUNTRACED)
        process.send_signal(signal.SIGCONT)
    return process.wait(), process.stdout.read().split("\n")[:-1]


WHOLE, KILLED = ["8", "8", "8"], -signal.SIGKILL


@pytest.mark.parametrize(
    ("fault", "status", "said", "sizes"),
    [
        (None, 0, WHOLE, [8, 8, 8]),
        (DiskFault("kill", 3), KILLED, ["8"], [8, 0]),
        (DiskFault("torn", 2), KILLED, ["8"], [8, 4]),
        (DiskFault("power", 4), KILLED, ["8", "8"], [8]),
        (DiskFault("stop", 3), -signal.SIGTERM, ["8"], [8, 0]),
        (DiskFault("freeze", 3), 0, WHOLE, [8, 8, 8]),
        (DiskFault("full", 3, 1), 0, ["8", "No space left on device", "8"], [8, 0, 8]),
        (DiskFault("sync", 3), 0, ["8", "8", "Input/output error", "8"], [8, 8, 8]),
        (DiskFault("short", 2), 0, ["8", "4", "8"], [8, 4, 8]),
    ],
    ids=str,
)
def test_a_disk_fails_at_the_operation_that_is_named(
    fault: DiskFault | None, status: int, said: list[str], sizes: list[int], tmp_path: Path
) -> None:
    home = tmp_path / "home"
    assert written(home, fault) == (status, said)
    if fault is not None and fault.kind == "power":
        lose_power(home)
    assert [path.stat().st_size for path in sorted(home.iterdir())] == sizes
    assert operations(home) >= (6 if fault is None else fault.operation)


@pytest.mark.processes
def test_a_schedule_of_real_processes_ends_as_the_simulated_world(tmp_path: Path) -> None:
    # Identical bits of results, records and ledgers, or a refusal with a number; ledgers reconcile; D_v pays
    # once; nobody is stuck.
    played = play_processes(drawn(7), tmp_path)
    assert played.found == [], played.story
    assert played.kinds


@pytest.mark.processes
def test_a_schedule_behind_a_forwarder_and_on_a_data_base_ends_as_the_simulated_world(
    tmp_path: Path, server: Server
) -> None:
    # The curator's data base is gone twice, and its connections break in the middle of a record.
    played = play_processes(drawn_between(0), tmp_path, server=server)
    assert played.found == [], played.story
    assert played.kinds["restart"] + played.kinds["truncate"]


def test_schedules_have_every_kind_of_fault_and_name_worlds_that_are_there() -> None:
    faults = [fault for seed in range(60) for lives in drawn(seed).faults.values() for fault in lives]
    assert {fault.kind for fault in faults} == set(KINDS)
    assert {drawn(seed).world for seed in range(60)} == set(WORLDS)
    assert len({menu()[world].case.protocol for world in WORLDS}) == 9
    drawn_ones = [drawn_between(seed).between or () for seed in range(60)]
    assert {fault.kind for between in drawn_ones for fault in between} == set(BETWEEN)
    assert {drawn(seed, releases=True).world for seed in range(9)} == set(BOTH)


def test_the_last_release_is_one_that_was_made() -> None:
    # Lives of `--releases` were those of the section that is being written.
    changelog = "## 0.3.0 - unreleased\n\n### Added\n\n## 0.2.0 - 2026-11-22\n\n## 0.1.0 - 2026-11-21\n"
    assert dated(changelog) == "0.2.0 - 2026-11-22"
