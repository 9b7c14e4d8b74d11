"""Declared disclosures: which mechanisms a run's ledgers have lines for, towards whom, and at what cost.

A line counts where both sides of the exchange have it: what one side alone declares is not declared.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from audit.replay.patches import AUCTION, BROADCAST
from audit.replay.play import Played
from audit.replay.recorder import Exchanged
from audit.replay.tracked import Site
from fedkme.cells.disclosures import HISTOGRAM
from fedkme.privacy.events import (
    CONSUMER,
    CURATOR,
    OWNERS,
    BoundedRange,
    Clock,
    Disclosure,
    Event,
    Gaussian,
    MwemCall,
    PureDp,
    SealedRows,
    is_validation,
    leaves,
    validation_of,
)

VALIDATION = validation_of(CONSUMER)
"""D_v of a case's consumer."""
Declared = Mapping[Site, Sequence[Disclosure]]
"""Lines by the mechanism that they are of."""
_PROVEN = (Gaussian, BoundedRange, PureDp, MwemCall, Clock, SealedRows)


def declared(played: Played, protected: str, observer: str) -> Declared:
    """Mechanisms by which an observer may learn of a protected set, by the ledgers of a run."""
    found: dict[Site, list[Disclosure]] = {}
    for line in _agreed(played, protected, observer):
        for site in _sites(line, protected):
            found.setdefault(site, []).append(line)
    if observer == OWNERS and not is_validation(protected):
        for line in _told_to_all(played, protected):
            site = AUCTION if _is_auction(line) else BROADCAST
            found.setdefault(site, []).append(line)
    return found


def infinite(events: Iterable[Event]) -> bool:
    """Check whether some event has no finite cost: nothing is promised beside it."""
    return any(not isinstance(event, _PROVEN) for event in leaves(events))


def disagreements(played: Played, dying: Iterable[str]) -> list[str]:
    """Lines that one side of an exchange has and the other has not.

    Args:
        played: the run.
        dying: owners that died in it, whose last lines may have reached nobody.
    """
    odd = []
    for party in sorted(set(played.ledgers) - {CURATOR, *dying}):
        protected = VALIDATION if party == CONSUMER else party
        ours, theirs = (
            Counter(line for line in played.ledgers[side] if _is_mirrored(line, protected))
            for side in (party, CURATOR)
        )
        for line in sorted((ours - theirs) + (theirs - ours), key=repr):
            if not line.certain:
                continue  # the curator died, and may or may not have asked for it
            side = party if line in ours - theirs else CURATOR
            odd.append(f"{side} alone writes {line.event} of {line.protected} towards {line.observer}")
        if party == CONSUMER:
            continue
        told = Counter(event for line in played.told(CURATOR, OWNERS, OWNERS) for event in _spelled(line))
        heard = Counter(event for line in played.told(party, OWNERS, OWNERS) for event in _spelled(line))
        if heard - told:
            odd.append(f"{party} writes down more of others than the curator told")
        odd += [
            f"{party} was told of others and has no line about {line.event}"
            for line in dict.fromkeys(replace(line, round=0) for line in played.told(CURATOR, OWNERS, OWNERS))
            if _was_told(line, played.recorder.exchanged.get(party, [])) and _spelled(line)[0] not in heard
        ]
    return odd


def _agreed(played: Played, protected: str, observer: str) -> list[Disclosure]:
    """Lines about a set that are in its holder's ledger and in the curator's."""
    holder = CONSUMER if is_validation(protected) else protected
    own = Counter(played.told(holder, protected, observer))
    return list((own & Counter(played.told(CURATOR, protected, observer))).elements())


def _sites(line: Disclosure, protected: str) -> list[Site]:
    """Mechanisms that a line may be of."""
    event = line.event
    if is_validation(protected):
        if isinstance(event, BoundedRange):
            return [(CONSUMER, "picks")]
        return [(CONSUMER, "histogram" if line.nonce.startswith(HISTOGRAM) else "target")]
    if isinstance(event, PureDp):
        return [(protected, "histogram")]
    if line.nonce.startswith("release"):
        return [(CURATOR, "release"), (protected, "sums")]
    if line.nonce.startswith("sums"):
        return [(protected, "sums")]
    return []


def _told_to_all(played: Played, protected: str) -> list[Disclosure]:
    """Lines about all owners that the curator has, and everybody else to whom it was said."""
    lines, exchanged = played.told(CURATOR, OWNERS, OWNERS), played.recorder.exchanged
    for name in sorted(set(exchanged) - {protected}):
        its = {kind for line in played.told(name, OWNERS, OWNERS) for kind in _spelled(line)}
        lines = [line for line in lines if _spelled(line)[0] in its or not _was_told(line, exchanged[name])]
    return lines


def _was_told(line: Disclosure, exchanged: Sequence[Exchanged]) -> bool:
    """Check whether an owner heard of what a line about all owners is of; the first mean reads no row."""
    asked = [(each.directive.question, each.directive.round) for each in exchanged]
    if _is_auction(line):
        return any(question in ("ask", "sell") for question, _ in asked)
    return any(question in ("broadcast", "quote") and number > 1 for question, number in asked)


def _is_auction(line: Disclosure) -> bool:
    return line.nonce.startswith("auction")


def _spelled(line: Disclosure) -> list[tuple[str, str]]:
    """A line about all owners, as often as it counts, by kind and parameters: rounds may be told together."""
    event = line.event
    count = getattr(event, "count", 1)
    single = {name: value for name, value in event.to_json().items() if name not in ("count", "iterations")}
    return [(line.nonce.split()[0], str(single))] * int(count)


def _is_mirrored(line: Disclosure, protected: str) -> bool:
    """Check whether both sides write a line: bids are their owner's alone, deliveries the curator's."""
    if line.protected != protected or line.nonce.split()[0] in ("bid", "counts", "summary"):
        return False
    return line.observer in (CURATOR, OWNERS) or line.nonce.startswith(("release", "row"))
