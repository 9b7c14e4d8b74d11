"""`fedkme bench`: each benchmark in an interpreter of its own; tables for people, JSON for programs."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from fedkme.config import validate
from sim.bench.result import BenchSettings, Result, to_json

app = typer.Typer(pretty_exceptions_enable=False, help="Measure speed and memory as ratios within one run.")

_PLAIN_WIDTH = 120
"""Characters of a line where there is no terminal to say."""


class Benchmark(StrEnum):
    """The benchmarks, in the order in which they run."""

    ROUNDS = "rounds"
    COSTS = "costs"
    START = "start"
    BIDS = "bids"
    MEMORY = "memory"


@app.command()
def bench(
    name: Annotated[Benchmark | None, typer.Argument(help="Which; all of them by default.")] = None,
    owners: Annotated[str, typer.Option(help="Numbers of owners for 'rounds'.")] = "2,10,50",
    rounds: Annotated[int, typer.Option(help="Rounds in a block.")] = 100,
    tls: Annotated[bool, typer.Option("--tls/--plaintext", help="Mutual TLS, on both sides.")] = True,
    file: Annotated[Path | None, typer.Option("--json", help="Write the numbers here as well.")] = None,
) -> None:
    """Measure rounds against a bare echo, what ledgers and journals add, the start, bids and memory."""
    chosen = {"owners": owners.split(","), "rounds": rounds, "tls": tls}
    settings = validate(BenchSettings, chosen, "fedkme bench")
    console = Console(width=None if sys.stdout.isatty() else _PLAIN_WIDTH)
    results = run_benchmarks([name] if name else list(Benchmark), settings, console)
    if file is not None:
        file.write_text(json.dumps(to_json(settings, results), indent=2) + "\n", encoding="utf-8")


def run_benchmarks(names: Sequence[Benchmark], settings: BenchSettings, console: Console) -> list[Result]:
    """Run benchmarks one after another and print each table as soon as it is there."""
    results = []
    for name in names:
        results.append(_run(name, settings))
        results[-1].show(console)
    return results


def _run(name: Benchmark, settings: BenchSettings) -> Result:
    done = subprocess.run(
        [sys.executable, "-m", "sim.bench", name, settings.model_dump_json()],
        stdout=subprocess.PIPE,
        env=os.environ | {"OPENBLAS_NUM_THREADS": "1"},
        check=False,
    )
    if done.returncode:
        raise typer.Exit(done.returncode)  # its last line said why
    return Result(**json.loads(done.stdout.splitlines()[-1]))
