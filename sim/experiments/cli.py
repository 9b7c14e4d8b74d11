"""`fedkme sim reproduce`: figures and tables of the papers, on the data where they are."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from fedkme.errors import ConfigError
from sim.experiments import balog, tables
from sim.scenarios.base import place


class Name(StrEnum):
    """What can be reproduced."""

    BALOG_FIG1 = "balog-fig1"
    BALOG_FIG2 = "balog-fig2"
    MERF_ADULT = "merf-adult"
    HERMITE_ADULT = "hermite-adult"
    ADULT_MARGINALS = "adult-marginals"
    ALL = "all"


Run = Callable[[Path, bool], None]


def reproduce(
    name: Annotated[Name, typer.Argument(help="A figure or table.")],
    quick: Annotated[bool, typer.Option("--quick", help="Small sizes: minutes, not hours.")] = False,
    out: Annotated[Path, typer.Option(help="Folder for the numbers, one JSON file a name.")] = Path("runs"),
) -> None:
    """Compute what a paper shows, over pooled owners in this process; print each figure as it comes.

    Numbers of the papers, or of their code, stand beside. What lacks its data is skipped with a word.
    """
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigError(f"{out} cannot be made: {error.strerror}", "Choose another --out.") from None
    for chosen in _RUNS if name is Name.ALL else (name,):
        typer.echo(f"{chosen}:")
        _RUNS[chosen](out / f"{chosen}.json", quick)


def _figure(figure: balog.Scenario, file: Path, quick: bool) -> None:
    curves = balog.reproduce((figure,), quick=quick, progress=typer.echo)
    file.write_text(json.dumps(curves.to_json(), indent=2) + "\n", encoding="utf-8")


def _table(arguments: tuple[str, ...], file: Path, quick: bool) -> None:
    folder = place(Path("$FEDKME_DATA/adult_raw.parquet"), None).parent
    words: list[Any] = [str(folder), *arguments, "--out", str(file), *(["--quick"] if quick else [])]
    tables.main(words)


_RUNS: Mapping[Name, Run] = {
    Name.BALOG_FIG1: partial(_figure, "fig1"),
    Name.BALOG_FIG2: partial(_figure, "fig2"),
    Name.MERF_ADULT: partial(_table, ("--only", "adult", "--methods", "merf")),
    Name.HERMITE_ADULT: partial(_table, ("--only", "adult", "--methods", "hermite")),
    Name.ADULT_MARGINALS: partial(_table, ("--only", "marginals")),
}
