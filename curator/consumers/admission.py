"""Admission of consumers' calls, shared by every service."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Coroutine
from typing import Any

from curator.consumers.stream import ConsumerStream, Context
from curator.peers import CertificateCheck, NameRegister
from curator.run.run import Run
from curator.runs.context import GOES_ON
from curator.runs.queue import RunQueue, unknown
from curator.settings import CuratorSettings
from fedkme.errors import FedkmeError, ProtocolError, QuotaError, StoppingError, StoreError

MOST_CALLS = 16
"""Calls of one consumer at a time: each call may hold as much of D_v as the curator accepts."""
_REQUEST_ID = 64  # bytes


class OpenCall:
    """An open call.

    Attributes:
        stream: sends to and receives from the caller.
        name: the caller's name; None until the caller gave it.
        run: the run that the call is about; None until the curator knows it.
    """

    def __init__(self, stream: ConsumerStream) -> None:
        self.stream = stream
        self.name: str | None = None
        self.run: Run | None = None


class ConsumerAdmission:
    """Lets consumers reach their own runs alone."""

    def __init__(
        self,
        settings: CuratorSettings,
        runs: RunQueue,
        names: NameRegister,
        say: Callable[..., None],
        certificates: CertificateCheck | None = None,
    ) -> None:
        self._settings = settings
        self._runs = runs
        self._names = names
        self._say = say
        self._certificates = certificates or CertificateCheck()
        self._calls: dict[asyncio.Task[Any], OpenCall] = {}
        self._count = 0
        self.served = asyncio.Event()
        self.stopping = False

    async def delivered(self) -> None:
        """Wait until every caller that follows a finished run has the run's result."""

        def deliveries() -> list[asyncio.Task[Any]]:
            return [task for task, call in self._calls.items() if call.run and call.run.over.is_set()]

        while tasks := deliveries():
            await asyncio.wait(tasks)

    @contextlib.asynccontextmanager
    async def call(self, context: Context) -> AsyncIterator[OpenCall]:
        """Register a call about one run, from its beginning to its end."""
        task = asyncio.current_task()
        assert task is not None, "gRPC serves each call in a task of its own"
        call = self._calls[task] = OpenCall(self.stream(context))
        try:
            yield call
        finally:
            del self._calls[task]
            if call.run is None or not call.run.open:
                self._count += 1
            if self._settings.runs is not None and self._count >= self._settings.runs:
                self.served.set()

    def stream(self, context: Context) -> ConsumerStream:
        """Wrap a gRPC context as a consumer's call."""
        return ConsumerStream(context, self._settings.progress_s, self._certificates)

    def refused(self, error: FedkmeError, name: str | None, run: Run | None = None) -> FedkmeError:
        """Log a refusal, with the caller's name where the certificate proved it.

        Returns:
            The error for the caller: of a store's failure it says only that the curator's store failed.
        """
        where = {} if run is None else {"run": run.name, "round": run.selected}
        whose = {} if name is None else {"consumer": name}
        self._say("refused", **where, **whose, code=error.code, cause=error.cause, remedy=error.remedy)
        if isinstance(error, StoreError):
            return StoreError("the curator's store failed", GOES_ON)
        return error

    async def while_admitted(self, context: Context, work: Coroutine[Any, Any, None]) -> None:
        """Await `work`, or stop it when the caller's certificate is revoked.

        Raises:
            IdentityError: the certificate was revoked.
        """
        task = asyncio.ensure_future(work)
        fault: FedkmeError | None = None

        async def end(error: FedkmeError) -> None:
            nonlocal fault
            fault = error
            task.cancel()

        with self._certificates.session(context, end):
            try:
                await task
            except asyncio.CancelledError:
                if fault is None:
                    raise
                raise fault from None

    def check_caller(self, stream: ConsumerStream) -> None:
        """Refuse a caller whose certificate allows no call.

        Raises:
            IdentityError: the certificate does not allow it.
        """
        stream.check_caller(self._settings.consumers, self._settings.owners)

    def check(self, stream: ConsumerStream, name: str) -> None:
        """Refuse a caller that may not use this name.

        Raises:
            IdentityError: the certificate does not allow the name, or the name is an owner's.
        """
        self.check_caller(stream)
        stream.check_name(name, self._settings.consumers)
        self._names.admit_consumer(name)

    def admit(self, call: OpenCall, name: str, request_id: bytes = b"") -> None:
        """Check the caller's name, and note the name of the call.

        Raises:
            IdentityError: see `check`.
            QuotaError: the caller has too many calls open.
            ProtocolError: the id of the request is too long.
        """
        self.check(call.stream, name)
        if sum(other.name == name for other in self._calls.values()) >= MOST_CALLS:
            raise QuotaError(f"{name} has {MOST_CALLS} calls open already", "End one of them.")
        call.name = name
        if len(request_id) > _REQUEST_ID:
            raise ProtocolError("a request has an odd id")

    def own(self, name: str, run_name: str) -> Run:
        """Find one of the caller's own runs.

        Raises:
            ConfigError: no run has that name, or the run is another consumer's.
        """
        run = self._runs.find(run_name)
        if run is None or run.consumer != name:
            raise unknown(run_name)
        return run

    def check_open(self) -> None:
        """Refuse new runs while the curator stops.

        Raises:
            StoppingError: the curator is stopping.
        """
        if self.stopping:
            raise StoppingError("the curator is being stopped and takes no new runs", "Ask again later.")
