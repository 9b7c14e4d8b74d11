"""metrics.json: the stable figures of a run (docs/metrics.md explains each figure)."""

import csv
import io
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, Literal

import numpy as np

from consumer.summary.verdict import FormQuality, UnseenDistance, Yardstick, verdict_on
from curator.summary.auctions.privauction import PrivAuctionSettings
from fedkme.inputs import open_input
from fedkme.privacy.accountants import Bound, Published, Sound
from fedkme.privacy.accounting import PrivacyStatement
from fedkme.privacy.events import Event
from fedkme.privacy.settings import target_event
from fedkme.verdict import at_most_fair
from sim.config import Baseline, SimulationSettings, SummaryTable
from sim.evaluation.baselines import BaselineResult
from sim.families import words_of

Metrics = dict[str, Any]


def assemble(
    settings: SimulationSettings,
    record: Mapping[str, Any],
    rounds: list[dict[str, str]],
    evaluation: Mapping[str, Any] | None,
    baselines: Mapping[Baseline, BaselineResult],
    timing: Mapping[str, float],
    privacy: Sequence[PrivacyStatement],
    added: tuple[str, str],
) -> Metrics:
    """Assemble metrics.json; `evaluation` is None if the consumer received nothing.

    `added` has the names of two columns of summary.csv (`consumer.summary.forms.added_names`).
    """
    evaluations: dict[str, Mapping[str, Any]] = {} if evaluation is None else forms_of(evaluation)
    evaluations |= _without_twin({name: asdict(result.evaluation) for name, result in baselines.items()})
    figures = figures_of(evaluations)
    mmd2 = figures["mmd2"]
    words = words_of(record["protocol"])
    claims = published_variant(settings.summary, len(record["owner_rows"])) if words.ranked else []
    return {
        "status": record["status"],
        "reason": record["reason"],
        "code": record["code"],
        **settings.named,
        "protocol": record["protocol"],
        "plan": record["plan"] or {},
        "engine": settings.engine,
        "seed": settings.noise_seed,
        "K": len(record["owner_rows"]),
        "p": record["p"],
        "rounds": record["rounds"],
        "gamma": record["features"]["gamma"],
        "dimension": record["features"]["dimension"],
        "points_accessed": points_accessed(settings, record, rounds),
        "cells": words.details(record),
        **figures,
        "percent_over_greedy": over_greedy(mmd2),
        "percent_over_greedy_counted": over_greedy(figures["mmd2_counted"]),
        "points_accessed_baselines": {name: result.points_accessed for name, result in baselines.items()},
        "verdict": None if evaluation is None else _verdict(evaluation, record, mmd2, added),
        "privacy": [statement.to_json() for statement in privacy],
        "privacy_published": [claim.to_json() for claim in claims],
        "timing": dict(timing) | _round_times(rounds),
        "bytes": record["bytes"],
        "payouts": payouts(record["accessed"]),
        "curator_only": {"value_by_owner": record["value_by_owner"]},
        "faults": record["faults"],
    }


def with_reading(metrics: Metrics, reading: Mapping[str, Any]) -> dict[str, Any]:
    """Add what reading left out and changed; a grade is at most fair where that, or a lost owner, matters."""
    lost = sorted({fault["owner"] for fault in metrics["faults"]})
    doubts = list(reading.get("doubts", ()))
    if lost and not metrics.get("lost"):  # a release's card says so
        owners = {
            *metrics.get("points_accessed", {}).get("by_owner", ()),
            *lost,
        }  # K has no owner that refused from the start
        doubts.append(f"{len(lost)} of {len(owners)} owners dropped out ({', '.join(lost[:5])})")
    verdict = metrics["verdict"]
    graded = None if verdict is None else at_most_fair(verdict, doubts)
    return {**metrics, "verdict": graded, "reading": dict(reading)}


def points_accessed(
    settings: SimulationSettings, record: Mapping[str, Any], rounds: list[dict[str, str]]
) -> Metrics:
    """Distinct rows whose content reached the curator; rho and the bound of Lemma 5."""
    by_owner: dict[str, int] = record["accessed"]
    validation_points: int = record["validation_points"]
    total = sum(by_owner.values()) + validation_points
    accessed = [int(row["accessed"]) for row in rounds]
    words = words_of(record["protocol"])
    closings: dict[str, int] = record["closings"]
    return {
        "total": total,
        "by_owner": by_owner,
        "by_round": [after - before for before, after in zip([0, *accessed], accessed, strict=False)],
        "wasted": _wasted(record, sum(by_owner.values())),
        "rho": total / (record["p"] + record["validation_rows"]),
        "bound": words.most_rows(settings.summary, record["p"], len(record["owner_rows"])),
        "validation_points": validation_points,
        "owners_agree": all(by_owner[name] == sent for name, sent in closings.items()),
    }


def _wasted(record: Mapping[str, Any], accessed: int) -> int:
    """Rows accessed that are not in the summary, also if the consumer pruned the rows it received."""
    pruned = record.get("prune", False)
    return accessed - min(record["p"], accessed) if pruned else int(record["wasted"])


def payouts(accessed: Mapping[str, int]) -> dict[str, float]:
    """Each owner's share by rows sent: a share by rows used would tell the owner which rows were used."""
    total = sum(accessed.values())
    return {name: count / total if total else 0.0 for name, count in accessed.items()}


def over_greedy(mmd2: Mapping[str, float]) -> dict[str, float]:
    """100 (MMD^2 - MMD^2 of greedy) / MMD^2 of greedy (Sarpatwar 2019, Section 4)."""
    greedy = mmd2.get("greedy")
    if not greedy:
        return {}
    return {name: 100.0 * (value - greedy) / greedy for name, value in mmd2.items() if name != "greedy"}


FORMS = ("weighted", "repeats")
"""Forms of a summary besides p rows of equal weight; metrics.json calls them `summary_weighted` and so on."""


def forms_of(evaluation: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    """Evaluations of the summary: p rows of equal weight, and the other forms of the received rows."""
    others = {f"summary_{name}": evaluation[name] for name in FORMS if name in evaluation}
    return {"summary": evaluation} | others


def _without_twin(evaluations: Mapping[str, Mapping[str, Any]]) -> dict[str, Mapping[str, Any]]:
    """Drop `ask_everyone` if it chose the rows of `winner_only`, at more rows accessed."""
    twin = evaluations.get("winner_only", {}).get("mmd2")
    return {
        name: values
        for name, values in evaluations.items()
        if name != "ask_everyone" or values["mmd2"] != twin
    }


def figures_of(evaluations: Mapping[str, Mapping[str, Any]]) -> Metrics:
    """Figures of forms and baselines as in metrics.json: each by the names of those that have it."""
    of = {
        key: {name: values[key] for name, values in evaluations.items() if values.get(key) is not None}
        for key in ("mmd2", "mmd2_counted", "mmd2_test", "effective")
    }
    trained = {name: values["downstream"] for name, values in evaluations.items() if values["downstream"]}
    return {**of, "downstream": trained.pop("summary", {}), "downstream_baselines": trained}


def _verdict(
    evaluation: Mapping[str, Any],
    record: Mapping[str, Any],
    mmd2: Mapping[str, float],
    added: tuple[str, str],
) -> dict[str, Any]:
    """The consumer's verdict, with a baseline that only a simulation has: uniform rows with weights."""
    forms = {
        name.removeprefix("summary_"): FormQuality(
            of["mmd2"], of.get("classes", 0.0), UnseenDistance(**of["unseen"]) if of.get("unseen") else None
        )
        for name, of in forms_of(evaluation).items()
    }
    forms["alike"] = forms.pop("summary")
    by = Yardstick(evaluation["spread"], record["p"], record["validation_rows"])
    return asdict(verdict_on(forms, by, mmd2.get("uniform_weighted"), added))


def _round_times(rounds: list[dict[str, str]]) -> dict[str, float]:
    if not rounds:
        return {}
    times = [float(row["milliseconds"]) for row in rounds]
    p50, p99 = np.percentile(times, [50, 99])
    return {"round_p50_ms": float(p50), "round_p99_ms": float(p99)}


def read_rounds(directory: Path) -> list[dict[str, str]]:
    """Lines of rounds.csv."""
    path = directory / "rounds.csv"
    if not path.exists():
        return []
    with io.TextIOWrapper(open_input(path), "utf-8", newline="") as file:
        return list(csv.DictReader(file))


def write_metrics(directory: Path, metrics: Metrics) -> None:
    """Write metrics.json; JSON has no NaN, so no figure may be NaN."""
    text = json.dumps(metrics, indent=2, allow_nan=False)
    (directory / "metrics.json").write_text(text + "\n", encoding="utf-8")


TARGET_DELTA = 0.01
"""delta of the paper's epsilon for D_v."""
SUMMARY_DELTA = 1e-4
"""delta of the paper's epsilon for the summary; the auction's own delta is added."""


def published_variant(table: SummaryTable, owners: int) -> list[PrivacyStatement]:
    """List the paper's claims for its variant, and proven bounds on the same events; empty for other runs.

    Args:
        table: the run's settings; `preset = "published"` makes the run the paper's variant.
        owners: K.
    """
    if table.preset != "published":
        return []
    delta = SUMMARY_DELTA
    if isinstance(table.auction, PrivAuctionSettings):
        delta += table.auction.delta
    between = table.between_owners(table.p, owners)
    return [
        *_figures("D_v", "owners and curator", [target_event(table.target)], TARGET_DELTA, TARGET_DELTA),
        *_figures("each owner", "other owners", between, delta, table.privacy.delta),
    ]


def _figures(
    protected: str, observer: str, events: list[Event], published: float, sound: float
) -> Iterator[PrivacyStatement]:
    accountants: tuple[tuple[Literal["published", "sound"], Bound], ...] = (
        ("published", Published().epsilon(events, published)),
        ("sound", Sound().epsilon(events, sound)),
    )
    for name, figure in accountants:
        if name == "sound" or figure.method != "none":
            delta = figure.delta if math.isfinite(figure.epsilon) else 0.0
            reason = figure.reason or figure.method
            yield PrivacyStatement(protected, observer, name, figure.epsilon, delta, "replace-one", 0, reason)
