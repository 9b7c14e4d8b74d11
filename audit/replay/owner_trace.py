"""Tap at an owner's process: records its directives and answers, over any transport."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from typing_extensions import override

from audit.replay.figures import Exported
from audit.replay.observed import acting
from audit.replay.recorder import MASKED, Exchanged, Recorder, Visible, hidden, visible
from curator.owners.connection import Traffic
from fedkme.cells.disclosures import sketch_of
from fedkme.directives import Answer, Directive, Dismiss, Limits, Refusal
from fedkme.errors import FedkmeError
from fedkme.privacy.ledger import disclosures_in
from fedkme.wire.directives import answer_to_wire, directive_to_wire
from owner.party import OwnerParty
from owner.runs import RunManager
from sim.engines.loopback import Loopback, LoopbackMembers

_TAKEN_S = 0.01
_ANEW = ("offer_keys", "consider", "show_head", "keep_head")
"""Questions whose answers are made anew each time, such as keys and a head under fresh bytes."""


class Tap(RunManager):
    """Runs of an owner; records every answer, and may replace it by the answer of another run."""

    def __init__(
        self,
        *arguments: Any,
        recorder: Recorder,
        exported: Exported,
        reopen: Callable[[], RunManager],
        dies_after: int | None,
    ) -> None:
        """Create a tap.

        Args:
            arguments: arguments of `RunManager`.
            recorder: recorder of the run.
            exported: figures of all parties.
            reopen: makes the owner's next process, over the same store.
            dies_after: number of directives after which the owner's process dies, before its answer arrives;
                None: never.
        """
        super().__init__(*arguments)
        self._recorder = recorder
        self._exported = exported
        self._reopen = reopen
        self._dies_after = dies_after
        self._heir: RunManager | None = None
        self._read = len(self._store.ledger())

    def answer(self, directive: Directive) -> Answer | None:
        """Answer as the owner does; a repeated directive gets the same bytes, also after a death."""
        with acting(self._name):
            return self._answer_and_note(directive)

    def _answer_and_note(self, directive: Directive) -> Answer | None:
        answer = self._reply(directive)
        self._count(directive, answer)
        if isinstance(directive.body, Dismiss):
            return answer
        lines, seen = self._new_lines(), self._visible(directive, answer)
        self._ask_twice(directive, answer)
        if self._dies_after is not None and self._heir is None:
            self._dies_after -= 1
            if self._dies_after == 0:
                answer, seen = self._die(directive, answer, seen)
        messages = [directive_to_wire(directive)]
        replies = () if answer is None else answer_to_wire(answer, directive)
        secret, wait_s = tuple(hidden([*messages, *replies])), super().wait_s(directive, _TAKEN_S)
        exchanged = Exchanged(directive, visible(messages), answer, seen, lines, secret, wait_s)
        return self._recorder.pass_answer(self._name, exchanged)

    def _own_draws(self) -> int:
        """Number of this owner's draws; over gRPC, other owners draw at the same time."""
        return sum(draw.site[0] == self._name for draw in self._recorder.draws)

    def _ask_twice(self, directive: Directive, answer: Answer | None) -> None:
        """Repeat a directive, as over a new stream: the bytes must be equal, and nothing may be drawn."""
        if directive.question in _ANEW or isinstance(answer, Refusal):
            return
        drawn, before = self._own_draws(), _bytes(directive, answer)
        try:
            again = _bytes(directive, self._reply(directive))
        except FedkmeError:
            return  # the owner refuses: nothing leaves
        if again != before:
            self._recorder.odd.append(
                f"{self._name} answers {directive.question!r} otherwise over a new stream"
            )
        if self._own_draws() > drawn or self._new_lines():
            self._recorder.odd.append(
                f"{self._name} draws or writes for {directive.question!r} that it answered"
            )

    def _count(self, directive: Directive, answer: Answer | None) -> None:
        """Count an exchange in the owner's figures, as `owner.agent.attend` does."""
        replies = () if answer is None else answer_to_wire(answer, directive)
        sent = sum(reply.ByteSize() for reply in replies)
        metrics = self._exported.owners[self._name]
        metrics.answered(directive, answer, directive_to_wire(directive).ByteSize(), sent, 0)

    @override
    def wait_s(self, directive: Directive, taken_s: float) -> float:
        """Answer at once: `cells-time` audits the time of an answer, replay its content."""
        return 0.0

    def welcome(self, runs: Iterable[str]) -> None:
        """Pass on the runs in which the curator has this owner."""
        if self._heir is None:
            super().welcome(runs)
        else:
            self._heir.welcome(runs)

    def _reply(self, directive: Directive) -> Answer | None:
        return super().answer(directive) if self._heir is None else self._heir.answer(directive)

    def _die(
        self, directive: Directive, answer: Answer | None, seen: Visible
    ) -> tuple[Answer | None, Visible]:
        """Replace the process by the next one, and repeat the last directive."""
        self._recorder.restart(self._name)
        self._recorder.reopened.add(self._name)
        self._heir = self._reopen()
        again = self._heir.answer(directive)
        self._count(directive, again)
        repeated = self._visible(directive, again)
        if self._new_lines():
            self._recorder.odd.append(f"{self._name} writes lines for an answer that it gives again")
        if not isinstance(again, Refusal) and directive.question != MASKED and repeated != seen:
            self._recorder.odd.append(
                f"{self._name} answers {directive.question!r} otherwise when it is asked again"
            )
        return again, repeated

    def _new_lines(self) -> tuple[Any, ...]:
        entries = self._store.ledger(self._read)
        if not entries:
            return ()
        self._read = entries[-1].seq
        return tuple(disclosures_in(entry.line for entry in entries))

    def _visible(self, directive: Directive, answer: Answer | None) -> Visible:
        if answer is None:
            return ()
        return visible(answer_to_wire(answer, directive), masked=directive.question == MASKED)


def _bytes(directive: Directive, answer: Answer | None) -> list[bytes]:
    """Bytes of an answer on the wire, with fresh secrets."""
    parts = () if answer is None else answer_to_wire(answer, directive)
    return [part.SerializeToString(deterministic=True) for part in parts]


class DyingCurator(LoopbackMembers):
    """Connections of a curator whose process dies once, after a number of answers."""

    def __init__(self, owners: Mapping[str, RunManager], directives: int, of_sketch: bool) -> None:
        """Prepare the death at an answer, which is lost: the answer to directive number `directives`.

        Counts directives of the run, or of its sketch with `of_sketch`.
        """
        super().__init__(owners)
        self._left = directives
        self._of_sketch = of_sketch
        self._connections = {name: _MortalLoopback(name, runs, self) for name, runs in sorted(owners.items())}

    def heard(self, directive: Directive) -> None:
        """Die at the last answer; answers with heads and owners' keys do not count."""
        name = directive.run.partition("/")[0]
        self._left -= directive.run == (sketch_of(name) if self._of_sketch else name)
        if not self._left:
            self._left = -1
            raise asyncio.CancelledError


class _MortalLoopback(Loopback):
    def __init__(self, name: str, runs: RunManager, curator: DyingCurator) -> None:
        super().__init__(name, runs)
        self._curator = curator

    async def exchange(self, directive: Directive, limits: Limits, traffic: Traffic) -> Answer:
        """Ask the owner; the asking process may die when the answer comes."""
        answer = await super().exchange(directive, limits, traffic)
        self._curator.heard(directive)
        return answer


def open_tapped(
    party: OwnerParty, recorder: Recorder, exported: Exported, dies_after: int | None
) -> RunManager:
    """Open an owner with a tap."""
    noise = recorder.noise_for  # the next process has the same store and new randomness
    make = partial(
        Tap,
        recorder=recorder,
        exported=exported,
        reopen=lambda: exported.open(replace(party, noise_for=noise(party.name))),
        dies_after=dies_after,
    )
    return exported.open(party, make)
