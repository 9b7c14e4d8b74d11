"""Traces of runs, for an OpenTelemetry collector in the operator's own network.

A span says which phase or question of a run it is, when it began and when it ended. Its ids follow from the
run's name, which every party of the run knows: no party tells another anything about traces, and a run that
outlives a process stays one trace. A span has the keys of `Public` and no other; none depends on a row. An
owner's span of an answer lasts from the question's arrival to the answer's departure, which the curator sees
anyway.
"""

from __future__ import annotations

import hashlib
import secrets
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import Literal, Protocol, TypedDict, get_args

from fedkme.errors import FedkmeError
from fedkme.party import fits_ledgers

Stage = Literal["measuring", "compiling", "training", "fitting", "weights", "sampling", "copying", "other"]
"""Stage of a release, as a method reports it; `other` is a stage of another package's method."""
Phase = Literal[
    Stage,
    "run",
    "queue",
    "select",
    "round",
    "sums",
    "ask",
    "answer",
    "join",
    "plan",
    "offer",
    "rows",
    "files",
    "fit",
    "judge",
]
"""Name of a span."""
STAGES: Mapping[str, Stage] = {stage: stage for stage in get_args(Stage)}


class Public(TypedDict, total=False):
    """Every key that a span may have, each public to all who may see the run's log."""

    run: str
    owner: str
    question: str
    protocol: str
    status: str
    round: int
    rows: int
    owners: int
    asked: int
    revealed: int
    accessed: int
    code: int


class TracedQuestion(Protocol):
    """A directive as spans show it: run with its part, round, number and question."""

    @property
    def run(self) -> str:
        """Name of the run, or of a part of it such as RUN/keys."""

    @property
    def round(self) -> int:
        """Round of the run."""

    @property
    def seq(self) -> int:
        """Number of the directive in this part of the run."""

    @property
    def question(self) -> str:
        """Name of the question in the table of protocols."""


@dataclass(frozen=True, slots=True)
class TraceSpan:
    """One span that is over.

    Attributes:
        name: the phase.
        trace: id of the run's trace.
        id: id of the span.
        parent: id of the span above; None at the top.
        begin: nanoseconds since 1970.
        end: nanoseconds since 1970.
        public: its keys with their values.
    """

    name: Phase
    trace: int
    id: int
    parent: int | None
    begin: int
    end: int
    public: Public


def _ignore(span: TraceSpan) -> None:
    """Do nothing; traces are off."""


class Tracer:
    """Makes the spans of one party."""

    def __init__(self, emit: Callable[[TraceSpan], None] = _ignore, salt: bytes = b"") -> None:
        """Hand spans to `emit`, from any thread; `salt` tells runs of equal names apart."""
        self._emit = emit
        self._salt = salt

    @property
    def on(self) -> bool:
        """True where spans go anywhere."""
        return self._emit is not _ignore

    def phase(self, name: Phase, begin: int, public: Public, end: int | None = None) -> None:
        """Make the span of a phase, below its run's; without a run, a trace of its own."""
        run = public.get("run", "")
        trace = self._id(16, run) if run else secrets.randbits(128)
        self._made(name, trace, secrets.randbits(64), self._top(run) if run else None, begin, public, end)

    def whole(self, begin: int, public: Public) -> None:
        """Make the span of a whole run that ends now; the curator alone does so, once."""
        run = public["run"]
        self._made("run", self._id(16, run), self._top(run), None, begin, public)

    def asked(self, begin: int, owner: str, question: TracedQuestion, code: int) -> None:
        """Make the curator's span of a question to an owner that was answered, or failed with a code."""
        public, own = self._exchange(owner, question, code)
        run = public["run"]
        self._made("ask", self._id(16, run), own, self._top(run), begin, public)

    def answered(self, begin: int, owner: str, question: TracedQuestion, code: int) -> None:
        """Make an owner's span of its answer, or its refusal with a code, below the curator's span."""
        if fits_ledgers(question.run):  # else the owner refuses it
            public, above = self._exchange(owner, question, code)
            self._made("answer", self._id(16, public["run"]), secrets.randbits(64), above, begin, public)

    def _exchange(self, owner: str, question: TracedQuestion, code: int) -> tuple[Public, int]:
        """Keys of an exchange, and the id of the curator's span."""
        run = question.run.partition("/")[0]
        public = Public(run=run, round=question.round, owner=owner, question=question.question)
        if code:
            public["code"] = code
        return public, self._id(8, "exchange", question.run, owner, question.question, str(question.seq))

    def _top(self, run: str) -> int:
        return self._id(8, "run", run)

    def _id(self, size: int, *words: str) -> int:
        """Derive an id of so many bytes."""
        digest = hashlib.sha256(self._salt)
        for word in words:
            digest.update(b"\0" + word.encode("utf-8", "replace"))
        return int.from_bytes(digest.digest()[:size], "big")

    def _made(
        self,
        name: Phase,
        trace: int,
        own: int,
        parent: int | None,
        begin: int,
        public: Public,
        end: int | None = None,
    ) -> None:
        over = time.time_ns() if end is None else end
        self._emit(TraceSpan(name, trace or 1, own or 1, parent, begin, max(begin, over), public))


class Phases:
    """Phases of a run at one party, of which each begins where the one before ends."""

    def __init__(self, traces: Tracer, run: str = "") -> None:
        """Begin before the first phase; spans wait for `named` while the run has no name."""
        self._run = run
        self._traces = traces
        self._name: Phase | None = None
        self._begin = 0
        self._waiting: list[tuple[Phase, int, int, Public]] = []

    def named(self, run: str) -> None:
        """Name the run, once its name is known."""
        self._run = run
        for name, begin, end, public in self._waiting:
            self._traces.phase(name, begin, public | {"run": run}, end)
        self._waiting.clear()

    def begin(self, name: Phase) -> None:
        """Begin a phase; one that goes on goes on."""
        if name != self._name:
            self.end()
            self._name, self._begin = name, time.time_ns()

    def end(self, code: int = 0) -> None:
        """End the phase, if there is one, by the error with this code."""
        if self._name is not None:
            public = Public(code=code) if code else Public()
            self._waiting.append((self._name, self._begin, time.time_ns(), public))
        if self._run:
            self.named(self._run)
        self._name = None

    def __enter__(self) -> Phases:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.end(error.code if isinstance(error, FedkmeError) else 0)
