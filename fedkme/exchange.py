"""Values that a consumer and the curator exchange about a run, free of any transport.

`fedkme.wire.summaries` and `fedkme.wire.releases` turn them into messages and back, once where a call comes
in and once where an answer leaves.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedkme.features.fixed_point import Features, MeanVector
from fedkme.features.fourier import FourierSpec
from fedkme.privacy.events import Disclosure
from fedkme.protocol import Fill
from fedkme.sealed.group import Gift
from fedkme.sealed.offers import KeyOffer


@dataclass(frozen=True, slots=True)
class SummaryRequest:
    """A consumer's request for a summary.

    Attributes:
        consumer: its name.
        request_id: 16 random bytes; asking again with them does not begin another run.
        schema: digest of the public schema.
        rows: p.
        validation_rows: |D_v|, public.
        gamma: of the kernel; None: by the median heuristic on the curator's public seed set.
        labelled: whether rows of D_v have classes, by which it can be counted; public.
        count_deviation: of the noise on each count of D_v by cells, where its law is not discrete Laplace; 0:
            as with owners' epsilon.
    """

    consumer: str
    request_id: bytes
    schema: str
    rows: int
    validation_rows: int
    gamma: float | None
    labelled: bool = False
    count_deviation: float = 0.0


@dataclass(frozen=True, slots=True)
class ReleaseRequest:
    """A consumer's request for a release of synthetic data.

    Attributes:
        consumer: its name.
        request_id: as of a summary.
        schema: digest of the public schema.
        settings: what is to be released and how, one JSON object.
    """

    consumer: str
    request_id: bytes
    schema: str
    settings: str


@dataclass(frozen=True, slots=True)
class CellsPlan:
    """Public part of a summary by cells.

    Attributes:
        code_book: a partition of rows into cells, as `CodeBook.to_json` has it.
        gamma: of the exact kernel.
        rho: rows of owners for each row of the summary.
        classes: of the label by which owners count each cell; 0 for cells alone.
        fill: how owners pick rows that fill an order.
        sketch_share: share of owners' epsilon that the cells cost, their histograms get the rest; 0: the
            usual 0.3, or nothing where seeds made the cells.
        menu: directions from which D_v may pick the first sign bits of the code book, as `Menu.to_json` of
            fedkme.cells.directions has it; None: it picks none.
    """

    code_book: Mapping[str, Any]
    gamma: float
    rho: float
    classes: int = 0
    fill: Fill = "herding"
    sketch_share: float = 0.0
    menu: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class SummaryChoice:
    """Protocol of a summary, chosen from public facts or named by its curator, and what is expected of it.

    Attributes:
        protocol: its word in settings; never `auto`.
        ratio: rows of owners for each row of the summary, where the protocol has such a number.
        relative_mmd2: MMD^2 to D_v of the best form of the summary, weights allowed, over that of p uniform
            rows alike: the middle and the ends of what is likely; empty where there is no estimate.
        accessed: owners' rows that the curator will see, or will have in boxes.
        line: of words.
        disagrees: why the plan would have taken another protocol than the one named; empty if it would not.
    """

    protocol: str
    ratio: float
    relative_mmd2: tuple[float, ...]
    accessed: int
    line: str
    disagrees: str = ""


@dataclass(frozen=True, slots=True)
class Coalition:
    """Owners that counted their rows together, and what they counted.

    Attributes:
        owners: their names.
        rows: of all of them.
        counts: by cell, or by class and cell, with noise, (L B,).
        deviation: of the noise on each count.
    """

    owners: tuple[str, ...]
    rows: int
    counts: tuple[int, ...]
    deviation: float


@dataclass(frozen=True, slots=True)
class Plan:
    """Curator's answer to a request: the public choices of the run, by which the consumer makes its offer.

    Attributes:
        run: name of the run.
        features: the draw of h1; of a secret draw, its form alone.
        offered: whether the curator has the consumer's offer already, from an earlier call.
        cells: of a summary by cells: a histogram is to be offered in place of g~.
        sealed: whether rows go through the curator in boxes that the consumer alone opens.
        secret_draw: whether h1 is drawn from the group secret, so that the curator chooses among hashes.
        offers: keys of the owners, for which the consumer seals the group secret.
        choice: of the protocol; None from an earlier release, and before owners are here.
        landmarks: public rows in whose kernels g~ is to be measured, encoded, little-endian
            float32, one after another; empty: in coordinates of h1.
        packs: whether the curator reads rows of D_v itself in one piece, and not one by one.
    """

    run: str
    features: FourierSpec
    offered: bool = False
    cells: CellsPlan | None = None
    sealed: bool = False
    secret_draw: bool = False
    offers: tuple[KeyOffer, ...] = ()
    choice: SummaryChoice | None = None
    landmarks: bytes = b""
    packs: bool = False

    def shortened(self) -> Plan:
        """The plan without code book and keys, for lists."""
        return replace(self, cells=None, offers=())


@dataclass(frozen=True, slots=True, eq=False)
class Offer:
    """Part of D_v that the curator gets: `target` or `histogram`, from which follows all that owners hear.

    Attributes:
        target: g~, the released mean of h1 over D_v, (d,).
        histogram: D_v by cells with the consumer's noise, (B,).
        validation: D_v itself in schema columns, (m, c), where the curator is trusted with it and prunes.
        validation_classes: of these rows, (m,), where they have labels and summaries are made by them.
        disclosures: lines of the consumer's ledger about this request.
        gifts: the group secret by owner, where rows go sealed.
        reference: h1 of random rows, by which auctions set prices, (r, d), where the draw of h1 is secret.
        picks: directions of the plan's menu that are the first sign bits of the cells of `histogram`.
    """

    target: MeanVector | None = None
    histogram: NDArray[np.int64] | None = None
    validation: NDArray[np.float64] | None = None
    disclosures: tuple[Disclosure, ...] = ()
    gifts: Mapping[str, Gift] = field(default_factory=dict)
    reference: Features | None = None
    picks: tuple[int, ...] = ()
    validation_classes: NDArray[np.int64] | None = None


@dataclass(frozen=True, slots=True)
class RoundProgress:
    """Progress of a summary: rounds, rows of the summary, and points accessed so far."""

    round: int
    selected: int
    accessed: int


@dataclass(frozen=True, slots=True)
class StageProgress:
    """Progress of a release: a stage, a line that a person reads, and how much of the stage is done."""

    stage: str
    line: str
    fraction: float = 0.0


@dataclass(frozen=True, slots=True)
class Outcome:
    """End of a summary run, as its consumer hears it.

    Attributes:
        complete: whether the summary has as many rows as were asked for.
        reason: why it has not, in one line.
        rounds: number of rounds.
        points_accessed: rows that reached the curator.
        prune: whether there are more rows than were asked for, of which the consumer keeps the best.
    """

    complete: bool
    reason: str
    rounds: int
    points_accessed: int
    prune: bool = False
