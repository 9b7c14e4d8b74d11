"""Notes on open runs, folded from the events that the curator reports.

A curator that restarts repeats a run from its journal and reports the run's events again, so notes need no
storage.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from fedkme.protocols import PROTOCOLS
from fedkme.watch.state import News

Notes = Mapping[str, "RunNotes"]


@dataclass(frozen=True, slots=True)
class RunNotes:
    """Part of a run's state that only its process knows.

    Attributes:
        protocol: the protocol's name.
        began: when the run began, Unix seconds.
        done: rounds that are over.
        rounds: rounds in all; 0 where the number is not known.
        fraction: finished part of a release's work.
        stage: stage of a release's work, in words.
        progressed: when rounds, fraction or stage last changed, Unix seconds.
        plan: forecast of the run, in words.
        faults: number of the error and line of each owner that left, by name.
        reason: why the run ended as it did.
    """

    protocol: str = ""
    began: float | None = None
    done: int = 0
    rounds: int = 0
    fraction: float | None = None
    stage: str = ""
    progressed: float | None = None
    plan: str = ""
    faults: Mapping[str, tuple[int, str]] = field(default_factory=dict)
    reason: str = ""


def noted(notes: Notes, at: float, event: str, fields: Mapping[str, Any]) -> Notes:
    """Update the notes by an event that the curator reported at a time, Unix seconds."""
    run = fields.get("run", "")
    change = _CHANGES.get(event)
    if not run or change is None:
        return notes
    return {**notes, run: change(notes.get(run, RunNotes()), at, fields)}


def rounds_of(protocol: str, rows: int) -> int:
    """Number of rounds of a run for `rows` rows; 0 where the number is not known before the run."""
    row = PROTOCOLS.get(protocol)
    return 0 if row is None or row.family == "sums" else rows if row.family == "auction" else 1


def _began(notes: RunNotes, at: float, fields: Mapping[str, Any]) -> RunNotes:
    protocol = fields["protocol"]
    rounds = rounds_of(protocol, fields.get("p", 0))
    return replace(notes, protocol=protocol, began=at, rounds=rounds, done=0)


def _round(notes: RunNotes, at: float, fields: Mapping[str, Any]) -> RunNotes:
    return replace(notes, done=fields["record"]["round"], progressed=at)


def _progress(notes: RunNotes, at: float, fields: Mapping[str, Any]) -> RunNotes:
    words = f"{fields['stage']}: {fields['line']}"
    return replace(notes, stage=words, fraction=fields["fraction"], progressed=at)


def _planned(notes: RunNotes, at: float, fields: Mapping[str, Any]) -> RunNotes:
    return replace(notes, plan=fields["line"])


def _owner_left(notes: RunNotes, at: float, fields: Mapping[str, Any]) -> RunNotes:
    return replace(notes, faults={**notes.faults, fields["owner"]: (fields["code"], fields["line"])})


def _ended(notes: RunNotes, at: float, fields: Mapping[str, Any]) -> RunNotes:
    return replace(notes, reason=fields["reason"] or "", progressed=at)


_CHANGES: Mapping[str, Callable[[RunNotes, float, Mapping[str, Any]], RunNotes]] = {
    "run": _began,
    "round": _round,
    "progress": _progress,
    "planned": _planned,
    "owner_left": _owner_left,
    "ended": _ended,
}


def event_of(at: float, event: str, fields: Mapping[str, Any]) -> News | None:
    """Turn an event into news for the page; None for an event that is no news."""
    run, owner, line = (str(fields.get(name, "")) for name in ("run", "owner", "line"))
    match event:
        case "run":
            why = f"{fields['protocol']}, {fields['owners']} owners"
            return News(at, "owners are asked", run, why=why)
        case "queued":
            return News(at, f"accepted for {fields['consumer']}", run)
        case "ended":
            why = ": ".join(filter(None, (fields["status"], fields["reason"])))
            return News(at, "is over", run, why=why)
        case "owner_left":
            return News(at, "left the run", run, owner, line)
        case "owner_joined":
            return News(at, "connected", owner=owner)
        case "owner_gone":
            return News(at, "disconnected", owner=owner)
        case "warning" | "unwitnessed":
            return News(at, "a warning", why=line)
        case "refused" | "suspended":
            return News(at, "refused" if event == "refused" else "goes on later", why=fields["cause"])
    return None
