"""Way from a party to the OpenTelemetry collector of its settings."""

import contextlib
import ipaddress
import socket
from collections.abc import Callable, Iterator
from urllib.parse import urlsplit

from fedkme.errors import ConfigError, missing_extra
from fedkme.ops.traces import Tracer
from fedkme.party import PartySettings
from fedkme.pki.identity import Identity


@contextlib.contextmanager
def traced(settings: PartySettings, name: str, say: Callable[..., None]) -> Iterator[Tracer]:
    """Send the spans of a party of this name to the collector of its settings, if they name one.

    Raises:
        ConfigError: the collector is not in the user's own network.
        MissingDependencyError: the extra `otel` is not installed.
    """
    if settings.traces is None:
        yield Tracer()
        return
    check_collector(settings.traces)
    try:
        from fedkme.ops.otlp import collector
    except ImportError as error:
        raise missing_extra(error) or error from None
    salt = b""  # runs of a simulation have the names of other simulations' runs
    if settings.simulation_seed is not None and settings.identity is not None:
        salt = Identity.load(settings.identity).authority
    with collector(settings.traces, name, say) as emit:
        yield Tracer(emit, salt)


def check_collector(url: str) -> None:
    """Refuse a collector outside the user's own network.

    Raises:
        ConfigError: it is on the internet, or nobody knows its name.
    """
    parts = urlsplit(url)
    host = parts.hostname or ""
    try:
        addresses = socket.getaddrinfo(host, parts.port, type=socket.SOCK_STREAM)
    except OSError:
        remedy = "Correct the host of 'traces', or remove the setting."
        raise ConfigError(f"'traces' names {host}, which has no address", remedy) from None
    for *_, address in addresses:
        if ipaddress.ip_address(str(address[0]).partition("%")[0]).is_global:
            raise ConfigError(
                f"'traces' names {host}, which is on the internet: spans stay in your own network",
                "Name a collector on this host or in your network, which may pass them on.",
            )
