"""`fedkme audit replay`."""

from __future__ import annotations

import math
import time
from dataclasses import asdict, replace
from typing import Annotated

import typer
from rich.console import Console

from audit.replay.cases import Case, cases_of, replayed
from audit.replay.neighbours import KINDS
from audit.replay.pairs import Replayed, replay
from fedkme.errors import AuditError
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
    json="an object: passed, cases; lines for people go to standard error",
)
def replay_runs(
    name: Annotated[str, typer.Argument(help="A protocol, a method of release, or all.")],
    quick: Annotated[bool, typer.Option("--quick", help="Fewer neighbours and one seed a case.")] = False,
    seed: Annotated[int, typer.Option(min=0, help="Seed of rows and noise; the first of five.")] = 0,
    as_json: AsJson = False,
) -> None:
    """Run protocols twice, with one row replaced and declared disclosures frozen; compare the rest."""
    out, errors = console(for_people=not as_json), Console(stderr=True)
    results = []
    cases = [case for protocol in (replayed() if name == "all" else [name]) for case in cases_of(protocol)]
    began, printed = time.perf_counter(), -math.inf
    with errors.status("replaying") as status:
        for number, case in enumerate(cases):
            spent = time.perf_counter() - began
            line = f"{number + 1} of {len(cases)}: {case.name}; {left(number, len(cases), spent)}"
            status.update(line)
            if not errors.is_terminal and spent - printed >= EVERY_S:
                errors.print(line, markup=False, highlight=False, soft_wrap=True)
                printed = spent
            results.append(result := replay_case(case, quick, seed, number))
            for finding in result.found:
                out.print(
                    f"UNDECLARED {case.name}: {finding.what}, "
                    f"{finding.protected} towards {finding.observer}: {finding.line}",
                    markup=False,
                    soft_wrap=True,
                )
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


def replay_case(case: Case, quick: bool, seed: int, number: int) -> Replayed:
    """Replay a case with all neighbours and seeds; a quick replay takes those whose turn it is."""
    if quick:
        count = QUICK_KINDS if case.release is None else 1
        kinds = tuple(KINDS[(number + turn) % len(KINDS)] for turn in range(count))
        return replay(case, kinds, seed + number % SEEDS)
    results = [replay(replace(case, finish=True), KINDS, seed + turn) for turn in range(SEEDS)]
    findings = tuple(dict.fromkeys(line for result in results for line in result.found))
    return Replayed(case.name, sum(result.pairs for result in results), findings)
