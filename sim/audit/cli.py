"""`fedkme audit attack`."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from rich import box
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from fedkme.errors import AuditError, ConfigError
from sim.audit.finding import AUDIT_ALPHA, FULL_SCALE, Effort, Subject, Verdict
from sim.audit.subjects import chosen

app = typer.Typer(
    pretty_exceptions_enable=False, no_args_is_help=True, help="Audit: what is claimed against what is true."
)


@app.callback()
def audit() -> None:
    """Audit: what is claimed against what is true."""


@app.command()
def attack(
    name: Annotated[str, typer.Argument(help="A mechanism, or all.")],
    quick: Annotated[bool, typer.Option("--quick", help="A tenth of the trials: about a minute.")] = False,
    file: Annotated[Path | None, typer.Option("--json", help="Write every finding here.")] = None,
    seed: Annotated[int, typer.Option(min=0, help="Of the audit's simulated randomness.")] = 0,
) -> None:
    """Try to break mechanisms: sensitivity, law of the noise, black box, recount of the ledger's events."""
    effort = Effort(scale=1.0 if quick else FULL_SCALE, seed=seed)
    verdicts = run_attacks(chosen(name), effort, Console(stderr=True))
    console = Console()
    console.print(verdict_table(verdicts))
    for line in verdict_lines(verdicts):
        console.print(line, soft_wrap=True, highlight=False, markup=False)
    if file is not None:
        _write(file, report(verdicts, effort))
    odd = [verdict.subject.name for verdict in verdicts if not verdict.expected]
    if odd:
        raise AuditError(
            f"the audit did not come out as it must for {', '.join(odd)}",
            "A sound mechanism was broken, or an attack that must succeed did not; see the findings.",
        )


def run_attacks(subjects: Sequence[Subject], effort: Effort, console: Console) -> list[Verdict]:
    """Every check of every subject, with progress on a terminal."""
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    verdicts = []
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
        task = progress.add_task("audit", total=sum(len(subject.checks) for subject in subjects))
        for subject in subjects:
            progress.update(task, description=subject.name)
            findings = []
            for check in subject.checks:
                findings.append(check(effort))
                progress.advance(task)
            verdicts.append(Verdict(subject, tuple(findings)))
    return verdicts


def verdict_table(verdicts: Sequence[Verdict]) -> Table:
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


def verdict_lines(verdicts: Sequence[Verdict]) -> list[str]:
    """What is to be said of each mechanism, and which violations were found where there must be none."""
    lines = []
    for verdict in verdicts:
        flag = "" if verdict.expected else "UNEXPECTED: "
        lines.append(f"{flag}{verdict.subject.name}: {verdict.sentence()}")
        if not verdict.expected:
            lines += [
                f"  {f.layer}: {f.statistic}: {f.measured:.5g}, claimed {f.claimed:.5g}"
                for f in verdict.findings
                if f.violated
            ]
    return lines


def report(verdicts: Sequence[Verdict], effort: Effort) -> dict[str, Any]:
    """Everything, as plain values."""
    return {
        "scale": effort.scale,
        "seed": effort.seed,
        "alpha": {"audit": AUDIT_ALPHA, "statistic": effort.alpha},
        "passed": all(verdict.expected for verdict in verdicts),
        "mechanisms": [verdict.to_json() for verdict in verdicts],
    }


def _write(file: Path, found: dict[str, Any]) -> None:
    try:
        file.write_text(json.dumps(found, indent=1, allow_nan=False) + "\n", encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"{file} cannot be written: {error.strerror}", "Correct '--json'.") from None
