"""Moments as a method of release: noisy sums of u u' by class, and rows sampled from them without training.

Relation: replace one row (with its label) of one owner by another, N public. Unit: one row. Two questions
form one Gaussian release with multiplier m. The first, with `SCALE_SHARE` of 1/m^2, asks for mean and
variance of all public coordinates by shell. The second, with the rest, asks for second moments by class of
the coordinates that vary most.

Sensitivity of each question: sqrt 2 (1 + t), attained (*proof*: fedkme/moments/features.py); labels and
counts are free. The second question is chosen by noisy answers to the first: adaptive composition of Gaussian
mechanisms, whose 1/m^2 add up (Dong, Roth, Su 2019, corollary 3.3). The second question tells owners centre
and scales that follow from others' rows: so owners learn an (epsilon, delta) release too, and the ledger says
so (fedkme/sums/disclosures.py).

The number of coordinates k is public, sqrt(9 N / (m C)): the noise of an eigenvalue, about m sqrt(k) C / N,
then stays well below the variance 1/k of an average coordinate. docs/decisions/022.
"""

import math
from dataclasses import replace
from functools import partial

from typing_extensions import override

from curator.releases.files import card_of, distance_to_release, make_synthetic
from curator.releases.joint import JointRelease
from curator.releases.method import Making, SumOracle
from curator.releases.methods.base import EmbeddingMethod, Question, as_seed
from curator.releases.moments import rows_of
from fedkme.errors import ConfigError, NotEnoughRowsError
from fedkme.features.maps import EmbeddingMap
from fedkme.features.sums import Layout
from fedkme.moments.coordinates import coordinate_count
from fedkme.moments.features import MOST_COORDINATES, SecondMomentsSpec, ShellMoments, ShellsSpec
from fedkme.moments.scales import Scales, affordable_width, scales_of, second_question
from fedkme.ops.threads import in_thread
from fedkme.privacy.events import Event, Gaussian
from fedkme.privacy.gaussian import gaussian_epsilon, gaussian_sigma
from fedkme.privacy.presets import LEAST
from fedkme.privacy.sums import PooledRelease, embedding_query
from fedkme.releases.file import StoredRelease, to_bytes
from fedkme.releases.settings import MomentsSettings
from fedkme.tables.schema import Schema
from fedkme.tables.table import Table

NAME = "noisy second moments by class"
SCALE_SHARE = 0.1
"""Share of the budget 1/m^2 for the first question."""
_MARGIN = 1.0 + 1e-9
"""Factor on the multipliers of both questions, so that rounding errors stay within the plan."""
_LARGEST = 2**20
"""Most numbers of the second question."""
EDGES_FROM = 120.0
"""Least number of coordinates that the noise allows at which edges never hurt the classifier; for ten classes
at (1, 1e-5) it is reached by 60,000 rows. Accuracy with edges less without, at 41, 60, 85, 120 coordinates:
MNIST -.09 to -.14, -.00 to -.07, +.01 to +.02, +.02; Fashion -.10, -.04, -.03, +.00; digits level at 77."""


class Moments(EmbeddingMethod[MomentsSettings]):
    """Release of mean and variance of every coordinate, then of second moments by class."""

    def __init__(
        self, settings: MomentsSettings, schema: Schema, seeds: Table | None, public_seed: int
    ) -> None:
        super().__init__(settings, schema, seed=as_seed(settings, public_seed))
        self._layout = Layout(len(schema.classes) or None)
        self._first = Question((ShellsSpec(edges=settings.edges).make(schema),), Layout(), False, None)
        self._first.check(schema)
        self.question(1, settings.of_row).check(schema)

    @override
    def question(self, rows: int, epsilon: float) -> Question:
        """Make the second question about N rows in its final size, with placeholder centre and scales."""
        width = self._width(rows, epsilon)
        every = tuple(range(width))
        spec = SecondMomentsSpec(
            edges=self.settings.edges, chosen=every, centre=(0.0,) * width, scale=(1.0,) * width
        )
        return self._second_question(spec, epsilon)

    @override
    async def ask(self, oracle: SumOracle) -> bytes:
        """Ask both questions; the first answer is on disk before the second question follows from it."""
        if (rows := oracle.rows) < 1:
            raise NotEnoughRowsError("the owners have no rows", "Start owners that have some.")
        planned = await in_thread(self._usable_question, rows, oracle.noise_ratio)
        epsilon = self.settings.of_row
        (features,) = self._first.maps
        assert isinstance(features, ShellMoments)
        first = replace(self._first, release=_part(features, Layout(), epsilon, self._delta, SCALE_SHARE))
        oracle.tell("measuring", "scales of the coordinates", 0.0)
        first_answer = await oracle.followed(first.query, first.release)
        (embedding,) = first_answer.embeddings
        scales = scales_of(embedding.mean[:, 0], embedding.sigma, features)
        (size,) = (phi.spec for phi in planned.maps)
        assert isinstance(size, SecondMomentsSpec)
        affordable = self._affordable(rows, epsilon)
        spec = second_question(scales, features, len(size.chosen), affordable)
        second = await in_thread(self._second_question, spec, epsilon)
        oracle.tell("measuring", f"second moments of {len(size.chosen)} coordinates by class", 0.5)
        released = await oracle.joint(second.query, second.release)
        return await in_thread(self._encoded_both, first_answer, released, scales, oracle.owners)

    @override
    def make(self, stored: StoredRelease, making: Making) -> None:
        count = self.settings.rows or stored.rows
        width = len(stored.public["mean"])
        making.tell("sampling", f"{count} rows from the moments of {width} coordinates", 0.0)
        table = rows_of(stored).sample(count, self.settings.seed or 0)
        making.tell("sampling", "comparing them with the release", 0.9)
        card = card_of(stored, NAME, table, partial(distance_to_release, stored, table), making)
        making.tell("sampling", f"{count} rows", 1.0)
        if self.settings.edges and self._affordable(stored.rows, self.settings.of_row) < EDGES_FROM:
            doubt = f"{stored.rows} rows may be few for edges at this epsilon: compare a classifier without"
            card = replace(card, notes=[*card.notes, doubt])
        make_synthetic(table, card, making)

    @property
    def _delta(self) -> float:
        return self.settings.delta

    def _width(self, rows: int, epsilon: float) -> int:
        """Number of coordinates of the second question about N rows."""
        width = coordinate_count(self.schema, self.settings.edges)
        if self.settings.coordinates is not None:
            return min(width, self.settings.coordinates)
        columns = self._layout.columns
        if not math.isinf(affordable := self._affordable(rows, epsilon)):
            width = min(width, max(2, round(affordable)))
        return min(width, MOST_COORDINATES, math.isqrt(2 * _LARGEST // columns) - 2)

    def _affordable(self, rows: int, epsilon: float) -> float:
        """Number of coordinates that the noise allows, sqrt(9 N / (m C)); inf without noise."""
        if math.isinf(epsilon):
            return math.inf
        return affordable_width(rows, gaussian_sigma(epsilon, self._delta), self._layout.columns)

    def _second_question(self, spec: SecondMomentsSpec, epsilon: float) -> Question:
        features = spec.make(self.schema)
        share = 1.0 - SCALE_SHARE
        release = _part(features, self._layout, epsilon, self._delta, share)
        return Question((features,), self._layout, False, release, share=share)

    def _encoded_both(self, first: JointRelease, second: JointRelease, scales: Scales, owners: int) -> bytes:
        """Encode the release: the second answer, and mean and variance from the first."""
        event = None if first.event is None or second.event is None else _sum(first.event, second.event)
        stored = StoredRelease(
            self.protocol,
            self.settings.model_dump(mode="json"),
            self.schema,
            second.embeddings,
            None,
            event,
            self._delta,
            owners,
            {"mean": scales.mean, "variance": scales.variance},
        )
        return to_bytes(stored)


def _part(
    features: EmbeddingMap, layout: Layout, epsilon: float, delta: float, share: float
) -> PooledRelease | None:
    """Calibration of a question that has a share of 1/m^2; None without noise."""
    if math.isinf(epsilon):
        return None
    multiplier = gaussian_sigma(epsilon, delta) / math.sqrt(share) * _MARGIN
    if not (part := gaussian_epsilon(multiplier, delta)) > 0.0:
        cause = f"epsilon {epsilon:g} at delta {delta:g} is too small to be shared by two questions"
        raise ConfigError(cause, f"Take an epsilon of {LEAST:g} or more, or a smaller delta.")
    return PooledRelease((embedding_query(features, layout),), part, delta)


def _sum(first: Event, second: Event) -> Gaussian:
    """Event of both releases as one Gaussian."""
    assert isinstance(first, Gaussian)
    assert isinstance(second, Gaussian)
    return Gaussian((first.noise_multiplier**-2 + second.noise_multiplier**-2) ** -0.5)
