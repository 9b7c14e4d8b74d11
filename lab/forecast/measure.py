"""Measures layouts for measured.csv: `python -m lab.forecast.measure DATA RUNS.csv`.

The benchmark's runner makes whole runs of the product, and uniform rows, with a line of RUNS.csv for each: a
command cut short goes on where it stopped. The layouts are MarketBench's and those of fresh.py, thresholds.py
and heldback.py, under the default gamma, the domain's. The benchmark's layouts also run under the gamma of
public rows, the benchmark's own: its file of lines may be given as RUNS.csv, and is not run again.
"""

from __future__ import annotations

import argparse
import csv
import math
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

from fedkme.embeddings.kernels import domain_gamma
from lab.experiments.cells_draw import Build, ExperimentDraw
from lab.forecast.fresh import fresh
from lab.forecast.heldback import heldback
from lab.forecast.measured import FILE
from lab.forecast.thresholds import thresholds
from lab.market.layouts import KINDS, layouts
from lab.market.run import Grid, Line, run

Part = tuple[Sequence[int], Mapping[str, Any]]
"""Seeds, and the settings that differ from _USUAL."""

DOMAIN = "@domain"
"""Suffix of a layout's name in RUNS.csv under the default gamma."""
GRIDS: Mapping[str, Sequence[Part]] = {
    DOMAIN: (((0, 1), {"ratios": (1.0, 2.0)}),),
    "": (
        ((0,), {"ratios": (1.0, 2.0, 5.0)}),
        ((1,), {"ratios": (2.0,)}),
        ((0,), {"epsilons": (0.5, 3.0), "ratios": (2.0,)}),
        ((0,), {"rows": (1000,), "ratios": (2.0,)}),
    ),
}
"""Runs by suffix of a layout's name."""
SMALL_GRID: Sequence[Part] = (
    ((0,), {"sizes": (50, 200), "ratios": (2.0,)}),
    ((0,), {"rows": (10, 40, 100), "ratios": (2.0,)}),
)
"""Further runs of the layouts SMALL, under the default gamma."""
SMALL = (
    *("hospitals", "air-winter", "diabetes-wards", "adult-jobs", "adult-codes", "wine-alike"),
    *("census-federal", "credit-fraud", "intrusion-mail", "student-teachers", "diabetes-payers"),
    "covtype-soils",
)
"""Layouts that are quick to run, one of each table."""
SLOW = ("acs-small500", "mnist-small500")
"""Layouts that run only under the default gamma."""
_USUAL: Mapping[str, Any] = {
    "rows": (250,),
    "sizes": (100,),
    "epsilons": (1.0,),
    "families": ("ours", "uniform"),
}
_UNIT: Mapping[str, Any] = {"families": ("uniform",), "ratios": (1.0,), "epsilons": (1.0,)}
"""Runs whose MMD^2 is the unit of all MMD^2."""
_METHODS = {"ours": "cells", "uniform": "uniform"}
LEAST = 1e-6
"""Least MMD^2 that matters; smaller values count as this value."""
_SIZES = ("owners", "pool", "median", "m", "width")
_HEADER = ("layout", *_SIZES, "gamma", "p", "rho", "epsilon", "method", "ratio", "seeds")


def variants(builds: Mapping[str, Build]) -> Iterator[tuple[str, Build, Sequence[Part]]]:
    """Layouts under each gamma, with their runs."""
    for name, build in builds.items():
        if name in KINDS and name not in SLOW:
            yield name, cache(build), GRIDS[""]
        more = SMALL_GRID if name in SMALL else ()
        yield name + DOMAIN, cache(_of_domain(build, name + DOMAIN)), (*GRIDS[DOMAIN], *more)


def _of_domain(build: Build, name: str) -> Build:
    def built(folder: Path, rows: int, seed: int) -> ExperimentDraw:
        draw = build(folder, rows, seed)
        return replace(draw, name=name, gamma=domain_gamma(draw.schema.mean_squared_distance))

    return built


def summarised(lines: Sequence[Line], draws: Mapping[str, ExperimentDraw]) -> Iterator[list[Any]]:
    """Lines of measured.csv: geometric means over seeds of the best form's MMD^2, relative to p uniform rows.

    Args:
        lines: of the benchmark.
        draws: a draw of each layout, which gives the layout's public facts.
    """
    alike, best = dict[Any, float](), defaultdict[Any, dict[int, float]](dict)
    for line in lines:
        size = (line.layout, line.validation, line.p)
        if line.method == "uniform + prune" and line.rho == 1.0:
            alike[*size, line.seed] = line.mmd2
        if (method := _METHODS.get(line.family)) is None:
            continue
        epsilon = 1.0 if math.isnan(line.epsilon) else line.epsilon
        values = best[(*size, line.rho, epsilon, method)]
        values[line.seed] = min(line.mmd2, values.get(line.seed, math.inf))
    for (layout, m, p, rho, epsilon, method), by_seed in sorted(best.items()):
        ratios = [
            max(value, LEAST) / alike[layout, m, p, seed]
            for seed, value in by_seed.items()
            if (layout, m, p, seed) in alike
        ]
        if layout not in draws or not ratios:
            continue
        mean = math.exp(sum(map(math.log, ratios)) / len(ratios))
        draw = draws[layout]
        sizes = sorted(map(len, draw.owners))
        about = [len(sizes), sum(sizes), sizes[(len(sizes) - 1) // 2], m, draw.schema.encoded_width]
        run_as = [f"{draw.gamma:.3g}", p, f"{rho:g}", f"{epsilon:g}", method]
        yield [layout.partition("@")[0], *about, *run_as, f"{mean:.2g}", len(ratios)]


def main(say: Callable[[str], None] = print) -> None:
    """Run the missing runs and write measured.csv, or the lines of some layouts in it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", type=Path)
    parser.add_argument("runs", type=Path)
    parser.add_argument("--layouts", nargs="+", help="measure only these; the lines of all others stay")
    chosen = parser.parse_args()
    draws, lines = dict[str, ExperimentDraw](), list[Line]()
    builds = {**layouts(), **fresh(), **thresholds(), **heldback()}
    names = set(chosen.layouts or builds)
    for name, build, parts in variants({name: build for name, build in builds.items() if name in names}):
        for seeds, part in parts:
            for what in (part, {**part, **_UNIT}):
                grid = Grid((name,), seeds=tuple(seeds), **{**_USUAL, **what})
                lines = run(grid, chosen.data, chosen.runs, say, {name: build})
        draws[name] = build(chosen.data, 250, 0)
    with FILE.open(newline="", encoding="utf-8") as text:
        others = [line for line in csv.reader(text) if line[0] not in (*names, _HEADER[0])]
    measured = sorted([*others, *summarised(lines, draws)], key=lambda line: str(line[0]))
    with FILE.open("w", newline="", encoding="utf-8") as text:
        csv.writer(text, lineterminator="\n").writerows([_HEADER, *measured])


if __name__ == "__main__":
    main()
