"""`fedkme sim reproduce`: figures and tables of the papers, as far as the data are there."""

from __future__ import annotations

import contextlib
import sys
from dataclasses import astuple, dataclass, replace
from pathlib import Path
from typing import Annotated

import typer

from fedkme.errors import ConfigError, FedkmeError, on_disk
from fedkme.tables.files import read_arrays
from fedkme.verbs import AsJson, print_json
from lab.experiments.piece import require, values_of
from lab.papers import summaries
from lab.papers.catalogue import EXPERIMENTS, Size
from lab.papers.reproduce import Hear, PaperExperiment, Say, reproduce
from sim.arguments import JobsText
from sim.jobs.choice import parse_jobs
from sim.progress import Progress
from sim.sweep.table import FILE, read_rows

NAMES = (*summaries.NAMES, *EXPERIMENTS)
"""Figures and tables that can be reproduced."""
WITH_Z = "balog-fig2"


def _known(name: str) -> str:
    if name not in (*NAMES, "all"):
        raise typer.BadParameter(f"choose one of {', '.join((*NAMES, 'all'))}")
    return name


@dataclass(frozen=True, slots=True)
class ReproduceOptions:
    """Options of the verb."""

    size: Size
    out: Path
    data: Path | None
    seeds: int | None
    only: dict[str, str]
    jobs: int | str
    assignments: tuple[str, ...] = ()


def reproduce_command(
    name: Annotated[
        str, typer.Argument(callback=_known, help=f"A figure or table: {', '.join((*NAMES, 'all'))}.")
    ],
    quick: Annotated[bool, typer.Option("--quick", help="Small sizes: minutes, not hours.")] = False,
    full: Annotated[bool, typer.Option("--full", help="The papers' sizes, where they are larger.")] = False,
    seeds: Annotated[int | None, typer.Option(min=1, help="Number of seeds; not for sarpatwar-*.")] = None,
    only: Annotated[
        list[str] | None,
        typer.Option(metavar="KEY=VALUE", help="Compute pieces with this value alone, such as method=merf."),
    ] = None,
    assignments: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="KEY=VALUE",
            help="Change a key: of the scenario for sarpatwar-*, of the size (steps, rows, ...) for others.",
        ),
    ] = None,
    out: Annotated[Path, typer.Option(help="Folder, with one of its own for each name.")] = Path("runs"),
    data: Annotated[
        Path | None,
        typer.Option(
            help="sarpatwar-fig1: train.csv of Allstate; -fig2, -access: an .npz as MNIST's; "
            "balog-fig2: an .npz of points z, D2 and D5."
        ),
    ] = None,
    jobs: JobsText = "2",
    as_json: AsJson = False,
) -> None:
    """Compute a paper's figures and tables, and compare them with the paper's numbers.

    OUT/NAME gets measurements.csv, one line a value; verdict.md with the paper's numbers, ours, the
    differences, the seeds and remarks; and curves.svg and .png if the paper has a drawing. --jobs pieces are
    computed at a time and kept in a table: the same command again computes the missing pieces. What cannot
    run, such as an experiment without its data, is refused before the first run; `all` names and skips it,
    and the exit status is then not 0.
    """
    if quick and full:
        raise ConfigError("--quick and --full contradict each other", "Give one of them or neither.")
    if data is not None and name not in (*summaries.NAMES, WITH_Z):
        raise ConfigError(
            f"{name} takes no --data", "Leave it out, or set FEDKME_DATA to the folder of the data."
        )
    with on_disk(f"{out} cannot be made", "Choose another --out."):
        out.mkdir(parents=True, exist_ok=True)
    size: Size = "quick" if quick else "full" if full else "usual"
    request = ReproduceOptions(
        size, out, data, seeds, _fields(only or []), parse_jobs(jobs), tuple(assignments or ())
    )
    names = NAMES if name == "all" else (name,)
    with contextlib.redirect_stdout(sys.stderr) if as_json else contextlib.nullcontext():
        code = _each(request) if name == "all" else _one(name, request)
    if as_json:
        print_json(
            {
                "code": code,
                "out": out,
                "results": {experiment: _results(out / experiment) for experiment in names},
            }
        )
    raise typer.Exit(code)


def _fields(assignments: list[str]) -> dict[str, str]:
    """Fields of pieces and their values.

    Raises:
        ConfigError: a text is no KEY=VALUE.
    """
    if wrong := [text for text in assignments if "=" not in text]:
        raise ConfigError(f"--only {wrong[0]}: no KEY=VALUE", "Write for example --only method=merf.")
    return {key: value for key, _, value in (text.partition("=") for text in assignments)}


def _each(request: ReproduceOptions) -> int:
    """Compute every experiment with data; returns the code of the last that failed, or 0.

    What cannot run is named before the first run.
    """
    code, able = 0, []
    for name in NAMES:
        try:
            experiment = _experiment(name, request, lambda line: None, lambda step: None)
            if isinstance(experiment, summaries.Reproduction):
                summaries.check_sarpatwar(experiment)
            else:
                require(experiment.files)
            able.append(name)
        except FedkmeError as error:
            typer.echo(f"{name}: skipped: {error}")
            code = error.code
    for name in able:
        try:
            code = _one(name, request) or code
        except FedkmeError as error:
            typer.echo(f"{name}: cut short: {error}")
            code = error.code
    return code


def _one(name: str, request: ReproduceOptions) -> int:
    """Compute one figure or table; returns the code of a failed run in it, or 0."""
    typer.echo(f"{name}:")
    progress = Progress(sys.stderr)
    with contextlib.closing(progress):
        experiment = _experiment(name, request, typer.echo, progress.hear)
        if isinstance(experiment, summaries.Reproduction):
            return summaries.reproduce_sarpatwar(experiment)
        return reproduce(
            experiment, request.out / name, request.jobs, request.only, typer.echo, progress.hear
        )


def _experiment(
    name: str, request: ReproduceOptions, say: Say, hear: Hear
) -> summaries.Reproduction | PaperExperiment:
    """Experiment of a name with the options' changes.

    Raises:
        ConfigError: an option is wrong.
        DataError: the file of --data cannot be read.
    """
    if name in summaries.NAMES:
        size = (summaries.QUICK if request.size == "quick" else summaries.FULL)[name]
        size = replace(size, assignments=(*size.assignments, *request.assignments))
        return summaries.Reproduction(name, request.out / name, size, request.data, request.jobs, say, hear)
    experiment = EXPERIMENTS[name](request.size, request.seeds, request.data, request.assignments)
    _check(experiment, request)
    return experiment


def _check(experiment: PaperExperiment, request: ReproduceOptions) -> None:
    """Refuse fields of --only that no piece has, and a missing file."""
    fields = set(dict(experiment.pieces[0]))
    if unknown := request.only.keys() - fields:
        raise ConfigError(
            f"--only {min(unknown)}: pieces have no such field", f"Choose among {', '.join(sorted(fields))}."
        )
    if request.data is not None:
        if not request.data.is_file():
            raise ConfigError(f"--data: there is no file {request.data}", "Correct the path.")
        read_arrays(request.data, "--data")  # a bad file gives one error, not one for each piece


def _results(folder: Path) -> dict[str, object]:
    """Every value of an experiment, and the path of its verdict."""
    rows = [row for row in read_rows(folder / FILE) if "values" in row]
    return {"verdict": folder / "verdict.md", "values": [astuple(value) for value in values_of(rows)]}
