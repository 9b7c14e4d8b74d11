"""Claims of the paper for its variant of a run, from settings alone.

Claims have the deltas of the paper's figures, and count the most that a whole run may release. A run's actual
disclosures are in its ledgers (fedkme/ledgers/statements.py).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Literal

from curator.summary.auctions.privauction import PrivAuctionSettings
from fedkme.privacy.accountants import Bound, Published, Sound
from fedkme.privacy.accounting import PrivacyStatement
from fedkme.privacy.events import Event
from fedkme.privacy.settings import target_event
from sim.config import SummaryTable

TARGET_DELTA = 0.01
"""delta of the paper's epsilon for D_v."""
SUMMARY_DELTA = 1e-4
"""delta of the paper's epsilon for the summary; the auction's own delta is added."""


def published_variant(table: SummaryTable, owners: int) -> list[PrivacyStatement]:
    """List the paper's claims for its variant, and proven bounds on the same events; empty for other runs.

    Args:
        table: the run's settings; `preset = "published"` makes the run the paper's variant.
        owners: K.
    """
    if table.preset != "published":
        return []
    delta = SUMMARY_DELTA
    if isinstance(table.auction, PrivAuctionSettings):
        delta += table.auction.delta
    between = table.between_owners(table.p, owners)
    return [
        *_figures("D_v", "owners and curator", [target_event(table.target)], TARGET_DELTA, TARGET_DELTA),
        *_figures("each owner", "other owners", between, delta, table.privacy.delta),
    ]


def _figures(
    protected: str, observer: str, events: list[Event], published: float, sound: float
) -> Iterator[PrivacyStatement]:
    accountants: tuple[tuple[Literal["published", "sound"], Bound], ...] = (
        ("published", Published().epsilon(events, published)),
        ("sound", Sound().epsilon(events, sound)),
    )
    for name, figure in accountants:
        if name == "sound" or figure.method != "none":
            delta = figure.delta if math.isfinite(figure.epsilon) else 0.0
            reason = figure.reason or figure.method
            yield PrivacyStatement(protected, observer, name, figure.epsilon, delta, "replace-one", 0, reason)
