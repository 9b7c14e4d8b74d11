"""Values that a consumer and the curator exchange about a run, independent of the transport.

`fedkme.wire.summaries` and `fedkme.wire.releases` convert them to messages and back, where a call arrives and
where an answer leaves.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedkme.errors import error_of
from fedkme.features.fixed_point import Features, MeanVector
from fedkme.features.fourier import FourierSpec
from fedkme.privacy.events import Disclosure
from fedkme.sealed.group import Gift
from fedkme.sealed.offers import KeyOffer


@dataclass(frozen=True, slots=True)
class SummaryRequest:
    """A consumer's request for a summary.

    Attributes:
        consumer: name of the consumer.
        request_id: 16 random bytes; a repeated request with the same bytes does not begin another run.
        schema: digest of the public schema.
        rows: p, rows of the summary.
        validation_rows: |D_v|, public.
        gamma: parameter of the kernel; None: by the median heuristic on the curator's public seed set.
        labelled: whether rows of D_v have classes, by which they can be counted; public.
        count_deviation: deviation of the noise on each count of D_v by cells, if the noise is Gaussian; 0:
            the noise is discrete Laplace, by the owners' epsilon.
        margins: most margins that D_v gives over a model of the pool; 0: none, as in earlier releases.
        replaces: `request_id` of this consumer's request that the new one replaces, and whose run the curator
            cancels if D_v has paid nothing for it; empty: none.
    """

    consumer: str
    request_id: bytes
    schema: str
    rows: int
    validation_rows: int
    gamma: float | None
    labelled: bool = False
    count_deviation: float = 0.0
    margins: int = 0
    replaces: bytes = b""


@dataclass(frozen=True, slots=True)
class ReleaseRequest:
    """A consumer's request for a release of synthetic data.

    Attributes:
        consumer: name of the consumer.
        request_id: 16 random bytes, as in `SummaryRequest`.
        schema: digest of the public schema.
        settings: settings of the release, one JSON object.
    """

    consumer: str
    request_id: bytes
    schema: str
    settings: str


@dataclass(frozen=True, slots=True)
class CellsPlan:
    """Public part of a summary by cells.

    Attributes:
        code_book: partition of rows into cells, as values of `CodeBook.to_json`.
        gamma: parameter of the exact kernel.
        rho: rows of owners for each row of the summary.
        classes: number of classes by which owners count each cell; 0: owners count by cells alone.
        sketch_share: share of the owners' epsilon for the cells; the histograms get the rest. 0: the usual
            0.3, or nothing where the cells come from seeds.
        menu: directions from which D_v may pick the first sign bits of the code book, as values of
            `Menu.to_json` (fedkme.cells.directions); None: D_v picks no direction.
    """

    code_book: Mapping[str, Any]
    gamma: float
    rho: float
    classes: int = 0
    sketch_share: float = 0.0
    menu: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class SummaryChoice:
    """Protocol of a summary, chosen from public facts or named by its curator, with its expected results.

    Attributes:
        protocol: name of the protocol in settings; never `auto`.
        ratio: rows of owners for each row of the summary, where the protocol has such a number.
        relative_mmd2: MMD^2 to D_v of the best form of the summary, with weights if they help, over that of p
            uniform rows of equal weight; empty: no forecast.
        accessed: number of owners' rows that the curator will see, or will have in sealed boxes.
        line: the choice in one line of words.
        disagrees: reason why the plan would have chosen another protocol than the named one; empty: it would
            have chosen the same.
    """

    protocol: str
    ratio: float
    relative_mmd2: tuple[float, ...]
    accessed: int
    line: str
    disagrees: str = ""


@dataclass(frozen=True, slots=True)
class Coalition:
    """Owners that counted their rows together, and their counts.

    Attributes:
        owners: names of the owners.
        rows: rows of all these owners.
        counts: counts by cell, or by class and cell, with noise, (L B,).
        deviation: standard deviation of the noise on each count.
    """

    owners: tuple[str, ...]
    rows: int
    counts: tuple[int, ...]
    deviation: float


@dataclass(frozen=True, slots=True)
class Plan:
    """Curator's answer to a request: the public choices of the run, from which the consumer makes its offer.

    Attributes:
        run: name of the run.
        features: draw of h1; of a secret draw, only the form.
        offered: whether the curator has the consumer's offer already, from an earlier call.
        cells: plan of a summary by cells, for which the consumer offers a histogram in place of g~.
        sealed: whether rows pass through the curator in boxes that only the consumer can open.
        secret_draw: whether h1 is drawn from the group secret, so that the curator chooses among hashes.
        offers: keys of the owners, with which the consumer seals the group secret.
        choice: chosen protocol; None before owners have joined.
    """

    run: str
    features: FourierSpec
    offered: bool = False
    cells: CellsPlan | None = None
    sealed: bool = False
    secret_draw: bool = False
    offers: tuple[KeyOffer, ...] = ()
    choice: SummaryChoice | None = None

    def shortened(self) -> Plan:
        """Copy of the plan without code book and keys, for lists."""
        return replace(self, cells=None, offers=())


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Offer:
    """A consumer's offer to the curator: `target` or `histogram`, which determines all messages to owners.

    Attributes:
        target: g~, the released mean of h1 over D_v, (d,).
        histogram: counts of D_v by cells with the consumer's noise, (B,).
        validation: D_v itself in schema columns, (m, c), where the curator is trusted with D_v and prunes.
        validation_classes: classes of these rows, (m,), where the rows have labels and the summary is made by
            class.
        disclosures: lines of the consumer's ledger about this request.
        gifts: sealed group secret for each owner, where rows go sealed.
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
    """Progress of a summary so far: rounds, rows of the summary, and points accessed."""

    round: int
    selected: int
    accessed: int


@dataclass(frozen=True, slots=True)
class StageProgress:
    """Progress of a release: the stage, a line for people, and the fraction of the stage that is done."""

    stage: str
    line: str
    fraction: float = 0.0


@dataclass(frozen=True, slots=True)
class Participation:
    """Owners of a run by number: expected, in it to its end, and the error's code of each that was lost."""

    expected: int
    took_part: int
    lost: tuple[int, ...] = ()

    @classmethod
    def from_json(cls, plain: Mapping[str, Any] | None) -> Participation | None:
        """Read plain values of `asdict`; None stays None."""
        return None if plain is None else cls(plain["expected"], plain["took_part"], tuple(plain["lost"]))

    @property
    def doubts(self) -> list[str]:
        """Reasons why a result of these owners' rows is at most fair: `line` where an owner was lost."""
        return [self.line] if self.lost else []

    @property
    def line(self) -> str:
        """The numbers in words, and why owners were lost; no names."""
        reasons = []
        for code, times in sorted(Counter(self.lost).items()):
            error = error_of(code, "", "")
            title = "" if error is None else f" ({error.title})"
            reasons.append(f"{'' if times == 1 else f'{times} times '}error {code}{title}")
        lost = f"; lost: {', '.join(reasons)}" if reasons else ""
        return f"{self.took_part} of {self.expected} owners took part to the end{lost}"


@dataclass(frozen=True, slots=True)
class Outcome:
    """End of a summary run, as reported to its consumer.

    Attributes:
        complete: whether the summary has all requested rows.
        reason: reason why rows are missing, in one line.
        rounds: number of rounds.
        points_accessed: number of rows that reached the curator.
        prune: whether there are more rows than requested, of which the consumer keeps the best.
        participation: owners of the run; None from an earlier release.
    """

    complete: bool
    reason: str
    rounds: int
    points_accessed: int
    prune: bool = False
    participation: Participation | None = None
