"""The privacy list of metrics.json: what each observer can learn, by the paper's arithmetic and by proof.

Only `sound` figures are guarantees. What has no proof says so, with epsilon = inf and the reason.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any, Literal

from curator.summary.auctions import PrivAuctionSettings
from fedkme.privacy.accounting import PrivacyStatement, mwem_zcdp, published_epsilon, zcdp_epsilon
from fedkme.privacy.settings import GaussianSettings, MwemSettings, MwemTargetSettings
from sim.config import SummaryTable

Accountant = Literal["published", "sound"]

REPLACE = "replace one row"
TARGET_DELTA = 0.01
"""delta at which the paper states D_v's epsilon."""
SUMMARY_DELTA = 1e-4
"""delta at which the paper states the summary's epsilon."""


def statements(table: SummaryTable, record: Mapping[str, Any]) -> list[PrivacyStatement]:
    """The privacy of one run.

    Args:
        table: the run's settings.
        record: the curator's record.json.
    """
    return [*_of_validation(table, record), *_of_owners(table, record)]


def _of_validation(table: SummaryTable, record: Mapping[str, Any]) -> Iterator[PrivacyStatement]:
    protected, raw = "D_v", int(record["validation_points"])
    if raw:
        yield PrivacyStatement(
            protected, "curator", "sound", math.inf, 0.0, REPLACE, raw, "the curator was trusted with D_v"
        )
    observer = "owners" if raw else "owners and curator"
    if table.kernel.gamma == "median-validation":
        reason = "gamma, a median distance of D_v, is released without noise"
        yield PrivacyStatement(protected, observer, "sound", math.inf, 0.0, REPLACE, 0, reason)
        return
    target = table.target
    if table.protocol == "uniform":
        reason = "uniform sampling sends g~ and uses nothing of it"
        yield PrivacyStatement(protected, observer, "sound", *_target_cost(target), REPLACE, 0, reason)
        return
    if isinstance(target, MwemTargetSettings):
        epsilon = published_epsilon(target.epsilon, target.iterations, TARGET_DELTA)
        reason = "one release an iteration, as the paper counts (Section 4)"
        yield PrivacyStatement(protected, observer, "published", epsilon, TARGET_DELTA, REPLACE, 0, reason)
    reasons = {
        "mwem": "zCDP of selection (bounded range 4e) and value (2e), at the paper's delta",
        "gaussian": "one Gaussian mechanism, calibrated exactly",
        "exact": "the mean of D_v is released without noise",
    }
    yield PrivacyStatement(
        protected, observer, "sound", *_target_cost(target), REPLACE, 0, reasons[target.mechanism]
    )


def _target_cost(target: Any) -> tuple[float, float]:
    if isinstance(target, MwemTargetSettings):
        rho = mwem_zcdp(target.epsilon, target.iterations, "replace-one")
        return zcdp_epsilon(rho, TARGET_DELTA), TARGET_DELTA
    if isinstance(target, GaussianSettings):
        return target.epsilon, target.delta
    return math.inf, 0.0


def _of_owners(table: SummaryTable, record: Mapping[str, Any]) -> Iterator[PrivacyStatement]:
    yield from _between_owners(table)
    used = [owner for owner, *_ in record["selected"]]
    for name, accessed in record["accessed"].items():
        seen = [
            ("curator", accessed, "the curator sees rows as they are"),
            ("consumer", used.count(name), "the summary is rows"),
        ]
        for observer, rows, reason in seen:
            yield PrivacyStatement(name, observer, "sound", math.inf, 0.0, REPLACE, rows, reason)


def _between_owners(table: SummaryTable) -> Iterator[PrivacyStatement]:
    """What one owner learns of another: published claims, then what holds."""

    def statement(accountant: Accountant, epsilon: float, delta: float, reason: str) -> PrivacyStatement:
        return PrivacyStatement("each owner", "other owners", accountant, epsilon, delta, REPLACE, 0, reason)

    if table.protocol == "uniform":
        yield statement("sound", 0.0, 0.0, "owners draw their own rows and are told nothing about others")
        return
    broadcast, auction = table.broadcast, table.auction
    if isinstance(broadcast, MwemSettings):
        iterations = broadcast.iterations * table.p
        epsilon = published_epsilon(broadcast.later_epsilon(table.p), iterations, SUMMARY_DELTA)
        reason = "the paper's figure for the broadcasts (Section 4); it leaves the auction out"
        yield statement("published", epsilon, SUMMARY_DELTA, reason)
    if isinstance(auction, PrivAuctionSettings):
        yield statement("published", auction.epsilon, auction.delta, "claim of Theorem 6 for PRIVAUCTION")
    if broadcast.mechanism == "exact":
        reason = "the mean of the summary is broadcast without noise"
    elif isinstance(auction, PrivAuctionSettings):
        reason = (
            "PRIVAUCTION is not private: the best bidder is always asked, so not being asked "
            "proves that somebody holds a better row"
        )
    else:
        reason = f"there is no proof for the auction '{auction.kind}'"
    yield statement("sound", math.inf, 0.0, reason)
