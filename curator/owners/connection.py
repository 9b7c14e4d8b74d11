"""Connection to one owner, over whichever process and stream of the owner is current.

A stream is a cache of a session. A directive that waits for its answer when a stream ends is sent again, with
the same number, on the next stream; the owner answers with the same bytes. Answers to any other directive are
dropped. No code here knows gRPC, so that tests can put any network between curator and owner.
"""

import asyncio
import time
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any, Protocol

from fedkme import errors
from fedkme.directives import Answer, Directive, Limits, Refusal
from fedkme.protocol import Consider, Invitation
from fedkme.wire.directives import answer_from_wire, directive_to_wire, farewell_to_wire
from fedkme.wire.rows import too_large
from fedkme.wire.v1 import owners_pb2 as pb

FIRST_PAUSE_S, LAST_PAUSE_S = 1.0, 60.0
"""First and longest pause before an owner that approves by hand is asked again; the pause doubles each
time."""
LEAST_WORDS = 2**14
"""Fewest words in a part of a vector, except the last part; this bounds the number of parts."""


class Stream(Protocol):
    """Stream between the curator and one process of an owner."""

    async def write(self, directive: pb.Directive) -> None:
        """Send a directive.

        Raises:
            ConnectionFailedError: the stream is over.
        """

    def cut(self) -> None:
        """End the stream from the curator's side."""


@dataclass(slots=True)
class Traffic:
    """Bytes of protocol messages, without framing and TLS."""

    sent: int = 0
    received: int = 0


@dataclass(slots=True, eq=False)
class PendingAnswer:
    """A directive that waits for its answer."""

    directive: pb.Directive
    limits: Limits
    traffic: Traffic
    answer: asyncio.Future[Answer]
    limit: asyncio.Timeout
    since: float = field(default_factory=time.time)
    parts: list[pb.OwnerMessage] = field(default_factory=list)
    rows: int = 0
    words: int = 0

    def again(self) -> None:
        """Forget the parts of the answer that came: the owner sends all parts again."""
        self.parts.clear()
        self.rows = self.words = 0

    def fault(self, message: pb.OwnerMessage) -> str:
        """Count a message, and say why it cannot be part of the answer; empty where it can."""
        body, limits = message.WhichOneof("body"), self.limits
        if body not in ("rows", "words"):
            return ""
        if self.parts and self.parts[-1].WhichOneof("body") != body:
            return "parts of two different answers"
        if body == "words":
            part = message.words
            self.words += len(part.words)
            if self.words > limits.words:
                return "more words than it was asked for"
            return (
                "" if part.last or len(part.words) >= LEAST_WORDS else "a vector in parts that are too small"
            )
        rows = message.rows
        self.rows += len(rows.rows)
        if limits.width is not None and any(too_large(row, limits.width) for row in rows.rows):
            return "rows with more columns than the schema"
        if self.rows > limits.rows or (not rows.last and not len(rows.rows)):
            return "more rows than it was asked for"
        return ""


@dataclass(frozen=True, slots=True)
class OpenQuestion:
    """A question that an owner has not answered.

    Attributes:
        directive: the directive's name on the wire.
        since: when the question was asked, Unix seconds.
        due: when the run goes on without the answer, Unix seconds.
    """

    directive: str
    since: float
    due: float | None


@dataclass(frozen=True, slots=True)
class OpenApproval:
    """A run that an owner's people have not approved yet.

    Attributes:
        why: what the owner says, with the command that approves it.
        since: when the owner was asked first, Unix seconds.
        due: when the run goes on without the owner, Unix seconds.
    """

    why: str
    since: float
    due: float


Exchanged = Callable[[str, Directive, Answer | errors.FedkmeError, int], None]
"""Hears of an exchange: the owner, the directive, its answer or failure, and when it began, in nanoseconds
since 1970."""


class Connection(Protocol):
    """Connection to an owner, on any transport: sessions of runs and the exchange of keys use it."""

    @property
    def name(self) -> str:
        """The owner's name."""

    @property
    def at_once(self) -> bool:
        """True where the owner is in this process and answers without waiting."""

    async def exchange(self, directive: Directive, limits: Limits, traffic: Traffic) -> Answer:
        """Send a directive with its number and wait for its answer.

        Raises:
            OwnerLostError: no answer in time, or no stream.
            OwnerFaultError: the owner answered something else.
        """

    async def tell(self, directive: Directive) -> None:
        """Send a directive that needs no answer; an absent owner misses the directive."""

    def cut(self) -> None:
        """End the stream of an owner whose answer makes no sense."""


class OwnerConnection:
    """The session of an owner over all its streams, with the traffic of all its runs in this process."""

    at_once = False

    def __init__(
        self,
        name: str,
        progress_s: float,
        grace_s: float,
        approval_s: float = 0.0,
        exchanged: Exchanged | None = None,
    ) -> None:
        """Begin without a stream.

        Args:
            name: the owner's name.
            progress_s: longest wait for an answer, or for its next part, while there is a stream.
            grace_s: longest wait for a stream.
            approval_s: how long an owner that approves runs by hand is asked again.
            exchanged: hears how each exchange ended; None: nobody hears.
        """
        self.name = name
        self._approval_s = approval_s
        self._exchanged = exchanged
        self._approvals: dict[str, OpenApproval] = {}
        self.traffic = Traffic()
        self._progress_s = progress_s
        self._grace_s = grace_s
        self._stream: Stream | None = None
        self._calls: dict[str, PendingAnswer] = {}
        self.lost: errors.OwnerLostError | None = None
        """Why the last question has no answer; None once the owner joined again."""

    @property
    def stream(self) -> Stream | None:
        """The stream of the newest process, if there is one."""
        return self._stream

    def question(self, run: str) -> OpenQuestion | None:
        """Open question of a run, or of a part of the run; any thread may call this."""
        for name, call in list(self._calls.items()):
            if _run_of(name) == run:
                limit = call.limit.when()  # by the loop's clock, which is the monotonic one
                due = None if limit is None else round(time.time() + limit - time.monotonic())
                return OpenQuestion(call.directive.WhichOneof("body") or "", call.since, due)
        return None

    def approval(self, run: str) -> OpenApproval | None:
        """Open approval of a run, or of a part of the run; any thread may call this."""
        return next((wait for name, wait in list(self._approvals.items()) if _run_of(name) == run), None)

    async def attach(self, stream: Stream) -> None:
        """Continue on another stream: directives that wait for an answer are sent again."""
        self._stream, self.lost = stream, None
        for call in list(self._calls.values()):
            call.again()
            self._within(call, self._progress_s)
            await self._send(call)

    def detach(self, stream: Stream) -> None:
        """Note that a stream is over; this changes nothing if there is a newer stream."""
        if self._stream is stream:
            self._stream = None
            for call in self._calls.values():
                self._within(call, self._grace_s)

    def cut(self) -> None:
        """End the stream, if there is one."""
        if self._stream is not None:
            self._stream.cut()

    def deliver(self, stream: Stream, message: pb.OwnerMessage) -> None:
        """Deliver a message of the owner; a message that no directive waits for is dropped."""
        call = self._calls.get(message.at.run)
        if stream is not self._stream or call is None or call.answer.done():
            return
        due = call.directive.at.seq
        if 0 < message.at.seq < due:
            return  # the answer to a directive that was sent twice, or the rest of an abandoned call
        size = message.ByteSize()
        call.traffic.received += size
        self.traffic.received += size
        if message.at.seq != due:
            self._refuse(call, "an answer that was not asked for")
            return
        if what := call.fault(message):
            self._refuse(call, what)
            return
        call.parts.append(message)
        body = message.WhichOneof("body")
        if (body == "rows" and not message.rows.last) or (body == "words" and not message.words.last):
            if body == "words":  # a part of bounded size is progress, and the number of parts is bounded
                self._within(call, self._progress_s)
            return
        try:
            call.answer.set_result(answer_from_wire(call.parts))
        except (errors.ProtocolError, errors.SecureAggregationError) as error:
            self._refuse(call, error.cause, error.remedy)

    def exchange(self, directive: Directive, limits: Limits, traffic: Traffic) -> Coroutine[Any, Any, Answer]:
        """Send a directive and wait for its answer; an invitation may also wait for an approval."""
        waits = self._approval_s > 0.0 and isinstance(directive.body, (Invitation, Consider))
        way = self._exchange_until_approved if waits else self._exchange
        exchange = way(directive, limits, traffic)
        return exchange if self._exchanged is None else self._heard(directive, exchange, self._exchanged)

    async def _heard(
        self, directive: Directive, exchange: Coroutine[Any, Any, Answer], exchanged: Exchanged
    ) -> Answer:
        began = time.time_ns()
        try:
            answer = await exchange
        except errors.FedkmeError as error:
            exchanged(self.name, directive, error, began)
            raise
        exchanged(self.name, directive, answer, began)
        return answer

    async def _exchange_until_approved(
        self, directive: Directive, limits: Limits, traffic: Traffic
    ) -> Answer:
        """Send the directive again and again while the owner says that an approval is missing."""
        pause, since = FIRST_PAUSE_S, time.time()
        end = time.monotonic() + self._approval_s
        try:
            while True:
                answer = await self._exchange(directive, limits, traffic)
                remaining = end - time.monotonic()
                if remaining <= 0.0 or not (isinstance(answer, Refusal) and answer.awaits_approval):
                    return answer
                error = answer.error()
                why = f"{error.cause}. {error.remedy}".removesuffix(".")
                self._approvals[directive.run] = OpenApproval(why, since, time.time() + remaining)
                await asyncio.sleep(min(pause, remaining))
                pause = min(LAST_PAUSE_S, 2.0 * pause)
        finally:
            self._approvals.pop(directive.run, None)

    async def _exchange(self, directive: Directive, limits: Limits, traffic: Traffic) -> Answer:
        """Send a directive and wait for its answer, over however many streams it takes."""
        where = f"{self.name}, round {directive.round}"
        answer: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        try:
            async with asyncio.timeout(None) as limit:
                call = PendingAnswer(directive_to_wire(directive), limits, traffic, answer, limit)
                self._calls[directive.run] = call
                self._within(call, self._grace_s if self._stream is None else self._progress_s)
                await self._send(call)
                return await answer
        except TimeoutError:
            if self._stream is None:
                remedy = "Look at the owner's host and network; start it again."
                self.lost = errors.OwnerLostError(f"{where}: its connection ended", remedy)
            else:
                self.cut()
                remedy = "Look at the owner's host, or raise the curator's 'progress_s'."
                self.lost = errors.OwnerLostError(f"{where}: no answer within {self._progress_s:g} s", remedy)
            raise self.lost from None
        finally:
            self._calls.pop(directive.run, None)

    async def tell(self, directive: Directive) -> None:
        """Send a directive that needs no answer; an owner without a stream misses the directive."""
        await self._tell(directive_to_wire(directive))

    async def end(self) -> None:
        """Say farewell, so that the owner does not come back."""
        await self._tell(farewell_to_wire())
        self.cut()

    async def _tell(self, message: pb.Directive) -> None:
        if (stream := self._stream) is not None:
            try:
                await stream.write(message)
            except errors.ConnectionFailedError:
                self.detach(stream)

    async def _send(self, call: PendingAnswer) -> None:
        stream = self._stream
        if stream is None:
            return
        size = call.directive.ByteSize()
        call.traffic.sent += size
        self.traffic.sent += size
        try:
            await stream.write(call.directive)
        except errors.ConnectionFailedError:
            self.detach(stream)

    def _within(self, call: PendingAnswer, seconds: float) -> None:
        if not call.limit.expired():
            call.limit.reschedule(asyncio.get_running_loop().time() + seconds)

    def _refuse(self, call: PendingAnswer, what: str, remedy: str = "Check the owner's software.") -> None:
        where = f"{self.name}, round {call.directive.at.round}"
        call.answer.set_exception(errors.OwnerFaultError(f"{where}: {what}", remedy))
        self.cut()


def _run_of(name: str) -> str:
    """Name of the run, from the run's name or the name of a part of the run."""
    return name.partition("/")[0]
