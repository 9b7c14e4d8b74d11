"""`fedkme bench`: each benchmark in an interpreter of its own; tables for people, JSON for programs."""

from __future__ import annotations

import inspect
import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any

import typer
from rich.console import Console

from fedkme.config import validate
from fedkme.verbs import AsJson, Verbs, console, epilog, print_json
from lab.bench.answers.cli import JSON as ANSWERS_JSON
from lab.bench.answers.cli import answers
from lab.bench.result import BENCHMARKS, BenchSettings, Result, to_json
from lab.market.cli import market

app = Verbs()
_JSON = "an object: settings, machine, results (name, title, rows); tables go to standard error"


@app.callback(
    invoke_without_command=True,
    no_args_is_help=False,
    help="Measure speed and memory, and what summaries are worth.",
    epilog=epilog("fedkme bench", "fedkme bench --quick", json=_JSON),
)
def bench(
    context: typer.Context,
    quick: Annotated[bool, typer.Option("--quick", help="All benchmarks, each small: minutes.")] = False,
    as_json: AsJson = False,
) -> None:
    """Measure rounds against a bare echo, costs, the start, many owners, sums and selection.

    Without a name, these six run one after another. The others must be named: `market`, which compares
    summaries; `answers`, which counts intervals that hold; `reading` of tables; `secagg`, which takes
    minutes; `soak` and `journals`, which take longer. `--quick` runs small versions of all but `market` and
    `answers`.
    """
    if context.invoked_subcommand is None:
        small = {key: value for each in BENCHMARKS.values() for key, value in each.quick.items()}
        names = [name for name, each in BENCHMARKS.items() if quick or not each.apart]
        _bench(names, as_json, small if quick else {})


def _verb(name: str) -> Callable[..., None]:
    """Make the verb of a benchmark, whose options are settings."""
    options = {field.rpartition("_")[2]: field for field in BENCHMARKS[name].options}
    parameters = [_parameter("as_json", False, AsJson)]
    for option, field in options.items():
        info = BenchSettings.model_fields[field]
        listed = isinstance(info.default, tuple)
        default = ",".join(map(str, info.default)) if listed else info.default
        flags = ("--tls/--plaintext",) if option == "tls" else (f"--{option}",)
        typed = typer.Option(default, *flags, help=info.description)
        parameters.append(_parameter(option, typed, type(default)))

    def verb(*, as_json: bool, **values: Any) -> None:
        split = {key: value.split(",") if isinstance(value, str) else value for key, value in values.items()}
        _bench([name], as_json, {options[key]: value for key, value in split.items()})

    vars(verb)["__signature__"] = inspect.Signature(parameters)
    return verb


def _parameter(name: str, default: Any, annotation: Any) -> inspect.Parameter:
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)


for _name, _benchmark in BENCHMARKS.items():
    _examples = (f"fedkme bench {_name}", f"fedkme bench {_name} {_benchmark.example} --json")
    app.verb(*_examples, json=_JSON, name=_name, help=_benchmark.help)(_verb(_name))
app.verb(
    "fedkme bench answers --releases 100 --methods merf,hermite",
    "fedkme bench answers --out answers.csv --json",
    json=ANSWERS_JSON,
)(answers)
app.verb(
    "fedkme bench market --quick",
    "fedkme bench market --rows 250 --rho 2 --epsilon 1 --seeds 0,1,2 --json",
    json="a list: one object a summary, its setting and its scores; lines for people go to standard error",
)(market)


def _bench(names: Sequence[str], as_json: bool, chosen: Mapping[str, Any]) -> None:
    settings = validate(BenchSettings, chosen, "fedkme bench")
    results = run_benchmarks(names, settings, console(for_people=not as_json))
    if as_json:
        print_json(to_json(settings, results))


def run_benchmarks(names: Sequence[str], settings: BenchSettings, console: Console) -> list[Result]:
    """Run benchmarks one after another and print each table at once."""
    results = []
    for name in names:
        results.append(_run(name, settings))
        results[-1].show(console)
    return results


def _run(name: str, settings: BenchSettings) -> Result:
    process = subprocess.run(
        [sys.executable, "-P", "-m", "lab.bench", name, settings.model_dump_json()],
        stdout=subprocess.PIPE,
        env=os.environ | {"OPENBLAS_NUM_THREADS": "1"},
        check=False,
    )
    if process.returncode:
        raise typer.Exit(process.returncode)  # the process has printed the reason
    return Result(**json.loads(process.stdout.splitlines()[-1]))
