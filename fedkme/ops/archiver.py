"""Archiving in a thread while a party serves."""

import asyncio
from collections.abc import Callable

from fedkme.errors import FedkmeError
from fedkme.ops.threads import in_thread
from fedkme.store import Store


def report_lost(store: Store, say: Callable[..., None]) -> None:
    """Report the missing archives of a store."""
    for error in store.lost_archives():
        say("warning", line=str(error), code=error.code)


class Archiver:
    """Archives ended runs when a party starts and whenever a run ends, one pass at a time."""

    def __init__(self, archive: Callable[[], int], say: Callable[..., None]) -> None:
        """Args: `archive` runs in a thread and returns the number of archives it made; `say` reports."""
        self._archive = archive
        self._say = say
        self._task: asyncio.Task[None] | None = None
        self._closed = False

    def begin(self, store: Store) -> None:
        """Report missing archives of a store, and archive the runs that are due."""
        report_lost(store, self._say)
        self.go_on()

    def go_on(self) -> None:
        """Archive the runs that are due, unless a pass is under way or the archiver was closed."""
        if self._closed:
            return
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._work())

    def close(self) -> None:
        """Stop reporting: the store is about to be closed, and refuses a thread that still archives."""
        self._closed = True
        if self._task is not None:
            self._task.cancel()

    async def _work(self) -> None:
        try:
            if count := await in_thread(self._archive):
                self._say("archived", archives=count)
        except FedkmeError as error:  # the party continues; the next pass tries again
            self._say("warning", line=str(error), code=error.code)
