"""A quick fit for the rounds of a release: mirror descent on the junction tree, in numpy.

The same algorithm as mbi's `MirrorDescent` (McKenna 2019, Algorithm 1, with Armijo's rule): mbi compiles a
program for each set of cliques, seconds a round, and here a round takes a fraction of one. The model that is
released is mbi's, started from this one.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from curator.releases.marginals.model import Model, check_size
from fedkme.features.counts import Clique
from fedkme.releases.counts import Measurement

FloatArray = NDArray[np.float64]
Tables = dict[Clique, FloatArray]


def quick_fit(
    sizes: Sequence[int],
    measurements: Sequence[Measurement],
    rows: int,
    iterations: int = 150,
    start: Model | None = None,
) -> Model:
    """The model of nearly the largest likelihood for noisy marginals; arguments and errors: see `fit`."""
    cliques = tuple(dict.fromkeys(measurement.clique for measurement in measurements))
    check_size(sizes, cliques)
    # Measurements of one clique are as good as their mean weighted by precision.
    precision = {c: sum(m.sigma**-2 for m in measurements if m.clique == c) for c in cliques}
    target = {
        c: np.reshape(
            sum(m.values * m.sigma**-2 for m in measurements if m.clique == c) / precision[c],
            [sizes[i] for i in c],
        )
        for c in cliques
    }
    potentials = {c: np.zeros([sizes[i] for i in c]) for c in cliques}
    if start is not None:
        potentials.update({c: table.copy() for c, table in start.potentials.items()})

    def evaluated(tables: Tables) -> tuple[float, Tables, Tables]:
        model = Model(sizes, tables)
        counts = {c: rows * model.held(c) for c in cliques}
        slopes = {c: precision[c] * (counts[c] - target[c]) for c in cliques}
        loss = 0.5 * sum(float((slopes[c] ** 2).sum()) / precision[c] for c in cliques)
        return loss, counts, slopes

    step = 2.0 / (rows * max(precision.values()))
    loss, counts, slopes = evaluated(potentials)
    for _ in range(iterations):
        tried = dict(potentials)
        for c in cliques:
            tried[c] = potentials[c] - step * slopes[c]
        new_loss, new_counts, new_slopes = evaluated(tried)
        fall = sum(float((slopes[c] * (counts[c] - new_counts[c])).sum()) for c in cliques)
        if loss - new_loss >= 0.5 * step * fall:
            potentials, loss, counts, slopes = tried, new_loss, new_counts, new_slopes
            step *= 1.1
        else:
            step *= 0.5
    return Model(sizes, potentials)
