"""The four experiments: sweeps of a size, measurements, and the files that show them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from fedkme.errors import ConfigError
from lab.experiments.curves import CurveValue
from lab.experiments.paper import PaperFigure, figure_of
from lab.experiments.piece import require
from lab.papers.measurements import of_access, of_privacy, of_summaries
from lab.papers.reproduce import publish
from sim.data.catalogue import catalogue
from sim.progress import TableStep
from sim.scenarios import build_scenario
from sim.sweep.grid import AxisValue, SweepSettings, runs_of
from sim.sweep.measure import Row
from sim.sweep.run import sweep

Grid = dict[str, tuple[AxisValue, ...]]

NAMES = ("sarpatwar-fig1", "sarpatwar-fig2", "sarpatwar-access", "sarpatwar-privacy")
NO_BASELINES = "baselines=[]"
ALLSTATE = ("data=allstate", "crowd=FL", "scenario.target=CT", "public=OH")
"""Figure 1 as printed, on train.csv of Allstate's competition."""


@dataclass(frozen=True, slots=True)
class ExperimentSize:
    """Size of an experiment.

    Attributes:
        scenario: a shipped one.
        p: rows of summaries.
        seeds: number of draws.
        owners: K, where it varies.
        assignments: what makes the scenario smaller.
        attack: trials against the auction, as a multiple of a quick audit's.
    """

    scenario: str
    p: tuple[int, ...]
    seeds: int
    owners: tuple[int, ...] = ()
    assignments: tuple[str, ...] = ()
    attack: float = 1.0


_MANY = (50, 100, 150, 200, 250, 300)
FULL: Mapping[str, ExperimentSize] = {
    "sarpatwar-fig1": ExperimentSize("states", _MANY, 10),
    "sarpatwar-fig2": ExperimentSize("mnist", _MANY, 5),
    "sarpatwar-access": ExperimentSize("mnist", (50, 200), 3, (5, 27, 64, 125)),
    "sarpatwar-privacy": ExperimentSize("digits", (50, 100, 200), 1, attack=10.0),
}
"""Sizes for a figure; the paper prints neither p nor numbers of seeds."""
QUICK: Mapping[str, ExperimentSize] = {
    "sarpatwar-fig1": ExperimentSize("states", (50, 100), 3),
    "sarpatwar-fig2": ExperimentSize("mnist", (50, 100), 3, assignments=("rows=6000",)),
    "sarpatwar-access": ExperimentSize("digits", (50,), 2, (5, 27, 64)),
    "sarpatwar-privacy": ExperimentSize("digits", (50, 100), 1, attack=0.25),
}


@dataclass(frozen=True, slots=True)
class Reproduction:
    """Request for one experiment.

    Attributes:
        name: one of NAMES.
        out: folder for the experiment's files.
        size: size of the experiment.
        data: file in place of the scenario's own; None: the scenario's own.
        jobs: runs at a time, or a cluster.
        say: prints a line.
        hear: gets the progress of each sweep.
    """

    name: str
    out: Path
    size: ExperimentSize
    data: Path | None
    jobs: int | str
    say: Callable[[str], None]
    hear: Callable[[TableStep], None]


def reproduce_sarpatwar(request: Reproduction) -> int:
    """Run an experiment and write its curves, its CSV and its verdict.

    Returns:
        The code of the first run that failed, or 0.

    Raises:
        ConfigError: the named file does not exist, or the folder cannot be written.
        DataError: no file was named, and the scenario's own file does not exist.
    """
    files = check_sarpatwar(request)
    figure = figure_of(request.name)
    sweeps = _sweeps(request.name, request.size)
    rows = [row for name in sweeps for row in _swept(request, name, *sweeps[name], files)]
    measurements = _measured(request, figure, rows)
    publish(request.name, measurements, _ran(request, rows), request.out, request.say)
    return next((row["code"] for row in rows if row["code"]), 0)


def _sweeps(name: str, size: ExperimentSize) -> dict[str, tuple[Grid, tuple[str, ...]]]:
    """Sweeps of an experiment by folder: grid, and keys that are the same in all runs."""
    p: Grid = {"p": size.p}
    published: Grid = {"protocol": ("algorithm3",), "preset": ("published",), **p}
    match name:
        case "sarpatwar-access":
            by_owners = published | {"preset": ("published", "sound"), "owners": size.owners}
            return {"runs": (by_owners, (NO_BASELINES, "downstream=false"))}
        case "sarpatwar-privacy":
            return {"runs": (published, (NO_BASELINES, "downstream=false"))}
        case _:
            return {
                "published": (published, ('baselines=["greedy", "uniform"]',)),
                "sound": (published | {"preset": ("sound",)}, (NO_BASELINES,)),
                "cells": ({"protocol": ("cells",), **p}, (NO_BASELINES,)),
            }


def _swept(
    request: Reproduction, folder: str, grid: Grid, fixed: Sequence[str], files: Sequence[str]
) -> Sequence[Row]:
    return sweep(_sweep_of(request, folder, grid, fixed, files), request.hear).rows


def _sweep_of(
    request: Reproduction, folder: str, grid: Grid, fixed: Sequence[str], files: Sequence[str]
) -> SweepSettings:
    """Settings of a sweep; an assignment of the size replaces an axis or a fixed key of the same name."""
    own = dict(each.partition("=")[::2] for each in request.size.assignments)
    values: Grid = {key: (own[key],) for key in own.keys() & grid.keys()}
    return SweepSettings(
        scenario=request.size.scenario,
        out=request.out / folder,
        grid=grid | values,
        seeds=tuple(range(request.size.seeds)),
        assignments=(
            *(f"{key}={text}" for key, text in own.items() if key not in grid),
            *(each for each in (*files, *fixed) if each.partition("=")[0] not in own),
        ),
        jobs=request.jobs,
    )


def _measured(request: Reproduction, figure: PaperFigure, rows: Sequence[Row]) -> list[CurveValue]:
    match request.name:
        case "sarpatwar-access":
            return of_access(rows)
        case "sarpatwar-privacy":
            return of_privacy(rows, request.size.attack)
        case _:
            return of_summaries(figure, rows)


def check_sarpatwar(request: Reproduction) -> tuple[str, ...]:
    """Refuse what cannot run before the first run: the rows are read once, and settings are checked.

    Returns:
        Assignments that name the data.

    Raises:
        ConfigError: the file of --data is not there, or a key or value of --set is wrong.
        DataError: the data are not here, or do not fit.
    """
    files = _data_of(request)
    for grid, fixed in _sweeps(request.name, request.size).values():
        first = runs_of(_sweep_of(request, "", grid, fixed, files))[0].settings
        build_scenario(first.scenario, first.seed)
    return files


def _data_of(request: Reproduction) -> tuple[str, ...]:
    """Assignments that name the data.

    Raises:
        ConfigError: the file of --data is not there, or a key or value of --set is wrong.
        DataError: the data are not here, or do not fit.
    """
    scenario = request.size.scenario
    if request.data is not None:
        if scenario == "digits":
            raise ConfigError(f"{request.name} at this size needs no file", "Leave --data out.")
        if not request.data.is_file():
            raise ConfigError(f"--data: there is no file {request.data}", "Correct the path.")
        return (f"path={request.data.absolute()}", *(ALLSTATE if scenario == "states" else ()))
    if scenario == "states":
        request.say("Allstate's train.csv is given with --data; without it, areas of a survey stand in.")
    if scenario in catalogue():
        require((catalogue()[scenario].file,))
    return ()


def _ran(request: Reproduction, rows: Sequence[Row]) -> str:
    size, failed = request.size, sum(bool(row["code"]) for row in rows)
    data = f" with {request.data.name}" if request.data else ""
    owners = sorted({row["K"] for row in rows if "K" in row})
    smaller = f" ({', '.join(size.assignments)})" if size.assignments else ""
    return (
        f"Ran: scenario `{size.scenario}`{data}{smaller}, K = {', '.join(map(str, owners))}, "
        f"p = {', '.join(map(str, size.p))}, seeds 0 to {size.seeds - 1}; {len(rows)} runs, {failed} failed."
    )
