"""Quality of a summary, computed on the consumer's own machine from its own validation and test rows."""

from __future__ import annotations

import importlib.util
import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from consumer.summary.network import DropoutNetwork
from fedkme.arrays import FloatArray, Rows
from fedkme.embeddings.mmd import ReferenceRows
from fedkme.errors import MissingDependencyError
from fedkme.tables.schema import Schema
from fedkme.tables.table import Table

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
    return MissingDependencyError(
        "training models on the summary needs scikit-learn, which is not installed",
        "Run `pip install 'fedkme[sim]'`, or set `downstream` to false.",
    )


@dataclass(frozen=True, eq=False)
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
