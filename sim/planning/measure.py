"""Measures layouts for measured.csv: `python -m sim.planning.measure DATA RUNS.csv`.

Whole runs of the product, and uniform rows, by the benchmark's runner: a line of RUNS.csv each, so that a
command cut short goes on where it was. Layouts of MarketBench and of sim/planning/fresh.py, under their own
gamma (that of public rows), under .1, which is the default, and under the median heuristic on D_v.
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

from fedkme.embeddings.kernels import median_gamma
from sim.bench.market.layouts import layouts
from sim.bench.market.run import Grid, Line, run
from sim.experiments.cells_draw import Build, ExperimentDraw
from sim.planning.fresh import fresh
from sim.planning.measured import FILE

SEEDS = (0, 1)
GRIDS: Mapping[str, Sequence[Mapping[str, Any]]] = {
    "": (
        {"ratios": (1.0, 1.5, 2.0, 3.0, 5.0)},
        {"sizes": (50, 200), "ratios": (1.0, 2.0)},
        {"epsilons": (0.5, 3.0), "ratios": (1.0, 2.0)},
        {"rows": (10, 20, 40, 100, 1000), "ratios": (1.0, 2.0)},
    ),
    "@default": ({"ratios": (1.0, 2.0)},),
    "@median": ({"ratios": (1.0, 2.0)},),
}
"""Runs beside |D_v| 250, p 100 and epsilon 1, by what is said of gamma."""
_USUAL: Mapping[str, Any] = {
    "rows": (250,),
    "sizes": (100,),
    "epsilons": (1.0,),
    "families": ("ours", "uniform"),
}
DEFAULT_GAMMA = 0.1
"""gamma of a request that names none."""
_SIZES = ("owners", "pool", "median", "m", "width")
_HEADER = ("layout", *_SIZES, "gamma", "p", "rho", "epsilon", "method", "ratio", "seeds")


def variants(builds: Mapping[str, Build]) -> Iterator[tuple[str, Build]]:
    """Layouts under each gamma."""
    for name, build in builds.items():
        for suffix in GRIDS:
            yield name + suffix, cache(_under(build, name + suffix, suffix))


def _under(build: Build, name: str, suffix: str) -> Build:
    def built(folder: Path, rows: int, seed: int) -> ExperimentDraw:
        draw = build(folder, rows, seed)
        if not suffix:
            return draw
        median = suffix == "@median"
        gamma = median_gamma(draw.validation) if median else DEFAULT_GAMMA
        return replace(draw, name=name, gamma=gamma)

    return built


def summarised(lines: Sequence[Line], draws: Mapping[str, ExperimentDraw]) -> Iterator[list[Any]]:
    """Lines of measured.csv: geometric means over seeds, of the best form over p uniform rows alike.

    Args:
        lines: of the benchmark.
        draws: a draw of each layout, for its public facts.
    """
    alike, best = defaultdict[Any, list[float]](list), defaultdict[Any, dict[int, float]](dict)
    for line in lines:
        size = (line.layout, line.validation, line.p)
        if line.method == "uniform + prune" and line.rho == 1.0:
            alike[size].append(line.mmd2)
        epsilon = 1.0 if math.isnan(line.epsilon) else line.epsilon
        method = "cells" if line.family == "ours" else "uniform"
        found = best[(*size, line.rho, epsilon, method)]
        found[line.seed] = min(line.mmd2, found.get(line.seed, math.inf))
    for (layout, m, p, rho, epsilon, method), by_seed in sorted(best.items()):
        unit = sum(alike[layout, m, p]) / len(alike[layout, m, p])
        mean = math.exp(sum(math.log(max(value, 1e-6)) for value in by_seed.values()) / len(by_seed))
        draw = draws[layout]
        sizes = sorted(map(len, draw.owners))
        about = [len(sizes), sum(sizes), sizes[(len(sizes) - 1) // 2], m, draw.schema.encoded_width]
        run_as = [f"{draw.gamma:.3g}", p, f"{rho:g}", f"{epsilon:g}", method]
        yield [layout.partition("@")[0], *about, *run_as, f"{mean / unit:.2g}", len(by_seed)]


def main(say: Callable[[str], None] = print) -> None:
    """Run what is missing and write measured.csv."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", type=Path)
    parser.add_argument("runs", type=Path)
    chosen = parser.parse_args()
    draws, lines = {}, []
    for name, build in variants({**layouts(), **fresh()}):
        for seed in SEEDS:
            for part in GRIDS[name[len(name.partition("@")[0]) :]]:
                grid = Grid((name,), seeds=(seed,), **{**_USUAL, **part})
                lines = run(grid, chosen.data, chosen.runs, say, {name: build})
        draws[name] = build(chosen.data, 250, 0)
    with FILE.open("w", newline="", encoding="utf-8") as text:
        csv.writer(text, lineterminator="\n").writerows([_HEADER, *summarised(lines, draws)])


if __name__ == "__main__":
    main()
