"""`fedkme sim reproduce`: figures and tables of the papers, on the data where they are."""

from __future__ import annotations

import contextlib
import json
import sys
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Annotated

import typer

from fedkme.errors import ConfigError, DataError, on_disk
from fedkme.verbs import AsJson, print_json
from sim.arguments import JobsText
from sim.evaluation import direct
from sim.experiments import (
    balog,
    hash_attacks,
    images,
    marginal_rounds,
    mixtures,
    regression,
    scores,
    tables,
)
from sim.experiments.datasets import SOURCES
from sim.experiments.synthesis import Method
from sim.jobs.choice import parse_jobs
from sim.sarpatwar import reproduce as sarpatwar
from sim.scenarios.base import place

METHODS: tuple[Method, ...] = ("merf", "hermite")
_FIGURES: Mapping[str, balog.Scenario] = {"balog-fig1": "fig1", "balog-fig2": "fig2"}
Run = Callable[[Path, bool], None]


def _known(name: str) -> str:
    if name not in (*RUNS, *sarpatwar.NAMES, "all"):
        raise typer.BadParameter(f"choose one of {_names()}")
    return name


def _names() -> str:
    return ", ".join((*sarpatwar.NAMES, *RUNS, "all"))


def reproduce(
    name: Annotated[str, typer.Argument(callback=_known, help=f"A figure or table: {_names()}.")],
    quick: Annotated[bool, typer.Option("--quick", help="Small sizes: minutes, not hours.")] = False,
    full: Annotated[bool, typer.Option("--full", help="The papers' sizes, where they are larger.")] = False,
    out: Annotated[
        Path, typer.Option(help="Folder for the numbers: a JSON file a name; a folder for sarpatwar-*.")
    ] = Path("runs"),
    data: Annotated[
        Path | None,
        typer.Option(help="sarpatwar-fig1: train.csv of Allstate; -fig2, -access: an .npz as MNIST's."),
    ] = None,
    jobs: JobsText = "2",
    as_json: AsJson = False,
) -> None:
    """Compute what a paper shows; print each figure as it comes.

    Numbers of the papers, or of their code, stand beside. What lacks its data is skipped with a word, and the
    exit status says so.
    Releases are over pooled owners in this process. The sarpatwar-* are sweeps of whole runs, which --jobs is
    for, and leave curves as SVG and PNG, every measurement in a CSV, and verdict.md; given again, they run
    what is missing.
    """
    if quick and full:
        raise ConfigError("--quick and --full contradict each other", "Give one of them or neither.")
    with on_disk(f"{out} cannot be made", "Choose another --out."):
        out.mkdir(parents=True, exist_ok=True)
    if data is not None and name not in sarpatwar.NAMES:
        raise ConfigError(
            f"{name} takes no --data", "Leave it out, or set FEDKME_DATA to the folder of the data."
        )
    one = partial(_reproduce, out=out, quick=quick, full=full, data=data, jobs=parse_jobs(jobs))
    names = (*sarpatwar.NAMES, *RUNS) if name == "all" else (name,)
    with contextlib.redirect_stdout(sys.stderr) if as_json else contextlib.nullcontext():
        code = _each(names, one) if name == "all" else one(name)
    if as_json:
        files = {each: out / f"{each}.json" for each in names}
        found = {
            each: json.loads(file.read_text(encoding="utf-8"))
            for each, file in files.items()
            if file.exists()
        }
        print_json({"code": code, "out": out, "results": found})
    raise typer.Exit(code)


def _each(names: Iterable[str], one: Callable[[str], int]) -> int:
    """Compute what can be; the code of the last that could not, or 0."""
    code = 0
    for name in names:
        try:
            code = one(name) or code
        except (ConfigError, DataError) as error:
            typer.echo(f"{name}: skipped, or cut short: {error}")
            code = error.code
    return code


def _reproduce(name: str, out: Path, quick: bool, full: bool, data: Path | None, jobs: int | str) -> int:
    """Compute one figure or table; the code of a run in it that failed, or 0."""
    typer.echo(f"{name}:")
    if name in sarpatwar.NAMES:
        size = (sarpatwar.QUICK if quick else sarpatwar.FULL)[name]
        request = sarpatwar.Reproduction(name, out / name, size, data, jobs, typer.echo)
        return sarpatwar.reproduce_sarpatwar(request)
    runs = {**RUNS, **_FULL} if full else RUNS
    runs[name](out / f"{name}.json", quick)
    return 0


def _figure(figure: balog.Scenario, sizes: balog.Sizes | None, file: Path, quick: bool) -> None:
    curves = balog.reproduce((figure,), quick=quick, sizes=sizes, progress=typer.echo)
    file.write_text(json.dumps(curves.to_json(), indent=2) + "\n", encoding="utf-8")
    if curves.skipped:
        raise DataError("; ".join(curves.skipped), "Set FEDKME_DATA to the folder of the data.")


def _by_method(module: ModuleType, names: Iterable[str]) -> dict[str, Run]:
    """Runs of a module's experiments on each data set by each method."""

    def run(name: str, method: str, file: Path, quick: bool) -> None:
        module.run(name, (method,), _data(), quick, file)

    return {f"{method}-{name}": partial(run, name, method) for name in names for method in METHODS}


def _moments(name: str, trained: bool, file: Path, quick: bool) -> None:
    direct.run(name, _data(), trained, quick, file)


def _marginals(file: Path, quick: bool) -> None:
    tables.run("marginals", METHODS, _data(), quick, file)


def _mixtures(file: Path, quick: bool) -> None:
    mixtures.run(mixtures.RELEASES, _data(), quick, file)


def _aim(file: Path, quick: bool) -> None:
    marginal_rounds.run(_data() / tables.FILES["marginals"], quick, file)


def _data() -> Path:
    return place(Path("$FEDKME_DATA/adult_raw.parquet"), None).parent


_FULL: Mapping[str, Run] = {figure: partial(_figure, name, balog.FULL) for figure, name in _FIGURES.items()}
RUNS: Mapping[str, Run] = {
    **{figure: partial(_figure, name, None) for figure, name in _FIGURES.items()},
    **_by_method(tables, ("adult",)),
    "adult-marginals": _marginals,
    **_by_method(scores, SOURCES),
    **_by_method(images, images.FILES),
    **{f"moments-{name}": partial(_moments, name, False) for name in direct.NAMES},
    **{f"moments-rows-{name}": partial(_moments, name, True) for name in images.FILES},
    "mixture-nll": _mixtures,
    "aim-marginals": _aim,
    **_by_method(regression, regression.TARGETS),
    "hash-attacks": hash_attacks.run,
}
"""Figures and tables that can be reproduced, by name."""
