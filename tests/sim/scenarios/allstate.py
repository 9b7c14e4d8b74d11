"""A small synthetic file with the columns of Allstate's train.csv."""

from __future__ import annotations

import csv
from collections.abc import Mapping
from pathlib import Path

import numpy as np

COLUMNS = (
    *("customer_ID", "shopping_pt", "record_type", "day", "time", "state", "location", "group_size"),
    *("homeowner", "car_age", "car_value", "risk_factor", "age_oldest", "age_youngest", "married_couple"),
    *("C_previous", "duration_previous", "A", "B", "C", "D", "E", "F", "G", "cost"),
)


def write_allstate(path: Path, customers: Mapping[str, int]) -> dict[str, list[float]]:
    """Write customers of each state, a quote and a purchase each; returns what the purchases cost."""
    rng = np.random.default_rng(0)
    costs: dict[str, list[float]] = {}
    identity = 0
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, COLUMNS)
        writer.writeheader()
        for state, count in customers.items():
            for _ in range(count):
                identity += 1
                # Each cost is one customer's, so that a test can tell rows apart.
                row = _row(rng, identity, state)
                writer.writerow(row | {"shopping_pt": 1, "record_type": 0, "cost": 999})
                writer.writerow(row)
                costs.setdefault(state, []).append(float(str(row["cost"])))
    return costs


def _row(rng: np.random.Generator, identity: int, state: str) -> dict[str, object]:
    seen = rng.random() < 0.7
    older = state == "CT"
    return {
        "customer_ID": identity,
        "shopping_pt": 2,
        "record_type": 1,
        "day": rng.integers(5),
        "time": "12:30",
        "state": state,
        "location": 10_000 + identity,
        "group_size": rng.integers(1, 3),
        "homeowner": int(older),
        "car_age": rng.integers(20),
        "car_value": "e" if seen else "",
        "risk_factor": rng.integers(1, 5) if seen else "NA",
        "age_oldest": rng.integers(50, 75) if older else rng.integers(18, 50),
        "age_youngest": rng.integers(18, 40),
        "married_couple": rng.integers(2),
        "C_previous": rng.integers(1, 5) if seen else "NA",
        "duration_previous": rng.integers(16) if seen else "NA",
        **{option: rng.integers(2) for option in "ABEF"},
        **{option: rng.integers(1, 4) for option in "CDG"},
        "cost": 300 + identity,
    }
