"""Synthetic owners of the benchmarks of speed and memory: small ones with random rows, of any number."""

from __future__ import annotations

import numpy as np

from fedkme.tables.schema import Numeric, Schema
from fedkme.tables.table import Table
from sim.config import SimulationSettings, load_simulation
from sim.scenarios.base import Scenario, owner_names

OWNER_ROWS = 200
_COLUMNS = 64
_VALIDATION_ROWS = 200
_SEED_ROWS = 150


def synthetic_schema(columns: int = _COLUMNS, largest: float = 1.0) -> Schema:
    """Numbers from 0 to `largest`."""
    return Schema(columns=(Numeric(name="x", bounds=(0.0, largest), count=columns),))


def synthetic_scenario(owners: int, owner_rows: int = OWNER_ROWS) -> Scenario:
    """Owners with so many uniform rows each, and a consumer and seeds with 200 or fewer."""
    rng = np.random.Generator(np.random.Philox(np.random.SeedSequence(0)))

    def rows(count: int) -> Table:
        return Table(rng.random((count, _COLUMNS)))

    return Scenario(
        name="synthetic",
        schema=synthetic_schema(),
        owners={name: rows(owner_rows) for name in owner_names(owners)},
        validation=rows(_VALIDATION_ROWS),
        test=Table(np.empty((0, _COLUMNS))),
        seeds=rows(_SEED_ROWS),
    )


def simulation(rows: int, tls: bool) -> SimulationSettings:
    """Settings of a shipped simulation, with the published protocol, for p rows of a synthetic scenario."""
    changes = (
        "preset=published",
        f"summary.p={rows}",
        f"tls={str(tls).lower()}",
        "downstream=false",
        "connect_s=600",
    )
    return load_simulation("digits", changes)
