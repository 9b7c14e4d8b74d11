"""Scores: figures of made rows, by tests of several authors."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedkme.tables.schema import Numeric
from fedkme.tables.table import Table
from lab.experiments.classifiers import models
from lab.experiments.marginals import exact
from lab.referee.entrants import run_file
from lab.referee.tables import RefereeSplit, RefereeTable, codes, columns_of_table
from sim.evaluation import classifiers

HERE = Path(__file__).parent / "programs" / "scorers"
TRIPLES = 150
"""Triples of columns that three-way errors are over, at most, drawn once."""


@dataclass(frozen=True, slots=True)
class FigureKind:
    """Figure of a score.

    Attributes:
        by: who wrote the test, or its name.
        better: 1 where larger is better, -1 where smaller is.
        slack: difference that is none.
        relative: share of the other's figure that is no difference either.
    """

    by: str
    better: int
    slack: float
    relative: float = 0.0

    def behind(self, ours: float, theirs: float, margin: float = 0.0) -> bool:
        """Check whether ours is worse than theirs by more than slack and margin; NaN, no figure, is worst."""
        if np.isnan(ours):
            return not np.isnan(theirs)
        return self.better * (theirs - ours) > max(self.slack, self.relative * abs(theirs)) + margin


_TV = FigureKind("TV", -1, 0.0005, 0.03)
KINDS: Mapping[str, FigureKind] = {
    "two-way error": _TV,
    "three-way error": _TV,
    "rank correlation error": FigureKind("Spearman", -1, 0.003, 0.05),
    "AUC logistic": FigureKind("scikit-learn", 1, 0.003),
    "AUC boosted": FigureKind("scikit-learn", 1, 0.003),
    "label right, forest": FigureKind("scikit-learn", 1, 0.005),
    "impossible records": FigureKind("rules here", -1, 0.0005, 0.03),
    "K-marginal": FigureKind("SDNist", 1, 1.0),
    "inconsistent, age": FigureKind("SDNist", -1, 0.0005, 0.03),
    "inconsistent, housing": FigureKind("SDNist", -1, 0.0005, 0.03),
    "SDMetrics quality": FigureKind("SDMetrics", 1, 0.002),
    "SDMetrics pair trends": FigureKind("SDMetrics", 1, 0.003),
    "singling out risk": FigureKind("anonymeter", -1, 0.02),
    "linkability risk": FigureKind("anonymeter", -1, 0.02),
    "inference risk": FigureKind("anonymeter", -1, 0.1),
    "disclosure risk": FigureKind("SDMetrics", -1, 0.01),
    "MMD^2 alike": FigureKind("MMD", -1, 0.0, 0.01),
    "MMD^2 weighted": FigureKind("MMD", -1, 0.0, 0.01),
    "MMD^2 unseen": FigureKind("MMD", -1, 0.0, 0.01),
    "accuracy of chosen rows": FigureKind("scikit-learn", 1, 0.005),
    "checkpoint vectors right": FigureKind("sigstore-conformance", 1, 0.0),
    "answers to grpc's clients": FigureKind("grpcio", 1, 0.0),
    "complaints about metrics": FigureKind("promtool", -1, 0.0),
    "image labels there": FigureKind("Open Container", 1, 0.0),
    "complaints about units": FigureKind("systemd-analyze", -1, 0.0),
    "errors of a dossier": FigureKind("mlcroissant", -1, 0.0),
    "epsilon off by": FigureKind("dp_accounting", -1, 0.0),
    "CPU seconds": FigureKind("wait4", -1, 1.0, 0.25),
    "memory MB": FigureKind("wait4", -1, 10.0, 0.1),
}
"""All figures by name."""


@dataclass(frozen=True, slots=True)
class MadeRows:
    """Rows of an entrant, and the real rows to compare with."""

    table: RefereeTable
    split: RefereeSplit
    made: Table
    folder: Path
    seed: int


Figures = dict[str, float]


@dataclass(frozen=True)
class RefereeScore:
    """Some figures of made rows.

    Attributes:
        names: names of the figures, in `KINDS`.
        fits: whether a table, by name, has what the score needs.
        measure: computes them, given the interpreter.
        environment: whose interpreter it needs; empty: none.
        version: version of the code here; the environment's package adds its own.
    """

    names: tuple[str, ...]
    fits: Callable[[str, RefereeTable], bool]
    measure: Callable[[MadeRows, Path], Figures]
    environment: str = ""
    version: str = "1"


def _marginals(rows: MadeRows, _: Path) -> Figures:
    train, schema = rows.split.train, rows.table.schema
    real, made = (codes(each, train, schema) for each in (train, rows.made))
    return {"two-way error": exact(real, made, 2), "three-way error": exact(real, made, 3, limit=TRIPLES)}


def _ranks(rows: MadeRows, _: Path) -> Figures:
    real, made = (_rank_correlations(rows, each) for each in (rows.split.train, rows.made))
    return {"rank correlation error": float(np.mean(np.abs(real - made)))}


def _rank_correlations(rows: MadeRows, table: Table) -> NDArray[np.float64]:
    """Spearman's rho of each two ordered columns; 0 where one is constant."""
    from scipy.stats import rankdata

    names = rows.table.schema.names
    ranks = [rankdata(table.values[:, names.index(name)]) for name in rows.table.ordered]
    return np.array(
        [np.corrcoef(a, b)[0, 1] if np.ptp(a) and np.ptp(b) else 0.0 for a, b in combinations(ranks, 2)]
    )


def _models(rows: MadeRows, _: Path) -> Figures:
    schema = rows.table.schema
    one_hot = tuple(column.name for column in schema.columns if not isinstance(column, Numeric))
    scores = classifiers.evaluate(
        rows.made, rows.split.test, schema, models(("LR", "GBM")), rows.seed, one_hot
    )
    return {
        "AUC logistic": _chance_if_none(scores["LR"].auc),
        "AUC boosted": _chance_if_none(scores["GBM"].auc),
    }


def _chance_if_none(auc: float) -> float:
    """Chance, where the made rows have one class and there is no ranking."""
    return 0.5 if np.isnan(auc) else auc


def _forest(rows: MadeRows, _: Path) -> Figures:
    scores = classifiers.evaluate(rows.made, rows.split.test, rows.table.schema, models(("RF",)), rows.seed)
    return {"label right, forest": scores["RF"].accuracy}


def _impossible(rows: MadeRows, _: Path) -> Figures:
    frame = columns_of_table(rows.made, rows.table.schema)
    broken = np.zeros(len(rows.made), dtype=np.bool_)
    for rule in rows.table.rules.values():
        broken |= rule(frame)
    return {"impossible records": float(broken.mean())}


def _outside(file: str) -> Callable[[MadeRows, Path], Figures]:
    """Score that a file computes in an environment of its own."""

    def measure(rows: MadeRows, python: Path) -> Figures:
        cost = run_file(python, HERE / file, rows.folder, 900.0)
        if cost.failure:
            raise RuntimeError(f"{file}: {cost.failure}")
        figures: Any = json.loads((rows.folder / "figures.json").read_text(encoding="utf-8"))
        return {str(name): float(value) for name, value in figures.items()}

    return measure


def _is_xor(name: str) -> bool:
    return name.startswith("xor")


def _has_two_classes(name: str, table: RefereeTable) -> bool:
    return len(table.schema.classes) == 2 and not _is_xor(name) and name != "adult-thirds"


SCORES: tuple[RefereeScore, ...] = (
    RefereeScore(
        ("two-way error", "three-way error"), lambda name, table: name != "adult-thirds", _marginals
    ),
    RefereeScore(
        ("rank correlation error",),
        lambda name, table: bool(table.ordered) and name != "adult-thirds",
        _ranks,
    ),
    RefereeScore(("AUC logistic", "AUC boosted"), _has_two_classes, _models),
    RefereeScore(("label right, forest",), lambda name, table: _is_xor(name) or name == "covtype", _forest),
    RefereeScore(
        ("impossible records",), lambda name, table: bool(table.rules) and name != "adult-thirds", _impossible
    ),
    RefereeScore(
        ("K-marginal", "inconsistent, age", "inconsistent, housing"),
        lambda name, table: name == "acs",
        _outside("sdnist_report.py"),
        "sdnist",
    ),
    RefereeScore(
        ("SDMetrics quality", "SDMetrics pair trends"),
        lambda name, table: name in ("adult", "acs"),
        _outside("sdmetrics_quality.py"),
        "sdmetrics",
    ),
    RefereeScore(
        ("singling out risk", "linkability risk", "inference risk"),
        lambda name, table: name == "adult-thirds",
        _outside("anonymeter_risks.py"),
        "anonymeter",
    ),
    RefereeScore(
        ("disclosure risk",),
        lambda name, table: name == "adult-thirds",
        _outside("sdmetrics_disclosure.py"),
        "sdmetrics",
    ),
)
"""All scores; risks are of equal thirds alone: with fewer control rows anonymeter condemns good releases."""
