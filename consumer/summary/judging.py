"""Judging of a received summary, on data that never leave; the request and its cost do not change.

**Cross-validated MMD^2**: forms fitted to a part of D_v, judged by the rest.

D_v is split at random into `FOLDS` folds. For each fold the forms are made as usual (with classes where D_v
has labels), but fitted to the rows of the other folds; let q_i be the mean embedding of a form that was made
without row i of D_v, at row i. A fold's rows are draws of D_v's law that its forms were not fitted to, so

    mean over folds of w'Kw - 2 mean of q_i + mean of k over pairs of two different rows of D_v

is an unbiased estimate of the mean of |sum_j w_j phi(x_j) - mu|^2, mu the mean of that law, over the forms
of the folds. (The received rows depend on noisy counts of all of D_v, which hide any row.) It is too large
for the form of all of D_v, by about (1 - k) / m / (FOLDS - 1) at most, as that is fitted to more rows.

**Its deviation**. With u_i the mean kernel of row i to the other rows of D_v, row i adds 2 (u_i - q_i) / m
to the estimate beyond the mean: the first part of the variance is 4 / m times the variance of u_i - q_i. The
second part is of pairs of rows: 2 / m^2 times the mean square of the centred kernel, which is made of the
means of k^2, the kernel of 2 gamma, and of u_i.

Rows of a person are alike: they are in one fold, no pair of them counts, and they move the estimate together
(for pairs, m is replaced by m^2 over the sum of squared numbers of rows, by Cauchy and Schwarz).

Where a curator holds D_v it sends the rows of some form alone, which exact D_v chose of twice as many.
Measured, that lowers the estimate by .1 (1 - k) / p, and no more than 1 in 20 is lower by `CERTAIN`
deviations even so.

Rows that D_v chose from a pool exactly, as those for a target (`consumer.target.matching`), would carry the
other folds into the estimate. So each fold chooses its own rows from the pool, of two folds: a choice from
50,000 rows takes seconds. Two folds are also for more than `MOST_RECEIVED` rows.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from consumer.results import EVALUATION
from consumer.summary.evaluation import Evaluation, Evaluator
from consumer.summary.forms import Forms, added_names, make_forms
from consumer.summary.verdict import FormQuality, UnseenDistance, Yardstick, doubts_of, verdict_on, yardstick
from fedkme.arrays import FloatArray, IntArray, Rows
from fedkme.embeddings.kernels import kernel_mean_at, kernel_sum_at, rbf
from fedkme.embeddings.mmd import ReferenceRows
from fedkme.embeddings.prune import pruned
from fedkme.embeddings.selection import shortlist
from fedkme.embeddings.summary_weights import beside_classes, received, repeat, weigh
from fedkme.tables.schema import Schema
from fedkme.tables.table import Table
from fedkme.verdict import QualityVerdict, at_most_fair

LEAST = 30
"""Persons, or rows of D_v without persons, below which the deviation would be noise."""
FOLDS = 5
MOST_RECEIVED = 1000
"""Received rows up to which fits for `FOLDS` folds take seconds; of more, two folds are made."""
MOST_FITTED = 5000
"""Received rows above which summaries of more rows than D_v has are not judged so: it takes minutes."""
SHORTLIST = 3
"""Rows that are chosen from a pool, for each row of the summary, before they are pruned and weighed."""


def cross_validated(
    rows: Rows,
    validation: ReferenceRows,
    p: int,
    labels: Labels | None = None,
    theirs: Labels | None = None,
    pool: bool = False,
    persons: Sequence[str] = (),
) -> tuple[UnseenDistance, UnseenDistance, UnseenDistance] | None:
    """Estimate each form's MMD^2 to the law of D_v; None if D_v has too few rows, or persons.

    Args:
        rows: received rows, encoded, (r, n), r >= 1.
        validation: D_v, encoded, (m, n), and gamma.
        p: most rows with a weight.
        labels: classes of the rows, (r,), or None.
        theirs: classes of D_v, (m,), or None.
        pool: True where the rows are a pool, from which each fold chooses.
        persons: person of each row of D_v, (m,); empty: each row is a person.

    Returns:
        Estimates for rows alike, for weights and for repeats.
    """
    m, gamma = len(validation.rows), validation.gamma
    person = np.unique(np.asarray(persons), return_inverse=True)[1] if persons else np.arange(m)
    sizes = np.bincount(person)
    if len(sizes) < LEAST or (not pool and p > m and len(rows) > MOST_FITTED):
        return None
    random = np.random.default_rng(0)  # equal summaries get equal verdicts
    count = 2 if pool or len(rows) > MOST_RECEIVED else FOLDS
    parts = np.array_split(random.permutation(len(sizes)), count)
    folds = [np.flatnonzero(np.isin(person, part)) for part in parts]
    longer, seen = beside_classes(rows, validation, labels, theirs)
    squared, at_rows = np.zeros(3), np.zeros((3, m))
    for fold in folds:
        fitted, places = np.delete(seen.rows, fold, axis=0), np.arange(len(rows))
        if pool:
            places = shortlist(longer, fitted, SHORTLIST * p, gamma)
        about = received(longer[places], ReferenceRows(fitted, gamma))
        alike = pruned(about.seen, p)
        fit, counts = weigh(about, p, alike), repeat(about, p)
        repeated = np.flatnonzero(counts)
        forms = (
            (alike, np.full(len(alike), 1.0 / len(alike))),
            (fit.indices, fit.weights),
            (repeated, counts[repeated] / counts.sum()),
        )
        for form, (which, weights) in enumerate(forms):
            points = rows[places[which]]
            squared[form] += len(fold) / m * (weights @ kernel_sum_at(points, points, weights, gamma))
            at_rows[form, fold] = kernel_sum_at(validation.rows[fold], points, weights, gamma)
    own = _kernel_of_others(validation.rows, person, gamma)
    square = float(_kernel_of_others(validation.rows, person, 2.0 * gamma).mean())
    of_means = ((m - 1) * float((own**2).mean()) - square) / (m - 2)
    of_pairs = 2.0 * max(square - 2.0 * of_means + float(own.mean()) ** 2, 0.0) * float((sizes**2).sum()) ** 2

    def unseen(form: int) -> UnseenDistance:
        moved = own - at_rows[form]
        of_rows = 4.0 * float((np.bincount(person, moved - moved.mean()) ** 2).sum())
        estimate = float(squared[form] - 2.0 * at_rows[form].mean() + own.mean())
        excess = (1.0 - float(own.mean())) / m / (count - 1)
        return UnseenDistance(estimate, math.sqrt(of_rows / m**2 + of_pairs / m**4), excess)

    return unseen(0), unseen(1), unseen(2)


def _kernel_of_others(rows: Rows, person: IntArray, gamma: float) -> FloatArray:
    """Mean kernel of each row to the rows of other persons, (m,)."""
    sums = len(rows) * kernel_mean_at(rows, rows, gamma)
    sizes = np.bincount(person)
    sums[sizes[person] == 1] -= 1.0
    for each in np.flatnonzero(sizes > 1):
        own = np.flatnonzero(person == each)
        sums[own] -= rbf(rows[own], rows[own], gamma).sum(axis=1)
    return sums / (len(rows) - sizes[person])


Labels = NDArray[np.int64]


def classes_apart(
    labels: Labels | None, weights: NDArray[Any] | None, validation: Labels | None, p: int
) -> float | None:
    """Squared distance of class shares from D_v's, over the mean distance for p fresh rows.

    Fresh rows have a mean squared distance of (1 - sum of squared shares) (1/p + 1/m); a D_v with a single
    class counts as if it had one row more, of another class.

    Args:
        labels: labels of a form's rows, (s,); None: the distance is None, if D_v has labels.
        weights: weights of these rows; None: equal weights.
        validation: labels of D_v's m rows, or None: the distance is 0.
        p: number of requested rows.
    """
    if validation is None:
        return 0.0
    if labels is None:
        return None
    count, m = int(max(labels.max(), validation.max())) + 1, len(validation)
    shares, theirs = (
        np.bincount(of, by, count) / (len(of) if by is None else by.sum())
        for of, by in ((labels, weights), (validation, None))
    )
    spread = max(1.0 - float(theirs @ theirs), 2.0 * m / (m + 1) ** 2)
    return float(((shares - theirs) ** 2).sum()) / (spread * (1.0 / p + 1.0 / m))


@dataclass(frozen=True, slots=True, eq=False)
class Judged:
    """Forms of a summary with the quality of each form.

    Attributes:
        forms: rows of each form.
        alike: quality of p rows with equal weights.
        weighted: quality of rows with weights.
        repeats: quality of p rows with repetitions.
        classes: distance of each form's class shares from D_v's (`classes_apart`).
        by: yardstick of the verdict.
        verdict: verdict on each form.
        unseen: estimates of `cross_validated`, by form; None where there are none.
    """

    forms: Forms
    alike: Evaluation
    weighted: Evaluation
    repeats: Evaluation
    classes: tuple[float | None, ...]
    by: Yardstick
    verdict: QualityVerdict
    unseen: tuple[UnseenDistance | None, ...]

    def to_json(self) -> dict[str, Any]:
        """Plain values, explained in docs/metrics.md."""
        fit = self.forms.fit
        about_fit = {"rows": len(fit), "ridge": fit.ridge, "gap": fit.gap, "least": self.forms.least}
        alike, weighted, repeats = (
            {"effective": effective, "classes": classes, "unseen": unseen and asdict(unseen)}
            for effective, classes, unseen in zip(
                self.forms.effective, self.classes, self.unseen, strict=True
            )
        )
        return (asdict(self.alike) | alike) | {
            "weighted": asdict(self.weighted) | weighted | about_fit,
            "repeats": asdict(self.repeats) | repeats | {"rows": len(self.forms.counts)},
            "spread": self.by.spread,
            "expected": self.by.expected,
            "verdict": asdict(self.verdict),
        }

    def files(self, schema: Schema) -> dict[str, bytes]:
        """Files beside the summary by name, the evaluation last."""
        text = json.dumps(self.to_json(), indent=2) + "\n"
        return self.forms.files(schema) | {EVALUATION: text.encode()}


def judge_tables(
    against: Evaluator,
    schema: Schema,
    validation: Table,
    received: Table,
    summary: Table,
    p: int,
    doubts: Sequence[str] = (),
    pool: Table | None = None,
    persons: Sequence[str] = (),
) -> Judged:
    """Make the forms of a summary and judge each.

    Args:
        against: judges each form.
        schema: schema of all tables.
        validation: D_v.
        received: all received rows.
        summary: rows left by pruning, at least one.
        p: number of requested rows.
        doubts: reasons why the grade is at most fair.
        pool: rows from which exact D_v chose `received`; None where their choice hides each row of D_v.
        persons: person of each row of D_v; empty: each row is a person.
    """
    forms = make_forms(schema, received, summary, against.validation, p, validation.labels)
    alike = against.evaluate_table(schema, forms.summary)
    weighted = against.evaluate_table(schema, forms.weighted, forms.fit.weights)
    repeats = against.evaluate_table(schema, forms.repeats)
    by = yardstick(against.validation.own, len(validation), p)
    evaluations = (alike, weighted, repeats)
    listed = ((forms.summary, None), (forms.weighted, forms.fit.weights), (forms.repeats, None))
    classes = tuple(classes_apart(rows.labels, weights, validation.labels, p) for rows, weights in listed)
    names = ("alike", "weighted", "repeats")
    whole = received if pool is None else pool
    rows, labels = schema.encode(whole.values), whole.labels
    theirs, is_pool = validation.labels, pool is not None
    estimates = cross_validated(rows, against.validation, p, labels, theirs, is_pool, persons)
    unseen = estimates or (None, None, None)
    figures = zip(names, evaluations, classes, unseen, strict=True)
    qualities = {name: FormQuality(of.mmd2, shares, law) for name, of, shares, law in figures}
    verdict = verdict_on(qualities, by, added=added_names(schema))
    doubts = [*doubts_of({"the consumer": validation.reading}, {"the consumer": len(validation)}), *doubts]
    verdict = QualityVerdict(**at_most_fair(asdict(verdict), doubts))
    return Judged(forms, *evaluations, classes, by, verdict, unseen)
