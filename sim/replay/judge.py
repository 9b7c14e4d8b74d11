"""Judgement of a pair of runs: what differs and is not declared, and declarations that do not hold."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from fedkme.privacy.accountants import Sound, paid
from fedkme.privacy.events import (
    CONSUMER,
    CURATOR,
    OWNERS,
    BoundedRange,
    Disclosure,
    Gaussian,
    MwemCall,
    PureDp,
    is_validation,
)
from fedkme.privacy.told import NOT_TOLD
from fedkme.wire.summaries import offer_to_messages, request_to_wire
from sim.replay.cases import Case
from sim.replay.declared import VALIDATION, declared, disagreements, infinite
from sim.replay.figures import spent
from sim.replay.promises import broken
from sim.replay.recorder import Exchanged, Visible, visible
from sim.replay.seams import BROADCAST
from sim.replay.secrets import exposed, repeated
from sim.replay.strength import called, far, misuse, weak
from sim.replay.tracked import NoiseRequest, Site
from sim.replay.world import Played

What = Literal["bytes", "noise", "distance", "ledgers", "budget", "secrets", "nothing shown"]
_ROUNDING = 1.0 + 1e-6


@dataclass(frozen=True, slots=True)
class Undeclared:
    """Finding: something that no line of a ledger accounts for.

    Attributes:
        what: kind of the finding.
        protected: whose rows.
        observer: who learns of them.
        line: the finding, in words without a private value.
    """

    what: What
    protected: str
    observer: str
    line: str


def of_one(case: Case, played: Played) -> list[Undeclared]:
    """Findings in a run: noise that is not what lines say, ledgers that disagree, budgets that broke."""
    found = [Undeclared("ledgers", "anybody", "anybody", line) for line in disagreements(played, case.dies)]
    found += [Undeclared("bytes", "anybody", "anybody", line) for line in played.recorder.odd]
    found += [
        Undeclared("noise", draw.site[0], "anybody", line)
        for draw in played.recorder.draws
        for line in misuse(draw, draw.site[0] in case.mortal)
    ]
    found += [Undeclared("budget", "anybody", "anybody", line) for line in broken(case, played)]
    found += [Undeclared("noise", "anybody", "anybody", line) for line in _repeated(case, played)]
    found += [Undeclared("secrets", "anybody", "anybody", line) for line in exposed(played)]
    told: set[Site] = set()
    for protected in (*sorted(set(played.ledgers) - {CURATOR, CONSUMER}), VALIDATION):
        for observer in (OWNERS, CURATOR, CONSUMER):
            for site, lines in declared(played, protected, observer).items():
                told.add(site)
                found += [
                    Undeclared("noise", protected, observer, f"{called(site)}: {line}")
                    for line in weak(case, played, site, lines)
                ]
    for site in sorted(_made(played) - told):
        found.append(Undeclared("ledgers", "anybody", "anybody", f"no line tells of {called(site)}"))
    return [*dict.fromkeys(found), *_over_budget(case, played)]


def of_pair(case: Case, first: Played, second: Played, protected: str, observer: str) -> list[Undeclared]:
    """Findings in two runs that differ in one row of a set, with what is declared to an observer frozen."""
    lines = declared(first, protected, observer)
    found: list[tuple[What, str]] = [("bytes", line) for line in second.recorder.odd]
    found += [("bytes", line) for line in _differences(case, first, second, protected, observer)]
    for site, about in lines.items():
        found += [("distance", f"{called(site)}: {line}") for line in far(case, first, second, site, about)]
    return [Undeclared(what, protected, observer, line) for what, line in dict.fromkeys(found)]


def of_death(case: Case, first: Played, undisturbed: Played) -> list[Undeclared]:
    """Findings in a summary whose curator died, beside the same run in which nobody did.

    A sketch that is asked again is another session, whose directives are counted from its begin.
    """
    found = [*_unlike("the outcome", [first.fault], [undisturbed.fault])]
    for party in sorted(first.ledgers):
        found += _unlike(f"the ledger of {party}", first.ledgers[party], undisturbed.ledgers[party])
    for name in () if case.in_sketch else sorted(undisturbed.recorder.exchanged):
        here, there = (each.recorder.exchanged[name] for each in (first, undisturbed))
        once = list(_once(here).values())
        for side in ("said", "answered"):
            parts = ([getattr(each, side) for each in exchanged] for exchanged in (once, there))
            found += _unlike(f"{name}, {side}", *parts)
    return [Undeclared("bytes", "anybody", "anybody", f"{line} after a death") for line in found]


def _once(exchanged: Iterable[Exchanged]) -> dict[Visible, Exchanged]:
    """Exchanges without those that repeat an earlier directive."""
    first: dict[Visible, Exchanged] = {}
    for each in exchanged:
        first.setdefault(each.said, each)
    return first


def of_noise(first: Played, other: Played) -> list[Undeclared]:
    """Findings in runs of equal rows and other noise: noise that comes again, lines that look alike."""
    numbers = [
        {draw.drawn: draw.site for draw in each.recorder.draws if draw.drawn} for each in (first, other)
    ]
    found = [
        Undeclared("noise", site[0], "anybody", f"{called(site)}: noise comes again")
        for site in {numbers[0][key] for key in numbers[0].keys() & numbers[1].keys()}
    ]
    found += [Undeclared("secrets", "anybody", "anybody", line) for line in repeated(first, other)]
    for party in sorted(first.ledgers):
        nonces = [{line.nonce for line in each.ledgers[party] if _is_drawn(line)} for each in (first, other)]
        for nonce in sorted(nonces[0] & nonces[1]):
            line = f"the nonce {nonce.split()[0]!r} is that of another draw"
            found.append(Undeclared("ledgers", party, "anybody", line))
    return found


def _repeated(case: Case, played: Played) -> Iterator[str]:
    """Draws of a run whose numbers are those of another draw; a seeded stream that died begins anew."""
    numbers: dict[bytes, NoiseRequest] = {}
    for draw in played.recorder.draws:
        if (
            draw.drawn
            and draw.site[0] not in case.mortal
            and numbers.setdefault(draw.drawn, draw) is not draw
        ):
            yield f"{called(draw.site)}: the numbers of draw {draw.number + 1} are those of another"


def _is_drawn(line: Disclosure) -> bool:
    """Check whether a line is of numbers that somebody got: a plan's lines and the last are of all."""
    drawn = isinstance(line.event, Gaussian | BoundedRange | MwemCall | PureDp)
    return drawn and not line.nonce.startswith(("release", "sums", NOT_TOLD))


def _differences(case: Case, first: Played, second: Played, protected: str, observer: str) -> Iterator[str]:
    """Parts of what an observer sees that differ."""
    if observer == OWNERS:
        if is_validation(protected) and infinite(
            line.event for line in first.told(CONSUMER, protected, OWNERS)
        ):
            return
        for name in sorted(set(first.ledgers) - {CURATOR, CONSUMER, protected}):
            here, there = (each.recorder.exchanged.get(name, []) for each in (first, second))
            yield from _unlike(f"directives to {name}", [e.said for e in here], [e.said for e in there])
            yield from _unlike(f"the ledger of {name}", first.ledgers[name], second.ledgers[name])
            refused = (each.recorder.refused.get(name) for each in (first, second))
            yield from _unlike(f"refusals of {name}", *(each or [] for each in refused))
            yield from _of_figures(first, second, name)
            yield from _of_process(first, second, name)
        if case.engine == "loopback":
            yield from _unlike("the order of questions", first.recorder.order, second.recorder.order)
    elif observer == CONSUMER:
        yield from _of_records(first, second)
    elif is_validation(protected):
        yield from _of_consumer(first, second)
    else:
        yield from _of_owner(first, second, protected)


def _of_consumer(first: Played, second: Played) -> Iterator[str]:
    """Parts of a request and an offer that differ."""
    if infinite(line.event for line in first.told(CONSUMER, VALIDATION, CURATOR)):
        return
    yield from _of_records(first, second)
    sides = []
    for recorder in (first.recorder, second.recorder):
        request, offer = recorder.request, recorder.offer
        asked = [] if request is None else [request_to_wire(replace(request, request_id=bytes(16)))]
        sides.append(visible([*asked, *([] if offer is None else offer_to_messages(offer))]))
    yield from _unlike("the consumer's messages", *sides)
    yield from _of_figures(first, second, CURATOR)


def _of_owner(first: Played, second: Played, protected: str) -> Iterator[str]:
    """Parts of what an owner gives the curator that differ, up to the first that has no finite cost.

    What processes say beside their messages is compared whatever lines say, but for the curator's, which may
    see rows: no line is of that.
    """
    for party in sorted({*first.recorder.observed, *second.recorder.observed} - {CURATOR}):
        yield from _of_process(first, second, party)
    here, there = (each.recorder.exchanged.get(protected, []) for each in (first, second))
    for number, (one, other) in enumerate(zip(here, there, strict=False)):
        about = [line for line in one.lines if (line.protected, line.observer) == (protected, CURATOR)]
        if infinite(line.event for line in about):
            return
        if one.answered != other.answered:
            yield (
                f"answer {number + 1} of {protected}, to {one.directive.question!r}, of "
                f"{_size(one.answered)} and {_size(other.answered)} bytes"
            )
    if len(here) != len(there):
        yield f"{protected} is asked {len(here)} and {len(there)} times"
    refused = (each.recorder.refused.get(protected) or [] for each in (first, second))
    yield from _unlike(f"refusals of {protected}", *refused)
    yield from _unlike(f"waits of {protected}", *([e.wait_s for e in each] for each in (here, there)))
    yield from _of_records(first, second)
    for party in (CURATOR, protected):
        yield from _of_figures(first, second, party)


def _of_records(first: Played, second: Played) -> Iterator[str]:
    """Records and files that differ, and what processes say; an owner's own says no more than it told."""
    for name in sorted({*first.files, *second.files}):
        yield from _unlike(f"the file {name}", [first.files.get(name)], [second.files.get(name)])
    yield from _unlike("record.json", [_plain(first)], [_plain(second)])
    yield from _unlike("the outcome", [first.fault], [second.fault])
    for party in sorted({*first.recorder.observed, *second.recorder.observed}):
        yield from _of_process(first, second, party)


def _of_process(first: Played, second: Played, party: str) -> Iterator[str]:
    """Lines of logs at any level, of standard output, files and sleeps of a party that differ."""
    here, there = (each.recorder.observed.get(party, []) for each in (first, second))
    yield from _unlike(f"the log of {party}", here, there)


def _of_figures(first: Played, second: Played, party: str) -> Iterator[str]:
    """Figures for Prometheus that differ; an owner's own say no more than it told the curator."""
    yield from _unlike(f"figures of {party}", first.figures[party], second.figures[party])
    here, there = first.ledgers[party], second.ledgers[party]
    if here != there:
        yield from _unlike(f"figures of {party}: spent", spent(here), spent(there))


def _unlike(what: str, first: Sequence[object], second: Sequence[object]) -> Iterator[str]:
    """The first place at which two sequences differ."""
    if len(first) != len(second):
        yield f"{what}: {len(first)} and {len(second)}"
        return
    for number, (one, other) in enumerate(zip(first, second, strict=True)):
        if one != other:
            yield f"{what}: number {number + 1} differs"
            return


def _made(played: Played) -> set[Site]:
    """Mechanisms that gave something out; the first broadcast reads no row."""
    recorder = played.recorder
    drawn = {draw.site for draw in recorder.draws if draw.uses and (draw.site != BROADCAST or draw.number)}
    chosen = {choice.site for choice in recorder.choices if choice.site != BROADCAST or choice.number}
    return drawn | chosen


_LIMITED = {OWNERS: (OWNERS, CONSUMER), CURATOR: (CURATOR,), CONSUMER: (CONSUMER,)}
"""Observers in ledgers that the observer of a budget stands for; the consumer of a run goes by that name."""


def _over_budget(case: Case, played: Played) -> Iterator[Undeclared]:
    """Owners whose ledgers cost more than their policies allow."""
    for name in sorted(set(played.ledgers) - {CURATOR, CONSUMER}):
        policy = case.policies.get(name, case.policies.get("all"))
        for budget in () if policy is None else policy.budgets:
            for observer in _LIMITED[budget.observer]:
                about = [
                    line
                    for line in played.ledgers[name]
                    if line.observer == observer and line.protected in (OWNERS, name)
                ]
                rows_seen = observer == CONSUMER and budget.observer == OWNERS
                if rows_seen and infinite(line.event for line in about):
                    continue  # rows as they are: another setting limits them
                cost = Sound().epsilon(tuple(paid(about)), budget.delta).epsilon if about else 0.0
                if cost > budget.epsilon * _ROUNDING:
                    yield Undeclared(
                        "budget", name, observer, f"{cost:.4g} is spent and {budget.epsilon:.4g} allowed"
                    )


def _plain(played: Played) -> str:
    return json.dumps(played.facts, sort_keys=True, default=str)


def _size(parts: Sequence[bytes]) -> int:
    return sum(map(len, parts))
