"""Choice of rows to train on among what the consumer holds, compared on held-out rows of her own D_v.

She has labels of the target, and may cross-validate on her machine at no cost. Each candidate is trained with
three models (logistic, linear SVM, boosted trees) and scored on folds of D_v: whatever of a candidate depends
on D_v (rows for the target, odds weights, D_v itself) is made anew from the other folds. A person's rows are
in one fold. The candidate of the highest mean accuracy is named.

Each row of D_v has the share of the three models that were right about it, from models that did not see it.
The interval is the mean of these shares with a normal error over rows of D_v, widened for the choice among c
candidates (Bonferroni: each candidate's at level 1 - .05 / c); folds share their training rows, which it
leaves out, so it is short where D_v is small.

The control, rows of independent columns chosen and weighed for the target, is in the table and never named.
"""

import importlib.util
import math
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from statistics import NormalDist
from typing import Any

import numpy as np
from numpy.typing import NDArray

from consumer.results import TRAIN, TRAIN_CSV, alone
from consumer.summary.forms import added_name, csv_of
from consumer.summary.judging import SHORTLIST
from consumer.target.choosing import PoolChoice, remembered
from fedkme.arrays import FloatArray, IntArray, Rows
from fedkme.ops.threads import one_thread_of_models
from fedkme.tables.npz import npz_bytes
from fedkme.tables.schema import Schema
from fedkme.tables.table import Table, joined

Labels = NDArray[np.int64]
FOLDS = 5
LEAST_ROWS = 20
"""Rows of D_v below which folds say nothing."""
MOST_TRAINED, WIDE = 10_000, 2_000
"""Most rows of the release that a model is trained on, where the table has at most WIDE encoded columns times
classes. A wider table has fewer rows, shorter boosting and fewer logistic steps: with 617 numbers and 26
classes a logistic model was not done after 60 s of CPU, and takes 5 s with 25 steps."""
CONTROL = "independent columns (control)"
OURS, MORE, RELEASE, ODDS, TARGET, REAL = (
    "rows for the target",
    "rows for the target, three times as many",
    "the release",
    "the release, weighted by odds",
    "D_v",
    "real rows",
)
MODELS = ("logistic", "linear_svm", "boosted")


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class TrainingRows:
    """Rows to train on, with weights >= 0, (k,), of mean 1."""

    table: Table
    weights: FloatArray

    def files(self, schema: Schema) -> dict[str, bytes]:
        """Contents of the files by name: arrays x, y and w, and text with a column `weight` last."""
        arrays = {"x": self.table.values, "y": np.asarray(self.table.labels), "w": self.weights}
        text = {"weight": [f"{weight:.6g}" for weight in self.weights.tolist()]}
        return {TRAIN: npz_bytes(arrays), TRAIN_CSV: csv_of(self.table, schema, text)}


@dataclass(frozen=True, slots=True)
class CandidateScore:
    """Accuracy of models trained on a candidate, on rows of D_v that were held out.

    Attributes:
        name: name of the candidate.
        rows: number of rows with weight, D_v's among them.
        accuracy: mean over rows and models.
        low: lower end of the interval.
        high: upper end of the interval.
        models: accuracy by model.
    """

    name: str
    rows: int
    accuracy: float
    low: float
    high: float
    models: Mapping[str, float]


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class TrainingAdvice:
    """Candidate to train on, and the table that it was chosen by.

    Attributes:
        best: name of the candidate.
        scores: scores of each candidate, the best first; the control among them.
        shifted: True where classes depend on columns otherwise in D_v than in the release.
        beats_control: True where models trained on rows for the target are right more often than
            models trained on as many of the control's, beyond the doubt.
        rows: rows of the best candidate, made with all of D_v.
        right: whether each model was right about each held-out row, by candidate, (m, models) of 0 and 1.
    """

    best: str
    scores: tuple[CandidateScore, ...]
    shifted: bool
    beats_control: bool
    rows: TrainingRows
    right: Mapping[str, FloatArray]

    def line(self, schema: Schema) -> str:
        """Advice in a line without a number about D_v."""
        shift = (
            " Classes depend on columns otherwise in your rows than among owners: only labels of your own "
            "target help, so gather more of them."
        )
        line = f"Train on {self.best}: {alone(TRAIN_CSV)}, sample_weight = {added_name('weight', schema)}."
        return f"{line}{shift}" if self.shifted else line

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        return {
            "train_on": self.best,
            "shifted": self.shifted,
            "beats_control": self.beats_control,
            "candidates": [asdict(score) for score in self.scores],
        }


Candidate = Callable[[IntArray], TrainingRows]
"""Makes the rows of a candidate by some rows of D_v, whose places it gets."""


def train_on_what(
    ours: PoolChoice, control: PoolChoice, real: Table | None = None, persons: Sequence[str] = ()
) -> TrainingAdvice | None:
    """Compare all candidates on held-out rows of D_v; None where `why_untrained` has a reason.

    Args:
        ours: choice among rows of the release by D_v, both with labels.
        control: the same among rows of independent columns.
        real: real rows of a summary, with labels, or None.
        persons: person of each row of D_v; empty: each row is a person.
    """
    schema, validation = ours.schema, ours.validation
    labels = validation.labels
    if labels is None or why_untrained(ours):
        return None
    makers = candidates(ours, control, real)
    everything = np.arange(len(validation))
    right = _right_when_held_out(makers, schema, schema.encode(validation.values), labels, persons)
    named = [name for name in makers if name != CONTROL]
    best = max(named, key=lambda name: float(right[name].mean()))
    scores = sorted(
        (_score(name, right[name], len(named), _size(makers[name], len(validation))) for name in makers),
        key=lambda score: (score.name != best, -score.accuracy),
    )
    return TrainingAdvice(
        best,
        tuple(scores),
        _is_shifted(right[RELEASE], right[TARGET], labels),
        _is_above(right[MORE] - right[CONTROL]),
        makers[best](everything),
        right,
    )


@one_thread_of_models()
def _right_when_held_out(
    makers: Mapping[str, Candidate], schema: Schema, x: Rows, labels: Labels, persons: Sequence[str]
) -> dict[str, FloatArray]:
    """Check, of each candidate, which models are right about which held-out rows of D_v, by name."""
    right = {name: np.zeros((len(labels), len(MODELS))) for name in makers}
    everything = np.arange(len(labels))
    of_release = fitted_models(schema, makers[RELEASE](everything))  # in all folds alike
    for fold in _folds(labels, persons):
        others = np.setdiff1d(everything, fold)
        for name, make in makers.items():
            fitted = of_release if name == RELEASE else fitted_models(schema, make(others))
            right[name][fold] = np.stack([model(x[fold]) == labels[fold] for model in fitted], axis=1)
    return right


def why_untrained(choice: PoolChoice) -> str:
    """Reason why nothing says what to train on; empty where models can be compared."""
    labels = choice.validation.labels
    if labels is None or choice.pool.labels is None:
        return "there are no labels"
    if len(np.unique(labels)) < 2:
        return "D_v has rows of one class alone"
    if len(labels) < LEAST_ROWS:
        return f"D_v has fewer than {LEAST_ROWS} rows"
    absent = importlib.util.find_spec("sklearn") is None
    return "scikit-learn is not installed: pip install 'fedkme[sim]'" if absent else ""


def _size(make: Candidate, rows: int) -> int:
    return int((make(np.arange(rows)).weights > 0).sum())


def candidates(ours: PoolChoice, control: PoolChoice, real: Table | None) -> dict[str, Candidate]:
    """Makers of all candidates by name, the simplest first: of equal ones the first is named."""
    schema, validation, p = ours.schema, ours.validation, ours.p
    raw = ours.pool.take(np.arange(min(len(ours.pool), most_trained(schema))))

    def chosen(choice: PoolChoice, most: int) -> Candidate:
        """Rows of a pool, chosen and weighed by the given rows of D_v."""

        def make(places: IntArray) -> TrainingRows:
            which, weights = choice.weighted(places, most)
            return _weighted(choice.pool.take(which), weights)

        return remembered(make)

    def target(places: IntArray) -> TrainingRows:
        return _weighted(validation.take(places))

    def release(places: IntArray) -> TrainingRows:
        return _weighted(raw)

    def odds(places: IntArray) -> TrainingRows:
        return _weighted(raw, _odds(schema, raw, validation.take(places)))

    def with_target(make: Candidate) -> Candidate:
        """The candidate's rows and D_v's, each with half of the mass."""

        def both(places: IntArray) -> TrainingRows:
            own, more = target(places), make(places)
            halves = (own.weights / own.weights.sum(), more.weights / more.weights.sum())
            return _weighted(joined([own.table, more.table]), np.concatenate(halves))

        return both

    near, by_odds = chosen(ours, p), remembered(odds)
    makers: dict[str, Candidate] = {
        TARGET: target,
        RELEASE: release,
        OURS: near,
        MORE: chosen(ours, SHORTLIST * p),
        ODDS: by_odds,
        f"{TARGET} and {OURS}": with_target(near),
        f"{TARGET} and {RELEASE}": with_target(release),
        f"{TARGET} and {ODDS}": with_target(by_odds),
    }
    if real is not None and real.labels is not None:
        theirs = chosen(replace(ours, pool=real), SHORTLIST * p)
        makers |= {REAL: theirs, f"{TARGET} and {REAL}": with_target(theirs)}
    return makers | {CONTROL: chosen(control, SHORTLIST * p)}


def most_trained(schema: Schema) -> int:
    """Most rows of the release that a model is trained on, fewer of wide rows."""
    return MOST_TRAINED * WIDE // max(WIDE, _breadth(schema))


def _breadth(schema: Schema) -> int:
    return schema.encoded_width * len(schema.classes)


def _weighted(table: Table, weights: FloatArray | None = None) -> TrainingRows:
    if weights is None:
        return TrainingRows(table, np.ones(len(table)))
    return TrainingRows(table, weights * (len(table) / weights.sum()))


def _odds(schema: Schema, raw: Table, target: Table) -> FloatArray:
    """Odds that a row is D_v's and not the release's, by a logistic model of columns and class."""
    from sklearn.linear_model import LogisticRegression

    def seen(table: Table) -> Rows:
        assert table.labels is not None, "candidates have labels"
        classes = np.eye(len(schema.classes))[table.labels]
        return np.concatenate([schema.encode(table.values), classes], axis=1)

    rows = np.concatenate([seen(raw), seen(target)])
    is_target = np.arange(len(rows)) >= len(raw)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = LogisticRegression(max_iter=500, class_weight="balanced").fit(rows, is_target)
    scores = model.decision_function(seen(raw))
    odds: FloatArray = np.exp(scores - scores.max())
    return odds


def fitted_models(schema: Schema, rows: TrainingRows) -> list[Callable[[Rows], Labels]]:
    """Three trained models; a single class is predicted where there is no other."""
    from sklearn.ensemble import HistGradientBoostingClassifier
    from sklearn.linear_model import LogisticRegression
    from sklearn.svm import LinearSVC

    labels = rows.table.labels
    assert labels is not None, "candidates have labels"
    heavy = rows.weights > 0
    x, y, weights = schema.encode(rows.table.values)[heavy], labels[heavy], rows.weights[heavy]
    if len(np.unique(y)) < 2:
        only = int(y[0])
        return [lambda given: np.full(len(given), only)] * len(MODELS)
    wide = _breadth(schema) > WIDE
    boosting = {"max_iter": 10, "max_bins": 32} if wide else {"max_iter": 60}
    models = (
        LogisticRegression(max_iter=25 if wide else 500),
        LinearSVC(random_state=0, max_iter=2000),
        HistGradientBoostingClassifier(min_samples_leaf=5, early_stopping=False, random_state=0, **boosting),
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a model that stops at max_iter is still a model
        return [model.fit(x, y, sample_weight=weights).predict for model in models]


def _folds(labels: Labels, persons: Sequence[str]) -> list[IntArray]:
    """Folds of D_v with equal shares of classes; without them where persons have several rows."""
    random = np.random.default_rng(0)  # equal D_v get equal folds
    if persons:
        _, person = np.unique(np.asarray(persons), return_inverse=True)
        fold_of_person = random.permutation(int(person.max()) + 1) % FOLDS
        fold = fold_of_person[person]
    else:
        order = random.permutation(len(labels))
        order = order[np.argsort(labels[order], kind="stable")]
        fold = np.empty(len(labels), np.int64)
        fold[order] = np.arange(len(labels)) % FOLDS
    return [places for each in range(FOLDS) if len(places := np.flatnonzero(fold == each))]


def _score(name: str, right: FloatArray, choices: int, rows: int) -> CandidateScore:
    shares = right.mean(axis=1)
    half = NormalDist().inv_cdf(1.0 - 0.025 / choices) * float(shares.std(ddof=1)) / math.sqrt(len(shares))
    mean = float(shares.mean())
    by_model = dict(zip(MODELS, right.mean(axis=0).tolist(), strict=True))
    return CandidateScore(name, rows, mean, max(mean - half, 0.0), min(mean + half, 1.0), by_model)


def _is_above(differences: FloatArray) -> bool:
    """Check that a mean difference, (m, models), is above 0 by two standard errors."""
    shares = differences.mean(axis=1)
    return float(shares.mean()) > 2.0 * float(shares.std(ddof=1)) / math.sqrt(len(shares))


def _is_shifted(release: FloatArray, target: FloatArray, labels: Labels) -> bool:
    """Check for a shift of classes: the release's models are right less often than the commonest class is.

    D_v's own models must be better, beyond the doubt: else there is nothing to learn in D_v either.
    """
    commonest = float(np.bincount(labels).max()) / len(labels)
    shares = release.mean(axis=1)
    doubt = 2.0 * float(shares.std(ddof=1)) / math.sqrt(len(shares))
    return float(shares.mean()) + doubt < commonest and _is_above(target - release)
