"""Releases with counts of numbers by fine bins: their bins, costs and answers."""

from __future__ import annotations

import asyncio
import io
import math
from collections.abc import Sequence

import numpy as np
import pytest
from numpy.typing import NDArray

from audit.contracts import OwnersInMemory
from curator.releases.marginals.budget import measurement_cost
from curator.releases.method import make_method
from curator.releases.methods.marginals import FINE_SHARE, FINE_SHARE_ALONE, MOST_FINE_SHARE
from fedkme.answers.answer import Answer, ask
from fedkme.answers.counts import CountEvidence
from fedkme.answers.functions import Function, Values, number_and_gap, taken_apart
from fedkme.arrays import FloatArray
from fedkme.features.binning import Binning, finer
from fedkme.privacy.accountants import Sound
from fedkme.privacy.events import event_from_json
from fedkme.privacy.gaussian import gaussian_sigma
from fedkme.releases.counts import StoredCounts, counts_from_bytes
from fedkme.releases.fine import denoised, run_starts, worth_merging
from fedkme.releases.settings import release_settings
from fedkme.sums.values import Marginals
from fedkme.tables.schema import Category, Label, Numeric, Schema, schema_from
from fedkme.tables.table import Table
from tests.fedkme.answers.people import people, schema


def skewed(rows: int = 20_000) -> tuple[Table, Schema]:
    """Rows whose first number is near 0 in a wide range, half of it one value, and moves with the second."""
    rng = np.random.default_rng(5)
    base = rng.gamma(2.0, 10.0, rows)
    values = np.column_stack([np.where(rng.random(rows) < 0.5, 0.0, base), 1.0 - np.exp(-base / 20.0)])
    columns = (Numeric(name="wide", bounds=(0, 1000)), Numeric(name="even", bounds=(0, 1)))
    return Table(values), Schema(columns=columns)


def test_denoised_shares_find_values_in_a_wide_range_and_no_rows_far_away() -> None:
    rng, truth = np.random.default_rng(3), np.zeros(256)
    truth[[3, 4, 5, 6]] = 4000, 2000, 1000, 500
    shares = denoised(truth + rng.normal(0, 60, 256), 7500.0, 60.0)
    assert shares.sum() == pytest.approx(1.0)
    assert 0.5 * np.abs(shares - truth / truth.sum()).sum() < 0.06
    assert shares[16:].sum() == 0.0


def test_runs_have_about_equal_mass_and_a_heavy_cell_is_one_of_them() -> None:
    counts = np.full(256, 10.0)
    assert len(run_starts(counts, 1e-9, 16)) == 15
    sizes = np.diff([0, *run_starts(counts, 1e-9, 16), 256])
    assert sizes.tolist() == [16] * 16
    counts[100] = 5000.0
    starts = run_starts(counts, 1e-9, 16)
    assert {100, 101} <= set(starts)
    assert run_starts(np.full(1, 9.0), 1.0, 16) == ()


def test_noise_is_not_taken_for_a_number_in_few_bins() -> None:
    # 4,400 rows at epsilon 1 in 30 columns, sum known: even bins are worth ten, and the noise says fewer.
    rng, within = np.random.default_rng(8), np.repeat(np.arange(16), 16)
    law = np.exp(-0.5 * ((np.arange(256) - 128) / 45) ** 2)
    truth = 4400 * law / law.sum()
    for _ in range(40):
        counts = truth + rng.normal(0, 140, 256)
        starts = worth_merging(counts + (4400 - counts.sum()) / 256, within, 140.0, 8)
        if starts is not None:
            shares = np.add.reduceat(truth, (0, *starts)) / 4400
            assert 1 / (shares @ shares) > 4
    narrow = truth * 0.0
    narrow[100:108] = 550.0
    assert len(worth_merging(narrow, within, 1.0, 8) or ()) == 9  # and a run for the outer rows of each end
    assert worth_merging(truth, within, 1.0, 16) is None


def test_a_number_in_a_corner_of_its_range_gets_bins_from_its_own_counts() -> None:
    table, domain = skewed()
    method = make_method(release_settings({"kind": "marginals", "iterations": 200}), domain, None, 1)
    data = asyncio.run(method.ask(OwnersInMemory(table, domain, 3)))
    stored = counts_from_bytes(data)
    assert [each.column for each in stored.merged] == ["wide"]  # rows lie in many of the other's even bins
    assert stored.merged == counts_from_bytes(stored.to_bytes()).merged
    assert stored.binning.edges(domain.columns[0])[1] < 30  # type: ignore[arg-type]
    files = method.finish(data, lambda *_: None).files
    made = np.load(io.BytesIO(files["synthetic.npz"]))["x"]
    assert np.corrcoef(made.T)[0, 1] == pytest.approx(np.corrcoef(table.values.T)[0, 1], abs=0.1)
    assert made[:, 0].max() < 250


@pytest.mark.parametrize("labelled", [True, False])
def test_a_number_whose_rows_are_all_in_one_fine_cell_keeps_its_bins(labelled: bool) -> None:
    rng = np.random.default_rng(6)
    columns = [Numeric(name="bytes", bounds=(0, 10**9)), *(Numeric(name=n, bounds=(0, 1)) for n in "ab")]
    label = Label(name="y", classes=("no", "yes")) if labelled else None
    domain = Schema(columns=tuple(columns), label=label)
    values = np.column_stack([rng.gamma(2.0, 100.0, 4000), rng.random((4000, 2))])
    table = Table(values, (values[:, 1] > 0.4).astype(np.int64) if labelled else None)
    method = make_method(release_settings({"kind": "marginals", "iterations": 50}), domain, None, 1)
    data = asyncio.run(method.ask(OwnersInMemory(table, domain, 3)))
    assert counts_from_bytes(data).binning.sizes == (16, 16, 16, 2)[: 3 + labelled]


def test_a_release_that_is_continued_has_the_bins_of_its_stored_counts() -> None:
    table, domain = skewed()
    asked: list[Marginals] = []

    class Owners(OwnersInMemory):
        async def marginals(
            self, marginals: Marginals, sigmas: Sequence[float]
        ) -> list[tuple[NDArray[np.float64], float]]:
            asked.append(marginals)
            if len(asked) == 1 and before:
                return before[0]
            before.append(await super().marginals(marginals, sigmas))
            return before[-1]

    before: list[list[tuple[NDArray[np.float64], float]]] = []
    method = make_method(release_settings({"kind": "marginals"}), domain, None, 1)
    asyncio.run(method.ask(Owners(table, domain, 3)))
    first, asked[:] = list(asked), []
    asyncio.run(method.ask(Owners(table, domain, 3)))
    assert not first[0].merged
    assert first[1].merged
    assert [each.merged for each in asked] == [each.merged for each in first]


def test_fine_bins_lie_within_coarse_bins() -> None:
    columns = (
        Numeric(name="real", bounds=(-3, 8)),
        Numeric(name="money", bounds=(0, 10**6), scale="log", atoms=(0,), decimals=2),
        Numeric(name="age", bounds=(18, 97), integer=True),
        Numeric(name="cut", bounds=(0, 9), cuts=(1, 4)),
    )
    coarse = Binning(Schema(columns=columns), 16)
    fine = finer(coarse, 16)
    assert fine.sizes == (256, 257, 80, 3)
    rng = np.random.default_rng(1)
    table = Table(fine.decode(np.column_stack([rng.integers(0, n, 500) for n in fine.sizes]), rng).values)
    both = coarse.encode(table, "all"), fine.encode(table, "all")
    for place in range(4):
        assert (fine.within(place, coarse)[both[1][:, place]] == both[0][:, place]).all()


def release(fine: int, mechanism: str = "auto", rows: int = 20_000) -> StoredCounts:
    settings = release_settings({"kind": "marginals", "fine": fine, "mechanism": mechanism})
    method = make_method(settings, schema(), None, 1)
    return counts_from_bytes(asyncio.run(method.ask(OwnersInMemory(people(rows), schema(), 3))))


def spent(counts: StoredCounts) -> float:
    return Sound().epsilon([event_from_json(counts.pieces)], 1e-5).epsilon


def test_fine_bins_shorten_the_intervals_of_means_and_quantiles() -> None:
    table = people()
    income = table.values[:, schema().names.index("income")]
    fine, coarse = CountEvidence(release(16)), CountEvidence(release(1))

    def length(answer: Answer) -> float:
        return answer.high - answer.low

    for question, truth in {
        "mean(income)": income.mean(),
        "median(income)": np.median(income),
        "share(income < 20)": (income < 20).mean(),
    }.items():
        (ours,), (theirs,) = ask(fine, question), ask(coarse, question)
        assert ours.low <= truth <= ours.high, question
        # The interval of the median is a bin or longer, as all rows of its bin may lie on one side of the
        # median.
        assert length(ours) < length(theirs) / (2 if "median" in question else 4), question


def test_a_release_costs_its_epsilon_with_and_without_fine_bins() -> None:
    counts = release(16)
    assert 0.98 < spent(counts) <= 1.0 + 1e-6
    assert counts.event == release(1).event
    assert len(counts.fine) == 2  # of three numbers; the third has few values
    assert not release(1).fine
    again = counts_from_bytes(counts.to_bytes())
    assert [each.sigma for each in again.fine] == [each.sigma for each in counts.fine]


@pytest.mark.parametrize(("mechanism", "share"), [("auto", FINE_SHARE), ("independent", FINE_SHARE_ALONE)])
def test_fine_bins_have_their_share_of_the_budget(mechanism: str, share: float) -> None:
    counts = release(16, mechanism)
    costs = [measurement_cost(each.sigma) for each in counts.fine]
    assert sum(costs) * gaussian_sigma(1.0, 1e-5) ** 2 == pytest.approx(share, rel=1e-3)


def test_fine_bins_have_more_of_the_budget_where_there_are_few_rows() -> None:
    def cost(rows: int) -> float:
        fine = release(16, "auto", rows).fine
        return sum(measurement_cost(each.sigma) for each in fine) * gaussian_sigma(1.0, 1e-5) ** 2

    noise = 16 * math.sqrt(2 * 2 / FINE_SHARE) * gaussian_sigma(1.0, 1e-5)  # of two numbers, in even bins
    assert cost(int(noise / 0.1)) == pytest.approx(2 * FINE_SHARE, rel=0.01)
    assert cost(int(noise / 0.9)) == pytest.approx(MOST_FINE_SHARE, rel=0.01)
    assert 0.98 < spent(release(16, "auto", 1000)) <= 1.0 + 1e-6


def test_fine_bins_of_mostly_noise_are_not_measured_and_cost_nothing() -> None:
    # The noise of a cell is above the rows of one of 16 even bins; N and the deviation are public.
    few = release(16, "independent", 200)
    assert not few.fine
    assert 0.98 < spent(few) <= 1.0 + 1e-6
    assert [each.sigma for each in few.fitted] == [
        each.sigma for each in release(1, "independent", 200).fitted
    ]
    assert release(16, "independent", 400).fine


def test_fine_bins_also_answer_for_a_nullable_number() -> None:
    # On the air of three stations (15,000 rows, epsilon 1), the interval of the mean of a nullable, skewed
    # number was 74 +- 27 by coarse bins, and is 74 +- 8 by fine bins.
    columns = [{"name": "dust", "kind": "numeric", "bounds": [1, 700], "scale": "log", "nullable": True}]
    dusty = schema_from({"columns": [*columns, {"name": "n", "kind": "numeric", "bounds": [0, 1]}]})
    rng = np.random.default_rng(4)
    dust = np.clip(np.exp(rng.normal(4, 0.8, 20_000)), 1, 700)
    gap = rng.random(20_000) < 0.1
    values = np.where(gap, 350.5, dust)  # the middle of the bounds
    table = Table(np.column_stack([values, gap, rng.random(20_000)]), None)
    method = make_method(release_settings({"kind": "marginals", "mechanism": "independent"}), dusty, None, 1)
    release = asyncio.run(method.ask(OwnersInMemory(table, dusty)))
    evidence = CountEvidence(counts_from_bytes(release))
    present = dust[~gap]
    mean, share, spread = ask(evidence, "mean(dust); share(dust < 40); var(dust)", "rows")
    for answer, truth in (
        (mean, present.mean()),
        (share, (~gap & (dust < 40)).mean()),
        (spread, present.var()),
    ):
        assert answer.low <= truth <= answer.high
    assert mean.high - mean.low < 0.1 * present.mean()
    assert share.high - share.low < 0.1


@pytest.mark.parametrize("codes", [[], [-9.0], [-8.0, -9.0]])
def test_a_function_of_a_number_and_its_gap_is_taken_apart_whatever_the_kind_of_gap(
    codes: list[float],
) -> None:
    column = {"kind": "numeric", "name": "x", "bounds": [0, 10], "nullable": True, "missing_codes": codes}
    gapped = schema_from({"columns": [column]})
    number, mark = gapped.columns
    assert isinstance(number, Numeric)
    assert isinstance(mark, Category)
    assert number.missing is not None
    kinds = np.array([*range(len(mark.categories)), 0])
    rows = {"x": np.where(kinds == 0, 7.0, number.missing), mark.name: kinds.astype(np.float64)}
    rows["x"][-1] = 2.0
    weights = np.array([1.0, 0.3, -2.0, 5.0])

    def of(values: Values) -> FloatArray:
        gap = np.asarray(values[mark.name]).astype(int)
        return np.asarray(values["x"] ** 2 * weights[gap] + gap, np.float64)

    whole = Function(frozenset(["x", mark.name]), of)
    np.testing.assert_allclose(taken_apart(whole, gapped).of(rows), whole.of(rows))
    parts = number_and_gap(whole, "x", number.missing, mark.name)
    np.testing.assert_allclose(parts[0].of(rows) + parts[1].of(rows), whole.of(rows))
