"""The public code book of a run: of the seed set, or of a noisy sketch of owners' rows.

docs/decisions/008. A sketch is a question to the pool under the name RUN/cells, before the run itself: the
book is public from then on, D_v is counted in it, and owners' histograms are too.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from curator.summary.settings import SummarySettings
from curator.sums.owner_sums import OwnerSums
from fedkme.cells.codebook import CodeBook, kmeans_book, sketch_book
from fedkme.cells.disclosures import sketch_of
from fedkme.cells.plan import bits_for, labels_help
from fedkme.cells.projection import spec_for
from fedkme.errors import ConfigError, NotEnoughRowsError
from fedkme.exchange import SummaryRequest
from fedkme.features.sums import Layout
from fedkme.privacy.gaussian import row_epsilon
from fedkme.protocol import Invitation, Security, SumTerms
from fedkme.protocols import SKETCH
from fedkme.sums.values import SumQuery
from fedkme.tables.schema import Schema

MOST_OWNER_ROWS = 2**31
"""Sizes of owners are not known yet when cells of seeds are made: D_v's alone limits their number."""


@dataclass(frozen=True, eq=False, slots=True)
class PublicCells:
    """Public cells, as all parties have them before anybody counts.

    Owners count each by class where there are `classes`; `sketch_share` of their epsilon went into them.
    """

    book: CodeBook
    classes: int
    sketch_share: float


def of_seeds(
    settings: SummarySettings,
    schema: Schema,
    seeds: NDArray[np.float32],
    validation_rows: int,
    seed: int,
) -> PublicCells:
    """k-means cells of public rows, (s, n) encoded, as many as |D_v|, which is public too, allows.

    Raises:
        ConfigError: there are fewer seed rows than cells.
    """
    bits = settings.cells.bits
    if bits is None:
        epsilon = settings.privacy.of_row
        bits = bits_for(validation_rows, [MOST_OWNER_ROWS], epsilon, epsilon)
    if len(seeds) < 2**bits:
        raise ConfigError(
            f"a code book of {2**bits} cells is made of public seed rows, and there are {len(seeds)}",
            "Give the curator more seed rows, set 'cells.bits', or 'cells.code_book' to \"sketch\".",
        )
    spec = spec_for(schema, seed, settings.cells.dimension)
    return PublicCells(kmeans_book(seeds, 2**bits, spec, schema, seed), 0, 0.0)


def sketch_invitation(
    run: str,
    settings: SummarySettings,
    schema: Schema,
    consumer: str,
    security: Security | None,
    share: float,
) -> Invitation:
    """Terms of a sketch with a share of owners' epsilon, by which owners' policies decide before it."""
    event = settings.owner_noise(share).sketch_event
    assert event is not None, "without a sketch there is nothing to invite to"
    return Invitation(sketch_of(run), schema.digest(), consumer, SKETCH, (event,), SumTerms(security))


async def of_owners(
    settings: SummarySettings,
    schema: Schema,
    pool: OwnerSums,
    request: SummaryRequest,
    seed: int,
    share: float,
) -> PublicCells:
    """Cells of a noisy sketch of all owners' rows; `pool` has invited them, to a sketch with this share.

    Where rows of D_v have classes, all rows are counted by their own; else owners' are, in cells of classes
    that the sketch tells apart.

    Raises:
        NotEnoughRowsError: owners have no rows.
        QuorumError: too few owners are left.
        SecureAggregationError: the aggregation failed; nothing was opened.
    """
    noise = settings.owner_noise(share)
    rows, classes = pool.rows, len(schema.classes)
    if not rows:
        raise NotEnoughRowsError("there are no rows to sketch", "Start owners that have rows.")
    spec = spec_for(schema, seed, settings.cells.dimension)
    labelled = labels_help(rows, classes, settings.owner_noise().sketch_deviation)
    query = SumQuery((), Layout(classes if labelled else None), sketch=spec)
    privacy = settings.privacy
    of_sketch = row_epsilon(share * privacy.epsilon, privacy.delta, privacy.group)
    sketch = await pool.sketch(query, noise.multiplier or 0.0, of_sketch, privacy.delta)
    bits = settings.cells.bits
    if bits is None:
        sizes = list(pool.sizes.values())
        epsilon = privacy.of_row
        parts = classes if labelled else 1
        most = bits_for(request.validation_rows, sizes, epsilon, noise.histogram.epsilon, parts)
        bits = min(most, spec.dimension)  # of few columns there are few directions
    own_class = labelled and request.labelled
    book = sketch_book(sketch, bits, spec, schema, own_class)
    return PublicCells(book, classes if labelled and not own_class else 0, share)


def facts(cells: PublicCells) -> dict[str, Any]:
    """Facts about the cells for record.json."""
    return {"cells": cells.book.cells, "kind": cells.book.kind, "classes": cells.classes}
