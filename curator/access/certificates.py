"""Check of a peer's certificate: its name, its role and that nobody revoked it."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

from fedkme.errors import FedkmeError, IdentityError
from fedkme.pki.certificates import Role
from fedkme.pki.files import stamp
from fedkme.pki.revocation import Revocation
from fedkme.wire.tls import Context, check_peer, peer_certificate

End = Callable[[FedkmeError], Awaitable[None]]


class CertificateCheck:
    """Checks each peer's certificate, and ends the session of a peer whose certificate is revoked.

    The list of revoked certificates is read when a peer connects. If the list changed, or on `recheck`, every
    open session is checked again. An unreliable list lets no new peer in and ends no session.
    """

    def __init__(
        self,
        revoked: Path | None = None,
        authority: bytes = b"",
        say: Callable[..., None] = lambda event, **fields: None,
    ) -> None:
        """Read the list of revoked certificates.

        Args:
            revoked: the list; None where there is none.
            authority: PEM of the authority that signs the list.
            say: reports warnings and ended sessions.

        Raises:
            IdentityError: the list is unreliable.
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
        """Refuse a party whose certificate does not allow the name and the role.

        Raises:
            IdentityError: the certificate has another name or role, or was revoked; or the list of revoked
                certificates is unreliable.
        """
        check_peer(context, name, role)
        self.check_revoked(context)

    def check_revoked(self, context: Context) -> None:
        """Refuse a revoked certificate, whatever its name and role.

        Raises:
            IdentityError: the certificate was revoked, or the list of revoked certificates is unreliable.
        """
        if self._path is None or self._revocation is None:
            return
        if stamp(self._path) != self._seen:
            self.recheck()
        if (certificate := peer_certificate(context)) is not None:
            self._revocation.check(certificate)

    @contextlib.contextmanager
    def session(self, context: Context, end: End) -> Iterator[None]:
        """Call `end` when the party's certificate is revoked while the block is open."""
        certificate = peer_certificate(context)
        key = object()
        if certificate is not None:
            self._sessions[key] = (certificate, end)
        try:
            yield
        finally:
            self._sessions.pop(key, None)

    def recheck(self) -> None:
        """Read the list now, and end every session whose certificate is on it."""
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
        for certificate, end in list(self._sessions.values()):
            try:
                self._revocation.check(certificate)
            except IdentityError as error:
                ended += 1
                self._say("revoked", code=error.code, cause=error.cause, remedy=error.remedy)
                task = asyncio.ensure_future(_run(end, error))
                self._ending.add(task)
                task.add_done_callback(self._ending.discard)
        self._say("revocations_read", sessions=len(self._sessions), ended=ended)


async def _run(end: End, error: FedkmeError) -> None:
    await end(error)
