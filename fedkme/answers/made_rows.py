"""Answers that rows give themselves: those made of a release, or those of a table."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from fedkme.answers.functions import ONE, Function, Values, values_of
from fedkme.answers.quantities import Correlation, Quantile, Quantity, Ratio, Variance
from fedkme.arrays import FloatArray
from fedkme.tables.schema import Schema
from fedkme.tables.table import Table


@dataclass(frozen=True, slots=True)
class Made:
    """Rows that were made of a release, for questions that it does not answer itself, with their weights."""

    table: Table
    weights: FloatArray | None = None


def value_in_rows(quantity: Quantity, schema: Schema, total: int, made: Made) -> float:
    """Value of a quantity among rows.

    Args:
        quantity: of the question.
        schema: of the rows.
        total: rows that the rows stand for, for counts and sums.
        made: the rows, with their weights.
    """
    values = values_of(made.table, schema)
    count = len(made.table)
    weights = np.full(count, 1.0 / count) if made.weights is None else made.weights

    def mean(function: Function) -> float:
        return float(weights @ np.broadcast_to(_evaluated(function, values), count))

    def ratio(asked: Ratio) -> float:
        under = mean(asked.denominator or ONE)
        value = asked.offset + mean(asked.numerator) / under if under > 0.0 else math.nan
        return min(max(value, asked.limits[0]), asked.limits[1])  # weights may be negative

    def variance(asked: Variance) -> float:
        value = ratio(asked.around(ratio(asked.mean)))
        return min(value, asked.limits[1])

    match quantity:
        case Ratio():
            value, scale = ratio(quantity), total if quantity.total else 1
        case Variance():
            value, scale = variance(quantity), 1
        case Correlation(one, two):
            units = [math.sqrt(max(variance(each), 0.0)) for each in (one, two)]
            if not all(unit > 0.0 for unit in units):
                return math.nan
            asked = quantity.around([ratio(each.mean) for each in (one, two)], units)
            value, scale = ratio(asked), 1
        case Quantile(name, _, level, rows):
            held = np.broadcast_to(_evaluated(rows, values), count) * weights
            order = np.argsort(values[name])
            place = int(np.searchsorted(np.cumsum(held[order]), level * held.sum()))
            value, scale = float(values[name][order[min(place, count - 1)]]), 1
    return value * scale


def _evaluated(function: Function, values: Values) -> FloatArray:
    return function.of(values) if function.columns <= values.keys() else np.full((), math.nan)
