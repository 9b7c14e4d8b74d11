"""Judgement of a pair of runs: undeclared differences, and declarations that do not hold."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from audit.replay.cases import Case
from audit.replay.declared import VALIDATION, declared, disagreements, infinite
from audit.replay.figures import spent
from audit.replay.patches import BROADCAST
from audit.replay.play import Played
from audit.replay.promises import broken
from audit.replay.recorder import Exchanged, Visible, visible
from audit.replay.secrets import exposed, repeated
from audit.replay.strength import called, far, misuse, weak
from audit.replay.tracked import NoiseRequest, Site
from fedkme.privacy.accountants import Sound, paid
from fedkme.privacy.events import (
    CONSUMER,
    CURATOR,
    OWNERS,
    BoundedRange,
    Disclosure,
    Gaussian,
    MwemCall,
    MwemSchedule,
    PureDp,
    is_validation,
)
from fedkme.privacy.summary_disclosures import NOT_TOLD
from fedkme.wire.summaries import offer_to_messages, request_to_wire

What = Literal["bytes", "noise", "distance", "ledgers", "budget", "secrets", "nothing shown"]
_ROUNDING = 1.0 + 1e-6


@dataclass(frozen=True, slots=True)
class Undeclared:
    """Finding: something that no line of a ledger accounts for.

    Attributes:
        what: kind of the finding.
        protected: party whose rows are affected.
        observer: party that learns of the rows.
        line: the finding, in words without a private value.
    """

    what: What
    protected: str
    observer: str
    line: str


def of_one(case: Case, played: Played) -> list[Undeclared]:
    """Findings in a run: noise that contradicts lines, disagreeing ledgers, exceeded budgets."""
    findings = [
        Undeclared("ledgers", "anybody", "anybody", line) for line in disagreements(played, case.dies)
    ]
    findings += [Undeclared("bytes", "anybody", "anybody", line) for line in played.recorder.odd]
    findings += [
        Undeclared("noise", draw.site[0], "anybody", line)
        for draw in played.recorder.draws
        for line in misuse(draw, draw.site[0] in case.mortal)
    ]
    findings += [Undeclared("budget", "anybody", "anybody", line) for line in broken(case, played)]
    findings += [Undeclared("noise", "anybody", "anybody", line) for line in _repeated(case, played)]
    findings += [Undeclared("secrets", "anybody", "anybody", line) for line in exposed(played)]
    declared_sites: set[Site] = set()
    for protected in (*sorted(set(played.ledgers) - {CURATOR, CONSUMER}), VALIDATION):
        for observer in (OWNERS, CURATOR, CONSUMER):
            for site, lines in declared(played, protected, observer).items():
                declared_sites.add(site)
                findings += [
                    Undeclared("noise", protected, observer, f"{called(site)}: {line}")
                    for line in weak(case, played, site, lines)
                ]
    for site in sorted(_active_sites(played) - declared_sites):
        findings.append(Undeclared("ledgers", "anybody", "anybody", f"no line declares {called(site)}"))
    return [*dict.fromkeys(findings), *_over_budget(case, played)]


def of_pair(case: Case, first: Played, second: Played, protected: str, observer: str) -> list[Undeclared]:
    """Findings in two runs that differ in one row, with the disclosures to an observer frozen."""
    lines = declared(first, protected, observer)
    findings: list[tuple[What, str]] = [("bytes", line) for line in second.recorder.odd]
    findings += [("bytes", line) for line in _differences(case, first, second, protected, observer)]
    for site, about in lines.items():
        findings += [
            ("distance", f"{called(site)}: {line}") for line in far(case, first, second, site, about)
        ]
    return [Undeclared(what, protected, observer, line) for what, line in dict.fromkeys(findings)]


def of_death(case: Case, first: Played, undisturbed: Played) -> list[Undeclared]:
    """Findings in a summary whose curator died, compared with the same run without a death.

    A repeated sketch is another session, whose directives are counted from its beginning.
    """
    findings = [*_unlike("the outcome", [first.fault], [undisturbed.fault])]
    for party in sorted(first.ledgers):
        findings += _unlike(f"the ledger of {party}", first.ledgers[party], undisturbed.ledgers[party])
    for name in () if case.in_sketch else sorted(undisturbed.recorder.exchanged):
        died, usual = (run.recorder.exchanged[name] for run in (first, undisturbed))
        once = list(_once(died).values())
        for side in ("visible", "answered"):
            parts = ([getattr(entry, side) for entry in exchanged] for exchanged in (once, usual))
            findings += _unlike(f"{name}, {side}", *parts)
    return [Undeclared("bytes", "anybody", "anybody", f"{line} after a death") for line in findings]


def _once(exchanged: Iterable[Exchanged]) -> dict[Visible, Exchanged]:
    """Exchanges without repetitions of an earlier directive."""
    first: dict[Visible, Exchanged] = {}
    for entry in exchanged:
        first.setdefault(entry.visible, entry)
    return first


def of_noise(first: Played, other: Played) -> list[Undeclared]:
    """Findings in runs of equal rows and other noise: repeated noise, repeated nonces of lines."""
    numbers = [{draw.drawn: draw.site for draw in run.recorder.draws if draw.drawn} for run in (first, other)]
    findings = [
        Undeclared("noise", site[0], "anybody", f"{called(site)}: noise comes again")
        for site in {numbers[0][key] for key in numbers[0].keys() & numbers[1].keys()}
    ]
    findings += [Undeclared("secrets", "anybody", "anybody", line) for line in repeated(first, other)]
    for party in sorted(first.ledgers):
        nonces = [{line.nonce for line in run.ledgers[party] if _is_drawn(line)} for run in (first, other)]
        for nonce in sorted(nonces[0] & nonces[1]):
            line = f"the nonce {nonce.split()[0]!r} is that of another draw"
            findings.append(Undeclared("ledgers", party, "anybody", line))
    return findings


def _repeated(case: Case, played: Played) -> Iterator[str]:
    """Draws with the numbers of another draw; skips processes that die, whose seeded streams restart."""
    numbers: dict[bytes, NoiseRequest] = {}
    for draw in played.recorder.draws:
        if (
            draw.drawn
            and draw.site[0] not in case.mortal
            and numbers.setdefault(draw.drawn, draw) is not draw
        ):
            yield f"{called(draw.site)}: the numbers of draw {draw.number + 1} equal another draw's"


def _is_drawn(line: Disclosure) -> bool:
    """True if the line records a drawn value; a plan's lines and the last lines do not."""
    drawn = isinstance(line.event, Gaussian | BoundedRange | MwemCall | MwemSchedule | PureDp)
    return drawn and not line.nonce.startswith(("release", "sums", NOT_TOLD))


def _differences(case: Case, first: Played, second: Played, protected: str, observer: str) -> Iterator[str]:
    """Differences in an observer's view."""
    if observer == OWNERS:
        if is_validation(protected) and infinite(
            line.event for line in first.lines_about(CONSUMER, protected, OWNERS)
        ):
            return
        for name in sorted(set(first.ledgers) - {CURATOR, CONSUMER, protected}):
            one, other = (
                [e.visible for e in run.recorder.exchanged.get(name, [])] for run in (first, second)
            )
            yield from _unlike(f"directives to {name}", one, other)
            yield from _unlike(f"the ledger of {name}", first.ledgers[name], second.ledgers[name])
            refusals = (run.recorder.refused.get(name) or [] for run in (first, second))
            yield from _unlike(f"refusals of {name}", *refusals)
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
    """Differences in the consumer's request and offer."""
    if infinite(line.event for line in first.lines_about(CONSUMER, VALIDATION, CURATOR)):
        return
    yield from _of_records(first, second)
    sides = []
    for recorder in (first.recorder, second.recorder):
        request, offer = recorder.request, recorder.offer
        requests = [] if request is None else [request_to_wire(replace(request, request_id=bytes(16)))]
        sides.append(visible([*requests, *([] if offer is None else offer_to_messages(offer))]))
    yield from _unlike("the consumer's messages", *sides)
    yield from _of_figures(first, second, CURATOR)


def _of_owner(first: Played, second: Played, protected: str) -> Iterator[str]:
    """Differences in an owner's answers to the curator, up to the first answer without a finite cost.

    Logs and files of processes are compared whatever the lines say, except the curator's: the curator may see
    rows, and no line covers its logs.
    """
    for party in sorted({*first.recorder.observed, *second.recorder.observed} - {CURATOR}):
        yield from _of_process(first, second, party)
    ours, theirs = (run.recorder.exchanged.get(protected, []) for run in (first, second))
    for number, (one, other) in enumerate(zip(ours, theirs, strict=False)):
        about = [line for line in one.lines if (line.protected, line.observer) == (protected, CURATOR)]
        if infinite(line.event for line in about):
            return
        if one.answered != other.answered:
            yield (
                f"answer {number + 1} of {protected}, to {one.directive.question!r}, of "
                f"{_size(one.answered)} and {_size(other.answered)} bytes"
            )
    if len(ours) != len(theirs):
        yield f"{protected} is asked {len(ours)} and {len(theirs)} times"
    refused = (run.recorder.refused.get(protected) or [] for run in (first, second))
    yield from _unlike(f"refusals of {protected}", *refused)
    yield from _unlike(f"waits of {protected}", *([e.wait_s for e in entries] for entries in (ours, theirs)))
    yield from _of_records(first, second)
    for party in (CURATOR, protected):
        yield from _of_figures(first, second, party)


def _of_records(first: Played, second: Played) -> Iterator[str]:
    """Differences in records, files and processes' logs; an owner's log may tell no more than its answers."""
    for name in sorted({*first.files, *second.files}):
        yield from _unlike(f"the file {name}", [first.files.get(name)], [second.files.get(name)])
    yield from _unlike("record.json", [_plain(first)], [_plain(second)])
    yield from _unlike("the outcome", [first.fault], [second.fault])
    for party in sorted({*first.recorder.observed, *second.recorder.observed}):
        yield from _of_process(first, second, party)


def _of_process(first: Played, second: Played, party: str) -> Iterator[str]:
    """Differences in a party's logs of any level, standard output, files and sleeps."""
    yield from _unlike(
        f"the log of {party}", *(run.recorder.observed.get(party, []) for run in (first, second))
    )


def _of_figures(first: Played, second: Played, party: str) -> Iterator[str]:
    """Differences in figures for Prometheus; an owner's figures may tell no more than its answers."""
    yield from _unlike(f"figures of {party}", first.figures[party], second.figures[party])
    one, other = first.ledgers[party], second.ledgers[party]
    if one != other:
        yield from _unlike(f"figures of {party}: spent", spent(one), spent(other))


def _unlike(what: str, first: Sequence[object], second: Sequence[object]) -> Iterator[str]:
    """First place at which two sequences differ, in words."""
    if len(first) != len(second):
        yield f"{what}: {len(first)} and {len(second)}"
        return
    for number, (one, other) in enumerate(zip(first, second, strict=True)):
        if one != other:
            yield f"{what}: number {number + 1} differs"
            return


def _active_sites(played: Played) -> set[Site]:
    """Mechanisms that released something; the first broadcast reads no row."""
    recorder = played.recorder
    drawn = {draw.site for draw in recorder.draws if draw.uses and (draw.site != BROADCAST or draw.number)}
    chosen = {choice.site for choice in recorder.choices if choice.site != BROADCAST or choice.number}
    return drawn | chosen


_LIMITED = {OWNERS: (OWNERS, CONSUMER), CURATOR: (CURATOR,), CONSUMER: (CONSUMER,)}
"""Observers in ledgers for each observer of a budget."""


def _over_budget(case: Case, played: Played) -> Iterator[Undeclared]:
    """Findings on owners whose ledgers cost more than their policies allow."""
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
                    continue  # plain rows: another setting limits them
                cost = Sound().epsilon(tuple(paid(about)), budget.delta).epsilon if about else 0.0
                if cost > budget.epsilon * _ROUNDING:
                    yield Undeclared(
                        "budget", name, observer, f"{cost:.4g} is spent and {budget.epsilon:.4g} allowed"
                    )


def _plain(played: Played) -> str:
    return json.dumps(played.facts, sort_keys=True, default=str)


def _size(parts: Sequence[bytes]) -> int:
    return sum(map(len, parts))
