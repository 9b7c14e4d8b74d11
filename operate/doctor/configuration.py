"""Checks of a configuration file: which party's it is, and whether it is valid."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from consumer.releases.client import ReleaseConsumerSettings, load_release_settings
from consumer.settings import ConsumerSettings
from curator.settings import CuratorSettings
from fedkme.config import load_toml
from fedkme.errors import ConfigError
from fedkme.party import PartySettings, load_settings
from owner.settings import OwnerSettings
from sim.config import SimulationSettings, load_simulation

_PARTIES: Mapping[str, tuple[type[PartySettings], frozenset[str]]] = {
    "owner": (OwnerSettings, frozenset({"data", "policy", "approvals"})),
    "consumer": (ConsumerSettings, frozenset({"request", "validation", "output", "test", "downstream"})),
    "curator": (
        CuratorSettings,
        frozenset({"directory", "listen", "owners", "consumers", "summary", "quota", "quotas", "grace_s"}),
    ),
}
"""The settings of each role, and keys that are in no other's."""


def read_configuration(path: Path) -> PartySettings | SimulationSettings:
    """The settings in a file, whosever they are; paths made absolute.

    Raises:
        ConfigError: it is nobody's, or not valid.
    """
    values = load_toml(path)
    if "scenario" in values:
        return load_simulation(str(path))
    role = _role(values)
    if role is None:
        raise ConfigError(
            f"{path.name} is the configuration of no party",
            "An owner's has 'data', a consumer's 'request' or 'release', a curator's 'directory'.",
        )
    if role == "consumer" and "release" in values:
        return load_release_settings(path)
    return load_settings(_PARTIES[role][0], path)


def role_of(settings: PartySettings | SimulationSettings) -> str:
    """owner, consumer, curator or simulation."""
    if isinstance(settings, ReleaseConsumerSettings):
        return "consumer"
    return next((role for role, (kind, _) in _PARTIES.items() if isinstance(settings, kind)), "simulation")


def _role(values: Mapping[str, Any]) -> str | None:
    found = {role: len(keys & values.keys()) for role, (_, keys) in _PARTIES.items()}
    best = max(found, key=lambda role: found[role])
    return best if found[best] else None
