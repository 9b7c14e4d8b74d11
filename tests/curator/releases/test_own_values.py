"""Own values: bounds and zeros of numbers that many rows have get codes of their own."""

from __future__ import annotations

import asyncio
import io
from datetime import date
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from audit.in_memory import FreshNoise
from curator.releases.method import make_method
from curator.releases.methods.fine_bins import bins_by_counts
from fedkme.answers.answer import ask
from fedkme.answers.counts import CountEvidence
from fedkme.errors import ConfigError, FedkmeError
from fedkme.features.binning import Binning, MergedBins, OwnValues, all_own_values, finer
from fedkme.features.counts import marginal_counts
from fedkme.features.sums import Layout
from fedkme.releases.counts import Measurement, StoredCounts, counts_from_bytes, folded
from fedkme.releases.settings import release_settings
from fedkme.sums.values import Marginals, SumQuery
from fedkme.tables.schema import Category, Label, Numeric, Schema
from fedkme.tables.table import Table
from fedkme.wire.sums import query_from_wire, query_to_wire

COLUMNS = (
    Numeric(name="rain", bounds=(0, 72.5)),
    Numeric(name="gain", bounds=(-500, 99_999), integer=True, clip=True),
    Numeric(name="money", bounds=(-10, 10**6), scale="log", atoms=(0, -1), decimals=2),
    Numeric(name="day", kind="date", bounds=(date(1969, 1, 1), date(2020, 1, 1))),
    Numeric(name="few", bounds=(0, 9), integer=True),
    Numeric(name="pixel", bounds=(0, 1), count=2),
    Numeric(name="cut", bounds=(0, 9), cuts=(1, 4)),
    Category(name="c", categories=("a", "b")),
)
SCHEMA = Schema(columns=COLUMNS, label=Label(name="y", classes=("no", "yes")))
EVEN = Binning(SCHEMA, 16)
ASKED = finer(EVEN, 16)
ALL = all_own_values(EVEN, ASKED)


def test_bounds_and_zero_of_numbers_by_themselves_are_asked_for() -> None:
    assert {each.column: each.which for each in ALL} == {
        "rain": ("low", "high"),
        "gain": ("low", "high", "zero"),
        "money": ("low", "high"),  # 0 is an atom of the schema
        "day": ("low", "high"),
    }


@given(
    st.lists(st.sampled_from([(each.column, name) for each in ALL for name in each.which]), unique=True),
    st.integers(0, 2**32 - 1),
)
@settings(max_examples=25, deadline=None)
def test_any_own_values_are_a_partition_of_rows(named: list[tuple[str, str]], seed: int) -> None:
    """A row has one code in each column, of the finest, the asked and the final bins alike."""
    own = tuple(
        OwnValues(column, which)
        for column in dict.fromkeys(column for column, _ in named)
        if (which := tuple(name for name in ("low", "high", "zero") if (column, name) in named))
    )
    random = np.random.default_rng(seed)
    final = Binning(SCHEMA, 16, (MergedBins("rain", 256, (1, 9)),), own)
    asked = Binning(SCHEMA, ASKED.bins, own=ALL)
    kept = finer(final, 16)
    table = asked.decode(np.column_stack([random.integers(0, n, 200) for n in asked.sizes]), random)
    spikes = random.random(200) < 0.5
    table.values[spikes, 1] = random.choice([-500.0, 0.0, 99_999.0, 1e6], spikes.sum())  # the last: clipped
    codes = {each: each.encode(table, "all") for each in (asked, kept, final)}
    for place, numeric in enumerate(isinstance(c, Numeric) for c in SCHEMA.columns[:5]):
        assert numeric
        for one, other in ((asked, kept), (asked, final), (kept, final)):
            assert (one.within(place, other)[codes[one][:, place]] == codes[other][:, place]).all()
        counts = marginal_counts(codes[asked], (place,), asked.sizes)
        assert counts.sum() == 200  # and a replaced row moves two cells by 1, or none
        narrow = folded(Measurement((place,), counts.astype(float), 1.0), asked, kept)
        assert (narrow.values == marginal_counts(codes[kept], (place,), kept.sizes)).all()
        assert narrow.parts.sum() == asked.sizes[place]
        column = kept.coded.columns[place]
        assert isinstance(column, Numeric)
        middles = [kept.middles(column)[code] for code in kept.orders[place]]
        assert middles == sorted(middles)


@pytest.mark.parametrize(
    "own",
    [
        [("rain", ("zero",))],  # its low bound
        [("money", ("zero",))],  # an atom
        [("day", ("zero",))],
        [("pixel", ("low",))],
        [("pixel0", ("low",))],
        [("cut", ("low",))],
        [("c", ("low",))],
        [("y", ("low",))],
        [("other", ("low",))],
        [("rain", ("low", "low"))],
        [("rain", ("high", "low"))],
        [("rain", ())],
        [("rain", ("middle",))],
        [("rain", ("low",)), ("rain", ("high",))],
    ],
)
def test_a_curator_can_name_no_other_values(own: list[tuple[str, tuple[str, ...]]]) -> None:
    with pytest.raises(ConfigError, match="values"):
        Binning(SCHEMA, 16, own=tuple(OwnValues(*each) for each in own))


def test_own_values_come_over_the_wire_and_change_the_question() -> None:
    query = SumQuery((), Layout(), marginals=Marginals(16, ((0,),), own=ALL))
    message = query_to_wire(query)
    assert query_from_wire(message) == query
    assert query.digest != SumQuery((), Layout(), marginals=Marginals(16, ((0,),), own=ALL[1:])).digest
    for old, new in (('"low"', "17.5"), ('"low"', '"median"'), ('"rain"', "null")):
        message.marginals = query_to_wire(query).marginals.replace(old, new, 1)
        try:
            wrong = query_from_wire(message)
        except FedkmeError:
            continue
        with pytest.raises(ConfigError):
            Binning(SCHEMA, 16, own=wrong.marginals.own)  # type: ignore[union-attr]


def spiked(share: float, value: float, rows: int, seed: int) -> tuple[Table, Schema]:
    """Two numbers; a share of the first is one value."""
    random = np.random.default_rng(seed)
    base = random.normal(size=rows)
    first = np.clip(base + random.normal(size=rows), -4, 4)
    first[random.random(rows) < share] = value
    schema = Schema(columns=(Numeric(name="x", bounds=(-4, 4)), Numeric(name="z", bounds=(-6, 6))))
    return Table(np.column_stack([first, base])), schema


def released(table: Table, schema: Schema, **more: Any) -> tuple[StoredCounts, Table]:
    method = make_method(release_settings({"kind": "marginals", "iterations": 60, **more}), schema, None, 1)
    data = asyncio.run(method.ask(FreshNoise(table, schema, 3)))
    made = np.load(io.BytesIO(method.finish(data, lambda *_: None).files["synthetic.npz"]))
    stored = counts_from_bytes(data)
    assert counts_from_bytes(stored.to_bytes()).own == stored.own
    return stored, Table(made["x"])


_RANDOM = np.random.default_rng(39)


@pytest.mark.parametrize(
    ("share", "value", "name"),
    [(_RANDOM.uniform(0.03, 0.97), *each) for each in ((-4.0, "low"), (4.0, "high"), (0.0, "zero"))],
)
def test_a_value_that_many_rows_have_comes_back_exactly(share: float, value: float, name: str) -> None:
    table, schema = spiked(share, value, 8000, 1)
    stored, made = released(table, schema)
    assert stored.own == (OwnValues("x", (name,)),)
    # The share has a noise of about .002: .02 is ten deviations, and the seeds are fixed.
    truth = (table.values[:, 0] == value).mean()
    assert (made.values[:, 0] == value).mean() == pytest.approx(truth, abs=0.02)
    (answer,) = ask(CountEvidence(stored), f"share(x = {value:g})", "rows")
    assert abs(answer.estimate - truth) < 5 * answer.noise
    assert answer.high - answer.low < 0.03


def test_numbers_without_such_a_value_keep_their_bins() -> None:
    random = np.random.default_rng(2)
    columns = (
        Numeric(name="spread", bounds=(-1, 1)),
        Numeric(name="years", bounds=(0, 100), integer=True),
        Numeric(name="skewed", bounds=(0, 500)),
    )
    values = [random.uniform(-1, 1, 20_000), random.integers(0, 101, 20_000), random.gamma(1, 20, 20_000)]
    stored, _ = released(Table(np.column_stack(values).clip(-1, 500)), Schema(columns=columns))
    assert not stored.own
    assert stored.fine_own
    assert stored.binning.sizes[:2] == (16, 16)


def test_noise_alone_names_no_value() -> None:
    # Of 2,400 values one exceeds four deviations with probability .07; the seed is fixed.
    random, schema = np.random.default_rng(4), Schema(columns=(Numeric(name="x", bounds=(-1, 1)),))
    even = Binning(schema, 16)
    asked = finer(even, 16)
    asked = Binning(schema, asked.bins, own=all_own_values(even, asked))
    for _ in range(800):
        counts = np.append(np.full(256, 1000 / 256), [0, 0, 0]) + random.normal(0, 40, 259)
        assert not bins_by_counts(even, asked, [Measurement((0,), counts, 40.0)], 1000, 100.0).own


def test_a_whole_number_whose_bins_merge_names_no_value() -> None:
    # With 0 named, earlier stays in hospital (diabetes) kept even bins up to 20, which noise filled: variance
    # 11.6 for 1.6, and a logistic model lost .027 of AUC.
    schema = Schema(columns=(Numeric(name="stays", bounds=(0, 20), integer=True),))
    even = Binning(schema, 16)
    asked = Binning(schema, 256, own=all_own_values(even, finer(even, 16)))
    counts = np.append(20_000 * 0.45 ** np.arange(21.0), [0, 0])
    counts[[-2, 0]] = counts[[0, -2]]  # rows with 0 are counted by its own code
    named = bins_by_counts(even, asked, [Measurement((0,), counts, 30.0)], 36_000, 100.0)
    assert not named.own
    assert named.merged[0].starts[:3] == (1, 2, 3)


def test_a_number_that_is_one_value_in_all_rows_is_released() -> None:
    # Noise says that fewer rows than none have another value, which must not divide by 0.
    schema = Schema(columns=(Numeric(name="x", bounds=(0, 9)), Numeric(name="z", bounds=(0, 1))))
    table = Table(np.column_stack([np.zeros(3000), np.random.default_rng(1).random(3000)]))
    stored, made = released(table, schema)
    assert stored.own == (OwnValues("x", ("low",)),)
    assert (made.values[:, 0] == 0.0).mean() > 0.95
    even = Binning(schema, 16)
    asked = Binning(schema, 256, own=all_own_values(even, finer(even, 16)))
    for rest in (-1.0, -1e-3, 0.0):
        counts = np.append(np.full(256, rest / 256), [3000 - rest, 0])
        named = bins_by_counts(even, asked, [Measurement((0,), counts, 1.0)], 3000, 100.0)
        assert (named.own, named.merged) == (stored.own, ())


def test_a_number_with_cuts_and_atoms_keeps_both_beside_a_number_with_own_values() -> None:
    # Cuts are the schema's, so no value is named of such a number: its 0 stays in the bin between cuts.
    table, schema = spiked(0.4, -4.0, 8000, 5)
    random = np.random.default_rng(6)
    amount = np.where(random.random(8000) < 0.3, 0.0, np.exp(3.0 + table.values[:, 1]).clip(0.5, 999))
    code = np.where(random.random(8000) < 0.2, -9.0, amount.clip(0, 500))
    more = (
        Numeric(name="amount", bounds=(0, 1000), cuts=(5, 15, 40, 200), atoms=(0.0,)),
        Numeric(name="code", bounds=(0, 500), cuts=(5, 15, 40), atoms=(-9.0,)),
    )
    both = Table(np.column_stack([table.values, amount, code]))
    stored, made = released(both, Schema(columns=(*schema.columns, *more)))
    assert stored.own == (OwnValues("x", ("low",)),)
    assert stored.binning.sizes[2:] == (5 + 1, 4 + 1)
    # Shares have a noise of about .003: .03 is ten deviations, and the seeds are fixed.
    for place, value in ((0, -4.0), (2, 0.0), (3, -9.0)):
        truth = (both.values[:, place] == value).mean()
        assert (made.values[:, place] == value).mean() == pytest.approx(truth, abs=0.03)
    for cut in (5, 15, 40):
        truth = (both.values[:, 2] < cut).mean()
        assert (made.values[:, 2] < cut).mean() == pytest.approx(truth, abs=0.03)
