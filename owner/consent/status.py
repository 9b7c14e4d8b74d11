"""`fedkme owner status`: rows and sums that left an owner, their recipients, and the rest of its limits."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import Any

from rich.console import Console
from rich.table import Table

from fedkme.ledgers.departures import Departure, departures_in
from fedkme.ledgers.windows import begin_of
from fedkme.privacy.accountants import Bound, Sound
from fedkme.privacy.events import OWNERS, Event
from fedkme.store import OPEN, Store
from fedkme.verbs import table_of
from owner.consent.approvals import Approval, Asked, asked_in, left_in
from owner.consent.history import History
from owner.consent.policy import towards
from owner.consent.pools import offered_rows
from owner.settings import OwnerSettings, PeriodBudget, PolicySettings


@dataclass(frozen=True, slots=True)
class RunStatus:
    """Status of one run.

    Attributes:
        run: the run's name.
        curator: recipient of the rows; it passes them on to consumers.
        consumer: consumer of the run; empty if the store does not say.
        protocol: protocol of the run; empty if the store does not say.
        asked: p; 0 for a release, or if the store does not say.
        status: `open`, `ended`, or `refused` for a run that was never let in.
        began: Unix seconds.
        rows: rows sent.
        sums: vectors of sums over all rows, sent.
        cost: cost of this run alone towards other owners, or towards the consumer of a release.
    """

    run: str
    curator: str
    consumer: str
    protocol: str
    asked: int
    status: str
    began: float
    rows: int
    sums: int
    cost: Bound


@dataclass(frozen=True, slots=True)
class Spent:
    """Cost of rows towards an observer in a period, with the limit."""

    observer: str
    whom: str
    """Observer as printed; a consumer by its name."""
    days: float | None
    most: float | None
    figure: Bound

    @property
    def period(self) -> str:
        """Observer and period, as printed."""
        return f"{self.whom} in all" if self.days is None else f"{self.whom} in {self.days:g} days"


@dataclass(frozen=True, slots=True)
class Status:
    """Status that `fedkme owner status` prints; epsilons are by the sound accountant, replace-one."""

    settings: OwnerSettings
    at: float
    runs: list[RunStatus]
    places: int
    """Used places of `runs_at_once`: open runs, and refused runs until the curator ends them."""
    spent: list[Spent]
    rows: int
    offered: int
    """Rows offered to runs, over all files."""
    asked: list[Asked]
    approvals: list[tuple[Approval, int]]
    left_out: list[Departure]
    """Last runs that went on without this owner, the oldest first."""

    @property
    def open(self) -> int:
        """Runs that are under way."""
        return sum(run.status == OPEN for run in self.runs)

    def limits(self) -> list[tuple[str, float, float | None]]:
        """Limits as (name, used, limit); limit None: unlimited."""
        policy = self.settings.policy
        most_in_a_run = max((run.rows for run in self.runs), default=0)
        rows: list[tuple[str, float, float | None]] = [
            ("rows offered in all", self.offered, policy.most_rows),
            ("rows in one run", most_in_a_run, policy.most_rows_per_run),
            ("runs at once", self.places, policy.runs_at_once),
        ]
        epsilons = [
            (f"epsilon to {spent.period}, delta {spent.figure.delta:g}", spent.figure.epsilon, spent.most)
            for spent in self.spent
        ]
        return rows + epsilons

    def to_json(self) -> dict[str, Any]:
        """Plain values; an infinite epsilon is "inf", times are Unix seconds."""
        return {
            "owner": self.settings.name,
            "at": self.at,
            "policy": self.settings.policy.model_dump(mode="json"),
            "limits": [
                {"limit": what, "used": _plain(used), "most": most, "left": _plain(_left(used, most))}
                for what, used, most in self.limits()
            ],
            "epsilon": [
                {
                    "observer": spent.observer,
                    "whom": spent.whom,
                    "days": spent.days,
                    "most": spent.most,
                    **spent.figure.to_json(),
                }
                for spent in self.spent
            ],
            "runs": [asdict(run) | {"cost": run.cost.to_json()} for run in self.runs],
            "asked": [asdict(request) | {"command": request.command()} for request in self.asked],
            "approvals": [asdict(approval) | {"runs_left": left} for approval, left in self.approvals],
            "left_out": [{"run": each.run, "at": each.at, **asdict(each.reason)} for each in self.left_out],
        }


def read_status(settings: OwnerSettings, store: Store, now: float | None = None) -> Status:
    """Read the status from the store, without changing it.

    Args:
        settings: the owner's settings.
        store: open for reading; the owner's process may have it open too.
        now: Unix seconds.

    Raises:
        ConfigError: a file in the folder of approvals is not an approval.
        StoreError: the store or the approvals cannot be read.
    """
    now = time.time() if now is None else now
    with store.transaction():  # one state of the store
        history = History(settings.name, store)
        history.read()
        delta = settings.policy.delta
        approvals = left_in(settings.approvals, store)
        figures = _Figures()
        return Status(
            settings,
            now,
            _runs(history, store, figures, delta),
            len(store.runs(OPEN)),
            list(_spent(history, settings.policy, figures, now)),
            history.rows,
            history.rows_of_no_pool + sum(offered_rows(store).values()),
            [request for request in asked_in(store) if not any(a.covers(request) for a, _ in approvals)],
            approvals,
            departures_in(store, settings.name),
        )


def show(status: Status, console: Console, config: str = "OWNER.toml") -> None:
    """Print the status, 100 columns wide; commands to copy stay on one line.

    Args:
        status: the status.
        console: the output.
        config: the owner's configuration, as commands name it.
    """
    settings = status.settings
    policy = settings.policy
    lines = [
        f"{settings.name}, {_time(status.at)}: {status.rows} rows left in all; open runs: {status.open}",
        f"policy: protocols {_any(policy.protocols)}; consumers {_any(policy.consumers)}; "
        f"columns {_any(policy.columns)}; rows {policy.rows}; sums {policy.sums}; approval {policy.approval}",
    ]
    for line in lines:
        console.print(line, markup=False)
    console.print(_limits_table(status))
    console.print(_runs_table(status))
    reasons = (spent.figure.reason for spent in status.spent)
    lines = [f"no finite epsilon: {reason}" for reason in dict.fromkeys(reasons) if reason]
    for line in lines:
        console.print(line, markup=False)
    lines = ["went on without this owner, as the curator says:"] if status.left_out else []
    lines += [f"  {_time(each.at)}, {each.run}: {each.reason.error()}" for each in status.left_out]
    lines += ["waiting for approval:"] if status.asked else []
    for request in status.asked:
        expected = f", {request.expected}" if request.expected else ""
        lines.append(f"  {_time(request.at)}, {request.run}{expected}:\n  {request.command(config)}")
    lines += ["approved, and not used up:"] if status.approvals else []
    lines += [f"  {approval.what}: {runs_left}" for approval, runs_left in status.approvals]
    for line in lines:
        console.print(line, markup=False, soft_wrap=True)


def _spent(history: History, policy: PolicySettings, figures: _Figures, now: float) -> Iterator[Spent]:
    """Yield the spent epsilon of each budget, per consumer that it binds alone, and of all runs."""
    budgets = policy.budgets
    whole = PeriodBudget(epsilon=1.0, delta=policy.delta)  # its delta counts; it sets no limit
    has_total = any(budget.observer == OWNERS and budget.days is None for budget in budgets)
    consumers = {admission.consumer for admission in history.admitted.values()}
    for budget in (*budgets, *(() if has_total else (whole,))):
        begin, most = begin_of(budget.days, now), None if budget is whole else budget.epsilon
        bound = sorted(
            consumer for consumer in consumers.union(budget.consumers) if budget.binds(consumer, budgets)
        )
        for counted in dict.fromkeys(map(budget.counted, bound)) or (budget.counted(""),):
            events = tuple(history.costs(begin, "", budget.observer, counted))
            whom = towards(budget, counted) or "each consumer"
            yield Spent(budget.observer, whom, budget.days, most, figures.of(events, budget.delta))


class _Figures:
    """Cache of epsilons: many runs have the same plan, and an epsilon takes milliseconds."""

    def __init__(self) -> None:
        self._sound = Sound()
        self._known: dict[tuple[tuple[Event, ...], float], Bound] = {}

    def of(self, events: tuple[Event, ...], delta: float) -> Bound:
        if not events:
            return Bound(0.0, delta, "nothing was disclosed")
        if (bound := self._known.get((events, delta))) is None:
            bound = self._known[events, delta] = self._sound.epsilon(events, delta)
        return bound


def _runs(history: History, store: Store, figures: _Figures, delta: float) -> list[RunStatus]:
    runs = []
    for row in store.runs():
        admission, disclosed = history.admitted.get(row.run), history.disclosures.get(row.run)
        cost = admission.planned if admission and row.status == OPEN else history.cost(row.run)
        runs.append(
            RunStatus(
                row.run,
                row.peer,
                admission.consumer if admission else "",
                admission.protocol if admission else "",
                admission.rows if admission else 0,
                row.status if admission or disclosed else "refused",
                row.opened,
                disclosed.rows if disclosed else 0,
                disclosed.sums if disclosed else 0,
                figures.of(cost, delta),
            )
        )
    return runs


def _limits_table(status: Status) -> Table:
    rows = (
        (what, _number(used), _limit(most), _limit(_left(used, most))) for what, used, most in status.limits()
    )
    header = ("limit", ">used", ">may be", ">left")
    return table_of(header, rows, ruled=True, title="limits", title_justify="left")


def _runs_table(status: Status) -> Table:
    curators = ", ".join(sorted({run.curator for run in status.runs})) or "nobody"
    title = f"what left to {curators}, and on to consumers"
    header = ("run", "for", "protocol", ">asked", ">rows", ">sums", ">epsilon", "<status", "<began")
    rows = (
        (
            *(run.run, run.consumer or "-", run.protocol or "-"),
            *(str(run.asked or "-"), str(run.rows), str(run.sums or "-"), _number(run.cost.epsilon)),
            *(run.status, _time(run.began)),
        )
        for run in status.runs
    )
    return table_of(header, rows, ruled=True, title=title, title_justify="left")


def _limit(most: float | None) -> str:
    return "any" if most is None else _number(most)


def _left(used: float, most: float | None) -> float | None:
    return None if most is None else max(0.0, most - used)


def _plain(number: float | None) -> float | str | None:
    return "inf" if number is not None and math.isinf(number) else number


def _number(number: float) -> str:
    return "inf" if math.isinf(number) else f"{number:.4g}" if number % 1 else str(int(number))


def _time(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%MZ")


def _any(names: tuple[str, ...]) -> str:
    return ", ".join(names) or "any"
