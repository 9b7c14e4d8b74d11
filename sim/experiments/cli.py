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
from sim.experiments import balog, cells, images, mixtures, regression, scores, tables
from sim.experiments.synthesis import Method
from sim.scenarios.base import place


class ExperimentName(StrEnum):
    """Name of a figure or table that can be reproduced."""

    BALOG_FIG1 = "balog-fig1"
    BALOG_FIG2 = "balog-fig2"
    MERF_ADULT = "merf-adult"
    HERMITE_ADULT = "hermite-adult"
    ADULT_MARGINALS = "adult-marginals"
    MERF_CENSUS = "merf-census"
    HERMITE_CENSUS = "hermite-census"
    MERF_CREDIT = "merf-credit"
    HERMITE_CREDIT = "hermite-credit"
    MERF_CERVICAL = "merf-cervical"
    HERMITE_CERVICAL = "hermite-cervical"
    MERF_EPILEPTIC = "merf-epileptic"
    HERMITE_EPILEPTIC = "hermite-epileptic"
    MERF_ISOLET = "merf-isolet"
    HERMITE_ISOLET = "hermite-isolet"
    MERF_INTRUSION = "merf-intrusion"
    HERMITE_INTRUSION = "hermite-intrusion"
    MERF_COVTYPE = "merf-covtype"
    HERMITE_COVTYPE = "hermite-covtype"
    MERF_MNIST = "merf-mnist"
    HERMITE_MNIST = "hermite-mnist"
    MERF_FASHION = "merf-fashion"
    HERMITE_FASHION = "hermite-fashion"
    ENCODED_MNIST = "encoded-mnist"
    ENCODED_FASHION = "encoded-fashion"
    MERF_WINE = "merf-wine"
    HERMITE_WINE = "hermite-wine"
    MERF_STUDENT = "merf-student"
    HERMITE_STUDENT = "hermite-student"
    MIXTURE_NLL = "mixture-nll"
    CELLS = "cells"
    AIM_MARGINALS = "aim-marginals"
    ALL = "all"


Run = Callable[[Path, bool], None]


def reproduce(
    name: Annotated[ExperimentName, typer.Argument(help="A figure or table.")],
    quick: Annotated[bool, typer.Option("--quick", help="Small sizes: minutes, not hours.")] = False,
    full: Annotated[bool, typer.Option("--full", help="The papers' sizes, where they are larger.")] = False,
    out: Annotated[Path, typer.Option(help="Folder for the numbers, one JSON file a name.")] = Path("runs"),
) -> None:
    """Compute what a paper shows, over pooled owners in this process; print each figure as it comes.

    Numbers of the papers, or of their code, stand beside. What lacks its data is skipped with a word.
    """
    if quick and full:
        raise ConfigError("--quick and --full contradict each other", "Give one of them or neither.")
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigError(f"{out} cannot be made: {error.strerror}", "Choose another --out.") from None
    for chosen in _RUNS if name is ExperimentName.ALL else (name,):
        typer.echo(f"{chosen}:")
        if full and chosen in _FULL:
            _FULL[chosen](out / f"{chosen}.json", quick)
        else:
            _RUNS[chosen](out / f"{chosen}.json", quick)


def _figure(figure: balog.Scenario, sizes: balog.Sizes | None, file: Path, quick: bool) -> None:
    curves = balog.reproduce((figure,), quick=quick, sizes=sizes, progress=typer.echo)
    file.write_text(json.dumps(curves.to_json(), indent=2) + "\n", encoding="utf-8")


def _table(arguments: tuple[str, ...], file: Path, quick: bool) -> None:
    words: list[Any] = [str(_data()), *arguments, "--out", str(file), *(["--quick"] if quick else [])]
    tables.main(words)


def _scores(name: str, method: Method, file: Path, quick: bool) -> None:
    scores.run(name, (method,), _data(), quick, file, told=typer.echo)


def _images(name: str, method: Method, file: Path, quick: bool) -> None:
    images.run(name, (method,), _data(), quick, file, told=typer.echo)


def _encoded(name: str, file: Path, quick: bool) -> None:
    from sim.experiments import encoded_images  # jax: only where it is needed

    encoded_images.run(name, encoded_images.ORIGINS, _data(), quick, file, told=typer.echo)


def _regression(name: str, method: Method, file: Path, quick: bool) -> None:
    regression.run(name, (method,), _data(), quick, file, told=typer.echo)


def _mixtures(file: Path, quick: bool) -> None:
    mixtures.run(mixtures.RELEASES, _data(), quick, file, told=typer.echo)


def _cells(file: Path, quick: bool) -> None:
    cells.main([str(_data()), "--out", str(file), *(["--quick"] if quick else [])])


def _aim(file: Path, quick: bool) -> None:
    from sim.experiments import marginals_mbi  # jax: only where it is needed

    table = _data() / "adult_discretized" / "dphp_sdgym_simple_adult.npz"
    if not table.exists():
        typer.echo(f"skipped: there is no {table}")
        return
    few = ["--methods", "mst", "independent", "--epsilons", "0.3", "--seeds", "1"] if quick else []
    marginals_mbi.main([str(table), "--out", str(file), *few])


def _data() -> Path:
    return place(Path("$FEDKME_DATA/adult_raw.parquet"), None).parent


_FULL: Mapping[ExperimentName, Run] = {
    ExperimentName.BALOG_FIG1: partial(_figure, "fig1", balog.FULL),
    ExperimentName.BALOG_FIG2: partial(_figure, "fig2", balog.FULL),
}
_RUNS: Mapping[ExperimentName, Run] = {
    ExperimentName.BALOG_FIG1: partial(_figure, "fig1", None),
    ExperimentName.BALOG_FIG2: partial(_figure, "fig2", None),
    ExperimentName.MERF_ADULT: partial(_table, ("--only", "adult", "--methods", "merf")),
    ExperimentName.HERMITE_ADULT: partial(_table, ("--only", "adult", "--methods", "hermite")),
    ExperimentName.ADULT_MARGINALS: partial(_table, ("--only", "marginals")),
    ExperimentName.MERF_CENSUS: partial(_scores, "census", "merf"),
    ExperimentName.HERMITE_CENSUS: partial(_scores, "census", "hermite"),
    ExperimentName.MERF_CREDIT: partial(_scores, "credit", "merf"),
    ExperimentName.HERMITE_CREDIT: partial(_scores, "credit", "hermite"),
    ExperimentName.MERF_CERVICAL: partial(_scores, "cervical", "merf"),
    ExperimentName.HERMITE_CERVICAL: partial(_scores, "cervical", "hermite"),
    ExperimentName.MERF_EPILEPTIC: partial(_scores, "epileptic", "merf"),
    ExperimentName.HERMITE_EPILEPTIC: partial(_scores, "epileptic", "hermite"),
    ExperimentName.MERF_ISOLET: partial(_scores, "isolet", "merf"),
    ExperimentName.HERMITE_ISOLET: partial(_scores, "isolet", "hermite"),
    ExperimentName.MERF_INTRUSION: partial(_scores, "intrusion", "merf"),
    ExperimentName.HERMITE_INTRUSION: partial(_scores, "intrusion", "hermite"),
    ExperimentName.MERF_COVTYPE: partial(_scores, "covtype", "merf"),
    ExperimentName.HERMITE_COVTYPE: partial(_scores, "covtype", "hermite"),
    ExperimentName.MERF_MNIST: partial(_images, "mnist", "merf"),
    ExperimentName.HERMITE_MNIST: partial(_images, "mnist", "hermite"),
    ExperimentName.MERF_FASHION: partial(_images, "fashion", "merf"),
    ExperimentName.HERMITE_FASHION: partial(_images, "fashion", "hermite"),
    ExperimentName.ENCODED_MNIST: partial(_encoded, "mnist"),
    ExperimentName.ENCODED_FASHION: partial(_encoded, "fashion"),
    ExperimentName.MIXTURE_NLL: _mixtures,
    ExperimentName.CELLS: _cells,
    ExperimentName.AIM_MARGINALS: _aim,
    ExperimentName.MERF_WINE: partial(_regression, "wine", "merf"),
    ExperimentName.HERMITE_WINE: partial(_regression, "wine", "hermite"),
    ExperimentName.MERF_STUDENT: partial(_regression, "student", "merf"),
    ExperimentName.HERMITE_STUDENT: partial(_regression, "student", "hermite"),
}
