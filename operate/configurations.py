"""Files of rows that configurations name."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from consumer.settings import ConsumerSettings
from curator.settings import CuratorSettings
from fedkme.errors import ConfigError
from fedkme.party import PartySettings
from fedkme.tables.data_file import Source, as_file
from operate.doctor.configuration import read_configuration
from owner.settings import OwnerSettings
from sim.config import SimulationSettings
from sim.scenarios import Csv


def files_of_rows(config: Path) -> Iterator[tuple[Source, str, bool]]:
    """Files of rows that a configuration names: each with whose it is, and whether the rows are private.

    Raises:
        ConfigError: it is nobody's, not valid, or names none.
    """
    settings = read_configuration(config)
    if isinstance(settings, SimulationSettings):
        named = list(_of_scenario(settings))
    else:
        named = list(tables_of(settings))
    if not named:
        raise ConfigError(f"{config.name} names no files of rows", "Give the files themselves.")
    for source, what in named:
        yield source, what, what not in ("seeds", "test rows")


def tables_of(settings: PartySettings) -> Iterator[tuple[Source, str]]:
    """Files of rows of a party, and what they are."""
    match settings:
        case OwnerSettings():
            yield settings.data, "rows"
        case ConsumerSettings():
            named = ((settings.validation, "D_v"), (settings.test, "test rows"), (settings.seeds, "seeds"))
            yield from ((source, what) for source, what in named if source is not None)
        case CuratorSettings() if settings.seeds is not None:
            yield settings.seeds, "seeds"


def _of_scenario(settings: SimulationSettings) -> Iterator[tuple[Source, str]]:
    match settings.scenario:
        case Csv() as own:
            yield from ((owner, owner.name) for owner in own.owners or ())
            if own.table is not None:
                file = as_file(own.table)
                yield file.model_copy(update={"ignore": (*file.ignore, own.site_column)}), "table"
            named = ((own.validation, "D_v"), (own.test, "test rows"), (own.seeds, "seeds"))
            yield from ((source, what) for source, what in named if source and not isinstance(source, int))
