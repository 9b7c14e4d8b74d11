"""Classes of a labelled D_v: the kernel of rows with classes, forms of a summary, distances of shares."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from consumer.summary.forms import make_forms
from consumer.summary.judging import classes_apart
from consumer.summary.verdict import CHANCE, MIXED
from fedkme.embeddings.kernels import rbf
from fedkme.embeddings.mmd import ReferenceRows
from fedkme.embeddings.prune import prune
from fedkme.embeddings.summary_weights import ALIKE, STRANGE, beside_classes
from fedkme.tables.schema import Label, Numeric, Schema
from fedkme.tables.table import Table

SCHEMA = Schema(
    columns=(Numeric(name="a", bounds=(0.0, 1.0), count=2),), label=Label(name="ill", classes=("no", "yes"))
)
GAMMA, P = 2.0, 40


def drawn(rng: np.random.Generator, rows: int, ill: float) -> Table:
    """Rows whose columns hardly say whether a row is ill."""
    labels = (rng.random(rows) < ill).astype(np.int64)
    return Table(np.clip(rng.random((rows, 2)) + 0.05 * labels[:, None], 0.0, 1.0), labels)


def share(labels: NDArray[np.int64] | None, weights: NDArray[np.float64] | None = None) -> float:
    assert labels is not None
    return float(np.average(labels, weights=weights))


def test_the_kernel_is_smaller_between_different_classes() -> None:
    rng = np.random.default_rng(0)
    came, theirs = drawn(rng, 30, 0.5), drawn(rng, 20, 0.5)
    x, y = SCHEMA.encode(came.values), SCHEMA.encode(theirs.values)
    rows, seen = beside_classes(x, ReferenceRows(y, GAMMA), came.labels, theirs.labels)
    assert came.labels is not None
    assert theirs.labels is not None
    differ = came.labels[:, None] != theirs.labels
    assert rbf(rows, seen.rows, seen.gamma) == pytest.approx(rbf(x, y, GAMMA) * ALIKE**differ, abs=1e-6)
    ill = np.ones(20, np.int64)
    rows, seen = beside_classes(x, ReferenceRows(y, GAMMA), came.labels, ill)
    differ = came.labels[:, None] != ill
    assert rbf(rows, seen.rows, seen.gamma) == pytest.approx(rbf(x, y, GAMMA) * STRANGE**differ, abs=1e-6)


def test_a_d_v_of_one_class_is_matched_by_rows_of_it() -> None:
    # A D_v of 200 cases of fraud, p 20: a tenth of the weight was on other rows.
    rng = np.random.default_rng(4)
    came, validation = drawn(rng, 80, 0.5), drawn(rng, 200, 1.0)
    against = ReferenceRows(SCHEMA.encode(validation.values), GAMMA)
    forms = make_forms(SCHEMA, came, came.take(np.arange(P)), against, P, validation.labels)
    apart = classes_apart(forms.weighted.labels, forms.fit.weights, validation.labels, P)
    assert apart is not None
    assert apart < MIXED * CHANCE
    assert share(forms.repeats.labels) > 0.95


def test_rows_stay_as_they_are_where_one_side_has_no_labels() -> None:
    rows, validation = np.ones((3, 2)), ReferenceRows(np.ones((2, 2)), GAMMA)
    for labels, theirs in ((None, np.zeros(2, np.int64)), (np.zeros(3, np.int64), None)):
        assert beside_classes(rows, validation, labels, theirs) == (rows, validation)


@pytest.mark.parametrize("seed", range(3))
def test_forms_have_the_classes_of_d_v(seed: int) -> None:
    # By columns alone weights and pruning kept the pool's classes: half of the rows are ill, and .9 of D_v.
    rng = np.random.default_rng(seed)
    came, validation = drawn(rng, 160, 0.5), drawn(rng, 200, 0.9)
    against = ReferenceRows(SCHEMA.encode(validation.values), GAMMA)
    rows, seen = beside_classes(SCHEMA.encode(came.values), against, came.labels, validation.labels)
    pruned = came.take(prune(rows, seen.rows, P, GAMMA))
    blind = make_forms(SCHEMA, came, pruned, against, P)
    forms = make_forms(SCHEMA, came, pruned, against, P, validation.labels)
    wanted = share(validation.labels)
    assert share(blind.weighted.labels, blind.fit.weights) < wanted - 0.1
    assert share(forms.weighted.labels, forms.fit.weights) == pytest.approx(wanted, abs=0.02)
    assert share(forms.repeats.labels) == pytest.approx(wanted, abs=0.05)
    assert share(pruned.labels) == pytest.approx(wanted, abs=0.05)
    blind_mmd2, mmd2 = (
        against.mmd2(SCHEMA.encode(of.weighted.values), of.fit.weights) for of in (blind, forms)
    )
    assert mmd2 < blind_mmd2 + 0.2 * (1.0 - against.own) / P  # the columns are nearly as near


def test_class_shares_of_fresh_rows_are_good_but_for_one_in_a_hundred() -> None:
    # Over pairs of draws the mean is 1, and 1.2 % exceed MIXED * CHANCE, as for chi^2 of one degree.
    random = np.random.default_rng(3)
    draws = (random.random((2, 2000, 100)) < 0.3).astype(np.int64)
    apart = np.array([classes_apart(a, None, b, 100) for a, b in zip(*draws, strict=True)])
    assert abs(apart.mean() - 1) < 0.15
    assert (apart > MIXED * CHANCE).mean() < 0.02
