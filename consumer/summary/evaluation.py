"""Quality of a summary, computed on the consumer's own machine from its own validation and test rows."""

from __future__ import annotations

import importlib.util
import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from consumer.summary.network import DropoutNetwork
from fedkme.embeddings.mmd import mmd2
from fedkme.errors import MissingDependencyError
from fedkme.tables.schema import Schema
from fedkme.tables.table import Table

Rows = NDArray[np.floating[Any]]
Labels = NDArray[np.int64]
FloatArray = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Evaluation:
    """Quality of one summary, of rows alike or with weights.

    Attributes:
        mmd2: squared MMD, exact kernel, between the returned rows and D_v.
        mmd2_test: the same against held-back test rows, or None without them.
        mmd2_counted: of the returned rows together with the seed set against D_v (what the protocol
            optimises), or None without a seed set, or with weights.
        downstream: model -> accuracy on the test rows after training on the returned rows, of models that
            take their weights.
    """

    mmd2: float
    mmd2_test: float | None
    mmd2_counted: float | None
    downstream: dict[str, float]

    def to_json(self) -> dict[str, Any]:
        """Plain values, one key per attribute."""
        return {
            "mmd2": self.mmd2,
            "mmd2_test": self.mmd2_test,
            "mmd2_counted": self.mmd2_counted,
            "downstream": dict(self.downstream),
        }


def require_models(downstream: bool, test_labels: bool) -> None:
    """Refuse to begin what could not be judged in the end.

    Args:
        downstream: whether models are to be trained on the summary.
        test_labels: whether there are test rows with labels, without which none are.

    Raises:
        MissingDependencyError: scikit-learn is needed and is not installed.
    """
    if downstream and test_labels and importlib.util.find_spec("sklearn") is None:
        raise _no_models()


def _no_models() -> MissingDependencyError:
    return MissingDependencyError(
        "training models on the summary needs scikit-learn, which is not installed",
        "Run `pip install 'fedkme[sim]'`, or set `downstream` to false.",
    )


def evaluate(
    summary_rows: Rows,
    summary_labels: Labels | None,
    validation: Rows,
    test: Rows | None,
    test_labels: Labels | None,
    seeds: Rows | None,
    gamma: float,
    seed: int,
    downstream: bool = True,
    weights: FloatArray | None = None,
) -> Evaluation:
    """Judge a summary; every array is in model space.

    Args:
        summary_rows: the returned rows, (p, n), p >= 1.
        summary_labels: their classes, (p,), or None.
        validation: D_v, (m, n).
        test: held-back rows, (t, n), or None.
        test_labels: their classes, (t,), or None.
        seeds: D_init, (s, n), or None.
        gamma: of the RBF kernel.
        seed: for the models' own random start.
        downstream: whether to train models, where both sides have labels.
        weights: of the returned rows, (p,), sum 1; None: alike.

    Raises:
        DataError: a set of rows is empty.
        MissingDependencyError: models are to be trained and scikit-learn is not installed.
    """
    against_test = counted = None
    accuracies: dict[str, float] = {}
    if test is not None and len(test):
        against_test = mmd2(summary_rows, test, gamma, weights)
        if downstream and summary_labels is not None and test_labels is not None:
            accuracies = _accuracies(summary_rows, summary_labels, test, test_labels, seed, weights)
    if seeds is not None and len(seeds) and weights is None:
        counted = mmd2(np.concatenate([summary_rows, seeds]), validation, gamma)
    return Evaluation(
        mmd2=mmd2(summary_rows, validation, gamma, weights),
        mmd2_test=against_test,
        mmd2_counted=counted,
        downstream=accuracies,
    )


def _accuracies(
    rows: Rows, labels: Labels, test: Rows, test_labels: Labels, seed: int, weights: FloatArray | None
) -> dict[str, float]:
    """Accuracy on the test rows of the paper's two models, trained on weighted rows where there are weights.

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
        fitted["sample_weight"] = weights * len(weights)  # 1 on average, as without weights
    if len(np.unique(labels)) == 1:
        # No classifier can be fitted to one class; the only honest prediction is that class.
        return dict.fromkeys(models, float(np.mean(test_labels == labels[0])))
    accuracies = {}
    for name, model in models.items():
        with warnings.catch_warnings():
            # A model stopped at max_iter is still a model: its accuracy says what it is worth.
            warnings.simplefilter("ignore", ConvergenceWarning)
            model.fit(rows, labels, **fitted)
        accuracies[name] = float(model.score(test, test_labels))
    return accuracies


def evaluate_tables(
    schema: Schema,
    summary: Table,
    validation: Table,
    test: Table | None,
    seeds: Table | None,
    gamma: float,
    downstream: bool,
    weights: FloatArray | None = None,
) -> Evaluation:
    """`evaluate` for tables in schema columns; models start from seed 0, so that runs compare."""

    def rows(table: Table | None) -> Rows | None:
        return None if table is None else schema.encode(table.values)

    return evaluate(
        schema.encode(summary.values),
        summary.labels,
        schema.encode(validation.values),
        rows(test),
        None if test is None else test.labels,
        rows(seeds),
        gamma,
        seed=0,
        downstream=downstream,
        weights=weights,
    )
