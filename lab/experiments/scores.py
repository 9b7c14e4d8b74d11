"""DP-MERF and DP-HP at (1, 1e-5) on the papers' labelled tables, scored by classifiers on real test rows.

Targets: DP-HP, Tables 2 and 7 (mean of 12 classifiers over 5 seeds, hard labels: ROC and PRC for two classes,
F1 for more). The test rows of `census` and `covtype` are of other parts of the source than the papers' (see
lab.experiments.datasets), so their figures stand beside the papers' and do not compare.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Literal

import numpy as np

from fedkme.config import Settings
from fedkme.tables.schema import Schema
from fedkme.tables.table import Table, joined
from lab.experiments.classifiers import NAMES, models
from lab.experiments.curves import CurveValue
from lab.experiments.datasets import SOURCES, Split, load, load_adult
from lab.experiments.paper import method_title, printed_numbers
from lab.experiments.piece import Piece, data_folder
from lab.experiments.synthesis import Choice, Method, rkhs_distance, synthesise
from sim.evaluation.classifiers import evaluate, mean

ADULT = "adult_raw.parquet"

EPSILON = 1.0
_CENSUS_SCALES = {
    "capital_gains": 20.0,
    "capital_losses": 10.0,
    "dividends_from_stocks": 20.0,
    "wage_per_hour": 5.0,
}
CHOICES: Mapping[str, Choice] = {
    "adult": Choice(scales={"capital-gain": 20.0, "capital-loss": 10.0}),
    "census": Choice(gamma=2.0, scales=_CENSUS_SCALES, hermite={"sum_order": 60, "sum_length": 0.05}),
    "credit": Choice(gamma=1.0, hermite={"sum_order": 5, "sum_length": 0.3}),
    "cervical": Choice(
        gamma=0.3, features=200, weight=4.0, hermite={"sum_order": 3, "sum_length": 0.3}, steps=0.5
    ),
    "epileptic": Choice(gamma=1.0, hermite={"sum_order": 20, "sum_length": 0.05}),
    "isolet": Choice(features=500, gamma=0.01, hermite={"sum_order": 2, "sum_length": 0.5}, even=True),
    "intrusion": Choice(gamma=0.5, hermite={"sum_order": 30, "sum_length": 0.05}),
    "covtype": Choice(
        gamma=2.0,
        weight=4.0,
        hermite={"epochs": 11, "product_columns": 2, "sum_order": 20, "sum_length": 0.1},
    ),
}
"""Settings by data set, for both methods."""


class ScoreEffort(Settings):
    """Size of an experiment."""

    steps: int = 500
    """Steps of training."""
    rows: int = 6000
    """Synthetic rows to score, and real ones at most."""
    names: tuple[str, ...] = NAMES
    """Classifiers."""
    seeds: int = 5
    """Seeds of the releases; real rows have one."""


QUICK = ScoreEffort(steps=300, rows=4000, names=("LR", "GNB", "LDA", "DT"), seeds=1)
FULL = ScoreEffort(steps=2000, rows=24_000)
OWNERS = 5
"""Owners who hold the rows; any number gives the same release."""


class ScorePiece(Piece):
    """Classifiers trained on the rows of one release, or on real ones, and scored on real test rows."""

    data: str
    method: Method | Literal["real"]
    effort: ScoreEffort

    def measure(self) -> Iterator[CurveValue]:
        """Yield means over the classifiers, and figures of the test rows and of the release.

        `distance` is the RKHS distance between the training rows that owners kept and the synthetic rows; a
        sample of real rows has it too, for scale.
        """
        schema, split, one_hot = _split(self.data, self.seed)
        size = self.effort
        if self.method == "real":
            synthetic, paid = _real(split.owners, size.rows, self.seed), float("inf")
        else:
            synthetic, paid = synthesise(
                self.method, schema, split.owners, split.rows, EPSILON, self.seed, size.steps, size.rows,
                CHOICES[self.data],
            )  # fmt: skip
        results = evaluate(synthetic, split.test, schema, models(size.names), self.seed, one_hot)
        average = mean(results)
        assert split.test.labels is not None
        positives = float(np.mean(split.test.labels)) if len(schema.classes) == 2 else float("nan")
        figures = {"roc": average.roc, "prc": average.prc, "auc": average.auc, "f1": average.f1}
        figures |= {"positives": positives, "classifiers": len(results), "epsilon": paid}
        figures["distance"] = rkhs_distance(split.owners, synthetic, schema, self.seed)
        for panel, value in figures.items():
            yield CurveValue(panel, self.method, self.data, self.seed, value)


def pieces(data: str, methods: Sequence[Method], effort: ScoreEffort) -> Iterator[ScorePiece]:
    """Pieces of a data set: real rows once, and each method under every seed."""
    yield ScorePiece(data=data, method="real", effort=effort)
    for seed in range(effort.seeds):
        yield from (ScorePiece(data=data, method=method, effort=effort, seed=seed) for method in methods)


def file_of(data: str) -> str:
    """File of a data set in the folder of the data."""
    return ADULT if data == "adult" else SOURCES[data]().file


def notes(measurements: Sequence[CurveValue]) -> list[str]:
    """Say at which shares of positive test rows the paper's pairs of ROC and average precision can be.

    With precision at most 1, hard labels of area a have an average precision of at most
    b + (1 - b) max(2 a - 1, 0) where a share b of the test rows is positive.
    """
    shares = {
        str(measurement.x): measurement.value
        for measurement in measurements
        if measurement.panel == "positives"
    }
    printed, lines = printed_numbers("scores"), []
    for data, share in shares.items():
        for method in dict.fromkeys(measurement.method for measurement in measurements):
            roc, prc = (printed.get((panel, method, data)) for panel in ("roc", "prc"))
            if roc is None or prc is None:
                continue
            bound = most_precision(roc, share)
            if prc > bound:
                lines.append(
                    f"{data}, {method_title(method)}: hard labels with the paper's ROC of {roc:.3f} have an "
                    f"average precision of at most {bound:.3f} where {share:.3f} of the test rows are "
                    f"positive, as here; its {prc:.3f} needs {least_share(roc, prc):.3f}. The paper kept "
                    "other rows: compare ROC."
                )
    return lines


def most_precision(roc: float, share: float) -> float:
    """Largest average precision of hard labels whose area under the ROC curve is `roc`."""
    return share + (1.0 - share) * max(2.0 * roc - 1.0, 0.0)


def least_share(roc: float, prc: float) -> float:
    """Smallest share of positive rows at which hard labels can have both figures."""
    gain = max(2.0 * roc - 1.0, 0.0)
    return max(0.0, (prc - gain) / (1.0 - gain))


def _split(data: str, seed: int) -> tuple[Schema, Split, tuple[str, ...]]:
    """Schema, one draw, and categories that classifiers see as columns."""
    if data == "adult":
        return *load_adult(data_folder() / ADULT, OWNERS, seed), ()
    source = SOURCES[data]()
    return source.schema, load(source, data_folder(), OWNERS, seed), source.one_hot


def _real(owners: Sequence[Table], rows: int, seed: int) -> Table:
    real = joined(owners)
    order = np.random.default_rng(np.random.SeedSequence([seed, 3])).permutation(len(real))
    return real.take(order[:rows])
