"""DP-MERF as a method of release: one joint embedding of rows and labels, and a generator for it.

A table is embedded as `fourier` (homogeneous: all columns through one Gaussian kernel) or as `mixed` (numbers
through the kernel, categories as scaled one-hot codes by the public schema). With labels the embedding has a
column per class, (1/N) sum of phi(x_n) f(y_n)^T; one row moves one column, so the matrix is one Gaussian
query of diameter 2, not C queries. A continuous label is one more numeric column: the Gaussian kernel of (x,
y) is the product of the kernels of x and of y, so `fourier` without classes is the joint embedding of the
paper. Images are embedded as pixels.

Class weights (for imbalance) are the class counts, released together with the embedding;
curator.releases.joint explains why they cost nothing next to Fourier features. Training divides each column
by its weight, so a rare class counts as much as a frequent class, and rows can be drawn in any proportion.
"""

from __future__ import annotations

from typing_extensions import override

from curator.releases.joint import JointPlan
from curator.releases.methods.base import as_seed, even_rows, settled_gamma
from curator.releases.methods.generated import GeneratedMethod, check_image
from fedkme.errors import ConfigError
from fedkme.features.domain import Domain
from fedkme.features.fourier_map import FourierMapSpec, MixedSpec
from fedkme.releases.settings import MerfSettings
from fedkme.tables.schema import Schema
from fedkme.tables.table import Table


class Merf(GeneratedMethod[MerfSettings]):
    """Release of mean random features by class, with class counts."""

    mechanism = "DP-MERF (Harder 2021)"

    def __init__(self, settings: MerfSettings, schema: Schema, seeds: Table | None, public_seed: int) -> None:
        check_image(settings, schema)
        seed = as_seed(settings, public_seed)
        domain = Domain(schema)
        mixed = settings.embedding == "mixed" or (settings.embedding == "auto" and len(domain.codes) > 0)
        scales = _scales(settings, schema)
        public_rows = (
            domain.encode(seeds.values) if seeds is not None and len(seeds) else even_rows(schema, seed)
        )
        public_rows = public_rows * domain.affine("model", scales)[0]
        gamma = settled_gamma(settings.gamma, public_rows[:, domain.numbers] if mixed else public_rows)
        super().__init__(settings.model_copy(update={"seed": seed, "gamma": gamma}), schema)
        self.categories = "gumbel" if not mixed and len(domain.codes) else "expectation"
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
    def plan(self, epsilon: float | None) -> JointPlan:
        return JointPlan(
            self.schema, (self._spec,), epsilon, self.settings.delta, self.settings.class_weights
        )


def _scales(settings: MerfSettings, schema: Schema) -> tuple[float, ...] | None:
    """Factor of each column of the schema; None where all factors are 1."""
    names = [column.name for column in schema.columns]
    for name in settings.scales:
        if name not in names:
            raise ConfigError(
                f"release: 'scales.{name[:60]}' is not a column of the schema",
                f"Columns: {', '.join(names)}.",
            )
    return tuple(settings.scales.get(name, 1.0) for name in names) if settings.scales else None
