"""Base of all methods that release pooled embeddings: make a question, ask it, encode the answer."""

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Any, Generic, TypeVar

import numpy as np

from curator.releases.joint import JointRelease
from curator.releases.method import Finished, Making, SumOracle, Tell
from fedkme.arrays import FloatArray
from fedkme.embeddings.kernels import median_gamma
from fedkme.errors import ConfigError, DataError, NotEnoughRowsError
from fedkme.features.domain import Domain
from fedkme.features.maps import EmbeddingMap
from fedkme.features.sums import Layout
from fedkme.ops.threads import in_thread
from fedkme.privacy.events import Event, ExactStatistic, Gaussian
from fedkme.privacy.gaussian import gaussian_sigma
from fedkme.privacy.sums import PooledRelease
from fedkme.releases.file import StoredRelease, from_bytes, to_bytes
from fedkme.releases.settings import ReleaseSettings
from fedkme.sums.values import SumQuery
from fedkme.sums.vector import SumVector
from fedkme.tables.schema import Schema
from fedkme.tables.table import Table

SettingsT = TypeVar("SettingsT", bound=ReleaseSettings)

_LARGEST_SPECS = 7 * 2**20
"""Most characters of all feature maps of a question: the maps travel in one message of at most 8 MiB."""
_EVEN_ROWS = 500


@dataclass(frozen=True, eq=False)
class Question:
    """Question to owners about their rows.

    Attributes:
        maps: feature maps of the embeddings.
        layout: columns of each embedding.
        counts: True where class counts are asked for too.
        release: calibration for the whole question; None without noise.
        public: public arrays to store with the answer.
        share: share of the method's budget 1/m^2 for `release`; other questions have the rest.
    """

    maps: tuple[EmbeddingMap, ...]
    layout: Layout
    counts: bool
    release: PooledRelease | None
    public: Mapping[str, FloatArray] = field(default_factory=dict)
    share: float = 1.0

    @cached_property
    def query(self) -> SumQuery:
        """Query that is sent to owners."""
        return SumQuery(tuple(phi.spec for phi in self.maps), self.layout, self.counts)

    def check(self, schema: Schema) -> None:
        """Refuse a question that cannot be sent.

        Raises:
            ConfigError: the sums or the feature maps are too large for the wire.
        """
        SumVector(self.query, schema, self.maps)
        size = sum(len(phi.spec.model_dump_json()) for phi in self.maps)
        if size > _LARGEST_SPECS:
            cause = f"the feature maps of this release are {size / 2**20:.1f} MiB and one message holds 8"
            raise ConfigError(cause, "Use fewer points.")

    def usable_epsilon(self, rows: int, noise_ratio: float = 1.0) -> float:
        """Epsilon at which no embedding of N rows is mere noise; 0 if the present epsilon is enough."""
        if self.release is None:
            return 0.0
        usable = partial(
            self.release.usable_epsilon,
            layout=self.layout,
            rows=rows,
            ratio=1.0 / noise_ratio,
            share=self.share,
        )
        return max(usable(i, phi) for i, phi in enumerate(self.maps))


class EmbeddingMethod(ABC, Generic[SettingsT]):
    """Base of the methods that release embeddings; the settings have seed and gamma filled in."""

    def __init__(self, settings: SettingsT, schema: Schema, **settled: Any) -> None:
        self.settings = settings.model_copy(update=settled)
        self.schema = schema

    @property
    def protocol(self) -> str:
        """Name of the method in owners' policies and ledgers."""
        return self.settings.kind

    def planned(self) -> tuple[Event, ...]:
        """Events of the whole release: what each owner's rows cost towards the consumer."""
        if math.isinf(self.settings.epsilon):
            return (ExactStatistic("sums of features of all rows"),)
        return (Gaussian(gaussian_sigma(self.settings.of_row, self.settings.delta)),)

    @abstractmethod
    def question(self, rows: int, epsilon: float) -> Question:
        """Make the question about N rows at an epsilon; inf: without noise."""

    @abstractmethod
    def make(self, stored: StoredRelease, making: Making) -> None:
        """Post-process a release of this method; each file is a step of `making`."""

    async def ask(self, oracle: SumOracle) -> bytes:
        """Ask the question, unless the answer would be mere noise.

        Raises:
            NotEnoughRowsError: N is too small for epsilon; the remedy names an epsilon that is enough.
            ConfigError: the question does not fit the wire or the schema.
            DataError: the answer is not finite.
        """
        rows = oracle.rows
        if rows < 1:
            raise NotEnoughRowsError("the owners have no rows", "Start owners that have some.")
        question = await in_thread(self._usable_question, rows, oracle.noise_ratio)
        oracle.tell("measuring", "owners add up features of their rows", 0.0)
        released = await oracle.joint(question.query, question.release)
        return await in_thread(self._encoded, question, released, oracle.owners)

    def finish(self, release: bytes, tell: Tell) -> Finished:
        """Make the files of a release.

        Raises:
            DataError: the bytes are not a release of this method and schema.
        """
        stored = from_bytes(release)
        if stored.protocol != self.protocol or stored.schema.digest() != self.schema.digest():
            cause = f"a release of {stored.protocol} is not one of {self.protocol} in this schema"
            raise DataError(cause, "Finish it with the method that asked for it.")
        making = Making(release, tell)
        making.step("rows of the release", lambda: self.make(stored, making))
        return making.finished

    def _usable_question(self, rows: int, noise_ratio: float) -> Question:
        epsilon, delta = self.settings.of_row, self.settings.delta
        question = self.question(rows, epsilon)
        question.check(self.schema)
        usable, needed = 0.0, question.usable_epsilon(rows, noise_ratio)
        while needed > usable:  # with less noise the basis may be finer, and a finer basis needs less noise
            usable = needed
            needed = self.question(rows, usable).usable_epsilon(rows, noise_ratio)
        if usable:
            one = " for one row" if self.settings.group > 1 else ""
            raise NotEnoughRowsError(
                f"{rows} rows are too few at epsilon {epsilon:g}{one}: the release would be nothing but "
                "noise",
                f"Use epsilon {usable:g}{one} or more at delta {delta:g}, more rows or fewer features.",
            )
        return question

    def _encoded(self, question: Question, released: JointRelease, owners: int) -> bytes:
        stored = StoredRelease(
            self.protocol,
            self.settings.model_dump(mode="json"),
            self.schema,
            released.embeddings,
            released.masses,
            released.event,
            self.settings.delta,
            owners,
            question.public,
        )
        return to_bytes(stored)


def joint_of(stored: StoredRelease) -> JointRelease:
    """Convert a stored release to the release that trainings take."""
    return JointRelease(stored.embeddings, stored.masses, stored.event)


def public_rows(schema: Schema, seeds: Table | None, seed: int) -> FloatArray:
    """Public seed rows in model space, (k, n), or without any points drawn evenly from the domain."""
    if seeds is not None and len(seeds):
        return Domain(schema).encode(seeds.values)
    generator = np.random.Generator(np.random.Philox(np.random.SeedSequence([seed, 0xE7])))
    values = schema.decode(generator.random((_EVEN_ROWS, schema.encoded_width)))
    return Domain(schema).encode(values)


def settled_gamma(gamma: float | str, rows: FloatArray) -> float:
    """Gamma as a number; `median` is computed from public rows in the kernel's units.

    Raises:
        ConfigError: the public rows show no scale.
    """
    if not isinstance(gamma, str):
        return gamma
    if not rows.shape[1]:
        return 1.0  # there is no column, so gamma has no effect
    try:
        return median_gamma(rows)
    except DataError as error:
        raise ConfigError(f"release: 'gamma' cannot be computed: {error.cause}", "Give a number.") from None


def as_seed(settings: Any, public_seed: int) -> int:
    """Seed of the settings, or else the public seed that was drawn."""
    return public_seed if settings.seed is None else int(settings.seed)
