"""Coverage of intervals on hard rows: spikes in a bin, zeros, few rows, heavy tails, several rows a person.

Once, intervals marked "bounded: covers 95 % or more" covered 42 to 75 % where one value had most rows, and 60
to 70 % with five rows of a person. All seeds are fixed, those of noise included, so each test gives the same
result every time; error rates are those of exact 95 % intervals with fresh seeds. FEDKME_TABLES is the number
of tables of each kind (2; 12 or more by night).
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
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import fedkme as fk
from audit.in_memory import FreshNoise
from curator.releases.method import make_method
from fedkme.answers.answer import BOUNDED, Answer, ask, in_rows
from fedkme.answers.correlations import scored_correlation
from fedkme.answers.counts import CountEvidence
from fedkme.answers.evidence import Evidence, ScoredNumber, ScoredPair
from fedkme.answers.folder import evidence_of
from fedkme.answers.intervals import Between, DoubtfulBound, ReleasedFigure
from fedkme.arrays import FloatArray
from fedkme.features.binning import Binning, finer
from fedkme.features.counts import marginal_counts
from fedkme.releases.counts import Measurement, StoredCounts
from fedkme.releases.settings import release_settings
from fedkme.tables.schema import Schema, schema_from
from fedkme.tables.table import Table
from lab.bench.answers.coverage import METHODS, OF_TABLE, covered
from lab.bench.answers.populations import KINDS, REAL

TABLES = int(os.environ.get("FEDKME_TABLES", "2"))
RELEASES = 24
LEAST = 18
"""Least number of 24 intervals that hold; of exact 95 % intervals, fewer hold with a chance of 1.3e-4."""
NUMBERS = {
    "columns": [
        {"name": "term", "kind": "numeric", "bounds": [0, 500], "integer": True},
        {"name": "toll", "kind": "numeric", "bounds": [-3, 60]},
    ]
}


def spiked(rng: np.random.Generator, rows: int = 400) -> Table:
    """Loans, most of 360 months, and tolls, most of 0."""
    term = np.where(rng.random(rows) < 0.82, 360, rng.choice([36, 60, 84, 120, 180, 240, 300, 480], rows))
    toll = np.where(rng.random(rows) < 0.9, 0.0, rng.gamma(2, 4, rows).round(2).clip(0, 60))
    return Table(np.column_stack([term, toll]).astype(np.float64))


def counted(table: Table, schema: Schema, seed: int, sigma: float, fine: float | None) -> Evidence:
    """Evidence from noisy counts of single columns, like those of a release."""
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
    schema, hits = schema_from(NUMBERS), Counter[str]()
    questions = (
        "count(term = 360); share(term = 360); count(toll <= 0); count(toll >= 0); mean(toll); median(term); "
        "var(term); quantile(toll, 0.9)"
    )
    for seed in range(RELEASES):
        table = spiked(np.random.default_rng([1, seed]))
        truths = in_rows(questions, table, schema)
        answers = ask(counted(table, schema, seed, sigma, fine), questions, "rows")
        hits.update({a.question: holds(a, truth) for a, truth in zip(answers, truths, strict=True)})
    assert len(hits) == 8
    assert all(count >= LEAST for count in hits.values()), hits


def test_a_spike_is_covered_in_a_whole_release(tmp_path: Path) -> None:
    # A program releases and asks, at epsilon 1. Of 6 exact 95 % intervals, 3 or fewer hold with a chance of
    # .0022.
    table, hits = spiked(np.random.default_rng(3)), Counter[str]()
    frame = pd.DataFrame(table.values, columns=["term", "toll"]).astype({"term": int})
    parties = {"north": frame[:200], "south": frame[200:]}
    truths = ((frame.term == 360).mean(), (frame.toll <= 0).sum())
    for seed in range(6):
        path = str(tmp_path / str(seed))
        settings: dict[str, Any] = {
            "epsilon": 1,
            "schema": NUMBERS,
            "method": "marginals",
            "seed": seed,
            "progress": False,
        }
        answers = fk.release(parties, out=path, **settings).ask("share(term = 360); count(toll <= 0)")
        for truth, (_, row) in zip(truths, answers.iterrows(), strict=True):
            hits[row.question] += bool(row.low <= truth <= row.high)
    assert min(hits.values()) >= 4, hits


SHARES = st.sampled_from([0.0, 0.02, 0.1, 0.3, 0.5, 0.7])


@settings(deadline=None, max_examples=300)
@given(st.integers(0, 2**32), SHARES, SHARES, st.sampled_from([0.0, 0.5]))
def test_a_correlation_holds_whichever_rows_lack_a_number(
    seed: int, first: float, second: float, width: float
) -> None:
    # Without noise nothing but the bounds of what is not known keeps the truth inside.
    random = np.random.default_rng(seed)
    places = np.minimum(random.integers(0, 9, (2, 60)) ** random.uniform(0.5, 2), 19).astype(int)
    if random.random() < 0.5:
        places[1] = np.clip(places[0] + random.integers(-2, 3, 60), 0, 19)
    gaps, codes, values = [], [], []
    for place, part, other in zip(places, (first, second), places[::-1], strict=True):
        order = [place, -place, other, -other, random.random(60), np.abs(place - other)][random.integers(6)]
        gap, stand_in = (
            np.isin(np.arange(60), np.argsort(order)[: round(60 * part)]),
            int(random.integers(20)),
        )
        gaps.append((gap, stand_in))
        values.append(place + width * random.uniform(-1.0, 1.0, 60))
        codes.append(np.where(gap, stand_in, place))
    numbers, scored = [], []
    for place, (gap, stand_in), (lacks, _) in zip(codes, gaps, gaps[::-1], strict=True):
        shares = np.bincount(place, minlength=20) / 60
        low, high = (0, 19) if not width else sorted(random.choice(20, 2, replace=False))
        scores = np.clip((2.0 * np.arange(20) - low - high) / (high - low), -1.0, 1.0)
        scores[stand_in] *= random.integers(2)

        def law(functions: list[FloatArray], shares: FloatArray = shares) -> tuple[FloatArray, FloatArray]:
            return np.array([each @ shares for each in functions]), np.zeros((len(functions),) * 2)

        cells = np.sort(random.integers(0, random.integers(1, 7), 20))
        own = np.bincount(place[~gap], minlength=20) / 60
        lacking, none = np.bincount(cells[place[lacks]], minlength=7) / 60, np.zeros((7, 7))
        at, half, share = np.arange(20.0), np.full(20, width), ReleasedFigure(float(gap.mean()))
        numbers.append(
            ScoredNumber(scores, at, half, own, lambda _: 0.0, law, cells, lacking, none, share, stand_in)
        )
        scored.append(scores[place])
    (lacks, _), (lacks_too, _) = gaps
    have, neither = ~(lacks | lacks_too), ReleasedFigure(float((lacks & lacks_too).mean()))
    x, y = (each[have] for each in values)
    product = ReleasedFigure(float((scored[0] * scored[1]).mean()))
    pair = ScoredPair((numbers[0], numbers[1]), product, neither)
    answer = scored_correlation(pair, 0, 1)
    assume(have.sum() > 2 and x.std() > 0.0 and y.std() > 0.0)
    assert answer.low - 1e-9 <= np.corrcoef(x, y)[0, 1] <= answer.high + 1e-9


def persons(rng: np.random.Generator, rows: int) -> Table:
    """Rows of persons with five equal rows each, one person after another."""
    ages = np.repeat(np.rint(rng.normal(250, 80, rows // 5)).clip(0, 500), 5)
    return Table(np.column_stack([ages, np.repeat(rng.gamma(2, 5, rows // 5).clip(0, 60), 5)]))


PERSON = {"person": {"column": "who", "rows": 5}}
OF_PERSONS = "share(term > 250); mean(toll); mean(term); median(term); var(term)"


def test_intervals_cover_where_the_rows_of_a_person_are_alike() -> None:
    schema = schema_from({**NUMBERS, **PERSON})
    truths = in_rows(OF_PERSONS, persons(np.random.default_rng(99), 500_000), schema)
    hits, lengths = Counter[str](), list[float]()
    for seed in range(RELEASES):
        table = persons(np.random.default_rng([2, seed]), 4000)
        answers = ask(counted(table, schema, seed, 2.0, 2.0), OF_PERSONS)
        hits.update({a.question: holds(a, truth) for a, truth in zip(answers, truths, strict=True)})
        assert all(BOUNDED in a.method and "up to 5 rows of a person" in a.method for a in answers)
        lengths.append(answers[2].high - answers[2].low)
    assert all(count >= LEAST for count in hits.values()), hits
    # sqrt(5) times the deviation of independent rows, and at most a tenth more for noise and bins.
    assert np.median(lengths) < 1.1 * 2 * 1.96 * 80 * (5 / 4000) ** 0.5


def test_an_epsilon_for_groups_gives_the_intervals_of_persons_with_as_many_rows() -> None:
    table = persons(np.random.default_rng([2, 0]), 4000)
    evidence = counted(table, schema_from(NUMBERS), 0, 2.0, 2.0)
    assert isinstance(evidence, CountEvidence)
    evidence._release.settings["group"] = 5  # type: ignore[index]
    of_persons = counted(table, schema_from({**NUMBERS, **PERSON}), 0, 2.0, 2.0)
    assert ask(evidence, OF_PERSONS) == ask(of_persons, OF_PERSONS)


@pytest.mark.parametrize(
    ("kind", "method"), [(kind, method) for kind in KINDS for method in METHODS if kind != REAL]
)
def test_intervals_cover_on_generated_tables(kind: str, method: str) -> None:
    # Answers of one release are not independent, so the error rate was measured: of 164 pairs of kind and
    # method with fresh tables and seeds, 98.7 % of all intervals held and at least 85.7 % in each pair. So
    # with fresh seeds a pair falls below 80 % with a chance of less than 1.8 % (at 95 % confidence).
    tallies = covered(METHODS[method], kind, range(0, OF_TABLE * TABLES, OF_TABLE), 11)
    hits = sum(tally.held + tally.bounded_held for tally in tallies.values())
    total = sum(tally.tight + tally.bounded for tally in tallies.values())
    assert total
    if TABLES >= 12:
        assert hits >= 0.93 * total, {form: tally.line() for (form, _), tally in tallies.items()}
    assert hits >= 0.8 * total, {form: tally.line() for (form, _), tally in tallies.items()}


def test_the_interval_of_a_value_between_two_figures_covers_both_ends() -> None:
    # 2,000 draws of both figures, with equal, opposite and mixed noise. Of exact 95 % intervals, fewer than
    # 1,860 hold with a chance of 4.1e-5 for each of the 10 values.
    rng = np.random.default_rng(0)
    for gap, turn in ((0.0, 1.0), (0.5, 1.0), (0.5, -1.0), (3.0, 0.2), (50.0, 1.0)):
        noise, more = rng.normal(size=(2, 2000))
        other = turn * noise + (1.0 - turn * turn) ** 0.5 * more
        apart = max(float(np.hypot(1.0 - turn, (1.0 - turn * turn) ** 0.5)), 1e-12)
        for value in (0.0, gap):
            hits = 0
            for a, b in zip(noise, gap + other, strict=True):
                least, most = ReleasedFigure(float(a), 1.0), ReleasedFigure(float(b), 1.0)
                between = Between(least, least, most, ReleasedFigure(float(b - a), apart))
                low, high = between.ends(DoubtfulBound(0.0))
                hits += low <= value <= high
            assert hits >= 1860, (gap, turn, value)


def test_evidence_has_the_group_size_of_the_release(tmp_path: Path) -> None:
    schema = schema_from(NUMBERS)
    method = make_method(release_settings({"kind": "marginals", "group": 3}), schema, None, 1)
    release = asyncio.run(method.ask(FreshNoise(spiked(np.random.default_rng(0), 3000), schema, 0)))
    assert evidence_of(release).together == 3
