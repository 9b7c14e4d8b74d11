"""Further synthetic tables of one release, which show how uncertain it is (docs/releases.md).

A table drawn once more from the fitted model has the same noise in it, and none of its doubt. A copy follows
from a release as it might have been: with what rows drawn at random would have told instead, and with noise
drawn anew (a parametric bootstrap; with many rows, about the law of the population given the release). Its
rows are an independent sample of the model of that, as the rules that combine copies take them to be
(`fedkme.releases.combining`). Nothing private is read.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from fedkme.features.binning import Binning
from fedkme.features.counts import IntArray, marginal_counts
from fedkme.releases.counts import Measurement, StoredCounts
from fedkme.tables.table import Table


def redrawn(
    stored: StoredCounts, codes: IntArray, fine: IntArray, generator: np.random.Generator
) -> StoredCounts:
    """The release of other rows of the same population, with other noise.

    Args:
        stored: the release.
        codes: rows of its model, (k, columns).
        fine: the same rows by fine bins.
        generator: of rows and noise.
    """
    drawn = generator.integers(0, len(codes), stored.rows)

    def told(each: Measurement, rows: IntArray, binning: Binning) -> Measurement:
        found, mean = (
            marginal_counts(part, each.clique, binning.sizes) * (stored.rows / len(part))
            for part in (rows[drawn], rows)
        )
        noise = generator.normal(0.0, each.sigma, len(each.values))
        return Measurement(each.clique, each.values + found - mean + noise, each.sigma)

    return replace(
        stored,
        fitted=tuple(told(each, codes, stored.binning) for each in stored.fitted),
        others=(),
        fine=tuple(told(each, fine, stored.finer) for each in stored.fine),
    )


def sampled(table: Table, generator: np.random.Generator) -> Table:
    """Draw as many independent rows of a table."""
    return table.take(generator.integers(0, len(table), len(table)))
