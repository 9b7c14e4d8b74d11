"""Settings common to all parties' configurations: identity, randomness, time limits."""

import ipaddress
import re
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field

from fedkme.config import Settings, load_toml, validate
from fedkme.errors import ConfigError
from fedkme.privacy.events import CONSUMER, CURATOR, RESERVED
from fedkme.privacy.noise import NoiseSource, SecureNoise, simulated
from fedkme.store import Durability
from fedkme.tables.data_file import DataFile, placed

NoiseFor = Callable[[str], NoiseSource]
"""A party's private randomness, by purpose."""

Role = Literal["owner", "curator", "consumer"]
LogFormat = Literal["text", "json"]

_NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,62}")
_HOST = re.compile(r"[^\s:/@?#%&*\\\[\]\"'<>(){}|,;=]{1,253}")
"""Names of hosts, also those of other scripts: a web address, or a sign by mistake, is none."""
_PORT = re.compile(r"[0-9]{1,5}")
_ADDRESS = "Write for example curator.example.org:7700, or [2001:db8::1]:7700 for an IPv6 address."
_RUN_LETTERS = 128
_OWN_WORDS: dict[Role, str] = {"curator": CURATOR, "consumer": CONSUMER}


def fault_of_name(name: str, role: Role) -> str:
    """Reason why a party cannot have a name, in a line; empty for a valid name.

    A party's name is also the name of its certificate and its folder, and the party's name in ledgers, where
    some words are reserved.
    """
    if not _NAME.fullmatch(name):
        return f"{name[:64]!r} is no name: 1 to 63 of a-z, 0-9 and '-', which does not come first"
    if name in RESERVED and name != _OWN_WORDS.get(role):
        return f"{name!r} stands for something else in every ledger, and no {role} is called so"
    return ""


def fits_ledgers(run: str) -> bool:
    """Check whether a run's name from another party fits in stores, logs and ledgers."""
    return len(run) <= _RUN_LETTERS and run.isprintable()


def _checked(role: Role) -> AfterValidator:
    def check(name: str) -> str:
        if fault := fault_of_name(name, role):
            raise ValueError(fault)
        return name

    return AfterValidator(check)


def _url(what: str, *schemes: str, user: bool = False) -> AfterValidator:
    """Check that a URL has a scheme, a host and a port, with a user or without, and nothing else."""

    def check(url: str) -> str:
        parts = urlsplit(url)
        try:
            named = parts.scheme in schemes and bool(parts.hostname) and parts.port is not None
        except ValueError:  # the port is no number
            named = False
        if not named or parts.path.strip("/") or parts.query or (parts.username is not None and not user):
            forms = " or ".join(f"{scheme}://HOST:PORT" for scheme in schemes)
            raise ValueError(f"{what} is {forms}")  # the value may hold a password
        return url.rstrip("/")

    return AfterValidator(check)


CollectorUrl = Annotated[str, _url("a collector", "http", "https")]
OwnerName = Annotated[str, _checked("owner")]
CuratorName = Annotated[str, _checked("curator")]
ConsumerName = Annotated[str, _checked("consumer")]


class PartySettings(Settings):
    """Settings of any party. Exactly one of `identity` and `plaintext` is needed."""

    identity: Path | None = None
    """A bundle of `fedkme pki`, or a folder with certificate.pem, key.pem and authority.pem."""
    plaintext: bool = False
    """No TLS; only on loopback."""
    simulation_seed: int | None = Field(None, ge=0)
    """Makes this party's private randomness repeatable; only in simulations on loopback."""
    connect_s: float = Field(30.0, gt=0)
    """Time to wait for the other parties."""
    away_s: float | None = Field(None, ge=0)
    """Time without a connection after which to give up, once there was one; none: never."""
    proxy: Annotated[str, _url("a proxy", "http", user=True)] | None = None
    """http://[USER:PASSWORD@]HOST:PORT that leads to the curator (CONNECT); none: directly, whatever the
    environment names. Loopback is always reached directly."""
    traces: CollectorUrl | None = None
    """http[s]://HOST:PORT of an OpenTelemetry collector in your own network that takes the spans of runs
    (OTLP over gRPC; extra `otel`); none: no traces."""
    log: LogFormat = "text"
    """Format of log lines: `text`, or `json` with one object a line."""
    log_file: Path | None = None
    """File of log lines; none: standard error."""

    def check_address(self, address: str) -> None:
        """Refuse settings for a single machine if the host:port is off loopback.

        Raises:
            ConfigError: the address is malformed; plaintext or seeded randomness is used off loopback; or not
                exactly one of identity and plaintext is given.
        """
        host = host_of(address)
        if self.identity is None and not self.plaintext:
            raise ConfigError("there is neither 'identity' nor 'plaintext'", "Name the identity's folder.")
        if self.identity is not None and self.plaintext:
            raise ConfigError("'identity' and 'plaintext' exclude each other", "Keep one of them.")
        if is_loopback(host):
            return
        if self.plaintext:
            cause = f"plaintext is refused for {address}"
            raise ConfigError(cause, "Use an identity; plaintext is for loopback.")
        if self.simulation_seed is not None:
            remedy = "Remove 'simulation_seed': noise for real data comes from the operating system."
            raise ConfigError(f"seeded randomness is refused for {address}", remedy)

    def noise_for(self, party: str) -> NoiseFor:
        """This party's private randomness: seeded in a simulation, else the operating system's."""
        return noise_for(self.simulation_seed, party)

    def relative_to(self, directory: Path) -> dict[str, Any]:
        """Paths of these settings, resolved against the folder of their file."""
        return {name: placed(value, directory) for name, value in self if isinstance(value, Path | DataFile)}


class StoredPartySettings(PartySettings):
    """Settings of a party that outlives its process."""

    journal: str = "journal.db"
    """Store of what survives a restart: open runs and the ledger, one chain over all of them. A file, or
    postgresql://USER@HOST/DATABASE."""
    durability: Durability = "power"
    """`power` waits for the disk before anything leaves; `process` survives the process, not the machine."""

    def relative_to(self, directory: Path) -> dict[str, Any]:
        """Make paths absolute as for any party, also the path of a journal in a file."""
        changes: dict[str, Any] = dict(super().relative_to(directory))
        if "://" not in self.journal and self.journal != ":memory:":
            changes["journal"] = str(directory / self.journal)
        return changes


class ServicePartySettings(StoredPartySettings):
    """Settings of a party that serves until it is told to stop."""

    metrics: str | None = None
    """host:port at which Prometheus may read figures, for example 127.0.0.1:9464; none: nowhere."""
    metrics_anywhere: bool = False
    """Let `metrics` be off loopback: whoever reaches it reads names of parties and what they spent."""


def canonical(address: str) -> str:
    """Spell host:port in one way: an IP address as certificates and gRPC do, a name in small letters.

    >>> canonical("[0:0:0:0:0:0:0:1]:7700"), canonical("LocalHost.:7700")
    ('[::1]:7700', 'localhost:7700')

    Raises:
        ConfigError: the address is not host:port.
    """
    host, _, port = address.strip().rpartition(":")
    bare = host[1:-1] if host.startswith("[") and host.endswith("]") else host
    if not bare or (":" in bare and bare == host) or not _PORT.fullmatch(port) or int(port) > 65535:
        raise ConfigError(f"{address[:80]!r} is not host:port", _ADDRESS)
    number = _ip(bare)
    if number is None and not _HOST.fullmatch(bare):
        raise ConfigError(f"{address[:80]!r} is not host:port: {bare[:40]!r} is no name of a host", _ADDRESS)
    if number is None:
        return f"{bare.lower().removesuffix('.')}:{port}"
    return f"[{number}]:{port}" if number.version == 6 else f"{number}:{port}"


def host_of(address: str) -> str:
    """Host of host:port in its canonical form, without brackets.

    Raises:
        ConfigError: the address is not host:port.
    """
    return canonical(address).rpartition(":")[0].strip("[]")


def host_and_port(address: str, setting: str, example: str) -> tuple[str, int]:
    """Split the address of a page or of figures, which a setting names.

    Raises:
        ConfigError: it is not host:port.
    """
    host, _, port = address.rpartition(":")
    if not host or not port.isdecimal() or int(port) > 65535:
        raise ConfigError(f"'{setting}' is {address!r}, not host:port", f"Write for example {example}.")
    return host, int(port)


def _ip(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    """The IP address that a host is; an IPv4 address in IPv6 form becomes IPv4. None for a name."""
    try:
        number = ipaddress.ip_address(host)
    except ValueError:
        return None
    return getattr(number, "ipv4_mapped", None) or number


def is_loopback(host: str) -> bool:
    """Check whether the host of an address is this machine."""
    number = _ip(host.strip("[]"))
    return host.lower().removesuffix(".") == "localhost" if number is None else number.is_loopback


def noise_for(simulation_seed: int | None, party: str) -> NoiseFor:
    """Private randomness of a party, repeatable only with a seed."""
    if simulation_seed is None:
        return lambda purpose: SecureNoise()
    return lambda purpose: simulated(simulation_seed, party, purpose)


PartyT = TypeVar("PartyT", bound=PartySettings)


def load_settings(kind: type[PartyT], file: Path) -> PartyT:
    """Read a party's configuration; paths in it are made absolute.

    Raises:
        ConfigError: the file cannot be read, or is not valid.
    """
    return resolve_paths(validate(kind, load_toml(file), file.name), file)


def resolve_paths(settings: PartyT, file: Path) -> PartyT:
    """Make the paths in settings absolute, relative to the file of the settings."""
    return settings.model_copy(update=settings.relative_to(file.parent))
