"""Configuration files: the role of a file, its validity, and the files of rows that it names."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from consumer.releases.client import ReleaseConsumerSettings, load_release_settings
from consumer.settings import ConsumerSettings
from curator.settings import CuratorSettings
from fedkme.config import load_toml
from fedkme.drafts.edits import Place
from fedkme.errors import ConfigError
from fedkme.party import PartySettings, load_settings
from fedkme.tables.data_file import Source, as_file
from owner.settings import OwnerSettings
from sim.config import SimulationSettings, load_simulation
from sim.scenarios.tables import Csv

_PARTIES: Mapping[str, tuple[type[PartySettings], frozenset[str]]] = {
    "owner": (OwnerSettings, frozenset({"data", "policy", "approvals"})),
    "consumer": (ConsumerSettings, frozenset({"request", "validation", "output", "test", "downstream"})),
    "curator": (
        CuratorSettings,
        frozenset({"directory", "listen", "owners", "consumers", "summary", "quota", "quotas", "grace_s"}),
    ),
}
"""Settings of each role, and keys that no other role has."""

_KEYS = {"rows": "data", "D_v": "validation", "test rows": "test", "seeds": "seeds"}
"""Key of a configuration by the kind of its rows."""


def read_configuration(path: Path) -> PartySettings | SimulationSettings:
    """Read the settings in a file of any role; paths become absolute.

    Raises:
        ConfigError: the file is of no role, or not valid.
    """
    values = load_toml(path)
    if "scenario" in values:
        return load_simulation(str(path))
    role = _role(values)
    if role is None:
        remedy = "An owner's has 'data', a consumer's 'request' or 'release', a curator's 'directory'."
        raise ConfigError(f"{path.name} is not the configuration of a party", remedy)
    if role == "consumer" and "release" in values:
        return load_release_settings(path)
    return load_settings(_PARTIES[role][0], path)


def role_of(settings: PartySettings | SimulationSettings) -> str:
    """Role of settings: owner, consumer, curator or simulation."""
    if isinstance(settings, ReleaseConsumerSettings):
        return "consumer"
    return next((role for role, (kind, _) in _PARTIES.items() if isinstance(settings, kind)), "simulation")


def _role(values: Mapping[str, Any]) -> str | None:
    matches = {role: len(keys & values.keys()) for role, (_, keys) in _PARTIES.items()}
    best = max(matches, key=lambda role: matches[role])
    return best if matches[best] else None


def files_of_rows(config: Path) -> Iterator[tuple[Source, str, Place]]:
    """Yield the files of rows that a configuration names: the party or kind, and the keys that lead there.

    Raises:
        ConfigError: the configuration is of no role, not valid, or names no files of rows.
    """
    settings = read_configuration(config)
    if isinstance(settings, SimulationSettings):
        named = list(_of_scenario(settings, load_toml(config)["scenario"]))
    else:
        named = [(source, what, (_KEYS[what],)) for source, what in tables_of(settings)]
    if not named:
        raise ConfigError(f"{config.name} names no files of rows", "Give the files themselves.")
    yield from named


def tables_of(settings: PartySettings) -> Iterator[tuple[Source, str]]:
    """Yield a party's files of rows, with their kind."""
    match settings:
        case OwnerSettings():
            yield settings.data, "rows"
        case ConsumerSettings():
            named = ((settings.validation, "D_v"), (settings.test, "test rows"), (settings.seeds, "seeds"))
            yield from ((source, what) for source, what in named if source is not None)
        case CuratorSettings() if settings.seeds is not None:
            yield settings.seeds, "seeds"


def _of_scenario(
    settings: SimulationSettings, written: Mapping[str, Any]
) -> Iterator[tuple[Source, str, Place]]:
    if not isinstance(own := settings.scenario, Csv):
        return
    for place, owner in enumerate(own.owners or ()):
        is_list = isinstance(written["owners"], list)
        yield owner, owner.name, ("scenario", "owners", place if is_list else owner.name)
    if own.table is not None:
        file = as_file(own.table)
        file = file.model_copy(update={"ignore": (*file.ignore, own.site_column)})
        yield file, "table", ("scenario", "table")
    for source, what in ((own.validation, "D_v"), (own.test, "test rows"), (own.seeds, "seeds")):
        if source and not isinstance(source, int):
            yield source, what, ("scenario", _KEYS[what])
