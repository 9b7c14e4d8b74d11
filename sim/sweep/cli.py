"""`fedkme sim sweep`."""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fedkme.verbs import AsJson, print_json
from sim.arguments import JobsText, ScenarioName

if TYPE_CHECKING:
    from sim.sweep.run import SweepResult


def sweep_command(
    scenario: ScenarioName,
    more: Annotated[
        list[str] | None, typer.Argument(metavar="[KEY=VALUE,...]...", help="Further axes, behind --grid.")
    ] = None,
    grid: Annotated[
        list[str] | None, typer.Option("--grid", metavar="KEY=VALUE,...", help="An axis: any key of --set.")
    ] = None,
    seeds: Annotated[str, typer.Option(help="0:5 for 0 to 4, or 0,3,7.")] = "0",
    jobs: JobsText = "1",
    out: Annotated[Path, typer.Option(help="Folder of the table and the page.")] = Path("runs/sweep"),
    assignments: Annotated[
        list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Change a key for all runs.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Run a scenario once for each combination of settings: a table, and a page with curves.

    Given again, it runs what OUT/sweep.parquet lacks: a run is known by the SHA-256 of its resolved
    configuration and the package's version. A run that fails is a row with its code and cause, and the
    others go on; the exit status is then that code. Ctrl-C keeps what is there.
    """
    from sim.jobs.choice import parse_jobs  # help needs none of it
    from sim.progress import Progress
    from sim.sweep.grid import SweepSettings, parse_grid, parse_seeds
    from sim.sweep.run import sweep

    settings = SweepSettings(
        scenario=scenario,
        out=out,
        grid=parse_grid([*(grid or []), *(more or [])]),
        seeds=parse_seeds(seeds),
        assignments=tuple(assignments or ()),
        jobs=parse_jobs(jobs),
    )
    progress = Progress(sys.stderr)
    try:
        result = sweep(settings, progress.hear)
    finally:
        progress.close()
    if as_json:
        print_json({"table": result.table, "page": result.page, "runs": result.rows})
    else:
        typer.echo("\n".join(closing_lines(result)))
    raise typer.Exit(result.failures[0]["code"] if result.failures else 0)


def closing_lines(result: SweepResult) -> list[str]:
    """Lines for the end of a sweep: what failed, where the table and the page are."""
    causes = Counter((row["code"], row["cause"]) for row in result.failures)
    return [
        *(
            f"{times} of {len(result.rows)} runs: error {code}: {cause}"
            for (code, cause), times in causes.items()
        ),
        f"table: {result.table} ({len(result.rows)} runs)",
        f"page: {result.page}",
    ]
