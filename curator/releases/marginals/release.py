"""Release of marginals: measurements, the model fitted to them, and the privacy cost."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from curator.releases.marginals.budget import BudgetFilter
from curator.releases.marginals.descent import fit
from curator.releases.marginals.model import Model
from fedkme.errors import ConfigError
from fedkme.features.binning import Binning
from fedkme.features.counts import Clique
from fedkme.privacy.events import Composed, Gaussian
from fedkme.releases.counts import Measurement
from fedkme.tables.table import Table


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
    """

    sizes: tuple[int, ...]
    iterations: int
    start: Model | None
    measurements: tuple[Measurement, ...]
    others: tuple[Measurement, ...]
    rows: int
    event: Gaussian
    pieces: Composed

    @cached_property
    def model(self) -> Model:
        """Model fitted to the measurements, on first use.

        Raises:
            ConfigError: the model would be too large.
        """
        return fit(self.sizes, self.measurements, self.rows, self.iterations, self.start)

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
            raise ConfigError(
                "the binning is not that of the release", "Use the schema and bins of the release."
            )
        if rows < 1:
            raise ConfigError(f"{rows} synthetic rows cannot be drawn", "Ask for one row or more.")
        generator = np.random.default_rng(np.random.SeedSequence([seed, 5]))
        return binning.decode(self.model.sample(rows, generator), generator)


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
