"""Algorithm 3 of Sarpatwar 2019: the summary protocol, one round after another.

Step numbers are the paper's. What is done differently, and why, is in docs/errata.md: the sign of the bid,
averages for sums, q for l, the pool re-scored each round.
"""

from __future__ import annotations

import math
import time

from curator.summary.auctions import Auction
from curator.summary.record import RoundRecord, RunObserver, SummaryRecord
from curator.summary.roster import Roster
from curator.summary.task import CurrentSummary, Pool, SummaryTask, verify
from fedkme.errors import NotEnoughRowsError, OwnerFaultError
from fedkme.features.fixed_point import normalised_features, quantize_mean
from fedkme.privacy.means import MeanRelease
from fedkme.protocol import Bid, Broadcast


async def algorithm3(
    task: SummaryTask,
    roster: Roster,
    h2: MeanRelease,
    auction: Auction,
    record: SummaryRecord,
    observer: RunObserver,
) -> None:
    """Select p rows; fills `record`, which holds what there is if the run is cut short.

    Args:
        task: p, h1, g~ and the seed set. Owners know h1 and g~ already (step 3).
        roster: the owners, prepared.
        h2: the private mean of the current summary.
        auction: decides whose row is asked for.
        record: where everything that happens is written.
        observer: told of each round.
    """
    summary = CurrentSummary(task)
    pool = Pool(task)
    h2.add(normalised_features(task.seeds))
    while len(record.selected) < task.rows:
        if (shortfall := roster.below_quorum()) is not None:
            record.stop(shortfall)
            return
        started = time.perf_counter()
        number = len(record.rounds) + 1
        mean = summary.without_seeds(h2.release())
        broadcast = Broadcast(number, summary.size, quantize_mean(mean))  # step 5
        bids = await _bids(roster, broadcast)  # step 6
        asked, revealed = await _auction(task, roster, auction, broadcast, bids, pool, record)  # steps 11-14
        best = pool.take_best(broadcast)  # step 15
        if best is None:
            record.stop(roster.below_quorum() or out_of_rows(len(record.selected)))
            return
        winner, gain = best
        summary.add(winner.features)  # step 8
        h2.add(normalised_features(winner.features[None]))
        record.select(winner.owner, winner.row, number, gain)
        record.rounds.append(
            RoundRecord(
                round=number,
                size=broadcast.size,
                asked=asked,
                revealed=revealed,
                accessed=len(record.accesses),
                pool=len(pool),
                owners=len(roster),
                owner=winner.owner,
                token=winner.row.token,
                bid=gain,
                mmd2_estimate=summary.distance2(task.target),
                milliseconds=1e3 * (time.perf_counter() - started),
            )
        )
        observer.round_done(record.rounds[-1])
    record.status = "complete"


async def _bids(roster: Roster, broadcast: Broadcast) -> dict[str, Bid]:
    """Every owner's best row (step 6); owners that ran dry have none."""
    answers = await roster.ask(
        broadcast.round, lambda owner, said: owner.bid(said), dict.fromkeys(roster.names, broadcast)
    )
    bids = {}
    for name, bid in answers.items():
        if bid is None:
            continue
        if math.isfinite(bid.value):
            bids[name] = bid
        else:
            error = OwnerFaultError(f"{name} made a bid that is no number", "Check the owner's software.")
            roster.remove(broadcast.round, name, error)
    return bids


async def _auction(
    task: SummaryTask,
    roster: Roster,
    auction: Auction,
    broadcast: Broadcast,
    bids: dict[str, Bid],
    pool: Pool,
    record: SummaryRecord,
) -> tuple[int, int]:
    """Ask for rows, verify them, put them into the pool (steps 11 to 14 and 8).

    When everybody who was asked fails and the pool is empty, the remaining bidders are asked in turn.

    Returns:
        How many owners were asked, and how many rows were accepted.
    """
    asked = revealed = 0
    if bids:
        auction.open_round(bids)
    while bids and not revealed:
        names = auction.asked(bids)
        asked += len(names)
        rows = await roster.ask(
            broadcast.round,
            lambda owner, token: owner.reveal(broadcast.round, token),
            {name: bids[name].token for name in names},
        )
        accepted, refused = verify(task, broadcast, bids, rows, record.seen)
        record.access(broadcast.round, {name: [row] for name, row in rows.items()})
        pool.add(accepted)
        for name, error in refused.items():
            roster.remove(broadcast.round, name, error)
        revealed += len(accepted)
        if len(pool):
            break
        bids = {name: bid for name, bid in bids.items() if name not in names}
    return asked, revealed


def out_of_rows(selected: int) -> NotEnoughRowsError:
    """Why a run ends before p rows although its quorum holds."""
    return NotEnoughRowsError(
        f"the owners that are left have no unsent row after {selected} of the summary",
        "The rows gathered so far are kept; ask for fewer rows.",
    )
