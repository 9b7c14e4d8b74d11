"""Algorithm 3 of Sarpatwar 2019: the summary protocol, one round after another.

Step numbers are the paper's. docs/errata.md explains the differences to the paper: the sign of the bid,
averages for sums, q for l, the pool re-scored each round.
"""

import math
import time
from collections.abc import Sequence

import numpy as np

from curator.owners.session import OwnerSession
from curator.run.roster import Roster
from curator.run.summary_record import RoundRecord, RunObserver, SummaryRecord
from curator.summary.auctions.base import Auction
from curator.summary.disclosures import SummaryDisclosures
from curator.summary.market import Market
from curator.summary.task import CurrentSummary, Pool, SummaryTask
from fedkme.errors import NotEnoughRowsError
from fedkme.features.fixed_point import normalised_features, quantize_mean
from fedkme.privacy.means import MeanRelease
from fedkme.protocol import Broadcast


async def algorithm3(
    task: SummaryTask,
    roster: Roster[OwnerSession],
    h2: MeanRelease,
    auction: Auction,
    record: SummaryRecord,
    observer: RunObserver,
    gate: SummaryDisclosures,
) -> None:
    """Select p rows and fill `record`, which holds the rows so far if the run is cut short.

    Owners know h1 and g~ already (step 3). `h2` is the private mean of the current summary. The gate writes
    down every value that goes to owners or comes from them.
    """
    summary = CurrentSummary(task)
    pool = Pool(task)
    h2.add(normalised_features(task.seeds))
    while len(record.rounds) < task.rows:
        if (shortfall := roster.below_quorum()) is not None:
            record.stop(shortfall)
            return
        started = time.perf_counter()
        number = len(record.rounds) + 1
        gate.draw_mean(number, h2.cost)
        mean = summary.without_seeds(h2.release())
        broadcast = Broadcast(number, summary.size, quantize_mean(mean))  # step 5
        market = Market(task, roster, broadcast, pool, record, gate)
        await auction.hold(market)  # steps 6, 7, 11 to 14, and the check of step 8
        best = pool.take_best(broadcast)  # step 15
        if best is None and not auction.public_rounds:
            record.stop(roster.below_quorum() or out_of_rows(record, roster.names))
            return
        features = np.zeros_like(task.target, dtype=np.int16) if best is None else best.row.features
        summary.add(features)  # step 8
        h2.add(normalised_features(features[np.newaxis]))
        if best is not None:
            record.select(best.row.owner, best.row.row, number, best.gain)
        record.rounds.append(
            RoundRecord(
                round=number,
                size=broadcast.size,
                asked=market.asked,
                revealed=market.revealed,
                accessed=len(record.accesses),
                pool=len(pool),
                owners=len(roster),
                owner="" if best is None else best.row.owner,
                token=-1 if best is None else best.row.row.token,
                bid=math.nan if best is None else best.gain,
                mmd2_estimate=summary.distance2(task.target),
                milliseconds=1e3 * (time.perf_counter() - started),
            )
        )
        observer.round_done(record.rounds[-1])
    if len(record.selected) < task.rows:
        record.stop(out_of_rows(record, roster.names))
    else:
        record.status = "complete"


def out_of_rows(record: SummaryRecord, owners: Sequence[str]) -> NotEnoughRowsError:
    """Reason why a run ends before p rows although its quorum holds.

    Args:
        record: record of the run.
        owners: owners that are still in the run.
    """
    unsent_by_owner = record.unsent()
    selected, unsent = len(record.selected), sum(unsent_by_owner[name] for name in owners)
    if unsent:
        return NotEnoughRowsError(
            f"{len(record.rounds)} rounds selected {selected} rows, and the owners that are left "
            f"have {unsent} rows that were not asked for",
            "The rows gathered so far are kept; 'faults' of the record says who left, and why; ask again.",
        )
    cause = f"the owners that are left have no unsent row after {selected} of the summary"
    return NotEnoughRowsError(cause, "The rows gathered so far are kept; ask for fewer rows.")
