"""DP-MERF and DP-HP as methods of release: one question, and a generator that is trained after the answer.

**DP-HP**: Hermite features, a sum kernel over all columns and product kernels over a few (Vinaroz 2022).

The sum kernel fixes the distribution of each column (given the class), the product kernel the joint
distribution of the drawn columns, which are drawn afresh in every epoch from a public seed. Each epoch needs
one pooled embedding and its noise. Three choices differ from the paper, and each gains accuracy under the
same guarantee:

- All releases are one Gaussian (curator.releases.joint), instead of two budgets of epsilon/2 and delta/2, the
  second composed by a moments accountant.
- A truncated Hermite expansion is a projection of the kernel's feature map, so a row moves a sum by at most
  sqrt(2), instead of 2 (fedkme.features.hermite).
- Since draws are public, the releases of all epochs exist before training starts, and training uses all of
  them at every step; the paper forgets an epoch's embedding when the next is drawn, although the embedding is
  paid for.

Categories take part by their one-hot codes, so a product over categories is their joint marginal. The product
embedding is class conditional, as the paper writes (the tabular code of the paper is not, docs/errata.md).

**DP-MERF**: one joint embedding of rows and labels, and a generator for it.

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

import math
from abc import abstractmethod
from functools import partial
from typing import Literal, TypeVar

from typing_extensions import override

from curator.releases.files import card_of, distance_to_release, make_synthetic
from curator.releases.joint import JointPlan, fit
from curator.releases.method import Making
from curator.releases.methods.base import (
    EmbeddingMethod,
    Question,
    as_seed,
    joint_of,
    public_rows,
    settled_gamma,
)
from curator.releases.progress import Report
from fedkme.errors import ConfigError
from fedkme.features.domain import Domain
from fedkme.features.fourier_map import FourierMapSpec, MixedSpec
from fedkme.features.hermite import HermiteProductSpec, HermiteSumSpec, draw_dimensions
from fedkme.releases.file import StoredRelease
from fedkme.releases.settings import HermiteSettings, MerfSettings
from fedkme.tables.schema import Schema
from fedkme.tables.table import Table

GeneratorSettingsT = TypeVar("GeneratorSettingsT", MerfSettings, HermiteSettings)

_EARLY_ROWS = 1000


class GeneratedMethod(EmbeddingMethod[GeneratorSettingsT]):
    """Base of the methods that train a generator on their release.

    Attributes:
        mechanism: name and paper, for the data card.
        categories: treatment of categories in training, see `Training`.
    """

    mechanism: str
    categories: Literal["expectation", "gumbel"] = "expectation"

    @abstractmethod
    def plan(self, epsilon: float | None) -> JointPlan:
        """Make the plan of the settings at an epsilon; None: without noise."""

    @override
    def question(self, rows: int, epsilon: float) -> Question:
        plan = self.plan(None if math.isinf(epsilon) else epsilon)
        counts = plan.class_weights and plan.layout.columns > 1
        return Question(plan.maps, plan.layout, counts, plan.calibration)

    @override
    def make(self, stored: StoredRelease, making: Making) -> None:
        from curator.releases.generators import Training
        from curator.releases.networks import TableNetwork

        settings, classes = self.settings, max(len(self.schema.classes), 1)
        network = TableNetwork(self.schema, classes, settings.code, settings.hidden)
        training = Training(
            steps=settings.steps,
            batch=settings.batch,
            learning_rate=settings.learning_rate,
            categories=self.categories,
            seed=settings.seed or 0,
        )
        plan = self.plan(None)
        making.tell("compiling", "the first steps of training", 0.0)
        report = _TrainingReport(making, stored, settings.steps)
        trained = fit(
            plan, joint_of(stored), network, training, progress=report.report, stepped=report.stepped
        )
        rows = settings.rows or stored.rows
        making.tell("sampling", f"{rows} rows, and comparing them with the release", 1.0)
        table = trained.sample(rows, settings.seed or 0)
        near = partial(distance_to_release, stored, table)
        make_synthetic(table, card_of(stored, self.mechanism, table, near, making), making)


class _TrainingReport:
    """Progress lines of a training, with the quality of rows at the last report."""

    def __init__(self, making: Making, stored: StoredRelease, steps: int) -> None:
        self._making, self._stored, self._steps = making, stored, steps
        self._quality = ""

    def stepped(self, step: int) -> None:
        """Report the number of steps done."""
        self._making.tell("training", f"step {step}/{self._steps}{self._quality}", step / self._steps)

    def report(self, state: Report) -> None:
        """Report the quality of the generator's rows."""

        def quality() -> str:
            near, noise = distance_to_release(self._stored, state.sample(_EARLY_ROWS)).values()
            return f": {state}; {_EARLY_ROWS} rows now are {near:.3g} from the release (noise {noise:.3g})"

        self._quality = self._making.step("the quality of rows in training", quality) or ""
        self.stepped(state.step)


HERMITE = "DP-HP (Vinaroz 2022)"


def drawn_columns(width: int, count: int, seed: int, epochs: int) -> tuple[tuple[int, ...], ...]:
    """Draw the columns of every epoch; a repeated draw is redrawn while other sets of columns are left."""
    possible = math.comb(width, min(count, width))
    drawn: list[tuple[int, ...]] = []
    attempt = 0
    while len(drawn) < epochs:
        columns = draw_dimensions(width, count, seed, attempt)
        attempt += 1
        seen = drawn[len(drawn) // possible * possible :]  # draws of the current pass through all sets
        if columns not in seen:
            drawn.append(columns)
    return tuple(drawn)


def hermite_plan(schema: Schema, epsilon: float | None, settings: HermiteSettings) -> JointPlan:
    """Plan DP-HP at an epsilon (None: no noise): the sum kernel, then a product kernel for each epoch."""
    seed, epochs, share = settings.seed or 0, settings.epochs, settings.sum_share
    products = tuple(
        HermiteProductSpec(order=settings.product_order, length=settings.product_length, columns=columns)
        for columns in drawn_columns(len(Domain(schema).dimensions), settings.product_columns, seed, epochs)
    )
    return JointPlan(
        schema,
        (HermiteSumSpec(order=settings.sum_order, length=settings.sum_length), *products),
        epsilon,
        settings.delta,
        settings.class_weights,
        (share, *[(1.0 - share) / max(epochs, 1)] * epochs),
        (1.0, *[settings.gamma / max(epochs, 1)] * epochs),
    )


class Hermite(GeneratedMethod[HermiteSettings]):
    """Release of the sum kernel, a product kernel for each epoch and class counts, in one question."""

    mechanism = HERMITE

    def __init__(
        self, settings: HermiteSettings, schema: Schema, seeds: Table | None, public_seed: int
    ) -> None:
        if not settings.epochs:
            self.mechanism = f"{HERMITE}, sum kernel only"
        super().__init__(settings, schema, seed=as_seed(settings, public_seed))
        self.question(1, settings.of_row).check(schema)

    @override
    def plan(self, epsilon: float | None) -> JointPlan:
        return hermite_plan(self.schema, epsilon, self.settings)


class Merf(GeneratedMethod[MerfSettings]):
    """Release of mean random features by class, with class counts."""

    mechanism = "DP-MERF (Harder 2021)"

    def __init__(self, settings: MerfSettings, schema: Schema, seeds: Table | None, public_seed: int) -> None:
        seed = as_seed(settings, public_seed)
        domain = Domain(schema)
        mixed = settings.embedding == "mixed" or (settings.embedding == "auto" and len(domain.codes) > 0)
        scales = _scales(settings, schema)
        rows = public_rows(schema, seeds, seed) * domain.affine("model", scales)[0]
        gamma = settled_gamma(settings.gamma, rows[:, domain.numbers] if mixed else rows)
        super().__init__(settings, schema, seed=seed, gamma=gamma)
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
            cause = f"release: 'scales.{name[:60]}' is not a column of the schema"
            raise ConfigError(cause, f"Columns: {', '.join(names)}.")
    return tuple(settings.scales.get(name, 1.0) for name in names) if settings.scales else None
