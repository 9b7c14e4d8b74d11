"""Populations whose answers are known, drawn by kinds of tables that are hard for an interval.

A population is a pool of rows, and a sample of it is drawn with replacement, so that what the population has
is what the pool has. Every table of a kind has its own columns, values, size of samples and epsilon, by its
number: no constant of the answers was chosen on any.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedkme.errors import ConfigError
from fedkme.tables.schema import Schema, rows_of_person, schema_from
from fedkme.tables.table import Table
from lab.bench.answers.population import QUESTIONS, SCHEMA, sampled

POOL = 60_000
PEOPLE, REAL = "people", "real tables"
_GROUPS = ("a", "b", "c", "d", "e", "f")
Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Population:
    """Rows of which samples are drawn.

    Attributes:
        schema: schema of the rows.
        pool: the rows; where the schema names a person, as many as a person may have lie together.
        questions: questions to ask, by the form that a figure is of.
        rows: N of a sample.
        epsilon: epsilon of a release.
    """

    schema: Schema
    pool: Table
    questions: Mapping[str, str]
    rows: int
    epsilon: float

    def sampled(self, rng: np.random.Generator) -> Table:
        """Independent rows, or independent persons with all their rows."""
        own = rows_of_person(self.schema)
        first = own * rng.integers(0, len(self.pool) // own, -(-self.rows // own))
        return self.pool.take((first[:, None] + np.arange(own)).ravel()[: self.rows])


@cache
def population(kind: str, number: int) -> Population:
    """The population of a kind with a number.

    Raises:
        ConfigError: the data of real tables are not there.
    """
    rng = np.random.default_rng([0xB0, list(KINDS).index(kind), number])
    rows = round(60 * (50_000 / 60) ** rng.random())
    epsilon = float(0.1 * 80 ** rng.random())
    return KINDS[kind](rng, rows, epsilon)


def _people(_: np.random.Generator, rows: int, epsilon: float) -> Population:
    pool = sampled(POOL, np.random.default_rng(99))
    forms = {question: question.partition("(")[0] for question in QUESTIONS}
    return Population(SCHEMA, pool, forms, rows, epsilon)


def _spikes(rng: np.random.Generator, rows: int, epsilon: float) -> Population:
    x, y = rng.integers(0, 501, POOL).astype(float), np.clip(rng.gamma(2, 15, POOL), -20, 100).round(2)
    at, beside = float(rng.choice([0, 360, 500, int(rng.integers(1, 500))])), float(rng.integers(1, 99))
    beside = float(rng.choice([-20.0, 0.0, 99.95, beside + 0.25]))
    mass = rng.uniform(0.3, 0.95)
    x, y = np.where(rng.random(POOL) < mass, at, x), np.where(rng.random(POOL) < mass, beside, y)
    second = float(rng.integers(0, 501))
    x = np.where(rng.random(POOL) < 0.1, second, x)
    bounds = {"x": (0, 500), "y": (-20, 100)}
    return _with_groups(rng, x, y, bounds, at, beside, rows, epsilon)


def _zeros(rng: np.random.Generator, rows: int, epsilon: float) -> Population:
    some = rng.random(POOL) > rng.choice([0.5, 0.8, 0.9, 0.99, 0.999])
    x = np.where(some, np.floor(rng.exponential(100, POOL)).clip(1, 1000), 0.0)
    y = np.where(some, rng.gamma(2, 4, POOL).round(2), 0.0).clip(0, 60)
    return _with_groups(rng, x, y, {"x": (0, 1000), "y": (0, 60)}, 0.0, 0.0, rows, epsilon)


def _small(rng: np.random.Generator, rows: int, epsilon: float) -> Population:
    x = np.rint(rng.normal(50, 12, POOL)).clip(0, 100)
    y = rng.gamma(2, 1, POOL).clip(0, 20)
    return _with_groups(rng, x, y, {"x": (0, 100), "y": (0, 20)}, 50.0, 2.0, rows, epsilon, ratio=0.3)


def _heavy(rng: np.random.Generator, rows: int, epsilon: float) -> Population:
    x = np.floor(rng.pareto(1.2, POOL) * 10).clip(0, 10_000)
    y = np.exp(rng.normal(3, 1.5, POOL)).clip(1, 5000)
    log = bool(rng.random() < 0.5)
    return _with_groups(rng, x, y, {"x": (0, 10_000), "y": (1, 5000)}, 20.0, 20.0, rows, epsilon, log=log)


def _persons(rng: np.random.Generator, rows: int, epsilon: float) -> Population:
    own = int(rng.choice([2, 5, 10]))
    people = -(-POOL // own)
    first = np.repeat(np.rint(rng.normal(50, 15, people)).clip(0, 100), own)
    x = np.where(rng.random(len(first)) < 0.2, rng.integers(0, 101, len(first)), first)
    y = np.repeat(rng.gamma(2, 10, people), own) + rng.normal(0, 2, len(first))
    bounds = {"x": (0, 100), "y": (0, 100)}
    return _with_groups(rng, x, y.clip(0, 100), bounds, 50.0, 20.0, rows, epsilon, own)


def _with_groups(
    rng: np.random.Generator,
    x: Floats,
    y: Floats,
    bounds: Mapping[str, tuple[float, float]],
    at: float,
    beside: float,
    rows: int,
    epsilon: float,
    own: int = 1,
    ratio: float = 0.6,
    log: bool = False,
) -> Population:
    """Two numbers with a category that is rare at its end, and another that depends on the first number."""
    share = ratio ** np.arange(len(_GROUPS))
    people = -(-len(x) // own)
    group = np.repeat(rng.choice(len(_GROUPS), people, p=share / share.sum()), own)[: len(x)]
    ok = np.repeat(rng.random(people), own)[: len(x)] < 0.2 + 0.6 * (x > np.median(x))
    person = {"person": {"column": "who", "rows": own}} if own > 1 else {}
    keys = [
        {"name": "x", "kind": "numeric", "bounds": list(bounds["x"]), "integer": True},
        {"name": "y", "kind": "numeric", "bounds": list(bounds["y"]), **({"scale": "log"} if log else {})},
        {"name": "g", "kind": "category", "categories": list(_GROUPS)},
        {"name": "ok", "kind": "category", "categories": ["no", "yes"]},
    ]
    schema = schema_from({"columns": keys, **person})
    pool = Table(np.column_stack([x, y, group, ok]).astype(np.float64))
    rare = _GROUPS[int(rng.integers(3, 6))]
    return Population(schema, pool, _forms(at, beside, rare), rows, epsilon)


def _forms(at: float, beside: float, rare: str) -> dict[str, str]:
    return {
        f"count(x = {at:g})": "count",
        f"share(x = {at:g})": "share of a value",
        f"share(y <= {beside:g})": "share below",
        f"share(x = {at:g} and ok = 'yes')": "share of two columns",
        f"share(ok = 'yes') where y <= {beside:g}": "share where",
        f"share(ok = 'yes') where g = '{rare}'": "share in a rare group",
        f"share(x >= {at:g}) where g = '{rare}'": "share in a rare group",
        f"count(g = '{rare}' and x > {at:g})": "count in a rare group",
        "mean(x)": "mean",
        "mean(y)": "mean",
        f"mean(x) where g = '{rare}'": "mean in a rare group",
        "mean(y) where ok = 'yes'": "mean where",
        "sum(x) where ok = 'yes'": "sum where",
        "var(x)": "variance",
        "var(y)": "variance",
        "corr(x, y)": "correlation",
        "median(x)": "quantile",
        "quantile(y, 0.9)": "quantile",
    }


_TABLES: tuple[tuple[str, str, str, str, str], ...] = (
    ("wine_quality", "residual_sugar", "total_sulfur_dioxide", "quality", "colour"),
    ("student_performance", "absences", "age", "Mjob", "sex"),
    ("covtype_kaggle15120", "Horizontal_Distance_To_Hydrology", "Slope", "Cover_Type", "Wilderness_Area1"),
    ("kddcup99_corrected_test", "src_bytes", "duration", "flag", "protocol_type"),
    ("diabetes130", "number_inpatient", "num_lab_procedures", "race", "gender"),
    ("census_income_kdd_test", "wage_per_hour", "age", "race", "sex"),
)
"""Files of real tables with two numbers and two categories of each."""


def _real(rng: np.random.Generator, rows: int, epsilon: float) -> Population:
    import pandas as pd

    from sim.data.folder import data_file

    file, *names = _TABLES[int(rng.integers(len(_TABLES)))]
    path = data_file(f"{file}.parquet")
    if not path.is_file():
        raise ConfigError(f"{file}.parquet is not there", "Leave --kinds 'real tables' out.")
    frame = pd.read_parquet(path, columns=names).dropna().sample(frac=1.0, random_state=int(rng.integers(99)))
    frame = frame[:POOL]
    keys: list[dict[str, Any]] = []
    columns: list[Floats] = []
    for name, plain in zip(names[:2], "xy", strict=True):
        values = pd.to_numeric(frame[name]).to_numpy(float)
        most = float(10 ** np.ceil(np.log10(max(np.quantile(values, 0.999), 1))))
        columns.append(values.clip(0, most))
        whole = bool((values == np.rint(values)).all())
        keys.append({"name": plain, "kind": "numeric", "bounds": [0, most], "integer": whole})
    for name, plain in zip(names[2:], ("g", "ok"), strict=True):
        text = frame[name].astype(str)
        levels = list(text.value_counts().index[:6])
        columns.append(text.map({level: code for code, level in enumerate(levels)}).fillna(0).to_numpy(float))
        codes = [f"{plain}{code}" for code in range(len(levels))]
        keys.append({"name": plain, "kind": "category", "categories": codes})
    schema = schema_from({"columns": keys})
    pool = Table(np.column_stack(columns))
    usual = float(np.median(columns[0]))
    rare, other = keys[2]["categories"][-1], keys[3]["categories"][-1]
    forms = _forms(usual, float(np.median(columns[1])), rare).items()
    questions = {question.replace("ok = 'yes'", f"ok = '{other}'"): form for question, form in forms}
    if not keys[0]["integer"]:
        questions = {
            question: form for question, form in questions.items() if f"x = {usual:g}" not in question
        }
    return Population(schema, pool, questions, rows, epsilon)


KINDS: Mapping[str, Callable[[np.random.Generator, int, float], Population]] = {
    PEOPLE: _people,
    "spikes": _spikes,
    "mostly zero": _zeros,
    "small groups": _small,
    "heavy tails": _heavy,
    "persons": _persons,
    REAL: _real,
}
