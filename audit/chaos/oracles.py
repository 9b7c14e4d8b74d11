"""Oracles: conditions that hold at the end of every schedule."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterator, Sequence

from audit.chaos.faults import GENTLE, InjectedFault
from audit.chaos.simulation import PlayedSchedule, quiet
from audit.chaos.worlds import SimulatedWorld, menu
from fedkme.privacy.ledger import disclosures_in

_OVER = ("complete", "stopped", "cancelled", "failed")
_REFUSED = ("failed", "stopped")
"""Statuses of a run that all owners refuse: where they are here before its D_v pays, and where not."""
_DISTRUSTED = ("lie", "restore", "flip")
_DISKS = ("full", "doubt", "file")
_LETTING_GO = ("full", "doubt", "kill", "stop")
"""Faults after which a party has lost what was in its memory alone, or what it was about to write."""


def judge(outcome: PlayedSchedule, undisturbed: PlayedSchedule | None = None) -> list[str]:
    """Find what must not be, a line each, the oracle's name first; empty where all is well.

    Args:
        outcome: to be judged.
        undisturbed: the same world where nothing fails; None: as it is simulated.
    """
    world = menu()[outcome.schedule.world]
    undisturbed = undisturbed or quiet(outcome.schedule.world)
    found = list(outcome.faults)
    if any(line.startswith("stuck") for line in found):
        return found
    found += _ended(outcome, undisturbed, world)
    found += _reconciled(outcome, world)
    found += _once(outcome, undisturbed, world)
    found += _refused(outcome, world)
    gentle = all(_leaves_bits(fault, world) for fault in outcome.happened)
    if world.repeatable and gentle and not _refused_later(outcome, undisturbed):
        found += _same(outcome, undisturbed)
    return found


def _leaves_bits(fault: InjectedFault, world: SimulatedWorld) -> bool:
    """Check whether a fault must not change anything.

    An owner that cannot write leaves the run, and so does one whose process had keys of rows or of a sum.
    """
    keys = world.sealed or world.secure
    leaving = _LETTING_GO if keys else _LETTING_GO[:2]
    return fault.kind in GENTLE and not (fault.kind in leaving and fault.party in world.owners)


def _refused_later(outcome: PlayedSchedule, undisturbed: PlayedSchedule) -> bool:
    """Check whether owners that refuse a run were here before its D_v paid in one of two schedules alone."""
    before = undisturbed.statuses
    return any({now, before.get(run)} == {*_REFUSED} for run, now in outcome.statuses.items())


def _distrusted(outcome: PlayedSchedule) -> set[str]:
    """Parties that lied, or whose store is not what they wrote."""
    return {fault.party for fault in outcome.happened if fault.kind in _DISTRUSTED}


def _ended(outcome: PlayedSchedule, undisturbed: PlayedSchedule, world: SimulatedWorld) -> Iterator[str]:
    """Check that every consumer has something, and no run is left open; who is honest and alive finishes.

    A run that all owners refuse fails, or stops, where nothing is disturbed; where they refuse all runs, so
    does another one, of a consumer that was stopped before it heard of the first.
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
                yield f"finish: {run} failed, although {', '.join(sorted(harsh)) or 'nobody'} alone was bad"


def _waits(outcome: PlayedSchedule, world: SimulatedWorld) -> bool:
    """Check whether a run may wait for the curator's next start: its disk failed, and who asks is gone."""
    failed = {fault.kind for fault in outcome.happened if fault.party == "curator"} & {*_DISKS}
    return bool(failed and _distrusted(outcome) & set(world.consumers))


def _calm(outcome: PlayedSchedule, world: SimulatedWorld) -> bool:
    """Check that nobody left a secure sum: no owner, and no curator in whose memory it was."""
    curator = {fault.kind for fault in outcome.happened if fault.party == "curator"}
    return all(_leaves_bits(fault, world) for fault in outcome.happened) and not curator & set(_LETTING_GO)


def _reconciled(outcome: PlayedSchedule, world: SimulatedWorld) -> Iterator[str]:
    """Check that both sides of each exchange wrote the same.

    Of an owner whose disk kept what it had refused the record says no more than that it left, so that `audit
    verify` names what never came: its own lines alone, and none of sums, which the curator charges. Where a
    run waits for the curator's next start, its lines do; exports of ledgers do not say that it is open.
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
    """Check whether a line of `audit verify` is about a vector, or what its run costs."""
    return "(sums " in line or "(release " in line


def _once(outcome: PlayedSchedule, undisturbed: PlayedSchedule, world: SimulatedWorld) -> Iterator[str]:
    """Find what is charged twice: a line that stands more often than where nothing failed.

    Where an owner leaves, others may be asked the same again, of which some lines say it in the same words:
    once for each that leaves. A run of which a curator whose store was put back knew nothing, and its owners
    did, is refused once D_v has paid; who is stopped then asks anew.
    """
    left = {each.party for each in outcome.happened if not _leaves_bits(each, world)} & set(world.owners)
    for party, lines in outcome.ledgers.items():
        if party in _distrusted(outcome) or lines == undisturbed.ledgers[party]:
            continue
        most = max(Counter(disclosures_in(undisturbed.ledgers[party])).values(), default=1)
        for about, count in Counter(disclosures_in(lines)).items():
            if count > most * (1 + (len(left) if about.nonce == "counts" else 0)):
                yield f"once: {party} wrote {count} times: {about}"
        if party.startswith("consumer"):
            usual, lost = _paid(undisturbed.ledgers[party]), set[str]()
            if "curator" in _distrusted(outcome):
                lost = {run for run, status in outcome.statuses.items() if status in _REFUSED}
            for what, count in _paid(lines, lost).items():
                if count > max(1, usual[what]):  # noise decides whether there is a second pick
                    yield f"once: {party} paid {count} times: {' for '.join(what)}"


def _paid(lines: Sequence[str], without: Collection[str] = ()) -> Counter[tuple[str, str]]:
    """Count draws of D_v by what they were for, whichever request they were of, and who sees them."""
    draws = [about for about in disclosures_in(lines) if about.run not in without]
    return Counter((about.nonce.rpartition(" ")[0], about.observer) for about in draws)


def _refused(outcome: PlayedSchedule, world: SimulatedWorld) -> Iterator[str]:
    """Check that budgets hold: an owner whose budget is too small lets nothing out, whatever happens."""
    for party in set(world.case.policies) & set(world.owners) - _distrusted(outcome):
        about = [each for each in disclosures_in(outcome.ledgers[party]) if each.protected == party]
        if about and not quiet(outcome.schedule.world).ledgers[party]:
            yield f"refused: {party} disclosed {about[0]}"


def _same(outcome: PlayedSchedule, undisturbed: PlayedSchedule) -> Iterator[str]:
    """Compare results, records and ledgers with those of the quiet run.

    A result that is an error may name another run: a refusal that nobody heard is asked for again.
    """
    for what in ("results", "records", "ledgers"):
        mine, theirs = getattr(outcome, what), getattr(undisturbed, what)
        for name in sorted({*mine, *theirs}):
            one, other = str(mine.get(name)), str(theirs.get(name))
            if what == "results":
                one, other = (re.sub(r"\brun-\d+\b", "", text) for text in (one, other))
            if one != other:
                yield f"same: {what} of {name} differ: {_difference(mine.get(name), theirs.get(name))}"


def _difference(one: object, other: object) -> str:
    """Find where two things differ first."""
    if isinstance(one, list) and isinstance(other, list):
        pairs = ((a, b) for a, b in zip(one, other, strict=False) if a != b)
        first = next(pairs, (f"{len(one)} lines", f"{len(other)} lines"))
        return f"{first[0]!s:.300} | {first[1]!s:.300}"
    return f"{one!s:.300} | {other!s:.300}"
