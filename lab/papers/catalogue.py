"""Catalogue of experiments on releases, by their names in `fedkme sim reproduce`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Literal, TypeVar

from fedkme.config import Settings, override, validate
from lab.experiments import approximation, balog, codes, images, mixture, scores
from lab.experiments.classifiers import installed
from lab.experiments.datasets import SOURCES
from lab.experiments.synthesis import Method
from lab.papers.reproduce import PaperExperiment

Size = Literal["quick", "usual", "full"]
EffortT = TypeVar("EffortT", bound=Settings)
Make = Callable[[Size, int | None, Path | None, Sequence[str]], PaperExperiment]
"""Makes an experiment of a size, a number of seeds (none: that of the size), a file of points z, and changes
of the size, KEY=VALUE."""

TABLES = ("adult", *SOURCES)
METHODS: Mapping[str, tuple[Method, ...]] = {"merf": ("merf",), "hermite": ("hermite", "hermite-sum")}
"""Methods of an experiment, by the beginning of its name; DP-HP also runs with its sum kernel alone."""
BOTH: tuple[Method, ...] = ("merf", "hermite", "hermite-sum")


def _effort(
    quick: EffortT, usual: EffortT, full: EffortT, size: Size, seeds: int | None, sets: Sequence[str]
) -> EffortT:
    """Size of the pieces, with the given number of seeds, the installed classifiers and changes KEY=VALUE.

    Raises:
        ConfigError: a key or value is wrong.
    """
    effort = {"quick": quick, "usual": usual, "full": full}[size]
    changes: dict[str, object] = {} if seeds is None else {"seeds": seeds}
    if isinstance(effort, scores.ScoreEffort | images.ImageEffort):
        changes["names"] = installed(effort.names)
    if isinstance(effort, balog.BalogEffort) and seeds is not None:
        changes = {"draws": seeds}
    effort = effort.model_copy(update=changes)
    return validate(type(effort), override(effort.model_dump(), sets), "--set") if sets else effort


def _balog(
    figure: balog.Scenario, size: Size, seeds: int | None, z: Path | None, sets: Sequence[str]
) -> PaperExperiment:
    effort = _effort(balog.QUICK, balog.BalogEffort(), balog.FULL, size, seeds, sets)
    pieces = tuple(balog.pieces(figure, effort, z))
    return PaperExperiment(f"balog-{figure}", pieces, balog.FILES, effort, balog.FULL)


def _scores(
    names: Iterable[str],
    methods: tuple[Method, ...],
    size: Size,
    seeds: int | None,
    z: Path | None,
    sets: Sequence[str],
) -> PaperExperiment:
    effort = _effort(scores.QUICK, scores.ScoreEffort(), scores.FULL, size, seeds, sets)
    pieces = tuple(piece for name in names for piece in scores.pieces(name, methods, effort))
    files = tuple(map(scores.file_of, names))
    return PaperExperiment("scores", pieces, files, effort, scores.FULL, scores.notes)


def _images(
    name: str, methods: tuple[Method, ...], size: Size, seeds: int | None, z: Path | None, sets: Sequence[str]
) -> PaperExperiment:
    effort = _effort(images.QUICK, images.ImageEffort(), images.FULL, size, seeds, sets)
    pieces = tuple(images.pieces(name, methods, effort))
    return PaperExperiment(f"images-{name}", pieces, (images.FILES[name],), effort, images.FULL)


def _image_curves(
    figure: Literal["merf-table4", "dphp-fig3"],
    size: Size,
    seeds: int | None,
    z: Path | None,
    sets: Sequence[str],
) -> PaperExperiment:
    whole = images.FULL.model_copy(update={"rows": max(images.SIZES)})
    effort = _effort(images.QUICK, images.ImageEffort(), whole, size, seeds, sets)
    make = images.size_pieces if figure == "dphp-fig3" else images.epsilon_pieces
    return PaperExperiment(figure, tuple(make(effort)), tuple(images.FILES.values()), effort, whole)


def _kernels(
    figure: Literal["dphp-fig1", "dphp-fig5"],
    size: Size,
    seeds: int | None,
    z: Path | None,
    sets: Sequence[str],
) -> PaperExperiment:
    whole = approximation.ApproximationEffort()
    effort = _effort(approximation.QUICK, whole, whole, size, seeds, sets)
    make = approximation.error_pieces if figure == "dphp-fig1" else approximation.length_pieces
    return PaperExperiment(figure, tuple(make(effort)), (), effort, whole)


def _mixture(size: Size, seeds: int | None, z: Path | None, sets: Sequence[str]) -> PaperExperiment:
    effort = _effort(mixture.QUICK, mixture.MixtureEffort(), mixture.FULL, size, seeds, sets)
    return PaperExperiment("dphp-fig2", tuple(mixture.pieces(effort)), (), effort, mixture.FULL)


def _codes(size: Size, seeds: int | None, z: Path | None, sets: Sequence[str]) -> PaperExperiment:
    effort = _effort(codes.QUICK, codes.CodesEffort(), codes.CodesEffort(), size, seeds, sets)
    return PaperExperiment(
        "marginals", tuple(codes.pieces(effort)), (codes.FILE,), effort, codes.CodesEffort()
    )


EXPERIMENTS: Mapping[str, Make] = {
    "balog-fig1": partial(_balog, "fig1"),
    "balog-fig2": partial(_balog, "fig2"),
    "merf-table4": partial(_image_curves, "merf-table4"),
    "dphp-fig1": partial(_kernels, "dphp-fig1"),
    "dphp-fig2": _mixture,
    "dphp-fig3": partial(_image_curves, "dphp-fig3"),
    "dphp-fig5": partial(_kernels, "dphp-fig5"),
    "dphp-table2": partial(_scores, TABLES, BOTH),
    **{f"{m}-{name}": partial(_scores, (name,), METHODS[m]) for name in TABLES for m in METHODS},
    "adult-marginals": _codes,
    **{f"{m}-{name}": partial(_images, name, METHODS[m]) for name in images.FILES for m in METHODS},
}
