"""Summary run from the owners' sessions to its record, on any engine that provides the sessions.

Uniform sampling takes p/K rows from every owner, drawn by the owner, without a look at any data: the baseline
of Sarpatwar 2019, Section 4, c). It costs no privacy beyond the rows themselves.
"""

import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial

from curator.owners.session import OwnerSession
from curator.run.roster import Roster
from curator.run.summary_record import RoundRecord, RunObserver, SummaryRecord
from curator.summary.algorithm3 import algorithm3, out_of_rows
from curator.summary.disclosures import SummaryDisclosures
from curator.summary.settings import SummarySettings
from curator.summary.task import CurrentSummary, SummaryTask, fault_of_draw
from fedkme.errors import NotEnoughRowsError
from fedkme.party import NoiseFor
from fedkme.privacy.events import Disclosure
from fedkme.privacy.means import MeanRelease, later_cost
from fedkme.protocol import AuctionTerms, Invitation
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
            error = fault_of_draw(name, rows, counts[name], record.seen) or task.fits_schema(name, rows)
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
                owners=len(roster),
                mmd2_estimate=summary.distance2(task.target) if task.gifts is None else math.nan,
                milliseconds=1e3 * (time.perf_counter() - started),
            )
        )
        observer.round_done(record.rounds[-1])
    record.status = "complete"


async def _draw(number: int, owner: OwnerSession, count: int) -> Sequence[AnyRow]:
    return await owner.draw(number, count)


async def run_summary(
    task: SummaryTask,
    settings: SummarySettings,
    ports: Sequence[OwnerSession],
    noise_for: NoiseFor,
    record: SummaryRecord,
    observer: RunObserver,
    gate: SummaryDisclosures,
) -> None:
    """Run a summary protocol over owners and fill `record`. Every value that leaves or comes passes `gate`.

    Raises:
        NotEnoughRowsError: the owners together have fewer than p rows; raised before round 1.
    """
    roster: Roster[OwnerSession] = Roster(ports, settings.quorum, observer.owner_left, record.faults)
    h2 = None
    if settings.row.family != "uniform":
        spec = task.h1.spec
        h2 = settings.broadcast.make(spec.dimension, task.h1.norm_bound, task.rows, noise_for("broadcast"))
    owners = len(roster)  # K of the auction in ledgers: owners are told K before some of them refuse the run
    invitation = _invitation(task, settings, owners, h2, gate)
    arguments = {
        name: replace(invitation, gift=None if task.gifts is None else task.gifts.get(name))
        for name in roster.names
    }
    record.owner_rows = await roster.ask(0, lambda owner, terms: owner.invite(terms), arguments)
    available = sum(record.owner_rows.values())
    if (shortfall := roster.below_quorum()) is not None:
        record.stop(shortfall)
    elif available < task.rows:
        cause = f"{task.rows} rows are asked for and the {len(roster)} owners have {available}"
        raise NotEnoughRowsError(cause, f"Ask for at most {available} rows.")
    elif h2 is None:
        gate.open(None, task.target)  # the numbers of rows asked for follow from public sizes
        drawn = min(settings.drawn(task.rows), available)
        await uniform(replace(task, rows=drawn), roster, record, observer, gate)
    else:
        event, exchanged = settings.auction.event(task.rows, owners), settings.auction.exchanged_rows
        gate.open(event, task.target, exchanged)
        auction = settings.auction.make(len(roster), noise_for("auction"))
        await algorithm3(task, roster, h2, auction, record, observer, gate)
    gate.pass_untold(len(record.rounds))
    await close(roster, record)
    gate.pass_summary(len(record.rounds), record.selected)


def _invitation(
    task: SummaryTask,
    settings: SummarySettings,
    owners: int,
    h2: MeanRelease | None,
    gate: SummaryDisclosures,
) -> Invitation:
    """Make the invitation of the run, by which an owner's policy decides before round 1."""
    heard: tuple[Disclosure, ...] = ()
    if h2 is not None:
        auction = settings.auction
        mean = later_cost(h2).of_rows(auction.exchanged_rows)
        question = auction.event(task.rows, owners)
        heard = gate.to_be_heard(mean, question, task.target)
    features = task.h1.spec if task.hashed is None else task.hashed.spec
    return Invitation(
        task.run,
        task.schema.digest(),
        task.consumer,
        settings.row.name,
        tuple(settings.between_owners(task.rows, owners)),
        AuctionTerms(features, task.target, settings.drawn(task.rows), heard),
        expected=task.expected,
    )


async def close(roster: Roster[OwnerSession], record: SummaryRecord) -> None:
    """Collect every owner's own count of the rows that it sent."""
    last = len(record.rounds)
    closings = await roster.ask(
        last, lambda owner, number: owner.close(number), dict.fromkeys(roster.names, last)
    )
    odd = record.close({name: closing.rows_sent for name, closing in closings.items()})
    for name, error in odd.items():
        roster.remove(last, name, error)
