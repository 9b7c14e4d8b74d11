"""`fedkme match`: rows for a target from a release, on the consumer's own machine."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fedkme.verbs import AsJson, Verbs, console, print_json, table_of

if TYPE_CHECKING:
    from rich.console import Console

app = Verbs()


@app.verb(
    "fedkme match runs/marginals-adult-1 validation.csv --out mine",
    "fedkme match release validation.csv --out mine --rows 300 --real-rows output --json",
    json="an object: output, files, report, metrics (docs/metrics.md)",
)
def match(
    release: Annotated[
        Path, typer.Argument(metavar="RELEASE", help="A release's folder: a simulation's, or a consumer's.")
    ],
    validation: Annotated[
        Path,
        typer.Argument(
            metavar="D_V",
            help="Rows to look like: .csv, .npz, .parquet; or a .toml with settings to read them.",
        ),
    ],
    out: Annotated[Path, typer.Option(metavar="FOLDER", help="Folder for the rows, for the consumer alone.")],
    rows: Annotated[int, typer.Option(min=1, help="Rows to choose.")] = 100,
    draw: Annotated[
        int | None,
        typer.Option(min=1, help="Synthetic rows to draw; default: 50,000, and 425,000 for a rare target."),
    ] = None,
    gamma: Annotated[
        float | None, typer.Option(help="Of the kernel; default: by the schema's domain.")
    ] = None,
    real: Annotated[
        Path | None,
        typer.Option("--real-rows", help="A summary's folder or a file of rows to compare for training."),
    ] = None,
    train: Annotated[bool, typer.Option("--train/--no-train", help="Find what to train on, by D_v.")] = True,
    as_json: AsJson = False,
) -> None:
    """Choose and weigh a release's synthetic rows to look like D_v. No party is asked, nothing is charged.

    The result is a function of exact D_v, so it is for the consumer alone, and says so. Where D_v has labels,
    models on held-out rows of D_v say what to train on.
    """
    from consumer.results import ALONE, CSV, alone
    from fedkme.answers.folder import AskedFolder
    from fedkme.config import validate
    from sim.match.run import MatchSettings, load_target, match_folder, rows_of_summary, target_file
    from sim.progress import Progress, alive
    from sim.report.write import REPORT

    chosen = validate(MatchSettings, {"rows": rows, "draw": draw, "gamma": gamma}, "fedkme match")
    shown = Progress(sys.stderr)
    schema = AskedFolder(release).stored.schema
    target = load_target(target_file(validation), schema)
    others = None if real is None else rows_of_summary(real, schema)
    with contextlib.closing(shown), alive(shown.note):
        metrics = match_folder(release, out, target, chosen, shown, real=others, train=train)
    page = out / alone(REPORT)
    if as_json:
        files = sorted(path.name for path in out.glob(f"{ALONE}*"))
        print_json({"output": out, "files": files, "report": page, "metrics": metrics})
        return
    print_matched(metrics, console())
    typer.echo(f"rows with names and weights: {out / alone(CSV)}")
    typer.echo(f"report, for the consumer alone: {page}")


def print_matched(metrics: Mapping[str, Any], screen: Console) -> None:
    """Print the consumer's result: the verdict, and the table of candidates to train on."""
    from fedkme.pages.html import number
    from fedkme.verdict import lines_of
    from sim.report import privacy
    from sim.report.summary_page import TRAINING_HEADER, training_rows
    from sim.report.write import print_line

    near = metrics["mmd2"]
    lines = [
        f"{metrics['rows']} of {metrics['drawn']:,} synthetic rows, {metrics['audience']}; owners' rows "
        "accessed: 0",
        *lines_of(metrics["verdict"]),
        f"Squared distance to D_v with weights (MMD^2): {number(near['summary_weighted'])}; rows of "
        f"independent columns, chosen likewise: {number(near['control'])}.",
        *privacy.outcome(metrics["privacy"]),
    ]
    for line in lines:
        print_line(line, screen)
    if metrics["training"] is not None:
        screen.print(table_of(TRAINING_HEADER, training_rows(metrics["training"])))
