"""Check of certificates: their name, their role, and that nobody revoked them."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

from fedkme.errors import FedkmeError, IdentityError
from fedkme.pki.files import stamp
from fedkme.pki.revocation import Revocation
from fedkme.wire.tls import Context, Role, check_peer, peer_certificate

End = Callable[[FedkmeError], Awaitable[None]]


class CertificateCheck:
    """Checks who speaks, and ends sessions of who may no longer.

    The list of revoked certificates is looked at when somebody comes; when it changed, or on `recheck`, so
    are all sessions that stand. A list that cannot be relied on lets nobody in and ends nothing.
    """

    def __init__(
        self,
        revoked: Path | None = None,
        authority: bytes = b"",
        say: Callable[..., None] = lambda event, **fields: None,
    ) -> None:
        """Begin with the list of revoked certificates, if there is one, and the PEM of its authority.

        Raises:
            IdentityError: the list cannot be relied on now.
        """
        self._path = revoked
        self._revocation = None if revoked is None else Revocation(revoked, authority)
        self._say = say
        self._seen = () if revoked is None else stamp(revoked)
        self._sessions: dict[object, tuple[bytes, End]] = {}
        self._ending: set[asyncio.Task[None]] = set()
        if self._revocation is not None and (line := self._revocation.warning()) is not None:
            say("warning", line=line)

    def check(self, context: Context, name: str, role: Role) -> None:
        """Let a party in.

        Raises:
            IdentityError: its certificate does not bear the name or the role, was revoked, or the list of
                revoked ones cannot be relied on.
        """
        check_peer(context, name, role)
        self.check_revoked(context)

    def check_revoked(self, context: Context) -> None:
        """Refuse whose certificate was revoked, whatever its name and role.

        Raises:
            IdentityError: it was, or the list of revoked ones cannot be relied on.
        """
        if self._path is None or self._revocation is None:
            return
        if stamp(self._path) != self._seen:
            self.recheck()
        if (shown := peer_certificate(context)) is not None:
            self._revocation.check(shown)

    @contextlib.contextmanager
    def session(self, context: Context, end: End) -> Iterator[None]:
        """Call `end` when the party's certificate is revoked while the block is open."""
        shown = peer_certificate(context)
        key = object()
        if shown is not None:
            self._sessions[key] = (shown, end)
        try:
            yield
        finally:
            self._sessions.pop(key, None)

    def recheck(self) -> None:
        """Look at the list now, and end sessions of who is on it."""
        if self._path is None or self._revocation is None:
            return
        self._seen = stamp(self._path)
        try:
            warning = self._revocation.warning()
        except IdentityError as error:
            self._say("warning", code=error.code, line=str(error))
            return
        if warning is not None:
            self._say("warning", line=warning)
        ended = 0
        for shown, end in list(self._sessions.values()):
            try:
                self._revocation.check(shown)
            except IdentityError as error:
                ended += 1
                self._say("revoked", code=error.code, cause=error.cause, remedy=error.remedy)
                task = asyncio.ensure_future(_run(end, error))
                self._ending.add(task)
                task.add_done_callback(self._ending.discard)
        self._say("revocations_read", sessions=len(self._sessions), ended=ended)


async def _run(end: End, error: FedkmeError) -> None:
    await end(error)
