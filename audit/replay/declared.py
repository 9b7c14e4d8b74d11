"""Declared disclosures: the mechanisms, observers and costs in the lines of a run's ledgers.

A line counts only if both sides of the exchange have it.
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
    MwemSchedule,
    PureDp,
    SealedRows,
    is_validation,
    leaves,
    validation_of,
)

VALIDATION = validation_of(CONSUMER)
"""D_v of a case's consumer."""
Declared = Mapping[Site, Sequence[Disclosure]]
"""Ledger lines by mechanism."""
_PROVEN = (Gaussian, BoundedRange, PureDp, MwemCall, Clock, SealedRows)


def declared(played: Played, protected: str, observer: str) -> Declared:
    """Mechanisms by which an observer may learn of a protected set, from the ledgers of a run."""
    sites: dict[Site, list[Disclosure]] = {}
    for line in _agreed(played, protected, observer):
        for site in _sites(line, protected):
            sites.setdefault(site, []).append(line)
    if observer == OWNERS and not is_validation(protected):
        for line in _told_to_all(played, protected):
            site = AUCTION if _is_auction(line) else BROADCAST
            sites.setdefault(site, []).append(line)
    return sites


def infinite(events: Iterable[Event]) -> bool:
    """Check whether an event has no finite cost: then nothing is promised."""
    return any(not isinstance(event, _PROVEN) for event in leaves(events))


def disagreements(played: Played, dying: Iterable[str]) -> list[str]:
    """Lines that only one side of an exchange has.

    Args:
        played: the run.
        dying: owners that died in the run, whose last lines may have reached no other party.
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
                continue  # the curator died, and it is unknown if it asked for this disclosure
            side = party if line in ours - theirs else CURATOR
            odd.append(f"{side} alone writes {line.event} of {line.protected} towards {line.observer}")
        if party == CONSUMER:
            continue
        sent = Counter(
            event for line in played.lines_about(CURATOR, OWNERS, OWNERS) for event in _spelled(line)
        )
        heard = Counter(
            event for line in played.lines_about(party, OWNERS, OWNERS) for event in _spelled(line)
        )
        if heard - sent:
            odd.append(f"{party} has more lines about other owners than the curator")
        odd += [
            f"{party} got messages about other owners and has no line about {line.event}"
            for line in dict.fromkeys(
                replace(line, round=0) for line in played.lines_about(CURATOR, OWNERS, OWNERS)
            )
            if _was_told(line, played.recorder.exchanged.get(party, [])) and _spelled(line)[0] not in heard
        ]
    return odd


def _agreed(played: Played, protected: str, observer: str) -> list[Disclosure]:
    """Lines about a protected set that its holder's ledger and the curator's both have."""
    holder = CONSUMER if is_validation(protected) else protected
    own = Counter(played.lines_about(holder, protected, observer))
    return list((own & Counter(played.lines_about(CURATOR, protected, observer))).elements())


def _sites(line: Disclosure, protected: str) -> list[Site]:
    """Mechanisms that may have caused a line."""
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
    """Lines about all owners that the curator and every owner that got the message have."""
    lines, exchanged = played.lines_about(CURATOR, OWNERS, OWNERS), played.recorder.exchanged
    for name in sorted(set(exchanged) - {protected}):
        its = {kind for line in played.lines_about(name, OWNERS, OWNERS) for kind in _spelled(line)}
        lines = [line for line in lines if _spelled(line)[0] in its or not _was_told(line, exchanged[name])]
    return lines


def _was_told(line: Disclosure, exchanged: Sequence[Exchanged]) -> bool:
    """Check whether an owner got the message of a line about all owners; the first mean reads no row."""
    questions = [(entry.directive.question, entry.directive.round) for entry in exchanged]
    if _is_auction(line):
        return any(question in ("ask", "sell") for question, _ in questions)
    return any(question in ("broadcast", "quote") and number > 1 for question, number in questions)


def _is_auction(line: Disclosure) -> bool:
    return line.nonce.startswith("auction")


def _spelled(line: Disclosure) -> list[tuple[str, str]]:
    """Kind and parameters of a line about all owners, once per count: a line may stand for several rounds."""
    event = line.event
    if isinstance(event, MwemSchedule):
        return [(line.nonce.split()[0], str(call)) for call in event.calls()]
    count = getattr(event, "count", 1)
    single = {name: value for name, value in event.to_json().items() if name not in ("count", "iterations")}
    return [(line.nonce.split()[0], str(single))] * int(count)


def _is_mirrored(line: Disclosure, protected: str) -> bool:
    """Check whether both sides write a line: only owners write bids, only the curator writes deliveries."""
    if line.protected != protected or line.nonce.split()[0] in ("bid", "counts", "summary"):
        return False
    return line.observer in (CURATOR, OWNERS) or line.nonce.startswith(("release", "row"))
