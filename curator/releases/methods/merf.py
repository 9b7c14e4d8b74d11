"""DP-MERF as a release: one joint embedding of rows and labels, and a generator for it."""

from __future__ import annotations

import math

from typing_extensions import override

from curator.releases.merf import NAME, MerfPlan, fit
from curator.releases.method import Finished, Tell
from curator.releases.methods.base import (
    EmbeddingMethod,
    Question,
    as_seed,
    even_rows,
    joint_of,
    need_jax,
    settled_gamma,
)
from curator.releases.methods.generated import (
    check_image,
    finished_rows,
    network_of,
    progress_to,
    training_of,
)
from fedkme.errors import ConfigError
from fedkme.features.domain import Domain
from fedkme.features.fourier_map import FourierMapSpec, MixedSpec
from fedkme.releases.file import StoredRelease
from fedkme.releases.settings import MerfSettings
from fedkme.tables.schema import Schema
from fedkme.tables.table import Table


class Merf(EmbeddingMethod[MerfSettings]):
    """Random features by class, class counts beside them."""

    def __init__(self, settings: MerfSettings, schema: Schema, seeds: Table | None, public_seed: int) -> None:
        need_jax()
        check_image(settings, schema)
        seed = as_seed(settings, public_seed)
        domain = Domain(schema)
        mixed = settings.embedding == "mixed" or (settings.embedding == "auto" and len(domain.codes) > 0)
        scales = _scales(settings, schema)
        known = domain.encode(seeds.values) if seeds is not None and len(seeds) else even_rows(schema, seed)
        known = known * domain.affine("model", scales)[0]
        gamma = settled_gamma(settings.gamma, known[:, domain.numbers] if mixed else known)
        super().__init__(settings.model_copy(update={"seed": seed, "gamma": gamma}), schema)
        self._gumbel = not mixed and len(domain.codes) > 0
        self._spec: FourierMapSpec | MixedSpec
        if mixed:
            self._spec = MixedSpec(
                dimension=settings.features,
                gamma=gamma,
                seed=seed,
                scales=scales,
                weight=settings.code_weight,
            )
        else:
            self._spec = FourierMapSpec(dimension=settings.features, gamma=gamma, seed=seed, scales=scales)
        self.question(1, settings.of_row).check(schema)

    @override
    def question(self, rows: int, epsilon: float) -> Question:
        plan = self._plan(epsilon)
        counts = plan.class_weights and plan.layout.columns > 1
        return Question((plan.map,), plan.layout, counts, plan.calibration)

    @override
    def made(self, stored: StoredRelease, tell: Tell) -> Finished:
        settings = self.settings
        training = training_of(settings, "gumbel" if self._gumbel else "expectation")
        plan, network = self._plan(settings.of_row), network_of(settings, self.schema)
        trained = fit(plan, joint_of(stored), network, training, progress=progress_to(tell, stored))
        return finished_rows(stored, NAME, trained, settings)

    def _plan(self, epsilon: float) -> MerfPlan:
        bound = None if math.isinf(epsilon) else epsilon
        return MerfPlan(self.schema, self._spec, bound, self.settings.delta, self.settings.class_weights)


def _scales(settings: MerfSettings, schema: Schema) -> tuple[float, ...] | None:
    """A factor for each entry of the schema's columns."""
    names = [column.name for column in schema.columns]
    for name in settings.scales:
        if name not in names:
            raise ConfigError(
                f"release: 'scales.{name[:60]}' is not a column of the schema",
                f"Columns: {', '.join(names)}.",
            )
    return tuple(settings.scales.get(name, 1.0) for name in names) if settings.scales else None
