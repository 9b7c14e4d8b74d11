"""Kernel models on hashes: linear models of h1, for a consumer that gets no rows or wants none.

A linear function of h1(x) is a function of the RKHS of exp(-gamma ||x - y||^2) up to the error of random
features (Rahimi & Recht 2008), so what is trained on hashes and labels predicts from rows through the
run's map. Ridge regression needs numpy alone; support vectors and logistic regression need scikit-learn.

The strength of regularisation is chosen from the training hashes: by the exact leave-one-out error for ridge,
by five-fold cross-validation for the others. Nothing here is private towards the consumer: hashes, labels
and the draw are its own. A model that it publishes says what such a model says about the rows.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from fedkme.errors import ConfigError, DataError, MissingDependencyError
from fedkme.features.fixed_point import FEATURE_UNIT, Features
from fedkme.features.fourier import FourierFeatures

FloatArray = NDArray[np.float64]
Labels = NDArray[np.int64]
Kind = Literal["ridge", "svm", "logistic"]
KINDS: tuple[Kind, ...] = get_args(Kind)

_PENALTIES = np.logspace(-5, 2, 29)
"""Penalties of ridge, times the number of rows; h1 has norm about 1."""
_COSTS = (0.1, 1.0, 10.0, 100.0)
"""C of scikit-learn."""
_FOLDS = 5


@dataclass(frozen=True, eq=False)
class HashModel:
    """A classifier of hashes.

    Attributes:
        kind: how it was trained.
        classes: class indices that it knows, (c,).
        weights: one column a class, (d, c); two classes have one each, of opposite sign.
        intercept: (c,).
        strength: what was chosen: the penalty of ridge, C of the others; NaN for a single class.
    """

    kind: Kind
    classes: Labels
    weights: FloatArray = field(repr=False)
    intercept: FloatArray = field(repr=False)
    strength: float

    def scores(self, features: Features) -> FloatArray:
        """Decision values, (m, d) int16 -> (m, c)."""
        scores: FloatArray = in_units(features) @ self.weights + self.intercept
        return scores

    def predict_hashes(self, features: Features) -> Labels:
        """Class index of each hash, (m,)."""
        return np.asarray(self.classes[self.scores(features).argmax(axis=1)])

    def predict(self, rows: NDArray[np.floating[Any]], h1: FourierFeatures) -> Labels:
        """Class index of each row of model space, (m, n) -> (m,), through the run's map."""
        return self.predict_hashes(h1.fixed_point(rows))


def train(
    features: Features, labels: Labels, kind: Kind = "ridge", strength: float | None = None, seed: int = 0
) -> HashModel:
    """Train on hashes.

    Args:
        features: (m, d) int16.
        labels: class indices, (m,).
        kind: `ridge` (squared loss, one class against the others), `svm` (squared hinge) or `logistic`.
        strength: the penalty of ridge (per row), C of the others; None: chosen from these rows.
        seed: of the folds.

    Raises:
        ConfigError: an unknown kind.
        DataError: no rows, or labels of another number.
        MissingDependencyError: scikit-learn is needed and not installed.
    """
    if kind not in KINDS:
        raise ConfigError(f"no model on hashes is called {kind!r}", f"Choose among {', '.join(KINDS)}.")
    if not len(features) or labels.shape != (len(features),):
        raise DataError(
            f"{len(features)} hashes come with labels of shape {labels.shape}", "Give one label a hash."
        )
    classes, codes = np.unique(labels, return_inverse=True)
    if len(classes) == 1:  # the only honest prediction is that class
        nothing = np.zeros((features.shape[1], 1))
        return HashModel(kind, classes, nothing, np.zeros(1), float("nan"))
    x = in_units(features)
    if kind == "ridge":
        weights, intercept, chosen = _ridge(x, np.eye(len(classes))[codes], strength)
    else:
        weights, intercept, chosen = _fitted(x, codes, kind, strength, seed)
    return HashModel(kind, classes, weights, intercept, chosen)


def in_units(features: Features) -> FloatArray:
    """Hashes in units of the kernel, (m, d): rows of norm about 1."""
    scale = np.sqrt(2.0 / features.shape[1]) * FEATURE_UNIT
    return np.asarray(np.multiply(features, scale, dtype=np.float64))


@dataclass(frozen=True, slots=True)
class Comparison:
    """Accuracy of one kind of model on the same test rows.

    Attributes:
        kind: of model.
        on_hashes: trained on hashes, predicting rows through the map.
        on_rows: the same linear model, trained on the rows themselves.
        with_kernel: with the exact kernel on the rows: what hashes approximate; ridge and svm only, else NaN.
    """

    kind: Kind
    on_hashes: float
    on_rows: float
    with_kernel: float


def compare(
    rows: NDArray[np.floating[Any]],
    labels: Labels,
    test: NDArray[np.floating[Any]],
    test_labels: Labels,
    h1: FourierFeatures,
    gamma: float,
    kinds: Sequence[Kind] = KINDS,
    seed: int = 0,
) -> list[Comparison]:
    """Compare the accuracy of training on hashes with that of training on rows.

    Args:
        rows: training rows in model space, (m, n).
        labels: (m,).
        test: held-back rows, (t, n).
        test_labels: (t,).
        h1: the run's map.
        gamma: of its kernel.
        kinds: of models.
        seed: of the folds.

    Raises:
        DataError: see `train`.
        MissingDependencyError: scikit-learn is not installed.
    """
    hashes = h1.fixed_point(rows)
    found = []
    for kind in kinds:
        model = train(hashes, labels, kind, seed=seed)
        on_hashes = _share(model.predict(test, h1), test_labels)
        on_rows = _share(_on_rows(rows, labels, test, kind, seed), test_labels)
        exact = _with_kernel(rows, labels, test, gamma, kind, seed)
        found.append(
            Comparison(
                kind, on_hashes, on_rows, float("nan") if exact is None else _share(exact, test_labels)
            )
        )
    return found


def _share(predicted: Labels, truth: Labels) -> float:
    return float(np.mean(predicted == truth))


def _ridge(x: FloatArray, y: FloatArray, penalty: float | None) -> tuple[FloatArray, FloatArray, float]:
    """Ridge regression with an intercept; the penalty with the least leave-one-out error, unless given.

    The left-out residual of row i is (y_i - f(x_i)) / (1 - H_ii) with the hat matrix H, exactly.
    """
    count = len(x)
    middle, level = x.mean(axis=0), y.mean(axis=0)
    left, singular, right = np.linalg.svd(x - middle, full_matrices=False)
    projected = left.T @ (y - level)
    if penalty is None:
        errors = []
        for candidate in _PENALTIES:
            shrink = singular**2 / (singular**2 + count * candidate)
            hat = (left**2 * shrink).sum(axis=1) + 1.0 / count
            residual = (y - level - left @ (shrink[:, None] * projected)) / np.maximum(1.0 - hat, 1e-9)[
                :, None
            ]
            errors.append(float((residual**2).mean()))
        penalty = float(_PENALTIES[int(np.argmin(errors))])
    gain = singular / (singular**2 + count * penalty)
    weights = right.T @ (gain[:, None] * projected)
    return weights, level - middle @ weights, penalty


def _fitted(
    x: FloatArray, codes: NDArray[np.intp], kind: Kind, cost: float | None, seed: int
) -> tuple[FloatArray, FloatArray, float]:
    model, chosen = _chosen(x, codes, lambda c: _estimator(kind, c, seed), cost, seed)
    weights, intercept = np.asarray(model.coef_).T, np.asarray(model.intercept_)
    if weights.shape[1] == 1:  # two classes: scikit-learn keeps the second one's column
        weights, intercept = np.hstack([-weights, weights]), np.concatenate([-intercept, intercept])
    return weights, intercept, chosen


def _chosen(
    x: FloatArray, codes: NDArray[np.intp], make: Any, cost: float | None, seed: int
) -> tuple[Any, float]:
    """A fitted estimator, and its C: of the best accuracy over folds, the smallest of equals; or as given."""
    try:
        from sklearn.exceptions import ConvergenceWarning
        from sklearn.model_selection import StratifiedKFold, cross_val_score
    except ImportError:
        raise _missing() from None
    with warnings.catch_warnings():
        # A model stopped at max_iter is still a model: its accuracy says what it is worth.
        warnings.simplefilter("ignore", ConvergenceWarning)
        if cost is None:
            folds = min(_FOLDS, int(np.bincount(codes).min()))
            if folds < 2:
                cost = 10.0  # a class of one row: nothing to validate on
            else:
                split = StratifiedKFold(folds, shuffle=True, random_state=seed)
                means = [float(cross_val_score(make(c), x, codes, cv=split).mean()) for c in _COSTS]
                cost = _COSTS[int(np.argmax(means))]
        return make(cost).fit(x, codes), cost


def _estimator(kind: Kind, cost: float, seed: int) -> Any:
    try:
        from sklearn.linear_model import LogisticRegression
        from sklearn.svm import LinearSVC
    except ImportError:
        raise _missing() from None
    if kind == "svm":
        return LinearSVC(C=cost, random_state=seed, max_iter=5000)
    return LogisticRegression(C=cost, max_iter=1000)


def _on_rows(rows: NDArray[Any], labels: Labels, test: NDArray[Any], kind: Kind, seed: int) -> Labels:
    """Predictions of the same linear model, trained on rows."""
    classes, codes = np.unique(labels, return_inverse=True)
    x, at = np.asarray(rows, np.float64), np.asarray(test, np.float64)
    if kind == "ridge":
        weights, intercept, _ = _ridge(x, np.eye(len(classes))[codes], None)
        return np.asarray(classes[(at @ weights + intercept).argmax(axis=1)])
    model, _ = _chosen(x, codes, lambda c: _estimator(kind, c, seed), None, seed)
    return np.asarray(classes[model.predict(at)])


def _with_kernel(
    rows: NDArray[Any], labels: Labels, test: NDArray[Any], gamma: float, kind: Kind, seed: int
) -> Labels | None:
    """Predictions of the model with the exact kernel on the rows."""
    from fedkme.embeddings.kernels import rbf

    classes, codes = np.unique(labels, return_inverse=True)
    if kind == "logistic":
        return None
    if kind == "ridge":  # the kernel's own features: rows of a square root of its matrix
        values, vectors = np.linalg.eigh(rbf(rows, rows, gamma))
        kept = values > 1e-10 * values[-1]
        basis = vectors[:, kept] / np.sqrt(values[kept])
        weights, intercept, _ = _ridge(rbf(rows, rows, gamma) @ basis, np.eye(len(classes))[codes], None)
        scores = rbf(test, rows, gamma) @ basis @ weights + intercept
        return np.asarray(classes[scores.argmax(axis=1)])
    try:
        from sklearn.svm import SVC
    except ImportError:
        raise _missing() from None
    x, at = np.asarray(rows, np.float64), np.asarray(test, np.float64)
    model, _ = _chosen(x, codes, lambda c: SVC(C=c, gamma=gamma), None, seed)
    return np.asarray(classes[model.predict(at)])


def _missing() -> MissingDependencyError:
    return MissingDependencyError(
        "support vectors and logistic regression need scikit-learn, which is not installed",
        "Run `pip install 'fedkme[sim]'`, or choose `ridge`.",
    )
