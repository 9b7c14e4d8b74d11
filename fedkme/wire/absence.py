"""The time that a party is without its curator: one line when it begins, one when it ends."""

from __future__ import annotations

import asyncio
import random
import time

from fedkme.errors import ConnectionFailedError
from fedkme.supervision import Voice

FIRST_RETRY_S, LAST_RETRY_S = 0.1, 5.0
"""Between two attempts to come back: doubled each time, with jitter, or parties come all at once."""


class Absence:
    """Waits between attempts to connect, and folds their lines."""

    def __init__(self, voice: Voice, most_s: float | None) -> None:
        """Before the first connection.

        Args:
            voice: says the lines.
            most_s: after how long to give up, once there was a connection; None for never.
        """
        self._voice = voice
        self._most_s = most_s
        self._been_there = False
        self._attempts = 0
        self._since = 0.0

    def over(self) -> None:
        """A connection is there."""
        if self._attempts:
            seconds = round(time.monotonic() - self._since, 3)
            self._voice.say("back", attempts=self._attempts, seconds=seconds)
        self._been_there, self._attempts = True, 0

    async def wait(self, error: ConnectionFailedError) -> None:
        """Wait before the next attempt.

        Raises:
            ConnectionFailedError: there never was a connection (the address may be wrong), or none for too
                long.
        """
        if not self._been_there:
            raise error
        now = time.monotonic()
        if not self._attempts:
            self._since = now
            self._voice.say("away", code=error.code, cause=error.cause, remedy=error.remedy)
        if self._most_s is not None and now - self._since >= self._most_s:
            raise error
        pause = min(LAST_RETRY_S, FIRST_RETRY_S * 2**self._attempts)
        self._attempts += 1
        await asyncio.sleep(pause * random.uniform(0.5, 1.0))  # jitter is no secret
