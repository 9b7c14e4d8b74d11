"""A party's process: how it says what it does, and how it is told to stop.

Alone, it writes plain lines to standard error and stops on ctrl-C or SIGTERM. Under a launcher
(`--supervised`) it writes one JSON object a line to standard output, reads what the launcher knows from
standard input, and stops when that closes: no launcher, however it dies, leaves a party behind.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import signal
import sys
import time
from collections.abc import Awaitable, Callable
from typing import Annotated, Any, Protocol, TypeVar

import typer

from fedkme.errors import ConnectionFailedError, FedkmeError, InterruptedRunError

Result = TypeVar("Result")

Supervised = Annotated[bool, typer.Option("--supervised", hidden=True)]
"""The option of a party's verb that says that a launcher started it."""

LINE_LIMIT = 2**20


class Voice:
    """What a party says about itself; never a private value."""

    def __init__(self, party: str, supervised: bool) -> None:
        self._party = party
        self._supervised = supervised
        self._lines: asyncio.Queue[str] = asyncio.Queue()

    def say(self, event: str, **fields: Any) -> None:
        """Report an event; `at` is the machine's monotonic clock in seconds."""
        if self._supervised:
            line = {"event": event, "party": self._party, "at": time.monotonic(), **fields}
            with contextlib.suppress(BrokenPipeError):  # no launcher hears: its input ends the party
                sys.stdout.write(json.dumps(line) + "\n")
                sys.stdout.flush()
        elif event != "imported":
            details = " ".join(f"{key}={value}" for key, value in fields.items())
            sys.stderr.write(f"{self._party}: {event} {details}".rstrip() + "\n")

    def fail(self, error: FedkmeError) -> None:
        """Report the failure that ends the party."""
        if self._supervised:
            self.say("failed", code=error.code, cause=error.cause, remedy=error.remedy)
        else:
            sys.stderr.write(f"{error}\n")

    async def hear(self) -> str:
        """One line from the launcher.

        Raises:
            ConnectionFailedError: nobody is there to say it.
        """
        line = await self._lines.get()
        if not line:
            raise ConnectionFailedError("the launcher is gone", "Start the simulation again.")
        return line

    async def run(self, work: Callable[[], Awaitable[Result]]) -> Result:
        """Do the party's work until it is done or somebody says stop.

        Raises:
            InterruptedRunError: it was told to stop.
        """
        loop = asyncio.get_running_loop()
        task = asyncio.ensure_future(work())
        told = False

        def stop(*_: object) -> None:
            nonlocal told
            told = True
            task.cancel()

        signals = (signal.SIGTERM,) if self._supervised else (signal.SIGTERM, signal.SIGINT)
        for number in signals:
            loop.add_signal_handler(number, stop)
        lifeline = asyncio.ensure_future(self._listen(stop)) if self._supervised else None
        try:
            return await task
        except asyncio.CancelledError:
            if not told:
                raise
            raise InterruptedRunError("the party was told to stop", "What was done so far is kept.") from None
        finally:
            if lifeline is not None:
                lifeline.cancel()

    async def _listen(self, stop: Callable[[], None]) -> None:
        """Take in the launcher's lines; when it hangs up, stop."""
        reader = asyncio.StreamReader(limit=LINE_LIMIT)
        protocol = asyncio.StreamReaderProtocol(reader)
        await asyncio.get_running_loop().connect_read_pipe(lambda: protocol, sys.stdin)
        while line := await reader.readline():
            self._lines.put_nowait(line.decode().strip())
        stop()


class NamedSettings(Protocol):
    """Settings of a party that has a name."""

    @property
    def name(self) -> str:
        """The party's name."""


Party = TypeVar("Party", bound=NamedSettings)


def run_party(
    load: Callable[[], Party], supervised: bool, work: Callable[[Party, Voice], Awaitable[None]]
) -> int:
    """Run a party's process to its end.

    Args:
        load: reads its settings.
        supervised: whether a launcher started it.
        work: what it does.

    Returns:
        Exit status: 0, or the number of the failure, which was said.
    """
    voice = Voice("", supervised)
    voice.say("imported")
    try:
        settings = load()
        voice = Voice(settings.name, supervised)
        asyncio.run(_main(settings, voice, supervised, work))
    except FedkmeError as error:
        voice.fail(error)
        return error.code
    return 0


async def _main(
    settings: Party, voice: Voice, supervised: bool, work: Callable[[Party, Voice], Awaitable[None]]
) -> None:
    if supervised:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # ctrl-C is the launcher's to handle
    await voice.run(lambda: work(settings, voice))
