"""Run of which tests write reports: metrics with every key of the schema, rounds, settings and rows."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import numpy as np

from fedkme.tables.files import save_table
from fedkme.tables.table import Table

P = 20
COLUMNS = [
    *("round", "size", "asked", "revealed", "accessed", "pool", "owners"),
    *("owner", "token", "bid", "mmd2_estimate", "milliseconds"),
]
BARE = {"scenario": "digits", "protocol": "clock", "K": 3, "p": P}
"""All that metrics.json must have, but for its status."""


def sample_metrics(**changes: Any) -> dict[str, Any]:
    """Metrics that a finished run writes, with every key of the schema."""
    names = ["summary", "greedy", "exact_greedy", "uniform", "winner_only", "ask_everyone"]
    observed = {"protected": "D_v", "observer": "owners", "neighbouring": "replace one row", "raw_points": 0}
    metrics: dict[str, Any] = {
        "status": "complete",
        "reason": None,
        "scenario": "digits",
        "protocol": "clock",
        "engine": "processes",
        "seed": 7,
        "K": 3,
        "p": P,
        "rounds": P,
        "points_accessed": {
            "total": 60,
            "by_owner": {"Bergen": 30, "Graz": 20, "Lyon": 10},
            "by_round": [3] * P,
            "wasted": 40,
            "rho": 0.75,
            "bound": 81.5,
            "validation_points": 0,
            "owners_agree": True,
        },
        "mmd2": dict(zip(names, [0.0216, 0.02, 0.019, 0.06, 0.021, 0.0201], strict=True)),
        "mmd2_counted": dict(zip(names, [0.031, 0.03, 0.029, 0.07, 0.03, 0.03], strict=True)),
        "mmd2_test": dict(zip(names, [0.025, 0.024, 0.023, 0.065, 0.025, 0.024], strict=True)),
        "percent_over_greedy": dict(zip(names, [8.0, 0.0, -5.0, 200.0, 5.0, 0.5], strict=True)),
        "downstream": {"linear_svm": 0.981, "mlp_32": 0.973},
        "downstream_baselines": {"uniform": {"linear_svm": 0.843, "mlp_32": 0.871}},
        "privacy": [
            observed | {"accountant": "published", "epsilon": 1.4006, "delta": 0.01, "reason": "as printed"},
            observed
            | {"accountant": "sound", "epsilon": "inf", "delta": 0.01, "reason": "the winner is asked"},
        ],
        "timing": {
            "startup_s": 1.2,
            "launch_s": 0.8,
            "round_p50_ms": 3.91,
            "round_p99_ms": 7.7,
            "total_s": 3.4,
        },
        "bytes": {"sent": 1234567, "received": 345678},
        "payouts": {"Bergen": 0.5, "Graz": 1 / 3, "Lyon": 1 / 6},
        "curator_only": {"value_by_owner": {"Bergen": 0.61, "Graz": 0.3, "Lyon": 0.05}},
        "faults": [{"round": 9, "owner": "Lyon", "code": 23, "line": "Lyon closed its stream"}],
        "gamma": 0.1,
        "dimension": 140,
    }
    return metrics | changes


def sample_run(directory: Path, metrics: dict[str, Any] | None = None) -> Path:
    """A run directory with all four files that a report reads."""
    (directory / "metrics.json").write_text(json.dumps(sample_metrics() if metrics is None else metrics))
    with (directory / "rounds.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(COLUMNS)
        for number in range(1, P + 1):
            owner = "Bergen" if number % 2 else "Graz"
            estimate = "" if number == 1 else 1 / number
            writer.writerow([number, number - 1, 3, 3, 3 * number, 2, 3, owner, 1, 0.2, estimate, 3.1])
    (directory / "run.toml").write_text('name = "digits <&>"\n')
    pixels = np.arange(P * 64).reshape(P, 64) % 17
    save_table(directory / "summary.npz", Table(pixels, np.arange(P) % 10))
    return directory
