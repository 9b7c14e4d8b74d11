"""Shares of synthetic and of real rows by value, for the few columns that a page draws."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedkme.tables.columns import Numeric, date_of
from fedkme.tables.schema import Category, Schema
from fedkme.tables.table import Table

MOST_VALUES = 10
"""Bars of one column; what is rarest among real rows is put together."""
BINS = 8
"""Bins of a number."""


def shares(synthetic: Table, real: Table, schema: Schema, chosen: NDArray[np.intp]) -> list[dict[str, Any]]:
    """Shares by value of the label, where both have one, and of some columns.

    Args:
        synthetic: what was made; one row at least.
        real: all owners' rows; one at least.
        schema: of both.
        chosen: positions of columns, in order.

    Returns:
        By column `name`, `values` as text, and the shares of `synthetic` and `real` rows that have them.
    """
    found = []
    if schema.label is not None and synthetic.labels is not None and real.labels is not None:
        found.append(_of_levels(schema.label.name, schema.label.classes, synthetic.labels, real.labels))
    columns = [(column, name) for column in schema.columns for name in column.names]
    for position in chosen.tolist():
        column, name = columns[position]
        made, held = synthetic.values[:, position], real.values[:, position]
        if isinstance(column, Category):
            found.append(_of_levels(name, column.categories, made, held))
        else:
            found.append(_of_numbers(column, name, made, held))
    return found


def _of_levels(name: str, levels: Sequence[str], made: NDArray[Any], held: NDArray[Any]) -> dict[str, Any]:
    counts = [np.bincount(x.astype(np.int64), minlength=len(levels)) / len(x) for x in (made, held)]
    if len(levels) <= MOST_VALUES:
        return _entry(name, levels, *counts)
    order = np.argsort(-counts[1], kind="stable")
    kept, rest = np.sort(order[: MOST_VALUES - 1]), order[MOST_VALUES - 1 :]
    shown = [np.append(count[kept], count[rest].sum()) for count in counts]
    return _entry(name, [*(levels[at] for at in kept), f"{len(rest)} others"], *shown)


def _of_numbers(column: Numeric, name: str, made: NDArray[Any], held: NDArray[Any]) -> dict[str, Any]:
    """Equal intervals between the 1st and the 99th percentile of real rows; the outer ones are open.

    Those of dates and of whole numbers begin at one.
    """
    whole, dated = column.integer or column.kind == "date", column.kind == "date"
    said = date_of if dated else partial(_number, whole)
    low, high = (float(edge) for edge in np.percentile(held, (1, 99)))
    if low == high:
        low, high = float(held.min()), float(held.max())
    if low == high:
        sides = [np.array([np.mean(x < low), np.mean(x == low), np.mean(x > low)]) for x in (made, held)]
        return _entry(name, [f"< {said(low)}", said(low), f"> {said(low)}"], *sides)
    inner = np.linspace(low, high, BINS + 1)[1:-1]
    if whole:
        inner = np.unique(np.ceil(inner))
    bins = len(inner) + 1
    counts = [np.bincount(np.searchsorted(inner, x, "right"), minlength=bins) / len(x) for x in (made, held)]
    middle = [f"from {said(a)}" if dated else f"{said(a)} to {said(b)}" for a, b in pairwise(inner)]
    return _entry(name, [f"< {said(inner[0])}", *middle, f"≥ {said(inner[-1])}"], *counts)


def _number(whole: bool, value: float) -> str:
    return f"{value:,.0f}" if whole or abs(value) >= 1000 else f"{value:.4g}"


def _entry(
    name: str, values: Sequence[str], made: NDArray[np.float64], held: NDArray[np.float64]
) -> dict[str, Any]:
    return {"name": name, "values": list(values), "synthetic": made.tolist(), "real": held.tolist()}
