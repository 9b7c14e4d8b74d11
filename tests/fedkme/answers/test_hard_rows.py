"""Intervals of rows that nobody imagined: spikes inside a bin, zeros, few rows, heavy tails, persons.

Issue 33: "Intervals marked 'bounded: covers 95 % or more' cover 42 to 75 % where one value holds most rows",
and with five rows of a person 60 and 70 %. FEDKME_TABLES is the number of tables that are drawn of each kind
(2; 12 and more by night).
"""

from __future__ import annotations

import asyncio
import os
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import fedkme as fk
from curator.releases.in_memory import FreshNoise
from curator.releases.method import make_method
from fedkme.answers.answer import BOUNDED, Answer, ask, in_rows
from fedkme.answers.counts import CountEvidence
from fedkme.answers.evidence import Evidence
from fedkme.answers.folder import evidence_of
from fedkme.answers.intervals import Between, Bound, Released
from fedkme.features.binning import Binning, finer
from fedkme.features.counts import marginal_counts
from fedkme.releases.counts import Measurement, StoredCounts
from fedkme.releases.settings import release_settings
from fedkme.tables.schema import Schema, schema_from
from fedkme.tables.table import Table
from sim.bench.answers.coverage import METHODS, OF_TABLE, covered
from sim.bench.answers.populations import KINDS, REAL

TABLES = int(os.environ.get("FEDKME_TABLES", "2"))
RELEASES = 24
LEAST = 18
"""Of 24 intervals of 95 %, fewer hold with a chance of 1e-4."""
NUMBERS = {
    "columns": [
        {"name": "term", "kind": "numeric", "bounds": [0, 500], "integer": True},
        {"name": "toll", "kind": "numeric", "bounds": [-3, 60]},
    ]
}


def spiked(rng: np.random.Generator, rows: int = 400) -> Table:
    """Loans of 360 months mostly, tolls of 0 mostly."""
    term = np.where(rng.random(rows) < 0.82, 360, rng.choice([36, 60, 84, 120, 180, 240, 300, 480], rows))
    toll = np.where(rng.random(rows) < 0.9, 0.0, rng.gamma(2, 4, rows).round(2).clip(0, 60))
    return Table(np.column_stack([term, toll]).astype(np.float64))


def counted(table: Table, schema: Schema, seed: int, sigma: float, fine: float | None) -> Evidence:
    """What the mechanism releases of single columns, drawn without a release."""
    rng, coarse = np.random.default_rng(seed), Binning(schema, 16)

    def measured(binning: Binning, column: int, deviation: float) -> Measurement:
        exact = marginal_counts(binning.encode(table, "all"), (column,), binning.sizes).astype(float)
        return Measurement((column,), exact + rng.normal(0.0, deviation, exact.size), deviation)

    columns = range(len(schema.columns))
    tables = tuple(measured(coarse, column, sigma) for column in columns)
    few = () if fine is None else tuple(measured(finer(coarse, 16), column, fine) for column in columns)
    settings = {"bins": 16, "fine": 16 if few else 1}
    release = StoredCounts(schema, settings, "independent", len(table), 3, tables, (), {}, {}, few)
    return CountEvidence(release)


def holds(answer: Answer, truth: float) -> bool:
    return answer.low - 1e-9 <= truth <= answer.high + 1e-9


@pytest.mark.parametrize(("sigma", "fine"), [(23.6, None), (4.0, 20.0)])
def test_a_spike_inside_a_bin_is_covered(sigma: float, fine: float | None) -> None:
    schema, held = schema_from(NUMBERS), Counter[str]()
    asked = (
        "count(term = 360); share(term = 360); count(toll <= 0); count(toll >= 0); mean(toll); median(term); "
        "var(term); quantile(toll, 0.9)"
    )
    for seed in range(RELEASES):
        table = spiked(np.random.default_rng([1, seed]))
        truths = in_rows(asked, table, schema)
        answers = ask(counted(table, schema, seed, sigma, fine), asked, "rows")
        held.update({a.question: holds(a, truth) for a, truth in zip(answers, truths, strict=True)})
    assert len(held) == 8
    assert all(count >= LEAST for count in held.values()), held


def test_a_spike_is_covered_in_the_release_of_a_program(tmp_path: Path) -> None:
    # The whole way, epsilon 1, as the fault was found. 6 releases: 3 or fewer hold with a chance of .002.
    held, frame = Counter[str](), pd.DataFrame()
    for seed in range(6):
        table = spiked(np.random.default_rng(3))
        frame = pd.DataFrame(table.values, columns=["term", "toll"]).astype({"term": int})
        parties = {"north": frame[:200], "south": frame[200:]}
        path = str(tmp_path / str(seed))
        settings: dict[str, Any] = {
            "epsilon": 1,
            "schema": NUMBERS,
            "method": "marginals",
            "seed": seed,
            "progress": False,
        }
        said = fk.release(parties, out=path, **settings).ask("share(term = 360); count(toll <= 0)")
        for truth, (_, row) in zip(
            ((frame.term == 360).mean(), (frame.toll <= 0).sum()), said.iterrows(), strict=True
        ):
            held[row.question] += bool(row.low <= truth <= row.high)
    assert min(held.values()) >= 4, held


def persons(rng: np.random.Generator, rows: int) -> Table:
    """Rows of which five in a row are of one person, and alike."""
    ages = np.repeat(np.rint(rng.normal(250, 80, rows // 5)).clip(0, 500), 5)
    return Table(np.column_stack([ages, np.repeat(rng.gamma(2, 5, rows // 5).clip(0, 60), 5)]))


@pytest.mark.parametrize("group", [{"person": {"column": "who", "rows": 5}}, {}])
def test_rows_of_one_person_are_no_independent_sample(group: dict[str, object]) -> None:
    schema = schema_from({**NUMBERS, **group})
    asked = (
        "share(term > 250); mean(toll); mean(term); median(term); var(term); share(toll < 6) where term > 250"
    )
    truths = in_rows(asked, persons(np.random.default_rng(99), 500_000), schema)
    held, wide = Counter[str](), list[float]()
    for seed in range(RELEASES):
        table = persons(np.random.default_rng([2, seed]), 4000)
        evidence = counted(table, schema, seed, 2.0, 2.0)
        if not group:  # the same rows, for which epsilon is said to hold together
            assert isinstance(evidence, CountEvidence)
            evidence._release.settings["group"] = 5  # type: ignore[index]
        answers = ask(evidence, asked)[:5]
        held.update({a.question: holds(a, truth) for a, truth in zip(answers, truths[:5], strict=True)})
        assert all(BOUNDED in a.method and "up to 5 rows of a person" in a.method for a in answers)
        wide.append(answers[2].high - answers[2].low)
    assert all(count >= LEAST for count in held.values()), held
    # sqrt(5) times the deviation of independent rows, and no more than a tenth for noise and bins.
    assert np.median(wide) < 1.1 * 2 * 1.96 * 80 * (5 / 4000) ** 0.5


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != REAL])
def test_intervals_cover_on_tables_that_nobody_chose(kind: str, method: str) -> None:
    # Every kind by every method. Answers of one release are not independent, so that a share is taken only
    # of many tables; of few, no more than that a form of question is not missed again and again.
    tallies = covered(METHODS[method], kind, range(0, OF_TABLE * TABLES, OF_TABLE), 11)
    held = sum(tally.held + tally.bounded_held for tally in tallies.values())
    total = sum(tally.tight + tally.bounded for tally in tallies.values())
    assert total
    if TABLES >= 12:
        assert held >= 0.93 * total, {form: tally.line() for (form, _), tally in tallies.items()}
    assert held >= 0.8 * total, {form: tally.line() for (form, _), tally in tallies.items()}


def test_the_ends_of_a_value_between_two_figures_hold_wherever_it_lies() -> None:
    # 20,000 draws of both figures with common and with opposite noise: 94.6 % or fewer has a chance of .005.
    rng = np.random.default_rng(0)
    for gap, turn in ((0.0, 1.0), (0.5, 1.0), (0.5, -1.0), (3.0, 0.2), (50.0, 1.0)):
        noise, more = rng.normal(size=(2, 20_000))
        other = turn * noise + (1.0 - turn * turn) ** 0.5 * more
        apart = max(float(np.hypot(1.0 - turn, (1.0 - turn * turn) ** 0.5)), 1e-12)
        for value in (0.0, gap):
            held = 0
            for a, b in zip(noise[:2000], gap + other[:2000], strict=True):
                least, most = Released(float(a), 1.0), Released(float(b), 1.0)
                between = Between(least, least, most, Released(float(b - a), apart))
                low, high = between.ends(Bound(0.0))
                held += low <= value <= high
            assert held >= 0.935 * 2000, (gap, turn, value)


def test_a_method_of_release_is_asked_as_it_is(tmp_path: Path) -> None:
    schema = schema_from(NUMBERS)
    method = make_method(release_settings({"kind": "marginals", "group": 3}), schema, None, 1)
    kept = asyncio.run(method.ask(FreshNoise(spiked(np.random.default_rng(0), 3000), schema, 0)))
    assert evidence_of(kept).together == 3
