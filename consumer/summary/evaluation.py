"""Quality of a summary, computed on the consumer's own machine from its own validation and test rows.

**Network** of Sarpatwar 2019, Appendix G: one hidden layer of 32 units, dropout of 0.2.

The paper leaves the rest open; we chose rectified units, softmax with cross-entropy, dropout of hidden units
(Srivastava et al. 2014; the other units are scaled by 1 / (1 - rate), so that predicting needs no change),
and Adam (Kingma & Ba 2015) at its published decay rates. scikit-learn's networks have no dropout.
"""

from __future__ import annotations

import importlib.util
import math
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from fedkme.arrays import FloatArray, Rows
from fedkme.embeddings.mmd import ReferenceRows
from fedkme.errors import MissingDependencyError
from fedkme.tables.schema import Schema
from fedkme.tables.table import Table

STEPS = 400
"""Steps of Adam, for any number of rows."""
BATCH = 128
"""Rows per step; all rows if there are no more."""
_RATE, _FIRST, _SECOND, _TINY = 0.01, 0.9, 0.999, 1e-8
_DECAY = 1e-4
"""Penalty on squared weights, as scikit-learn's `alpha`."""


class DropoutNetwork:
    """A classifier with one hidden layer and scikit-learn's interface."""

    def __init__(self, hidden: int = 32, dropout: float = 0.2, seed: int = 0) -> None:
        """Prepare to train.

        Args:
            hidden: number of hidden units.
            dropout: probability that a row's step leaves out a hidden unit, in [0, 1).
            seed: seed of initial weights, batches and dropout.
        """
        self._hidden = hidden
        self._dropout = dropout
        self._seed = seed
        self._classes: Labels = np.zeros(0, dtype=np.int64)
        self._parameters: FloatArray = np.zeros(0)

    def fit(self, rows: Rows, labels: Labels, sample_weight: FloatArray | None = None) -> Self:
        """Train on rows, (m, n), with classes, (m,), and weights >= 0, (m,), by default equal."""
        random = np.random.default_rng(self._seed)
        self._classes, indices = np.unique(labels, return_inverse=True)
        goals = np.eye(len(self._classes))[indices]
        weights = np.ones(len(rows)) if sample_weight is None else np.asarray(sample_weight, dtype=np.float64)
        weights = weights / weights.mean()
        inputs = rows.astype(np.float64)
        self._parameters = self._start(inputs.shape[1], random)
        adam = _Adam(self._parameters)
        for batch in _batches(len(rows), random):
            adam.step(self._gradient(inputs[batch], goals[batch], weights[batch], random))
        return self

    def predict(self, rows: Rows) -> Labels:
        """Class of each row, (m,)."""
        first, bias, second, offset = self._layers(self._parameters, rows.shape[1])
        active = np.maximum(rows.astype(np.float64) @ first + bias, 0.0)
        predicted: Labels = self._classes[(active @ second + offset).argmax(axis=1)]
        return predicted

    def score(self, rows: Rows, labels: Labels) -> float:
        """Share of rows whose class is predicted correctly."""
        return float(np.mean(self.predict(rows) == labels))

    def _start(self, width: int, random: np.random.Generator) -> FloatArray:
        """Initial weights (Glorot & Bengio 2010) and biases of 0, in one vector."""
        parameters = np.zeros((width + 1) * self._hidden + (self._hidden + 1) * len(self._classes))
        for weights in self._layers(parameters, width)[::2]:
            weights[:] = random.uniform(-1.0, 1.0, weights.shape) * math.sqrt(6.0 / sum(weights.shape))
        return parameters

    def _layers(
        self, vector: FloatArray, width: int
    ) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
        """Weights and biases of both layers: views of a vector."""
        hidden, classes = self._hidden, len(self._classes)
        first, bias, second, offset = np.split(vector, np.cumsum([width * hidden, hidden, hidden * classes]))
        return first.reshape(width, hidden), bias, second.reshape(hidden, classes), offset

    def _gradient(
        self, rows: FloatArray, goals: FloatArray, weights: FloatArray, random: np.random.Generator
    ) -> FloatArray:
        """Gradient of a batch's weighted mean cross-entropy plus the penalty on weights, in one vector."""
        first, bias, second, offset = self._layers(self._parameters, rows.shape[1])
        mask = (random.random((len(rows), self._hidden)) >= self._dropout) / (1.0 - self._dropout)
        active = np.maximum(rows @ first + bias, 0.0) * mask
        scores = active @ second + offset
        chances = np.exp(scores - scores.max(axis=1, keepdims=True))
        chances /= chances.sum(axis=1, keepdims=True)
        outer = (chances - goals) * (weights / len(rows))[:, np.newaxis]
        inner = (outer @ second.T) * mask * (active > 0.0)
        down, up = rows.T @ inner + _DECAY * first, active.T @ outer + _DECAY * second
        return np.concatenate([down.ravel(), inner.sum(axis=0), up.ravel(), outer.sum(axis=0)])


class _Adam:
    """Adam over parameters in one vector, which it changes in place."""

    def __init__(self, parameters: FloatArray) -> None:
        self._parameters = parameters
        self._mean = np.zeros_like(parameters)
        self._square = np.zeros_like(parameters)
        self._steps = 0

    def step(self, gradient: FloatArray) -> None:
        """Go one step down a gradient."""
        self._steps += 1
        rate = _RATE * math.sqrt(1.0 - _SECOND**self._steps) / (1.0 - _FIRST**self._steps)
        self._mean += (1.0 - _FIRST) * (gradient - self._mean)
        self._square += (1.0 - _SECOND) * (gradient * gradient - self._square)
        self._parameters -= rate * self._mean / (np.sqrt(self._square) + _TINY)


def _batches(rows: int, random: np.random.Generator) -> Iterator[NDArray[np.int64] | slice]:
    """Yield the rows of each step: all rows, or parts of one shuffled order after another."""
    if rows <= BATCH:
        yield from [slice(None)] * STEPS
        return
    parts: list[NDArray[np.int64]] = []
    for _ in range(STEPS):
        if not parts:
            order = random.permutation(rows)
            parts = [order[start : start + BATCH] for start in range(0, rows - BATCH + 1, BATCH)]
        yield parts.pop()


Labels = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Evaluation:
    """Quality of one summary, with equal or other weights.

    Attributes:
        mmd2: squared MMD, exact kernel, between the returned rows and D_v.
        mmd2_test: squared MMD between the returned rows and held-back test rows, or None without test rows.
        mmd2_counted: squared MMD of the returned rows and the seed set together to D_v (the protocol's
            objective), or None without a seed set, or with weights.
        downstream: model -> accuracy on the test rows after training on the weighted returned rows.
    """

    mmd2: float
    mmd2_test: float | None
    mmd2_counted: float | None
    downstream: dict[str, float]


def require_models() -> None:
    """Refuse a request whose summary could not be judged: training models needs scikit-learn.

    Raises:
        MissingDependencyError: scikit-learn is not installed.
    """
    if importlib.util.find_spec("sklearn") is None:
        raise _no_models()


def _no_models() -> MissingDependencyError:
    cause = "training models on the summary needs scikit-learn, which is not installed"
    return MissingDependencyError(cause, "Run `pip install 'fedkme[sim]'`, or set `downstream` to false.")


@dataclass(frozen=True, eq=False, repr=False)
class Evaluator:
    """Evaluation of summaries against the same rows; every array is in model space.

    Attributes:
        validation: D_v.
        test: held-back rows, (t, n), or None.
        test_labels: classes of the test rows, (t,), or None.
        seeds: D_init, (s, n), or None.
        downstream: True to train models, if both sides have labels.
        seed: seed of the models.
    """

    validation: ReferenceRows
    test: ReferenceRows | None = None
    test_labels: Labels | None = None
    seeds: Rows | None = None
    downstream: bool = True
    seed: int = 0

    def evaluate(self, rows: Rows, labels: Labels | None, weights: FloatArray | None = None) -> Evaluation:
        """Judge a summary.

        Args:
            rows: the returned rows, (p, n), p >= 1.
            labels: classes of the rows, (p,), or None.
            weights: weights of the rows, (p,), sum 1; None: equal weights.

        Raises:
            DataError: a set of rows is empty.
            MissingDependencyError: training models needs scikit-learn, which is not installed.
        """
        against_test = counted = None
        accuracies: dict[str, float] = {}
        if self.test is not None:
            against_test = self.test.mmd2(rows, weights)
            if self.downstream and labels is not None and self.test_labels is not None:
                accuracies = _accuracies(rows, labels, self.test.rows, self.test_labels, self.seed, weights)
        if self.seeds is not None and len(self.seeds) and weights is None:
            counted = self.validation.mmd2(np.concatenate([rows, self.seeds]))
        return Evaluation(
            mmd2=self.validation.mmd2(rows, weights),
            mmd2_test=against_test,
            mmd2_counted=counted,
            downstream=accuracies,
        )

    def evaluate_table(self, schema: Schema, summary: Table, weights: FloatArray | None = None) -> Evaluation:
        """Judge a summary in schema columns."""
        return self.evaluate(schema.encode(summary.values), summary.labels, weights)


def evaluator(
    schema: Schema, validation: Table, test: Table | None, seeds: Table | None, gamma: float, downstream: bool
) -> Evaluator:
    """Encode the rows that summaries are judged against; models use seed 0, so that runs can be compared."""
    return Evaluator(
        ReferenceRows(schema.encode(validation.values), gamma),
        None if test is None or not len(test) else ReferenceRows(schema.encode(test.values), gamma),
        None if test is None else test.labels,
        None if seeds is None else schema.encode(seeds.values),
        downstream,
    )


def _accuracies(
    rows: Rows, labels: Labels, test: Rows, test_labels: Labels, seed: int, weights: FloatArray | None
) -> dict[str, float]:
    """Accuracy of the paper's two models on the test rows, trained on the rows with their weights, if any.

    Sarpatwar 2019: a linear SVM (Section 4), and one hidden layer of 32 units with dropout (Appendix G).
    """
    try:
        from sklearn.exceptions import ConvergenceWarning
        from sklearn.svm import LinearSVC
    except ImportError:
        raise _no_models() from None
    models: dict[str, Any] = {
        "linear_svm": LinearSVC(random_state=seed, max_iter=5000),
        "mlp_32": DropoutNetwork(seed=seed),
    }
    fitted: dict[str, Any] = {}
    if weights is not None:
        fitted["sample_weight"] = weights * len(weights)  # 1 on average, as for equal weights
    if len(np.unique(labels)) == 1:
        # No classifier can be fitted to one class; the only honest prediction is that class.
        return dict.fromkeys(models, float(np.mean(test_labels == labels[0])))
    accuracies = {}
    for name, model in models.items():
        with warnings.catch_warnings():
            # A model stopped at max_iter is still a model, with an honest accuracy.
            warnings.simplefilter("ignore", ConvergenceWarning)
            model.fit(rows, labels, **fitted)
        accuracies[name] = float(model.score(test, test_labels))
    return accuracies
