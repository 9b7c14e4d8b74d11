"""A summary by cells: one histogram of each owner, one order to each, and the rows that fill it.

docs/decisions/007 has the protocol, its sensitivities and why an order tells an owner nothing that the noisy
histograms do not. No owner is asked twice. No order exceeds an owner's rows, so an owner that sends fewer
rows than its order deviates; other owners are neither asked for the missing rows nor told of them. The run
ends for an owner with its own answer, before the curator prunes rows.
"""

import math
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from curator.cells.coalitions import pooled, split
from curator.cells.density_orders import orders_by_density
from curator.cells.disclosures import CellDisclosures
from curator.cells.orders import Histograms, Orders, make_orders, uniform_share
from curator.owners.session import OwnerSession
from curator.run.roster import LEAVING, Roster
from curator.run.summary_record import RoundRecord, RunObserver, SummaryRecord
from curator.summary.task import fault_of_draw, fault_of_sent
from fedkme.arrays import IntArray
from fedkme.cells.codebook import Counting
from fedkme.cells.histogram import CountNoise, HistogramNoise
from fedkme.directives import FillOrder
from fedkme.embeddings.mmd import ReferenceRows
from fedkme.embeddings.summary_weights import beside_classes, in_some_form
from fedkme.errors import FedkmeError, NotEnoughRowsError, OwnerFaultError
from fedkme.exchange import Coalition
from fedkme.margins.density import AnyBook, DensityBook
from fedkme.margins.picks import Tilt
from fedkme.ops.threads import in_thread
from fedkme.privacy.events import CONSUMER
from fedkme.protocol import CellTerms, Closing, Invitation
from fedkme.protocols import variant
from fedkme.sealed.group import Gift
from fedkme.sealed.rows import AnyRow
from fedkme.tables.schema import Schema
from fedkme.tables.table import Row


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class CellTask:
    """Public facts of a run, and D_v by cells.

    Attributes:
        run: name of the run.
        rows: p.
        rho: rows that owners send for each row of the summary.
        schema: the public column domain.
        book: the code book.
        gamma: bandwidth of the exact kernel.
        noise: noise of an owner's histogram; None where coalitions have counted.
        histogram: nu, D_v by cells, with the noise of the party that holds D_v, (B,).
        validation_rows: m, public.
        classes: classes of the label by which owners count each cell; 0 for cells alone.
        validation: D_v itself, encoded, (m, n), where the curator is trusted with D_v and leaves out rows
            that no form of the summary has; None: the consumer gets all rows.
        consumer: who receives the summary.
        gifts: the group secret by owner, for sealed rows, all of which the consumer gets; None: rows as
            they are.
        uniform: share of the rows that owners draw uniformly; None: computed by `uniform_share`.
        expected: a line for owners: what the plan's choice is expected to give.
        validation_noise: noise of `histogram`, where its consumer declared it.
        coalitions: owners that have counted together, with their counts; no owner is asked for a histogram
            then.
        validation_classes: classes of the rows of `validation`, (m,), where D_v has labels.
        tilt: what D_v's margins over a model of the pool give, in a run by margins.
    """

    run: str
    rows: int
    rho: float
    schema: Schema
    book: AnyBook
    gamma: float
    noise: HistogramNoise | None
    histogram: IntArray
    validation_rows: int
    validation: NDArray[np.float32] | None
    classes: int = 0
    consumer: str = CONSUMER
    gifts: Mapping[str, Gift] | None = None
    uniform: float | None = None
    expected: str = ""
    validation_noise: CountNoise | None = None
    coalitions: tuple[Coalition, ...] = ()
    validation_classes: IntArray | None = None
    tilt: Tilt | None = None

    @property
    def asked(self) -> int:
        """Rows that owners are asked for, rho p."""
        return round(self.rho * self.rows)

    def invitations(self, owners: Iterable[str]) -> dict[str, Invitation]:
        """Invitations by owner; all share one code book, which has hundreds of numbers."""
        book = self.book.to_json()
        terms = CellTerms(book, self.gamma, self.noise, self.asked, self.classes)
        alike = Invitation(
            self.run,
            self.schema.digest(),
            self.consumer,
            variant("cells", self.gifts is not None).name,
            terms.events,
            terms,
            None,
            self.expected,
        )
        gifts = self.gifts or {}
        return {name: replace(alike, gift=gifts.get(name)) for name in owners}


async def run_cells(
    task: CellTask,
    ports: Sequence[OwnerSession],
    quorum: int,
    record: SummaryRecord,
    observer: RunObserver,
    gate: CellDisclosures,
) -> Orders | None:
    """Run the protocol over owners and fill `record`. Every value that leaves or comes passes `gate`.

    Returns:
        The orders; None where the run stopped before orders were made.

    Raises:
        NotEnoughRowsError: the owners together have fewer than p rows; raised before any owner counts.
    """
    roster: Roster[OwnerSession] = Roster(ports, quorum, observer.owner_left, record.faults)
    record.owner_rows = await roster.ask(
        0, lambda owner, invitation: owner.invite(invitation), task.invitations(roster.names)
    )
    available = sum(record.owner_rows.values())
    if (shortfall := roster.below_quorum()) is not None:
        record.stop(shortfall)
        return None
    if available < task.rows:
        cause = f"{task.rows} rows are asked for and the {len(roster)} owners have {available}"
        raise NotEnoughRowsError(cause, f"Ask for at most {available} rows.")
    gate.open()
    orders = await _fill(task, roster, record, observer, gate)
    gate.pass_summary(1, record.selected)
    return orders


async def _fill(
    task: CellTask,
    roster: Roster[OwnerSession],
    record: SummaryRecord,
    observer: RunObserver,
    gate: CellDisclosures,
) -> Orders | None:
    """Run the one round: histograms (where owners count by themselves), orders, rows."""
    started = time.perf_counter()
    counted = (
        {} if task.noise is None else await _histograms(task, task.noise, roster, record.owner_rows, gate)
    )
    if (shortfall := roster.below_quorum()) is not None:
        record.stop(shortfall)
        _note(roster, record, await roster.ask(1, _end, dict.fromkeys(roster.names)))
        return None
    sizes = {name: record.owner_rows[name] for name in counted or roster.names}
    orders = _orders(task, counted, sizes)
    record.released = _released_values(task, record, counted, sizes, orders)
    directives = dict(zip(sizes, orders.directives(), strict=True))
    answers = await roster.ask(1, _fill_order, directives)
    received: list[tuple[str, AnyRow]] = []
    for name, (rows, _) in answers.items():
        if not directives[name].count:
            continue
        gate.receive_rows(1, name, record.access(1, {name: rows})[name])
        error = _unfit(task, name, rows, directives[name].count)
        if error is not None:
            roster.remove(1, name, error)
            continue
        received += [(name, row) for row in rows]
    _note(roster, record, {name: ended for name, (_, ended) in answers.items()})
    places = await _delivered_places(task, received)
    for place in places:
        name, row = received[place]
        record.select(name, row, 1, math.nan)
    if len(received) < task.rows:
        record.stop(_too_few(task, len(received), sorted({fault.owner for fault in record.faults})))
    else:
        record.status = "complete"
    record.rounds.append(
        RoundRecord(
            round=1,
            size=0,
            asked=int((orders.rows > 0).sum()),
            revealed=len(received),
            accessed=len(record.accesses),
            pool=len(received),
            owners=len(roster),
            milliseconds=1e3 * (time.perf_counter() - started),
        )
    )
    observer.round_done(record.rounds[-1])
    return orders


async def _histograms(
    task: CellTask,
    noise: HistogramNoise,
    roster: Roster[OwnerSession],
    rows: Mapping[str, int],
    gate: CellDisclosures,
) -> dict[str, IntArray]:
    """Collect the histograms of the owners that answer."""
    cells = Counting(task.book, task.classes).size
    counted = await roster.ask(
        1, lambda owner, cells: owner.histogram(1, cells), dict.fromkeys(roster.names, cells)
    )
    for name in list(counted):
        gate.receive_histogram(name, noise.event, counted[name])
        most = noise.most(cells)
        if counted[name].min() < -most or counted[name].max() > rows[name] + most:
            cause = f"{name} sent an impossible histogram: no noise explains one of its counts"
            roster.remove(1, name, OwnerFaultError(cause, "Check the owner's software."))
            del counted[name]
    return counted


def _orders(task: CellTask, counted: Mapping[str, IntArray], sizes: Mapping[str, int]) -> Orders:
    """Orders to the owners of `sizes`, by their own histograms or by their coalitions' counts."""
    if task.noise is None:
        coalition_counts = pooled(task.coalitions, sizes)
        orders = _make(task, coalition_counts.counts, coalition_counts.rows, coalition_counts.variance)
        return split(orders, task.coalitions, sizes)
    rows = np.array(list(sizes.values()), dtype=np.int64)
    return _make(task, np.stack([counted[name] for name in sizes]), rows, task.noise.variance)


def _make(task: CellTask, counts: IntArray, rows: IntArray, variance: float) -> Orders:
    total = min(task.asked, int(rows.sum()))
    if isinstance(task.book, DensityBook):
        share, absent = (0.0, 0.0) if task.tilt is None else (task.tilt.uniform, task.tilt.absent)
        uniform = share if task.uniform is None else task.uniform
        return orders_by_density(counts, rows, total, absent, uniform)
    histograms = Histograms(
        counts,
        rows,
        task.histogram,
        task.validation_rows,
        labels=max(1, task.classes),
        variance=variance,
        validation_variance=0.0 if task.validation_noise is None else task.validation_noise.variance,
    )
    uniform = uniform_share(histograms) if task.uniform is None else task.uniform
    return make_orders(histograms, total, uniform=uniform)


async def _delivered_places(task: CellTask, received: Sequence[tuple[str, AnyRow]]) -> list[int]:
    """Places of the rows that the consumer gets: the rows of some form of the summary, or all without D_v."""
    plain = [row for _, row in received if isinstance(row, Row)]
    if task.validation is None or len(plain) <= task.rows:
        return list(range(len(received)))
    labels = [row.label for row in plain if row.label is not None]
    rows, seen = beside_classes(
        task.schema.encode(np.array([row.values for row in plain])),
        ReferenceRows(task.validation, task.gamma),
        np.array(labels, np.int64) if len(labels) == len(plain) else None,
        task.validation_classes,
    )
    places = await in_thread(in_some_form, rows, seen, task.rows)
    return [int(place) for place in places]


def _released_values(
    task: CellTask,
    record: SummaryRecord,
    counted: Mapping[str, IntArray],
    owners: Iterable[str],
    orders: Orders,
) -> dict[str, Any]:
    """Values that payouts and plans may read: noisy counts that were paid for, and functions of them."""
    owners = list(owners)
    ordered = dict(zip(owners, orders.rows.tolist(), strict=True))
    drawn = dict(zip(owners, orders.uniform.tolist(), strict=True))
    return {
        "code_book": {"kind": task.book.kind, "cells": task.book.cells, "classes": task.book.classes},
        "classes": task.classes,
        **_counts(task, counted),
        "target_histogram": task.histogram.tolist(),
        "orders": {name: ordered.get(name, 0) for name in record.owner_rows},
        "uniform": {name: drawn.get(name, 0) for name in record.owner_rows},
        "mixture_weights": dict(zip(owners, orders.weights.tolist(), strict=True)),
        "dropped": orders.dropped,
    }


def _counts(task: CellTask, counted: Mapping[str, IntArray]) -> dict[str, Any]:
    if task.noise is None:
        return {"coalitions": [asdict(coalition) for coalition in task.coalitions]}
    histograms = {name: counts.tolist() for name, counts in counted.items()}
    return {"histograms": histograms, "noise_scale": task.noise.scale}


async def _fill_order(
    owner: OwnerSession, order: FillOrder
) -> tuple[Sequence[AnyRow], Closing | FedkmeError]:
    rows = await owner.fill_order(1, order) if order.count else ()
    return rows, await _end(owner)


async def _end(owner: OwnerSession, _: None = None) -> Closing | FedkmeError:
    """End the run for an owner right after its own answer: its time tells nothing of others or of D_v."""
    ended: Closing | FedkmeError
    try:
        ended = await owner.close(1)
    except LEAVING as error:
        ended = error
    await owner.dismiss()
    return ended


def _note(
    roster: Roster[OwnerSession], record: SummaryRecord, ended: Mapping[str, Closing | FedkmeError]
) -> None:
    """Record the owners' own counts of sent rows; an owner that gave no count leaves the run."""
    closings = {name: closing for name, closing in ended.items() if name in roster.names}
    rows_sent = {name: end.rows_sent for name, end in closings.items() if isinstance(end, Closing)}
    faults = {name: error for name, error in closings.items() if not isinstance(error, Closing)}
    for name, error in sorted((faults | record.close(rows_sent)).items()):
        roster.remove(1, name, error)


def _too_few(task: CellTask, received: int, leavers: Sequence[str]) -> NotEnoughRowsError:
    """Reason why a run has fewer rows than were asked for; `leavers` are the owners that left the run."""
    cause = f"owners sent {received} of {task.rows} rows"
    if not leavers:
        return NotEnoughRowsError(cause, "Raise rho, or ask for a smaller summary.")
    remedy = "'faults' of the record says why; ask again, without them if they lie."
    return NotEnoughRowsError(f"{cause}, and {', '.join(leavers)} left the run", remedy)


def _unfit(task: CellTask, owner: str, rows: Sequence[AnyRow], wanted: int) -> FedkmeError | None:
    """Reason why an owner's rows cannot be used, or None.

    No order exceeds the rows that the owner said it has. So the number of rows tells nothing, and fewer rows
    than ordered are a fault.
    """
    fault = fault_of_draw(owner, rows, wanted)
    return fault or fault_of_sent(task.schema, owner, rows, sealed=task.gifts is not None)
