"""Uniform sampling: p/K rows from every owner, drawn by the owner, without a look at any data.

This is the baseline of Sarpatwar 2019, Section 4, c). It costs no privacy beyond the rows themselves.
"""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence, Set
from functools import partial

from curator.owners.session import OwnerSession
from curator.run.roster import Roster
from curator.run.summary_record import RoundRecord, RunObserver, SummaryRecord
from curator.summary.algorithm3 import out_of_rows
from curator.summary.disclosures import SummaryDisclosures
from curator.summary.task import CurrentSummary, SummaryTask
from fedkme.errors import BidMismatchError, FedkmeError, OwnerFaultError
from fedkme.sealed.rows import AnyRow


def shares(rows: int, available: Mapping[str, int]) -> dict[str, int]:
    """Split `rows` among owners as equally as possible; no owner's share exceeds its unsent rows.

    Remainders go to the first owners, by name, that have rows left.
    """
    taken = dict.fromkeys(sorted(available), 0)
    missing = min(rows, sum(available.values()))
    while missing:
        open_owners = [name for name in taken if taken[name] < available[name]]
        step = missing // len(open_owners)
        for name in open_owners if step else open_owners[:missing]:
            more = min(max(step, 1), available[name] - taken[name])
            taken[name] += more
            missing -= more
    return taken


async def uniform(
    task: SummaryTask,
    roster: Roster[OwnerSession],
    record: SummaryRecord,
    observer: RunObserver,
    gate: SummaryDisclosures,
) -> None:
    """Draw the summary and fill `record`: one round, and a further round after an owner failed."""
    summary = CurrentSummary(task)
    sent = dict.fromkeys(record.owner_rows, 0)
    while len(record.selected) < task.rows:
        if (shortfall := roster.below_quorum()) is not None:
            record.stop(shortfall)
            return
        started = time.perf_counter()
        number = len(record.rounds) + 1
        available = {name: record.owner_rows[name] - sent[name] for name in roster.names}
        wanted = shares(task.rows - len(record.selected), available)
        counts = {name: count for name, count in wanted.items() if count}
        if not counts:
            record.stop(out_of_rows(record, roster.names))
            return
        answers = await roster.ask(number, partial(_draw, number), counts)
        before = len(record.selected)
        size = summary.size if task.gifts is None else before
        for name, rows in answers.items():
            error = _unfit(task, name, rows, counts[name], record.seen)
            gate.receive_rows(number, name, record.access(number, {name: rows})[name])
            sent[name] += len(rows)
            if error is not None:
                roster.remove(number, name, error)
                continue
            for features in task.features_of(rows) if task.gifts is None else ():
                summary.add(features)
            for row in rows:
                record.select(name, row, number, math.nan)
        record.rounds.append(
            RoundRecord(
                round=number,
                size=size,
                asked=len(counts),
                revealed=len(record.selected) - before,
                accessed=len(record.accesses),
                pool=0,
                owners=len(roster),
                owner="",
                token=-1,
                bid=math.nan,
                mmd2_estimate=summary.distance2(task.target) if task.gifts is None else math.nan,
                milliseconds=1e3 * (time.perf_counter() - started),
            )
        )
        observer.round_done(record.rounds[-1])
    record.status = "complete"


async def _draw(number: int, owner: OwnerSession, count: int) -> Sequence[AnyRow]:
    return await owner.draw(number, count)


def _unfit(
    task: SummaryTask, owner: str, rows: Sequence[AnyRow], wanted: int, seen: Set[tuple[str, int]]
) -> FedkmeError | None:
    """Reason why an owner's draw cannot be used, or None."""
    if len(rows) != wanted:
        return OwnerFaultError(f"{owner} sent {len(rows)} rows for {wanted}", "Check the owner's software.")
    tokens = {(owner, row.token) for row in rows}
    if len(tokens) < len(rows) or not tokens.isdisjoint(seen):
        return BidMismatchError(f"{owner} sent a row twice", "Check the owner's software.")
    return task.fits_schema(owner, rows)
