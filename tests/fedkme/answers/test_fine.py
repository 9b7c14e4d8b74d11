"""Numbers by fine bins (issue 16, item 3: "means of binned numbers are known to half a bin")."""

from __future__ import annotations

import asyncio
import math

import numpy as np
import pytest

from curator.releases.marginals.budget import measurement_cost
from curator.releases.method import make_method
from curator.releases.methods.marginals import FINE_SHARE, FINE_SHARE_ALONE
from fedkme.answers.answer import Answer, ask
from fedkme.answers.counts import CountEvidence
from fedkme.errors import DataError
from fedkme.features.binning import Binning, finer
from fedkme.operate.cuts import with_cuts
from fedkme.privacy.accountants import Sound
from fedkme.privacy.events import event_from_json
from fedkme.privacy.gaussian import gaussian_sigma
from fedkme.releases.counts import StoredCounts, counts_from_bytes
from fedkme.releases.fine import FineShares
from fedkme.releases.settings import release_settings
from fedkme.tables.schema import Numeric, Schema, schema_from
from fedkme.tables.table import Table
from fedkme.testing import OwnersInMemory
from tests.fedkme.answers.people import people, schema

TRUE = np.array([0.4, 0.1, 0.05, 0.05, 0.2, 0.0, 0.1, 0.1])
WITHIN = np.array([0, 0, 0, 1, 1, 2, 2, 3], dtype=np.int64)
COARSE = np.bincount(WITHIN, TRUE).astype(np.float64)
S, V = 0.02, 0.01**2


def noisy(seed: int) -> FineShares:
    """Both tables with the noise that they say they have; coarse shares add up to 1."""
    rng = np.random.default_rng(seed)
    away = rng.normal(0, math.sqrt(V), 4)
    return FineShares(TRUE + rng.normal(0, S, 8), S, WITHIN, COARSE + away - away.mean(), V)


def test_estimates_have_the_law_that_they_say_and_beat_both_tables() -> None:
    one, two = np.arange(8.0), (np.arange(8) < 4).astype(float)
    found = np.array([noisy(seed).law([one, two])[0] for seed in range(4000)])
    _, covariance = noisy(0).law([one, two])
    np.testing.assert_allclose(found.mean(axis=0), [TRUE @ one, TRUE @ two], atol=5 * 0.05 / math.sqrt(4000))
    np.testing.assert_allclose(np.cov(found.T), covariance, rtol=0.15, atol=2e-5)
    away = two - two.mean()
    assert covariance[1, 1] < S**2 * (away @ away)
    # Of everybody there is no noise: N is public.
    means, law = noisy(1).law([np.ones(8)])
    assert means[0] == pytest.approx(1.0)
    assert law[0, 0] == pytest.approx(0.0)
    assert noisy(1).shares.sum() == pytest.approx(1.0)


def test_without_coarse_counts_the_fine_ones_are_taken() -> None:
    alone = FineShares(TRUE, S, WITHIN, np.full(4, 0.25), math.inf)
    np.testing.assert_allclose(alone.shares, TRUE)
    away = np.arange(8.0) - 3.5
    assert alone.law([np.arange(8.0)])[1][0, 0] == pytest.approx(S**2 * (away @ away))


def test_rows_are_drawn_where_they_are_and_evenly_where_that_is_noise() -> None:
    codes = np.repeat([0, 1, 2], 3000)
    sharp = FineShares(TRUE, 1e-6, WITHIN, COARSE, 1e-12).drawn(codes, np.random.default_rng(0))
    assert (WITHIN[sharp] == codes).all()
    share = np.bincount(sharp, minlength=8) / 3000
    np.testing.assert_allclose(share[:7], (TRUE / COARSE[WITHIN])[:7], atol=0.04)
    vague = FineShares(TRUE, 10.0, WITHIN, COARSE, 1e-12).drawn(codes, np.random.default_rng(0))
    np.testing.assert_allclose(np.bincount(vague[:3000], minlength=3) / 3000, 1 / 3, atol=0.04)


def test_fine_bins_lie_within_coarse_ones() -> None:
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


def spent(made: StoredCounts) -> float:
    return Sound().epsilon([event_from_json(made.pieces)], 1e-5).epsilon


def test_means_and_quantiles_are_known_far_better_than_to_half_a_bin() -> None:
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
        # The median is known to one of 16 bins, as all rows of its bin may be on either side of it.
        assert length(ours) < length(theirs) / (2 if "median" in question else 4), question


def test_all_of_it_costs_what_was_planned_and_a_method_without_costs_the_same() -> None:
    made = release(16)
    assert 0.98 < spent(made) <= 1.0 + 1e-6
    assert made.event == release(1).event
    assert len(made.fine) == 2  # of three numbers; the third has few values
    assert not release(1).fine
    again = counts_from_bytes(made.to_bytes())
    assert [each.sigma for each in again.fine] == [each.sigma for each in made.fine]


@pytest.mark.parametrize(("mechanism", "share"), [("auto", FINE_SHARE), ("independent", FINE_SHARE_ALONE)])
def test_fine_bins_have_their_share_of_the_budget(mechanism: str, share: float) -> None:
    made = release(16, mechanism)
    costs = [measurement_cost(each.sigma) for each in made.fine]
    assert sum(costs) * gaussian_sigma(1.0, 1e-5) ** 2 == pytest.approx(share, rel=1e-3)


def test_fine_bins_that_would_be_noise_alone_are_not_asked_and_cost_nothing() -> None:
    # A cell's noise above the rows of one of 16 even bins: N and noise are public.
    few = release(16, "independent", 200)
    assert not few.fine
    assert 0.98 < spent(few) <= 1.0 + 1e-6
    assert [each.sigma for each in few.fitted] == [
        each.sigma for each in release(1, "independent", 200).fitted
    ]
    assert release(16, "independent", 400).fine


def test_cuts_at_released_quantiles_part_the_rows_evenly() -> None:
    # Issue 16, item 4: "private quantiles from one pooled noisy histogram as an option with its epsilon".
    cut = with_cuts(CountEvidence(release(16)), 8)
    income = cut.columns[1]
    assert isinstance(income, Numeric)
    assert len(income.cuts) == 7
    counts = np.bincount(Binning(cut).encode(people(), "all")[:, 1], minlength=8) / len(people())
    assert counts.max() < 0.2
    assert counts.min() > 0.06
    assert cut.model_dump() == Schema.model_validate(cut.model_dump()).model_dump()
    with pytest.raises(DataError, match="counted by fine bins"):
        with_cuts(CountEvidence(release(1)), 8)


def test_cuts_of_whole_numbers_are_whole_and_inside_their_bounds() -> None:
    # More whole numbers than fine bins, whose edges lie between them; half of all are at the upper bound.
    wide = Schema(columns=(Numeric(name="seconds", bounds=(0, 260), integer=True),))
    rng = np.random.default_rng(0)
    seconds = np.where(rng.random(4000) < 0.5, 260, rng.integers(0, 261, 4000)).astype(float)
    method = make_method(release_settings({"kind": "marginals"}), wide, None, 1)
    kept = asyncio.run(method.ask(OwnersInMemory(Table(seconds[:, None]), wide, 3)))
    (column,) = with_cuts(CountEvidence(counts_from_bytes(kept)), 8).columns
    assert isinstance(column, Numeric)
    assert len(column.cuts) >= 3
    assert all(cut.is_integer() and 0 < cut < 260 for cut in column.cuts)


def test_a_nullable_number_is_known_by_its_fine_bins_too() -> None:
    # On three stations' air (15,000 rows, epsilon 1) the interval of a mean of a nullable, skewed number was
    # +-27 of 74: its gap stood in the question, so that only the coarse bins answered. +-8 with fine ones.
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
    kept = dust[~gap]
    mean, share, spread = ask(evidence, "mean(dust); share(dust < 40); var(dust)", "rows")
    for answer, truth in ((mean, kept.mean()), (share, (~gap & (dust < 40)).mean()), (spread, kept.var())):
        assert answer.low <= truth <= answer.high
    assert mean.high - mean.low < 0.1 * kept.mean()
    assert share.high - share.low < 0.1
