"""Disk that fails at the n-th operation of a process: failing_disk.c is preloaded, and told what to do.

`python -m tests.system.failing_disk NAME=VALUE ... -- MODULE ARGUMENTS` sets variables and is then MODULE:
for parties that are forked from an interpreter into which the disk is preloaded.
"""

from __future__ import annotations

import atexit
import functools
import os
import runpy
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, get_args

Kind = Literal["kill", "torn", "power", "stop", "freeze", "full", "sync", "short"]
KINDS: tuple[Kind, ...] = get_args(Kind)
WORDS: Mapping[Kind, str] = {
    "kill": "is killed",
    "torn": "is killed in the middle of a write",
    "power": "dies, and loses what it had not synced",
    "stop": "is told to stop",
    "freeze": "is frozen for {many} s",
    "full": "has a full disk for {many} operations",
    "sync": "has a sync that fails",
    "short": "has a write that ends in its middle",
}
COMPILER = shutil.which("cc")
_SOURCE = Path(__file__).with_suffix(".c")


@dataclass(frozen=True, slots=True)
class DiskFault:
    """Fault at an operation of a process on its files.

    Attributes:
        kind: what happens.
        operation: number of the write, sync or rename, from 1.
        many: seconds, or operations.
    """

    kind: Kind
    operation: int
    many: int = 1

    def __str__(self) -> str:
        return f"{WORDS[self.kind].format(many=self.many)} at operation {self.operation}"


@functools.cache
def library() -> Path:
    """Compile what is preloaded, into a folder that goes with this process."""
    assert COMPILER is not None, "the caller looked"
    folder = tempfile.mkdtemp(prefix="fedkme-disk-")
    atexit.register(shutil.rmtree, folder)
    made = Path(folder) / "failing_disk.so"
    subprocess.run([COMPILER, "-O1", "-shared", "-fPIC", "-o", made, _SOURCE], check=True)
    return made


def variables(fault: DiskFault | None, home: Path) -> dict[str, str]:
    """Variables of a process with a fault; of one without any, whose operations are counted."""
    told = _told(home)
    told.unlink(missing_ok=True)
    plan = "count 0 0" if fault is None else f"{fault.kind} {fault.operation} {fault.many}"
    synced = {"DISK_SYNCED": str(_synced(home))} if fault is not None and fault.kind == "power" else {}
    return {"DISK_FAULT": plan, "DISK_TOLD": str(told), **synced}


def operations(home: Path) -> int:
    """Operations of the last process, where it had no fault; the one that its fault befell; or 0."""
    told = _told(home)
    return int(told.read_text()) if told.exists() else 0


def _told(home: Path) -> Path:
    return home.with_suffix(".operations")


def _synced(home: Path) -> Path:
    return home.with_suffix(".synced")


def begin_power(home: Path) -> None:
    """Note that all of a folder is on the disk, before a process that will lose power."""
    shutil.rmtree(_synced(home), ignore_errors=True)
    _synced(home).mkdir()
    for path in _files(home):
        shutil.copyfile(path, _synced(home) / str(path.stat().st_ino))


def lose_power(home: Path) -> None:
    """Lose what of a folder was not synced: bytes of files, and files of which nothing was. Names stay."""
    for path in _files(home):
        kept = _synced(home) / str(path.stat().st_ino)
        if kept.exists():
            path.write_bytes(kept.read_bytes())
        else:
            path.unlink()


def _files(home: Path) -> list[Path]:
    return [path for path in home.rglob("*") if path.is_file()]


def main() -> None:
    """Be a module, with variables set."""
    split = sys.argv.index("--")
    os.environ.update(variable.partition("=")[::2] for variable in sys.argv[1:split])
    sys.argv = sys.argv[split + 1 :]
    runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
