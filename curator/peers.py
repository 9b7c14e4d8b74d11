"""Peers of a curator: names, certificates and quotas; unexpected errors are hidden from peers."""

import asyncio
import contextlib
import functools
import logging
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, TypeVar

import grpc
import grpc.aio
from pydantic import Field

from curator.run.run import Run
from fedkme.config import Settings
from fedkme.errors import FedkmeError, IdentityError, QuotaError
from fedkme.party import fault_of_name
from fedkme.pki.certificates import Role
from fedkme.pki.files import stamp
from fedkme.pki.revocation import Revocation
from fedkme.wire.tls import Context, check_peer, peer_certificate


class NameRegister:
    """Names of owners and of consumers: from the settings, and of parties that joined since the start."""

    def __init__(self, owners: Iterable[str] = (), consumers: Iterable[str] = ()) -> None:
        self._owners = set(owners)
        self._consumers = set(consumers)

    def admit_owner(self, name: str) -> None:
        """Register a name as an owner's.

        Raises:
            IdentityError: the name is not a valid owner's name, or a consumer has it.
        """
        _check(fault_of_name(name, "owner"))
        if name in self._consumers:
            raise IdentityError(f"{name!r} is the name of a consumer", "Rename one of the two.")
        self._owners.add(name)

    def admit_consumer(self, name: str) -> None:
        """Register a name as a consumer's.

        Raises:
            IdentityError: the name is not a valid consumer's name, or an owner has it.
        """
        _check(fault_of_name(name, "consumer"))
        if name in self._owners:
            raise IdentityError(f"{name!r} is the name of an owner", "Rename one of the two.")
        self._consumers.add(name)


def _check(fault: str) -> None:
    if fault:
        raise IdentityError(fault, "Choose another name, with a certificate of that name.")


End = Callable[[FedkmeError], Coroutine[Any, Any, None]]


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
        self.revocation = None if revoked is None else Revocation(revoked, authority)
        self._say = say
        self._seen = () if revoked is None else stamp(revoked)
        self._sessions: dict[object, tuple[bytes, End]] = {}
        self._ending: set[asyncio.Task[None]] = set()

    def check(self, context: Context, name: str, role: Role) -> None:
        """Refuse a party whose certificate does not allow the name and the role.

        Raises:
            IdentityError: the certificate has another name or role, or was revoked; or the list of revoked
                certificates is unreliable.
        """
        check_peer(context, name, role)
        self.check_revoked(context)

    def check_revoked(self, context: Context) -> None:
        """Refuse a revoked certificate of any name and role.

        Raises:
            IdentityError: the certificate was revoked, or the list of revoked certificates is unreliable.
        """
        if self._path is None or self.revocation is None:
            return
        if stamp(self._path) != self._seen:
            self.recheck()
        if (certificate := peer_certificate(context)) is not None:
            self.revocation.check(certificate)

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
        if self._path is None or self.revocation is None:
            return
        self._seen = stamp(self._path)
        try:
            warning = self.revocation.warning()
        except IdentityError as error:
            self._say("warning", code=error.code, line=str(error))
            return
        if warning is not None:
            self._say("warning", line=warning)
        ended = 0
        for certificate, end in list(self._sessions.values()):
            try:
                self.revocation.check(certificate)
            except IdentityError as error:
                ended += 1
                self._say("revoked", code=error.code, cause=error.cause, remedy=error.remedy)
                task = asyncio.ensure_future(end(error))
                self._ending.add(task)
                task.add_done_callback(self._ending.discard)
        self._say("revocations_read", sessions=len(self._sessions), ended=ended)


Servicer = TypeVar("Servicer")
Request = TypeVar("Request")
CallContext = TypeVar("CallContext", bound="grpc.aio.ServicerContext[Any, Any]")
Reply = TypeVar("Reply")
Method = Callable[[Servicer, Request, CallContext], Awaitable[Reply]]

LOG = logging.getLogger("curator")
UNFORESEEN = "the curator failed; its own log says how"


def masks_errors(
    method: Method[Servicer, Request, CallContext, Reply],
) -> Method[Servicer, Request, CallContext, Reply]:
    """Wrap a servicer's method so that the text of an unexpected error stays in this process.

    gRPC would send the exception's text to the peer, and the text may hold anything: a row, a path, another
    party's name. The traceback goes to this process's log; the peer gets the status UNKNOWN alone.
    """

    @functools.wraps(method)
    async def serve(self: Servicer, request: Request, context: CallContext) -> Reply:
        try:
            return await method(self, request, context)
        except grpc.aio.AbortError:
            raise
        except Exception:
            LOG.exception("%s failed in a way that was not foreseen", method.__name__)
            with contextlib.suppress(grpc.aio.UsageError):  # the call is over already
                await context.abort(grpc.StatusCode.UNKNOWN, UNFORESEEN)
            raise

    return serve


_REMEDY = "Ask for less, wait, or agree with the curator on a larger quota."


class Quota(Settings):
    """Limits for one consumer; None means no limit."""

    most_rows: int | None = Field(None, ge=1)
    """Rows of one summary."""
    most_rows_in_all: int | None = Field(None, ge=1)
    """Rows of all summaries, except those cancelled before a row was chosen."""
    most_runs: int | None = Field(None, ge=1)
    """Runs in all."""
    most_open_runs: int | None = Field(16, ge=1)
    """Runs that wait or are under way at the same time."""
    most_values: int | None = Field(2**23, ge=1)
    """Numbers of D_v (rows x columns) in all open runs that send D_v itself (`share = "rows"`)."""

    @property
    def counts_all(self) -> bool:
        """True where the quota limits all past runs, not the open runs alone."""
        return self.most_rows_in_all is not None or self.most_runs is not None

    def check(self, consumer: str, rows: int, before: Sequence[Run]) -> None:
        """Refuse a request that exceeds the quota.

        Args:
            consumer: who asks.
            rows: number of rows of the summary; 0 for a release.
            before: the consumer's earlier runs; its open runs are enough unless `counts_all`.

        Raises:
            QuotaError: the request exceeds the quota.
        """
        begun = [run for run in before if run.status != "asked"]
        earlier_rows = sum(run.rows for run in begun)
        limits = (
            ("rows of one summary", self.most_rows, rows),
            ("rows of all its summaries", self.most_rows_in_all, earlier_rows + rows),
            ("runs", self.most_runs, len(begun) + 1),
            ("open runs", self.most_open_runs, _open(begun) + 1),
        )
        for what, most, wanted in limits:
            if most is not None and wanted > most:
                raise QuotaError(f"{consumer} would have {wanted} {what} and may have {most}", _REMEDY)

    def check_values(self, consumer: str, values: int) -> None:
        """Refuse a D_v with which the consumer's open runs would hold `values` numbers in all.

        Raises:
            QuotaError: `values` exceeds the quota.
        """
        if self.most_values is not None and values > self.most_values:
            cause = f"{consumer} would send D_v of {values} numbers in all and may send {self.most_values}"
            raise QuotaError(cause, f'Leave D_v at home (share = "embedding"). {_REMEDY}')


def _open(runs: Iterable[Run]) -> int:
    return sum(run.open for run in runs)
