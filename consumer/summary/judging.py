"""Judging of a received summary, on data that never leave; the request and its cost do not change.

**Cross-validated MMD^2**: weights fitted to one half of D_v, judged by the other half.

Let w be weights of the received rows by the rule of `weigh` (with classes where D_v has labels, as the forms
are made), fitted to a random half of D_v, and B the k rows of the other half. Given w, w'Kw - 2 c_B'w + (mean
of k over pairs of two different rows of B) is an unbiased estimate of |sum_i w_i phi(x_i) - mu|^2, mu the
mean of D_v's law: the rows of B are draws of that law that w was not fitted to. (The received rows depend on
noisy counts of all of D_v, which hide any one row.) Each half is held out in turn, in `SPLITS` random splits,
and the estimate is the mean. It is too large by at most about (1 - k) / m, as the weights of the summary are
fitted to twice as many rows.

Rows that D_v chose from a pool exactly, as those for a target (`consumer.target.matching`), would carry the
other half into the estimate. So each half chooses its own rows from the pool, in one split: a choice from
50,000 rows takes seconds.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from consumer.results import EVALUATION
from consumer.summary.evaluation import Evaluation, Evaluator
from consumer.summary.forms import Forms, added_names, make_forms
from consumer.summary.verdict import FormQuality, Yardstick, doubts_of, verdict_on, yardstick
from fedkme.arrays import Rows
from fedkme.embeddings.mmd import ReferenceRows
from fedkme.embeddings.prune import pruned
from fedkme.embeddings.selection import shortlist
from fedkme.embeddings.summary_weights import beside_classes, received, repeat, weigh
from fedkme.tables.schema import Schema
from fedkme.tables.table import Table
from fedkme.verdict import QualityVerdict, at_most_fair

LEAST = 60
"""Rows of D_v below which the estimate would be noise."""
MOST_RECEIVED = 5000
"""Received rows up to which eight more fits take seconds."""
SPLITS = 4
SHORTLIST = 3
"""Rows that are chosen from a pool, for each row of the summary, before they are pruned and weighed."""


def by_halves(
    rows: Rows,
    validation: ReferenceRows,
    p: int,
    labels: Labels | None = None,
    theirs: Labels | None = None,
    pool: bool = False,
) -> tuple[float, float, float] | None:
    """Estimate each form's MMD^2 to the law of D_v; None if the estimates would be noise, or slow.

    Args:
        rows: received rows, encoded, (r, n), r >= 1.
        validation: D_v, encoded, (m, n), and gamma.
        p: most rows with a weight.
        labels: classes of the rows, (r,), or None.
        theirs: classes of D_v, (m,), or None.
        pool: True where the rows are a pool, from which each half chooses.

    Returns:
        Estimates for rows alike, for weights and for repeats.
    """
    m = len(validation.rows)
    if m < LEAST or (len(rows) > MOST_RECEIVED and not pool):
        return None
    random = np.random.default_rng(0)  # equal summaries get equal verdicts
    halves = [np.array_split(random.permutation(m), 2) for _ in range(1 if pool else SPLITS)]
    pairs = [pair for first, second in halves for pair in ((first, second), (second, first))]
    longer, seen = beside_classes(rows, validation, labels, theirs)
    estimates = []
    for fitted, other in pairs:
        half, places = seen.rows[fitted], np.arange(len(rows))
        if pool:
            places = shortlist(longer, half, SHORTLIST * p, seen.gamma)
        about = received(longer[places], ReferenceRows(half, seen.gamma))
        alike = pruned(about.seen, p)
        fit, counts = weigh(about, p, alike), repeat(about, p)
        repeated = np.flatnonzero(counts)
        held_out = ReferenceRows(validation.rows[other], validation.gamma)
        noise = (1.0 - held_out.own) / (len(other) - 1)
        forms = (
            (alike, np.full(len(alike), 1.0 / len(alike))),
            (fit.indices, fit.weights),
            (repeated, counts[repeated] / counts.sum()),
        )
        estimates.append([held_out.mmd2(rows[places[which]], weights) - noise for which, weights in forms])
    alike_mean, weighted_mean, repeats_mean = np.mean(estimates, axis=0).tolist()
    return alike_mean, weighted_mean, repeats_mean


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
        halves: estimates of `by_halves`, by form; None where there are none, or a form is good without.
    """

    forms: Forms
    alike: Evaluation
    weighted: Evaluation
    repeats: Evaluation
    classes: tuple[float | None, ...]
    by: Yardstick
    verdict: QualityVerdict
    halves: tuple[float | None, float | None, float | None]

    def to_json(self) -> dict[str, Any]:
        """Plain values, explained in docs/metrics.md."""
        fit = self.forms.fit
        about_fit = {"rows": len(fit), "ridge": fit.ridge, "gap": fit.gap, "least": self.forms.least}
        alike, weighted, repeats = (
            {"effective": effective, "classes": classes, "halves": halves}
            for effective, classes, halves in zip(
                self.forms.effective, self.classes, self.halves, strict=True
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
    halves: tuple[float | None, float | None, float | None] = (None, None, None)

    def judged() -> QualityVerdict:
        figures = zip(names, evaluations, forms.effective, classes, halves, strict=True)
        of_forms = {
            name: FormQuality(of.mmd2, size, shares, other) for name, of, size, shares, other in figures
        }
        return verdict_on(of_forms, by, added=added_names(schema))

    verdict = judged()
    if verdict.grade != "good":
        whole = received if pool is None else pool
        rows, labels = schema.encode(whole.values), whole.labels
        estimates = by_halves(rows, against.validation, p, labels, validation.labels, pool is not None)
        halves = estimates or (None, None, None)
        verdict = judged()
    doubts = [*doubts_of({"the consumer": validation.reading}, {"the consumer": len(validation)}), *doubts]
    verdict = QualityVerdict(**at_most_fair(asdict(verdict), doubts))
    return Judged(forms, *evaluations, classes, by, verdict, halves)
