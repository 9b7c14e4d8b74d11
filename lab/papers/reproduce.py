"""Runs an experiment: computes the missing pieces, and writes the files that show the results."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fedkme.config import Settings
from fedkme.errors import ConfigError
from lab.experiments.curves import CurveValue, write_csv
from lab.experiments.paper import figure_of, printed_numbers
from lab.experiments.piece import Piece, require, values_of
from lab.papers.figures import draw
from lab.papers.verdict import verdict
from sim.progress import TableStep
from sim.sweep.run import fill_table
from sim.sweep.table import FILE, read_rows

Say = Callable[[str], None]
Hear = Callable[[TableStep], None]


@dataclass(frozen=True, slots=True)
class PaperExperiment:
    """Pieces that together make a figure or a table.

    Attributes:
        figure: name of the figure or table in the files of the papers.
        pieces: pieces in the order of computing.
        files: needed files of the data folder.
        effort: size of each piece.
        whole: size with `--full`: the paper's, if the paper prints its size.
        notes: makes further lines of the verdict from the measurements.
    """

    figure: str
    pieces: tuple[Piece, ...]
    files: tuple[str, ...]
    effort: Settings
    whole: Settings
    notes: Callable[[Sequence[CurveValue]], Sequence[str]] = lambda measurements: ()

    @property
    def smaller(self) -> str:
        """Sizes below those of `--full`, in words; empty if no size is smaller."""
        size, whole = self.effort.model_dump(), self.whole.model_dump()
        less = [f"{key} {_text(size[key])} ({_text(whole[key])})" for key in size if size[key] != whole[key]]
        return f"Smaller than --full: {', '.join(less)}." if less else ""

    def chosen(self, only: Mapping[str, str]) -> list[Piece]:
        """Pieces whose fields have these values, as text.

        Raises:
            ConfigError: no piece has these values.
        """
        pieces = [piece for piece in self.pieces if all(_is(dict(piece)[key], only[key]) for key in only)]
        if not pieces:
            choices = [f"{key} {_texts(dict(piece)[key] for piece in self.pieces)}" for key in only]
            raise ConfigError("--only leaves no piece", f"There are {'; '.join(choices)}.")
        return pieces


def reproduce(
    experiment: PaperExperiment, out: Path, jobs: int | str, only: Mapping[str, str], say: Say, hear: Hear
) -> int:
    """Compute the pieces that the folder's table lacks, and write curves, CSV and verdict of all pieces.

    Args:
        experiment: the experiment to run.
        out: folder for the experiment's files.
        jobs: pieces at a time, or a cluster.
        only: required values of a piece's fields, as text; other pieces are not computed.
        say: prints a line.
        hear: gets the progress.

    Returns:
        The code of the first piece that failed, or 0.

    Raises:
        ConfigError: no piece has those values.
        DataError: data are missing; raised before any computation.
    """
    require(experiment.files)
    if experiment.smaller:
        say(experiment.smaller)
    rows = fill_table(experiment.chosen(only), jobs, out, hear)
    keys = {piece.key for piece in experiment.pieces}
    there = [row for row in read_rows(out / FILE) if row["key"] in keys and "status" in row]
    sizes = ", ".join(f"{key} {_text(value)}" for key, value in experiment.effort)
    ran = f"Ran: {len(there)} of {len(experiment.pieces)} pieces; {sizes}. {experiment.smaller}"
    measurements = values_of(there)
    publish(experiment.figure, measurements, ran, out, say, experiment.notes(measurements))
    return next((row["code"] for row in rows if row["code"]), 0)


def publish(
    figure: str, measurements: Sequence[CurveValue], ran: str, out: Path, say: Say, notes: Sequence[str] = ()
) -> None:
    """Write the curves if the paper has a drawing, the CSV and the verdict, and print their paths."""
    content, printed = figure_of(figure), printed_numbers(figure)
    if content.drawn and measurements:
        for path in draw(content, measurements, out / "curves", printed):
            say(f"curves: {path}")
    write_csv(out / "measurements.csv", measurements)
    page = out / "verdict.md"
    page.write_text(verdict(content, measurements, ran, printed, notes), encoding="utf-8")
    say(f"numbers: {out / 'measurements.csv'}\nverdict: {page}")


def _text(value: object) -> str:
    return " ".join(map(str, value)) if isinstance(value, tuple) else str(value)


def _is(value: Any, text: str) -> bool:
    return text in (str(value), f"{value:g}" if isinstance(value, float) else "")


def _texts(values: Iterable[Any]) -> str:
    return ", ".join(dict.fromkeys(map(str, values)))
