"""Common part of DP-MERF and DP-HP: a generator that is trained after the question is answered."""

from __future__ import annotations

import math
from abc import abstractmethod
from functools import partial
from typing import Literal, TypeVar

from typing_extensions import override

from curator.releases.files import card_of, distance_to_release, make_synthetic
from curator.releases.joint import JointPlan, fit
from curator.releases.method import Making
from curator.releases.methods.base import EmbeddingMethod, Question, joint_of
from curator.releases.progress import Report
from fedkme.errors import ConfigError
from fedkme.releases.file import StoredRelease
from fedkme.releases.settings import HermiteSettings, MerfSettings
from fedkme.tables.schema import Schema

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
        from curator.releases.networks import ImageNetwork, Network, TableNetwork

        settings, classes = self.settings, max(len(self.schema.classes), 1)
        network: Network = TableNetwork(self.schema, classes, settings.code, settings.hidden)
        if settings.generator == "image":
            network = ImageNetwork(self.schema, classes, settings.code)
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
        make_synthetic(table, card_of(stored, self.mechanism, len(table), near, making), making)


def check_image(settings: MerfSettings | HermiteSettings, schema: Schema) -> None:
    """Refuse an image generator for a table before an owner is asked.

    Raises:
        ConfigError: the schema's columns are no square image.
    """
    side = round(schema.width**0.5)
    if settings.generator == "image" and (
        side**2 != schema.width or side % 4 or schema.encoded_width != schema.width
    ):
        raise ConfigError(
            f"release: 'generator' is 'image', and {schema.width} columns are no square image of numbers",
            "Set it to 'table'; an image has a side that is a multiple of 4.",
        )


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
