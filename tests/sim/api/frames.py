"""Small data frames of three owners and a consumer, and their public schema."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

SCHEMA: dict[str, Any] = {
    "columns": [
        {"name": "age", "kind": "numeric", "bounds": [18, 100], "integer": True},
        {"name": "pressure", "kind": "numeric", "bounds": [70, 220], "missing": 120},
        {"name": "smoker", "kind": "category", "categories": ["yes", "no", "unknown"], "missing": "unknown"},
    ],
    "label": {"name": "ill", "classes": ["no", "yes"]},
}
SMALL: dict[str, Any] = {"kernel": {"gamma": 2.0}, "downstream": False, "progress": False}
"""Arguments that make a call fast."""


def people(count: int, seed: int) -> pd.DataFrame:
    """Rows with missing values and categories, as a person's own files have them."""
    random = np.random.default_rng(seed)
    frame = pd.DataFrame(
        {
            "age": random.integers(20, 90, count),
            "pressure": random.normal(125, 12, count).clip(80, 200).round(1),
            "smoker": random.choice(["yes", "no"], count),
        }
    )
    frame.loc[::7, "pressure"] = np.nan
    frame.loc[::5, "smoker"] = None
    frame["ill"] = np.where(frame["age"] > 60, "yes", "no")
    return frame


def owners() -> dict[str, pd.DataFrame]:
    """Three owners."""
    return {name: people(60, seed) for seed, name in enumerate(("north", "south", "west"))}
