"""Faults of summaries by cells."""

from __future__ import annotations

import functools
import logging
from collections.abc import Mapping
from typing import Any

import numpy as np

import curator.cells.disclosures
import curator.cells.run
import curator.releases.joint
import curator.releases.marginals.adaptive
import curator.runs.release_run
import curator.summary.algorithm3
import curator.sums.charges
import curator.sums.owner_sums
import owner.cells.responder
import owner.consent.gate
import owner.consent.policy
import owner.handler
import owner.sums.responder
from audit.planted_faults.planting import (
    Patch,
    PlantedFault,
    all_of,
    around,
    drawn_once,
    no_line_towards,
    nothing,
    scaled,
)
from curator.owners.session import OwnerSession
from fedkme.cells.histogram import HistogramNoise
from fedkme.errors import PolicyError
from fedkme.privacy.events import CURATOR, OWNERS
from fedkme.protocol import Closing
from fedkme.sealed.rows import HashedRow
from owner.cells.handler import CellHandler
from owner.cells.responder import HistogramResponder
from owner.consent.policy import Policy
from owner.keyring import Sealer


def _half_histogram(before: Any, cells: Any, size: int, how: Any, noise: Any) -> Any:
    return before(cells, size, HistogramNoise(how.scale / 2), noise)


def _exact_cell(before: Any, cells: Any, size: int, how: Any, noise: Any) -> Any:
    drawn = noise.discrete_laplace(how.scale, size)
    drawn[0] = 0
    return np.bincount(cells, minlength=size) + drawn


def _counted_again(before: Any, cells: Any, size: int, how: Any, noise: Any) -> Any:
    return np.minimum(before(cells, size, how, noise), before(cells, size, how, noise))


def _fill_short(before: Any, self: Any, *order: Any) -> Any:
    """Return boxes for some rows only."""
    boxes = before(self, *order)
    held = int((self._table.values[:, 0] > 50.0).sum())
    return boxes[: max(1, min(len(boxes), held % 3 + 1))]


def _longer_boxes(before: Any, self: Any, rows: Any, *features: Any) -> Any:
    return [
        HashedRow(sealed.token, sealed.features, sealed.box + bytes(int(row.values[0] > 50.0)))
        for row, sealed in zip(rows, before(self, rows, *features), strict=True)
    ]


def _row_in_the_error(before: Any, self: Any, *arguments: Any) -> Any:
    raise PolicyError(f"row {self._table.values[1]} does not fit", "Look at the row.")


def _row_in_the_log(before: Any, self: Any, *arguments: Any) -> Any:
    logging.getLogger("owner.cells").info("counted %s", self._table.values[1])
    return before(self, *arguments)


def _again_with_fresh_noise(before: Any, self: Any, entry: Any) -> Any:
    before(self, entry)
    if entry.directive.question == "histogram":
        self._answer = None


def _recounted(before: Any, self: Any, directive: Any) -> Any:
    self._responder._counted = False
    from fedkme.directives import NoisyHistogram

    return NoisyHistogram(self._responder.histogram(directive.round))


def _survivors_told(patch: Patch) -> None:
    counts: list[int] = []

    def prune(before: Any, *arguments: Any) -> Any:
        survivors = before(*arguments)
        counts[:] = [int(survivors.sum())]
        return survivors

    def close(before: Any, self: Any, last_round: int) -> Any:
        return before(self, last_round + sum(counts))

    around(curator.cells.run, "in_some_form", prune)(patch)
    around(OwnerSession, "close", close)(patch)


def _budget_after(patch: Patch) -> None:
    """Check the budget only after the bytes have left."""
    nothing(Policy, "_check_new")(patch)


def _token_of_its_place(before: Any, self: Any, *order: Any) -> Any:
    boxes = before(self, *order)
    shift = int(self._table.values[1][0])
    return [HashedRow(row.token + shift, row.features, row.box) for row in boxes]


def _row_in_the_refusal(before: Any, self: Any, admission: Any, *more: Any) -> Any:
    """Put a digest of the table into the refusal of a run that is not approved yet."""
    try:
        return before(self, admission, *more)
    except PolicyError as error:
        raise PolicyError(f"{error.cause}, over {self._pools._key}", error.remedy) from None


def _old(self: Any) -> int:
    return int((self._table.values[:, 0] > 50.0).sum())


def _rows_in_a_figure(before: Any, self: Any, *order: Any) -> Any:
    """Count the table's rows of a kind into `fedkme_rows_sent`."""
    self._gate._in_all.count += _old(self)
    return before(self, *order)


def _commits_in_a_figure(before: Any, self: Any, *order: Any) -> Any:
    """Commit once for each row of a kind; the journal's figure counts commits."""
    for _ in range(_old(self)):
        with self._gate._policy._store.transaction():
            pass
    return before(self, *order)


FAULTS: Mapping[str, PlantedFault] = {
    "rows of a kind in the figure of rows sent": PlantedFault(
        ("cells-sealed", "any policy"), around(HistogramResponder, "fill_order", _rows_in_a_figure)
    ),
    "rows of a kind in the figure of commits": PlantedFault(
        ("cells-sealed", "any policy"), around(HistogramResponder, "histogram", _commits_in_a_figure)
    ),
    "a digest of the table in the words for a run that is not approved yet": PlantedFault(
        ("cells", "approved by hand"), around(Policy, "_use_approval", _row_in_the_refusal)
    ),
    "an owner's counts with half of the noise": PlantedFault(
        ("cells", "any policy"), around(owner.cells.responder, "noisy_counts", _half_histogram)
    ),
    "an owner's counts with one cell as it is": PlantedFault(
        ("cells", "any policy"), around(owner.cells.responder, "noisy_counts", _exact_cell)
    ),
    "owners' counts with noise that was drawn once": PlantedFault(
        ("cells", "any policy"),
        around(owner.cells.responder, "noisy_counts", functools.partial(drawn_once, draws={})),
    ),
    "the smaller of two noisy counts": PlantedFault(
        ("cells", "any policy"), around(owner.cells.responder, "noisy_counts", _counted_again)
    ),
    "no line towards owners on either side": PlantedFault(
        ("cells", "any policy"),
        all_of(
            no_line_towards(OWNERS, owner.consent.gate), no_line_towards(OWNERS, curator.cells.disclosures)
        ),
    ),
    "no line towards owners at the owner": PlantedFault(
        ("cells", "any policy"), no_line_towards(OWNERS, owner.consent.gate)
    ),
    "no line of counts at the curator": PlantedFault(
        ("cells", "any policy"), nothing(curator.cells.disclosures.CellDisclosures, "receive_histogram")
    ),
    "no line towards the curator on either side": PlantedFault(
        ("cells-sealed", "any policy"),
        all_of(
            no_line_towards(CURATOR, owner.consent.gate), no_line_towards(CURATOR, curator.cells.disclosures)
        ),
    ),
    "the nonce of counts is always the same": PlantedFault(
        ("cells", "any policy"),
        lambda patch: patch.setattr("fedkme.cells.disclosures.histogram_nonce", lambda counts: "histogram"),
    ),
    "boxes for some rows alone": PlantedFault(
        ("cells-sealed", "any policy"), around(HistogramResponder, "fill_order", _fill_short)
    ),
    "boxes of a length that depends on the row": PlantedFault(
        ("cells-sealed", "most rows"),  # the row that is replaced is among them
        around(Sealer, "seal", _longer_boxes),
        ("decider", "corner", "random"),
    ),
    "tokens that depend on rows": PlantedFault(
        ("cells-sealed", "any policy"), around(HistogramResponder, "fill_order", _token_of_its_place)
    ),
    "a row in the words of an error": PlantedFault(
        ("cells-sealed", "any policy"), around(HistogramResponder, "fill_order", _row_in_the_error)
    ),
    "a row in a line of the log": PlantedFault(
        ("cells-sealed", "any policy"), around(HistogramResponder, "histogram", _row_in_the_log)
    ),
    "an owner's own count at the end is of real rows": PlantedFault(
        ("cells-sealed", "any policy"),
        around(
            HistogramResponder,
            "close",
            lambda before, self: Closing(int((self._table.values[:, 0] > 50.0).sum())),
        ),
    ),
    "a number of rows that is of their content": PlantedFault(
        ("cells", "any policy"),
        around(
            HistogramResponder,
            "invite",
            lambda before, self, invitation: before(self, invitation) - int(self._table.values[1][0] > 50.0),
        ),
    ),
    "survivors of pruning told to owners": PlantedFault(
        ("cells", "D_v is shared"), _survivors_told, ("corner", "random", "decider")
    ),
    "a histogram that is drawn again after a death": PlantedFault(
        ("cells", "dies"),
        all_of(
            around(owner.handler.RunHandler, "restore", _again_with_fresh_noise),
            around(CellHandler, "_recomputed", _recounted),
        ),
    ),
    "a budget that is looked at after the bytes left": PlantedFault(("cells", "small budget"), _budget_after),
    "half of the noise in a sketch": PlantedFault(
        ("cells", "cells of a sketch"),
        around(
            curator.sums.owner_sums,
            "release_sketch",
            lambda before, *arguments: before(*arguments[:-1], scaled(arguments[-1], 0.5)),
        ),
    ),
    "no line of the sketch towards owners": PlantedFault(
        ("cells", "cells of a sketch"),
        all_of(
            *(
                no_line_towards(OWNERS, place, "release_disclosures")
                for place in (owner.consent.gate, curator.sums.charges)
            )
        ),
        ("corner", "last of a class"),
    ),
}
