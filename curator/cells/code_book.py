"""The public code book of a run: of the seed set, or of a noisy sketch of owners' rows.

docs/decisions/007. A sketch is a question to the pool under the name RUN/cells, before the run itself: the
book is public from then on, D_v is counted in it, and owners' histograms are too.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from curator.planning.formulas import validation_epsilon
from curator.summary.settings import MOST_DIMENSION, SummarySettings
from curator.sums.owner_sums import OwnerSums
from fedkme.arrays import whole
from fedkme.cells.coalitions import coalition_rows, coalitions_of
from fedkme.cells.codebook import code_book_from_json, kmeans_book, sketch_book
from fedkme.cells.directions import MOST_OF_PICKS, Menu, pick_rule
from fedkme.cells.disclosures import sketch_of
from fedkme.cells.menu import make_menu, no_picks_words, offers_columns
from fedkme.cells.plan import bits_for, labels_help, target_cells
from fedkme.cells.projection import spec_for
from fedkme.errors import ConfigError, NotEnoughRowsError
from fedkme.exchange import Coalition, SummaryRequest
from fedkme.features.sums import Layout
from fedkme.margins.density import AnyBook
from fedkme.margins.model import PoolModel
from fedkme.privacy.gaussian import row_epsilon
from fedkme.protocol import IntendedSummary, Invitation, Security, SumTerms
from fedkme.protocols import SKETCH, variant
from fedkme.sums.values import CellCounts, SumQuery
from fedkme.tables.schema import Schema

MOST_OWNER_ROWS = 2**31
"""Sizes of owners are not known yet when cells of seeds are made: D_v's alone limits their number."""


@dataclass(frozen=True, eq=False, slots=True)
class PublicCells:
    """Public cells, as all parties have them before anybody counts.

    Owners count each by class where there are `classes`; `sketch_share` of their epsilon went into them.
    Where owners count in coalitions, these are `groups`, and `coalitions` what they have counted; else D_v
    may pick the first sign bits from a `menu`, or margins over a model of the pool.
    """

    book: AnyBook
    classes: int
    sketch_share: float
    groups: tuple[tuple[str, ...], ...] = ()
    coalitions: tuple[Coalition, ...] = ()
    menu: Menu | PoolModel | None = None

    def to_json(self) -> dict[str, Any]:
        """Plain values of cells before any count by them; `cells_from_json` reads the values back."""
        book, groups = self.book.to_json(), [list(group) for group in self.groups]
        return {"book": book, "classes": self.classes, "share": self.sketch_share, "groups": groups}


def cells_from_json(plain: Mapping[str, Any], schema: Schema) -> PublicCells:
    """Read what `PublicCells.to_json` wrote."""
    groups = tuple(tuple(group) for group in plain["groups"])
    return PublicCells(code_book_from_json(plain["book"], schema), plain["classes"], plain["share"], groups)


def of_seeds(
    settings: SummarySettings, schema: Schema, seeds: NDArray[np.float32], request: SummaryRequest, seed: int
) -> PublicCells:
    """k-means cells of public rows, (s, n) encoded, as many as |D_v|, which is public too, allows.

    Raises:
        ConfigError: there are fewer seed rows than cells.
    """
    bits = settings.cells.bits
    if bits is None:
        epsilon = settings.privacy.of_row
        of_target = validation_epsilon(settings, request.count_deviation)
        bits = bits_for(request.validation_rows, [MOST_OWNER_ROWS], of_target, epsilon)
    if len(seeds) < 2**bits:
        cause = f"a code book of {2**bits} cells is made of public seed rows, and there are {len(seeds)}"
        remedy = "Give the curator more seed rows, set 'cells.bits', or 'cells.code_book' to \"sketch\"."
        raise ConfigError(cause, remedy)
    spec = spec_for(schema, seed, settings.cells.dimension)
    return PublicCells(kmeans_book(seeds, 2**bits, spec, schema, seed), 0, 0.0)


def sketch_invitation(
    run: str,
    settings: SummarySettings,
    schema: Schema,
    consumer: str,
    security: Security | None,
    share: float,
    coalitions: bool,
    rows: int,
    expected: str = "",
) -> Invitation:
    """Terms of a sketch with a share of owners' epsilon, and of counts of coalitions where they follow.

    Owners' policies decide by them before it, and before D_v pays, on the summary of `rows` rows, too.
    """
    sketch = settings.owner_noise(share).sketch_event
    assert sketch is not None, "without a sketch there is nothing to invite to"
    events = settings.coalition_noise(share).events if coalitions else (sketch,)
    counts = () if coalitions else (settings.owner_noise(share).histogram.event,)
    ahead = IntendedSummary(variant("cells", settings.sealed).name, round(settings.cells.rho * rows), counts)
    terms = SumTerms(security, ahead)
    return Invitation(sketch_of(run), schema.digest(), consumer, SKETCH, events, terms, expected=expected)


async def of_owners(
    settings: SummarySettings,
    schema: Schema,
    pool: OwnerSums,
    request: SummaryRequest,
    seed: int,
    share: float,
    coalitions: bool = False,
) -> PublicCells:
    """Cells of a noisy sketch of all owners' rows; `pool` has invited them, to a sketch with this share.

    Where rows of D_v have classes, all rows are counted by their own; else owners' are, in cells of classes
    that the sketch tells apart. Owners that will count in coalitions are grouped by their sizes.

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
    of_sketch = 0.0  # is for owners' shares alone: the curator's noise follows from its multiplier
    if not pool.exact_sums:
        of_sketch = row_epsilon(share * privacy.epsilon, privacy.delta, privacy.group)
    sketch = await pool.sketch(query, noise.multiplier or 0.0, of_sketch, privacy.delta)
    bits, parts = settings.cells.bits, classes if labelled else 1
    sizes, of_counts = dict(pool.sizes), noise.histogram.epsilon
    groups: tuple[tuple[str, ...], ...] = ()
    if coalitions:
        shared = settings.coalition_noise(share)
        groups, of_counts = coalitions_of(sizes, coalition_rows(shared, parts)), shared.epsilon
        sizes = {group[0]: sum(sizes[name] for name in group) for group in groups}
    of_target, most = validation_epsilon(settings, request.count_deviation), 1 << (bits or 0)
    if bits is None:
        held = list(sizes.values())
        bits = bits_for(request.validation_rows, held, of_target, of_counts, parts)
        bits = min(bits, spec.dimension)  # of few columns there are few directions
        most = int(target_cells(request.validation_rows, of_target) / parts)
    own_class = labelled and request.labelled
    book = sketch_book(sketch, bits, spec, schema, own_class)
    picks, of_each = picking(settings, request, schema)
    menu = make_menu(sketch, book, schema, picks, of_each, most) if picks and not coalitions else None
    return PublicCells(book, classes if labelled and not own_class else 0, share, groups, menu=menu)


def picking(settings: SummarySettings, request: SummaryRequest, schema: Schema) -> tuple[int, float]:
    """Number of directions that D_v picks, and the share of its epsilon for each."""
    cells, spec = settings.cells, spec_for(schema, 0, settings.cells.dimension)
    of_target = validation_epsilon(settings, request.count_deviation)
    picks, share = pick_rule(request.validation_rows, of_target, offers_columns(spec, schema))
    if request.count_deviation:  # counts of another law cost no pure epsilon that picks could have a share of
        picks = 0
    picks = picks if cells.picks is None else cells.picks
    least = min(share, MOST_OF_PICKS / max(picks, 1))
    return picks, least if cells.pick_share is None else cells.pick_share


def picks_warning(settings: SummarySettings, schema: Schema, coalitions: bool = False) -> str:
    """Warning about `cells.picks`: what 0 costs, or why another number has no effect; else empty."""
    cells, spec = settings.cells, spec_for(schema, 0, settings.cells.dimension)
    if cells.picks == 0:
        return no_picks_words("cells.picks") if offers_columns(spec, schema) else ""
    if not cells.picks or cells.code_book == "release":
        return ""
    remedy = "leave out 'cells.picks'"
    if cells.code_book == "seeds":
        cause = "cells of public seeds have no menu"
        remedy = f"set 'cells.code_book' to \"sketch\", or {remedy}"
    elif coalitions:
        cause, remedy = "owners count in coalitions", f"set 'cells.coalitions' to false, or {remedy}"
    elif offers_columns(spec, schema):
        return ""
    else:
        cause = f"{spec.width} encoded columns, mostly numbers, are projected to {spec.dimension}"
        if spec.centre == "row":
            cause = "the schema has one block of like numbers"
        elif spec.width <= MOST_DIMENSION:
            remedy = f"set 'cells.dimension' to {spec.width}, or {remedy}"
    advice = remedy[0].upper() + remedy[1:]
    return f"'cells.picks' = {cells.picks} has no effect, D_v picks no direction: {cause}. {advice}"


async def counted(settings: SummarySettings, pool: OwnerSums, cells: PublicCells) -> PublicCells:
    """Cells with the noisy counts of their groups of owners, the second question to the pool.

    Raises:
        QuorumError: too few owners are left.
        SecureAggregationError: the aggregation failed; nothing was opened.
    """
    deviation = settings.coalition_noise(cells.sketch_share).deviation
    text = json.dumps(cells.book.to_json(), sort_keys=True, separators=(",", ":"))
    question = CellCounts(text, cells.classes, tuple(group[0] for group in cells.groups))
    tables = await pool.cells(question, deviation)
    rows, noise = pool.contributions, deviation * pool.noise_ratio
    members: list[list[str]] = [[] for _ in cells.groups]
    for name in sorted(rows.keys() | {name for group in cells.groups for name in group}):
        members[question.coalition_of(name)].append(name)  # who comes back after a restart counted, too
    counts = [tuple(whole(np.rint(table)).tolist()) for table in tables]
    coalitions = tuple(
        Coalition(tuple(group), sum(rows.get(name, 0) for name in group), own, noise)
        for group, own in zip(members, counts, strict=True)
    )
    return replace(cells, coalitions=tuple(each for each in coalitions if each.rows))
