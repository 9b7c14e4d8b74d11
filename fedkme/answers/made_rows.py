"""Exact answers from rows: the synthetic rows of a release, or the rows of a table."""

import math
from dataclasses import dataclass

import numpy as np

from fedkme.answers.functions import ONE, Function, Values, values_of
from fedkme.answers.quantities import Correlation, Quantile, Quantity, Ratio, Variance
from fedkme.arrays import FloatArray
from fedkme.tables.schema import Schema
from fedkme.tables.table import Table

_CLEAR = 2.0
"""Deviations of an estimate's noise within which the synthetic rows' value is the better one."""


@dataclass(frozen=True, slots=True)
class WeightedTable:
    """Rows with weights that add up to 1, (k,); None: all rows weigh the same."""

    table: Table
    weights: FloatArray | None = None


def value_in_rows(quantity: Quantity, schema: Schema, total: int, rows: WeightedTable) -> float:
    """Value of a quantity among rows.

    Args:
        quantity: quantity that is asked for.
        schema: schema of the rows.
        total: number of rows that `rows` stand for, which scales counts and sums.
        rows: the rows, with their weights.
    """
    values = values_of(rows.table, schema)
    count = len(rows.table)
    weights = np.full(count, 1.0 / count) if rows.weights is None else rows.weights

    def mean(function: Function) -> float:
        return float(weights @ np.broadcast_to(_evaluated(function, values), count))

    def ratio(quotient: Ratio) -> float:
        under = mean(quotient.denominator or ONE)
        value = quotient.offset + mean(quotient.numerator) / under if under > 0.0 else math.nan
        return min(max(value, quotient.limits[0]), quotient.limits[1])  # weights may be negative

    def variance(column: Variance) -> float:
        return min(ratio(column.around(ratio(column.mean))), column.limits[1])

    match quantity:
        case Ratio():
            return ratio(quantity) * (total if quantity.total else 1)
        case Variance():
            return variance(quantity)
        case Correlation(one, two):
            units = [math.sqrt(max(variance(each), 0.0)) for each in (one, two)]
            if not all(unit > 0.0 for unit in units):
                return math.nan
            return ratio(quantity.around([ratio(each.mean) for each in (one, two)], units))
        case Quantile(name, _, level, group):
            shares = np.broadcast_to(_evaluated(group, values), count) * weights
            if not shares.sum() > 0.0:
                return math.nan
            order = np.argsort(values[name])
            place = int(np.searchsorted(np.cumsum(shares[order]), level * shares.sum()))
            return float(values[name][order[min(place, count - 1)]])


def drawn_to(made: float, estimate: float, doubt: float) -> float:
    """Draw an unbiased estimate to the synthetic rows' value, as far as its noise explains the difference.

    Of the difference d the part (d^2 - 4 v) / d^2 is kept, or none (James and Stein 1961, the positive part,
    towards a point): nothing within two deviations. The rows are fitted to all released numbers, of which the
    estimate has a few, so they are mostly nearer; v in place of 4 v lost to them (lab/tried/releases.md).

    Args:
        made: value among the synthetic rows.
        estimate: the estimate.
        doubt: v, its variance.
    """
    far = estimate - made
    return made + (max(far**2 - _CLEAR**2 * doubt, 0.0) / far if far else 0.0)


def _evaluated(function: Function, values: Values) -> FloatArray:
    """Values of a function at the rows; NaN where the rows lack a column of the function."""
    return function.of(values) if function.columns <= values.keys() else np.full((), math.nan)
