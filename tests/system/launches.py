"""Small runs, somebody who watches them, and processes that are waited for, not slept for."""

from __future__ import annotations

import csv
import json
import os
import select
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from sim.config import load_simulation
from sim.evaluation.metrics import Metrics
from sim.progress import Follower
from sim.run import simulate
from tests import forked
from tests.parties import MIXED, WAIT_S

SMALL = ("p=12", "baselines=[]", "downstream=false", "protocol=algorithm3")
"""Settings of a run of many short rounds, unless a protocol is given."""

HEADER = "age,smoker,ill"


@dataclass
class KeptProgress(Follower):
    """A `Progress` that keeps what it is shown, and acts on the first round."""

    on_first_round: Callable[[], None] | None = None
    rounds: list[int] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)

    def round(self, record: Mapping[str, Any]) -> None:
        self.rounds.append(int(record["round"]))
        if len(self.rounds) == 1 and self.on_first_round is not None:
            self.on_first_round()

    def note(self, line: str) -> None:
        self.notes.append(line)

    def warn(self, line: str) -> None:
        self.warnings.append(line)
        super().warn(line)


def launch(
    out: Path, *assignments: str, scenario: str = "digits", progress: KeptProgress | None = None
) -> tuple[Path, Metrics]:
    """`fedkme sim run` without its command line."""
    settings = load_simulation(scenario, (*SMALL, *assignments))
    return simulate(settings, out, progress or KeptProgress())


def read_json(path: Path) -> Any:
    return json.loads(path.read_text(encoding="utf-8"))


def read_lines(path: Path) -> list[Any]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def rows_in(path: Path, owner: str) -> list[Any]:
    """Rows of an owner that the curator saw, as a ledger has them, in order."""
    events = [line["disclosure"] for line in read_lines(path)]
    return [
        event
        for event in events
        if event["protected"] == owner
        and event["observer"] == "curator"
        and event["event"]["kind"] == "raw-rows"
    ]


def rounds(directory: Path) -> list[dict[str, str]]:
    """rounds.csv without times."""
    with (directory / "rounds.csv").open(newline="", encoding="utf-8") as file:
        return [{k: v for k, v in row.items() if k != "milliseconds"} for row in csv.DictReader(file)]


def ledgers(directory: Path) -> list[Path]:
    """Every party's, relative to the run's folder."""
    return sorted(
        path.relative_to(directory) for path in directory.rglob("*.jsonl") if path.name != "log.jsonl"
    )


def transcript(directory: Path) -> dict[str, Any]:
    """Facts of a run that engines must agree on, bit for bit."""
    return {
        "rounds": rounds(directory),
        "ledger": {str(path): (directory / path).read_bytes() for path in ledgers(directory)},
        "summary": (directory / "summary.npz").read_bytes(),
        "record": read_json(directory / "record.json") | {"bytes": None},
        "evaluation": (directory / "consumer" / "evaluation.json").read_bytes(),
    }


def owners_agree(directory: Path) -> bool:
    """Check that each owner wrote down itself, in order, what the curator wrote down of it."""
    return all(
        rows_in(path, path.stem) == rows_in(directory / "ledger.jsonl", path.stem)
        for path in (directory / "owners").glob("*.jsonl")
    )


def write_own_files(folder: Path, sizes: Mapping[str, int], **texts: str) -> Path:
    """A `csv` scenario with an owner of so many rows for each name.

    Args:
        folder: where to.
        sizes: rows of each owner.
        texts: whole texts of files in place of what is written otherwise, by name without the ending.
    """
    folder.mkdir(exist_ok=True)
    lists = {name: range(20 + 7 * i, 20 + 7 * i + rows) for i, (name, rows) in enumerate(sizes.items())}
    for name, numbers in {**lists, "validation": range(30, 42), "test": range(31, 39)}.items():
        rows = "".join(f"{n % 120},{'yes' if n % 3 else 'no'},{'no' if n % 2 else 'yes'}\n" for n in numbers)
        (folder / f"{name}.csv").write_text(texts.get(name, f"{HEADER}\n{rows}"))
    (folder / "schema.toml").write_text(texts.get("schema", MIXED))
    owners = "".join(f'{name} = "{name}.csv"\n' for name in sizes)
    scenario = folder / "scenario.toml"
    scenario.write_text(
        '[scenario]\nkind = "csv"\nschema_file = "schema.toml"\nvalidation = "validation.csv"\n'
        f'test = "test.csv"\nseeds = 10\n[scenario.owners]\n{owners}[summary]\np = 12\n'
    )
    return scenario


def alive(pid: int) -> bool:
    """Check whether a process runs; one that ended and was not waited for counts as one."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def processes_that_name(path: Path) -> list[int]:
    """Every process with a path in its arguments or its environment."""
    found = []
    for entry in Path("/proc").iterdir():
        try:
            if entry.name.isdigit() and any(
                str(path).encode() in (entry / file).read_bytes() for file in ("cmdline", "environ")
            ):
                found.append(int(entry.name))
        except OSError:
            continue  # it ended while we looked
    return found


def wait_until_gone(pid: int) -> bool:
    """Wait for the end of any process, our child or not."""
    try:
        handle = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    try:
        return bool(select.select([handle], [], [], WAIT_S)[0])
    finally:
        os.close(handle)


Process = subprocess.Popen[str] | forked.Forked
ROLES = ("curator", "owner", "consumer")


class Start(Protocol):
    """Starts `python -m MODULE ...` with its output in pipes."""

    def __call__(self, module: str, *arguments: str | Path, **environment: str) -> Process: ...


def start(module: str, *arguments: str | Path, **environment: str) -> Process:
    """`python -m MODULE ...` with its output in pipes; a role in the suite's environment is forked."""
    if module in ROLES and not environment:
        return forked.piped([module, *map(str, arguments)])
    return subprocess.Popen(
        [sys.executable, "-m", module, *map(str, arguments)],
        env=os.environ | environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def line_with(process: Process, text: str) -> str:
    """Read the process's standard error until a line holds a text; the line."""
    assert process.stderr is not None
    for line in process.stderr:
        if text in line:
            return line
    raise AssertionError(f"the process ended without saying {text!r}")


def end_of(process: Process) -> tuple[int, str, list[str]]:
    """Exit status, standard output, and the lines of standard error that nobody has read.

    `communicate` would pass over what `line_with` has in its buffer, and may begin in the middle of a line.
    What a command prints here fits into a pipe, so that one stream can be read after the other.
    """
    assert process.stdout is not None
    assert process.stderr is not None
    err, out = process.stderr.read(), process.stdout.read()
    return process.wait(WAIT_S), out, err.splitlines()
