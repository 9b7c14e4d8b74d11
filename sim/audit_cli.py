"""`fedkme audit`."""

from __future__ import annotations

import math
import sys
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from fedkme.errors import LedgerError
from fedkme.privacy.accountants import Figure, Published, Row, Sound, matrix, paid
from fedkme.privacy.events import Disclosure, MwemCall, PrivAuction
from sim.audit.cli import attack
from sim.reconcile import disclosures, verify

app = typer.Typer(
    pretty_exceptions_enable=False, no_args_is_help=True, help="Check ledgers; attack the mechanisms."
)


@app.callback()
def audit() -> None:
    """Check ledgers, and what they cost in privacy; attack the mechanisms."""


app.command()(attack)


@app.command("verify")
def verify_runs(
    paths: Annotated[
        list[Path],
        typer.Argument(help="Folders of runs; and ledgers of parties that keep theirs elsewhere."),
    ],
) -> None:
    """Check every chain, and the curator's ledger against each owner's and the consumer's."""
    files = [path for path in paths if path.is_file()]
    faults = 0
    for directory in (path for path in paths if path not in files):
        for verdict in verify(directory, files):
            faults += bool(verdict.fault)
            typer.echo(
                f"FAULT {verdict.about}: {verdict.fault}" if verdict.fault else f"OK    {verdict.about}"
            )
    if faults:
        raise LedgerError(
            f"ledgers have {faults} faults" if faults > 1 else "a ledger has a fault",
            "Read the lines above; keep the files as they are.",
        )


@app.command()
def ledger(
    paths: Annotated[
        list[Path], typer.Argument(help="Folders of runs, or ledgers: a party's own over its lifetime.")
    ],
    delta: Annotated[float, typer.Option(help="At which epsilons are stated.")] = 1e-5,
) -> None:
    """What each observer can learn of each data set: epsilon by both accountants, and rows seen.

    Several runs are composed: what one owner, or one consumer's D_v, has cost over all of them.
    """
    found = [
        replace(about, run=f"{number} {about.run}")  # simulations call every run alike
        for number, path in enumerate(paths)
        for about in disclosures(path)
    ]
    console = Console(width=None if sys.stdout.isatty() else 120)
    console.print(as_table(matrix(found, Sound(), delta), matrix(found, Published(), delta), delta))
    for (protected, observer), cell in _published_cells(found).items():
        console.print(f"published arithmetic for {protected}, seen by {observer}:", highlight=False)
        for line in Published().steps(paid(cell), delta):
            console.print(f"  {line}", highlight=False, soft_wrap=True)


def as_table(sound: list[Row], published: list[Row], delta: float) -> Table:
    """The matrix; both lists have the same pairs in the same order."""
    table = Table(title=f"epsilon at delta = {delta:g}; only 'sound' is proven; -: no claim")
    for column in ("protected", "observer", "relation", "sound", "published", "raw rows"):
        table.add_column(column, no_wrap=True)
    table.add_column("why", overflow="fold")
    for proven, claimed in zip(sound, published, strict=True):
        table.add_row(
            proven.protected,
            proven.observer,
            proven.relation,
            _number(proven.figure),
            "-" if claimed.figure.method == "none" else _number(claimed.figure),
            str(proven.raw_rows),
            proven.figure.reason or proven.figure.method,
        )
    return table


def _number(figure: Figure) -> str:
    return "inf" if math.isinf(figure.epsilon) else f"{figure.epsilon:.4g}"


def _published_cells(found: list[Disclosure]) -> dict[tuple[str, str], list[Disclosure]]:
    """What the paper has arithmetic for, by pair; an entry in two ledgers counts once."""
    cells: dict[tuple[str, str], list[Disclosure]] = {}
    for about in dict.fromkeys(found):
        if isinstance(about.event, MwemCall | PrivAuction):
            cells.setdefault((about.protected, about.observer), []).append(about)
    return cells
