"""Oracles: conditions that hold at the end of every schedule."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any

from audit.chaos.faults import GENTLE, InjectedFault
from audit.chaos.simulation import PlayedSchedule, quiet
from audit.chaos.worlds import SimulatedWorld, menu
from fedkme.errors import BudgetError, PolicyError
from fedkme.privacy.ledger import disclosures_in

_OVER = ("complete", "stopped", "cancelled", "failed")
_REFUSED = ("failed", "stopped")
"""Statuses of a run that all owners refuse: before its D_v pays, and afterwards."""
_REFUSALS = (BudgetError.code, PolicyError.code)
"""Errors with which an owner stays out of a run by its own will."""
_DISTRUSTED = ("lie", "restore", "flip")
_DISKS = ("full", "doubt", "file")
_LETTING_GO = ("full", "doubt", "beside", "kill", "stop")
"""Faults after which a party has lost its memory, or a write."""


def judge(outcome: PlayedSchedule, undisturbed: PlayedSchedule | None = None) -> list[str]:
    """Find the violated oracles of an outcome, a line each with the oracle's name first.

    Args:
        outcome: the outcome to judge.
        undisturbed: outcome of the same world without faults; None: simulate it.
    """
    world = menu()[outcome.schedule.world]
    undisturbed = undisturbed or quiet(outcome.schedule.world)
    violations = list(outcome.faults)
    if any(line.startswith("stuck") for line in violations):
        return violations
    violations += _ended(outcome, undisturbed, world)
    violations += _reconciled(outcome, world)
    violations += _once(outcome, undisturbed, world)
    violations += _refused(outcome, world)
    violations += _again(outcome)
    violations += _charged(outcome)
    violations += _named(outcome, undisturbed, world)
    gentle = all(_leaves_bits(fault, world) for fault in outcome.happened)
    if (
        world.repeatable
        and not outcome.schedule.fresh
        and gentle
        and not _refused_later(outcome, undisturbed)
    ):
        violations += _same(outcome, undisturbed)
    return violations


def _leaves_bits(fault: InjectedFault, world: SimulatedWorld) -> bool:
    """Check whether a fault must leave every result as it was.

    An owner that cannot write leaves the run, and so does an owner whose process loses keys of rows or of a
    sum.
    """
    keys = world.sealed or world.secure
    leaving = _LETTING_GO if keys else _LETTING_GO[:3]
    return fault.kind in GENTLE and not (fault.kind in leaving and fault.party in world.owners)


def _refused_later(outcome: PlayedSchedule, undisturbed: PlayedSchedule) -> bool:
    """Check whether owners refused a run before D_v paid in only one of two outcomes."""
    before = undisturbed.statuses
    return any({now, before.get(run)} == {*_REFUSED} for run, now in outcome.statuses.items())


def _distrusted(outcome: PlayedSchedule) -> set[str]:
    """Parties that lied, or whose store was changed behind their back."""
    return {fault.party for fault in outcome.happened if fault.kind in _DISTRUSTED}


def _ended(outcome: PlayedSchedule, undisturbed: PlayedSchedule, world: SimulatedWorld) -> Iterator[str]:
    """Check that every consumer has a result or an error, no run stays open, and honest runs finish.

    A run that all owners refuse fails or stops even without faults. If owners refuse all runs, so does a
    second run of a consumer that was stopped before it heard of the first.
    """
    for name in world.consumers if "curator" not in _distrusted(outcome) else ():
        if name not in outcome.results and name not in _distrusted(outcome):
            yield f"ended: {name} has neither a result nor an error"
    for run, status in outcome.statuses.items() if not _waits(outcome, world) else ():
        if status not in (*_OVER, "asked") and "curator" not in _distrusted(outcome):
            yield f"ended: {run} is {status}"
    harsh = {fault.party for fault in outcome.happened if fault.kind not in GENTLE}
    leaving = {fault.party for fault in outcome.happened if not _leaves_bits(fault, world)}
    enough = _calm(outcome, world) if world.secure else len(world.owners) > len(leaving) + 1
    usual = undisturbed.statuses
    if harsh <= set(world.owners) and enough and not set(usual.values()) <= {*_REFUSED}:
        for run, status in outcome.statuses.items():
            if status == "failed" and usual.get(run) not in _REFUSED:
                faulty = ", ".join(sorted(harsh)) or "nobody"
                yield f"finish: {run} failed, although {faulty} alone had faults"


def _waits(outcome: PlayedSchedule, world: SimulatedWorld) -> bool:
    """Check whether a run may wait for the curator's next start: a disk failed, and the consumer is gone."""
    return bool(_of_curator(outcome) & {*_DISKS} and _distrusted(outcome) & set(world.consumers))


def _calm(outcome: PlayedSchedule, world: SimulatedWorld) -> bool:
    """Check that no owner left a secure sum, and no curator lost it from memory."""
    in_memory = not _of_curator(outcome) & {*_LETTING_GO}
    return all(_leaves_bits(fault, world) for fault in outcome.happened) and in_memory


def _reconciled(outcome: PlayedSchedule, world: SimulatedWorld) -> Iterator[str]:
    """Check that both sides of each exchange wrote the same lines.

    The record of an owner whose disk kept a refused write says only that the owner left. For such an owner
    `audit verify` may name lines that never came: the owner's own lines, but no line of sums, which the
    curator charges. If a run waits for the curator's next start, so do its lines; exported ledgers do not
    mark the run as open.
    """
    bad = _distrusted(outcome)
    waiting = [run for run, now in outcome.statuses.items() if now not in _OVER and _waits(outcome, world)]
    unclear = {fault.party for fault in outcome.happened if fault.kind == "doubt"} & set(world.owners)
    for party, fault in outcome.unreconciled:
        lines = [part.partition(" is not in ")[0] for part in fault.split("; ")]
        unsent = all(f"{party}.jsonl, line" in line and not _of_sums(line) for line in lines)
        later = all(any(f" in {run}," in line for run in waiting) for line in lines)
        if party not in bad and "curator" not in bad and not (party in unclear and unsent) and not later:
            yield f"reconciled: {party}: {fault}"


def _of_sums(line: str) -> bool:
    """Check whether a line of `audit verify` is about a vector or a release's cost."""
    return "(sums " in line or "(release " in line


def _once(outcome: PlayedSchedule, undisturbed: PlayedSchedule, world: SimulatedWorld) -> Iterator[str]:
    """Find double charges: lines that occur more often than in the undisturbed outcome.

    If an owner leaves, other owners may be asked the same again, and some of their lines repeat: once for
    each owner that leaves. If a curator's restored store lacks a run that its owners know, or an owner lies
    about its rows, the run is refused after D_v has paid; its consumer, once stopped, asks anew.
    """
    leavers = {fault.party for fault in outcome.happened if not _leaves_bits(fault, world)}
    leavers &= set(world.owners)
    for party, lines in outcome.ledgers.items():
        if party in _distrusted(outcome) or lines == undisturbed.ledgers[party]:
            continue
        most = max(Counter(disclosures_in(undisturbed.ledgers[party])).values(), default=1)
        for about, count in Counter(disclosures_in(lines)).items():
            if count > most * (1 + (len(leavers) if about.nonce == "counts" else 0)):
                yield f"once: {party} wrote {count} times: {about}"
        if party.startswith("consumer"):
            usual, lost = _paid(undisturbed.ledgers[party]), set[str]()
            if _distrusted(outcome):
                lost = {run for run, status in outcome.statuses.items() if status in (*_REFUSED, "asked")}
            for what, count in _paid(lines, lost).items():
                if count > max(1, usual[what]):  # noise decides whether there is a second pick
                    yield f"once: {party} paid {count} times: {' for '.join(what)}"


def _again(outcome: PlayedSchedule) -> Iterator[str]:
    """Check that a party answers a question that comes again as before: other noise would be drawn twice."""
    for party, line in outcome.redrawn:
        if party not in _distrusted(outcome):
            yield f"again: {party}: {line}"


def _charged(outcome: PlayedSchedule) -> Iterator[str]:
    """Check that no vector left an owner before its charge was on the curator's disk."""
    for party, line in outcome.uncharged if "curator" not in _distrusted(outcome) else ():
        yield f"charged: {party}: {line}"


def _paid(lines: Sequence[str], without: Collection[str] = ()) -> Counter[tuple[str, str]]:
    """Count draws of D_v by purpose and observer, over all requests."""
    draws = [about for about in disclosures_in(lines) if about.run not in without]
    return Counter((about.nonce.rpartition(" ")[0], about.observer) for about in draws)


def _refused(outcome: PlayedSchedule, world: SimulatedWorld) -> Iterator[str]:
    """Check that budgets hold: an owner with too small a budget discloses nothing, whatever happens."""
    for party in set(world.case.policies) & set(world.owners) - _distrusted(outcome):
        about = [line for line in disclosures_in(outcome.ledgers[party]) if line.protected == party]
        if about and not quiet(outcome.schedule.world).ledgers[party]:
            yield f"refused: {party} disclosed {about[0]}"


def _same(outcome: PlayedSchedule, undisturbed: PlayedSchedule) -> Iterator[str]:
    """Compare results, records and ledgers with those of the quiet run.

    A result that is an error may name another run: a consumer asks again after an unheard refusal. A curator
    that is told to stop charges the vectors of a question that came, and its next life the others, so the
    lines of one round of a run have no order.
    """
    for what in ("results", "records", "ledgers"):
        mine, theirs = getattr(outcome, what), getattr(undisturbed, what)
        if what == "ledgers":
            mine, theirs = _by_rounds(mine), _by_rounds(theirs)
        for name in sorted({*mine, *theirs}):
            one, other = str(mine.get(name)), str(theirs.get(name))
            if what == "results":
                one, other = (re.sub(r"\brun-\d+\b", "", text) for text in (one, other))
            if one != other:
                yield f"same: {what} of {name} differ: {_difference(mine.get(name), theirs.get(name))}"


def _by_rounds(ledgers: Mapping[str, Sequence[str]]) -> dict[str, list[str]]:
    """Disclosures by party, as text, in the order of the ledger; those of one round in a row are sorted."""
    rounds = {
        name: groupby(disclosures_in(lines), lambda about: (about.run, about.round))
        for name, lines in ledgers.items()
    }
    return {name: [text for _, some in of for text in sorted(map(repr, some))] for name, of in rounds.items()}


def _named(outcome: PlayedSchedule, undisturbed: PlayedSchedule, world: SimulatedWorld) -> Iterator[str]:
    """Check that a result of other owners' rows has a record that names who was lost, and why.

    Who is named as lost refused, or had a fault, where all others are honest. A curator that asks for a
    secure sum again, as it died or its disk failed, is refused by all: no aggregation is done twice.
    """
    leaving = {fault.party for fault in outcome.happened if not _leaves_bits(fault, world)}
    records = [_facts(record) for record in outcome.records.values()]
    lost = {record["consumer"]: _lost(record) for record in records}
    usual = {owner for lines in undisturbed.records.values() for owner in _lost(_facts(lines))}
    honest = {*world.owners} >= {fault.party for fault in outcome.happened if fault.kind not in GENTLE}
    if honest and not (world.secure and _of_curator(outcome) & {*_LETTING_GO, *_DISKS}):
        for owner, fault in (one for owners in lost.values() for one in owners.items()):
            if owner not in leaving | usual and fault["code"] not in _REFUSALS:
                yield f"named: {owner} was lost, and had no fault: {fault['line']}"
    if not world.repeatable or outcome.schedule.fresh or _distrusted(outcome):
        return
    for name in world.consumers:
        mine, theirs = outcome.results.get(name), undisturbed.results.get(name)
        if mine != theirs and not _is_error(mine) and not lost.get(name):
            yield f"named: {name} has another result, and nobody is named as lost"


def _of_curator(outcome: PlayedSchedule) -> set[str]:
    """Kinds of the curator's faults."""
    return {fault.kind for fault in outcome.happened if fault.party == "curator"}


def _facts(record: Sequence[str]) -> dict[str, Any]:
    return {key: json.loads(value) for key, _, value in (line.partition(": ") for line in record)}


def _lost(record: Mapping[str, Any]) -> dict[str, Any]:
    """Owners that a record names as lost, each with its fault."""
    faults = [*record["faults"], *record.get("faults_of_cells", ())]
    return {fault["owner"]: fault for fault in faults if fault["code"] and fault["line"]}


def _is_error(result: object) -> bool:
    return isinstance(result, tuple) and isinstance(result[0], int)


def _difference(one: object, other: object) -> str:
    """First difference of two results, in words."""
    if isinstance(one, list) and isinstance(other, list):
        pairs = ((a, b) for a, b in zip(one, other, strict=False) if a != b)
        first = next(pairs, (f"{len(one)} lines", f"{len(other)} lines"))
        return f"{first[0]!s:.300} | {first[1]!s:.300}"
    return f"{one!s:.300} | {other!s:.300}"
