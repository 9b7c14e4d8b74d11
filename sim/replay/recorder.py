"""Recorder of one run: draws, choices, and what went between parties; and what a second run is held to."""

from __future__ import annotations

import functools
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np
from google.protobuf.message import Message

from fedkme.directives import Answer, Directive, Rows
from fedkme.exchange import Offer, SummaryRequest
from fedkme.party import NoiseFor
from fedkme.privacy.events import Disclosure
from fedkme.privacy.noise import SimulatedNoise, simulated
from fedkme.sealed.rows import HashedRow
from sim.replay.tracked import LAWS, Drawn, NoiseRequest, Numbers, RecordedNoise, Site

Chosen = TypeVar("Chosen")
MASKED = "aggregate"
"""The question whose answers are under masks and keys."""
Visible = tuple[bytes, ...]
"""One message, or the parts of one, as an observer can tell them apart."""
_SECRETS = frozenset({"gift", "gifts", "aggregate", "aggregated", "offer", "offers", "box"})
_UNDER_KEYS = _SECRETS | {"show_head", "keep_head", "head", "cosigned"}  # of ledgers, blinded by fresh bytes
"""Fields whose bytes are fresh secrets or come from them."""


@dataclass(frozen=True, eq=False)
class Decision:
    """Decision of a mechanism that is more than an addition of noise.

    Attributes:
        site: of the mechanism.
        number: of the choice at its site, from 0.
        what: which mechanism.
        given: numbers that it decided by.
        parameters: public ones.
        chosen: what was decided.
        coins: requests of uniform numbers that it was decided by.
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
        directive: as it came.
        said: the directive as the owner can see it.
        answer: as the owner gave it.
        answered: the answer as the curator can see it.
        lines: of the owner's ledger that were written for it.
        hidden: bytes on both ways that are to look like random ones, each with the name of its field.
        wait_s: seconds that the answer waits before it leaves, had it taken a hundredth of one.
    """

    directive: Directive
    said: Visible
    answer: Answer | None
    answered: Visible
    lines: tuple[Disclosure, ...]
    hidden: tuple[tuple[str, bytes], ...] = ()
    wait_s: float = 0.0


@dataclass(eq=False)
class Recorder:
    """All that happened in one run.

    Attributes:
        seed: of all noise.
        first: the run before, whose declared disclosures come again.
        frozen: mechanisms that are declared.
        bound: an owner whose declared answers are those of the first run, too.
        draws: of all parties.
        choices: likewise.
        exchanged: by owner.
        order: owners and questions as they were asked, where one process is all of them.
        reopened: owners whose process died and came back.
        observed: by party, what its process says and leaves behind beside its messages.
        refused: by owner, what its own log says of refusals.
        request: the consumer's.
        offer: likewise.
        odd: faults that were seen on the way.
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
        """Randomness of a party's process: its simulated streams, written down."""

        def source(purpose: str) -> RecordedNoise:
            stream: SimulatedNoise = simulated(self.seed, party, purpose)
            return RecordedNoise(stream, (party, purpose), self._note, self._released)

        return functools.cache(source)

    def observe(self, party: str, line: str) -> None:
        """Write down what a party's process says or leaves behind."""
        with self._lock:
            self.observed.setdefault(party, []).append(line)

    def restart(self, party: str) -> None:
        """Begin anew with a party whose process died: its seeded streams do."""
        with self._lock:
            for key in [key for key in self._numbers if key[0][0] == party]:
                del self._numbers[key]

    def resume(self, party: str) -> None:
        """Let a party decide again what it decided, as it takes its noise from what it kept."""
        self.reopened.add(party)
        with self._lock:
            for key in [key for key in self._numbers if key[0][0] == party and key[1] not in LAWS]:
                del self._numbers[key]

    def keep(self, journal: str, draw: NoiseRequest | None) -> None:
        """Note that a draw is on disk, of those of a journal and purpose; None: uniform numbers."""
        self._kept.setdefault(journal, []).append(draw)

    def again(self, journal: str, place: int, values: Numbers) -> Numbers:
        """Follow numbers that were read from disk as the draw that they are."""
        if (draw := self._kept[journal][place]) is None:
            return values
        found = values.view(Drawn)
        found.draw, found.released = draw, self._released_again
        return found

    def of(self, site: Site) -> list[NoiseRequest]:
        """Draws of a mechanism that hide something, or should have."""
        return [draw for draw in self.draws if draw.site == site and draw.law != "uniform"]

    def chosen(self, site: Site) -> list[Decision]:
        """Choices of a mechanism."""
        return [choice for choice in self.choices if choice.site == site]

    def choose(
        self, site: Site, what: str, given: Any, decide: Callable[[], Chosen], **parameters: float
    ) -> Chosen:
        """Let a mechanism decide; what it decided in the first run stands, where that is declared."""
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
        done = [c for c in self.choices if (c.site, c.what, c.number) == (site, what, number)]
        if not done:
            self.choices.append(Decision(site, number, what, numbers, parameters, chosen, coins))
        elif not np.array_equal(np.asarray(done[0].chosen), np.asarray(chosen)):
            self.odd.append(f"{_called(site)}: choice {number + 1} comes out otherwise when it is made again")
        return chosen

    def note_logits(self, site: Site, logits: Numbers) -> None:
        """Write down the numbers that a choice of a mechanism is made by."""
        given = np.array(logits, dtype=np.float64, copy=True)
        self.choices.append(Decision(site, self._next(site, "logits"), "logits", given, {}, None, 0))

    def pass_answer(self, owner: str, exchanged: Exchanged) -> Answer | None:
        """Write an exchange down; gives the answer that goes on to the curator."""
        mine = self.exchanged.setdefault(owner, [])
        mine.append(exchanged)
        self.order.append((owner, exchanged.directive.question))
        if self.first is None or owner != self.bound or exchanged.directive.question == MASKED:
            return exchanged.answer
        theirs = self.first.exchanged.get(owner, [])
        before = theirs[len(mine) - 1] if len(mine) <= len(theirs) else None
        if before is None:
            return exchanged.answer
        # What is asked again after a death has no lines any more: it is what was answered at first.
        said = next(each for each in theirs if each.said == before.said)
        if not said.lines or is_boxed(said.answer):
            return exchanged.answer
        return said.answer

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
        """The sum with noise that was kept: the one that it was in before, if it was in any."""
        if draw.exact is None or draw.released is None:
            return self._released(draw, exact, noise)
        if not np.array_equal(draw.exact, exact):
            self.odd.append(f"{_called(draw.site)}: draw {draw.number + 1} hides something else than before")
            return np.asarray(exact + noise)
        return draw.released

    def _released(self, draw: NoiseRequest, exact: Numbers, noise: Numbers) -> Numbers:
        draw.uses += 1
        draw.exact = exact.copy()
        draw.released = released = np.asarray(exact + noise)
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
    """Check whether an answer is under keys of its run alone: that of another run opens nowhere."""
    match answer:
        case Rows(rows):
            return any(isinstance(row, HashedRow) for row in rows)
    return False


def _called(site: Site) -> str:
    return f"{site[0]}, {site[1]}"


def visible(messages: Iterable[Message], masked: bool = False) -> Visible:
    """Messages without the bytes that are as good as random: of fresh secrets, and what is under them.

    Their lengths are kept, and everything else to the last bit.

    Args:
        messages: in the order in which they leave.
        masked: whether vectors of words are under masks.
    """
    found = []
    for message in messages:
        copy = type(message)()
        copy.CopyFrom(message)
        _blank(copy, masked, False)
        found.append(copy.SerializeToString(deterministic=True))
    return tuple(found)


def _blank(message: Any, masked: bool, secret: bool) -> None:
    for part, value in message.ListFields():
        under = secret or part.name in _UNDER_KEYS
        if part.type == part.TYPE_MESSAGE:
            if part.message_type.GetOptions().map_entry:
                continue
            for each in (value,) if isinstance(value, Message) else value:
                _blank(each, masked, under)
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
                for each in (value,) if isinstance(value, Message) else value:
                    yield from _hidden(each, under)
        elif under and isinstance(value, bytes) and part.name != "context":  # the hash of public parameters
            yield part.name, value
