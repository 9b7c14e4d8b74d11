"""Measurements of each experiment from the rows of its sweeps."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from audit.attacks.auctions import RELATION, chain_attack
from audit.attacks.finding import Claim, Effort
from curator.summary.auctions.privauction import PrivAuctionSettings
from fedkme.privacy.accountants import Published, Sound
from fedkme.privacy.settings import EpsilonSchedule, MwemSettings, broadcast_events
from lab.experiments.curves import CurveValue
from lab.experiments.paper import PaperFigure
from sim.config import SimulationSettings
from sim.evaluation.metrics import SUMMARY_DELTA
from sim.sweep.measure import Row

BASELINES = ("greedy", "uniform")
"""Methods that are baselines of the published runs."""
WATCHED = (1, 3)
"""Rounds after which the attack on the auction decides."""
_ATTACKED_OWNERS = 8


def of_summaries(figure: PaperFigure, rows: Iterable[Row]) -> list[CurveValue]:
    """MMD^2 over greedy and accuracies of every method; greedy comes from the published run of the draw."""
    finished = [row for row in rows if "mmd2.summary" in row]
    greedy = {(row["p"], row["seed"]): row for row in finished if "mmd2.greedy" in row}
    values: list[CurveValue] = []
    for row in finished:
        reference = greedy.get((row["p"], row["seed"]))
        if reference is not None:
            values += _of_row(figure, row, reference, "summary", _method(row))
    for row in greedy.values():
        for baseline in BASELINES:
            values += _of_row(figure, row, row, baseline, baseline)
    return values


def _method(row: Row) -> str:
    return str(row["protocol"] if row["set.protocol"] == "cells" else row["set.preset"])


def _of_row(figure: PaperFigure, row: Row, greedy: Row, name: str, method: str) -> Iterator[CurveValue]:
    for panel in figure.panels:
        if panel.metric:
            prefix = "downstream" if name == "summary" else f"downstream_baselines.{name}"
            value = 100.0 * row.get(f"{prefix}.{panel.metric}", math.nan)
        else:
            least = greedy[f"{panel.name}.greedy"]
            value = 100.0 * (row[f"{panel.name}.{name}"] - least) / least
        yield CurveValue(panel.name, method, row["p"], row["seed"], value)


def of_access(rows: Iterable[Row]) -> list[CurveValue]:
    """Points accessed by number of owners, with the bounds, and the exponents of their growth."""
    finished = [row for row in rows if "points_accessed.total" in row]
    values = []
    for row in finished:
        method, K, p, seed = row["set.preset"], row["K"], row["p"], row["seed"]
        per_row = row["points_accessed.total"] / p
        values.append(CurveValue("per_row", method, K, seed, per_row))
        if method == "published":
            printed = _printed_bound(K)
            values.append(CurveValue("of_bound", method, K, seed, per_row / printed))
            bounds = {"everyone": K, "lemma5": printed, "lemma5_corrected": row["points_accessed.bound"] / p}
            bounds["cube_root"] = K ** (1 / 3)
            values += [CurveValue("per_row", name, K, seed, value) for name, value in bounds.items()]
    return values + list(_exponents(finished))


def _printed_bound(owners: int) -> float:
    """Lemma 5 as printed, for each row of the summary: (1 + 3 sqrt 2 log(1/delta) / epsilon) K^(1/3)."""
    auction = PrivAuctionSettings()
    constant = 3.0 * math.sqrt(2.0) * math.log(1.0 / auction.delta) / auction.epsilon
    return float((1.0 + constant) * owners ** (1 / 3))


def _exponents(rows: Sequence[Row]) -> Iterator[CurveValue]:
    """Slope of log points accessed on log K, for each draw over at least two numbers of owners."""
    draws = {(row["set.preset"], row["p"], row["seed"]) for row in rows}
    for method, p, seed in sorted(draws):
        of_draw = [row for row in rows if (row["set.preset"], row["p"], row["seed"]) == (method, p, seed)]
        owners = np.log([row["K"] for row in of_draw])
        if len(set(owners)) > 1:
            slope, _ = np.polyfit(owners, np.log([row["points_accessed.total"] for row in of_draw]), 1)
            yield CurveValue("exponent", method, p, seed, float(slope))


def of_privacy(rows: Iterable[Row], scale: float) -> list[CurveValue]:
    """Epsilons of the published runs by both accountants, and lower bounds by an attack on the auction.

    Args:
        rows: rows of runs with the published preset.
        scale: trials of the attack, as a multiple of a quick audit's.
    """
    values: list[CurveValue] = []
    for row in rows:
        if "p" in row:
            values += _of_run(row)
    return values + list(_attacked(scale))


def _of_run(row: Row) -> Iterator[CurveValue]:
    summary = SimulationSettings.model_validate(json.loads(row["configuration"])).summary
    exchanged, theorem = summary.auction.exchanged_rows, EpsilonSchedule()
    events = broadcast_events(summary.broadcast, summary.p, exchanged)
    scheduled = broadcast_events(MwemSettings(schedule=theorem), summary.p, exchanged)
    epsilons = {
        ("validation", "claimed"): row["privacy_published.D_v.owners and curator.published"],
        ("validation", "proven"): row["privacy_published.D_v.owners and curator.sound"],
        ("summary", "claimed"): Published().epsilon(events, SUMMARY_DELTA).epsilon,
        ("summary", "proven"): Sound().epsilon(events, SUMMARY_DELTA).epsilon,
        ("schedule", "claimed"): theorem.epsilon,
        ("schedule", "proven"): Sound().epsilon(scheduled, theorem.delta).epsilon,
    }
    for (panel, method), epsilon in epsilons.items():
        yield CurveValue(panel, method, row["p"], row["seed"], epsilon)


def _attacked(scale: float) -> Iterator[CurveValue]:
    """Lower bounds of the auction's epsilon; each is wrong in at most one of a million audits."""
    settings = PrivAuctionSettings()
    claim = Claim(settings.epsilon, settings.delta, RELATION)
    for rounds in WATCHED:
        attack = chain_attack(lambda noise: settings.make(_ATTACKED_OWNERS, noise), claim, rounds, 80_000)
        yield CurveValue("auction", "claimed", rounds, 0, claim.epsilon)
        yield CurveValue("auction", "attack", rounds, 0, attack(Effort(scale=scale)).measured)
