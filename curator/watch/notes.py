"""Notes on open runs, folded from the events that the curator reports.

A curator that restarts repeats a run from its journal and reports the run's events again, so notes need no
storage.
"""

from __future__ import annotations

from collections.abc import Mapping
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
    before = notes.get(run, RunNotes())
    match event:
        case "run":
            rounds = rounds_of(fields["protocol"], fields.get("p", 0))
            after = replace(before, protocol=fields["protocol"], began=at, rounds=rounds, done=0)
        case "round":
            after = replace(before, done=fields["record"]["round"], progressed=at)
        case "progress":
            words = f"{fields['stage']}: {fields['line']}"
            after = replace(before, stage=words, fraction=fields["fraction"], progressed=at)
        case "planned":
            after = replace(before, plan=fields["line"])
        case "owner_left":
            faults = {**before.faults, fields["owner"]: (fields["code"], fields["line"])}
            after = replace(before, faults=faults)
        case "ended":
            after = replace(before, reason=fields["reason"] or "", progressed=at)
        case _:
            return notes
    return {**notes, run: after} if run else notes


def rounds_of(protocol: str, rows: int) -> int:
    """Number of rounds of a run for `rows` rows; 0 where the number is not known before the run."""
    row = PROTOCOLS.get(protocol)
    return 0 if row is None or row.family == "sums" else rows if row.family == "auction" else 1


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
