"""State of a curator's runs as a value, and the part of the state that each role may see.

`Watched` holds no row, bid, gain or name of a row for any viewer. `seen_by` builds the views of owners and
consumers from an empty value, so a new field is visible to the curator alone until `seen_by` names it
(docs/decisions/020).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, Literal, TypeAlias

from pydantic import ConfigDict, TypeAdapter

from fedkme.privacy.events import CURATOR, OWNERS, validation_of

Role: TypeAlias = Literal["curator", "owner", "consumer"]
OwnerState: TypeAlias = Literal["approval", "asked", "absent", "lost", "refused", "here", "answered", "done"]
OPEN = ("asked", "queued", "running")
"""Statuses of runs that are not over."""
WAITS: tuple[OwnerState, ...] = ("asked", "absent")
"""States of owners that a run may be waiting for; see `OwnerStatus.awaited`, too."""


_JSON = ConfigDict(ser_json_inf_nan="strings")


@dataclass(frozen=True, slots=True)
class Viewer:
    """Party that views the page, by role and name; the curator's name is empty."""

    role: Role = "curator"
    name: str = ""


@dataclass(frozen=True, slots=True)
class OwnerStatus:
    """An owner in a run.

    Attributes:
        owner: name of the owner.
        state: state of the owner in the run.
        why: cause or question, in words; empty if the state needs none.
        since: time of the question that the owner has not answered yet, Unix seconds.
        due: time at which the run continues without the owner's answer, Unix seconds.
        rows: number of the owner's rows, public; None before the owner reported it.
        seen: number of the owner's rows that the curator received.
    """

    owner: str
    state: OwnerState
    why: str = ""
    since: float | None = None
    due: float | None = None
    rows: int | None = None
    seen: int = 0

    @property
    def awaited(self) -> bool:
        """True if a running run waits for the owner; an owner that approves too late has left the run."""
        return self.state in WAITS or (self.state == "approval" and self.due is not None)


@dataclass(frozen=True, slots=True)
class RunState:
    """A run.

    Attributes:
        run: name of the run.
        consumer: name of the consumer that asked for the run.
        kind: kind of the result: `summary`, or a kind of release.
        status: status as in `fedkme curator runs`.
        opened: time of the request, Unix seconds.
        began: time at which owners were first asked, Unix seconds.
        ended: time of the end, Unix seconds.
        protocol: name of the protocol; empty before it is known.
        wanted: size of the summary, rows.
        done: number of finished rounds.
        rounds: number of all rounds; 0 if unknown.
        fraction: finished part of the run, if rounds do not measure it; else None.
        stage: current work on a release, in words.
        progressed: time at which `done` or `fraction` last changed, Unix seconds.
        plan: expectation of the plan, in words.
        planned: rows of owners that the plan expects; 0 if the plan gives no number.
        came: (Unix seconds, rows received from all owners until then), by time.
        reason: reason for the run's end.
        mmd2: (round, MMD^2 to D_v), in simulations alone.
        lanes: owners of the run.
    """

    run: str
    consumer: str
    kind: str
    status: str
    opened: float
    began: float | None = None
    ended: float | None = None
    protocol: str = ""
    wanted: int = 0
    done: int = 0
    rounds: int = 0
    fraction: float | None = None
    stage: str = ""
    progressed: float | None = None
    plan: str = ""
    planned: int = 0
    came: tuple[tuple[float, int], ...] = ()
    reason: str = ""
    mmd2: tuple[tuple[int, float], ...] = ()
    lanes: tuple[OwnerStatus, ...] = ()

    @property
    def open(self) -> bool:
        """Check whether the run is not over yet."""
        return self.status in OPEN

    @property
    def rows(self) -> int:
        """Number of rows received from all owners."""
        return self.came[-1][1] if self.came else 0

    @property
    def share(self) -> float | None:
        """Finished part of the run, 0 to 1; None if unknown."""
        if self.status == "complete":
            return 1.0
        if self.fraction is not None:
            return self.fraction
        return self.done / self.rounds if self.rounds > 1 else None

    def waits_for(self, lane: OwnerStatus) -> bool:
        """Check whether the run waits for an owner; before the run begins, only asked owners count."""
        return self.open and lane.awaited and (self.status == "running" or lane.state != "absent")

    def lane(self, owner: str) -> OwnerStatus | None:
        """Status of an owner; None if the owner is not in the run."""
        return next((lane for lane in self.lanes if lane.owner == owner), None)


@dataclass(frozen=True, slots=True)
class Learned:
    """Cell of the privacy matrix: cost of a data set towards an observer, by the sound accountant.

    Attributes:
        protected: name of the data set in ledgers.
        observer: name of the observer in ledgers.
        epsilon: inf if nothing is proven.
        delta: delta of epsilon.
        rows: number of rows that the observer saw as they are.
        reason: reason why epsilon is inf.
    """

    __pydantic_config__ = _JSON

    protected: str
    observer: str
    epsilon: float
    delta: float
    rows: int
    reason: str = ""


@dataclass(frozen=True, slots=True)
class BudgetUse:
    """Budget of owners' rows towards other owners.

    Attributes:
        most: limit of epsilon.
        delta: delta of epsilon.
        spent: (Unix seconds, epsilon spent until then), one pair for each run that spent some.
    """

    __pydantic_config__ = _JSON

    most: float
    delta: float
    spent: tuple[tuple[float, float], ...] = ()


@dataclass(frozen=True, slots=True)
class News:
    """Event of a run or a party.

    Attributes:
        at: Unix seconds.
        text: the event in words that name no party but its run and its owner.
        run: name of the run; empty for none.
        owner: name of the owner; empty for none.
        why: details for the curator alone.
    """

    at: float
    text: str
    run: str = ""
    owner: str = ""
    why: str = ""


@dataclass(frozen=True, slots=True)
class Watched:
    """State of a curator's runs.

    Attributes:
        curator: name of the curator.
        at: time of this state, Unix seconds.
        runs: runs, the newest first.
        learned: the privacy matrix over all runs.
        budget: budget of owners' rows, if the curator has one.
        events: the latest events, the newest first.
        note: remark about the whole state, in words.
        over: whether this state is final.
    """

    curator: str
    at: float
    runs: tuple[RunState, ...] = ()
    learned: tuple[Learned, ...] = ()
    budget: BudgetUse | None = None
    events: tuple[News, ...] = ()
    note: str = ""
    over: bool = False

    def to_json(self) -> str:
        """Write the state as JSON; an infinite epsilon is the text `Infinity`."""
        return _adapter().dump_json(self).decode()

    @staticmethod
    def from_json(text: str | bytes) -> Watched:
        """Read what `to_json` wrote.

        Raises:
            ValueError: the text is no state.
        """
        return _adapter().validate_json(text)


@cache
def _adapter() -> TypeAdapter[Watched]:
    return TypeAdapter(Watched)


def seen_by(watched: Watched, viewer: Viewer) -> Watched:
    """Reduce a state to the part that a viewer may see; docs/decisions/020 has the reasons."""
    if viewer.role == "curator":
        return watched
    see_run = _run_of_owner if viewer.role == "owner" else _run_of_consumer
    runs = tuple(seen for run in watched.runs if (seen := see_run(run, viewer.name)) is not None)
    return Watched(
        watched.curator,
        watched.at,
        runs,
        tuple(_learned(watched.learned, viewer)),
        events=tuple(_events(watched.events, {run.run for run in runs}, viewer)),
        over=watched.over,
    )


_SHARED = ("run", "consumer", "kind", "opened", "began", "ended", "protocol", "wanted", "plan")
"""Fields of a run that owners and its consumer may see."""


def _view(run: RunState, *fields: str, **own: Any) -> RunState:
    """Make a state with the shared and the named fields of a run, and some of its own."""
    return RunState(**{name: getattr(run, name) for name in (*_SHARED, *fields)}, **own)


def _run_of_owner(run: RunState, owner: str) -> RunState | None:
    """View of a run for one of its owners, without progress: progress reveals other owners' part."""
    lane = run.lane(owner)
    if lane is None:
        return None
    status = run.status if run.status in ("asked", "queued") else "running" if run.open else "over"
    return _view(run, status=status, lanes=(lane,))


def _run_of_consumer(run: RunState, consumer: str) -> RunState | None:
    """View of a run for its consumer, without owners."""
    if run.consumer != consumer:
        return None
    waits = any(map(run.waits_for, run.lanes))
    stage, reason = run.stage or ("waiting for owners" if waits else ""), "" if run.open else run.reason
    progress = ("status", "done", "rounds", "fraction", "progressed", "planned", "came", "mmd2")
    return _view(run, *progress, stage=stage, reason=reason)


def _learned(learned: Sequence[Learned], viewer: Viewer) -> list[Learned]:
    """Cells about the viewer's own rows.

    An owner does not see its cells towards consumers: the number of its used rows reveals how many of the
    others' rows were not used. Nor does it see cells about all owners at once: they grow with runs that the
    owner is not in.
    """
    if viewer.role == "consumer":
        return [cell for cell in learned if cell.protected == validation_of(viewer.name)]
    seen = CURATOR, OWNERS
    return [cell for cell in learned if cell.protected == viewer.name and cell.observer in seen]


def _events(events: Sequence[News], runs: set[str], viewer: Viewer) -> list[News]:
    """Events of the viewer's runs that name no owner, and events that name the viewing owner."""
    own = viewer.name if viewer.role == "owner" else None
    return [
        replace(event, why="")
        for event in events
        if (event.run in runs or (event.owner and not event.run)) and event.owner in ("", own)
    ]
