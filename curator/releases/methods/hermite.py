"""DP-HP as a release: Hermite features of all columns and of drawn ones, and a generator for them."""

from __future__ import annotations

import math

from typing_extensions import override

from curator.releases.hermite import NAME, HermitePlan, fit
from curator.releases.method import Finished, Tell
from curator.releases.methods.base import EmbeddingMethod, Question, as_seed, joint_of, need_jax
from curator.releases.methods.generated import (
    check_image,
    finished_rows,
    network_of,
    progress_to,
    training_of,
)
from fedkme.releases.file import StoredRelease
from fedkme.releases.settings import HermiteSettings
from fedkme.tables.schema import Schema
from fedkme.tables.table import Table


class Hermite(EmbeddingMethod[HermiteSettings]):
    """The sum kernel, a product kernel for each epoch, class counts: all in one question."""

    def __init__(
        self, settings: HermiteSettings, schema: Schema, seeds: Table | None, public_seed: int
    ) -> None:
        need_jax()
        check_image(settings, schema)
        seed = as_seed(settings, public_seed)
        super().__init__(settings.model_copy(update={"seed": seed}), schema)
        self.question(1, settings.of_row).check(schema)

    @override
    def question(self, rows: int, epsilon: float) -> Question:
        plan = self._plan(epsilon)
        counts = plan.class_weights and plan.layout.columns > 1
        return Question(plan.maps, plan.layout, counts, plan.calibration)

    @override
    def made(self, stored: StoredRelease, tell: Tell) -> Finished:
        settings = self.settings
        training = training_of(settings, "expectation")
        plan, network = self._plan(settings.of_row), network_of(settings, self.schema)
        trained = fit(plan, joint_of(stored), network, training, progress=progress_to(tell, stored))
        return finished_rows(stored, NAME, trained, settings)

    def _plan(self, epsilon: float) -> HermitePlan:
        settings = self.settings
        return HermitePlan(
            self.schema,
            None if math.isinf(epsilon) else epsilon,
            settings.delta,
            settings.seed or 0,
            settings.epochs,
            settings.product_columns,
            settings.sum_order,
            settings.sum_length,
            settings.product_order,
            settings.product_length,
            settings.sum_share,
            settings.gamma,
            settings.class_weights,
        )
