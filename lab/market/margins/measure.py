"""Summaries by margins beside the product's by cells, at equal epsilon: `python -m lab.market.margins`.

The model is a release of all owners' rows by marginals, at RELEASE of owners' epsilon, made in memory. Owners
are asked for rho p rows in proportion to their noisy masses, and pick them by design with the weights f. A
share of both is uniform where D_v is near the pool (`Tilt.uniform`).
"""

from __future__ import annotations

import asyncio
import json
import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np

from audit.in_memory import FreshNoise
from curator.cells.orders import USABLE, whole_rows
from curator.releases.method import make_method
from fedkme.arrays import IntArray
from fedkme.embeddings.kernels import domain_gamma
from fedkme.embeddings.prune import pruned
from fedkme.embeddings.summary_weights import beside_classes, received, weigh
from fedkme.ops.threads import one_thread
from fedkme.privacy.noise import simulated
from fedkme.releases.settings import release_settings
from fedkme.tables.table import Table, joined
from lab.experiments.piece import data_folder
from lab.market.layouts import layouts
from lab.market.margins.mechanism import (
    RELEASE,
    ColumnBins,
    MarginRules,
    Tilt,
    mass_deviation,
    picked_margins,
    rules_for,
)
from lab.market.pool import DELTA, Chosen, PooledRows, SummaryQuestion
from lab.market.product import product
from lab.market.rivals import exact_greedy
from lab.market.target import drawn_again
from lab.market.weak import weak_layouts
from owner.cells.fill import design

MODEL_ROWS = 20_000
LEAST_ORDER = 25
"""Rows that each asked owner sends, about: owners that are asked for few rows of one law send the same."""
P, RHO, EPSILON = 100, 2.0, 1.0


@dataclass(frozen=True, slots=True)
class MarginLine:
    """Errors of one run on held-back rows over exact greedy's, with weights.

    Attributes:
        layout, seed, noise: the run.
        cells: error of the product's default.
        margins: error of the summary by margins.
        columns: picked columns.
    """

    layout: str
    seed: int
    noise: int
    cells: float
    margins: float
    columns: Sequence[str]


def pool_model(market: PooledRows, seed: int) -> Table:
    """Synthetic rows of a release of all owners' rows at RELEASE, as under secure aggregation."""
    draw, owners = market.draw, len(market.draw.owners)
    table = joined(list(draw.scenario.owners.values()))
    ratio = math.sqrt(owners / (owners - 1)) if owners > 2 else 1.0
    values = {"kind": "marginals", "epsilon": RELEASE * EPSILON, "delta": DELTA, "seed": seed, "rows": 1}
    method = make_method(release_settings(values), draw.schema, None, 0)
    made = asyncio.run(method.ask(FreshNoise(table, draw.schema, seed, ratio)))
    return drawn_again(made, MODEL_ROWS)


def by_margins(
    market: PooledRows, model: Table, question: SummaryQuestion, rules: MarginRules
) -> tuple[Chosen, Tilt]:
    """Make a summary by margins."""
    draw, scenario = market.draw, market.draw.scenario
    tables = list(scenario.owners.values())
    labelled = scenario.validation.labels is not None and draw.schema.label is not None
    bins = ColumnBins(draw.schema, model, labelled)
    tilt = picked_margins(
        bins.codes(model),
        bins.sizes,
        bins.codes(scenario.validation),
        rules,
        simulated(question.seed, "lab", "margins"),
    )
    codes = [bins.codes(table) for table in tables]
    noise = simulated(question.seed, "lab", "masses")
    noisy = noise.gaussian(mass_deviation(question.epsilon, DELTA), len(codes))
    masses = np.maximum(np.array([tilt.mass(own) for own in codes]) + noisy, 0.0)
    by_size = market.sizes / market.sizes.sum()
    if masses.any():
        masses /= masses.sum()
    masses = (1.0 - tilt.uniform) * masses + tilt.uniform * by_size
    total = market.drawn(question)
    asked = np.argsort(-masses, kind="stable")[: max(1, total // LEAST_ORDER)]
    masses[np.setdiff1d(np.arange(len(masses)), asked)] = 0.0
    shares = masses / masses.sum() if masses.any() else by_size
    counts = whole_rows(np.minimum(total * shares, USABLE * market.sizes), market.sizes, total)
    places, start, none = list[IntArray](), 0, np.zeros(0, np.int64)
    for own, rows, count in zip(codes, draw.owners, counts.tolist(), strict=True):
        if count:
            weights = tilt.weights(own)
            chosen = design(rows, weights / weights.sum(), count, draw.gamma, none, question.seed)
            places.append(start + chosen)
        start += len(rows)
    rows, labels = market.take(np.concatenate(places))
    seen = beside_classes(rows, draw.to_validation, labels if labelled else None, draw.validation_labels)
    about = received(*seen)
    fit = weigh(about, question.p, pruned(about.seen, question.p))
    return Chosen(rows[fit.indices], labels[fit.indices], fit.weights, len(rows)), tilt


def measured(layout: str, seed: int, noises: Sequence[int]) -> list[MarginLine]:
    """Measure a layout under several draws of the noise; the release of the pool is one."""
    build, rows = ({name: (each, 250) for name, each in layouts().items()} | {**weak_layouts()})[layout]
    draw = build(data_folder(), rows, seed)
    draw = replace(draw, gamma=domain_gamma(draw.schema.mean_squared_distance))
    market, lines, rules = PooledRows(draw), list[MarginLine](), rules_for(EPSILON, DELTA)
    greedy = exact_greedy(market, SummaryQuestion(P, RHO, EPSILON, seed))["exact greedy"]
    base = draw.to_test.mmd2(greedy.rows, greedy.weights)
    names = [*draw.schema.names, "label"]
    with one_thread():
        model = pool_model(market, seed)
        for noise in noises:
            question = SummaryQuestion(P, RHO, EPSILON, 1000 * seed + noise)
            ours, tilt = by_margins(market, model, question, rules)
            cells = product(market, question)["ours + weights"]
            by_cells, tilted = (draw.to_test.mmd2(each.rows, each.weights) / base for each in (cells, ours))
            picked = [names[column] for column in tilt.columns]
            lines.append(MarginLine(layout, seed, noise, by_cells, tilted, picked))
    return lines


def main(words: Sequence[str]) -> None:
    """Measure LAYOUT:SEED:NOISES ... and append a line of JSON each to the file named first."""
    for piece in words[1:]:
        layout, seed, noises = piece.split(":")
        lines = measured(layout, int(seed), range(int(noises)))
        with Path(words[0]).open("a", encoding="utf-8") as out:
            out.writelines(json.dumps(asdict(line)) + "\n" for line in lines)
