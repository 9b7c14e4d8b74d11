"""Rows for a target beside a summary of real rows, on layouts of MarketBench: `python -m lab.market.target`.

A release of all owners' rows at (1, 1e-5) under secure aggregation, by the product's default method; then
`match_rows`, as `fedkme match` does. The real rows are the product's summary by cells at rho 2 and epsilon 1,
whose weights count. Errors are MMD^2 to fresh rows of the target over those of exact greedy (100 real rows,
all in one place). Accuracies are means of three models on the same rows, trained with all of D_v.
"""

from __future__ import annotations

import json
import math
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path

import numpy as np

from consumer.target.choosing import PoolChoice
from consumer.target.matching import drawn_for, independent_columns, match_rows
from consumer.target.training import CONTROL, candidates, fitted_models
from curator.run.release_record import redrawn
from fedkme.arrays import FloatArray
from fedkme.ops.threads import one_thread
from fedkme.tables.table import Table
from lab.experiments.cells_draw import ExperimentDraw
from lab.experiments.piece import data_folder
from lab.market import rivals
from lab.market.layouts import layouts
from lab.market.pool import PooledRows, SummaryQuestion
from lab.market.product import product
from sim.progress import Follower
from sim.release_config import plan_for, release_of
from sim.releases import simulate_release
from sim.scenarios.base import Scenario, owner_names

P, EPSILON = 100, 1.0
DOUBTS = (0.0, 0.25, 0.5, 1.0, 2.0)


@dataclass(frozen=True, slots=True)
class TargetLine:
    """Figures of one layout and seed.

    Attributes:
        layout: name of the layout.
        seed: seed of everything random.
        method: method of the release.
        greedy: MMD^2 to fresh rows of exact greedy.
        ours: MMD^2 of rows for the target with weights, over `greedy`.
        real: MMD^2 of the summary of real rows with weights, over `greedy`.
        control: MMD^2 of independent columns, chosen and weighed likewise, over `greedy`.
        target: MMD^2 of D_v itself, over `greedy`.
        verdict: grade of the rows for the target.
        train_on: named candidate; empty where none was.
        named: its accuracy on fresh rows.
        best: accuracy of the best candidate on fresh rows.
        d_v: accuracy of D_v alone.
        control_accuracy: accuracy of the control.
        by_doubt: name and accuracy of the simplest candidate that is behind the best by at most so many
            standard errors on held-out rows of D_v, by that number.
        seconds: seconds that choosing, judging and training took.
    """

    layout: str
    seed: int
    method: str
    greedy: float
    ours: float
    real: float
    control: float
    target: float
    verdict: str
    train_on: str
    named: float
    best: float
    d_v: float
    control_accuracy: float
    by_doubt: Mapping[str, tuple[str, float]]
    seconds: float


def measured(layout: str, seed: int) -> TargetLine:
    """Measure a layout."""
    draw = layouts()[layout](data_folder(), 250, seed)
    market = PooledRows(draw)
    question = SummaryQuestion(P, 2.0, EPSILON, seed)
    chosen = rivals.exact_greedy(market, question)["exact greedy"]
    greedy = draw.to_test.mmd2(chosen.rows, chosen.weights)
    real = product(market, question)["ours + weights"]
    release, method = _release(draw, seed)
    schema, validation = draw.schema, draw.scenario.validation
    drawn = drawn_for(partial(drawn_again, release), schema, validation, draw.gamma)
    started = time.perf_counter()
    with one_thread():
        ours = PoolChoice(schema, drawn, validation, P, draw.gamma)
        matched = match_rows(ours)
        seconds = time.perf_counter() - started
        control = PoolChoice(schema, independent_columns(drawn, schema), validation, P, draw.gamma)
        places, weights = control.weighted(control.everything, P)
        beside = draw.to_test.mmd2(_encoded(draw, control.pool.take(places).values), weights)
        accuracy = _accuracies(draw, ours, control) if matched.training is not None else {}
    form = matched.judged.forms
    near = draw.to_test.mmd2(_encoded(draw, form.weighted.values), form.fit.weights)
    named = "" if matched.training is None else matched.training.best
    nothing = float("nan")
    return TargetLine(
        layout,
        seed,
        method,
        greedy,
        near / greedy,
        draw.to_test.mmd2(real.rows, real.weights) / greedy,
        beside / greedy,
        draw.to_test.mmd2(draw.validation) / greedy,
        matched.judged.verdict.grade,
        named,
        accuracy.get(named, nothing),
        max((value for name, value in accuracy.items() if name != CONTROL), default=nothing),
        accuracy.get("D_v", nothing),
        accuracy.get(CONTROL, nothing),
        {} if matched.training is None else _by_doubt(matched.training.right, accuracy),
        seconds,
    )


def _by_doubt(right: Mapping[str, FloatArray], accuracy: Mapping[str, float]) -> dict[str, tuple[str, float]]:
    """Names and accuracies of the simplest candidates within a doubt of the best; candidates are in order."""
    shares = {name: each.mean(axis=1) for name, each in right.items() if name != CONTROL}
    best = max(shares.values(), key=lambda each: float(each.mean()))
    named = dict[str, tuple[str, float]]()
    for doubt in DOUBTS:
        for name, each in shares.items():
            behind = best - each
            if behind.mean() <= doubt * behind.std(ddof=1) / math.sqrt(len(behind)):
                named[str(doubt)] = (name, accuracy[name])
                break
    return named


def drawn_again(release: bytes, rows: int) -> Table:
    """Rows of a release."""
    drawn = redrawn(release, rows, lambda *_: None)
    assert drawn is not None, "the default methods hold rows"
    return drawn


def _encoded(draw: ExperimentDraw, values: FloatArray) -> FloatArray:
    return np.asarray(draw.schema.encode(values), np.float64)


def _accuracies(draw: ExperimentDraw, ours: PoolChoice, control: PoolChoice) -> dict[str, float]:
    """Accuracy on fresh rows of every candidate, made with all of D_v; mean of three models."""
    test = draw.schema.encode(draw.scenario.test.values)
    return {
        name: float(
            np.mean(
                [
                    model(test) == draw.test_labels
                    for model in fitted_models(draw.schema, make(ours.everything))
                ]
            )
        )
        for name, make in candidates(ours, control, None).items()
    }


def _release(draw: ExperimentDraw, seed: int) -> tuple[bytes, str]:
    """Release of all owners' rows, by the default method and under secure aggregation."""
    given = draw.scenario
    owners = dict(zip(owner_names(len(given.owners)), given.owners.values(), strict=True))
    nothing = given.validation.take(np.arange(0))
    parties = Scenario("frames", given.schema, owners, given.validation, nothing, given.seeds)
    values = {"scenario": {"kind": "frames"}, "engine": "inprocess", "noise": "seeded", "seed": seed}
    secure = ["pooling.security.dropouts=0"] if len(owners) > 1 else []
    plan = plan_for(values, secure, parties, "rows")
    settings = release_of({**values, "release": {"kind": plan.method}}, secure, "lab")
    with tempfile.TemporaryDirectory(prefix="fedkme-") as scratch:
        folder, _ = simulate_release(settings, Path(scratch) / "run", Follower(), parties)
        return (folder / "release.npz").read_bytes(), plan.method


def main(words: Sequence[str]) -> None:
    """Measure LAYOUT:SEED ... and append a line of JSON each to the file that is named first."""
    file, *pieces = words
    for piece in pieces:
        layout, _, seed = piece.partition(":")
        line = measured(layout, int(seed))
        with Path(file).open("a", encoding="utf-8") as table:
            table.write(json.dumps(asdict(line)) + "\n")


if __name__ == "__main__":
    main(sys.argv[1:])
