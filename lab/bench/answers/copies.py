"""Coverage of intervals that an analyst, who knows rows alone, combines from copies of a release."""

from __future__ import annotations

import asyncio
import csv
import io
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from functools import cache

import numpy as np
from numpy.typing import NDArray

from audit.in_memory import FreshNoise
from curator.releases.method import make_method
from fedkme.answers.correlations import Target
from fedkme.releases.combining import combined
from fedkme.releases.settings import release_settings
from fedkme.tables.table import Table
from lab.bench.answers.coverage import Coverage, Tallies
from lab.bench.answers.population import SCHEMA, sampled

Columns = Mapping[str, NDArray[np.str_]]
COPIES = 5
_ROWS, _LARGE = 2000, 400_000
_MEANS: Mapping[str, Callable[[Columns], NDArray[np.float64]]] = {
    "mean(age)": lambda rows: rows["age"].astype(np.float64),
    "mean(income)": lambda rows: rows["income"].astype(np.float64),
    "mean(visits) where sex = 'male'": lambda rows: rows["visits"].astype(np.float64)[rows["sex"] == "male"],
    "share(region in ('b', 'd'))": lambda rows: np.isin(rows["region"], ("b", "d")).astype(np.float64),
    "share(ill = 'yes') where visits >= 3": lambda rows: (rows["ill"] == "yes")[
        rows["visits"].astype(np.float64) >= 3
    ].astype(np.float64),
}


def covered_by_copies(releases: Iterable[int], seed: int) -> Tallies:
    """Intervals for the population of means that an analyst takes in COPIES copies of each release."""
    settings = {"kind": "marginals", "bins": 8, "copies": COPIES, "iterations": 300}
    tallies: defaultdict[tuple[str, Target], Coverage] = defaultdict(Coverage)
    truths = _truths()
    for number in releases:
        method = make_method(release_settings({**settings, "seed": seed + number}), SCHEMA, None, 1)
        table = sampled(_ROWS, np.random.default_rng([seed, number]))
        release = asyncio.run(method.ask(FreshNoise(table, SCHEMA, seed * 1_000_003 + number)))
        files = method.finish(release, lambda *_: None).files
        copies = [_read(data) for name, data in files.items() if name.startswith("copy-")]
        for name, of in _MEANS.items():
            interval = combined([float(of(copy).mean()) for copy in copies])
            tally = tallies[name, "population"]
            tally.tight, tally.held = (
                tally.tight + 1,
                tally.held + (interval.low <= truths[name] <= interval.high),
            )
            tally.widths.append(interval.high - interval.low)
    return dict(tallies)


@cache
def _truths() -> Mapping[str, float]:
    """Means of a sample that is far larger than a release."""
    population = _columns(sampled(_LARGE, np.random.default_rng(99)))
    return {name: float(of(population).mean()) for name, of in _MEANS.items()}


def _columns(table: Table) -> Columns:
    assert table.labels is not None
    from fedkme.tables.text import cell_columns

    return {name: np.array(cells, dtype=np.str_) for name, cells in cell_columns(table, SCHEMA).items()}


def _read(data: bytes) -> Columns:
    lines = list(csv.DictReader(io.StringIO(data.decode())))
    return {name: np.array([line[name] for line in lines]) for name in lines[0]}
