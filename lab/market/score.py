"""Scores of one summary: error to D_v and to held-back rows, and a model trained on it."""

from __future__ import annotations

import warnings
from dataclasses import dataclass

import numpy as np

from lab.experiments.cells_draw import ExperimentDraw
from lab.market.pool import Chosen


@dataclass(frozen=True, slots=True)
class Score:
    """Scores of one summary.

    Attributes:
        mmd2: squared MMD to D_v in the exact kernel.
        mmd2_test: MMD^2 to the held-back rows.
        accuracy: accuracy of a linear SVM trained on the rows with their weights, on the held-back rows.
        effective: effective sample size, 1 / sum of squared weights.
    """

    mmd2: float
    mmd2_test: float
    accuracy: float
    effective: float


def score(draw: ExperimentDraw, chosen: Chosen) -> Score:
    """Score a summary."""
    effective = 1.0 / float(chosen.weights @ chosen.weights)
    to_validation, to_test = (
        of.mmd2(chosen.rows, chosen.weights) for of in (draw.to_validation, draw.to_test)
    )
    return Score(to_validation, to_test, accuracy(draw, chosen), effective)


def accuracy(draw: ExperimentDraw, chosen: Chosen) -> float:
    """Share of the held-back rows that a linear SVM, trained on weighted rows, tells right."""
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.svm import LinearSVC

    if len(np.unique(chosen.labels)) == 1:
        return float(np.mean(draw.test_labels == chosen.labels[0]))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model = LinearSVC(random_state=0, max_iter=2000)
        model.fit(chosen.rows, chosen.labels, sample_weight=len(chosen.rows) * chosen.weights)
    return float(model.score(draw.test, draw.test_labels))
