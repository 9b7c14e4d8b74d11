"""`fedkme audit replay`."""

from __future__ import annotations

import math
import time
from dataclasses import asdict, replace
from typing import Annotated

import typer
from rich.console import Console

from fedkme.errors import AuditError
from fedkme.ops.spans import left
from fedkme.verbs import AsJson, console, print_json
from sim.replay.cases import Case, cases_of, replayed
from sim.replay.neighbours import KINDS
from sim.replay.pairs import Replayed, replay

SEEDS = 5
"""Seeds that a case is played with; in a quick replay one of them, they take turns from case to case."""
QUICK_KINDS = 2
"""Neighbours of a case in a quick replay, of a release one: they take turns from case to case."""

EVERY_S = 10.0
"""Time between lines where there is no terminal."""


def replay_runs(
    name: Annotated[str, typer.Argument(help="A protocol, a method of release, or all.")],
    quick: Annotated[bool, typer.Option("--quick", help="Fewer neighbours and one seed a case.")] = False,
    seed: Annotated[int, typer.Option(min=0, help="Of rows and noise; the first of five.")] = 0,
    as_json: AsJson = False,
) -> None:
    """Run protocols twice, with one row replaced and declared disclosures frozen; the rest must be equal."""
    out, errors = console(for_people=not as_json), Console(stderr=True)
    results = []
    cases = [case for protocol in (replayed() if name == "all" else [name]) for case in cases_of(protocol)]
    began, said = time.perf_counter(), -math.inf
    with errors.status("replaying") as status:
        for number, case in enumerate(cases):
            spent = time.perf_counter() - began
            line = f"{number + 1} of {len(cases)}: {case.name}; {left(number, len(cases), spent)}"
            status.update(line)
            if not errors.is_terminal and spent - said >= EVERY_S:
                errors.print(line, markup=False, highlight=False, soft_wrap=True)
                said = spent
            results.append(result := replay_case(case, quick, seed, number))
            for found in result.found:
                out.print(
                    f"UNDECLARED {case.name}: {found.what}, {found.protected} towards {found.observer}: "
                    f"{found.line}",
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
            f"replay finds what no ledger declares in {', '.join(odd)}",
            "Look at the lines above: each is a difference that one row makes, or noise that is too weak.",
        )


def replay_case(case: Case, quick: bool, seed: int, number: int) -> Replayed:
    """Replay a case with all neighbours and seeds, or with those whose turn it is."""
    if quick:
        count = QUICK_KINDS if case.release is None else 1
        kinds = tuple(KINDS[(number + turn) % len(KINDS)] for turn in range(count))
        return replay(case, kinds, seed + number % SEEDS)
    results = [replay(replace(case, finish=True), KINDS, seed + turn) for turn in range(SEEDS)]
    found = tuple(dict.fromkeys(line for result in results for line in result.found))
    return Replayed(case.name, sum(result.pairs for result in results), found)
