"""State of a curator's runs as an observer may see it: a value, and the part of it that each role may see.

`Watched` holds no row, no bid, no gain and no name of a row, whoever looks. `seen_by` builds the views of
owners and consumers from nothing, so that what is added here is the curator's alone until it is named there
(docs/decisions/020).
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from functools import cache
from typing import Literal, TypeAlias

from pydantic import TypeAdapter

from fedkme.privacy.events import CURATOR, OWNERS, validation_of

Role: TypeAlias = Literal["curator", "owner", "consumer"]
OwnerState: TypeAlias = Literal["approval", "asked", "absent", "lost", "refused", "here", "answered", "done"]
OPEN = ("asked", "queued", "running")
"""Statuses of runs of which more will come."""
WAITS: tuple[OwnerState, ...] = ("asked", "absent")
"""States of owners that a run may be waiting for; see `OwnerStatus.awaited`, too."""


@dataclass(frozen=True, slots=True)
class Viewer:
    """Party that looks, by its role; the curator has no name here."""

    role: Role = "curator"
    name: str = ""


@dataclass(frozen=True, slots=True)
class OwnerStatus:
    """An owner in a run.

    Attributes:
        owner: its name.
        state: how far it is.
        why: cause or question, in words; empty where the state says all.
        since: when it was asked what it has not answered, Unix seconds.
        due: when the run goes on without its answer, Unix seconds.
        rows: rows that it has, public; None before it said so.
        seen: rows of it that came.
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
        """True where a run under way waits for it; one that has not approved it in time has left it."""
        return self.state in WAITS or (self.state == "approval" and self.due is not None)


@dataclass(frozen=True, slots=True)
class RunState:
    """A run.

    Attributes:
        run: its name.
        consumer: who asked for it.
        kind: of the result: `summary`, or of a release.
        status: as `fedkme curator runs` has it.
        opened: when it was asked for, Unix seconds.
        began: when owners were first asked.
        ended: when it was over.
        protocol: by its name; empty before it is known.
        wanted: rows of the summary.
        done: rounds that are over.
        rounds: rounds in all; 0 where nobody knows.
        fraction: of the run, where there is more to it than rounds; else None.
        stage: work on a release, in words.
        progressed: when `done` or `fraction` last changed.
        plan: what the plan expects, in words.
        planned: rows of owners that the plan expects to come; 0 where it does not say.
        came: (Unix seconds, rows of all owners that came until then), by time.
        reason: why it ended as it did.
        mmd2: (round, MMD^2 to D_v), in simulations alone.
        verdict: on the summary, in simulations alone.
        lanes: its owners.
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
    verdict: str = ""
    lanes: tuple[OwnerStatus, ...] = ()

    @property
    def open(self) -> bool:
        """Tell a run of which more will come from one that is over."""
        return self.status in OPEN

    @property
    def rows(self) -> int:
        """Rows of all owners that came."""
        return self.came[-1][1] if self.came else 0

    @property
    def share(self) -> float | None:
        """Part of the run that is over, 0 to 1; None where nobody knows."""
        if self.status == "complete":
            return 1.0
        if self.fraction is not None:
            return self.fraction
        return self.done / self.rounds if self.rounds > 1 else None

    def waits_for(self, lane: OwnerStatus) -> bool:
        """Check whether an owner keeps it from going on; before it begins none does that is not asked."""
        return self.open and lane.awaited and (self.status == "running" or lane.state != "absent")

    def lane(self, owner: str) -> OwnerStatus | None:
        """Lane of an owner, if it is in the run."""
        return next((lane for lane in self.lanes if lane.owner == owner), None)


@dataclass(frozen=True, slots=True)
class Learned:
    """Cell of the privacy matrix: what an observer was told of a data set, by the sound accountant.

    Attributes:
        protected: the data set, as ledgers call it.
        observer: who learned of it, likewise.
        epsilon: inf where nothing is proven.
        delta: at which epsilon is stated.
        rows: seen as they are.
        reason: why there is no figure.
    """

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
        most: epsilon that may be spent.
        delta: at which it is stated.
        spent: (Unix seconds, epsilon until then), one for each run that spent some.
    """

    most: float
    delta: float
    spent: tuple[tuple[float, float], ...] = ()


@dataclass(frozen=True, slots=True)
class News:
    """Event of a run or a party.

    Attributes:
        at: Unix seconds.
        text: in words that name nobody but its run and its owner.
        run: of which run; empty for none.
        owner: of which owner; empty for none.
        why: more of it, for the curator alone.
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
        curator: its name.
        at: Unix seconds.
        runs: the newest first.
        learned: the privacy matrix over all runs.
        budget: of owners' rows, where the curator has one.
        events: the latest, the newest first.
        note: about the whole, in words.
        over: whether nothing more will come.
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
        """Write it down; infinities are Infinity, as Python writes them."""
        return json.dumps(asdict(self))

    @staticmethod
    def from_json(text: str | bytes) -> Watched:
        """Read what `to_json` wrote.

        Raises:
            ValueError: it is something else.
        """
        return _adapter().validate_python(json.loads(text))


@cache
def _adapter() -> TypeAdapter[Watched]:
    return TypeAdapter(Watched)


def seen_by(watched: Watched, viewer: Viewer) -> Watched:
    """Keep what a viewer may see, and nothing else; docs/decisions/020 says why."""
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


def _run_of_owner(run: RunState, owner: str) -> RunState | None:
    """A run that the owner is in, without progress: what goes on beside it others do."""
    lane = run.lane(owner)
    if lane is None:
        return None
    return RunState(
        run.run,
        run.consumer,
        run.kind,
        run.status if run.status in ("asked", "queued") else "running" if run.open else "over",
        run.opened,
        run.began,
        run.ended,
        protocol=run.protocol,
        wanted=run.wanted,
        plan=run.plan,
        lanes=(lane,),
    )


def _run_of_consumer(run: RunState, consumer: str) -> RunState | None:
    """A run of the consumer's own, without owners."""
    if run.consumer != consumer:
        return None
    waits = any(map(run.waits_for, run.lanes))
    stage = run.stage or ("waiting for owners" if waits else "")
    return RunState(
        run.run,
        run.consumer,
        run.kind,
        run.status,
        run.opened,
        run.began,
        run.ended,
        protocol=run.protocol,
        wanted=run.wanted,
        done=run.done,
        rounds=run.rounds,
        fraction=run.fraction,
        stage=stage,
        progressed=run.progressed,
        plan=run.plan,
        planned=run.planned,
        came=run.came,
        reason="" if run.open else run.reason,
        mmd2=run.mmd2,
        verdict=run.verdict,
    )


def _learned(learned: Sequence[Learned], viewer: Viewer) -> list[Learned]:
    """Cells about the viewer's own rows.

    Of an owner's those towards consumers are left out: how many of its rows were used says how many of
    others' were not. So are cells about all owners at once: they grow with runs that the owner is not in.
    """
    if viewer.role == "consumer":
        return [cell for cell in learned if cell.protected == validation_of(viewer.name)]
    seen = CURATOR, OWNERS
    return [cell for cell in learned if cell.protected == viewer.name and cell.observer in seen]


def _events(events: Sequence[News], runs: set[str], viewer: Viewer) -> list[News]:
    """Events of the viewer's runs that are about no owner, and those about an owner itself."""
    own = viewer.name if viewer.role == "owner" else None
    return [
        replace(event, why="")
        for event in events
        if (event.run in runs or (event.owner and not event.run)) and event.owner in ("", own)
    ]
