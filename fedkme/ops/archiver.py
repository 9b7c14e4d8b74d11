"""Archiving beside a party's loop, while it serves."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from fedkme.errors import FedkmeError
from fedkme.ops.threads import in_thread
from fedkme.store import Store


def report_lost(store: Store, say: Callable[..., None]) -> None:
    """Say which archives of a store are gone."""
    for error in store.lost_archives():
        say("warning", line=str(error), code=error.code)


class Archiver:
    """Archives when a party begins and when a run is over, once at a time."""

    def __init__(self, archive: Callable[[], int], say: Callable[..., None]) -> None:
        """Args are what archives and says how many archives it made, in a thread, and what reports."""
        self._archive = archive
        self._say = say
        self._task: asyncio.Task[None] | None = None
        self._closed = False

    def begin(self, store: Store) -> None:
        """Report archives of a store that are gone, and archive what is due."""
        report_lost(store, self._say)
        self.go_on()

    def go_on(self) -> None:
        """Archive what is due, unless that is being done, or it was closed."""
        if self._closed:
            return
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._work())

    def close(self) -> None:
        """Say no more: the store is about to be closed, and what a thread still does there is refused."""
        self._closed = True
        if self._task is not None:
            self._task.cancel()

    async def _work(self) -> None:
        try:
            if made := await in_thread(self._archive):
                self._say("archived", archives=made)
        except FedkmeError as error:  # the party goes on; it is tried again when a run is over
            self._say("warning", line=str(error), code=error.code)
