"""A population whose means are known, samples of it, and questions about it."""

from __future__ import annotations

import numpy as np

from fedkme.tables.schema import Schema, schema_from
from fedkme.tables.table import Table

SCHEMA: Schema = schema_from(
    {
        "columns": [
            {"name": "age", "kind": "numeric", "bounds": [18, 97], "integer": True},
            {"name": "income", "kind": "numeric", "bounds": [0, 100]},
            {"name": "visits", "kind": "numeric", "bounds": [0, 9], "integer": True},
            {"name": "sex", "kind": "category", "categories": ["female", "male"]},
            {"name": "region", "kind": "category", "categories": ["a", "b", "c", "d"]},
        ],
        "label": {"name": "ill", "classes": ["no", "yes"]},
    }
)
QUESTIONS = (
    "count(ill = 'yes')",
    "count(sex = 'male')",
    "share(region in ('b', 'd'))",
    "share(sex = 'male' and ill = 'yes')",
    "share(visits >= 3) by sex",
    "mean(visits) by ill",
    "mean(visits) by sex",
    "mean(age)",
    "mean(age) by sex",
    "mean(income) where ill = 'yes'",
    "sum(visits) where sex = 'female'",
    "var(visits)",
    "corr(age, visits)",
    "histogram(income, 4)",
    "share(age > 60 and ill = 'yes')",
    "median(visits)",
    "mean(income)",
    "var(income)",
    "share(income < 17)",
    "quantile(income, 0.9)",
)
"""Questions of every kind: some of them are outside the span of each release."""


def sampled(rows: int, rng: np.random.Generator) -> Table:
    """Independent rows of the population."""
    sex = (rng.random(rows) < 0.4).astype(float)
    age = np.clip(np.rint(rng.normal(45 + 5 * sex, 14, rows)), 18, 97)
    income = np.clip(rng.gamma(2.0, 15.0, rows) + 0.2 * (age - 45), 0, 100)
    visits = np.clip(rng.poisson(1.5 + 0.02 * np.maximum(age - 40, 0), rows), 0, 9)
    region = rng.choice(4, rows, p=[0.5, 0.3, 0.15, 0.05])
    ill = rng.random(rows) < 1 / (1 + np.exp(3 - 0.04 * (age - 45) - 0.3 * visits))
    return Table(np.column_stack([age, income, visits, sex, region]), ill.astype(np.int64))
