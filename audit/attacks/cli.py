"""`fedkme audit attack`."""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from rich import box
from rich.table import Table

from audit.attacks.finding import AUDIT_ALPHA, FULL_SCALE, AuditVerdict, Effort
from audit.attacks.repeat import Tally, tallies, tallies_by_tasks, tally_lines
from audit.attacks.subjects import chosen
from fedkme.errors import AuditError, ConfigError
from fedkme.verbs import AsJson, Verbs, console, print_json
from sim.arguments import JobsText
from sim.jobs.choice import parse_jobs

app = Verbs()


@app.verb(
    "fedkme audit attack all --quick",
    "fedkme audit attack clock --scale 2 --seed 7 --json",
    json="an object: scale, seed, alpha, passed, mechanisms; lines for people go to standard error",
)
def attack(
    name: Annotated[str, typer.Argument(help="A mechanism, or all.")],
    quick: Annotated[bool, typer.Option("--quick", help="A tenth of the trials: some minutes.")] = False,
    scale: Annotated[
        float | None, typer.Option(min=1e-3, help="Trials over those of --quick; by default 10.")
    ] = None,
    repeat: Annotated[
        int, typer.Option(min=1, help="Number of audits; counts those with the expected verdict.")
    ] = 1,
    seed: Annotated[int, typer.Option(min=0, help="Of the audit's simulated randomness.")] = 0,
    jobs: JobsText = "1",
    out: Annotated[
        Path | None, typer.Option(help="Folder of what is done: given again, it does the rest.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Try to break mechanisms: sensitivity, law of the noise, black box, recount of the ledger's events."""
    if quick and scale is not None:
        raise ConfigError("'--quick' and '--scale' both set how many trials there are", "Give one of them.")
    effort = Effort(scale=scale or (1.0 if quick else FULL_SCALE), seed=seed)
    subjects, place = chosen(name), parse_jobs(jobs)
    if place == 1 and out is None:
        results = tallies(subjects, effort, repeat, sys.stderr)
    else:
        folder = out or Path("runs/audit")
        results = tallies_by_tasks(subjects, effort, repeat, place, folder, sys.stderr)
    shown = console(for_people=not as_json)
    if repeat == 1:
        verdicts = [tally.verdicts[0] for tally in results]
        shown.print(verdict_table(verdicts))
        lines, summary = verdict_lines(verdicts), report(verdicts, effort)
    else:
        lines, summary = tally_lines(results, seed), repeated_report(results, effort)
    for line in lines:
        shown.print(line, soft_wrap=True, markup=False)
    if as_json:
        print_json(summary)
    odd = [tally.subject.name for tally in results if tally.expected < repeat]
    if odd:
        raise AuditError(
            f"the audit did not come out as it must for {', '.join(odd)}",
            "A sound mechanism was broken, or an attack that must succeed did not; see the findings.",
        )


def verdict_table(verdicts: Sequence[AuditVerdict]) -> Table:
    """One line a mechanism."""
    caption = (
        "n: outputs of each world; power: the least violation, over the claim, found with probability 0.9"
    )
    table = Table(caption=caption, box=box.SIMPLE)
    table.add_column("mechanism", no_wrap=True)
    for heading in ("claims", "epsilon", "delta", "measured", "n", "power", "verdict"):
        table.add_column(heading)
    for verdict in verdicts:
        claim, measured, power = verdict.subject.claim, verdict.measured, verdict.power
        table.add_row(
            verdict.subject.name,
            verdict.subject.standing,
            "" if math.isnan(claim.epsilon) else f"{claim.epsilon:.3g}",
            "" if math.isnan(claim.epsilon) else f"{claim.delta:g}",
            "" if measured is None else f">= {measured:.3g}",
            str(verdict.trials or ""),
            "" if power is None else f"{power:.3g}",
            "broken" if verdict.broken else "not broken",
        )
    return table


def verdict_lines(verdicts: Sequence[AuditVerdict]) -> list[str]:
    """Lines about each mechanism, and the violations found where there must be none."""
    lines = []
    for verdict in verdicts:
        flag = "" if verdict.expected else "UNEXPECTED: "
        lines.append(f"{flag}{verdict.subject.name}: {verdict.sentence()}")
        if not verdict.expected:
            lines += [f"  {line}" for line in verdict.violations()]
    return lines


def report(verdicts: Sequence[AuditVerdict], effort: Effort) -> dict[str, Any]:
    """All findings as plain values."""
    passed = all(verdict.expected for verdict in verdicts)
    return _head(effort, passed) | {"mechanisms": [verdict.to_json() for verdict in verdicts]}


def repeated_report(results: Sequence[Tally], effort: Effort) -> dict[str, Any]:
    """Repetitions, as plain values."""
    passed = all(tally.expected == len(tally.verdicts) for tally in results)
    return _head(effort, passed) | {"mechanisms": [tally.to_json(effort.seed) for tally in results]}


def _head(effort: Effort, passed: bool) -> dict[str, Any]:
    return {
        "scale": effort.scale,
        "seed": effort.seed,
        "alpha": {"audit": AUDIT_ALPHA, "statistic": effort.alpha},
        "passed": passed,
    }
