"""Independent normal columns as a release: noisy moments of every column, and rows that have them.

**Neighbouring relation** replace one row of one owner; N is public. **Claim** the release is
(epsilon, delta)-DP towards whoever receives it. *Proof.* The owners are asked one question, the sum of phi
(fedkme_example/moments.py) over all rows, whose replace-one sensitivity is the spread of phi. Gaussian noise
is added once, calibrated exactly to (epsilon, delta) by `PooledRelease`. Rows are drawn from the noisy
moments and a public seed alone: post-processing. QED.

A label is left out.
"""

from __future__ import annotations

import math
from functools import partial

import numpy as np
from numpy.typing import NDArray
from typing_extensions import override

from curator.releases.files import card_of, distance_to_release, make_synthetic
from curator.releases.method import Making
from curator.releases.methods.base import EmbeddingMethod, Question, as_seed
from fedkme.features.sums import Layout
from fedkme.privacy.sums import PooledRelease, embedding_query
from fedkme.releases.file import StoredRelease
from fedkme.tables.schema import Schema
from fedkme.tables.table import Table
from fedkme_example.moments import MomentsSpec
from fedkme_example.settings import NormalSettings


class NormalRows(EmbeddingMethod[NormalSettings]):
    """One question for all moments, and rows drawn from the answer."""

    def __init__(
        self, settings: NormalSettings, schema: Schema, seeds: Table | None, public_seed: int
    ) -> None:
        super().__init__(settings.model_copy(update={"seed": as_seed(settings, public_seed)}), schema)
        self._map = MomentsSpec().make(schema)
        self.question(1, settings.epsilon).check(schema)

    @override
    def question(self, rows: int, epsilon: float) -> Question:
        layout, release = Layout(), None
        if not math.isinf(epsilon):
            release = PooledRelease((embedding_query(self._map, layout),), epsilon, self.settings.delta)
        return Question((self._map,), layout, False, release)

    @override
    def make(self, stored: StoredRelease, making: Making) -> None:
        count = self.settings.rows or stored.rows
        generator = np.random.default_rng(self.settings.seed)
        points = self._drawn(stored.embeddings[0].mean[:, 0], count, generator)
        table = Table(self.schema.decode(points))
        near = partial(distance_to_release, stored, table)
        card = card_of(stored, "independent normal columns", table, near, making)
        make_synthetic(table, card, making)

    def _drawn(
        self, moments: NDArray[np.float64], count: int, generator: np.random.Generator
    ) -> NDArray[np.float64]:
        """Points of model space with the released moments, (count, n)."""
        domain, width = self._map.domain, self.schema.encoded_width
        points = np.zeros((count, width))
        mean, second = moments[domain.numbers], moments[width:]
        deviation = np.sqrt(np.clip(second - mean**2, 0.0, None))
        drawn = mean + deviation * generator.standard_normal((count, len(mean)))
        points[:, domain.numbers] = np.clip(drawn, 0.0, 1.0)
        for column in domain.dimensions:
            if column.levels:
                shares = np.clip(moments[column.start : column.start + column.levels], 1e-12, None)
                codes = generator.choice(column.levels, count, p=shares / shares.sum())
                points[np.arange(count), column.start + codes] = 1.0
        return points
