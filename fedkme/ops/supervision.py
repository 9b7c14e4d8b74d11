"""Process of a party: its reports, its signals and its end.

A party on its own writes log lines, and stops on ctrl-C or SIGTERM. Under a launcher (`--supervised`) a party
writes one JSON object a line to standard output, reads the launcher's lines from standard input, and stops
when standard input closes: no launcher, however it dies, leaves a party behind.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import json
import logging
import os
import signal
import socket
import stat
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Annotated, Any, Protocol, TypeVar

import typer

from fedkme.errors import ConfigError, ConnectionFailedError, FedkmeError, InterruptedRunError
from fedkme.ops.logs import Log, unforeseen
from fedkme.ops.threads import under_way
from fedkme.party import LogFormat
from fedkme.privacy.presets import warn_of_large
from fedkme.store import Store
from fedkme.store.opening import is_on_server

Result = TypeVar("Result")

Supervised = Annotated[bool, typer.Option("--supervised", hidden=True)]
"""Option of a party's verb, given by a launcher."""

LINE_LIMIT = 2**20
_MOST_HEAPS = -8
"""M_ARENA_MAX of glibc's malloc.h."""
ENDS_S = 3.0
"""Time that a stopping party has to finish its current work; the rest of 5 s is for closing."""


STORE_CHECK_S = 5.0
"""Time between two looks whether a store on a server can still be reached."""


class StatusReporter:
    """Reports a party's events, never a private value, and receives signals and the launcher's lines.

    Attributes:
        on_terminate: called at the first SIGTERM, which then does not cancel the party; the next signal does.
        on_reload: called at SIGHUP.
        on_ready: called each time that the party becomes ready to serve.
        told: the first signal that told the party to stop; None before.
    """

    def __init__(self, party: str, supervised: bool, log: Log | None = None) -> None:
        self.on_terminate: Callable[[], None] | None = None
        self.on_reload: Callable[[], None] | None = None
        self.on_ready: Callable[[], None] = lambda: None
        self.told: signal.Signals | None = None
        self._party = party
        self._supervised = supervised
        self._log = log or Log(party)
        self._lines: asyncio.Queue[str] = asyncio.Queue()

    def of(self, party: str, log: Log) -> StatusReporter:
        """Make a reporter for one of several parties in this process; signals stop the whole process."""
        return StatusReporter(party, self._supervised, log)

    def say(self, event: str, **fields: Any) -> None:
        """Report an event; for a launcher with `at`, the machine's monotonic clock in seconds.

        Any thread may call this.
        """
        if self._supervised:
            line = {"event": event, "party": self._party, "at": time.monotonic(), **fields}
            with contextlib.suppress(BrokenPipeError):  # the launcher is gone: standard input ends the party
                sys.stdout.write(json.dumps(line) + "\n")
                sys.stdout.flush()
        elif event != "imported":
            self._log.write(event, fields)

    def fail(self, error: FedkmeError) -> None:
        """Report the failure that ends the party."""
        if self._supervised:
            self.say("failed", code=error.code, cause=error.cause, remedy=error.remedy)
        else:
            self._log.fail(error)

    def unforeseen(self, error: Exception) -> None:
        """Report a failure of this program: its type and place, not its text."""
        self._log.write("unforeseen", unforeseen(error))

    def ready(self) -> None:
        """Tell the service manager that the party is ready to serve."""
        _notify("READY=1")
        self.on_ready()

    async def hear(self) -> str:
        """Wait for the launcher's next line.

        Raises:
            ConnectionFailedError: the launcher is gone.
        """
        line = await self._lines.get()
        if not line:
            raise ConnectionFailedError("the launcher is gone", "Start the simulation again.")
        return line

    async def run(self, work: Callable[[], Awaitable[Result]]) -> Result:
        """Do the party's work until it is done or the party is told to stop.

        Raises:
            InterruptedRunError: the party was told to stop; `told` is the signal.
        """
        loop = asyncio.get_running_loop()
        task = asyncio.ensure_future(work())
        hung_up = False

        def stop(number: signal.Signals) -> None:
            first, self.told = self.told is None, self.told or number
            _notify("STOPPING=1")
            if first and number is signal.SIGTERM and self.on_terminate is not None:
                self.on_terminate()
            else:
                task.cancel()

        def hang_up() -> None:
            nonlocal hung_up
            hung_up = True
            task.cancel()

        def reload() -> None:
            if self.on_reload is not None:
                self.on_reload()
            else:
                stop(signal.SIGHUP)

        signals = (signal.SIGTERM,) if self._supervised else (signal.SIGTERM, signal.SIGINT)
        for number in signals:
            loop.add_signal_handler(number, stop, number)
        loop.add_signal_handler(signal.SIGHUP, reload)
        lifeline = asyncio.ensure_future(self._listen(hang_up)) if self._supervised else None
        interrupted = InterruptedRunError("the party was told to stop", "What was done so far is kept.")
        try:
            result = await task
        except asyncio.CancelledError:
            if self.told is None and not hung_up:
                raise
            raise interrupted from None
        finally:
            if lifeline is not None:
                lifeline.cancel()
        if self.told is signal.SIGINT:
            raise interrupted
        return result

    async def _listen(self, stop: Callable[[], None]) -> None:
        """Queue the launcher's lines; call `stop` when the launcher closes the pipe."""
        reader = asyncio.StreamReader(limit=LINE_LIMIT)
        protocol = asyncio.StreamReaderProtocol(reader)
        await asyncio.get_running_loop().connect_read_pipe(lambda: protocol, sys.stdin)
        while line := await reader.readline():
            self._lines.put_nowait(line.decode().strip())
        stop()


def _launched() -> bool:
    """True if standard input can tell that a launcher lives: /dev/null and files are at their end at once."""
    if sys.stdin is None:
        return False
    mode = os.fstat(sys.stdin.fileno()).st_mode
    return stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode) or sys.stdin.isatty()


def _notify(state: str) -> None:
    """Send the service manager a state such as `READY=1` (sd_notify(3)), if NOTIFY_SOCKET names one."""
    address = os.environ.get("NOTIFY_SOCKET", "")
    if not address:
        return
    if address.startswith("@"):  # the abstract namespace
        address = "\0" + address[1:]
    with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as channel:
        channel.sendto(state.encode("ascii"), address)


async def to_the_end(work: Awaitable[Result], within_s: float = ENDS_S) -> Result:
    """Finish a piece of work although the caller is cancelled, within a time and unless cancelled again.

    The caller's cancellation is raised afterwards, even if the work fails meanwhile.
    """
    task = asyncio.ensure_future(work)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.wait((task,), timeout=within_s)
        raise
    finally:
        if task.done():
            task.cancelled() or task.exception()  # mark the exception as retrieved
        else:
            task.cancel()


async def while_stored(store: Store, place: str, work: Awaitable[Result]) -> Result:
    """Do a party's work as long as its store on a server can be reached.

    A server that restarts takes the party's right to write with it, and the process's memory may be ahead of
    the store: the process ends, and its supervisor starts it again from the store.

    Raises:
        StoreError: the store was lost; the work was cancelled.
    """
    if not is_on_server(place):
        return await work
    working, watching = asyncio.ensure_future(work), asyncio.ensure_future(_until_lost(store))
    try:
        await asyncio.wait((working, watching), return_when=asyncio.FIRST_COMPLETED)
        if not working.done():
            working.cancel()
            await asyncio.wait((working,))
            watching.result()  # raises the loss, whatever the work made of it
        return await working
    except asyncio.CancelledError:
        working.cancel()
        return await working
    finally:
        watching.cancel()


async def _until_lost(store: Store) -> None:
    """Read from the store every few seconds until that fails.

    Raises:
        StoreError: the store was lost.
    """
    while True:
        await asyncio.sleep(STORE_CHECK_S)
        await asyncio.to_thread(store.get, "")


class RunnableSettings(Protocol):
    """Settings of a party: its name and its log."""

    @property
    def name(self) -> str:
        """The party's name."""

    @property
    def log(self) -> LogFormat:
        """Format of its log lines."""

    @property
    def log_file(self) -> Path | None:
        """File for its log lines; None is standard error."""


Party = TypeVar("Party", bound=RunnableSettings)


def run_party(
    load: Callable[[], Party],
    supervised: bool,
    work: Callable[[Party, StatusReporter], Awaitable[None]],
    *,
    service: bool = False,
) -> int:
    """Run a party's process to its end; files that the party writes are its user's alone.

    Args:
        load: reads the party's settings.
        supervised: whether a launcher started the party.
        work: the party's work.
        service: whether SIGTERM is the party's normal end.

    Returns:
        Exit status: 0, or the code of the failure, which was reported; 1 for an unexpected failure.
    """
    status = _run_party(load, supervised, work, service)
    if under_way():  # libraries in these threads may not survive the interpreter's shutdown
        logging.shutdown()
        sys.stdout.flush()
        os._exit(status)
    return status


def _run_party(
    load: Callable[[], Party],
    supervised: bool,
    work: Callable[[Party, StatusReporter], Awaitable[None]],
    service: bool,
) -> int:
    reporter = StatusReporter("", supervised)
    reporter.say("imported")
    _share_heap()
    before = os.umask(0o077)
    try:
        if supervised and not _launched():
            raise ConfigError("--supervised: standard input is no launcher's pipe", "Leave --supervised out.")
        settings = load()
        log = Log(settings.name) if supervised else Log(settings.name, settings.log, settings.log_file)
        log.capture()
        reporter = StatusReporter(settings.name, supervised, log)
        if supervised:
            signal.signal(signal.SIGINT, signal.SIG_IGN)  # ctrl-C is the launcher's to handle
        else:  # a launcher gives this warning itself
            warn_of_large(settings, lambda line: reporter.say("warning", line=line))
        asyncio.run(reporter.run(lambda: work(settings, reporter)))
    except FedkmeError as error:
        stopped = isinstance(error, InterruptedRunError) and reporter.told is signal.SIGTERM
        if stopped and service and not supervised:
            reporter.say("stopped")
            return 0
        reporter.fail(error)
        return error.code
    except ModuleNotFoundError:
        raise  # an extra is not installed: the command line names it
    except Exception as error:
        reporter.unforeseen(error)
        return 1
    finally:
        os.umask(before)
    return 0


def _share_heap() -> None:
    """Let all later threads allocate from one heap.

    By default glibc gives each thread a heap of its own, and memory freed in one heap does not serve another:
    a party's memory grew from run to run (docs/decisions/012).
    """
    with contextlib.suppress(AttributeError):  # another system's library
        ctypes.CDLL(None).mallopt(_MOST_HEAPS, 1)
