"""Continuous labels: a label as one more numeric column, and regressors trained on synthetic rows.

The embedding has one column and no classes (curator.releases.methods.merf: the Gaussian kernel of (x, y) is
the product of those of x and of y). Figure: root mean squared error on real held-out rows of regressors
trained on synthetic rows, on real ones, and of the constant that real training rows have as their mean.
The papers print no such figure.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from fedkme.config import Settings
from fedkme.tables.files import load_table
from fedkme.tables.schema import Category, Numeric, Schema
from fedkme.tables.table import Table
from sim.experiments.classifiers import columns
from sim.experiments.domains import domain
from sim.experiments.synthesis import Choice, Method, rkhs_distance, synthesise
from sim.papers.curves import CurveValue
from sim.papers.piece import Piece, data_folder

EPSILON = 1.0
TEST_SHARE = 0.2
NAMES = ("Ridge", "RF", "GBM", "kNN", "MLP")


@dataclass(frozen=True)
class RegressionData:
    """A data set with a continuous label.

    Attributes:
        file: in the data folder.
        schema: of its rows, the label among them.
        label: name of its column.
        choice: settings of the releases.
    """

    file: str
    schema: Schema
    label: str
    choice: Choice


class RegressionEffort(Settings):
    """Size of an experiment: how much work it is."""

    steps: int = 800
    """Steps of training."""
    rows: int = 6000
    """Synthetic rows."""
    names: tuple[str, ...] = NAMES
    """Regressors."""
    seeds: int = 5
    """Seeds of the releases and of the split."""


QUICK = RegressionEffort(steps=200, rows=2000, names=("Ridge", "RF"), seeds=1)
OWNERS = 5


def _wine() -> RegressionData:
    scales = {"chlorides": 2.0, "quality": 4.0}
    choice = Choice(gamma=2.0, joint=True, scales=scales, hermite={"epochs": 12, "product_columns": 2})
    return RegressionData("wine_quality.parquet", domain("wine"), "quality", choice)


def _student() -> RegressionData:
    schema = domain("student")
    named = [column.name for column in schema.columns if isinstance(column, Category)]
    scales = {"G1": 2.0, "G2": 2.0, "G3": 2.0, **dict.fromkeys(named, 0.3)}
    choice = Choice(
        features=500, gamma=0.5, joint=True, scales=scales, hermite={"epochs": 10, "product_columns": 2}
    )
    return RegressionData("student_performance.parquet", schema, "G3", choice)


TARGETS: Mapping[str, Callable[[], RegressionData]] = {"wine": _wine, "student": _student}


class RegressionPiece(Piece):
    """Errors on held-out rows of regressors trained on the rows of one release, or on real ones."""

    data: str
    method: Method | Literal["real"]
    effort: RegressionEffort

    def measure(self) -> Iterator[CurveValue]:
        """Yield the RMSE of each regressor, their mean, and that of the constant."""
        target = TARGETS[self.data]()
        table = load_table(data_folder() / target.file, target.schema, self.data)
        for name, value in score(target, table, self.effort, self.method, self.seed).items():
            panel, place = (name, "mean") if name in ("distance", "epsilon") else ("rmse", name)
            yield CurveValue(panel, self.method, place, self.seed, value)


def pieces(data: str, methods: Sequence[Method], effort: RegressionEffort) -> Iterator[RegressionPiece]:
    """Pieces of a data set: real rows and each method, under every seed."""
    for seed in range(effort.seeds):
        yield RegressionPiece(data=data, method="real", effort=effort, seed=seed)
        yield from (RegressionPiece(data=data, method=m, effort=effort, seed=seed) for m in methods)


def score(
    target: RegressionData, table: Table, size: RegressionEffort, method: Method | Literal["real"], seed: int
) -> dict[str, float]:
    """RMSE on held-out rows of each regressor, their mean, and that of the constant."""
    order = np.random.default_rng(np.random.SeedSequence([seed, 5])).permutation(len(table))
    test, training = np.split(order, [round(TEST_SHARE * len(table))])
    owners = [table.take(part) for part in np.array_split(training, OWNERS)]
    if method == "real":
        synthetic, paid = table.take(training), float("inf")
    else:
        synthetic, paid = synthesise(
            method, target.schema, owners, len(training), EPSILON, seed, size.steps, size.rows,
            target.choice,
        )  # fmt: skip
    train_x, train_y = _parted(target, synthetic)
    test_x, test_y = _parted(target, table.take(test))
    found = {name: _error(name, train_x, train_y, test_x, test_y, seed) for name in size.names}
    constant = float(np.sqrt(np.square(test_y - _parted(target, table.take(training))[1].mean()).mean()))
    return {
        "mean": float(np.mean(list(found.values()))),
        **found,
        "constant": constant,
        "distance": rkhs_distance(owners, synthetic, target.schema, seed),
        "epsilon": paid,
    }


def _parted(target: RegressionData, table: Table) -> tuple[Any, Any]:
    """Part a table into what regressors see, and the label in its own units."""
    place = target.schema.names.index(target.label)
    seen = columns(table, target.schema, [c.name for c in target.schema.columns if isinstance(c, Category)])
    numbers = [c.name for c in target.schema.columns if isinstance(c, Numeric)]
    kept = np.delete(seen, numbers.index(target.label), axis=1)  # numbers come first in both schemas
    return kept, np.asarray(table.values[:, place], dtype=np.float64)


def _error(name: str, train_x: Any, train_y: Any, test_x: Any, test_y: Any, seed: int) -> float:
    model = _make(name, seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # convergence, on data that nobody chose
        model.fit(train_x, train_y)
    return float(np.sqrt(np.square(model.predict(test_x) - test_y).mean()))


def _make(name: str, seed: int) -> Any:
    from sklearn import ensemble, linear_model, neighbors, neural_network

    makers: Mapping[str, Callable[[], Any]] = {
        "Ridge": lambda: linear_model.Ridge(1.0),
        "RF": lambda: ensemble.RandomForestRegressor(min_samples_leaf=5, random_state=seed),
        "GBM": lambda: ensemble.GradientBoostingRegressor(random_state=seed),
        "kNN": lambda: neighbors.KNeighborsRegressor(20),
        "MLP": lambda: neural_network.MLPRegressor(early_stopping=True, max_iter=500, random_state=seed),
    }
    return makers[name]()
