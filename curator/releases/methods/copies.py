"""Copies of a release of marginals: further noise, and rows drawn independently."""

from dataclasses import replace

import numpy as np

from fedkme.releases.counts import Measurement, StoredCounts
from fedkme.tables.table import Table


def redrawn(stored: StoredCounts, generator: np.random.Generator) -> StoredCounts:
    """Add further noise to a release, from which a copy follows that shows how uncertain the release is.

    A copy is an independent sample (`sampled`) of the model that is fitted to the redrawn release, with as
    many rows as were released. So a copy differs from the release as the release does from the population: by
    noise of the same law, and by the same number of rows drawn. The rule that combines copies assumes this
    (`fedkme.releases.combining`, docs/releases.md). A second table drawn from the release's own model would
    have the same noise, and show none of its uncertainty. Nothing private is read.
    """

    def with_noise(measurement: Measurement) -> Measurement:
        values = measurement.values
        return replace(measurement, values=values + generator.normal(0.0, measurement.sigma, len(values)))

    tables = (stored.fitted, stored.fine, stored.grouped, stored.tilts)
    fitted, fine, grouped, tilts = (tuple(map(with_noise, measured)) for measured in tables)
    products = stored.products
    if products is not None:
        ranks, values = (
            sums + generator.normal(0.0, products.sigma, len(sums))
            for sums in (products.rank_sums, products.value_sums)
        )
        products = replace(products, rank_sums=ranks, value_sums=values)
    return replace(
        stored, fitted=fitted, others=(), fine=fine, grouped=grouped, tilts=tilts, products=products
    )


def sampled(table: Table, generator: np.random.Generator) -> Table:
    """Draw as many rows from a table as it has, independently."""
    return table.take(generator.integers(0, len(table), len(table)))
