"""`fedkme release`: synthetic data from pooled owners, simulated."""

import contextlib
import inspect
import os
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

import typer
from rich.console import Console
from typer.core import TyperCommand
from typing_extensions import override

from fedkme.errors import NotMadeError
from fedkme.ops.derivation import Derivation
from fedkme.protocols import AUTO, PROTOCOLS
from fedkme.releases.settings import METHODS
from fedkme.verbs import AsJson, Verbs, console, epilog, print_json
from fedkme.verdict import lines_of
from sim.arguments import MethodKeys, ScenarioName

app = Verbs("Release synthetic data that many owners' rows stand behind, simulated on this machine.")

Task = Literal["rows", "kernel"]
TaskOption = Annotated[Task, typer.Option(help="rows, or kernel: questions about any function of a row.")]
EngineOption = Annotated[str | None, typer.Option(help="processes or inprocess.")]
Seed = Annotated[int | None, typer.Option(help="Of everything random.")]
Epsilon = Annotated[float | None, typer.Option(help="Of the whole release, towards the consumer.")]
Delta = Annotated[float | None, typer.Option(help="Of the whole release.")]
Rows = Annotated[int | None, typer.Option(help="Synthetic rows; default: as many as owners have.")]
Secure = Annotated[
    bool, typer.Option("--secure", help="Secure aggregation: owners do not trust the curator.")
]
Dropouts = Annotated[int, typer.Option(help="Owners that may be lost under secure aggregation.")]
Colluders = Annotated[
    int | None,
    typer.Option(help="Owners that may side with the curator; default 1 of three or more, else 0."),
]
Copies = Annotated[int | None, typer.Option(help="Further tables that show how uncertain the rows are.")]
Out = Annotated[Path | None, typer.Option(help="Folder for the run; default runs/METHOD-NAME-N.")]
Device = Annotated[
    Literal["cpu", "gpu"] | None,
    typer.Option(help="Where jax trains generators: cpu or gpu; default: a GPU where it has one."),
]
Details = Annotated[
    bool, typer.Option("--details", help="Print every figure: distances, models, privacy by observer.")
]
WatchOption = Annotated[bool, typer.Option("--watch", help="Show the run on a page, on this machine.")]


class MethodCommand(TyperCommand):
    """Verb of a method, whose help ends with the method's keys, read when help is asked for."""

    @override
    def get_help(self, ctx: Any) -> str:
        """Return the help, with the keys of the method that the verb is called after."""
        from fedkme.descriptions import keys_of

        keys = keys_of(METHODS[str(self.name)])
        self.epilog = "\n\n".join([epilog_of(str(self.name)), "Keys for --set:", *keys])
        return super().get_help(ctx)


def epilog_of(method: str) -> str:
    """Return the end of a method's help, without its keys."""
    return epilog(
        f"fedkme release {method} adult",
        f"fedkme release {method} adult --secure --epsilon 3 --set rows=500 --json",
        json="an object: directory, report, metrics (docs/metrics.md)",
    )


def _add(method: str, text: str) -> None:
    def verb(
        scenario: ScenarioName,
        task: TaskOption = "rows",
        engine: EngineOption = None,
        seed: Seed = None,
        epsilon: Epsilon = None,
        delta: Delta = None,
        rows: Rows = None,
        copies: Copies = None,
        secure: Secure = False,
        dropouts: Dropouts = 0,
        colluders: Colluders = None,
        out: Out = None,
        assignments: MethodKeys = None,
        device: Device = None,
        details: Details = False,
        watch: WatchOption = False,
        as_json: AsJson = False,
    ) -> None:
        from sim.progress import Progress, alive
        from sim.release_config import load_planned, load_release
        from sim.releases import simulate_release
        from sim.watch import page_of

        if device is not None:  # for jax of all parties, which is not imported yet
            os.environ["JAX_PLATFORMS"] = device
        given = {"engine": engine, "seed": seed, "epsilon": epsilon, "delta": delta, "rows": rows}
        given["copies"] = copies
        changes = [f"{key}={value}" for key, value in given.items() if value is not None]
        changes += [*_trust(secure, dropouts, colluders), *(assignments or [])]
        shown, parties, plan = Progress(sys.stderr), None, None
        if method == AUTO:
            settings, parties, plan = load_planned(scenario, changes, task)
        else:
            settings = load_release(method, scenario, changes)
        with page_of() if watch else contextlib.nullcontext() as shown.watch:
            with alive(shown.note):
                directory, metrics = simulate_release(settings, out, shown, parties, plan)
            steps = Derivation()
            if as_json:
                print_json({"directory": directory, "report": directory / "report.html", "metrics": metrics})
            else:
                steps.step("the last lines", lambda: print_release(metrics, directory, console(), details))
        for loss in steps.losses:
            typer.echo(loss, err=True)
        raise typer.Exit(metrics["code"] or (NotMadeError.code if steps.losses else 0))

    verb.__doc__ = text
    if method != AUTO:  # the task is what `auto` chooses by
        signature = inspect.signature(verb, eval_str=True)
        options = [option for name, option in signature.parameters.items() if name != "task"]
        verb.__signature__ = signature.replace(parameters=options)  # type: ignore[attr-defined]
    command = TyperCommand if method == AUTO else MethodCommand
    app.command(method, cls=command, epilog=epilog_of(method))(verb)


def _trust(secure: bool, dropouts: int, colluders: int | None) -> list[str]:
    if not (secure or dropouts or colluders is not None):
        return []
    tells = [] if colluders is None else [f"pooling.security.colluders={colluders}"]
    return [f"pooling.security.dropouts={dropouts}", *tells]


_add(AUTO, "Release by the method that public facts speak for; metrics.json keeps the plan.")
for _method in METHODS.table():
    _add(_method, f"Release {PROTOCOLS[_method].title}.")


_FIGURES = {
    "columns": "distance of a column from the owners' (0 to 1)",
    "real_halves": "of one half of the owners' rows from the other",
    "pairs": "distance of a pair of columns from the owners' (0 to 1)",
    "real_halves_pairs": "of pairs in one half of the owners' rows from the other",
    "means": "distance of a number's mean from the owners', in deviations of their rows",
    "noise_of_auc": "deviation of an AUC at chance, on as many test rows",
    "trained_on_synthetic": "models trained on synthetic rows",
    "trained_on_real": "models trained on the owners' rows",
    "auc": "AUC of scores",
    "roc": "ROC of hard labels",
    "prc": "precision and recall of hard labels",
    "boosted": "boosted trees",
}
"""Figures of metrics.json, in words."""


def _figures(evaluation: Mapping[str, Any]) -> Iterator[str]:
    for name, values in evaluation.items():
        if isinstance(values, list):
            continue  # what the page draws
        shown = (
            ", ".join(f"{_FIGURES.get(key, key)} {x:.3g}" for key, x in values.items() if key != "by_name")
            if isinstance(values, Mapping)
            else f"{values:.4g}"
        )
        yield f"  {_FIGURES.get(name, name.replace('_', ' '))}: {shown}"


def print_release(
    metrics: Mapping[str, Any], directory: Path, console: Console, details: bool = False
) -> None:
    """Print a release's result, its uses and its epsilon; with details every figure."""
    from sim.formatting import reading_lines, reading_totals
    from sim.report import privacy
    from sim.report.write import print_line

    made = f"{metrics['rows']} rows" if metrics["files"] else "nothing was made"
    trust = "under secure aggregation" if metrics["security"] else "with a trusted curator"
    reading = metrics.get("reading", {})
    lines = [
        *filter(None, [metrics.get("stand_in")]),
        f"{metrics['method']} {metrics['status']}: {made}, of {metrics['N']} rows of {metrics['K']} "
        f"owner{'s' if metrics['K'] > 1 else ''}, {trust}",
        *lines_of(metrics.get("verdict")),
        *privacy.outcome(metrics["privacy"]),
        *(() if details else reading_totals(reading)),
        *(fault["line"] for fault in metrics["faults"]),
    ]
    if details:
        lines += [metrics["plan"]["line"]] if "plan" in metrics else []
        lines += ["privacy, by the run's ledgers (only 'sound' is proven; inf: no bound)"]
        lines += privacy.lines(metrics["privacy"])
        if metrics["evaluation"]:
            lines += ["held against owners' rows, which a simulation alone can see:"]
            lines += _figures(metrics["evaluation"])
        lines += reading_lines(reading)
    for line in lines:
        print_line(line, console)
    if "synthetic.csv" in metrics["files"]:
        console.print(f"synthetic rows: {directory / 'synthetic.csv'}", soft_wrap=True, highlight=False)
    more = "" if details else " (all figures here: --details)"
    console.print(f"report: {directory / 'report.html'}{more}", soft_wrap=True, highlight=False)
