"""Shares of synthetic and real rows by value, for the few columns that a page draws."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedkme.tables.cells import date_of
from fedkme.tables.columns import Numeric
from fedkme.tables.schema import Category, Schema
from fedkme.tables.table import Table

MOST_VALUES = 10
"""Most bars of a category; the values that are rarest among real rows share the last bar."""
BINS = 8
"""Bins of a numeric column."""


def shares(synthetic: Table, real: Table, schema: Schema, chosen: NDArray[np.intp]) -> list[dict[str, Any]]:
    """Shares by value of the label, if both tables have labels, and of some columns.

    Args:
        synthetic: the synthetic rows, at least one.
        real: all owners' rows, at least one.
        schema: of both.
        chosen: positions of columns, in order.

    Returns:
        For each column: `name`, `values` as text, and the shares of `synthetic` and `real` rows by value.
    """
    entries = []
    if schema.label is not None and synthetic.labels is not None and real.labels is not None:
        entries.append(_of_levels(schema.label.name, schema.label.classes, synthetic.labels, real.labels))
    columns = [(column, name) for column in schema.columns for name in column.names]
    for position in chosen.tolist():
        column, name = columns[position]
        ours, held = synthetic.values[:, position], real.values[:, position]
        if isinstance(column, Category):
            entries.append(_of_levels(name, column.categories, ours, held))
        else:
            entries.append(_of_numbers(column, name, ours, held))
    return entries


def _of_levels(
    name: str, levels: Sequence[str], synthetic: NDArray[Any], real: NDArray[Any]
) -> dict[str, Any]:
    counts = [np.bincount(x.astype(np.int64), minlength=len(levels)) / len(x) for x in (synthetic, real)]
    if len(levels) <= MOST_VALUES:
        return _entry(name, levels, *counts)
    order = np.argsort(-counts[1], kind="stable")
    frequent, rest = np.sort(order[: MOST_VALUES - 1]), order[MOST_VALUES - 1 :]
    shown = [np.append(count[frequent], count[rest].sum()) for count in counts]
    return _entry(name, [*(levels[at] for at in frequent), f"{len(rest)} others"], *shown)


def _of_numbers(column: Numeric, name: str, synthetic: NDArray[Any], real: NDArray[Any]) -> dict[str, Any]:
    """Shares in equal intervals between the 1st and the 99th percentile of real rows; the outer are open.

    Intervals of dates and of whole numbers begin at a date or a whole number.
    """
    whole, dated = column.integer or column.kind == "date", column.kind == "date"
    text = date_of if dated else partial(_number, whole)
    low, high = (float(edge) for edge in np.percentile(real, (1, 99)))
    if low == high:
        low, high = float(real.min()), float(real.max())
    if low == high:
        sides = [np.array([np.mean(x < low), np.mean(x == low), np.mean(x > low)]) for x in (synthetic, real)]
        return _entry(name, [f"< {text(low)}", text(low), f"> {text(low)}"], *sides)
    inner = np.linspace(low, high, BINS + 1)[1:-1]
    if whole:
        inner = np.unique(np.ceil(inner))
    bins = len(inner) + 1
    counts = [
        np.bincount(np.searchsorted(inner, x, "right"), minlength=bins) / len(x) for x in (synthetic, real)
    ]
    middle = [f"from {text(a)}" if dated else f"{text(a)} to {text(b)}" for a, b in pairwise(inner)]
    return _entry(name, [f"< {text(inner[0])}", *middle, f"≥ {text(inner[-1])}"], *counts)


def _number(whole: bool, value: float) -> str:
    return f"{value:,.0f}" if whole or abs(value) >= 1000 else f"{value:.4g}"


def _entry(
    name: str, values: Sequence[str], synthetic: NDArray[np.float64], real: NDArray[np.float64]
) -> dict[str, Any]:
    return {"name": name, "values": list(values), "synthetic": synthetic.tolist(), "real": real.tolist()}
