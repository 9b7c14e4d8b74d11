"""`fedkme sim` and `fedkme report`."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from sim.arguments import ScenarioName
from sim.config import load_simulation
from sim.report.progress import make_progress
from sim.report.runs import past_runs, table_of
from sim.report.write import print_summary, write_report
from sim.run import simulate
from sim.sweep.cli import sweep_command

app = typer.Typer(
    pretty_exceptions_enable=False,
    add_completion=False,
    no_args_is_help=True,
    help="Simulate: real parties on this machine.",
)
runs_app = typer.Typer(
    pretty_exceptions_enable=False, add_completion=False, help="List the simulations of a folder."
)
report_app = typer.Typer(
    pretty_exceptions_enable=False, add_completion=False, help="Write the HTML report of a run's folder."
)

_WIDTH = 120
"""Columns of a table that does not go to a terminal."""


@app.callback()
def sim() -> None:
    """Simulate: real parties on this machine."""


@app.command()
def run(
    scenario: ScenarioName,
    engine: Annotated[
        str | None,
        typer.Option(help="processes or inprocess.", autocompletion=lambda: ["processes", "inprocess"]),
    ] = None,
    seed: Annotated[int | None, typer.Option(help="Of everything random.")] = None,
    out: Annotated[Path | None, typer.Option(help="Folder for the run; default runs/NAME-N.")] = None,
    assignments: Annotated[
        list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Change a key of the scenario.")
    ] = None,
) -> None:
    """Run a summary over owners, a curator and a consumer; compare it with baselines; report.

    A run that stopped early keeps what it has, prints it, and exits with the number of what stopped it.
    """
    chosen = [f"{key}={value}" for key, value in (("engine", engine), ("seed", seed)) if value is not None]
    settings = load_simulation(scenario, [*chosen, *(assignments or [])])
    console = Console()
    directory, metrics = simulate(settings, out, make_progress(sys.stderr))
    print_summary(metrics, console)
    console.print(f"report: {directory / 'report.html'}", soft_wrap=True)
    raise typer.Exit(metrics["code"])


app.command("sweep")(sweep_command)


@app.command(
    "reproduce",
    context_settings={"ignore_unknown_options": True, "allow_extra_args": True},
    add_help_option=False,
)
def _reproduce(context: typer.Context) -> None:
    """Compute a figure or table of the papers: sarpatwar-fig1, balog-fig1, merf-adult, ..., all."""
    from sim.experiments.cli import reproduce  # jax takes seconds to import, and the other verbs need none

    inner = typer.Typer(pretty_exceptions_enable=False, add_completion=False)
    inner.command()(reproduce)
    inner(args=context.args, prog_name="fedkme sim reproduce")


@report_app.command()
def report(directory: Annotated[Path, typer.Argument(help="The run's folder.")]) -> None:
    """Write DIR/report.html again from what the run left."""
    typer.echo(write_report(directory))


@runs_app.command()
def runs(
    folder: Annotated[Path, typer.Argument(help="The folder that has the runs' folders.")] = Path("runs"),
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """List the simulations of a folder, the newest last: what ran, how it ended, what it reached.

    fedkme runs; fedkme runs elsewhere --json
    """
    found = past_runs(folder)
    if as_json:
        typer.echo(json.dumps([run.to_json() for run in found], indent=2))
    elif found:
        Console(width=None if sys.stdout.isatty() else _WIDTH).print(table_of(found))
    else:
        typer.echo(f"{folder} has no simulation that ended; `fedkme sim run digits` makes one")
