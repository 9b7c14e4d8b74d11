"""Spans of a curator's runs, made from its reports and questions."""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from curator.run.summary_record import RoundRecord
from fedkme.directives import Answer, Directive, Refusal
from fedkme.errors import FedkmeError
from fedkme.ops.traces import STAGES, Phases, Public, Tracer
from fedkme.protocols import PROTOCOLS

MOST_RUNS = 1024
"""Runs that are followed at most: one that is cancelled in the queue says nothing at its end."""


@dataclass(slots=True)
class _Run:
    phases: Phases
    public: Public
    begin: int


class CuratorTraces:
    """Makes the spans of runs, of their phases, rounds and questions."""

    def __init__(self, traces: Tracer) -> None:
        self._traces = traces
        self._runs: dict[str, _Run] = {}

    @property
    def on(self) -> bool:
        """True where spans go anywhere."""
        return self._traces.on

    def heard(self, say: Callable[..., None]) -> Callable[..., None]:
        """Hear what a curator reports by `say`."""
        if not self.on:
            return say

        def heard_say(event: str, **fields: Any) -> None:
            self._hear(event, fields)
            say(event, **fields)

        return heard_say

    def _hear(self, event: str, fields: Mapping[str, Any]) -> None:
        """Begin and end phases by an event."""
        match event:
            case "queued":
                self._run(fields["run"]).phases.begin("queue")
            case "run":
                run, protocol = self._run(fields["run"]), fields["protocol"]
                run.public |= {"protocol": protocol, "owners": fields["owners"]}
                if "p" in fields:
                    run.public["rows"] = fields["p"]
                run.phases.begin("sums" if PROTOCOLS[protocol].family == "sums" else "select")
            case "progress":
                self._run(fields["run"]).phases.begin(STAGES.get(fields["stage"], "other"))
            case "ended" | "suspended":
                if (over := self._runs.pop(fields["run"], None)) is None:
                    return
                over.phases.end()
                if event == "ended":  # else the run goes on, and its span with it
                    self._traces.whole(over.begin, over.public | {"status": fields["status"]})

    def _run(self, name: str) -> _Run:
        if (run := self._runs.get(name)) is None:
            run = self._runs[name] = _Run(Phases(self._traces, name), Public(run=name), time.time_ns())
            if len(self._runs) > MOST_RUNS:
                del self._runs[next(iter(self._runs))]
        return run

    def round_done(self, run: str, record: RoundRecord) -> None:
        """Make the span of a round that is over."""
        begin = time.time_ns() - round(1e6 * record.milliseconds)
        self._traces.phase(
            "round",
            begin,
            Public(
                run=run,
                round=record.round,
                asked=record.asked,
                revealed=record.revealed,
                accessed=record.accessed,
            ),
        )

    def exchanged(self, owner: str, directive: Directive, outcome: Answer | FedkmeError, begin: int) -> None:
        """Make the span of a question to an owner."""
        code = outcome.code if isinstance(outcome, Refusal | FedkmeError) else 0
        self._traces.asked(begin, owner, directive, code)
