"""The classifiers of DP-MERF and DP-HP, trained on synthetic rows and scored on real ones.

The papers average twelve classifiers: eleven of scikit-learn and XGBoost, which is used if it is installed.
The papers compute ROC and PRC from predicted classes; `auc` is the area by scores.
"""

import importlib
import importlib.util
import warnings
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedkme.errors import ConfigError
from fedkme.tables.schema import Category, Schema
from fedkme.tables.table import Table

NAMES = ("LR", "RF", "GNB", "BNB", "SVM", "DT", "LDA", "Ada", "MLP", "Bag", "GBM", "XGB")


@dataclass(frozen=True)
class ClassifierScore:
    """Score of one classifier on test rows.

    Attributes:
        roc: area under the ROC curve of predicted classes, as the papers compute it (one class against the
            rest, averaged, for more than two).
        prc: average precision of predicted classes, likewise.
        f1: F1, weighted by class.
        accuracy: share of right predictions.
        auc: area under the ROC curve of scores; NaN for more than two classes.
    """

    roc: float
    prc: float
    f1: float
    accuracy: float
    auc: float


def installed(names: Sequence[str] = NAMES) -> tuple[str, ...]:
    """Names of the classifiers whose packages are installed."""
    absent = () if importlib.util.find_spec("xgboost") else ("XGB",)
    return tuple(name for name in names if name not in absent)


def evaluate(
    synthetic: Table,
    test: Table,
    schema: Schema,
    names: tuple[str, ...] | None = None,
    seed: int = 0,
    one_hot: Collection[str] = (),
) -> dict[str, ClassifierScore]:
    """Train classifiers on one table and score them on another.

    Args:
        synthetic: rows to train on, with labels.
        test: real rows that the release has not seen.
        schema: schema of both.
        names: names of the classifiers; default: all that are installed.
        seed: seed of the classifiers.
        one_hot: categories that classifiers see as 0/1 columns and not by index.

    Returns:
        Scores by name; scores of chance if the training rows have only one class.

    Raises:
        ConfigError: a table has no labels, or a name is unknown.
    """
    if synthetic.labels is None or test.labels is None:
        raise ConfigError("classifiers need labels", "Give the schema a label.")
    scores: dict[str, ClassifierScore] = {}
    train_x, test_x = columns(synthetic, schema, one_hot), columns(test, schema, one_hot)
    for name in names or installed():
        if len(np.unique(synthetic.labels)) < 2:
            scores[name] = _constant(int(synthetic.labels[0]), test.labels)
        else:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # warnings of convergence, on arbitrary data
                scores[name] = _score(_make(name, seed), train_x, synthetic.labels, test_x, test.labels)
    return scores


def mean(scores: Mapping[str, ClassifierScore]) -> ClassifierScore:
    """Average over classifiers."""
    table = np.array([[s.roc, s.prc, s.f1, s.accuracy, s.auc] for s in scores.values()])
    return ClassifierScore(*(float(x) for x in table.mean(axis=0)))


def columns(table: Table, schema: Schema, one_hot: Collection[str] = ()) -> NDArray[np.float64]:
    """Features of the papers' classifiers: numbers scaled to [0, 1] by the public bounds, category codes."""
    parts, source = [], 0
    for column in schema.columns:
        block = np.asarray(table.values[:, source : source + column.count], dtype=np.float64)
        if isinstance(column, Category) and column.name in one_hot:
            parts.append((block == np.arange(column.encoded_width)).astype(np.float64))
        else:
            parts.append(block if isinstance(column, Category) else column.encode(block))
        source += column.count
    return np.concatenate(parts, axis=1)


def _score(
    model: Any, train_x: NDArray[Any], train_y: NDArray[Any], test_x: NDArray[Any], test_y: NDArray[Any]
) -> ClassifierScore:
    model.fit(train_x, train_y)
    predicted = np.asarray(model.predict(test_x), dtype=np.int64)
    ranking = None
    if len(np.unique(test_y)) == 2:
        if hasattr(model, "predict_proba"):
            ranking = model.predict_proba(test_x)[:, -1]
        else:
            ranking = model.decision_function(test_x)
    return _figures(test_y, predicted, ranking)


def _constant(label: int, test_y: NDArray[Any]) -> ClassifierScore:
    return _figures(test_y, np.full(len(test_y), label), None)


def _figures(truth: NDArray[Any], predicted: NDArray[Any], ranking: NDArray[Any] | None) -> ClassifierScore:
    from sklearn import metrics

    classes = np.unique(truth)
    positives = classes[1:] if len(classes) == 2 else classes
    roc = [metrics.roc_auc_score(truth == c, predicted == c) for c in positives]
    prc = [metrics.average_precision_score(truth == c, predicted == c) for c in positives]
    return ClassifierScore(
        float(np.mean(roc)),
        float(np.mean(prc)),
        float(metrics.f1_score(truth, predicted, average="weighted")),
        float(metrics.accuracy_score(truth, predicted)),
        float("nan") if ranking is None else float(metrics.roc_auc_score(truth, ranking)),
    )


def _make(name: str, seed: int) -> Any:
    from sklearn import discriminant_analysis, ensemble, linear_model, naive_bayes, neural_network, svm, tree

    makers: Mapping[str, Callable[[], Any]] = {
        "LR": lambda: linear_model.LogisticRegression(max_iter=2000),
        "RF": lambda: ensemble.RandomForestClassifier(random_state=seed),
        "GNB": lambda: naive_bayes.GaussianNB(),
        "BNB": lambda: naive_bayes.BernoulliNB(alpha=0.02),
        "SVM": lambda: svm.LinearSVC(random_state=seed, max_iter=5000),
        "DT": lambda: tree.DecisionTreeClassifier(random_state=seed),
        "LDA": lambda: discriminant_analysis.LinearDiscriminantAnalysis(),
        "Ada": lambda: ensemble.AdaBoostClassifier(n_estimators=100, learning_rate=0.7, random_state=seed),
        "MLP": lambda: neural_network.MLPClassifier(alpha=1.0, early_stopping=True, random_state=seed),
        "Bag": lambda: ensemble.BaggingClassifier(n_estimators=20, max_samples=0.1, random_state=seed),
        "GBM": lambda: ensemble.GradientBoostingClassifier(subsample=0.1, n_estimators=50, random_state=seed),
        "XGB": lambda: importlib.import_module("xgboost").XGBClassifier(n_jobs=1, random_state=seed),
    }
    if name not in makers:
        raise ConfigError(f"no classifier is called '{name}'", f"Choose among {', '.join(NAMES)}.")
    return makers[name]()
