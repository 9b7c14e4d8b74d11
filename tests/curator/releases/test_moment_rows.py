"""Rows of released moments (docs/decisions/022)."""

from __future__ import annotations

import asyncio
from functools import cache

import numpy as np
import pytest
from scipy.stats import gamma, norm

from audit.contracts import OwnersInMemory
from curator.releases.method import make_method
from curator.releases.moments import _before_clipping, _cut_moments, _root, _uncut, rows_of
from fedkme.errors import DataError
from fedkme.moments.discriminant import SPREAD_SHAPE
from fedkme.releases.file import StoredRelease, from_bytes
from fedkme.releases.settings import release_settings
from fedkme.tables.schema import Label, Numeric, Schema
from fedkme.tables.table import Table
from tests.curator.releases.test_methods import MIXED, method_of, rows


@cache
def stored(epsilon: float = 3.0) -> StoredRelease:
    method, schema = method_of("moments", epsilon=epsilon)
    return from_bytes(asyncio.run(method.ask(OwnersInMemory(rows(schema, 8000), schema, 3))))


def drawn() -> tuple[Table, Table]:
    return rows_of(stored()).sample(8000, 3), rows(MIXED, 8000)


def test_names_have_the_released_shares() -> None:
    synthetic, real = drawn()
    for name in range(3):
        assert (synthetic.values[:, 1] == name).mean() == pytest.approx(
            (real.values[:, 1] == name).mean(), abs=0.03
        )


def test_classes_and_columns_have_their_moments() -> None:
    synthetic, real = drawn()
    assert synthetic.labels is not None
    assert real.labels is not None
    assert synthetic.labels.mean() == pytest.approx(real.labels.mean(), abs=0.03)
    for column in (0, 2):
        for label in (0, 1):
            mine, theirs = (t.values[t.labels == label, column] for t in (synthetic, real))
            assert mine.mean() == pytest.approx(theirs.mean(), abs=0.15 * theirs.std())
            assert mine.std() == pytest.approx(theirs.std(), rel=0.4)  # shrunk to the pooled


def test_rows_of_a_class_are_spread_as_the_release_says() -> None:
    schema = Schema(
        columns=(Numeric(name="x", bounds=(-10.0, 10.0), count=40),),
        label=Label(name="kind", classes=("near", "far")),
    )
    generator = np.random.default_rng(5)
    labels = generator.integers(0, 2, 4000)
    values = np.clip((0.5 + labels[:, None]) * generator.standard_normal((4000, 40)), -10, 10)
    method = make_method(release_settings({"kind": "moments"}), schema, None, 3)
    release = asyncio.run(method.ask(OwnersInMemory(Table(values, labels), schema, 2)))
    synthetic = rows_of(from_bytes(release)).sample(2000, 1)
    deviations = [synthetic.values[synthetic.labels == label].std() for label in (0, 1)]
    assert deviations == pytest.approx([0.5, 1.5], rel=0.35)


def test_the_same_seed_draws_the_same_rows() -> None:
    law = rows_of(stored())
    assert law.sample(50, 1).digest() == law.sample(50, 1).digest()
    assert law.sample(50, 1).digest() != law.sample(50, 2).digest()


@pytest.mark.parametrize(("mean", "variance"), [(0.5, 0.02), (0.05, 0.02), (0.01, 0.005), (0.9, 0.05)])
def test_numbers_have_their_mean_and_variance_after_the_cut(mean: float, variance: float) -> None:
    middle, deviation = _uncut(np.array([mean]), np.array([variance]))
    first, second = _cut_moments(middle, deviation)
    assert float(first[0]) == pytest.approx(mean, abs=1e-5)
    assert float((second - first**2)[0]) == pytest.approx(variance, rel=1e-3)


def test_moments_of_a_cut_number_are_those_of_its_quantiles() -> None:
    grid = norm.ppf((np.arange(20_000) + 0.5) / 20_000)
    for middle, deviation in ((0.2, 0.3), (-0.5, 0.6), (1.1, 0.2)):
        cut = np.clip(middle + deviation * grid, 0, 1)
        first, second = _cut_moments(np.array([middle]), np.array([deviation]))
        assert float(first[0]) == pytest.approx(cut.mean(), abs=1e-4)
        assert float(second[0]) == pytest.approx((cut**2).mean(), abs=1e-4)


def test_another_release_has_no_such_rows() -> None:
    release = stored()
    bare = StoredRelease("moments", {}, release.schema, release.embeddings, None, None, 1e-5, 1)
    with pytest.raises(DataError, match="no moments"):
        rows_of(bare)


def test_a_schema_of_categories_alone_makes_rows() -> None:
    schema = Schema(columns=MIXED.columns[1:2], label=MIXED.label)
    generator = np.random.default_rng(0)
    table = Table(generator.integers(0, 3, (3000, 1)), generator.integers(0, 2, 3000))
    method = make_method(release_settings({"kind": "moments", "rows": 90}), schema, None, 3)
    release = asyncio.run(method.ask(OwnersInMemory(table, schema, 2)))
    assert method.finish(release, lambda *_: None).rows == 90


def test_numbers_beside_an_atom_are_those_of_the_rows_without_it() -> None:
    # Decision 019: the atom's part in a column's moments is taken off, else small gains would be made up.
    gain = Numeric(name="gain", bounds=(100, 100_000), scale="log", atoms=(0,), integer=True)
    schema = Schema(columns=(gain, Numeric(name="x", bounds=(0, 1))))
    rng = np.random.default_rng(3)
    gains = np.where(rng.random(8000) < 0.9, 0, np.rint(np.exp(rng.normal(9, 0.4, 8000)))).clip(0, 100_000)
    real = Table(np.column_stack([gains, rng.random(8000)]))
    method = make_method(release_settings({"kind": "moments", "epsilon": 3.0}), schema, None, 0)
    release = asyncio.run(method.ask(OwnersInMemory(real, schema, 3)))
    synthetic = rows_of(from_bytes(release)).sample(8000, 1).values[:, 0]
    assert (synthetic == 0).mean() == pytest.approx(0.9, abs=0.02)
    ours, theirs = (np.log(numbers[numbers > 0]) for numbers in (synthetic, gains))
    assert np.median(ours) == pytest.approx(np.median(theirs), abs=0.15)
    assert ours.std() == pytest.approx(theirs.std(), rel=0.5)


@cache
def waves() -> tuple[Table, Table]:
    """Signals of two amplitudes, beside ten numbers that are always 0; and rows made."""
    signal = Numeric(name="x", bounds=(0.0, 1.0), count=81)
    schema = Schema(columns=(signal,), label=Label(name="kind", classes=("a", "b")))
    generator = np.random.default_rng(5)
    labels = generator.integers(0, 2, 8000)
    directions = np.cos(np.outer(np.arange(6) + 1, np.arange(64)) / 6) / 20
    drawn = 0.4 + 0.2 * labels[:, None] + generator.standard_normal((8000, 6)) @ directions
    real = Table(np.concatenate([np.zeros((8000, 17)), np.clip(drawn, 0, 1)], axis=1), labels)
    method = make_method(release_settings({"kind": "moments"}), schema, None, 3)
    release = asyncio.run(method.ask(OwnersInMemory(real, schema, 2)))
    return real, rows_of(from_bytes(release)).sample(4000, 1)


def test_the_leading_variance_of_a_class_is_not_lost_to_clipping_and_floors() -> None:
    for label in (0, 1):
        real, synthetic = (np.cov(table.values[table.labels == label].T) for table in waves())
        assert np.linalg.eigvalsh(synthetic)[-1] == pytest.approx(np.linalg.eigvalsh(real)[-1], rel=0.2)


def test_a_constant_pixel_varies_by_what_noise_hides_and_no_more() -> None:
    edge = waves()[1].values[:, :17]
    assert 0 < edge.mean() < 0.03
    assert (edge.std(axis=0) > 0.03).all()  # no class is ruled out by one number above 0


@pytest.mark.parametrize("mean", [0.2, 0.9, 2.0])
def test_the_mean_before_clipping_follows_from_that_after(mean: float) -> None:
    squares = gamma(SPREAD_SHAPE, scale=mean / SPREAD_SHAPE).ppf((np.arange(20_000) + 0.5) / 20_000)
    assert _before_clipping(float(np.minimum(squares, 1).mean())) == pytest.approx(mean, rel=1e-2)


def test_a_root_has_the_trace_and_leads_where_the_covariance_does() -> None:
    covariance = np.diag([1.0, 2.0, 6.0])
    for trace, eigenvalues in ((9.0, [1, 2, 6]), (6.0, [0, 1, 5]), (3.0, [0, 0, 3]), (12.0, [2, 3, 7])):
        root = _root(covariance, trace)
        assert np.diag(root.T @ root) == pytest.approx(eigenvalues)
