"""Counts how often verdicts keep their promise: `python -m lab.forecast.promises DATA`.

Rows received run from useless to good: of 2p rows a share comes from the 10p that are nearest to D_v's mean,
the rest from the pool at random. A verdict promises that MMD^2 to rows of D_v's law that nobody has seen is
at most 1.5 (good) or 2.5 times (fair) that of p fresh rows; counted are rows with weights.
"""

from __future__ import annotations

import argparse
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from consumer.summary.judging import judge_tables
from consumer.summary.verdict import Grade
from fedkme.embeddings.mmd import ReferenceRows
from fedkme.embeddings.prune import prune
from fedkme.tables.table import joined
from lab.experiments.cells_draw import ExperimentDraw
from lab.forecast.fresh import fresh
from lab.forecast.heldback import heldback
from lab.forecast.thresholds import thresholds
from lab.market.layouts import layouts
from lab.market.pool import PooledRows

PROMISED: Mapping[Grade, float] = {"good": 1.5, "fair": 2.5, "poor": 1.5}
"""Times the MMD^2 of fresh rows; of a poor one what would have been good."""
SIZES = ((250, 100), (100, 100), (60, 60), (45, 40), (60, 100), (45, 100))
"""|D_v| and p."""
LAYOUTS = (
    *("hospitals", "acs", "air-winter", "covtype-areas", "diabetes-wards", "adult-jobs", "adult-codes-rare"),
    *("adult-rare", "wine-alike", "digits-group5", "credit-fraud", "student-teachers", "covtype-soils"),
    *("covtype-rawah", "adult-elders", "wine-many50"),
)
SHARES = (0.0, 0.25, 0.5, 1.0)
"""Shares of received rows that are from those nearest to D_v."""


@dataclass(frozen=True, slots=True)
class Judgement:
    """Grade of a set of received rows, and what came of it.

    Attributes:
        grade: by the consumer alone.
        ratio: MMD^2 of the rows with weights to rows that nobody has seen, over that of p fresh rows.
    """

    grade: Grade
    ratio: float


def judgements(draw: ExperimentDraw, m: int, p: int) -> Iterator[Judgement]:
    """Judge received rows by the first m rows of D_v."""
    theirs, random = draw.scenario.validation.take(np.arange(m)), np.random.default_rng([m, p])
    against = ReferenceRows(draw.validation[:m], draw.gamma)
    about = PooledRows(replace(draw, validation=draw.validation[:m]))
    near = np.argsort(-about.closeness, kind="stable")[: 10 * p]
    everybody, spread = joined(list(draw.scenario.owners.values())), 1.0 - draw.to_test.own
    expected = spread / (1.0 - 1.0 / len(draw.test)) * (1.0 / p + 1.0 / len(draw.test))
    for share in SHARES:
        close = random.permutation(near)[: round(2 * p * share)]
        others = random.permutation(np.setdiff1d(np.arange(len(about.rows)), close))[: 2 * p - len(close)]
        places: NDArray[np.int64] = np.concatenate([close, others])
        came = everybody.take(places)
        summary = came.take(prune(about.rows[places], against.rows, p, draw.gamma))
        test = draw.scenario.test
        judged_tables = judge_tables(
            draw.schema, came, summary, theirs, test, None, p, draw.gamma, downstream=False
        )
        assert judged_tables.weighted.mmd2_test is not None, "there are held-back rows"
        yield Judgement(judged_tables.verdict.grade, judged_tables.weighted.mmd2_test / expected)


def main() -> None:
    """Print counts by |D_v| and p."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", type=Path)
    folder = parser.parse_args().data
    builds = {**layouts(), **fresh(), **heldback(), **thresholds()}
    found = defaultdict[tuple[int, int], list[Judgement]](list)
    for name in LAYOUTS:
        draw = builds[name](folder, max(m for m, _ in SIZES), 0)
        for m, p in SIZES:
            if m <= len(draw.validation):
                found[m, p] += judgements(draw, m, p)
    print("| D_v | p | good: kept, worst | fair: kept, worst | poor: as good as good |")
    for (m, p), judged in found.items():
        cells = []
        for grade, most in PROMISED.items():
            ratios = [judgement.ratio for judgement in judged if judgement.grade == grade]
            worst = "" if grade == "poor" or not ratios else f", {max(ratios):.2f}"
            cells.append(f"{sum(ratio <= most for ratio in ratios)} of {len(ratios)}{worst}")
        print(f"| {m} | {p} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
