"""A table with every kind of column, and releases of it, for tests of answers."""

from __future__ import annotations

import asyncio
import json
from functools import cache
from typing import Any

import numpy as np

from audit.in_memory import FreshNoise
from curator.releases.method import make_method
from fedkme.releases.settings import release_settings
from fedkme.tables.schema import Schema, schema_from
from fedkme.tables.table import Table

ROWS = 20_000


@cache
def schema() -> Schema:
    return schema_from(
        {
            "columns": [
                {"name": "age", "kind": "numeric", "bounds": [18, 97], "integer": True},
                {"name": "income", "kind": "numeric", "bounds": [0, 100]},
                {"name": "visits", "kind": "numeric", "bounds": [0, 9], "integer": True},
                {"name": "sex", "kind": "category", "categories": ["female", "male"]},
                {"name": "home region", "kind": "category", "categories": ["a", "b", "c", "d"]},
            ],
            "label": {"name": "ill", "classes": ["no", "yes"]},
        }
    )


@cache
def people(rows: int = ROWS, seed: int = 0) -> Table:
    rng = np.random.default_rng(seed)
    sex = (rng.random(rows) < 0.4).astype(float)
    age = np.clip(np.rint(rng.normal(45 + 5 * sex, 14, rows)), 18, 97)
    income = np.clip(rng.gamma(2.0, 15.0, rows) + 0.2 * (age - 45), 0, 100)
    visits = np.clip(rng.poisson(1.5 + 0.02 * np.maximum(age - 40, 0), rows), 0, 9)
    region = rng.choice(4, rows, p=[0.5, 0.3, 0.15, 0.05])
    ill = rng.random(rows) < 1 / (1 + np.exp(3 - 0.04 * (age - 45) - 0.3 * visits))
    return Table(np.column_stack([age, income, visits, sex, region]), ill.astype(np.int64))


def released(seed: int = 0, rows: int = ROWS, **settings: Any) -> bytes:
    """Release file of a method, at epsilon 1 unless the settings have another epsilon."""
    return _released(seed, rows, json.dumps(settings))


@cache
def _released(seed: int, rows: int, settings: str) -> bytes:
    method = make_method(release_settings(json.loads(settings)), schema(), people(300, 9), 1)
    return asyncio.run(method.ask(FreshNoise(people(rows), schema(), seed)))
