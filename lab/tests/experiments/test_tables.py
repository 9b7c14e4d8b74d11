"""Measures of the table experiments, and how they run from a fresh clone."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from fedkme.tables.schema import Category, Label, Numeric, Schema
from fedkme.tables.table import Table
from lab.experiments import marginals
from lab.experiments.classifiers import NAMES, installed, models
from lab.experiments.codes import FILE, CodesEffort, pieces
from lab.experiments.paper import printed_numbers
from sim.evaluation import classifiers
from sim.scenarios.base import domain


def codes(rows: int, seed: int) -> np.ndarray:
    generator = np.random.default_rng(seed)
    first = generator.integers(0, 5, rows)
    return np.stack(
        [first, (first + generator.integers(0, 2, rows)) % 4, generator.integers(2, 4, rows)], axis=1
    )


def test_exact_marginals_are_total_variation() -> None:
    real, other = np.array([[0, 0], [0, 1], [1, 1], [1, 1]]), np.array([[0, 0], [0, 0], [1, 0], [1, 1]])
    assert marginals.exact(real, other, 2) == pytest.approx(0.5 * (0.25 + 0.25 + 0.25 + 0.25))
    assert marginals.exact(real, other, 1) == pytest.approx(0.5 * (0.0 + (0.5 + 0.5) / 2))
    assert marginals.exact(real, real[::-1], 2) == 0.0


def test_the_published_metric_is_that_of_the_papers_code() -> None:
    """Alpha + 1 columns, and numpy.histogramdd with max - min bins over each table's own range."""
    real, other = codes(500, 0), codes(300, 1)
    other = other[other[:, 0] < 4]  # an extreme code is missing: the bins do not line up
    bins = (real.max(axis=0) - real.min(axis=0)).tolist()
    p = np.histogramdd(real, bins=bins)[0] / len(real)
    q = np.histogramdd(other, bins=bins)[0] / len(other)
    assert marginals.as_published(real, other, 2) == pytest.approx(0.5 * np.abs(p - q).sum())


def test_many_cells_are_counted_as_few_are(monkeypatch: pytest.MonkeyPatch) -> None:
    real, other = codes(500, 0), codes(300, 1)
    dense = marginals.exact(real, other, 3)
    monkeypatch.setattr(marginals, "_DENSE_CELLS", 1)
    assert marginals.exact(real, other, 3) == pytest.approx(dense)


def test_classifiers_score_predicted_classes_and_chance_without_two_classes() -> None:
    schema = Schema(
        columns=(Numeric(name="x", bounds=(0, 1)), Category(name="c", categories=("a", "b"))),
        label=Label(name="y", classes=("no", "yes")),
    )
    x = np.linspace(0, 1, 60)
    table = Table(np.stack([x, x > 2], axis=1), (x > 0.5).astype(np.int64))
    scores = classifiers.evaluate(table, table, schema, models(("DT", "LDA")))
    assert scores["DT"].roc == scores["DT"].prc == scores["DT"].accuracy == 1.0
    assert classifiers.mean(scores).roc <= 1.0
    one = Table(table.values, np.zeros(60, dtype=np.int64))
    assert classifiers.evaluate(one, table, schema, models(("DT",)))["DT"].roc == 0.5
    assert set(installed()) <= set(NAMES)


def test_the_public_domain_of_adult_needs_no_rows() -> None:
    schema = domain("adult")
    assert schema.width == 14
    assert schema.classes == ("<=50K", ">50K")
    assert schema.encoded_width == 6 + 102


def test_marginals_stand_beside_the_papers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # Every method measures the same; DP-HP and its sum kernel alone are two methods.
    file = tmp_path / FILE
    file.parent.mkdir()
    np.savez(file, data=np.tile(codes(400, 0), (1, 2))[:, :5])
    monkeypatch.setenv("FEDKME_DATA", str(tmp_path))
    effort = CodesEffort(steps=3, tuples=4, seeds=1, epsilons=(0.3,))
    measured = {piece.method: list(piece.measure()) for piece in pieces(effort)}
    printed = printed_numbers("marginals")
    for method, values in measured.items():
        found = {(each.panel, method, each.x): each.value for each in values}
        assert 0 <= found["exact 0.3", method, 3] <= found["exact 0.3", method, 4] <= 1
        assert (("published 0.3", method, 4) in printed) is (method in ("merf", "hermite"))
        assert found["epsilon", method, 0.3] == pytest.approx(0.3, rel=1e-6)
