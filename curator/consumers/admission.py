"""Admission of consumers' calls, the same for every service."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Coroutine
from typing import Any

from curator.access.certificates import CertificateCheck
from curator.access.names import NameRegister
from curator.consumers.call import ConsumerCall, Context
from curator.run.run import Run
from curator.runs.context import GOES_ON
from curator.runs.queue import RunQueue, unknown
from curator.settings import CuratorSettings
from fedkme.errors import FedkmeError, ProtocolError, QuotaError, StoppingError, StoreError

MOST_CALLS = 16
"""Calls of one consumer at a time: each may hold as much of D_v as the curator takes."""
_REQUEST_ID = 64  # bytes


class OpenCall:
    """One call.

    A line to the caller, its name once it said it, and the run that it is about once that is known.
    """

    def __init__(self, line: ConsumerCall) -> None:
        self.line = line
        self.name: str | None = None
        self.run: Run | None = None


class ConsumerAdmission:
    """Lets consumers in, to their own runs alone."""

    def __init__(
        self,
        settings: CuratorSettings,
        runs: RunQueue,
        names: NameRegister,
        say: Callable[..., None],
        admission: CertificateCheck | None = None,
    ) -> None:
        self._settings = settings
        self._runs = runs
        self._names = names
        self._say = say
        self._admission = admission or CertificateCheck()
        self._calls: dict[asyncio.Task[Any], OpenCall] = {}
        self._count = 0
        self.served = asyncio.Event()
        self.stopping = False

    async def delivered(self) -> None:
        """Wait until who follows a run that is over has what it made."""

        def waiting() -> list[asyncio.Task[Any]]:
            return [task for task, call in self._calls.items() if call.run and call.run.over.is_set()]

        while tasks := waiting():
            await asyncio.wait(tasks)

    @contextlib.asynccontextmanager
    async def call(self, context: Context) -> AsyncIterator[OpenCall]:
        """One call about one run, from its beginning to its end."""
        task = asyncio.current_task()
        assert task is not None, "gRPC serves each call in a task of its own"
        call = self._calls[task] = OpenCall(self.line(context))
        try:
            yield call
        finally:
            del self._calls[task]
            if call.run is None or not call.run.open:
                self._count += 1
            if self._settings.runs is not None and self._count >= self._settings.runs:
                self.served.set()

    def line(self, context: Context) -> ConsumerCall:
        """The line of a call."""
        return ConsumerCall(context, self._settings.progress_s, self._admission)

    def refused(self, error: FedkmeError, name: str | None, run: Run | None = None) -> FedkmeError:
        """Report what a caller was refused, with its name once it was found to be its own.

        Returns:
            What the caller is told: of this store no more than whose it is.
        """
        where = {} if run is None else {"run": run.name, "round": run.selected}
        whose = {} if name is None else {"consumer": name}
        self._say("refused", **where, **whose, code=error.code, cause=error.cause, remedy=error.remedy)
        if isinstance(error, StoreError):
            return StoreError("the curator's store failed", GOES_ON)
        return error

    async def while_admitted(self, context: Context, work: Coroutine[Any, Any, None]) -> None:
        """Do it to the end, or until the caller's certificate is revoked.

        Raises:
            IdentityError: it was.
        """
        task = asyncio.ensure_future(work)
        fault: FedkmeError | None = None

        async def end(error: FedkmeError) -> None:
            nonlocal fault
            fault = error
            task.cancel()

        with self._admission.session(context, end):
            try:
                await task
            except asyncio.CancelledError:
                if fault is None:
                    raise
                raise fault from None

    def check_caller(self, line: ConsumerCall) -> None:
        """Refuse whoever may not call at all.

        Raises:
            IdentityError: the certificate does not allow it.
        """
        line.check_caller(self._settings.consumers, self._settings.owners)

    def check(self, line: ConsumerCall, name: str) -> None:
        """Refuse whoever may not call by this name.

        Raises:
            IdentityError: the certificate does not allow it, or it is an owner's name.
        """
        self.check_caller(line)
        line.check_name(name, self._settings.consumers)
        self._names.admit_consumer(name)

    def admit(self, call: OpenCall, name: str, request_id: bytes = b"") -> None:
        """Check the caller's name, and note whose call it is.

        Raises:
            IdentityError: see `check`.
            QuotaError: it has too many calls open.
            ProtocolError: the id of the request is too long.
        """
        self.check(call.line, name)
        if sum(other.name == name for other in self._calls.values()) >= MOST_CALLS:
            raise QuotaError(f"{name} has {MOST_CALLS} calls open already", "End one of them.")
        call.name = name
        if len(request_id) > _REQUEST_ID:
            raise ProtocolError("a request has an odd id")

    def own(self, name: str, run_name: str) -> Run:
        """A run of this caller's.

        Raises:
            ConfigError: no run has that name, or it is another consumer's.
        """
        run = self._runs.find(run_name)
        if run is None or run.consumer != name:
            raise unknown(run_name)
        return run

    def check_open(self) -> None:
        """Refuse new runs while the curator stops.

        Raises:
            StoppingError: it does.
        """
        if self.stopping:
            raise StoppingError("the curator is being stopped and takes no new runs", "Ask again later.")
