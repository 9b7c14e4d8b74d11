"""Entrants: ours, a control and rivals; each a file that an interpreter of its own runs on a folder."""

from __future__ import annotations

import hashlib
import json
import math
import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import fedkme
from lab.referee.environments import environments, version_of

OURS, CONTROL = "ours", "independent"
HERE = Path(__file__).parent / "programs" / "entrants"
_PRODUCT = ("consumer", "curator", "fedkme", "owner", "sim")


@dataclass(frozen=True)
class Entrant:
    """Maker of rows.

    Attributes:
        name: name in figures.csv.
        file: its program, in programs/entrants/ or anywhere.
        environment: name of a lock, whose interpreter runs the file; empty: ours.
        options: options for the file.
        trusts: kinds of trust that it offers.
        promise: relation, delta and trust, as its authors state them.
    """

    name: str
    file: Path
    environment: str = ""
    options: Mapping[str, Any] = field(default_factory=dict)
    trusts: tuple[str, ...] = ("trusted",)
    promise: str = ""

    def version(self, interpreters: Mapping[str, Path]) -> str:
        """Version of what makes the rows: of the package, or a digest of our sources; and of the file."""
        own = hashlib.sha256(self.file.read_bytes() + json.dumps(dict(self.options)).encode()).hexdigest()[:6]
        if not self.environment:
            return f"{fedkme.__version__}+{_sources() if self.name.startswith(OURS) else ''}{own}"
        if self.environment not in environments():
            return own  # of a user's own file and interpreter
        package = environments()[self.environment].package
        return f"{version_of(interpreters[self.environment], package)}+{own}"


@cache
def _sources() -> str:
    """Digest of the product's modules: a change of the code is another version of ours."""
    root = Path(fedkme.__file__).parents[1]
    digest = hashlib.sha256()
    for path in sorted(path for package in _PRODUCT for path in (root / package).rglob("*.py")):
        digest.update(path.relative_to(root).as_posix().encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()[:8]


_REPLACE = "replace-one, (epsilon, delta)"
ENTRANTS: Mapping[str, Entrant] = {
    each.name: each
    for each in (
        Entrant(OURS, HERE / "ours.py", trusts=("trusted", "secure"), promise=f"{_REPLACE}, pooled owners"),
        Entrant(
            CONTROL, HERE / "independent.py", promise=f"{_REPLACE}, trusted curator; floating-point noise"
        ),
        *(
            Entrant(
                f"dpmm {name}",
                HERE / "dpmm_rows.py",
                "dpmm",
                {"mechanism": name},
                promise="add-or-remove-one, (epsilon, delta), one table in one place",
            )
            for name in ("MST", "AIM")
        ),
        *(
            Entrant(
                f"OpenDP {name}",
                HERE / "opendp_rows.py",
                "opendp",
                {"mechanism": name},
                promise="replace-one asked for (`changes`), (epsilon, delta), one table in one place",
            )
            for name in ("MST", "AIM")
        ),
    )
}


@dataclass(frozen=True, slots=True)
class ProcessCost:
    """Cost of a process.

    Attributes:
        seconds: seconds of processor time, children included.
        megabytes: peak of its memory, or of a child's.
        failure: what went wrong; empty where nothing did.
        late: whether it took longer than it might.
    """

    seconds: float
    megabytes: float
    failure: str = ""
    late: bool = False


_LAUNCHER = """
import json, os, resource, subprocess, sys
limit, usage_file, *command = sys.argv[1:]
resource.setrlimit(resource.RLIMIT_CPU, (int(limit), int(limit) + 1))
child = subprocess.Popen(command)
_, status, usage = os.wait4(child.pid, 0)
with open(usage_file, "w") as file:
    json.dump([os.waitstatus_to_exitcode(status), usage.ru_utime + usage.ru_stime, usage.ru_maxrss], file)
"""
"""Process that starts a file and measures it: Linux charges a child with the memory of who forked it."""


def run_file(python: Path, file: Path, folder: Path, limit: float) -> ProcessCost:
    """Run a program on a folder, with one thread; its output goes to the folder's log.txt.

    Args:
        python: interpreter.
        file: the file.
        folder: its only argument.
        limit: seconds of CPU of a process; on the clock four times as many, since others may use the machine.
    """
    threads = dict.fromkeys(
        ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "POLARS_MAX_THREADS"), "1"
    )
    usage = folder / "usage.json"
    usage.unlink(missing_ok=True)
    launcher = [sys.executable, "-S", "-c", _LAUNCHER, str(math.ceil(limit)), str(usage)]
    waited = False
    with (folder / "log.txt").open("wb") as log:
        process = subprocess.Popen(
            [*launcher, str(python), "-P", str(file), str(folder)],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            env=os.environ | threads,
            start_new_session=True,
        )
        try:
            process.wait(4 * limit)
        except BaseException as error:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            waited = isinstance(error, subprocess.TimeoutExpired)
            if not waited:
                raise
    lines = (folder / "log.txt").read_text(encoding="utf-8", errors="replace").strip().splitlines()
    status, seconds, kilobytes = process.returncode, 0.0, 0
    if usage.is_file():
        status, seconds, kilobytes = json.loads(usage.read_text(encoding="utf-8"))
    late = waited or status == -signal.SIGXCPU
    failure = ""
    if late:
        failure = f"did not end in {limit:g} CPU s, or four times that on the clock"
    elif status:
        failure = f"exit {status}: {(lines or ['it said nothing'])[-1][:160]}"
    return ProcessCost(seconds, kilobytes / 1024, failure, late)
