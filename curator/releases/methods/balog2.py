"""Balog 2018, Algorithm 2, as a method of release: mean random features, and a reduced set of points."""

from __future__ import annotations

import math

from typing_extensions import override

from curator.releases.method import Making
from curator.releases.methods.base import EmbeddingMethod, Question, as_seed, even_rows, settled_gamma
from curator.releases.methods.points import make_points
from fedkme.features.domain import Domain
from fedkme.features.fourier_map import FourierMapSpec
from fedkme.features.sums import Layout
from fedkme.privacy.sums import PooledRelease, embedding_query
from fedkme.releases.file import StoredRelease
from fedkme.releases.settings import Balog2Settings
from fedkme.tables.schema import Schema
from fedkme.tables.table import Table

NAME = "Balog 2018, Algorithm 2"


class Balog2(EmbeddingMethod[Balog2Settings]):
    """Release of the mean of J random features; M points with nearly the same mean follow from it."""

    def __init__(
        self, settings: Balog2Settings, schema: Schema, seeds: Table | None, public_seed: int
    ) -> None:
        seed = as_seed(settings, public_seed)
        domain = Domain(schema)
        gain, shift = domain.affine(settings.units, None)
        public_rows = (
            domain.encode(seeds.values) if seeds is not None and len(seeds) else even_rows(schema, seed)
        )
        gamma = settled_gamma(settings.gamma, public_rows * gain + shift)
        super().__init__(settings.model_copy(update={"seed": seed, "gamma": gamma}), schema)
        spec = FourierMapSpec(dimension=settings.features, gamma=gamma, seed=seed, units=settings.units)
        self._map = spec.make(schema)
        self.question(1, settings.of_row).check(schema)

    @override
    def question(self, rows: int, epsilon: float) -> Question:
        layout = Layout()
        release = None
        if not math.isinf(epsilon):
            release = PooledRelease((embedding_query(self._map, layout),), epsilon, self.settings.delta)
        return Question((self._map,), layout, False, release)

    @override
    def make(self, stored: StoredRelease, making: Making) -> None:
        from curator.releases.reduced_set import Step, algorithm2

        settings = self.settings
        released = stored.embeddings[0]
        features = released.map_spec.make(self.schema)

        def report(step: Step) -> None:
            fraction = (step.restart - 1) * step.steps + step.step
            making.tell("training", str(step), fraction / (step.restarts * step.steps))

        making.tell("training", "looking for first points", 0.0)
        points = algorithm2(released, features, settings, settings.seed or 0, report)
        make_points(stored, NAME, points, features, settings, making)
