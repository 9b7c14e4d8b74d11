"""Connecting to the curator, with an explanation if it fails."""

import asyncio
import contextlib
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import grpc
import grpc.aio

from fedkme.errors import ConfigError, ConnectionFailedError, FedkmeError, IdentityError
from fedkme.ops.supervision import StatusReporter
from fedkme.party import canonical, host_of, is_loopback
from fedkme.pki.certificates import expiry, name_of, now
from fedkme.pki.expiry import expiries, warn_of_ends
from fedkme.pki.identity import Identity, IdentityFile
from fedkme.wire.channel import CLIENT_OPTIONS

LOOK_AGAIN_S = 0.5
"""Time to wait for a connection before asking gRPC again why there is none."""
FORGET_AFTER = 8
"""Attempts without an explained failure after which an earlier explanation no longer counts."""
PROXY_VARIABLES = (
    "grpc_proxy",
    "https_proxy",
    "http_proxy",
    "HTTPS_PROXY",
    "HTTP_PROXY",
    "all_proxy",
    "ALL_PROXY",
)
"""Environment variables that name a proxy; none is used."""

Notice = Callable[[FedkmeError], None]
"""Callback for the likely cause of a failed attempt to connect."""

_SAME_AUTHORITY = (
    "Use certificates of one authority on both sides, and none that has expired by either host's clock."
)
_NOT_SPOKEN = (
    IdentityError,
    "does not speak TLS",
    "Give it an identity, or set 'plaintext' on both sides; what lies between must pass TLS on unread.",
)
_OTHER_HOST = (
    IdentityError,
    "has a certificate for other host names",
    "Call it by a name in its certificate, or issue one that has this name.",
)
_CAUSES: dict[str, tuple[type[FedkmeError], str, str]] = {
    "WRONG_VERSION_NUMBER": _NOT_SPOKEN,
    "Hostname Verification": _OTHER_HOST,
    "not in peer certificate": _OTHER_HOST,  # the same in grpcio 1.72
    "expired": (
        IdentityError,
        "has a certificate that has expired",
        "Issue a new one, if this host's clock is right.",
    ),
    "not yet valid": (
        IdentityError,
        "has a certificate that is not valid yet by this host's clock",
        "Look at the clocks of both hosts.",
    ),
    "unsupported certificate purpose": (
        IdentityError,
        "shows a certificate that is not a curator's",
        "Issue one with --role curator; if you expected one, somebody else answers there.",
    ),
    "CERTIFICATE_VERIFY_FAILED": (
        IdentityError,
        "has no certificate of this party's authority",
        _SAME_AUTHORITY,
    ),
    "Tls handshake failed": (
        ConnectionFailedError,
        "sends bytes that are no handshake of TLS: something between changes them",
        "Look for what lies between the hosts: a forwarder, a proxy, a firewall that inspects TLS.",
    ),
    "Handshake read failed": (
        ConnectionFailedError,
        "accepts connections and closes them at once, as a forwarder or load balancer with nobody behind it",
        "Start the curator, or correct where that forwards to.",
    ),
}
"""Kind of error, likely cause and remedy by gRPC's words for a failed attempt; the first that fits counts."""
_REFUSED_BY_PROXY = re.compile(r"HTTP proxy returned response code (\d+)")
_ASK_PROXY = "Look at the proxy's rules and log; 407 asks for USER:PASSWORD@ before its HOST."
_SCHEMES = ("dns", "unix", "unix-abstract", "vsock", "ipv4", "ipv6", "xds")
"""Names of hosts that gRPC would take for a scheme before a path."""
_HUNG_UP = ("Socket closed", "recvmsg", "Connection reset")
"""gRPC's words for a connection that the other side closed after the handshake."""


class OwnIdentity:
    """This party's identity at each dial, which may be renewed on disk while the party runs."""

    def __init__(self, path: Path, reporter: StatusReporter) -> None:
        """Read the identity, and warn if it is about to expire.

        Raises:
            IdentityError: the file has no usable identity.
        """
        self._file = IdentityFile(path)
        self._reporter = reporter
        warn_of_ends(reporter.say, expiries(self._file.identity))

    def current(self) -> Identity:
        """Newest valid identity; an invalid new file is reported, and the previous identity is used."""
        try:
            if self._file.renewed():
                end = expiry(self._file.identity.leaf.not_valid_after_utc)
                self._reporter.say("certificate_renewed", line=f"expires {end}")
        except IdentityError as error:
            self._reporter.say("certificate_not_renewed", line=str(error))
        return self._file.identity


def own_identity(path: Path | None, reporter: StatusReporter) -> OwnIdentity | None:
    """The identity of a party's settings; None for plaintext."""
    return None if path is None else OwnIdentity(path, reporter)


async def dial(
    address: str,
    identity: Identity | OwnIdentity | None,
    connect_s: float,
    proxy: str | None = None,
    notice: Notice | None = None,
) -> grpc.aio.Channel:
    """Open a channel to the curator at host:port within `connect_s`; without an identity, in plaintext.

    A failed handshake may pass by itself (a curator that restarts behind a forwarder, a proxy that says 503),
    so every failure is tried again until the time is up; the last likely cause is then the error.

    Args:
        address: host:port.
        identity: this party's identity.
        connect_s: seconds to try.
        proxy: http://HOST:PORT to go through; never for loopback. Proxies of the environment are not used.
        notice: called with the likely cause of a failed attempt.

    Raises:
        ConfigError: the address is not host:port.
        ConnectionFailedError: no curator answered in time.
        IdentityError: until the end, one side did not accept the other's certificate.
    """
    if isinstance(identity, OwnIdentity):
        identity = identity.current()
    target = canonical(address)
    if not int(target.rpartition(":")[2]):
        remedy = "Name the port that the curator's line 'listening' has."
        raise ConfigError(f"{address} has port 0, at which nobody can be called", remedy)
    options = [*CLIENT_OPTIONS, *_proxy_options(target, proxy)]
    target = f"dns:///{target}" if host_of(target) in _SCHEMES else target
    if identity is None:
        channel = grpc.aio.insecure_channel(target, options=options)
    else:
        channel = grpc.aio.secure_channel(target, identity.channel_credentials(), options=options)
    proxied = proxy is not None and not is_loopback(host_of(target))
    attempts = _Attempts(address, identity, notice or _ignore, proxied)
    try:
        async with asyncio.timeout(connect_s):
            await _connected(channel, attempts)
    except TimeoutError:
        await channel.close()
        raise attempts.cause or _no_answer(address, connect_s, proxy) from None
    except BaseException:
        await channel.close()
        raise
    return channel


def _ignore(cause: FedkmeError) -> None:
    """Ignore the event."""


def _proxy_options(target: str, proxy: str | None) -> list[tuple[str, Any]]:
    if proxy is None or is_loopback(host_of(target)):
        return [("grpc.enable_http_proxy", 0)]
    return [("grpc.http_proxy", proxy)]


def _no_answer(address: str, connect_s: float, proxy: str | None) -> ConnectionFailedError:
    remedy = "Check the address, that the curator runs and that no firewall is between."
    if proxy is not None:
        remedy = "Check the address, that the curator runs, and that the 'proxy' of the settings reaches it."
    else:
        remedy += unused_proxy()
    return ConnectionFailedError(f"no curator answered at {address} within {connect_s:g} s", remedy)


def unused_proxy() -> str:
    """Sentence about a proxy of the environment, which is not used; "" if the environment names none."""
    variable = next((name for name in PROXY_VARIABLES if os.environ.get(name)), None)
    if variable is None:
        return ""
    return f" {variable} is set and not used: if only a proxy leads there, name it as 'proxy'."


class _Attempts:
    """Likely cause of the last failed attempts to connect."""

    def __init__(self, address: str, identity: Identity | None, notice: Notice, proxied: bool) -> None:
        self._address, self._identity, self._notice, self._proxied = address, identity, notice, proxied
        self._unexplained = 0
        self.cause: FedkmeError | None = None

    def failed(self, details: str) -> None:
        """Explain a failed attempt by gRPC's words for it."""
        cause = self._explained(details)
        # a name of two addresses: the other one's "Connection refused" explains less
        self._unexplained = 0 if cause else self._unexplained + 1
        if cause is not None or self._unexplained >= FORGET_AFTER:
            self.cause = cause
        if cause is not None:
            self._notice(cause)

    def _explained(self, details: str) -> FedkmeError | None:
        curator = f"the curator at {self._address}"
        if refused := _REFUSED_BY_PROXY.search(details):
            what = f"the proxy of the settings does not lead to {self._address}: it answers HTTP {refused[1]}"
            return ConnectionFailedError(what, _ASK_PROXY)
        for words, (kind, what, remedy) in _CAUSES.items():
            if words in details:
                return kind(f"{curator} {what}", remedy)
        if "Failed to connect" in details or not any(words in details for words in _HUNG_UP):
            return None
        if self._identity is not None and self._identity.leaf.not_valid_after_utc < now():
            cause = (
                f"{curator} hangs up: the certificate of {name_of(self._identity.leaf.subject)!r} has expired"
            )
            return IdentityError(cause, "Renew it, or issue a new one.")
        if self._proxied:  # gRPC has the same words for both
            what = f"the proxy of the settings, or {curator}, hangs up"
            return ConnectionFailedError(
                what, f"{_ASK_PROXY} Else: {_SAME_AUTHORITY[:1].lower()}{_SAME_AUTHORITY[1:]}"
            )
        if self._identity is not None:  # TLS verifies the client last, and the curator gives no reason
            what = f"{curator} hangs up: it does not accept this party's certificate"
            return IdentityError(what, _SAME_AUTHORITY)
        what = f"{curator} hangs up on this party, which does not use TLS"
        return ConnectionFailedError(what, "Give this party an 'identity', or set 'plaintext' on both sides.")


async def _connected(channel: grpc.aio.Channel, attempts: _Attempts) -> None:
    """Wait until the curator takes the call, also if the curator is not up yet."""
    while (state := channel.get_state(try_to_connect=True)) is not grpc.ChannelConnectivity.READY:
        if state is grpc.ChannelConnectivity.TRANSIENT_FAILURE:
            attempts.failed(await _last_error(channel))
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(LOOK_AGAIN_S):
                await channel.wait_for_state_change(state)


async def _last_error(channel: grpc.aio.Channel) -> str:
    """Reason why the last attempt failed, from a call that fails at once: gRPC reports it only to calls."""
    try:
        probe = channel.unary_unary("/fedkme.v1.Owners/Probe", bytes, bytes)
        await probe(b"")
    except grpc.aio.AioRpcError as error:
        return error.details() or ""
    return ""
