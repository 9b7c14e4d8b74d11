"""`fedkme audit replay`."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from fedkme.errors import AuditError, ConfigError
from sim.replay.cases import Case, cases_of, replayed
from sim.replay.neighbours import KINDS
from sim.replay.pairs import Replayed, replay

QUICK_KINDS = 2
"""Neighbours of a case in a quick replay, of a release one: they take turns from case to case."""


def replay_runs(
    name: Annotated[str, typer.Argument(help="A protocol, a method of release, or all.")],
    quick: Annotated[bool, typer.Option("--quick", help="Fewer neighbours a case.")] = False,
    seed: Annotated[int, typer.Option(min=0, help="Of rows and noise.")] = 0,
    file: Annotated[Path | None, typer.Option("--json", help="Write every finding here.")] = None,
) -> None:
    """Run protocols twice, with one row replaced and declared disclosures frozen; the rest must be equal."""
    console, errors = Console(highlight=False, soft_wrap=True), Console(stderr=True)
    results = []
    cases = [case for protocol in (replayed() if name == "all" else [name]) for case in cases_of(protocol)]
    with errors.status("replaying") as status:
        for number, case in enumerate(cases):
            status.update(f"{number + 1} of {len(cases)}: {case.name}")
            results.append(result := replay_case(case, quick, seed, number))
            for found in result.found:
                console.print(
                    f"UNDECLARED {case.name}: {found.what}, {found.protected} towards {found.observer}: "
                    f"{found.line}",
                    markup=False,
                )
    pairs = sum(result.pairs for result in results)
    odd = [result.case for result in results if result.found]
    if file is not None:
        _write(file, results)
    console.print(f"{len(results)} cases, {pairs} pairs of runs: {len(odd)} with something undeclared")
    if odd:
        raise AuditError(
            f"replay finds what no ledger declares in {', '.join(odd)}",
            "Look at the lines above: each is a difference that one row makes, or noise that is too weak.",
        )


def replay_case(case: Case, quick: bool, seed: int, number: int) -> Replayed:
    """Replay a case, with all neighbours or with those whose turn it is."""
    if not quick:
        return replay(replace(case, finish=True), KINDS, seed)
    count = QUICK_KINDS if case.release is None else 1
    kinds = tuple(KINDS[(number + turn) % len(KINDS)] for turn in range(count))
    return replay(case, kinds, seed)


def _write(file: Path, results: list[Replayed]) -> None:
    plain = {
        "passed": not any(result.found for result in results),
        "cases": [asdict(each) for each in results],
    }
    try:
        file.write_text(json.dumps(plain, indent=1) + "\n", encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"{file} cannot be written: {error.strerror}", "Correct '--json'.") from None
