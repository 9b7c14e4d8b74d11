"""`fedkme sim`, `fedkme report` and `fedkme runs`. A verb imports its work when it runs, not for its help."""

from __future__ import annotations

import contextlib
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from consumer.results import CSV, alone, place_of
from fedkme.errors import ConfigError, NotMadeError, typed
from fedkme.ops.derivation import Derivation
from fedkme.protocols import TARGET
from fedkme.verbs import AsJson, Verbs, console, print_json, table_of
from sim.arguments import ComparedWith, JobsText, ScenarioKeys, ScenarioName

if TYPE_CHECKING:
    from rich.console import Console

    from sim.sweep.run import SweepResult

app = Verbs("Simulate: real parties on this machine.", place="sim")
runs_app = Verbs()
report_app = Verbs()


@app.verb(
    "fedkme sim run digits",
    "fedkme sim run digits --watch",
    "fedkme sim run digits --engine inprocess --set p=50 --set privacy.epsilon=3",
    "fedkme sim run my/scenario.toml --out runs/first --json",
    json="an object: directory, report, metrics (docs/metrics.md)",
)
def run(
    scenario: ScenarioName,
    engine: Annotated[
        str | None,
        typer.Option(
            help="processes, inprocess or ray.", autocompletion=lambda: ["processes", "inprocess", "ray"]
        ),
    ] = None,
    seed: Annotated[int | None, typer.Option(help="Seed of everything random.")] = None,
    out: Annotated[Path | None, typer.Option(help="Folder for the run; default runs/NAME-N.")] = None,
    assignments: ScenarioKeys = None,
    baselines: Annotated[
        ComparedWith | None,
        typer.Option(
            help="quick: leave out baselines that ask every owner in every round; none: no baseline."
        ),
    ] = None,
    details: Annotated[
        bool,
        typer.Option("--details", help="Print every figure: baselines, models, privacy by observer, time."),
    ] = False,
    watch: Annotated[bool, typer.Option("--watch", help="Show the run on a page, on this machine.")] = False,
    as_json: AsJson = False,
) -> None:
    """Run a summary over owners, a curator and a consumer; compare it with baselines; write a report.

    A few lines say what came out, how good it is and who saw what; --details prints the tables.

    A run that stopped early keeps and prints its partial results, and exits with the error's number.
    """
    from sim.config import compared_with, load_simulation
    from sim.match.cli import print_matched
    from sim.match.target import simulate
    from sim.progress import Progress, alive
    from sim.report.write import REPORT, print_outcome, print_summary
    from sim.watch import page_of

    chosen = [f"{key}={value}" for key, value in (("engine", engine), ("seed", seed)) if value is not None]
    settings = load_simulation(scenario, [*chosen, *(assignments or [])])
    progress = Progress(sys.stderr)
    if baselines is not None:
        names, settings = settings.baselines, compared_with(settings, baselines)
        omitted = ", ".join(name for name in names if name not in settings.baselines)
        progress.note(f"left out by --baselines {baselines.value}: {omitted or 'nothing'}")
    with page_of() if watch else contextlib.nullcontext() as progress.watch:
        with alive(progress.note):
            directory, metrics = simulate(settings, out, progress)
        targeted = metrics.get("protocol") == TARGET
        report = directory / "consumer" / alone(REPORT) if targeted else directory / REPORT
        if as_json:
            print_json({"directory": directory, "report": report, "metrics": metrics})
        else:
            steps = Derivation(f"`fedkme report {typed(directory)}` writes the page of this run.")
            last = print_matched if targeted else print_outcome
            steps.step("the last lines", lambda: last(metrics, console()))
            if details and not targeted:
                steps.step("the details", lambda: print_summary(metrics, console()))
            for loss in steps.losses:
                typer.echo(loss, err=True)
            if (table := place_of(directory / "consumer", CSV)).is_file():
                typer.echo(f"rows with names and weights: {table}")
            typer.echo(f"report: {report}{'' if details or targeted else ' (all figures here: --details)'}")
    raise typer.Exit(metrics["code"])


@app.verb(
    "fedkme sim sweep digits --grid owners=5,20,50 p=50,100 protocol=cells,uniform --seeds 0:5 --jobs 2",
    "fedkme sim sweep adult --grid privacy.epsilon=0.5,1,3 --set protocol=cells --set 'baselines=[]'",
    json="an object: table, page, runs (rows of the table)",
    name="sweep",
)
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
    assignments: ScenarioKeys = None,
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
        print_combinations([*settings.grid], result.rows, console())
        typer.echo("\n".join(closing_lines(result)))
    raise typer.Exit(result.failures[0]["code"] if result.failures else 0)


def print_combinations(axes: Sequence[str], rows: Sequence[dict[str, Any]], screen: Console) -> None:
    """Print the table of a sweep: a line for each combination of settings."""
    from sim.sweep.page import combinations

    header, cells = combinations(axes, rows)
    figures = (f">{name}" for name in header[len(axes) :])
    screen.print(table_of([*header[: len(axes)], *figures], cells))


def closing_lines(result: SweepResult) -> list[str]:
    """Lines for the end of a sweep: whether rows were invented, what failed, where table and page are."""
    from sim.sweep.page import invented

    causes = Counter((row["code"], row["cause"]) for row in result.failures)
    return [
        *invented(result.rows),
        *(
            f"{times} of {len(result.rows)} runs: error {code}: {cause}"
            for (code, cause), times in causes.items()
        ),
        f"table: {result.table} ({len(result.rows)} runs)",
        f"page: {result.page}",
    ]


@report_app.verb(
    "fedkme report runs/digits-1", "fedkme report consumer.toml", json="an object: report (the file)"
)
def report(
    directory: Annotated[
        Path, typer.Argument(help="The folder of a run, or the CONSUMER.toml of a deployed consumer.")
    ],
    as_json: AsJson = False,
) -> None:
    """Write report.html from a run's folder, or from the results of a deployed consumer.

    A release's missing rows, card and figures are first made from its released numbers.
    """
    from fedkme.ledgers.figures import check_stated
    from sim.releases import complete_release, has_numbers
    from sim.report.write import write_report

    check_stated(directory)
    code = 0
    if directory.suffix == ".toml":
        from sim.match.run import report_of_consumer

        written = report_of_consumer(directory)
    elif has_numbers(directory):
        written = directory / "report.html"
        losses = complete_release(directory, lambda line: typer.echo(line, err=True))["losses"]
        code = NotMadeError.code if losses else 0
    else:
        written = write_report(directory)
    if as_json:
        print_json({"report": written})
    else:
        typer.echo(written)
    raise typer.Exit(code)


@runs_app.verb(
    "fedkme runs",
    "fedkme runs elsewhere --json",
    json="a list of objects: directory, ended, status, what, owners, rows, accessed, mmd2, verdict, ...",
)
def runs(
    folder: Annotated[Path, typer.Argument(help="The folder that holds the runs' folders.")] = Path("runs"),
    as_json: AsJson = False,
) -> None:
    """List the simulations of a folder, the newest last, with their settings, status and quality."""
    from sim.report.runs import past_runs, table_of_runs

    if folder != Path("runs") and not folder.is_dir():
        raise ConfigError(f"there is no folder {folder}", "Name the folder that holds the runs' folders.")
    rows = past_runs(folder)
    if as_json:
        print_json(rows)
    elif rows:
        screen = console()
        if not screen.is_terminal:
            screen.width = 10_000  # a pipe has no width: print each run on one line, with whole names
        screen.print(table_of_runs(rows))
    else:
        typer.echo(f"{folder} has no simulation that ended; `fedkme sim run digits` makes one")
