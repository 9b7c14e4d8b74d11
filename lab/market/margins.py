"""Summaries by margins beside those by a sketch, at equal epsilon: `python -m lab.market.margins`."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from fedkme.embeddings.kernels import domain_gamma
from fedkme.ops.threads import one_thread
from lab.experiments.piece import data_folder
from lab.market.layouts import layouts
from lab.market.pool import PooledRows, SummaryQuestion
from lab.market.product import product
from lab.market.rivals import exact_greedy
from lab.market.weak import weak_layouts

P, RHO, EPSILON = 100, 2.0, 1.0


@dataclass(frozen=True, slots=True)
class MarginLine:
    """Errors of one run on held-back rows over exact greedy's, with weights.

    Attributes:
        layout, seed, noise: the run.
        cells: error of a summary by the cells of a sketch.
        margins: error of a summary by margins over a release.
    """

    layout: str
    seed: int
    noise: int
    cells: float
    margins: float


def measured(layout: str, seed: int, noises: Sequence[int]) -> list[MarginLine]:
    """Measure whole runs of both on a layout, under several draws of the noise."""
    build, rows = ({name: (each, 250) for name, each in layouts().items()} | {**weak_layouts()})[layout]
    draw = build(data_folder(), rows, seed)
    market = PooledRows(replace(draw, gamma=domain_gamma(draw.schema.mean_squared_distance)))
    greedy = exact_greedy(market, SummaryQuestion(P, RHO, EPSILON, seed))["exact greedy"]
    base, lines = draw.to_test.mmd2(greedy.rows, greedy.weights), list[MarginLine]()
    with one_thread():
        for noise in noises:
            question = SummaryQuestion(P, RHO, EPSILON, 1000 * seed + noise)
            made = (product(market, question, book=book)["ours + weights"] for book in ("sketch", "release"))
            cells, margins = (draw.to_test.mmd2(each.rows, each.weights) / base for each in made)
            lines.append(MarginLine(layout, seed, noise, cells, margins))
    return lines


def main(words: Sequence[str]) -> None:
    """Measure LAYOUT:SEED:NOISES ... and append a line of JSON each to the file named first."""
    for piece in words[1:]:
        layout, seed, noises = piece.split(":")
        lines = measured(layout, int(seed), range(int(noises)))
        with Path(words[0]).open("a", encoding="utf-8") as out:
            out.writelines(json.dumps(asdict(line)) + "\n" for line in lines)


if __name__ == "__main__":
    main(sys.argv[1:])
