"""Three forms of a summary, made at the consumer from the received rows.

The forms are p rows of equal weight (`summary.npz`); at most p rows with weights (`weighted.npz`: `x`, `y`
and the weights `w`); and p rows with repetitions (`repeats.npz`), for programs that take no weights.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
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
from fedkme.tables.text import csv_encoded, harmless, text_columns

WEIGHTED, REPEATS = "weighted.npz", "repeats.npz"
MOST_ROWS = 50_000
"""Most rows that are weighed, the p rows first: this takes seconds, and half a gigabyte of kernel columns."""


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class ListedRows:
    """Rows of the .csv file, with their weights.

    Attributes:
        table: rows of the summary, then other rows that have a weight.
        weights: (s,) weights in the weighted form, with sum 1.
        alike: (s,) True for rows of the summary.
    """

    table: Table
    weights: NDArray[np.float64]
    alike: NDArray[np.bool_]

    def csv(self, schema: Schema) -> bytes:
        """Make the .csv file, with columns `weight` and `alike` last; no cell is a formula."""
        return csv_of(
            self.table,
            schema,
            {
                "weight": [f"{weight:.6g}" for weight in self.weights.tolist()],
                "alike": ["1" if alike else "0" for alike in self.alike.tolist()],
            },
        )


def csv_of(table: Table, schema: Schema, more: Mapping[str, Sequence[str]]) -> bytes:
    """Make a .csv file of rows with `more` columns, which have other names where the schema has theirs."""
    columns = {
        harmless(name): [harmless(cell) for cell in cells]
        for name, cells in text_columns(table, schema).items()
    }
    for name, cells in more.items():
        columns[added_name(name, schema)] = [*cells]
    return csv_encoded(columns)


def added_name(name: str, schema: Schema) -> str:
    """Name of an added column in a .csv file: `weight`, or `weight_` where the schema has a `weight`."""
    label = [schema.label.name] if schema.label else []
    taken = {harmless(each) for each in (*schema.names, *label)}
    while name in taken:
        name += "_"
    return name


def added_names(schema: Schema) -> tuple[str, str]:
    """Names of the columns of weights and of rows alike in summary.csv."""
    return added_name("weight", schema), added_name("alike", schema)


def unweighted(summary: Table) -> ListedRows:
    """List the rows of a summary before weighing: all weights are equal."""
    size = len(summary)
    return ListedRows(summary, np.full(size, 1 / max(size, 1)), np.ones(size, np.bool_))


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Forms:
    """The forms of a summary.

    Attributes:
        summary: p rows of equal weight.
        weighted: rows with weights.
        fit: weights of these rows, in the same order, and figures of the fit.
        repeats: p rows, equal ones next to each other.
        counts: repetitions of each different row in `repeats`, (s,), > 0.
        least: MMD^2 to D_v of the best weights over all received rows; with their classes, if D_v has
            labels (classes.py).
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
        """Contents of the files besides summary.npz, by name."""
        arrays = {"x": self.weighted.values, "w": self.fit.weights}
        if self.weighted.labels is not None:
            arrays["y"] = self.weighted.labels
        return {WEIGHTED: npz_bytes(arrays), REPEATS: table_bytes(self.repeats), CSV: self.listed.csv(schema)}


def make_forms(
    schema: Schema,
    all_rows: Table,
    summary: Table,
    validation: ReferenceRows,
    p: int,
    labels: NDArray[np.int64] | None = None,
) -> Forms:
    """Weigh and repeat the received rows, with their classes if D_v has labels.

    Args:
        schema: schema of the rows.
        all_rows: all received rows.
        summary: rows left by pruning, at least one.
        validation: D_v, encoded.
        p: number of requested rows.
        labels: classes of D_v, (m,), or None.
    """
    order = joined([summary, rest(all_rows, summary)])
    order = order.take(np.arange(min(len(order), MOST_ROWS)))
    about = received(*beside_classes(schema.encode(order.values), validation, order.labels, labels))
    fit = weigh(about, p, np.arange(min(len(summary), MOST_ROWS)))
    counts = repeat(about, p)
    repeats = order.take(np.repeat(np.arange(len(order)), counts))
    listed = _listed(order, min(len(summary), MOST_ROWS), fit)
    return Forms(summary, order.take(fit.indices), fit, repeats, counts[counts > 0], about.least, listed)


def _listed(order: Table, first: int, fit: WeightedRows) -> ListedRows:
    """List the `first` rows of an order, which are the summary's, and the other rows with a weight."""
    weights = np.zeros(len(order))
    weights[fit.indices] = fit.weights
    places = np.union1d(np.arange(first), fit.indices)
    return ListedRows(order.take(places), weights[places], places < first)


def rest(all_rows: Table, summary: Table) -> Table:
    """Received rows outside the summary; of equal rows, those beyond the summary's number of them."""
    in_summary = defaultdict[bytes, int](int)
    for row in _rows(summary):
        in_summary[row] += 1
    surplus = np.ones(len(all_rows), dtype=np.bool_)
    for place, row in enumerate(_rows(all_rows)):
        if in_summary[row]:
            in_summary[row] -= 1
            surplus[place] = False
    return all_rows.take(surplus)


def _rows(table: Table) -> list[bytes]:
    labels: NDArray[np.int64] = np.zeros(len(table), np.int64) if table.labels is None else table.labels
    return [
        row.tobytes() + label.tobytes()
        for row, label in zip(np.asarray(table.values, np.float64), labels, strict=True)
    ]
