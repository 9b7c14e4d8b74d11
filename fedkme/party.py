"""What every party's configuration has in common: identity, randomness, time limits."""

from __future__ import annotations

import ipaddress
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from pydantic import Field

from fedkme.config import Settings
from fedkme.errors import ConfigError
from fedkme.privacy.noise import NoiseSource, SecureNoise, simulated

NoiseFor = Callable[[str], NoiseSource]
"""A party's private randomness, by purpose."""


class PartySettings(Settings):
    """Settings of any party. Exactly one of `identity` and `plaintext` is needed."""

    identity: Path | None = None
    """Folder with certificate.pem, key.pem and authority.pem."""
    plaintext: bool = False
    """No TLS; only on loopback."""
    simulation_seed: int | None = Field(None, ge=0)
    """Makes this party's private randomness repeatable; only in simulations on loopback."""
    connect_s: float = Field(30.0, gt=0)
    """How long to wait for the other parties."""

    def check_address(self, address: str) -> None:
        """Refuse what is fit only for one machine when another one is meant.

        Args:
            address: host:port that this party listens on or calls.

        Raises:
            ConfigError: not an address; plaintext or seeded randomness off loopback; neither identity nor
                plaintext.
        """
        host, _, port = address.rpartition(":")
        if not host or not port.isdecimal() or int(port) > 65535:
            raise ConfigError(f"{address!r} is not host:port", "Write for example curator.example.org:7700.")
        if self.identity is None and not self.plaintext:
            raise ConfigError("there is neither 'identity' nor 'plaintext'", "Name the identity's folder.")
        if self.identity is not None and self.plaintext:
            raise ConfigError("'identity' and 'plaintext' exclude each other", "Keep one of them.")
        if _is_loopback(host):
            return
        if self.plaintext:
            raise ConfigError(
                f"plaintext is refused for {address}", "Use an identity; plaintext is for loopback."
            )
        if self.simulation_seed is not None:
            raise ConfigError(
                f"seeded randomness is refused for {address}",
                "Remove 'simulation_seed': noise for real data comes from the operating system.",
            )

    def noise_for(self, party: str) -> NoiseFor:
        """This party's private randomness: seeded in a simulation, else the operating system's."""
        return noise_for(self.simulation_seed, party)

    def relative_to(self, directory: Path) -> dict[str, Path | None]:
        """The paths of these settings, resolved against the folder of the file that they stand in."""
        return {
            name: directory / value
            for name, value in self
            if isinstance(value, Path) and not value.is_absolute()
        }


def _is_loopback(host: str) -> bool:
    """Whether a host, as it is written in an address, is this machine and no name of another one."""
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host == "localhost"


def noise_for(simulation_seed: int | None, party: str) -> NoiseFor:
    """Private randomness of a party, repeatable only when there is a seed."""
    if simulation_seed is None:
        return lambda purpose: SecureNoise()
    return lambda purpose: simulated(simulation_seed, party, purpose)


PartyT = TypeVar("PartyT", bound=PartySettings)


def resolve_paths(settings: PartyT, file: Path) -> PartyT:
    """The same settings with paths relative to their file made absolute."""
    return settings.model_copy(update=settings.relative_to(file.parent))
