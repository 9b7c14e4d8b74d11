"""`fedkme audit replay`."""

from __future__ import annotations

import json
import math
import subprocess
import sys
import time
from dataclasses import asdict, replace
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from audit.peers import frozen
from audit.replay.cases import Case, cases_of, replayed
from audit.replay.judge import Undeclared
from audit.replay.neighbours import KINDS
from audit.replay.pairs import Replayed, replay
from fedkme.errors import AuditError, ConfigError, DataError
from fedkme.ops.spans import left
from fedkme.verbs import AsJson, Verbs, console, print_json

SEEDS = 5
"""Seeds of a case; a quick replay takes one of them, in turn from case to case."""
QUICK_KINDS = 2
"""Kinds of neighbours of a case in a quick replay, in turn from case to case; a release has one kind."""

EVERY_S = 10.0
"""Time between lines of progress without a terminal."""


app = Verbs()


@app.verb(
    "fedkme audit replay cells --quick",
    "fedkme audit replay all --json",
    "fedkme audit replay audit/peers/reports/opendp_aim.py --python peer/bin/python",
    json="an object: passed, cases; lines for people go to standard error",
)
def replay_runs(
    name: Annotated[
        str, typer.Argument(help="A protocol, a method of release, all, or a FILE.py on a peer.")
    ],
    quick: Annotated[bool, typer.Option("--quick", help="Fewer neighbours and one seed a case.")] = False,
    seed: Annotated[int, typer.Option(min=0, help="Seed of rows and noise; the first of five.")] = 0,
    python: Annotated[Path, typer.Option(help="Interpreter that has the peer of a FILE.py.")] = Path(
        sys.executable
    ),
    as_json: AsJson = False,
) -> None:
    """Run protocols twice, with one row replaced and declared disclosures frozen; compare the rest."""
    peer = Path(name) if name.endswith(".py") else None
    if peer is None and python != Path(sys.executable):
        raise ConfigError("--python goes with a FILE.py on a peer", "Leave it out, or name such a file.")
    out, errors = console(for_people=not as_json), Console(stderr=True)
    results = [] if peer is None else [replay_peer(peer, python)]
    names = [] if peer is not None else replayed() if name == "all" else [name]
    cases = [case for protocol in names for case in cases_of(protocol)]
    began, printed = time.perf_counter(), -math.inf
    with errors.status("replaying") as status:
        for number, case in enumerate(cases):
            spent = time.perf_counter() - began
            line = f"{number + 1} of {len(cases)}: {case.name}; {left(number, len(cases), spent)}"
            status.update(line)
            if not errors.is_terminal and spent - printed >= EVERY_S:
                errors.print(line, markup=False, highlight=False, soft_wrap=True)
                printed = spent
            results.append(replay_case(case, quick, seed, number))
            _print_findings(out, results[-1])
    if peer is not None:
        _print_findings(out, results[0])
    pairs = sum(result.pairs for result in results)
    odd = [result.case for result in results if result.found]
    if as_json:
        print_json({"passed": not odd, "cases": [asdict(result) for result in results]})
    out.print(f"{len(results)} cases, {pairs} pairs of runs: {len(odd)} with something undeclared")
    if odd:
        raise AuditError(
            f"replay finds undeclared differences in {', '.join(odd)}",
            "Read the lines above: each names a difference by one row, or noise that is too weak.",
        )


def _print_findings(out: Console, result: Replayed) -> None:
    for finding in result.found:
        out.print(
            f"UNDECLARED {result.case}: {finding.what}, "
            f"{finding.protected} towards {finding.observer}: {finding.line}",
            markup=False,
            soft_wrap=True,
        )


def replay_case(case: Case, quick: bool, seed: int, number: int) -> Replayed:
    """Replay a case with all neighbours and seeds; a quick replay takes those whose turn it is."""
    if quick:
        count = QUICK_KINDS if case.release is None else 1
        kinds = tuple(KINDS[(number + turn) % len(KINDS)] for turn in range(count))
        return replay(case, kinds, seed + number % SEEDS)
    results = [replay(replace(case, finish=True), KINDS, seed + turn) for turn in range(SEEDS)]
    findings = tuple(dict.fromkeys(line for result in results for line in result.found))
    return Replayed(case.name, sum(result.pairs for result in results), findings)


def replay_peer(file: Path, python: Path) -> Replayed:
    """Replay a file on a peer's release by the interpreter that has the peer (`audit.peers.frozen`).

    Raises:
        DataError: the file or the interpreter does not run, or something undeclared draws.
    """
    command = [str(python), "-W", "ignore", str(frozen.__file__), str(file)]
    try:
        ended = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    except OSError as error:
        raise DataError(
            f"{python} does not run: {error.strerror}", "Give the peer's interpreter as --python."
        ) from None
    lines = (ended.stderr if ended.returncode else ended.stdout).strip().splitlines() or ["no output"]
    answer = {"error": lines[-1]} if ended.returncode else json.loads(lines[-1])
    if answer["error"]:
        remedy = "Run the file alone by --python, and name in DECLARED every function that draws."
        raise DataError(f"{file} cannot be replayed: {answer['error']}", remedy)
    findings = (Undeclared("bytes", "a row", "all", finding) for finding in answer["findings"])
    return Replayed(file.name, 1, tuple(findings))
