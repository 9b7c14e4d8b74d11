"""Rows that have what tables outside of the model say, and numbers that follow categories within a bin."""

from __future__ import annotations

import numpy as np
import pytest

from curator.releases.marginals.coupling import coupling_of
from curator.releases.marginals.descent import fit
from curator.releases.marginals.model import Model, systematic
from fedkme.arrays import FloatArray, IntArray
from fedkme.features.binning import Binning, finer
from fedkme.features.counts import Clique, marginal_counts
from fedkme.releases.counts import Measurement, StoredCounts
from fedkme.tables.schema import Category, Numeric, Schema
from fedkme.tables.table import Table

ROWS = 20_000
SCHEMA = Schema(
    columns=(
        Numeric(name="age", bounds=(0.0, 80.0)),
        Category(name="stage", categories=("child", "adult", "old")),
        Category(name="job", categories=tuple("abcde")),
        Category(name="town", categories=tuple("vwxyz")),
    )
)
BINNING = Binning(SCHEMA, 4)
SETTINGS = {"kind": "marginals", "epsilon": 1.0, "delta": 1e-5, "bins": 4, "fine": 64}


def rows(seed: int = 0) -> Table:
    """Stages have ends at ages within a bin; job and town go together, the others do not."""
    random = np.random.default_rng(seed)
    age = random.uniform(0.0, 80.0, ROWS)
    job = random.integers(0, 5, ROWS)
    town = np.where(random.random(ROWS) < 0.4, job, random.integers(0, 5, ROWS))
    return Table(np.stack([age, np.digitize(age, [28.0, 53.0]), job, town], axis=1).astype(np.float64))


def measured(codes: IntArray, binning: Binning, clique: Clique, sigma: float) -> Measurement:
    counts = marginal_counts(codes, clique, binning.sizes)
    noise = np.random.default_rng(sum(clique)).normal(0.0, sigma, counts.size)
    return Measurement(clique, counts + noise, sigma)


def stored(*others: Measurement) -> StoredCounts:
    fine_bins = finer(BINNING, 64)
    fine, codes = (each.encode(rows(), "owner") for each in (fine_bins, BINNING))
    fitted = [measured(codes, BINNING, clique, 20.0) for clique in ((0,), (1,), (2,), (3,), (0, 1))]
    ages = (measured(fine, fine_bins, (0,), 20.0),)
    return StoredCounts(SCHEMA, SETTINGS, "rounds", ROWS, 2, tuple(fitted), others, {}, {}, ages)


def drawn(release: StoredCounts) -> tuple[Model, IntArray, IntArray]:
    """The model, rows of its codes, and their ages by fine bins."""
    model = fit(BINNING.sizes, release.fitted, ROWS, 200)
    coupling, random = coupling_of(release, model), np.random.default_rng(1)
    assert coupling is not None
    codes = model.sample(ROWS, random, coupling)
    return model, codes, coupling.fine_codes(codes, random)[0]


def off(one: FloatArray, two: FloatArray) -> float:
    """Total variation."""
    return 0.5 * float(np.abs(one / one.sum() - two / two.sum()).sum())


def outside(sigma: float) -> Measurement:
    """Table of job and town, which no table of the model holds."""
    return measured(BINNING.encode(rows(), "owner"), BINNING, (2, 3), sigma)


def test_rows_have_a_table_that_the_model_does_not_hold_and_keep_the_models_tables() -> None:
    release = stored(outside(60.0))
    model, codes, _ = drawn(release)
    real = marginal_counts(BINNING.encode(rows(), "owner"), (2, 3), BINNING.sizes).astype(np.float64)
    assert off(real, np.ones(25)) > 0.3
    assert off(real, marginal_counts(codes, (2, 3), BINNING.sizes).astype(np.float64)) < 0.03
    for clique in ((2,), (3,), (0, 1)):
        counts = marginal_counts(codes, clique, BINNING.sizes) / ROWS
        assert off(counts, model.probabilities(clique).ravel()) < 0.003


def test_a_table_of_mere_noise_changes_no_row() -> None:
    noise = Measurement((2, 3), np.random.default_rng(5).normal(ROWS / 25, 3000.0, 25), 3000.0)
    one, two = (drawn(stored(*others))[1] for others in ((), (noise,)))
    assert (one == two).all()


def test_numbers_follow_categories_within_a_bin() -> None:
    release = stored(outside(60.0))
    _, codes, fine = drawn(release)
    ages = release.finer.numbers(0, fine, np.random.default_rng(3))
    assert (release.finer.within(0, release.binning)[fine] == codes[:, 0]).all()
    inside = (ages >= 20.0) & (ages < 40.0)
    children, adults = (ages[inside & (codes[:, 1] == stage)].mean() for stage in (0, 1))
    assert adults - children > 4.0  # of 10; none where ages are drawn apart


@pytest.mark.parametrize("seed", range(20))
def test_rows_of_a_parent_have_its_codes_as_often_as_whole_numbers_can(seed: int) -> None:
    # The draw went through the codes one by one: 1,024 fine bins took 70 times as long as a search.
    random = np.random.default_rng(seed)
    parents, codes, rows = random.integers(1, (300, 40, 3_000))
    joint = random.gamma(0.2, size=(parents, codes)) * (random.random((parents, codes)) < 0.6)
    joint[:, 0] += joint.sum(axis=1) == 0
    parent, key = random.integers(0, parents, rows), random.normal(size=rows)
    levels = np.array([0.0, 1.0 - 1e-16])[random.integers(0, 2, parents)]  # the ends of what may be drawn
    drawn = systematic(joint, parent, key, levels)
    assert (joint[parent, drawn] > 0.0).all()
    counts = np.zeros(joint.shape)
    np.add.at(counts, (parent, drawn), 1.0)
    wanted = joint / joint.sum(axis=1, keepdims=True) * np.bincount(parent, minlength=parents)[:, None]
    assert np.abs(counts - wanted).max() < 1.0 + 1e-6


def test_the_last_fit_soon_has_strong_dependences() -> None:
    # From even tables 1,000 steps left .01 of rank correlations of .9 among 200,000 rows behind.
    random = np.random.default_rng(0)
    z = random.normal(size=(200_000, 1)) + 0.2 * random.normal(size=(200_000, 3))
    codes = np.stack(
        [np.searchsorted(np.quantile(each, np.arange(1, 16) / 16), each) for each in z.T], axis=1
    )
    sizes, tables = (16, 16, 16), list[Measurement]()
    for clique in ((0,), (1,), (2,), (0, 1), (1, 2)):
        tables.append(Measurement(clique, marginal_counts(codes, clique, sizes).astype(float), 100.0))
    model = fit(sizes, tables, len(codes), 50, orders={c: range(16) for c in range(3)})
    off = [
        np.abs(model.probabilities(c) - tables[3 + i].values.reshape(16, 16) / 200_000).sum() / 2
        for i, c in enumerate(((0, 1), (1, 2)))
    ]
    assert max(off) < 0.03
