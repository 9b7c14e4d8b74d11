"""DP-HP as a method of release: Hermite features of all columns and of drawn columns, and a generator."""

from __future__ import annotations

from typing_extensions import override

from curator.releases.hermite import NAME, hermite_plan
from curator.releases.joint import JointPlan
from curator.releases.methods.base import as_seed
from curator.releases.methods.generated import GeneratedMethod, check_image
from fedkme.releases.settings import HermiteSettings
from fedkme.tables.schema import Schema
from fedkme.tables.table import Table


class Hermite(GeneratedMethod[HermiteSettings]):
    """Release of the sum kernel, a product kernel for each epoch and class counts, in one question."""

    mechanism = NAME

    def __init__(
        self, settings: HermiteSettings, schema: Schema, seeds: Table | None, public_seed: int
    ) -> None:
        if not settings.epochs:
            self.mechanism = f"{NAME}, sum kernel only"
        check_image(settings, schema)
        seed = as_seed(settings, public_seed)
        super().__init__(settings.model_copy(update={"seed": seed}), schema)
        self.question(1, settings.of_row).check(schema)

    @override
    def plan(self, epsilon: float | None) -> JointPlan:
        return hermite_plan(self.schema, epsilon, self.settings)
