"""Classifiers that are trained on synthetic rows and scored on real ones, as DP-MERF and DP-HP do.

The papers compute ROC and PRC from predicted classes; `auc` is the area by scores. lab/ has all twelve
classifiers of the papers.
"""

import math
import warnings
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedkme.errors import ConfigError
from fedkme.ops.threads import one_thread_of_models
from fedkme.tables.schema import Category, Schema
from fedkme.tables.table import Table

Models = Mapping[str, Callable[[int], Any]]
"""Makers of classifiers with the interface of scikit-learn, by name; each takes a seed."""
_BOOSTED, _MOST_BOOSTED, _MOST_LEVELS = 100, 200, 255
"""Trees of boosting for each class; most columns times classes; levels from which a category is a number."""


def quick_models() -> Models:
    """Three classifiers that take seconds: logistic regression, naive Bayes and a decision tree."""
    from sklearn import linear_model, naive_bayes, tree

    return {
        "LR": lambda seed: linear_model.LogisticRegression(max_iter=2000),
        "GNB": lambda seed: naive_bayes.GaussianNB(),
        "DT": lambda seed: tree.DecisionTreeClassifier(random_state=seed),
    }


@one_thread_of_models()
def boosted_score(rows: Table, test: Table, schema: Schema, seed: int) -> float:
    """Score of boosted trees: AUC of two classes, else ROC of predicted classes; NaN where they take minutes.

    They learn what `quick_models` do not, such as whether two categories are the same.
    """
    from sklearn import ensemble

    categories = [isinstance(column, Category) for column in schema.columns for _ in range(column.count)]
    levels = max((len(c.categories) for c in schema.columns if isinstance(c, Category)), default=0)
    if len(categories) * len(schema.classes) > _MOST_BOOSTED:
        return float("nan")
    options: dict[str, Any] = {"categorical_features": categories} if 0 < levels < _MOST_LEVELS else {}

    def boosted(seed: int) -> Any:
        return ensemble.HistGradientBoostingClassifier(
            max_iter=_BOOSTED, early_stopping=False, random_state=seed, **options
        )

    score = evaluate(rows, test, schema, {"boosted": boosted}, seed)["boosted"]
    return score.auc if math.isfinite(score.auc) else score.roc


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


def evaluate(
    synthetic: Table,
    test: Table,
    schema: Schema,
    models: Models,
    seed: int = 0,
    one_hot: Collection[str] = (),
) -> dict[str, ClassifierScore]:
    """Train classifiers on one table and score them on another.

    Args:
        synthetic: rows to train on, with labels.
        test: real rows that the release has not seen.
        schema: schema of both.
        models: the classifiers.
        seed: seed of the classifiers.
        one_hot: categories that classifiers see as 0/1 columns and not by index.

    Returns:
        Scores by name; scores of chance if the training rows have only one class.

    Raises:
        ConfigError: a table has no labels.
    """
    if synthetic.labels is None or test.labels is None:
        raise ConfigError("classifiers need labels", "Give the schema a label.")
    scores: dict[str, ClassifierScore] = {}
    train_x, test_x = columns(synthetic, schema, one_hot), columns(test, schema, one_hot)
    for name, make in models.items():
        if len(np.unique(synthetic.labels)) < 2:
            chance = np.full(len(test.labels), int(synthetic.labels[0]))
            scores[name] = _figures(test.labels, chance, None)
        else:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # warnings of convergence, on arbitrary data
                scores[name] = _score(make(seed), train_x, synthetic.labels, test_x, test.labels)
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
