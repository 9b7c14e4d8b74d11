"""Parties of a simulation whose curator is in this process; owners are here or in actors of a cluster."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Callable
from functools import partial

from sim.config import LaunchSettings
from sim.engines.inprocess import SimulatedMarket, market_of
from sim.scenarios import Scenario


@contextlib.asynccontextmanager
async def opened(
    scenario: Scenario, settings: LaunchSettings, note: Callable[[str], None]
) -> AsyncIterator[SimulatedMarket]:
    """Open the parties of a scenario by the engine of its settings.

    Yields:
        The parties.

    Raises:
        FedkmeError: there is no cluster, or its nodes do not have the rows.
    """
    if settings.engine != "ray":
        yield market_of(scenario, settings.noise_seed, settings.policies)
        return
    from sim.cluster.parties import owners_in_actors
    from sim.cluster.shard import rows_of_scenario

    rows = partial(rows_of_scenario, settings.scenario, settings.seed)
    async with owners_in_actors(scenario, rows, settings, note) as market:
        yield market
