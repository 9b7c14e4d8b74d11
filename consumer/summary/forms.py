"""Three forms of a summary, made of the rows that the consumer received, where D_v is.

p rows alike (`summary.npz`), at most p rows with weights (`weighted.npz`: `x`, `y` and the weights `w`), and
p rows of which some are there more than once (`repeats.npz`), for programs that take no weights.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from consumer.results import CSV
from fedkme.embeddings.mmd import ReferenceRows
from fedkme.embeddings.summary_weights import WeightedRows, beside_classes, received, repeat, weigh
from fedkme.tables.files import table_bytes
from fedkme.tables.npz import npz_bytes
from fedkme.tables.schema import Schema
from fedkme.tables.table import Table, joined
from fedkme.tables.text import csv_text, harmless, text_columns

WEIGHTED, REPEATS = "weighted.npz", "repeats.npz"
MOST_ROWS = 50_000
"""Rows that are weighed at most, the p rows first: seconds, and kernel columns of half a gigabyte."""


@dataclass(frozen=True, slots=True, eq=False)
class ListedRows:
    """Rows that a person looks at, with what stands beside them.

    Attributes:
        table: rows of the summary, then those that have a weight alone.
        weights: (s,) in the form with weights; they sum to 1.
        alike: (s,) whether a row is one of the summary.
    """

    table: Table
    weights: NDArray[np.float64]
    alike: NDArray[np.bool_]

    def csv(self, schema: Schema) -> bytes:
        """Rows as a .csv file has them, columns `weight` and `alike` last; no cell is a formula."""
        columns = {
            harmless(name): [harmless(cell) for cell in cells]
            for name, cells in text_columns(self.table, schema).items()
        }
        columns[_free("weight", columns)] = [f"{weight:.6g}" for weight in self.weights.tolist()]
        columns[_free("alike", columns)] = ["1" if alike else "0" for alike in self.alike.tolist()]
        return csv_text(columns).encode()


def unweighted(summary: Table) -> ListedRows:
    """List the rows of a summary that nobody has weighed yet: all weights are equal."""
    size = len(summary)
    return ListedRows(summary, np.full(size, 1 / max(size, 1)), np.ones(size, np.bool_))


def _free(name: str, taken: Mapping[str, object]) -> str:
    return name if name not in taken else _free(f"{name}_", taken)


@dataclass(frozen=True, slots=True, eq=False)
class Forms:
    """The forms of a summary.

    Attributes:
        summary: p rows alike.
        weighted: rows with weights.
        fit: their weights, in the same order, and what is known of the fit.
        repeats: p rows, equal ones beside each other.
        counts: how often each of these is there, (s,), > 0.
        least: MMD^2 to D_v of the best weights over all rows received; where D_v has labels, of rows with
            their classes (classes.py).
        listed: rows of the summary and rows with weights, each once.
    """

    summary: Table
    weighted: Table
    fit: WeightedRows
    repeats: Table
    counts: NDArray[np.int64]
    least: float
    listed: ListedRows

    @property
    def effective(self) -> tuple[float, float, float]:
        """Effective sample sizes of the summary, the weighted rows and the repeats."""
        repeats = float(self.counts.sum() ** 2 / (self.counts**2).sum())
        return float(len(self.summary)), self.fit.effective, repeats

    def files(self, schema: Schema) -> dict[str, bytes]:
        """The forms beside summary.npz, by the name of the file."""
        arrays = {"x": self.weighted.values, "w": self.fit.weights}
        if self.weighted.labels is not None:
            arrays["y"] = self.weighted.labels
        return {WEIGHTED: npz_bytes(arrays), REPEATS: table_bytes(self.repeats), CSV: self.listed.csv(schema)}


def make_forms(
    schema: Schema,
    came: Table,
    summary: Table,
    validation: ReferenceRows,
    p: int,
    labels: NDArray[np.int64] | None = None,
) -> Forms:
    """Weigh and repeat the rows that came, with their classes where D_v has labels.

    Args:
        schema: of the rows.
        came: all rows received.
        summary: those of them that pruning kept, at least one.
        validation: D_v, encoded.
        p: rows that were asked for.
        labels: of D_v, (m,), or None.
    """
    order = joined([summary, rest(came, summary)])
    order = order.take(np.arange(min(len(order), MOST_ROWS)))
    about = received(*beside_classes(schema.encode(order.values), validation, order.labels, labels))
    fit = weigh(about, p, np.arange(min(len(summary), MOST_ROWS)))
    counts = repeat(about, p)
    repeats = order.take(np.repeat(np.arange(len(order)), counts))
    listed = _listed(order, min(len(summary), MOST_ROWS), fit)
    return Forms(summary, order.take(fit.indices), fit, repeats, counts[counts > 0], about.least, listed)


def _listed(order: Table, first: int, fit: WeightedRows) -> ListedRows:
    """List the `first` rows of an order, which are the summary's, and those that have a weight."""
    weights = np.zeros(len(order))
    weights[fit.indices] = fit.weights
    places = np.union1d(np.arange(first), fit.indices)
    return ListedRows(order.take(places), weights[places], places < first)


def rest(came: Table, summary: Table) -> Table:
    """Rows that came and are not in the summary; of equal ones as many as are too many for it."""
    kept = defaultdict[bytes, int](int)
    for row in _rows(summary):
        kept[row] += 1
    left = np.ones(len(came), dtype=np.bool_)
    for place, row in enumerate(_rows(came)):
        if kept[row]:
            kept[row] -= 1
            left[place] = False
    return came.take(left)


def _rows(table: Table) -> list[bytes]:
    labels: NDArray[np.int64] = np.zeros(len(table), np.int64) if table.labels is None else table.labels
    return [
        row.tobytes() + label.tobytes()
        for row, label in zip(np.asarray(table.values, np.float64), labels, strict=True)
    ]
