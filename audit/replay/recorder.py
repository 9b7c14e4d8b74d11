"""Recorder of one run: draws, choices and messages; in a second run it repeats declared disclosures."""

from __future__ import annotations

import functools
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np
from google.protobuf.message import Message

from audit.replay.tracked import LAWS, Drawn, NoiseRequest, Numbers, RecordedNoise, Site
from fedkme.directives import Answer, Directive, Rows
from fedkme.exchange import Offer, SummaryRequest
from fedkme.party import NoiseFor
from fedkme.privacy.events import Disclosure
from fedkme.privacy.noise import SimulatedNoise, simulated
from fedkme.sealed.rows import HashedRow

Chosen = TypeVar("Chosen")
MASKED = "aggregate"
"""The question whose answers are under masks and keys."""
Visible = tuple[bytes, ...]
"""A message, or the parts of a message, without bytes that look random to an observer."""
_SECRETS = frozenset({"gift", "gifts", "aggregate", "aggregated", "offer", "offers", "box"})
_UNDER_KEYS = _SECRETS | {"show_head", "keep_head", "head", "cosigned"}  # of ledgers, blinded by fresh bytes
"""Fields with fresh secrets, or with bytes derived from them."""


@dataclass(frozen=True, eq=False)
class Decision:
    """Decision of a mechanism that does more than add noise.

    Attributes:
        site: site of the mechanism.
        number: number of the choice at its site, from 0.
        what: kind of the mechanism.
        given: input numbers of the decision.
        parameters: public parameters.
        chosen: the decision.
        coins: number of requests for uniform numbers in the decision.
    """

    site: Site
    number: int
    what: str
    given: Numbers
    parameters: Mapping[str, float]
    chosen: Any
    coins: int


@dataclass(frozen=True, eq=False)
class Exchanged:
    """A directive to an owner and its answer.

    Attributes:
        directive: the directive as it came.
        visible: visible bytes of the directive.
        answer: answer of the owner.
        answered: visible bytes of the answer.
        lines: lines of the owner's ledger that were written for the answer.
        hidden: bytes of both messages that must look random, each with the name of its field.
        wait_s: seconds that the answer would wait before it leaves, after a hundredth of a second of work.
    """

    directive: Directive
    visible: Visible
    answer: Answer | None
    answered: Visible
    lines: tuple[Disclosure, ...]
    hidden: tuple[tuple[str, bytes], ...] = ()
    wait_s: float = 0.0


@dataclass(eq=False)
class Recorder:
    """Record of one run.

    Attributes:
        seed: seed of all noise.
        first: record of the first run, whose declared disclosures this run repeats.
        frozen: declared mechanisms.
        bound: an owner whose declared answers are also repeated from the first run.
        draws: draws of all parties.
        choices: choices of all parties.
        exchanged: directives and answers by owner.
        order: owners and questions in the order of asking, if all parties are in one process.
        reopened: owners whose process died and came back.
        observed: logs, output and files by party.
        refused: lines on refusals from an owner's own log, by owner.
        request: request of the consumer.
        offer: offer of the consumer.
        odd: faults seen during the run.
    """

    seed: int
    first: Recorder | None = None
    frozen: frozenset[Site] = frozenset()
    bound: str = ""
    draws: list[NoiseRequest] = field(default_factory=list)
    choices: list[Decision] = field(default_factory=list)
    exchanged: dict[str, list[Exchanged]] = field(default_factory=dict)
    order: list[tuple[str, str]] = field(default_factory=list)
    reopened: set[str] = field(default_factory=set)
    observed: dict[str, list[str]] = field(default_factory=dict)
    refused: dict[str, list[str]] = field(default_factory=dict)
    request: SummaryRequest | None = None
    offer: Offer | None = None
    odd: list[str] = field(default_factory=list)
    _numbers: Counter[tuple[Site, str]] = field(default_factory=Counter)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _deciding: bool = False
    _kept: dict[str, list[NoiseRequest | None]] = field(default_factory=dict)

    def noise_for(self, party: str) -> NoiseFor:
        """Randomness of a party's process: its simulated streams, recorded."""

        def source(purpose: str) -> RecordedNoise:
            stream: SimulatedNoise = simulated(self.seed, party, purpose)
            return RecordedNoise(stream, (party, purpose), self._note, self._released)

        return functools.cache(source)

    def observe(self, party: str, line: str) -> None:
        """Record a line of a party's logs, output or files."""
        with self._lock:
            self.observed.setdefault(party, []).append(line)

    def restart(self, party: str) -> None:
        """Restart the counts of a party whose process died: its seeded streams restart too."""
        with self._lock:
            for key in [key for key in self._numbers if key[0][0] == party]:
                del self._numbers[key]

    def resume(self, party: str) -> None:
        """Let a party repeat its decisions, since its next process reads the noise that it kept."""
        self.reopened.add(party)
        with self._lock:
            for key in [key for key in self._numbers if key[0][0] == party and key[1] not in LAWS]:
                del self._numbers[key]

    def keep(self, journal: str, draw: NoiseRequest | None) -> None:
        """Note that a draw of a journal's purpose is on disk; None: uniform numbers."""
        self._kept.setdefault(journal, []).append(draw)

    def again(self, journal: str, place: int, values: Numbers) -> Numbers:
        """Track numbers that were read from disk as their original draw."""
        if (draw := self._kept[journal][place]) is None:
            return values
        tracked = values.view(Drawn)
        tracked.draw, tracked.released = draw, self._released_again
        return tracked

    def of(self, site: Site) -> list[NoiseRequest]:
        """Draws of a mechanism except uniform numbers, which hide nothing."""
        return [draw for draw in self.draws if draw.site == site and draw.law != "uniform"]

    def chosen(self, site: Site) -> list[Decision]:
        """Choices of a mechanism."""
        return [choice for choice in self.choices if choice.site == site]

    def choose(
        self, site: Site, what: str, given: Any, decide: Callable[[], Chosen], **parameters: float
    ) -> Chosen:
        """Let a mechanism decide; a declared decision is repeated from the first run."""
        number = self._next(site, what)
        numbers = np.array(given, dtype=np.float64, copy=True)
        before_it, self._deciding = len(self.draws), True
        try:
            chosen = decide()
        finally:
            self._deciding = False
        coins = sum(draw.law == "uniform" for draw in self.draws[before_it:])
        if self.first is not None and site in self.frozen:
            before = [c for c in self.first.chosen(site) if (c.what, c.number) == (what, number)]
            if before:
                chosen = before[0].chosen
            else:
                self.odd.append(f"{_called(site)}: choice {number + 1} was not made in the first run")
        earlier = [c for c in self.choices if (c.site, c.what, c.number) == (site, what, number)]
        if not earlier:
            self.choices.append(Decision(site, number, what, numbers, parameters, chosen, coins))
        elif not np.array_equal(np.asarray(earlier[0].chosen), np.asarray(chosen)):
            self.odd.append(f"{_called(site)}: choice {number + 1} comes out otherwise when it is made again")
        return chosen

    def note_logits(self, site: Site, logits: Numbers) -> None:
        """Record the numbers that decide a mechanism's choice."""
        given = np.array(logits, dtype=np.float64, copy=True)
        self.choices.append(Decision(site, self._next(site, "logits"), "logits", given, {}, None, 0))

    def pass_answer(self, owner: str, exchanged: Exchanged) -> Answer | None:
        """Record an exchange; returns the answer that goes on to the curator."""
        mine = self.exchanged.setdefault(owner, [])
        mine.append(exchanged)
        self.order.append((owner, exchanged.directive.question))
        if self.first is None or owner != self.bound or exchanged.directive.question == MASKED:
            return exchanged.answer
        theirs = self.first.exchanged.get(owner, [])
        before = theirs[len(mine) - 1] if len(mine) <= len(theirs) else None
        if before is None:
            return exchanged.answer
        # A directive that is repeated after a death has no new lines: take the first answer to it.
        original = next(entry for entry in theirs if entry.visible == before.visible)
        if not original.lines or is_boxed(original.answer):
            return exchanged.answer
        return original.answer

    def _next(self, site: Site, what: str) -> int:
        with self._lock:
            number = self._numbers[site, what]
            self._numbers[site, what] += 1
        return number

    def _note(self, site: Site, law: str, scale: float, size: int) -> NoiseRequest:
        draw = NoiseRequest(site, self._next(site, law), law, scale, size, decides=self._deciding)
        self.draws.append(draw)
        return draw

    def _released_again(self, draw: NoiseRequest, exact: Numbers, noise: Numbers) -> Numbers:
        """Sum with noise read from disk: the earlier sum, if the noise was added before."""
        if draw.exact is None or draw.released is None:
            return self._released(draw, exact, noise)
        if not np.array_equal(draw.exact, exact):
            self.odd.append(f"{_called(draw.site)}: draw {draw.number + 1} hides something else than before")
            return np.asarray(exact + noise)
        return self._passed_on(draw, draw.released)

    def _released(self, draw: NoiseRequest, exact: Numbers, noise: Numbers) -> Numbers:
        draw.uses += 1
        draw.exact = exact.copy()
        draw.released = np.asarray(exact + noise)
        return self._passed_on(draw, draw.released)

    def _passed_on(self, draw: NoiseRequest, released: Numbers) -> Numbers:
        """Sum that goes on from a draw, in each life of its party: if declared, that of the first run."""
        if self.first is None or draw.site not in self.frozen:
            return released
        before = next(
            (d for d in self.first.of(draw.site) if (d.number, d.law) == (draw.number, draw.law) and d.uses),
            None,
        )
        if before is None or before.released is None or before.released.shape != released.shape:
            self.odd.append(f"{_called(draw.site)}: draw {draw.number + 1} was not made in the first run")
            return released
        return before.released.astype(released.dtype)


def is_boxed(answer: Answer | None) -> bool:
    """Check whether an answer is under keys of its run: boxes of another run cannot be opened."""
    match answer:
        case Rows(rows):
            return any(isinstance(row, HashedRow) for row in rows)
    return False


def _called(site: Site) -> str:
    return f"{site[0]}, {site[1]}"


def visible(messages: Iterable[Message], masked: bool = False) -> Visible:
    """Blank the bytes of messages that are as good as random: fresh secrets, and bytes under them.

    Lengths and all other bytes stay.

    Args:
        messages: messages in the order in which they leave.
        masked: vectors of words are under masks.
    """
    parts = []
    for message in messages:
        copy = type(message)()
        copy.CopyFrom(message)
        _blank(copy, masked, False)
        parts.append(copy.SerializeToString(deterministic=True))
    return tuple(parts)


def _blank(message: Any, masked: bool, secret: bool) -> None:
    for part, value in message.ListFields():
        under = secret or part.name in _UNDER_KEYS
        if part.type == part.TYPE_MESSAGE:
            if part.message_type.GetOptions().map_entry:
                continue
            for inner in (value,) if isinstance(value, Message) else value:
                _blank(inner, masked, under)
        elif under and isinstance(value, bytes):
            setattr(message, part.name, bytes(len(value)))
        elif part.name == "words" and masked:
            value[:] = [0] * len(value)


def hidden(messages: Iterable[Message]) -> Iterator[tuple[str, bytes]]:
    """Bytes of messages that are as good as random, each with the name of its field."""
    for message in messages:
        yield from _hidden(message, False)


def _hidden(message: Any, secret: bool) -> Iterator[tuple[str, bytes]]:
    for part, value in message.ListFields():
        under = secret or part.name in _SECRETS
        if part.type == part.TYPE_MESSAGE:
            if not part.message_type.GetOptions().map_entry:
                for inner in (value,) if isinstance(value, Message) else value:
                    yield from _hidden(inner, under)
        elif under and isinstance(value, bytes) and part.name != "context":  # the hash of public parameters
            yield part.name, value
