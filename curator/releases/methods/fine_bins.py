"""Bins of a release by its own fine counts: values with codes of their own, and merged bins.

The fine counts have a cell for each bound of a number, and for 0 inside of them. Such a value keeps a code of
its own in all later questions where it *stands out*: where as many rows have it as the least merged bin has,
and clearly more than values beside it. Else its rows are added to the fine bin around it, whose noise is then
that of two counts (`FoldedCounts`), and nothing else differs.

All of this reads noisy counts and public numbers alone: post-processing, which costs nothing. The counts are
on disk before, so a curator that comes back has the same bins. What a curator may name, and why the
sensitivity does not depend on it: `fedkme.features.binning`.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from fedkme.arrays import FloatArray
from fedkme.features.binning import Binning, MergedBins, OwnValues, values_to_name
from fedkme.releases.counts import FoldedCounts, Measurement, folded
from fedkme.releases.fine import LEAST_RUN, worth_merging
from fedkme.tables.schema import Numeric

CLEAR_OWN = 4.0
"""Deviations of noise by which rows with a value must exceed what the bins beside it let expect."""
VALUES_OF_BIN = 10.0
"""Values that rows of a fine bin have where the schema says neither `integer` nor `decimals`."""
MORE_THAN_BESIDE = 2.0
"""Times what the bins beside it let expect that a value must have: numbers near it are not as frequent."""


def bins_by_counts(
    binning: Binning, asked: Binning, fine: Sequence[Measurement], rows: int, noise: float
) -> Binning:
    """Choose the bins of all further questions.

    There are at most so many merged bins that a cell of two numbers has as many rows, on average, as the
    deviation of the noise that is foreseen for a pair, and one more for a tail at either end. Where bins that
    merge can have a whole number by itself, none gets a code beside them: the bins of the others would stay
    even, and noise fill the far ones.

    Args:
        binning: even bins.
        asked: coding of the fine counts.
        fine: counts of numbers by fine bins.
        rows: N.
        noise: deviation of the noise that is foreseen for a pair.
    """
    columns = {column.name: column for column in binning.schema.columns}
    plain = replace(asked, own=())
    most, own, merged = max(2, int(math.sqrt(rows / noise))), list[OwnValues](), list[MergedBins]()
    for measured in fine:
        (place,) = measured.clique
        column = columns.get(binning.names[place])
        if not isinstance(column, Numeric) or column.count > 1:
            continue
        values = measured.values + (rows - measured.values.sum()) / len(measured.values)
        measured = replace(measured, values=values)
        runs = min(most, len(binning.edges(column)) - 1)
        starts = None
        if _separates_values(column, asked):
            starts = _starts(column, binning, plain, folded(measured, asked, plain), runs)
        if starts is None:
            if which := tuple(_standing_out(column, asked, measured, LEAST_RUN * rows / runs)):
                own.append(OwnValues(column.name, which))
            kept = replace(asked, own=tuple(own))
            starts = _starts(column, binning, kept, folded(measured, asked, kept), runs)
        if starts is not None:
            merged.append(MergedBins(column.name, asked.bins, starts))
    return replace(binning, merged=tuple(merged), own=tuple(own))


def _starts(
    column: Numeric, binning: Binning, kept: Binning, counts: FoldedCounts, runs: int
) -> tuple[int, ...] | None:
    """Starts of merged bins beside the own values of a coding; None: even bins stay."""
    bins, (place,) = len(kept.edges(column)) - 1, counts.clique
    return worth_merging(counts.values[:bins], kept.within(place, binning)[:bins], counts.sigma, runs)


def _separates_values(column: Numeric, asked: Binning) -> bool:
    """True where no fine bin has two whole numbers, so that merged bins can have a value by itself."""
    edges = asked.edges(column)
    return column.integer and float(np.diff(edges).max()) <= 1.0


def _standing_out(column: Numeric, asked: Binning, measured: Measurement, least: float) -> Iterator[str]:
    """Own values of a number that many rows have."""
    edges, values = asked.edges(column), values_to_name(column)
    bins = len(edges) - 1
    names = next((own.which for own in asked.own if own.column == column.name), ())
    for code, name in enumerate(names, bins + len(column.atoms)):
        rows = float(measured.values[code])
        beside = _beside(column, edges, measured.values[:bins], values[name])
        clear = rows - beside > CLEAR_OWN * measured.sigma
        if rows >= least and clear and rows > MORE_THAN_BESIDE * beside:
            yield name


def _beside(column: Numeric, edges: FloatArray, counts: FloatArray, value: float) -> float:
    """Rows with a value that the bins around it let expect, if it were as frequent as values beside it."""
    home, values = int(np.searchsorted(edges[1:-1], value, side="right")), VALUES_OF_BIN
    if column.integer or column.decimals is not None:
        values = float(edges[home + 1] - edges[home]) * 10.0 ** (column.decimals or 0)
    return max(float(counts[max(home - 1, 0) : home + 2].mean()), 0.0) / max(values, 1.0)
