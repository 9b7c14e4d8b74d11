"""Baselines for a summary: the same owners, D_v and h1 under other rules.

Baselines may read every row: they run in the launcher, which made the scenario.
"""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from consumer.summary.evaluation import Evaluation, Evaluator, evaluator
from curator.summary.auctions.base import AskEveryoneSettings, WinnerOnlySettings
from fedkme.arrays import FloatArray, Rows
from fedkme.embeddings.kernels import kernel_mean_at
from fedkme.embeddings.prune import prune, pruned
from fedkme.embeddings.summary_weights import received, weigh
from fedkme.errors import NotEnoughRowsError
from fedkme.ops.spans import left
from fedkme.privacy.settings import ExactSettings
from fedkme.tables.table import Table, joined
from sim.config import Baseline, SimulationSettings, SummaryTable
from sim.engines.inprocess import InProcessMarket, KeptRecords, market_of, run_in_process
from sim.scenarios.base import Scenario

PAUSE_S = 2.0
"""Least number of seconds between two lines on the progress of baselines."""


@dataclass(frozen=True, slots=True)
class BaselineResult:
    """Quality of a baseline, and the number of rows that it accessed."""

    evaluation: Evaluation
    points_accessed: int


def altered(table: SummaryTable, name: Baseline) -> SummaryTable:
    """The run's settings under a baseline's rule.

    `greedy`: exact averages of h1, winner only (the paper's non-private greedy). `winner_only` and
    `ask_everyone`: the run's own h2 under another auction. `uniform`: p/K rows of each owner.
    """
    changes: Mapping[Baseline, dict[str, Any]] = {
        "greedy": {"broadcast": ExactSettings(), "target": ExactSettings(), "auction": WinnerOnlySettings()},
        "winner_only": {"auction": WinnerOnlySettings()},
        "ask_everyone": {"auction": AskEveryoneSettings()},
        "uniform": {"protocol": "uniform", "uniform_ratio": 1.0},
    }
    base: dict[str, Any] = {"content": "rows"} | ({} if name == "uniform" else {"protocol": "algorithm3"})
    return table.model_copy(update=base | changes[name])


async def run_baselines(
    scenario: Scenario,
    settings: SimulationSettings,
    gamma: float,
    accessed_by_run: int,
    note: Callable[[str], None] = lambda line: None,
) -> dict[Baseline, BaselineResult]:
    """Run each baseline that the settings name, with the run's kernel.

    `uniform_weighted` draws as many rows as the run accessed. `note` gets a line of progress at most every
    PAUSE_S.

    Returns:
        Results by name.
    """
    rows = (scenario.schema, scenario.validation, scenario.test, scenario.seeds)
    against = evaluator(*rows, gamma, settings.downstream)
    rivals = _Rivals(scenario, settings.summary, market_of(scenario, settings.seed), against)
    results: dict[Baseline, BaselineResult] = {}
    started = noted = time.monotonic()
    for number, name in enumerate(settings.baselines):
        if (now := time.monotonic()) - noted > PAUSE_S:
            noted, total = now, len(settings.baselines)
            note(f"baselines: {number} of {total}, next {name}; {left(number, total, now - started)}")
        table, weights, accessed = await rivals.rows(name, accessed_by_run)
        if len(table):
            evaluation = against.evaluate_table(scenario.schema, table, weights)
            results[name] = BaselineResult(evaluation, accessed)
    return results


@dataclass(frozen=True, slots=True, eq=False)
class _Rivals:
    """Ways to choose rows of a run's owners for the run's D_v, without privacy."""

    scenario: Scenario
    summary: SummaryTable
    market: InProcessMarket
    against: Evaluator

    async def rows(self, name: Baseline, accessed_by_run: int) -> tuple[Table, FloatArray | None, int]:
        """Rows that a baseline chooses, with weights if it has any, and the number of rows it accesses."""
        p, seen, encode = self.summary.p, self.against.validation, self.scenario.schema.encode
        match name:
            case "uniform_weighted":  # the rival at equal rows accessed
                table, accessed = await self._uniform(max(accessed_by_run, p))
                about = received(encode(table.values), seen)
                fit = weigh(about, p, pruned(about.seen, p))
                return table.take(fit.indices), fit.weights, accessed
            case "uniform_pruned" | "uniform_5p_pruned":  # which cost no privacy towards other owners
                ratio = 5.0 if name == "uniform_5p_pruned" else self.summary.cells.rho
                table, accessed = await self._uniform(round(ratio * p))
                return table.take(prune(encode(table.values), seen.rows, p, seen.gamma)), None, accessed
            case "exact_greedy":  # over all rows in one place, each of which it accesses
                tables = list(self.scenario.owners.values())
                pooled = joined(tables)
                rows = np.concatenate([encode(table.values) for table in tables])
                seeds = self.against.seeds if self.summary.seed_set == "counted" else None
                chosen = exact_kernel_greedy(rows, seen.rows, seeds, p, seen.gamma)
                return pooled.take(chosen), None, len(pooled)
            case _:
                table, accessed = await self._protocol(altered(self.summary, name))
                return table, None, accessed

    async def _uniform(self, drawn: int) -> tuple[Table, int]:
        """Draw rows at random, or all rows if there are fewer."""
        available = sum(map(len, self.scenario.owners.values()))
        uniform = altered(self.summary, "uniform")
        return await self._protocol(uniform.model_copy(update={"p": min(drawn, available)}))

    async def _protocol(self, table: SummaryTable) -> tuple[Table, int]:
        records, parts = KeptRecords(), (table.curator_part(), table.consumer_part())
        await run_in_process(self.market, self.scenario.validation, *parts, records)
        record = records.summary
        assert record is not None, "a run that did not fail has a record"
        return Table(record.values(), record.labels()), len(record.accesses)


def exact_kernel_greedy(
    rows: Rows, validation: Rows, seeds: Rows | None, p: int, gamma: float
) -> NDArray[np.int64]:
    """Pick p different rows, each the exact argmax of J(S + x) (Sarpatwar 2019, eq. 3).

    One pass over the data per pick: the kernel sum of the summary at every row grows by one column.
    No N x N matrix. float32 rows are not copied to float64: a kernel value is then off by about 1e-6.

    Args:
        rows: all owners' rows in model space, (N, n).
        validation: D_v, (m, n), m >= 1.
        seeds: D_init, (s, n), counted as part of S from the start and never returned; None or empty for none.
        p: rows to pick.
        gamma: gamma of the RBF kernel.

    Returns:
        (p,) indices into `rows` in the order of picking; of equal rows the first.

    Raises:
        NotEnoughRowsError: p is larger than N.
    """
    if p > len(rows):
        cause = f"a summary of {p} rows was asked for and there are {len(rows)}"
        raise NotEnoughRowsError(cause, "Ask for a smaller summary.")
    closeness = kernel_mean_at(rows, validation, gamma)
    size = 0 if seeds is None else len(seeds)
    # sum_{j in S} k(x_j, x) at every row x
    crowding = np.zeros(len(rows)) if seeds is None or not size else size * kernel_mean_at(rows, seeds, gamma)
    norms = np.einsum("ij,ij->i", rows, rows, dtype=np.float64)
    free = np.ones(len(rows), dtype=np.bool_)
    chosen = np.empty(p, dtype=np.int64)
    for pick in range(p):
        # J(S + x) up to a positive factor and terms without x: v(x) - q/(q+1) s(x), with s = crowding / q
        gain = closeness - crowding / (size + 1)
        best = int(np.argmax(np.where(free, gain, -np.inf)))
        chosen[pick] = best
        free[best] = False
        squared = norms + norms[best] - 2.0 * (rows @ rows[best])
        crowding += np.exp(-gamma * np.maximum(squared, 0.0))
        size += 1
    return chosen
