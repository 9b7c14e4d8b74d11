"""Rare targets: more rows of the release, and half of the budget on sums that are weighted for D_v.

`python -m lab.market.rare`. Releases are the product's marginals, made in memory with fresh noise
(`audit.in_memory`), as under secure aggregation with one colluder; errors are as in `lab.market.target`.

| way       | release of the pool | rows to choose from                                                    |
|-----------|---------------------|------------------------------------------------------------------------|
| `few`     | mu^2                | DRAWN                                                                  |
| `product` | mu^2                | as the product: RARE_DRAWN where D_v is rare                           |
| `halves`  | mu^2 / 2            | half of DRAWN, and as many of a second release by weighted sums        |
| `both`    | mu^2 / 2            | RARE_DRAWN, and half of DRAWN of the second release                    |

**The weighted half**, which is not in the product. D_v picks two columns and gives their margins, epsilon 1
in all; of the pool's law tilted to these margins follows a public weight w in [0, 1] of each cell of the two
columns. The second release counts rows with weight w, by the same method.

*D_v* (replace one row, |D_v| public). The score of a column is half of ||h - m P||_1 for its counts h of the
m rows and a public law P: a replaced row moves h by 2 in L1 at most, so the score by 1, in both directions.
The exponential mechanism at exp(epsilon score / 2) is epsilon-private, PICK each. A margin has discrete
Laplace noise of scale 2 / epsilon, MARGIN each. The second column's law is tilted to the first one's noisy
margin, so that a column that says the same again has no score.

*Owners* (replace one row, N public). A row adds w(cell) to one cell of each table. A replaced row takes w
from one cell and adds w' to another, or changes one cell by |w - w'|: at most sqrt(w^2 + w'^2) <= sqrt 2 in
L2. A parity moves by w + w' <= 2. So the sensitivity of every table is at most that without weights, whatever
weights in [0, 1] a peer names, and both halves' mu^2 add up to mu^2 (`curator.releases.marginals.budget`).
Weights are whole numbers of 1 / STEPS, so that sums are exact.
"""

from __future__ import annotations

import asyncio
import json
import math
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from audit.in_memory import FreshNoise
from consumer.target.choosing import PoolChoice
from consumer.target.matching import DRAWN, RARE_DRAWN, is_rare
from curator.releases.method import make_method
from fedkme.arrays import FloatArray, IntArray
from fedkme.embeddings.weight_fit import project_to_simplex
from fedkme.features.binning import Binning
from fedkme.ops.threads import one_thread
from fedkme.privacy.gaussian import gaussian_epsilon, gaussian_sigma
from fedkme.privacy.noise import SimulatedNoise, choose, simulated
from fedkme.releases.settings import release_settings
from fedkme.sums.vector import SumVector
from fedkme.tables.schema import Category, Schema
from fedkme.tables.table import Table, joined
from lab.experiments.cells_draw import Build, ExperimentDraw
from lab.experiments.piece import data_folder
from lab.market import rivals
from lab.market.layouts import SHARE, adults, dealt, layouts
from lab.market.pool import DELTA, PooledRows, SummaryQuestion
from lab.market.product import product
from lab.market.target import drawn_again
from sim.scenarios.base import generator

P = 100
PICK, MARGIN = 0.125, 0.375
"""Parts of D_v's epsilon for the pick of a column and for its margin, twice each."""
POWER, STEPS = 0.5, 64
"""Exponent of the density ratio that gives a weight, and steps of a weight."""


@dataclass(frozen=True, slots=True)
class RareLine:
    """Errors over exact greedy's on one layout, seed and noise; MMD^2 to fresh rows, with weights."""

    layout: str
    seed: int
    noise: int
    epsilon: float
    rare: bool
    greedy: float
    real: float
    ways: Mapping[str, float]
    columns: Sequence[str]
    seconds: Mapping[str, float]


class WeightedOwners(FreshNoise):
    """Owners whose rows count with weights, (N,) whole numbers of 0 to STEPS; `rows` is public."""

    def __init__(
        self, table: Table, schema: Schema, seed: int, ratio: float, steps: IntArray, total: int
    ) -> None:
        super().__init__(table, schema, seed, ratio)
        self._levels = [(int(each), table.take(np.flatnonzero(steps == each))) for each in np.unique(steps)]
        self._public = total

    @property
    def rows(self) -> int:
        """Sum of the weights by noisy tables."""
        return self._public

    def _total(self, vector: SumVector) -> NDArray[np.int64]:
        """Add up weighted answers; a sum over rows is one over the weights' levels."""
        self.asked += 1
        parts = [level * vector.of(rows).astype(np.float64) for level, rows in self._levels]
        return np.sum(parts, axis=0) / STEPS  # type: ignore[no-any-return]


@dataclass(frozen=True, slots=True)
class CellWeights:
    """Public weights of the cells of two columns of codes.

    Attributes:
        columns: places of the columns.
        steps: weight of each cell, (a, b) whole numbers of 0 to STEPS.
    """

    columns: tuple[int, int]
    steps: IntArray

    def of(self, codes: IntArray) -> IntArray:
        """Weights of rows by their codes, (m,)."""
        first, second = self.columns
        return np.asarray(self.steps[codes[:, first], codes[:, second]])


def cell_weights(
    pool: IntArray, sizes: Sequence[int], target: IntArray, epsilon: float, noise: SimulatedNoise
) -> CellWeights:
    """Pick two columns by D_v and weigh their cells; see the head of the module.

    Args:
        pool: codes of synthetic rows of the pool, (n, c).
        sizes: number of codes of every column.
        target: codes of D_v, (m, c).
        epsilon: epsilon of all picks and margins together.
        noise: source of D_v's noise.
    """
    m, tilt = len(target), np.ones(len(pool))
    picks, factors = list[int](), list[FloatArray]()
    for _ in range(2):
        laws = [np.bincount(pool[:, c], tilt, size) / tilt.sum() for c, size in enumerate(sizes)]
        counts = [np.bincount(target[:, c], minlength=size) for c, size in enumerate(sizes)]
        scores = np.array([0.5 * np.abs(h - m * p).sum() for h, p in zip(counts, laws, strict=True)])
        scores[picks] = -math.inf
        logits = np.where(np.isfinite(scores), PICK * epsilon * scores / 2.0, -1e9)
        pick = choose(logits, float(noise.uniform(1)[0]), noise)
        noisy = counts[pick] + noise.discrete_laplace(2.0 / (MARGIN * epsilon), sizes[pick])
        margin = project_to_simplex(noisy / m, 1.0)  # clipping would leave noise in empty cells
        factor = margin / np.maximum(laws[pick], 1.0 / len(pool))
        tilt = tilt * factor[pool[:, pick]]
        picks.append(pick)
        factors.append(factor)
    order = np.argsort(picks)
    first, second = (factors[place] for place in order)
    ratios = np.outer(first, second)
    of_rows = np.sort(tilt)
    mass = np.cumsum(of_rows) / of_rows.sum()
    reference = of_rows[min(int(np.searchsorted(mass, 0.5)), len(mass) - 1)]
    weights = np.minimum(1.0, ratios / reference) ** POWER
    columns = (picks[order[0]], picks[order[1]])
    return CellWeights(columns, np.rint(STEPS * weights).astype(np.int64))


def measured(layout: str, seed: int, noise: int, epsilon: float = 1.0, halves: bool = True) -> RareLine:
    """Measure a layout by all ways, or by those without a weighted half alone."""
    draw = rare_layouts()[layout](data_folder(), 250, seed)
    market, schema, validation = PooledRows(draw), draw.schema, draw.scenario.validation
    question = SummaryQuestion(P, 2.0, epsilon, 100 * seed + noise)
    chosen = rivals.exact_greedy(market, question)["exact greedy"]
    greedy = draw.to_test.mmd2(chosen.rows, chosen.weights)
    seconds, started = dict[str, float](), time.perf_counter()
    real = product(market, question)["ours + weights"]
    table, owners = joined(list(draw.scenario.owners.values())), len(draw.owners)
    ratio = math.sqrt(owners / (owners - 1)) if owners > 2 else 1.0
    binning = Binning(schema)
    multiplier = gaussian_sigma(epsilon, DELTA)
    half = gaussian_epsilon(multiplier * math.sqrt(2.0), DELTA)
    random = simulated(question.seed, "consumer", "picks")

    def clocked(name: str) -> None:
        nonlocal started
        seconds[name], started = time.perf_counter() - started, time.perf_counter()

    def drawn(part: str, oracle: FreshNoise, at: float, rows: int) -> Table:
        values = {"kind": "marginals", "epsilon": at, "delta": DELTA, "seed": question.seed, "rows": 1}
        method = make_method(release_settings(values), schema, None, 0)
        made = drawn_again(asyncio.run(method.ask(oracle)), rows)
        clocked(part)
        return made

    def error(pool: Table) -> float:
        choice = PoolChoice(schema, pool, validation, P, draw.gamma)
        places, weights = choice.weighted(choice.everything, P)
        rows = np.asarray(schema.encode(pool.take(places).values), np.float64)
        clocked("choosing")
        return draw.to_test.mmd2(rows, weights) / greedy

    clocked("real rows")
    with one_thread():
        whole = drawn("release", FreshNoise(table, schema, question.seed, ratio), epsilon, RARE_DRAWN)
        few = whole.take(np.arange(DRAWN))
        rare = is_rare(schema, few, validation, draw.gamma)
        ways = {"few": error(few)}
        ways["product"] = error(whole) if rare else ways["few"]
        names = list[str]()
        if halves:
            part = drawn("half", FreshNoise(table, schema, 7_000 + question.seed, ratio), half, RARE_DRAWN)
            codes = binning.encode(part.take(np.arange(DRAWN)), "the release")
            cells = cell_weights(codes, binning.sizes, binning.encode(validation, "D_v"), epsilon, random)
            total = max(1, round(float(cells.of(codes).mean()) / STEPS * len(table)))
            steps = cells.of(binning.encode(table, "owners"))
            weighted = WeightedOwners(table, schema, 9_000 + question.seed, ratio, steps, total)
            near = drawn("weighted", weighted, half, DRAWN // 2)
            ways["halves"] = error(joined([part.take(np.arange(DRAWN // 2)), near]))
            ways["both"] = error(joined([part, near]))
            names = [binning.names[place] for place in cells.columns]
    real_error = draw.to_test.mmd2(real.rows, real.weights) / greedy
    return RareLine(layout, seed, noise, epsilon, rare, greedy, real_error, ways, names, seconds)


def rare_layouts() -> Mapping[str, Build]:
    """Layouts of MarketBench, and further rare targets among adults."""
    return {
        **layouts(),
        "adult-natives": partial(_rare, "adult-natives", "race", "Amer-Indian-Eskimo"),
        "adult-mexico": partial(_rare, "adult-mexico", "native-country", "Mexico"),
        "adult-old": partial(_rare, "adult-old", "age", 75.0),
    }


def _rare(name: str, column: str, value: str | float, folder: Path, rows: int, seed: int) -> ExperimentDraw:
    """Eight alike owners; D_v: two thirds of those with the value, or with no smaller number."""
    schema, people = adults(folder)
    rng = generator(seed, "market", name)
    place = schema.names.index(column)
    feature = next(each for each in schema.columns if each.name == column)
    values = people.values[:, place]
    if isinstance(feature, Category):
        sought = values == feature.categories.index(str(value))
    else:
        sought = values >= float(value)
    held = sought & (rng.random(len(people)) < 2 / 3)
    remaining = np.flatnonzero(sought & ~held)
    others = rng.permutation(np.flatnonzero(~sought))[: 8 * SHARE - len(remaining)]
    parts = np.array_split(rng.permutation(np.concatenate([remaining, others])), 8)
    return dealt(name, schema, people, parts, np.flatnonzero(held), rows, rng)


def main(words: Sequence[str]) -> None:
    """Measure LAYOUT:SEED:NOISE ... and append a line of JSON each to the file named first.

    The second word is the epsilon; the third `all`, or `product` to leave out the weighted half.
    """
    file, epsilon, ways, *pieces = words
    for piece in pieces:
        layout, seed, noise = piece.split(":")
        line = measured(layout, int(seed), int(noise), float(epsilon), ways == "all")
        with Path(file).open("a", encoding="utf-8") as table:
            table.write(json.dumps(asdict(line)) + "\n")


if __name__ == "__main__":
    main(sys.argv[1:])
