"""Connecting to the curator, with an explanation if it fails."""

from __future__ import annotations

import asyncio
import contextlib
from pathlib import Path

import grpc
import grpc.aio

from fedkme.errors import ConnectionFailedError, FedkmeError, IdentityError
from fedkme.ops.supervision import StatusReporter
from fedkme.pki.certificates import expiry
from fedkme.pki.identity import IdentityFile, expiry_warning
from fedkme.wire.channel import CLIENT_OPTIONS
from fedkme.wire.tls import Identity

LOOK_AGAIN_S = 0.5
"""Time to wait for a connection before asking gRPC again why there is none."""
HANG_UPS = 4
"""Number of hang-ups in a row during the handshake after which to give up: the curator will not accept."""

_SAME_AUTHORITY = "Use certificates of one authority on both sides, and none that has expired."
_OTHER_HOST = (
    "has a certificate for other host names",
    "Call it by a name in its certificate, or issue one that has this name.",
)
_REFUSALS = {
    "WRONG_VERSION_NUMBER": ("does not speak TLS", "Give it an identity, or set 'plaintext' on both sides."),
    "Hostname Verification": _OTHER_HOST,
    "not in peer certificate": _OTHER_HOST,  # the same in grpcio 1.72
    "expired": ("has a certificate that has expired", "Issue a new one."),
    "unsupported certificate purpose": (
        "shows a certificate that is not a curator's",
        "Issue one with --role curator; if you expected one, somebody else answers there.",
    ),
    "Tls handshake failed": ("has no certificate of this party's authority", _SAME_AUTHORITY),
}
"""Fault of the curator and remedy, by gRPC's words for a handshake that can never succeed."""


class OwnIdentity:
    """This party's identity at each dial, which may be renewed on disk while the party runs."""

    def __init__(self, path: Path, reporter: StatusReporter) -> None:
        """Read the identity, and warn if it is about to expire.

        Raises:
            IdentityError: the file has no usable identity.
        """
        self._file = IdentityFile(path)
        self._reporter = reporter
        if (line := expiry_warning(self._file.identity)) is not None:
            reporter.say("warning", line=line)

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


async def dial(address: str, identity: Identity | OwnIdentity | None, connect_s: float) -> grpc.aio.Channel:
    """Open a channel to the curator at host:port within `connect_s`; without an identity, in plaintext.

    Raises:
        ConnectionFailedError: no curator answered in time, or the other side hangs up.
        IdentityError: the curator's certificate is not acceptable.
    """
    if isinstance(identity, OwnIdentity):
        identity = identity.current()
    if identity is None:
        channel = grpc.aio.insecure_channel(address, options=CLIENT_OPTIONS)
    else:
        channel = grpc.aio.secure_channel(address, identity.channel_credentials(), options=CLIENT_OPTIONS)
    try:
        async with asyncio.timeout(connect_s):
            await _connected(channel, address, identity)
    except TimeoutError:
        await channel.close()
        raise ConnectionFailedError(
            f"no curator answered at {address} within {connect_s:g} s",
            "Check the address, that the curator runs and that no firewall is between.",
        ) from None
    except FedkmeError:
        await channel.close()
        raise
    return channel


async def _connected(channel: grpc.aio.Channel, address: str, identity: Identity | None) -> None:
    """Wait until the curator takes the call, also if the curator is not up yet."""
    hang_ups = 0
    while (state := channel.get_state(try_to_connect=True)) is not grpc.ChannelConnectivity.READY:
        if state is grpc.ChannelConnectivity.TRANSIENT_FAILURE:
            details = await _last_error(channel)
            for words, (what, remedy) in _REFUSALS.items():
                if words in details:
                    raise IdentityError(f"the curator at {address} {what}", remedy)
            hang_ups = hang_ups + 1 if "Socket closed" in details else 0
            if hang_ups == HANG_UPS:
                raise _hung_up(address, identity)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(LOOK_AGAIN_S):
                await channel.wait_for_state_change(state)


def _hung_up(address: str, identity: Identity | None) -> FedkmeError:
    """Likely cause of a hang-up; the curator gives none, since TLS verifies the client last."""
    if identity is None:
        return ConnectionFailedError(
            f"the curator at {address} hangs up on this party, which does not use TLS",
            "Give this party an 'identity', or set 'plaintext' on both sides.",
        )
    return IdentityError(
        f"the curator at {address} hangs up: it does not accept this party's certificate", _SAME_AUTHORITY
    )


async def _last_error(channel: grpc.aio.Channel) -> str:
    """Reason why the last attempt failed, from a call that fails at once: gRPC reports it only to calls."""
    try:
        probe = channel.unary_unary("/fedkme.v1.Owners/Probe", bytes, bytes)
        await probe(b"")
    except grpc.aio.AioRpcError as error:
        return error.details() or ""
    return ""
