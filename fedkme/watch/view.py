"""View of a curator's runs in words and numbers, the same for page, terminal and JSON.

A view consists of plain values for JSON. Times are Unix seconds, so that a page can count on from them.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from itertools import groupby
from typing import Any, TypeAlias, get_args

from fedkme.privacy.events import CURATOR, OWNERS, is_validation
from fedkme.watch.state import Learned, OwnerState, OwnerStatus, RunState, Viewer, Watched, seen_by

View: TypeAlias = dict[str, Any]

MOST_LANES = 40
"""Owners with a lane of their own; the rest, with the least to report, are counted."""
MOST_POINTS = 80
"""Points of a curve."""
_STATES: Mapping[OwnerState, str] = {
    "approval": "has not approved it",
    "asked": "asked",
    "absent": "not connected",
    "lost": "lost",
    "refused": "refused",
    "here": "connected",
    "answered": "answered",
    "done": "took part",
}
_STATUSES = {
    "asked": "in preparation",
    "queued": "in the queue",
    "running": "under way",
    "over": "over",
    "complete": "complete",
    "stopped": "stopped early",
    "cancelled": "cancelled",
    "failed": "failed",
}
_ORDER = {state: place for place, state in enumerate(get_args(OwnerState))}
EXACT, NOTHING = "without a bound", "nothing"


def view_of(watched: Watched, viewer: Viewer) -> View:
    """Show a viewer its part of a state."""
    seen = seen_by(watched, viewer)
    return {
        "curator": seen.curator,
        "as": {"role": viewer.role, "name": viewer.name},
        "at": seen.at,
        "note": seen.note,
        "over": seen.over,
        "viewers": [*_viewers(seen)] if viewer.role == "curator" else [],
        "runs": [_run(run, viewer) for run in seen.runs],
        "learned": [*_matrix(seen.learned)],
        "budget": _budget(seen),
        "events": [asdict(event) for event in seen.events],
    }


def waiting(run: RunState, viewer: Viewer) -> str:
    """Sentence about the party that a run waits for, with the reason; empty if it waits for no party."""
    lanes = [lane for lane in run.lanes if run.waits_for(lane)]
    if run.status == "asked" and not lanes and not run.stage:
        if viewer.role == "owner":
            return ""  # the run waits for the consumer, or for another owner
        return f"Waiting for {run.consumer}: it has the plan, and offers what it tells of its rows next."
    if run.status == "queued":
        return "Waiting for its turn: other runs are under way."
    if not lanes:
        return f"{run.stage[:1].upper()}{run.stage[1:]}." if run.open and run.stage else ""
    if viewer.role == "owner":
        return f"Waiting for you{_awaited(lanes[0])}."
    lanes.sort(key=lambda lane: _ORDER[lane.state])
    alike = [lane for lane in lanes if _state(lane) == _state(lanes[0])]
    return f"Waiting for {_names([lane.owner for lane in alike])}{_awaited(lanes[0])}."


def left_s(run: RunState) -> float | None:
    """Estimated seconds left at the last progress of the run, at its average speed; None if unknown."""
    share = run.share
    if not run.open or not share or share >= 1 or run.began is None or run.progressed is None:
        return None
    return (run.progressed - run.began) * (1 - share) / share


def _viewers(watched: Watched) -> Iterator[str]:
    owners = sorted({lane.owner for run in watched.runs for lane in run.lanes})
    yield from ("curator", *(f"owner:{name}" for name in owners))
    yield from (f"consumer:{name}" for name in sorted({run.consumer for run in watched.runs}))


def _run(run: RunState, viewer: Viewer) -> View:
    lanes = sorted(run.lanes, key=lambda lane: (_ORDER[lane.state], lane.owner))
    rest = lanes[MOST_LANES:]
    remaining = left_s(run)
    whose = viewer.role == "owner" and run.lanes
    return asdict(replace(run, lanes=())) | {
        "words": _STATUSES.get(run.status, run.status),
        "open": run.open,
        "share": run.share,
        "ends": None if remaining is None or run.progressed is None else run.progressed + remaining,
        "waiting": waiting(run, viewer),
        "rows": run.lanes[0].seen if whose else run.rows,
        "came": _thinned(run.came),
        "mmd2": _thinned(run.mmd2),
        "lanes": [asdict(lane) | {"words": _STATES[lane.state]} for lane in lanes[:MOST_LANES]],
        "rest": f"{len(rest):,} more: {_counted(rest)}" if rest else "",
    }


def _state(lane: OwnerStatus) -> str:
    """State of an owner in words, with its cause."""
    join = " " if lane.state == "asked" else ": "
    return f"{_STATES[lane.state]}{join}{lane.why}" if lane.why else _STATES[lane.state]


def _awaited(lane: OwnerStatus) -> str:
    """End of "waiting for an owner": what it is to do, or its state."""
    if lane.state == "approval":
        return f" to approve it: {lane.why}" if lane.why else " to approve it"
    return f": {_state(lane)}"


def _names(names: Sequence[str]) -> str:
    if len(names) <= 3:
        return " and ".join(filter(None, (", ".join(names[:-1]), names[-1])))
    return f"{', '.join(names[:2])} and {len(names) - 2} more owners"


def _counted(lanes: Iterable[OwnerStatus]) -> str:
    groups = groupby(lanes, key=lambda lane: lane.state)  # lanes are sorted by state
    return ", ".join(f"{len(list(group)):,} {_STATES[state]}" for state, group in groups)


def _thinned(points: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    """Thin a curve to at most MOST_POINTS points and its last point."""
    step = math.ceil(len(points) / MOST_POINTS)
    return [*points[: -1 : max(step, 1)], *points[-1:]]


def _matrix(learned: Iterable[Learned]) -> Iterator[View]:
    """The matrix, with one line for all data sets of which every observer learned the same."""
    about: dict[str, list[Learned]] = {}
    for cell in learned:
        about.setdefault(cell.protected, []).append(cell)
    groups: dict[tuple[object, ...], list[str]] = {}
    for protected, cells in about.items():
        alike = tuple((cell.observer, cell.epsilon, cell.reason, bool(cell.rows)) for cell in cells)
        groups.setdefault((is_validation(protected), *alike), []).append(protected)
    for names in groups.values():
        cells = [cell for name in names for cell in about[name]]
        yield {"rows_of": _names([_whose(name) for name in names]), "cells": [*_cells(cells)]}


def _cells(cells: Sequence[Learned]) -> Iterator[View]:
    for observer in dict.fromkeys(cell.observer for cell in cells):
        group = [cell for cell in cells if cell.observer == observer]
        rows, first = sum(cell.rows for cell in group), group[0]
        finite = math.isfinite(first.epsilon)
        yield {
            "observer": _who(observer, first.protected),
            "kind": _kind(rows, first.epsilon),
            "epsilon": first.epsilon if finite else None,
            "delta": first.delta,
            "rows": rows,
            "words": _words(rows, first),
            "why": "" if finite else first.reason,
        }


def _kind(rows: int, epsilon: float) -> str:
    """Class of a cell, for its colour."""
    if rows:
        return "rows"
    if not math.isfinite(epsilon):
        return "exact"
    return "noisy" if epsilon else "nothing"


def _words(rows: int, cell: Learned) -> str:
    seen = f"{rows:,} rows as they are" if rows > 1 else "1 row as it is" if rows else ""
    if not math.isfinite(cell.epsilon):
        others = (part for part in cell.reason.split("; ") if part != "rows are seen as they are")
        exact = "; ".join(others).replace("released without noise: ", "exact ")
        return "; ".join(filter(None, (seen, exact))) or EXACT
    noise = f"ε = {cell.epsilon:.3g} at δ = {cell.delta:g}" if cell.epsilon else "" if seen else NOTHING
    return "; ".join(filter(None, (seen, noise)))


def _whose(protected: str) -> str:
    return "each owner" if protected == OWNERS else protected


def _who(observer: str, protected: str) -> str:
    if observer == CURATOR:
        return "the curator"
    if observer == OWNERS:
        return "owners" if is_validation(protected) else "other owners"
    return observer


def _budget(watched: Watched) -> View | None:
    budget = watched.budget
    if budget is None:
        return None
    spent = budget.spent[-1][1] if budget.spent else 0.0
    begun = min((run.opened for run in watched.runs), default=watched.at)
    points = [(begun, 0.0), *(point for point in budget.spent if point[0] >= begun)]
    remaining = [(at, max(0.0, budget.most - epsilon)) for at, epsilon in points if math.isfinite(epsilon)]
    finite = math.isfinite(spent)
    return {
        "most": budget.most,
        "delta": budget.delta,
        "spent": spent if finite else None,
        "left": max(0.0, budget.most - spent) if finite else 0.0,
        "curve": _thinned(remaining),
    }
