"""The driver's connections to owners in actors: directives of the same time go in one call a shard.

A function reaches the actor, so that tests can inject any failure. This module knows no Ray.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence

from curator.owners.connection import Traffic
from fedkme.directives import Answer, Directive, Limits
from fedkme.errors import OwnerLostError
from sim.cluster.shard import Addressed
from sim.engines.loopback import within_limits

RETRY_S = 0.1
"""Pause before a batch is sent again."""


class UnknownOutcomeError(Exception):
    """A call broke off: it is unknown if the actor carried it out; the actor may answer again."""


class ActorLostError(Exception):
    """The actor is gone for good, with all its state."""


Call = Callable[[Sequence[Addressed]], Awaitable[Sequence[Answer | None]]]
"""One call of an actor.

Raises:
    UnknownOutcomeError: the call broke off.
    ActorLostError: the actor is gone.
"""


class ShardConnection:
    """Connection to the owners of one shard: collects directives until the loop turns, then sends them."""

    def __init__(self, title: str, call: Call, progress_s: float) -> None:
        """Create a connection without directives.

        Args:
            title: title of the shard, for people.
            call: reaches the shard's actor.
            progress_s: time that one answer of an owner may take, and that an actor may be out of reach.
        """
        self.title = title
        self.lost = ""
        self._call = call
        self._progress_s = progress_s
        self._waiting: list[tuple[Addressed, asyncio.Future[Answer | None] | None]] = []
        self._under_way: set[asyncio.Task[None]] = set()

    async def ask(self, name: str, directive: Directive) -> Answer | None:
        """Ask an owner.

        Raises:
            OwnerLostError: the owner's actor is lost, or did not answer in time.
        """
        future: asyncio.Future[Answer | None] = asyncio.get_running_loop().create_future()
        self._add((name, directive), future)
        try:
            return await future
        except ActorLostError as error:
            where = f"{name}, round {directive.round}"
            remedy = "Look at the cluster's own log; start the run again."
            raise OwnerLostError(f"{where}: {error}", remedy) from None

    def tell(self, name: str, directive: Directive) -> None:
        """Send a directive that needs no answer; an owner of a lost actor misses it."""
        self._add((name, directive), None)

    async def settle(self) -> None:
        """Wait until every directive is delivered."""
        await asyncio.sleep(0)  # lets the last directives be sent
        await asyncio.gather(*self._under_way)

    def _add(self, addressed: Addressed, future: asyncio.Future[Answer | None] | None) -> None:
        if not self._waiting:
            asyncio.get_running_loop().call_soon(self._send)
        self._waiting.append((addressed, future))

    def _send(self) -> None:
        batch, self._waiting = self._waiting, []
        task = asyncio.create_task(self._exchange(batch))
        self._under_way.add(task)
        task.add_done_callback(self._under_way.discard)

    async def _exchange(
        self, batch: Sequence[tuple[Addressed, asyncio.Future[Answer | None] | None]]
    ) -> None:
        """Send a batch and hand the answers out; a failure goes to every caller of the batch."""
        waiting = [future for _, future in batch]
        try:
            answers = await self._answers([addressed for addressed, _ in batch])
        except Exception as error:
            if isinstance(error, ActorLostError):
                self.lost = str(error)
            for future in waiting:
                if future is not None and not future.done():
                    future.set_exception(error)
            return
        for future, answer in zip(waiting, answers, strict=True):
            if future is not None and not future.done():
                future.set_result(answer)

    async def _answers(self, batch: Sequence[Addressed]) -> Sequence[Answer | None]:
        """Send a batch until its answers come. Owners answer a repeated directive with the same values.

        Raises:
            ActorLostError: no answers come.
        """
        if self.lost:
            raise ActorLostError(self.lost)
        reached = asyncio.get_running_loop().time()
        try:
            async with asyncio.timeout(self._progress_s * len(batch)):  # an actor asks one after another
                while True:
                    try:
                        return await self._call(batch)
                    except UnknownOutcomeError:
                        if asyncio.get_running_loop().time() - reached > self._progress_s:
                            raise TimeoutError from None
                    await asyncio.sleep(RETRY_S)
        except TimeoutError:
            raise ActorLostError(f"{self.title} did not answer within {self._progress_s:g} s") from None


class ActorConnection:
    """`Connection` to an owner in an actor."""

    at_once = False

    def __init__(self, name: str, rows: int, shard: ShardConnection) -> None:
        """Take the connection to the owner's shard, and the number of rows that a run may have."""
        self.name = name
        self.rows = rows
        self._shard = shard

    @property
    def here(self) -> bool:
        """True until the owner's actor is lost."""
        return not self._shard.lost

    async def exchange(self, directive: Directive, limits: Limits, traffic: Traffic) -> Answer:
        """Ask the owner; `traffic` does not change: Ray's messages are not messages of the protocol."""
        answer = await self._shard.ask(self.name, directive)
        return within_limits(self.name, directive, answer, limits)

    async def tell(self, directive: Directive) -> None:
        """Send a directive that needs no answer; an owner whose actor is lost misses it."""
        self._shard.tell(self.name, directive)

    def cut(self) -> None:
        """Do nothing: the owner's actor has other owners, who go on."""
