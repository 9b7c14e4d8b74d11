"""A run at the curator: its document, its status, and the calls that follow it."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

from fedkme.documents import RunDocument
from fedkme.exchange import ReleaseRequest, RoundProgress, StageProgress

AnyProgress: TypeAlias = RoundProgress | StageProgress
Status = Literal["asked", "queued", "running", "complete", "stopped", "cancelled", "failed"]
OPEN: tuple[Status, ...] = ("asked", "queued", "running")


@dataclass(eq=False)
class Run:
    """One run that this process knows.

    Attributes:
        name: the run's name.
        document: request, plan and offer, which determine the run.
        status: `asked` until the consumer's offer has come; the last four are ends.
        opened: time of the request, Unix seconds.
        selected: rows of the summary so far.
        error: reason why the run did not begin, or cannot go on for now.
        cancelled: whether the consumer or an operator ended the run.
        decided: whether the result is known, and only the exchange of heads and farewells are left.
        task: carries the run out; None before.
        lock: held while a call makes the plan or takes the offer; a second call then finds it.
        over: set at the end.
    """

    name: str
    document: RunDocument
    status: Status
    opened: float
    selected: int = 0
    error: Exception | None = None
    cancelled: bool = False
    decided: bool = False
    task: asyncio.Task[None] | None = None
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    over: asyncio.Event = field(default_factory=asyncio.Event)
    _listeners: set[asyncio.Queue[AnyProgress | None]] = field(default_factory=set)

    @property
    def consumer(self) -> str:
        """Name of the consumer that asked for the run."""
        return self.document.consumer

    @property
    def is_release(self) -> bool:
        """Check whether the run is for a release, and not for a summary."""
        return isinstance(self.document.request, ReleaseRequest)

    @property
    def rows(self) -> int:
        """Rows of owners that were asked for; a release asks for none."""
        return 0 if self.is_release else self.document.summary.rows

    @property
    def values(self) -> int:
        """Number of values of D_v in memory; 0 unless the consumer shared D_v."""
        offer = self.document.offer
        return 0 if offer is None or offer.validation is None else offer.validation.size

    @property
    def open(self) -> bool:
        """Check whether the run is not over."""
        return self.status in OPEN

    def cancel(self) -> None:
        """Cancel the run's task, once, unless the result is known."""
        if self.task is not None and not self.cancelled and not self.decided:
            self.cancelled = True
            self.task.cancel()

    def tell(self, progress: AnyProgress) -> None:
        """Pass progress on to every follower."""
        if isinstance(progress, RoundProgress):
            self.selected = progress.selected
        for listener in self._listeners:
            listener.put_nowait(progress)

    def finish(self) -> None:
        """Tell every follower that nothing more will come in this process."""
        self.over.set()
        for listener in self._listeners:
            listener.put_nowait(None)

    async def follow(self, until: asyncio.Future[Any] | None = None) -> AsyncIterator[AnyProgress]:
        """Progress from now on, until the run is over, or something else is done."""
        listener: asyncio.Queue[AnyProgress | None] = asyncio.Queue()
        if self.over.is_set():
            return
        self._listeners.add(listener)
        if until is not None:
            until.add_done_callback(lambda _: listener.put_nowait(None))
        try:
            while (progress := await listener.get()) is not None:
                yield progress
        finally:
            self._listeners.discard(listener)
