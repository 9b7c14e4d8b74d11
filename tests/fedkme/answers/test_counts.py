"""Answers from released counts: exact without noise, with a known law under noise."""

from __future__ import annotations

import asyncio
import itertools
import json
import math
from dataclasses import replace

import numpy as np
import pytest

from audit.in_memory import FreshNoise
from curator.releases.method import make_method
from fedkme.answers.answer import Answer, ask
from fedkme.answers.counts import CountEvidence
from fedkme.answers.made_rows import WeightedTable
from fedkme.errors import DataError, QuestionError
from fedkme.features.binning import Binning
from fedkme.features.counts import Clique, marginal_counts
from fedkme.privacy.noise import simulated
from fedkme.releases.counts import Measurement, StoredCounts, counts_from_bytes
from fedkme.releases.settings import release_settings
from fedkme.tables.npz import npz_arrays, npz_bytes
from fedkme.tables.schema import Schema, schema_from
from fedkme.tables.table import Table
from tests.fedkme.answers.people import ROWS, people, released, schema

BINS = 16
AGE, INCOME, VISITS, SEX, REGION, ILL = range(6)
TABLE = people()
CODES = Binning(schema(), BINS).encode(TABLE, "all")
VALUES = {**dict(zip(schema().names, TABLE.values.T, strict=True)), "ill": TABLE.labels}


def counted(cliques: dict[Clique, float], seed: int | None = None) -> CountEvidence:
    """Evidence from tables of counts with the deviations as stated; without a seed no noise is drawn."""
    sizes, measured = Binning(schema(), BINS).sizes, []
    for clique, sigma in cliques.items():
        values = marginal_counts(CODES, clique, sizes).astype(float)
        if seed is not None:
            values += simulated(seed, "curator", str(clique)).gaussian(sigma, values.size)
        measured.append(Measurement(clique, values, sigma))
    settings = {"bins": BINS}
    return CountEvidence(StoredCounts(schema(), settings, "rounds", ROWS, 5, tuple(measured), (), {}, {}))


def single_answer(evidence: CountEvidence, question: str) -> Answer:
    (answer,) = ask(evidence, question)
    return answer


def test_counts_without_noise_give_the_answers_of_the_rows() -> None:
    pairs: dict[Clique, float] = dict.fromkeys(itertools.combinations(range(6), 2), 1e-9)
    evidence = counted(pairs)
    old, ill = VALUES["age"] > 60, VALUES["ill"] == 1
    female = VALUES["sex"] == 0
    visits = VALUES["visits"]
    expected = {
        "count()": ROWS,
        "count(ill = 'yes')": ill.sum(),
        "share(ill = 'yes') where sex = 'female'": ill[female].mean(),
        "sum(visits) where sex = 'female'": visits[female].sum(),
        "mean(visits)": visits.mean(),
        "var(visits) where sex != 'male'": visits[female].var(),
        "quantile(visits, 0.9)": np.quantile(visits, 0.9),
        "share(visits in (1, 2) or not sex = 'male')": (np.isin(visits, (1, 2)) | female).mean(),
        "share(age >= 18)": 1.0,
    }
    for question, value in expected.items():
        answer = single_answer(evidence, question)
        assert answer.estimate == pytest.approx(value, rel=1e-6), question
        assert answer.unseen == pytest.approx(0.0, abs=1e-9)
    # Bins hide the places of numbers in them: the interval includes that, as `unseen`.
    for question, value in {
        "mean(age) by sex": VALUES["age"][female].mean(),
        "share(ill = 'yes' and age > 60)": (old & ill).mean(),
        "corr(age, visits)": np.corrcoef(VALUES["age"], visits)[0, 1],
        "mean(income)": VALUES["income"].mean(),
        "median(income)": np.median(VALUES["income"]),
    }.items():
        answer, *_ = ask(evidence, question)
        assert answer.low < value < answer.high, question
        assert answer.unseen > 0


def test_the_noise_of_an_answer_is_that_of_the_best_linear_estimate() -> None:
    # By hand: sex is in a table of its own and in one with the label; the second is summed over the label,
    # and both are averaged.
    evidence = counted({(SEX,): 10.0, (SEX, ILL): 20.0}, seed=4)
    count = single_answer(evidence, "count(sex = 'male')")
    # Of +-1/2 on two cells: variance sigma^2 / 2 each, the second table summed over two classes.
    precision = 1 / (10.0**2 / 2) + 1 / (20.0**2 * 2 / 2)
    assert count.noise == pytest.approx(math.sqrt(1 / precision))
    assert count.sampling == 0
    assert count.high - count.low == pytest.approx(2 * 1.959964 * count.noise, rel=1e-4)
    share = single_answer(evidence, "share(sex = 'male')")
    assert share.sampling == pytest.approx(math.sqrt(0.4 * 0.6 / ROWS), rel=0.02)
    (rows,) = ask(evidence, "share(sex = 'male')", target="rows")
    assert (rows.sampling, rows.target, share.target) == (0.0, "rows", "population")


def test_columns_not_counted_together_have_no_interval() -> None:
    evidence = counted({(SEX,): 5.0, (ILL,): 5.0, (AGE,): 5.0})
    answer = single_answer(evidence, "share(ill = 'yes' and sex = 'male')")
    assert math.isnan(answer.estimate)
    assert math.isnan(answer.low)
    assert "not in the span of what was released: sex and ill were not counted together" in answer.method
    (by_rows,) = ask(evidence, answer.question, synthetic=lambda: WeightedTable(TABLE))
    truth = ((VALUES["ill"] == 1) & (VALUES["sex"] == 1)).mean()
    assert by_rows.estimate == pytest.approx(truth)
    assert math.isnan(by_rows.high)
    # Weights may be negative, as those of balog1 are; a share must not be.
    weights = np.where((VALUES["ill"] == 1) & (VALUES["sex"] == 1), -1.0, 1.0)
    (less,) = ask(evidence, answer.question, synthetic=lambda: WeightedTable(TABLE, weights / weights.sum()))
    assert less.estimate == 0.0
    # A question about one column needs no table of both.
    assert not math.isnan(single_answer(evidence, "count(sex = 'male')").low)


def test_a_group_that_may_be_empty_has_no_interval_or_a_wide_one() -> None:
    evidence = counted({(AGE, REGION): 4000.0}, seed=1)
    answers = ask(evidence, 'mean(age) by "home region"')
    assert all(math.isnan(a.low) or (a.low, a.high) == (18.0, 97.0) or a.low < a.high for a in answers)
    assert any("noise hides whether any row is in this group" in a.method or a.high == 97.0 for a in answers)


def test_a_question_of_too_many_cells_is_refused() -> None:
    wide = replace(counted({(SEX,): 1.0})._release, settings={"bins": 4096})
    with pytest.raises(QuestionError, match="cells together"):
        ask(CountEvidence(replace(wide, fitted=())), "share(age > 20 and income > 3 and visits > 1)")


@pytest.mark.parametrize("mechanism", ["rounds", "independent"])
def test_a_stored_release_answers_questions(mechanism: str) -> None:
    evidence = CountEvidence(counts_from_bytes(released(kind="marginals", mechanism=mechanism)))
    share = single_answer(evidence, "share(ill = 'yes')")
    assert abs(share.estimate - VALUES["ill"].mean()) < 5 * share.noise
    pair = single_answer(evidence, "share(ill = 'yes' and \"home region\" = 'b')")
    assert math.isnan(pair.low) == (
        mechanism == "independent"
    )  # rounds also store pairs that are not in the model


def test_a_release_of_an_earlier_version_is_refused() -> None:
    arrays = npz_arrays(counted({(SEX,): 1.0})._release.to_bytes(), "the release")
    about = json.loads(arrays["about"].tobytes())
    about["sigmas"] = about.pop("deviations")
    arrays["about"] = np.frombuffer(json.dumps(about).encode(), np.uint8)
    with pytest.raises(DataError, match="made by an earlier version, which did not write down the noise"):
        counts_from_bytes(npz_bytes(arrays))


def with_gaps() -> tuple[Schema, Table]:
    """Patients whose weight is sometimes unknown, more often for the old."""
    columns = [
        {"name": "age", "kind": "numeric", "bounds": [0, 100], "integer": True},
        {"name": "weight", "kind": "numeric", "bounds": [30, 190], "nullable": True},
        {"name": "sex", "kind": "category", "categories": ["f", "m"]},
    ]
    own = schema_from({"columns": columns})
    rng = np.random.default_rng(5)
    age, weight = np.rint(rng.normal(50, 12, ROWS)).clip(0, 100), rng.normal(75, 12, ROWS).clip(30, 190)
    gap = rng.random(ROWS) < age / 400
    values = np.column_stack([age, np.where(gap, 110.0, weight), gap, rng.integers(0, 2, ROWS)])
    return own, Table(values, None)


def test_a_number_and_its_gap_need_not_be_counted_together() -> None:
    # A number and its gap are often not in one table.
    own, table = with_gaps()
    present = table.values[:, 2] == 0
    weight, male = table.values[present, 1], table.values[present, 3] == 1
    questions = {
        "mean(weight)": weight.mean(),
        "share(weight < 70)": (weight < 70).sum() / ROWS,
        "median(weight)": np.median(weight),
        "mean(weight) where sex = 'm'": weight[male].mean(),
    }
    binning = Binning(own, 32)
    codes = binning.encode(table, "all")

    def answer_from(cliques: list[Clique], question: str) -> Answer:
        counts = [marginal_counts(codes, clique, binning.sizes).astype(float) for clique in cliques]
        measured = tuple(Measurement(c, v, 3.0) for c, v in zip(cliques, counts, strict=True))
        release = StoredCounts(own, {"bins": 32}, "rounds", ROWS, 3, measured, (), {}, {})
        return single_answer(CountEvidence(release), question)

    apart: list[Clique] = [(0,), (1, 3), (2, 3)]  # weight and its gap, each with sex, never together
    for question, truth in questions.items():
        together, separate = answer_from([(1, 2, 3)], question), answer_from(apart, question)
        assert together.low <= truth <= together.high
        assert separate.low <= truth <= separate.high, question
        assert separate.estimate == pytest.approx(truth, rel=0.03)
    assert math.isnan(
        answer_from(apart, "mean(age) where weight_missing = 'yes'").low
    )  # age is in no such table


def test_answers_use_atoms_scales_and_cuts() -> None:
    # Rows at an atom are counted exactly, and bins may have different widths.
    keys = {"bounds": [1, 100_000], "scale": "log", "atoms": [0], "decimals": 2}
    columns = [
        {"name": "gain", "kind": "numeric", **keys},
        {"name": "wait", "kind": "numeric", "bounds": [0, 500], "integer": True, "cuts": [5, 20, 60]},
    ]
    own, rng = schema_from({"columns": columns}), np.random.default_rng(7)
    gain = np.where(rng.random(ROWS) < 0.8, 0.0, np.exp(rng.normal(8, 1, ROWS)).clip(1, 99_999).round(2))
    wait = np.floor(rng.exponential(20, ROWS)).clip(0, 500)
    binning = Binning(own, 24)
    codes = binning.encode(Table(np.column_stack([gain, wait])), "all")
    counts = [marginal_counts(codes, (column,), binning.sizes).astype(float) for column in (0, 1)]
    measured = tuple(Measurement((column,), counts[column], 1e-9) for column in (0, 1))
    evidence = CountEvidence(StoredCounts(own, {"bins": 24}, "rounds", ROWS, 3, measured, (), {}, {}))

    for question, truth in {
        "share(gain = 0)": (gain == 0).mean(),
        "share(gain > 0)": (gain > 0).mean(),
        "share(wait < 20)": (wait < 20).mean(),
        "median(gain)": 0.0,
    }.items():
        answer = single_answer(evidence, question)
        assert answer.estimate == pytest.approx(truth), question
        assert answer.unseen == pytest.approx(0, abs=1e-9), question
    mean = single_answer(evidence, "mean(gain)")
    assert mean.low < gain.mean() < mean.high
    assert mean.estimate == pytest.approx(gain.mean(), rel=0.03)
    groups = [answer.group for answer in ask(evidence, "histogram(wait)")]
    assert groups == ["wait 0 to 4", "wait 5 to 19", "wait 20 to 59", "wait 60 to 500"]
    first, *others = ask(evidence, "histogram(gain, 5)")
    assert (first.group, others[0].group) == ("gain = 0", "gain [1, 11.6036)")
    assert first.estimate + sum(each.estimate for each in others) == pytest.approx(1)


def test_a_mean_that_noise_hides_has_no_estimate_without_a_made_row() -> None:
    # Once, the estimate was an end of the range.
    evidence = counted({(AGE, REGION): 4000.0}, seed=1)
    elsewhere = WeightedTable(TABLE.take(np.flatnonzero(VALUES["home region"] == 0)))
    answers = ask(evidence, 'mean(age) by "home region"', synthetic=lambda: elsewhere)
    hidden = [answer for answer in answers if (answer.low, answer.high) == (18.0, 97.0)]
    assert any("nor do the synthetic rows" in answer.method for answer in hidden)
    for answer in answers:
        have_none = "nor do the synthetic rows" in answer.method or "have none, either" in answer.method
        assert math.isnan(answer.estimate) == have_none


def test_a_quantile_of_nobody_is_no_number() -> None:
    # Once, the answer was the least age, 18 to 18: the share of nobody reaches every level at once.
    rows = WeightedTable(people(500, 3))
    evidence = CountEvidence(counts_from_bytes(released(kind="marginals")))
    for question in ("median(age) where age > 97", "quantile(income, 0.1) where visits < 0"):
        (answer,) = ask(evidence, question, synthetic=lambda: rows)
        assert math.isnan(answer.estimate)
        assert math.isnan(answer.low)
        assert "noise hides whether any row is in this group" in answer.method


def test_answers_do_not_depend_on_what_was_asked_before() -> None:
    # What questions share is computed once for a release; no bit of an answer may change by that.
    gappy = schema_from(
        {
            "columns": [
                {"kind": "numeric", "name": name, "bounds": [-5, 5], "nullable": True} for name in "xyz"
            ]
        }
    )
    random = np.random.default_rng(4)
    values = np.clip(random.normal(size=(3000, 3)) @ np.array([[1, 0.5, 0], [0, 1, 1], [1, 0, 1]]), -5, 5)
    gaps = random.random((3000, 3)) < [0.1, 0.4, 0.6]
    filled = np.where(gaps, [float(number.missing or 0) for _, number in gappy.gaps], values)
    rows = Table(np.column_stack([part for pair in zip(filled.T, gaps.T, strict=True) for part in pair]))
    method = make_method(
        release_settings({"kind": "marginals", "epsilon": 8, "iterations": 5}), gappy, None, 1
    )
    release = counts_from_bytes(asyncio.run(method.ask(FreshNoise(rows, gappy, 7))))
    questions = [
        "corr(x, y)",
        "mean(z)",
        "corr(y, z)",
        "var(y)",
        "mean(x) where y > 0",
        "corr(y, z)",
        "mean(z)",
    ]
    evidence = CountEvidence(release)
    for question in questions:
        assert repr(ask(evidence, question)) == repr(ask(CountEvidence(release), question))
