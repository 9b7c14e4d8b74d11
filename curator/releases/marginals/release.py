"""Release of marginals: measurements, the model fitted to them, and the privacy cost.

Algorithms ask a `NoisyOracle`: it gives counts with noise, which may be added before any party sees the sum
(secure aggregation with noise of every owner), so the curator learns nothing else.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np

from curator.releases.marginals.budget import BudgetFilter, measurement_sigma
from curator.releases.marginals.descent import fit
from curator.releases.marginals.model import Model
from curator.releases.marginals.tilt import tilted
from fedkme.errors import ConfigError, DataError
from fedkme.features.binning import Binning, check_domain
from fedkme.features.counts import Clique, Groups, sizes_with
from fedkme.privacy.events import Composed, Gaussian
from fedkme.releases.counts import Measurement, Screen
from fedkme.tables.table import Table


class NoisyOracle(Protocol):
    """Oracle of sums with Gaussian noise."""

    async def noisy(
        self, cliques: Sequence[Clique], sigmas: Sequence[float], groups: Sequence[Groups] = ()
    ) -> list[Measurement]:
        """Pooled counts with independent noise; one query to the owners.

        The noise of marginal i has at least the standard deviation sigmas[i] in every cell: owners that drop
        out or lie must not reduce the noise. The answer has the actual deviation. Columns of groups are
        behind the schema's.
        """

    async def parities(
        self, groups: Sequence[Groups], blocks: Sequence[Sequence[Clique]], sigmas: Sequence[float]
    ) -> Screen:
        """Pooled parities with independent noise, at least sigmas[i] in block i; one query to the owners."""


@dataclass(frozen=True, eq=False)
class MarginalRelease:
    """Release that the curator may show to anybody.

    Attributes:
        sizes: codes of every column.
        iterations: iterations of the model's fit.
        start: model that the fit starts from; None: the uniform model.
        measurements: marginals with noise, to which the model is fitted.
        others: marginals by which the measurements were chosen, and to which the model is not fitted; they
            are paid for, and answer questions.
        rows: N, public.
        event: event of the whole release, under replace-one.
        pieces: events one by one, for reading: choices depended on answers, so charge `event`.
        groups: columns of groups, behind those of the schema.
        grouped: tables over groups with noise, to which the model is fitted, too.
        tilts: tables over groups with noise, by which the label is drawn again.
        screen: parities with noise; None where none were asked for.
    """

    sizes: tuple[int, ...]
    iterations: int
    start: Model | None
    measurements: tuple[Measurement, ...]
    others: tuple[Measurement, ...]
    rows: int
    event: Gaussian
    pieces: Composed
    groups: tuple[Groups, ...] = ()
    grouped: tuple[Measurement, ...] = ()
    tilts: tuple[Measurement, ...] = ()
    screen: Screen | None = None

    @cached_property
    def model(self) -> Model:
        """Model fitted to the measurements, on first use.

        Raises:
            ConfigError: the model would be too large.
        """
        measured = [*self.measurements, *self.grouped]
        return fit(self.sizes, measured, self.rows, self.iterations, self.start, groups=self.groups)

    @property
    def cliques(self) -> tuple[Clique, ...]:
        """Columns of every marginal that was measured, in order."""
        return tuple(measurement.clique for measurement in self.measurements)

    def sample(self, binning: Binning, rows: int, seed: int) -> Table:
        """Draw synthetic rows in the columns of the schema; post-processing.

        Raises:
            ConfigError: the binning has other columns than the model, or no rows are asked for.
        """
        if binning.sizes != self.model.sizes:
            cause = "the binning is not that of the release"
            raise ConfigError(cause, "Use the schema and bins of the release.")
        if rows < 1:
            raise ConfigError(f"{rows} synthetic rows cannot be drawn", "Ask for one row or more.")
        generator = np.random.default_rng(np.random.SeedSequence([seed, 5]))
        law = tilted(self.model, len(self.sizes) - 1, self.tilts, self.rows)
        return binning.decode(law.sample(rows, generator), generator)


def finished(
    sizes: Sequence[int],
    iterations: int,
    start: Model | None,
    measured: Sequence[Measurement],
    rows: int,
    budget: BudgetFilter,
    others: Sequence[Measurement] = (),
) -> MarginalRelease:
    """Make the release of measurements under a budget; its model is fitted on first use."""
    fitted, rest = tuple(measured), tuple(others)
    return MarginalRelease(tuple(sizes), iterations, start, fitted, rest, rows, budget.event, budget.pieces)


PAIR_CELLS = 1 << 22
"""Most noisy counts of one question."""
ITERATIONS = 150
"""Iterations of the last fit."""


async def independent(
    oracle: NoisyOracle,
    sizes: Sequence[int],
    rows: int,
    epsilon: float,
    delta: float,
    start: Model | None = None,
) -> MarginalRelease:
    """Measure every column with an even share of the budget; rows are drawn column by column.

    Arguments and errors: see `rounds`.
    """
    check_domain(sizes, 1, PAIR_CELLS)
    budget = BudgetFilter(epsilon, delta)
    sigma = measurement_sigma(budget.total * (1.0 - 1e-12) / len(sizes))
    columns = [(column,) for column in range(len(sizes))]
    measured = await measure(oracle, budget, columns, [sigma] * len(columns), sizes)
    return finished(sizes, ITERATIONS, start, measured, rows, budget)


async def measure(
    oracle: NoisyOracle,
    budget: BudgetFilter,
    cliques: Sequence[Clique],
    sigmas: Sequence[float],
    sizes: Sequence[int],
    groups: Sequence[Groups] = (),
) -> list[Measurement]:
    """Pay for one question, then ask it.

    Raises:
        BudgetError: the cost exceeds the budget; nothing is asked.
        DataError: an answer has another shape.
    """
    budget.measure(sigmas)
    answers = await oracle.noisy(cliques, sigmas, groups)
    whole = sizes_with(groups, sizes)
    shapes = [(math.prod(whole[c] for c in clique),) for clique in cliques]
    if [answer.values.shape for answer in answers] != shapes:
        cause = "a marginal has another number of cells than asked for"
        raise DataError(cause, "Compare the parties' schemas.")
    return answers
