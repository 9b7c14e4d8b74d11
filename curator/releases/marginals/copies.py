"""Further synthetic tables of one release, which show how uncertain it is (docs/releases.md).

A table drawn once more from the fitted model has the same noise in it, and none of its doubt. A copy follows
from a release as it might have been, with noise drawn anew; its rows are as many as were released, an
independent sample of the model of that. So a copy differs from the release as the release does from the
population: by noise of the same law, and by as many rows drawn from a population. This is what the rule that
combines copies takes them to be (`fedkme.releases.combining`). Nothing private is read.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from fedkme.releases.counts import Measurement, StoredCounts
from fedkme.tables.table import Table


def redrawn(stored: StoredCounts, generator: np.random.Generator) -> StoredCounts:
    """The release with other noise on top of its own."""

    def told(each: Measurement) -> Measurement:
        return replace(each, values=each.values + generator.normal(0.0, each.sigma, len(each.values)))

    return replace(
        stored, fitted=tuple(map(told, stored.fitted)), others=(), fine=tuple(map(told, stored.fine))
    )


def sampled(table: Table, generator: np.random.Generator) -> Table:
    """Draw as many independent rows of a table."""
    return table.take(generator.integers(0, len(table), len(table)))
