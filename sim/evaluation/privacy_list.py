"""The privacy list of metrics.json: what each observer can learn, by the paper's arithmetic and by proof.

Mechanisms become events, and two accountants read the same ones. Only `sound` figures are guarantees; what
has no proof says so, with epsilon = inf and the reason.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any, Literal

from curator.summary.auctions import PrivAuctionSettings
from curator.sums.settings import SecuritySettings
from fedkme.cells.histogram import histogram_noise
from fedkme.privacy.accountants import Published, Sound
from fedkme.privacy.accounting import PrivacyStatement
from fedkme.privacy.events import Event, ExactStatistic, HashedRows, MwemCall, PrivAuction
from fedkme.privacy.settings import GaussianSettings, MwemTargetSettings, target_event
from sim.config import SummaryTable

REPLACE = "replace one row"
TARGET_DELTA = 0.01
"""delta at which the paper states D_v's epsilon."""
SUMMARY_DELTA = 1e-4
"""delta at which the paper states the summary's epsilon."""


def privacy_list(
    table: SummaryTable, record: Mapping[str, Any], security: SecuritySettings | None = None
) -> list[PrivacyStatement]:
    """The privacy of one run.

    Args:
        table: the run's settings.
        record: the curator's record.json.
        security: how sums over owners' rows were protected.
    """
    return [
        *_of_validation(table, record),
        *_between_owners(table, record),
        *_of_rows(table, record, security),
    ]


def published_variant(table: SummaryTable, record: Mapping[str, Any]) -> list[PrivacyStatement]:
    """What the paper's variant of the same run would claim, and what is true of it; empty for such a run."""
    if table.preset == "published" or table.protocol == "cells":
        return []
    request = {"p": table.p, "preset": "published"}
    variant = SummaryTable.model_validate(request)
    return [
        *_of_validation(variant, dict(record) | {"validation_points": 0}),
        *_between_owners(variant, record),
    ]


def _of_validation(table: SummaryTable, record: Mapping[str, Any]) -> Iterator[PrivacyStatement]:
    raw = int(record["validation_points"])
    if raw:
        yield PrivacyStatement(
            "D_v", "curator", "sound", math.inf, 0.0, REPLACE, raw, "the curator was trusted with D_v"
        )
    observer = "owners" if raw else "owners and curator"
    events: list[Event] = []
    if table.kernel.gamma == "median-validation":
        events.append(ExactStatistic("gamma, a median distance of D_v"))
    if table.protocol == "cells":
        events.append(histogram_noise(table.privacy.epsilon).event)
        yield from _figures("D_v", observer, events, None, table.privacy.delta)
        return
    target = table.target
    events.append(target_event(target))
    if isinstance(target, MwemTargetSettings):
        yield from _figures("D_v", observer, events, TARGET_DELTA, TARGET_DELTA)
    else:
        delta = target.delta if isinstance(target, GaussianSettings) else table.privacy.delta
        yield from _figures("D_v", observer, events, None, delta)


def _between_owners(table: SummaryTable, record: Mapping[str, Any]) -> Iterator[PrivacyStatement]:
    """What owners learn of each other: published claims, then what holds."""
    who = ("each owner", "other owners")
    if table.protocol == "uniform":
        reason = "owners draw their own rows and are told nothing about others"
        yield PrivacyStatement(*who, "sound", 0.0, 0.0, REPLACE, 0, reason)
        return
    events = table.between_owners(table.p, len(record["owner_rows"]))
    published = all(isinstance(event, MwemCall | PrivAuction) for event in events)
    delta = table.privacy.delta
    claimed = SUMMARY_DELTA
    if published and isinstance(table.auction, PrivAuctionSettings):
        claimed += table.auction.delta
    yield from _figures(*who, events, claimed if published else None, delta)


def _figures(
    protected: str, observer: str, events: list[Event], published: float | None, sound: float
) -> Iterator[PrivacyStatement]:
    """Statements of both accountants; `published` only at a delta that the paper states."""
    for accountant, delta in ((Published(), published), (Sound(), sound)):
        if delta is None:
            continue
        figure = accountant.epsilon(events, delta)
        reason = figure.reason or figure.method
        name: Literal["published", "sound"] = "published" if isinstance(accountant, Published) else "sound"
        shown = delta if math.isfinite(figure.epsilon) else 0.0
        yield PrivacyStatement(protected, observer, name, figure.epsilon, shown, REPLACE, 0, reason)


def _of_rows(
    table: SummaryTable, record: Mapping[str, Any], security: SecuritySettings | None
) -> Iterator[PrivacyStatement]:
    used = [owner for owner, *_ in record["selected"]]
    if table.sealed:
        yield from _figures(
            "each owner", "curator", _beside_boxes(table, security), None, table.privacy.delta
        )
    for name, accessed in record["accessed"].items():
        if not table.sealed and table.protocol == "cells" and not accessed:
            yield from _figures(name, "curator", _beside_boxes(table, security), None, table.privacy.delta)
        elif not table.sealed:
            why = "the curator sees rows as they are"
            yield PrivacyStatement(name, "curator", "sound", math.inf, 0.0, REPLACE, accessed, why)
        why = "the consumer receives rows"
        yield PrivacyStatement(name, "consumer", "sound", math.inf, 0.0, REPLACE, used.count(name), why)


def _beside_boxes(table: SummaryTable, security: SecuritySettings | None) -> list[Event]:
    """What a curator that carries sealed rows learns of an owner's; boxes themselves tell nothing."""
    if table.protocol == "algorithm3":
        return [HashedRows(1)]
    if table.protocol != "cells":
        return []
    noise = table.owner_noise()
    if noise.sketch_event is None:
        return [noise.histogram.event]
    if security is not None and security.distributed_noise:
        return [noise.histogram.event, noise.sketch_event]
    return [noise.histogram.event, ExactStatistic("sums over all rows, of which the code book is made,")]
