"""Retries of calls to the curator, and two lines about each lost connection: its begin and its end."""

import asyncio
import math
import random
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TypeVar

import grpc.aio

from fedkme.errors import ConnectionFailedError, FedkmeError, IdentityError
from fedkme.ops.supervision import StatusReporter
from fedkme.party import PartySettings
from fedkme.wire.channel import explained
from fedkme.wire.dial import OwnIdentity, dial

T = TypeVar("T")

FIRST_RETRY_S, LAST_RETRY_S = 0.005, 5.0
"""Times between attempts to reconnect: doubled each time, with jitter so that parties do not come at once."""
_MOST_DOUBLINGS = 20  # far beyond the longest pause; a float holds no 2**1024
LEAST_DIAL_S = 1.0
"""Least time of the last attempt: an error from the curator explains a failure better than a timeout."""


class Absence:
    """Waits between attempts to connect, and reports an absence in two lines."""

    def __init__(self, reporter: StatusReporter, most_s: float | None, connect_s: float = 0.0) -> None:
        """Start without a connection.

        Args:
            reporter: reports the lines.
            most_s: time after which to give up once there was a connection; None: never.
            connect_s: time for one attempt; also the time after which to give up before the first connection,
                if a curator took the call and did not answer.
        """
        self._reporter = reporter
        self._most_s = most_s
        self._connect_s = connect_s
        self._reached = self._been_there = False
        self._attempts = 0
        self._since = 0.0
        self._line = ""

    @property
    def dial_s(self) -> float:
        """Seconds for the next attempt; it ends about when the time limit of the absence does."""
        if not self._attempts:
            return self._connect_s
        return min(self._connect_s, max(LEAST_DIAL_S, self._end - time.monotonic()))

    @property
    def _end(self) -> float:
        limits = (self._most_s, None if self._been_there else self._connect_s)
        return self._since + min((limit for limit in limits if limit is not None), default=math.inf)

    def reached(self) -> None:
        """Note that a curator took the call, so the address is right; it may still die before it answers."""
        self._reached = True

    def over(self) -> None:
        """End the absence: there is a connection."""
        if self._attempts:
            seconds = round(time.monotonic() - self._since, 3)
            self._reporter.say("back", attempts=self._attempts, seconds=seconds)
        self._been_there, self._attempts, self._line = True, 0, ""

    def notice(self, cause: FedkmeError) -> None:
        """Report the likely cause of an absence, once for each cause."""
        if cause.cause != self._line:
            self._line = cause.cause
            self._reporter.say("away", code=cause.code, cause=cause.cause, remedy=cause.remedy)

    async def wait(self, error: FedkmeError) -> None:
        """Wait before the next attempt.

        Raises:
            FedkmeError: the error: no curator ever took the call (the address may be wrong), or the absence
                lasted too long.
        """
        if not (self._been_there or self._reached):
            raise error
        now = time.monotonic()
        if not self._attempts:
            self._since = now
            self.notice(error)
        if now >= self._end:
            raise error
        self._attempts += 1
        await asyncio.sleep(self.pause_s())

    def pause_s(self) -> float:
        """Seconds until the next attempt."""
        doublings = min(self._attempts - 1, _MOST_DOUBLINGS)
        return min(LAST_RETRY_S, FIRST_RETRY_S * 2.0**doublings) * random.uniform(0.5, 1.0)  # no secret


@dataclass(frozen=True, eq=False)
class CuratorCalls:
    """Calls to a curator, with retries.

    Attributes:
        address: host:port, for messages.
        dial: opens a channel.
        absence: waits between attempts.
    """

    address: str
    dial: Callable[[], Awaitable[grpc.aio.Channel]]
    absence: Absence

    async def until_done(self, call: Callable[[grpc.aio.Channel], Awaitable[T]]) -> T:
        """Make a call, and repeat it after a broken connection until it ends.

        Raises:
            ConnectionFailedError: the connection was lost for too long.
            FedkmeError: the call failed otherwise.
        """
        while True:
            try:
                channel = await self.dial()
            except (ConnectionFailedError, IdentityError) as error:  # of the handshake, which may pass
                await self.absence.wait(error)
                continue
            try:
                async with channel:
                    self.absence.reached()
                    with explained(self.address):
                        return await call(channel)
            except ConnectionFailedError as error:
                await self.absence.wait(error)


def curator_calls(
    settings: PartySettings, address: str, identity: OwnIdentity | None, reporter: StatusReporter
) -> CuratorCalls:
    """Make the calls to the curator at host:port, with the time limits of the settings."""
    absence = Absence(reporter, settings.away_s, settings.connect_s)

    def call() -> Awaitable[grpc.aio.Channel]:
        return dial(address, identity, absence.dial_s, settings.proxy, absence.notice)

    return CuratorCalls(address, call, absence)
