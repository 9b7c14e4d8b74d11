"""`fedkme bench market`: run what is missing, print the tables."""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Sequence
from contextlib import closing
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from fedkme.errors import ConfigError, DataError
from fedkme.verbs import AsJson, print_json
from sim.progress import Progress


def market(
    quick: Annotated[bool, typer.Option("--quick", help="Five layouts, two seeds: minutes.")] = False,
    layouts: Annotated[str, typer.Option(help="Of these layouts alone, by commas.")] = "",
    rows: Annotated[str, typer.Option(help="|D_v|: 100,250,1000 by default.")] = "",
    p: Annotated[str, typer.Option(help="Rows of a summary: 100.")] = "",
    rho: Annotated[str, typer.Option(help="Rows accessed over p: 1,2,5.")] = "",
    epsilon: Annotated[str, typer.Option(help="Of owners and of D_v: 0.5,1,3.")] = "",
    seeds: Annotated[str, typer.Option(help="0,1,2,3,4.")] = "",
    families: Annotated[str, typer.Option(help="Of these methods alone: ours,uniform,exact greedy.")] = "",
    data: Annotated[
        Path | None, typer.Option(help="Folder of the data sets; $FEDKME_DATA by default.")
    ] = None,
    out: Annotated[Path, typer.Option(help="Folder; what its table has already is not run again.")] = Path(
        "runs/market"
    ),
    as_json: AsJson = False,
) -> None:
    """Compare summaries with rivals at equal rows accessed, on sites, tables and images.

    A layout whose file is missing fails with a word, and the exit status says so. Every run is a row of
    OUT/sweep.parquet; cut short and given again, the command goes on where it was. Tables show
    |D_v| 250, p 100, rho 2 and epsilon 1 where they are among what was run.
    """
    from lab.market.run import QUICK_GRID, Grid, run
    from lab.market.table import tables

    usual = QUICK_GRID if quick else Grid()
    grid = Grid(
        _layouts(layouts) or usual.layouts,
        _whole(rows, "--rows") or usual.rows,
        _whole(p, "--p") or usual.sizes,
        _numbers(rho, "--rho") or usual.ratios,
        _numbers(epsilon, "--epsilon") or usual.epsilons,
        _whole(seeds, "--seeds", 0) or usual.seeds,
        _families(families) or usual.families,
    )
    if data is not None:
        os.environ["FEDKME_DATA"] = str(data.absolute())  # worker processes read it
    with closing(Progress(sys.stderr)) as progress:
        lines, failed = run(grid, out, progress.hear)
    if as_json:
        print_json([asdict(line) for line in lines])
    else:
        typer.echo(tables(lines, grid))
    if failed:
        raise DataError(f"{', '.join(failed)}: not measured", "Set FEDKME_DATA to the folder of their data.")


def _parts(text: str) -> list[str]:
    return [part.strip() for part in text.split(",") if part.strip()]


def _layouts(text: str) -> tuple[str, ...]:
    from lab.market.layouts import KINDS

    return _known(text, tuple(KINDS), "layout")


def _families(text: str) -> tuple[str, ...]:
    from lab.market.methods import FAMILIES

    return _known(text, tuple(family.name for family in FAMILIES), "family")


def _known(text: str, known: Sequence[str], what: str) -> tuple[str, ...]:
    names = tuple(_parts(text))
    for name in names:
        if name not in known:
            raise ConfigError(f"there is no {what} '{name[:40]}'", f"Choose of {', '.join(known)}.")
    return names


def _numbers(text: str, option: str) -> tuple[float, ...]:
    try:
        numbers = tuple(float(part) for part in _parts(text))
    except ValueError:
        numbers = (math.nan,)
    if not all(0 < value < math.inf for value in numbers):
        raise ConfigError(f"{option} {text[:40]!r} is no list of positive numbers", "Give it as 1,2,5.")
    return numbers


def _whole(text: str, option: str, least: int = 1) -> tuple[int, ...]:
    if not all(part.isdecimal() and least <= int(part) < 10**9 for part in _parts(text)):
        raise ConfigError(f"{option} {text[:40]!r} is no list of whole numbers", "Give it as 1,2,5.")
    return tuple(int(part) for part in _parts(text))
