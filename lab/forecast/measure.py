"""Measures layouts for measured.csv: `python -m lab.forecast.measure DATA RUNS`.

Whole runs of the product, and uniform rows, by the benchmark's runner: a row of the table in RUNS each, so
that a command cut short goes on where it was. Layouts of MarketBench under the default gamma, that of the
domain, and under that of public rows, which is the benchmark's own; others in measured.csv are of files of
commit 6f38168a.
"""

from __future__ import annotations

import argparse
import csv
import math
import os
import sys
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

from fedkme.embeddings.kernels import domain_gamma
from lab.experiments.cells_draw import Build, ExperimentDraw
from lab.forecast.measured import FILE
from lab.market.layouts import layouts
from lab.market.methods import CLOCK
from lab.market.run import Grid, Line, run
from sim.progress import Progress

Part = tuple[Sequence[int], Mapping[str, Any]]
"""Seeds, and settings that differ from _USUAL."""

DOMAIN = "@domain"
"""Suffix of a layout's name in RUNS under the default gamma."""
GRIDS: Mapping[str, Sequence[Part]] = {
    DOMAIN: (((0, 1), {"ratios": (1.0, 2.0)}), ((0, 1), {"families": (CLOCK,)})),
    "": (
        ((0,), {"ratios": (1.0, 2.0, 5.0)}),
        ((1,), {"ratios": (2.0,)}),
        ((0,), {"epsilons": (0.5, 3.0), "ratios": (2.0,)}),
        ((0,), {"rows": (1000,), "ratios": (2.0,)}),
    ),
}
"""Runs by their rule for gamma."""
SMALL_GRID: Sequence[Part] = (
    ((0,), {"sizes": (50, 200), "ratios": (2.0,)}),
    ((0,), {"rows": (10, 40, 100), "ratios": (2.0,)}),
)
"""Runs of SMALL besides, under the default gamma."""
SMALL = ("hospitals", "air-winter", "diabetes-wards", "adult-jobs", "adult-codes", "wine-alike")
"""Layouts that are quick to run, one of each table."""
SLOW = ("acs-small500", "mnist-small500")
"""Layouts that are run under the default gamma alone."""
_USUAL: Mapping[str, Any] = {
    "rows": (250,),
    "sizes": (100,),
    "epsilons": (1.0,),
    "families": ("ours", "uniform"),
}
_UNIT: Mapping[str, Any] = {"families": ("uniform",), "ratios": (1.0,), "epsilons": (1.0,)}
"""Rows by which MMD^2 is measured."""
_METHODS = {"ours": "cells", "uniform": "uniform", CLOCK: "clock"}
LEAST = 1e-6
"""MMD^2 below which there are no differences that anybody would see."""
_SIZES = ("owners", "pool", "median", "m", "width")
_HEADER = ("layout", *_SIZES, "gamma", "p", "rho", "epsilon", "method", "ratio", "seeds")


def variants(builds: Mapping[str, Build]) -> Iterator[tuple[str, Build, Sequence[Part]]]:
    """Layouts under each gamma, and the methods to run on them."""
    for name, build in builds.items():
        if name not in SLOW:
            yield name, cache(build), GRIDS[""]
        more = SMALL_GRID if name in SMALL else ()
        yield name + DOMAIN, cache(_of_domain(build, name + DOMAIN)), (*GRIDS[DOMAIN], *more)


def builds() -> dict[str, Build]:
    """All layouts under each gamma, by name."""
    return {name: build for name, build, _ in variants(layouts())}


def _of_domain(build: Build, name: str) -> Build:
    def built(folder: Path, rows: int, seed: int) -> ExperimentDraw:
        draw = build(folder, rows, seed)
        return replace(draw, name=name, gamma=domain_gamma(draw.schema.mean_squared_distance))

    return built


def summarised(lines: Sequence[Line], draws: Mapping[str, ExperimentDraw]) -> Iterator[list[Any]]:
    """Lines of measured.csv: geometric means over seeds, of the best form over p uniform rows alike.

    Args:
        lines: lines of the benchmark.
        draws: a draw of each layout, for its public facts.
    """
    alike, best = dict[Any, float](), defaultdict[Any, dict[int, float]](dict)
    for line in lines:
        size = (line.layout, line.validation, line.p)
        if line.method == "uniform + prune" and line.rho == 1.0:
            alike[*size, line.seed] = line.mmd2
        if (method := _METHODS.get(line.family)) is None:
            continue
        epsilon = 1.0 if math.isnan(line.epsilon) else line.epsilon
        rho = 1.0 if math.isnan(line.rho) else line.rho
        found = best[(*size, rho, epsilon, method)]
        found[line.seed] = min(line.mmd2, found.get(line.seed, math.inf))
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


def main() -> None:
    """Run what is missing and write measured.csv, or the lines of some layouts in it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", type=Path)
    parser.add_argument("runs", type=Path)
    parser.add_argument("--layouts", nargs="+", help="of these alone; all others stay as they were measured")
    chosen = parser.parse_args()
    draws, lines = dict[str, ExperimentDraw](), list[Line]()
    os.environ["FEDKME_DATA"] = str(chosen.data.absolute())  # worker processes read it
    names, progress = set(chosen.layouts or layouts()), Progress(sys.stderr)
    for name, build, parts in variants({name: build for name, build in layouts().items() if name in names}):
        for seeds, part in parts:
            for what in (part, {**part, **_UNIT}):
                grid = Grid((name,), seeds=tuple(seeds), **{**_USUAL, **what})
                lines, _ = run(grid, chosen.runs, progress.hear, "lab.forecast.measure:builds")
        draws[name] = build(chosen.data, 250, 0)
    with FILE.open(newline="", encoding="utf-8") as text:
        others = [line for line in csv.reader(text) if line[0] not in (*names, _HEADER[0])]
    measured = sorted([*others, *summarised(lines, draws)], key=lambda line: str(line[0]))
    with FILE.open("w", newline="", encoding="utf-8") as text:
        csv.writer(text, lineterminator="\n").writerows([_HEADER, *measured])


if __name__ == "__main__":
    main()
