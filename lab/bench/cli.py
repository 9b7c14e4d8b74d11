"""`fedkme bench`: each benchmark in an interpreter of its own; tables for people, JSON for programs."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from importlib.util import find_spec
from typing import Annotated, Any, get_args

import typer
from rich.console import Console

from fedkme.config import validate
from fedkme.verbs import AsJson, Verbs, console, epilog, print_json
from lab.bench.answers.cli import JSON as ANSWERS_JSON
from lab.bench.answers.cli import answers
from lab.bench.result import BenchSettings, Result, ScaleProtocol, to_json
from lab.market.cli import market

app = Verbs()


Benchmark = StrEnum("Benchmark", "ROUNDS COSTS STARTUP SCALE SUMS SECAGG SELECT SOAK JOURNALS RAY RELEASES")
"""The benchmarks, in the order in which they run."""
_APART = {Benchmark(name) for name in ("ray", "soak", "journals", "secagg", "releases")}

_HELP = {
    Benchmark.ROUNDS: "Rounds of real owners against a bare echo of the same messages.",
    Benchmark.COSTS: "What ledgers, journals, TLS and heads add to a round; bids, sums, and memory.",
    Benchmark.STARTUP: "From the launch of all parties to round 1; an owner's memory.",
    Benchmark.SUMS: "Runs of 50 and 200 small owners that count in coalitions, trusted and secure.",
}

QUICK: Mapping[str, Any] = {
    "owners": (2, 10),
    "rounds": 30,
    "blocks": 2,
    "repeats": 2,
    "scale_owners": (10,),
    "cost_rows": (12_000,),
    "cost_rounds": 100,
    "sum_owners": (50,),
    "secagg_owners": (50, 200),
    "select_rows": 4_096,
    "select_p": 64,
    "soak_runs": 100,
    "soak_consumers": 5,
    "training_steps": 50,
}
"""Settings of `--quick`: all benchmarks but `ray` in less than ten minutes."""

Owners = Annotated[str, typer.Option(help="Numbers of owners for 'rounds'.")]
Rounds = Annotated[int, typer.Option(help="Rounds in a block.")]
Tls = Annotated[bool, typer.Option("--tls/--plaintext", help="Mutual TLS, on both sides.")]
_JSON = "an object: settings, machine, results (name, title, rows); tables go to standard error"


@app.callback(
    invoke_without_command=True,
    no_args_is_help=False,
    help="Measure speed and memory, and what summaries are worth.",
    epilog=epilog("fedkme bench", "fedkme bench --quick", "fedkme bench --rounds 200 --json", json=_JSON),
)
def bench(
    context: typer.Context,
    owners: Owners = "2,10,50",
    rounds: Rounds = 100,
    tls: Tls = True,
    quick: Annotated[bool, typer.Option("--quick", help="All but `ray`, each small: minutes.")] = False,
    as_json: AsJson = False,
) -> None:
    """Measure rounds against a bare echo, costs, the start, many owners, sums and selection.

    Without a name, these six run one after another. The others must be named: `market`, which compares
    summaries; `secagg`, which takes minutes; `soak`, which takes longer; `ray`, which needs a cluster; and
    `releases`, which needs jax. `--quick` runs small versions of all but `ray`, with its own numbers of
    owners and rounds.
    """
    if context.invoked_subcommand is None and quick:
        _bench(_quick(), as_json, tls=tls, **QUICK)
    elif context.invoked_subcommand is None:
        names = [name for name in Benchmark if name not in _APART]
        _bench(names, as_json, owners=owners.split(","), rounds=rounds, tls=tls)


def _quick() -> list[Benchmark]:
    """Benchmarks that need no cluster; without jax also no benchmark of releases."""
    omitted = {Benchmark.RAY} if find_spec("jax") else {Benchmark.RAY, Benchmark.RELEASES}
    return [name for name in Benchmark if name not in omitted]


def _command(name: Benchmark) -> Callable[..., None]:
    def one(
        owners: Owners = "2,10,50", rounds: Rounds = 100, tls: Tls = True, as_json: AsJson = False
    ) -> None:
        _bench([name], as_json, owners=owners.split(","), rounds=rounds, tls=tls)

    return one


for _name, _says in _HELP.items():
    app.verb(f"fedkme bench {_name} --json", json=_JSON, name=_name.value, help=_says)(_command(_name))


@app.verb("fedkme bench secagg --owners 1000 --json", json=_JSON)
def secagg(
    owners: Annotated[str, typer.Option(help="Numbers of owners.")] = "50,200,1000",
    length: Annotated[int, typer.Option(help="Numbers of each owner's vector.")] = 100_000,
    as_json: AsJson = False,
) -> None:
    """Measure a secure sum over many owners in one process, a tenth of them lost."""
    _bench([Benchmark.SECAGG], as_json, secagg_owners=owners.split(","), secagg_length=length)


@app.verb("fedkme bench select --rows 60000 --p 200 --json", json=_JSON)
def select(
    rows: Annotated[int, typer.Option(help="Rows to select from.")] = 16_384,
    p: Annotated[int, typer.Option(help="Rows to select.")] = 128,
    as_json: AsJson = False,
) -> None:
    """Select rows that represent all rows, by fk.select and by other installed packages."""
    _bench([Benchmark.SELECT], as_json, select_rows=rows, select_p=p)


@app.verb("fedkme bench scale --owners 10,100,1000 --protocols uniform --json", json=_JSON)
def scale(
    owners: Annotated[str, typer.Option(help="Numbers of owners.")] = "10,100",
    protocols: Annotated[str, typer.Option(help="Summaries and a release.")] = ",".join(
        get_args(ScaleProtocol)
    ),
    as_json: AsJson = False,
) -> None:
    """Measure runs over owners in one process, over mutual TLS."""
    chosen = {"scale_owners": owners.split(","), "scale_protocols": protocols.split(",")}
    _bench([Benchmark.SCALE], as_json, **chosen)


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


@app.verb("fedkme bench soak --quick", "fedkme bench soak --json", json=_JSON)
def soak(
    runs: Annotated[int, typer.Option(min=2, help="Runs of 10 rounds: .3 CPU seconds each.")] = 1_000,
    consumers: Annotated[int, typer.Option(min=1, help="Consumers that ask at once.")] = 50,
    quick: Annotated[bool, typer.Option("--quick", help="60 runs, 10 consumers: 25 CPU seconds.")] = False,
    as_json: AsJson = False,
) -> None:
    """Measure the growth of parties from run to run over the wire, and of stores after as many runs."""
    size = (
        {"soak_runs": 60, "soak_consumers": 10} if quick else {"soak_runs": runs, "soak_consumers": consumers}
    )
    _bench([Benchmark.SOAK, Benchmark.JOURNALS], as_json, **size)


@app.verb("fedkme bench ray --owners 200 --actors 2", "fedkme bench ray --json", json=_JSON)
def ray(
    owners: Annotated[int, typer.Option(min=1, help="Owners in all actors.")] = 2_000,
    actors: Annotated[int, typer.Option(min=1, help="Actors.")] = 20,
    rounds: Rounds = 100,
    address: Annotated[str | None, typer.Option(help="HOST:PORT or ray://HOST:PORT of a cluster.")] = None,
    as_json: AsJson = False,
) -> None:
    """Measure an exchange with owners in actors of a Ray cluster against the same owners in this process."""
    cluster = {"ray_owners": owners, "ray_actors": actors, "ray_address": address}
    _bench([Benchmark.RAY], as_json, rounds=rounds, **cluster)


@app.verb("fedkme bench releases --json", json=_JSON)
def releases(
    steps: Annotated[int, typer.Option(min=1, help="Steps that are timed.")] = 200, as_json: AsJson = False
) -> None:
    """Measure a training step of a release's generator against plain jax and torch of the same loss."""
    _bench([Benchmark.RELEASES], as_json, training_steps=steps)


def _bench(names: Sequence[Benchmark], as_json: bool, **chosen: Any) -> None:
    settings = validate(BenchSettings, chosen, "fedkme bench")
    results = run_benchmarks(names, settings, console(for_people=not as_json))
    if as_json:
        print_json(to_json(settings, results))


def run_benchmarks(names: Sequence[Benchmark], settings: BenchSettings, console: Console) -> list[Result]:
    """Run benchmarks one after another and print each table at once."""
    results = []
    for name in names:
        results.append(_run(name, settings))
        results[-1].show(console)
    return results


def _run(name: Benchmark, settings: BenchSettings) -> Result:
    process = subprocess.run(
        [sys.executable, "-P", "-m", "lab.bench", name, settings.model_dump_json()],
        stdout=subprocess.PIPE,
        env=os.environ | {"OPENBLAS_NUM_THREADS": "1"},
        check=False,
    )
    if process.returncode:
        raise typer.Exit(process.returncode)  # the process has printed the reason
    return Result(**json.loads(process.stdout.splitlines()[-1]))
