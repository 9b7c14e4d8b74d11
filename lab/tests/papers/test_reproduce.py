"""Experiments of pieces: computed once, kept, and written beside the paper's numbers (issue 16, item 9)."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from fedkme.errors import ConfigError, DataError
from lab.experiments import scores
from lab.experiments.codes import CodesEffort, CodesPiece
from lab.experiments.curves import CurveValue
from lab.experiments.paper import figure_of, printed_numbers
from lab.experiments.piece import Piece, values_of
from lab.papers.figures import draw
from lab.papers.reproduce import PaperExperiment, reproduce
from sim.progress import TableStep
from sim.sweep.table import FILE, read_rows


class Scored(Piece):
    """Piece with a figure that follows from its fields; it writes to a file that has to be there."""

    method: str
    file: Path

    def measure(self) -> Iterator[CurveValue]:
        if not self.file.exists():
            raise DataError("there is no file", "Make it.")
        with self.file.open("a", encoding="utf-8") as file:
            file.write(f"{self.method} {self.seed}\n")
        yield CurveValue("roc", self.method, "adult", self.seed, 0.69 + 0.02 * self.seed)


def experiment(file: Path) -> PaperExperiment:
    pieces = tuple(
        Scored(method=method, seed=seed, file=file) for seed in (0, 1) for method in ("merf", "hermite")
    )

    def notes(found: Sequence[CurveValue]) -> list[str]:
        return [f"{len(found)} values"]

    return PaperExperiment("scores", pieces, (), scores.QUICK, scores.FULL, notes)


def test_what_was_computed_is_kept_and_stands_beside_the_paper(tmp_path: Path) -> None:
    file, out = tmp_path / "data", tmp_path / "out"
    lines: list[str] = []
    steps: list[TableStep] = []
    asked = experiment(file)
    assert reproduce(asked, out, 1, {"method": "merf"}, lines.append, steps.append) == DataError.code
    file.touch()
    assert reproduce(asked, out, 1, {"method": "merf"}, lines.append, steps.append) == 0  # tried again
    assert "2 of 4 pieces" in (out / "verdict.md").read_text(encoding="utf-8")
    assert reproduce(asked, out, 1, {}, lines.append, steps.append) == 0
    assert file.read_text(encoding="utf-8").split("\n") == ["merf 0", "merf 1", "hermite 0", "hermite 1", ""]
    assert (steps[-3].before, steps[-1].done) == (2, 4)
    text = (out / "verdict.md").read_text(encoding="utf-8")
    for line in (
        "2 of 2 numbers of private methods are reached to 0.5%, or passed.",
        "| ROC of hard labels | DP-MERF | adult | 0.642 | 0.7 ± 0.01 | +0.058 | 2 |",
        "| ROC of hard labels | DP-HP, sum and product kernels | adult | 0.688 | 0.7 ± 0.01 | +0.012 | 2 |",
        "- 4 values",
        "## What differs",
    ):
        assert line in text
    assert lines[0].startswith("Smaller than --full: steps 300 (2000)")
    with (out / "measurements.csv").open(newline="", encoding="utf-8") as content:
        rows = list(csv.DictReader(content))
    assert len(rows) == 4
    assert rows[0] == {"panel": "roc", "method": "merf", "x": "adult", "seed": "0", "value": "0.69"}
    assert len(values_of(read_rows(out / FILE))) == 4


def test_only_takes_numbers_as_they_are_typed_and_says_which_there_are(tmp_path: Path) -> None:
    # `--only epsilon=1` computed nothing, and ended as if it had.
    effort = CodesEffort()
    piece = CodesPiece(method="merf", epsilon=1.0, effort=effort)
    asked = PaperExperiment("marginals", (piece,), (), effort, effort)
    with pytest.raises(ConfigError, match="leaves no piece") as refused:
        reproduce(asked, tmp_path, 1, {"epsilon": "2"}, print, print)
    assert "epsilon 1.0" in refused.value.remedy
    assert asked.chosen({"epsilon": "1"}) == [piece] == asked.chosen({"epsilon": "1.0", "method": "merf"})


def test_a_logarithmic_figure_shows_the_papers_curves(tmp_path: Path) -> None:
    figure = figure_of("balog-fig2")
    values = [CurveValue("D2 1", "alg2", float(M), 0, 0.1 / M) for M in (1, 10, 100)]
    svg, png = draw(figure, values, tmp_path / "curves", printed_numbers("balog-fig2"))
    text = svg.read_text(encoding="utf-8")
    for words in ("dashed: the paper's", "RKHS distance", "D = 5, epsilon .01", "Algorithm 2"):
        assert words in text
    assert png.read_bytes().startswith(b"\x89PNG")
