"""Places at which a recorder looks into the product while a run is played.

Additions of noise need none (`tracked`). What decides by noise is one function of each mechanism; what the
consumer sends passes the curator's preparation.
"""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any, cast

import numpy as np

from audit.replay.observed import acting
from audit.replay.recorder import Recorder, visible
from audit.replay.tracked import Drawn, RecordedNoise, Site
from consumer.summary.party import ConsumerParty
from curator.releases.method import Finished
from curator.run.journal import JournaledNoise, RunJournal
from curator.runs.preparation import Preparation
from curator.runs.release_run import ReleaseRun
from curator.summary.auctions.base import RankAuction
from curator.summary.auctions.clock import Clock
from fedkme.cells import directions, histogram
from fedkme.margins import picks as margin_picks
from fedkme.privacy.events import CONSUMER, CURATOR
from fedkme.privacy.means import ExactMean
from fedkme.privacy.mwem import Mwem
from fedkme.privacy.settings import ExactSettings
from fedkme.secagg import noise as secagg_noise
from fedkme.wire.summaries import offer_to_messages

AUCTION: Site = (CURATOR, "auction")
BROADCAST: Site = (CURATOR, "broadcast")
Wrap = Callable[[Callable[..., Any]], Callable[..., Any]]


@contextlib.contextmanager
def watching(recorder: Recorder, finish: bool = True) -> Iterator[None]:
    """Let a recorder see every choice, and the consumer's messages, while inside.

    Args:
        recorder: recorder of the run.
        finish: make a release's files, which are a function of its bytes; otherwise keep only the bytes.
    """
    places: list[tuple[Any, str, Wrap]] = [
        (Clock, "stop", lambda stop: _clock(recorder, stop)),
        *(
            (kind, "asked", lambda asked: _asked(recorder, asked))
            for kind in _ranked(cast(type[Any], RankAuction))
        ),
        (Mwem, "iterate", lambda iterate: _h2(recorder, iterate)),
        (ExactSettings, "make", _exact_of),
        (ExactMean, "release", lambda release: _exact(recorder, release)),
        (directions, "choose", lambda choose: _logits(recorder, choose)),
        *((place, "whole", _rounded) for place in (histogram, secagg_noise)),
        *(
            (place, "choose_one", lambda choose_one: _pick(recorder, choose_one))
            for place in (directions, margin_picks)
        ),
        (Preparation, "open_summary", lambda open_summary: _request(recorder, open_summary)),
        (Preparation, "accept", lambda accept: _offer(recorder, accept)),
        (ConsumerParty, "offer", lambda offer: _offered_again(recorder, offer)),
        (ConsumerParty, "ask", _by_consumer),
        (ConsumerParty, "document", _by_consumer),
        (RunJournal, "keep_draw", lambda keep_draw: _noted(recorder, keep_draw)),
        (RunJournal, "draw", lambda draw: _drawn_before(recorder, draw)),
        *([] if finish else [(ReleaseRun, "_finish", _unfinished)]),
    ]
    before = [(kind, name, getattr(kind, name)) for kind, name, _ in places]
    for (kind, name, wrap), (_, _, original) in zip(places, before, strict=True):
        setattr(kind, name, wrap(original))
    try:
        yield
    finally:
        for kind, name, original in before:
            setattr(kind, name, original)


def _offered_again(recorder: Recorder, offer: Callable[..., Any]) -> Callable[..., Any]:
    def offered(self: Any, request: Any, plan: Any) -> Any:
        with acting(CONSUMER):
            first, again = (offer(self, request, plan) for _ in range(2))
        if visible(offer_to_messages(again)) != visible(offer_to_messages(first)):
            recorder.odd.append("the consumer offers something else when it is asked again")
        return again

    return offered


def _by_consumer(ask: Callable[..., Any]) -> Callable[..., Any]:
    def asked(*arguments: Any) -> Any:
        with acting(CONSUMER):
            return ask(*arguments)

    return asked


def _noted(recorder: Recorder, keep_draw: Callable[..., None]) -> Callable[..., None]:
    def noted(self: Any, purpose: str, values: Any) -> None:
        recorder.keep(purpose, getattr(values, "draw", None))
        keep_draw(self, purpose, values)

    return noted


def _drawn_before(recorder: Recorder, draw: Callable[..., Any]) -> Callable[..., Any]:
    """Track numbers that a journal gives back, in the order of each purpose."""
    places: Counter[tuple[int, str]] = Counter()

    def drawn(self: Any, purpose: str, size: int) -> Any:
        values = draw(self, purpose, size)
        if values is None:
            return None
        places[id(self), purpose] += 1
        return recorder.again(purpose, places[id(self), purpose] - 1, values)

    return drawn


def _unfinished(finish: Callable[..., Any]) -> Callable[..., Any]:
    async def finished(self: Any, method: Any, release: bytes) -> Finished:
        return Finished({"release": release}, 0)

    return finished


_RANK: type[Any] = cast(type[Any], RankAuction)


def _ranked(kind: type[Any]) -> Iterator[type[Any]]:
    """Auctions by the order of bids, of this package and of extensions."""
    for auction in kind.__subclasses__():
        if "asked" in vars(auction):
            yield auction
        yield from _ranked(auction)


def _clock(recorder: Recorder, stop: Callable[..., int]) -> Callable[..., int]:
    def stopped(self: Any, counts: Any) -> int:
        return recorder.choose(AUCTION, "clock", counts, lambda: stop(self, counts))

    return stopped


def _asked(recorder: Recorder, method: Callable[..., list[str]]) -> Callable[..., list[str]]:
    def decided(self: Any, bids: Any) -> list[str]:
        values = [bids[name].value for name in sorted(bids)]
        names = recorder.choose(AUCTION, "auction", values, lambda: method(self, bids))
        return [name for name in names if name in bids]

    return decided


def _h2(recorder: Recorder, iterate: Callable[..., Any]) -> Callable[..., Any]:
    def estimated(self: Any, index_sum: Any, size: int, epsilon: float | None, iterations: int) -> Any:
        unit = 2.0 / self._intervals
        return recorder.choose(
            _site_of(self._noise),
            "h2",
            index_sum * unit,
            lambda: iterate(self, index_sum, size, epsilon, iterations),
            epsilon=float("inf") if epsilon is None else epsilon,
            iterations=iterations,
            unit=unit,
        )

    return estimated


def _site_of(noise: Any) -> Site:
    """Mechanism of a source of noise, also behind a journal."""
    return cast(RecordedNoise, noise._source if isinstance(noise, JournaledNoise) else noise).site


def _exact_of(make: Callable[..., Any]) -> Callable[..., Any]:
    def made(self: Any, dimension: int, norm_bound: float, releases: int, noise: Any) -> Any:
        mean = make(self, dimension, norm_bound, releases, noise)
        mean.site = getattr(noise, "site", None)  # None: a source that is asked only for its cost
        return mean

    return made


def _exact(recorder: Recorder, release: Callable[..., Any]) -> Callable[..., Any]:
    def released(self: Any) -> Any:
        if (site := getattr(self, "site", None)) is None:
            return release(self)
        return recorder.choose(site, "mean", self._sum, lambda: release(self))

    return released


def _logits(recorder: Recorder, choose: Callable[..., int]) -> Callable[..., int]:
    """Record the numbers that decide a choice."""

    def chosen(logits: Any, coin: float, noise: Any) -> int:
        recorder.note_logits(_site_of(noise), logits)
        return choose(logits, coin, noise)

    return chosen


def _rounded(whole: Callable[..., Any]) -> Callable[..., Any]:
    """Let rounded noise carry the request of the noise."""

    def rounded(values: Any) -> Any:
        result = whole(np.asarray(values))
        if isinstance(values, Drawn):
            result = result.view(Drawn)
            result.draw, result.released = values.draw, values.released
        return result

    return rounded


def _pick(recorder: Recorder, choose_one: Callable[..., int]) -> Callable[..., int]:
    def picked(score: Any, event: Any, noise: Any) -> int:
        return recorder.choose(
            noise.site, "pick", score, lambda: choose_one(score, event, noise), epsilon=event.epsilon
        )

    return picked


def _request(recorder: Recorder, open_summary: Callable[..., Any]) -> Callable[..., Any]:
    def opened(self: Any, request: Any) -> Any:
        recorder.request = request
        return open_summary(self, request)

    return opened


def _offer(recorder: Recorder, accept: Callable[..., Any]) -> Callable[..., Any]:
    def accepted(self: Any, run: Any, offer: Any) -> Any:
        recorder.offer = offer
        return accept(self, run, offer)

    return accepted
