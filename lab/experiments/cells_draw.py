"""One draw of an experiment with summaries by cells: who holds which encoded rows, and what scores."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np

from fedkme.arrays import FloatArray, IntArray
from fedkme.embeddings.kernels import median_gamma
from fedkme.embeddings.mmd import ReferenceRows
from fedkme.errors import ConfigError, DataError
from fedkme.tables.schema import Schema
from fedkme.tables.table import Table
from sim.scenarios.base import Scenario

SEEDS = 150
"""Public seed rows of a layout."""


@dataclass(frozen=True, eq=False)
class ExperimentDraw:
    """One draw of an experiment; every array of rows is encoded, float64.

    Attributes:
        name: data and layout.
        schema: schema of the rows.
        owners: rows of each, (m_j, n).
        labels: classes of each owner's rows, (m_j,).
        validation: D_v, (m, n).
        validation_labels: (m,); None where D_v has none.
        test: rows that score, (t, n).
        test_labels: (t,).
        gamma: gamma of the kernel: the median heuristic on public seed rows, or a public constant.
        seeds: public rows, (s, n).
        scenario: the same rows as tables, as parties of a simulation hold them.
    """

    name: str
    schema: Schema
    owners: Sequence[FloatArray]
    labels: Sequence[IntArray]
    validation: FloatArray
    validation_labels: IntArray | None
    test: FloatArray
    test_labels: IntArray
    gamma: float
    seeds: FloatArray
    scenario: Scenario

    @cached_property
    def to_validation(self) -> ReferenceRows:
        """D_v, as a summary is compared with it."""
        return ReferenceRows(self.validation, self.gamma)

    @cached_property
    def to_test(self) -> ReferenceRows:
        """Test rows in the same form."""
        return ReferenceRows(self.test, self.gamma)

    @property
    def classes(self) -> int:
        """C of the label."""
        return len(self.schema.label.classes) if self.schema.label else 1


Build = Callable[[Path, int, int], ExperimentDraw]
"""Folder of the data, |D_v|, seed."""


def draw_of(name: str, scenario: Scenario, gamma: float | None) -> ExperimentDraw:
    """Encode a scenario's rows; gamma None: the median heuristic on its seed rows.

    Raises:
        ConfigError: it has no seed rows.
        DataError: rows have no labels.
    """

    def encoded(table: Table) -> FloatArray:
        return np.asarray(scenario.schema.encode(table.values), np.float64)

    if scenario.seeds is None:
        raise ConfigError("a layout needs public seed rows", "Give the scenario seeds.")
    seeds = encoded(scenario.seeds)
    return ExperimentDraw(
        name,
        scenario.schema,
        [encoded(table) for table in scenario.owners.values()],
        [labels_of(table) for table in scenario.owners.values()],
        encoded(scenario.validation),
        scenario.validation.labels,
        encoded(scenario.test),
        labels_of(scenario.test),
        median_gamma(seeds) if gamma is None else gamma,
        seeds,
        scenario,
    )


def labels_of(table: Table) -> IntArray:
    """Classes of a table's rows, (m,).

    Raises:
        DataError: they have none.
    """
    if table.labels is None:
        raise DataError("rows of the experiment have no labels", "Take the files with labels.")
    return table.labels
