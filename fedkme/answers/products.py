"""Released products of scores, as evidence about the correlation of two numbers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from fedkme.answers.evidence import ScoredNumber
from fedkme.answers.functions import columns_of
from fedkme.features.binning import Binning
from fedkme.features.counts import SCORE_STEPS, NumberScores
from fedkme.releases.counts import Products
from fedkme.releases.fine import FineShares
from fedkme.tables.columns import Numeric


@dataclass(frozen=True, eq=False, slots=True)
class ReleasedProduct:
    """Sum over all rows of the product of two scores, with noise.

    Attributes:
        scores: the scores.
        total: the sum.
    """

    scores: tuple[NumberScores, NumberScores]
    total: float


def product_of(products: Products, names: Sequence[str], one: str, two: str) -> ReleasedProduct | None:
    """Product of the scores of two numbers by value; None where it was not released.

    Args:
        products: released products of scores.
        names: names of all columns.
        one: name of a number.
        two: name of another number.
    """
    scores = {names[each.column]: each for each in products.values}
    if one == two or one not in scores or two not in scores:
        return None
    places = [*scores]
    first, second = sorted((places.index(one), places.index(two)))
    at = first * len(places) - first * (first + 1) // 2 + second - first - 1
    return ReleasedProduct((scores[one], scores[two]), float(products.value_sums[at]))


def scored_number(scores: NumberScores, finer: Binning, shares: FineShares) -> ScoredNumber:
    """A number by fine bins, with its scores and denoised shares."""
    column = columns_of(finer.coded)[finer.names[scores.column]]
    assert isinstance(column, Numeric)
    half = (np.diff(finer.edges(column)) - column.integer) / 2.0
    return ScoredNumber(
        np.array(scores.of) / SCORE_STEPS,
        finer.middles(column),
        np.concatenate([half, np.zeros(len(column.atoms))]),
        shares.denoised,
        shares.deviation,
        shares.law,
    )
