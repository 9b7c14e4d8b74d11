"""Settings of a summary run on the curator's side."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import AfterValidator, Field, model_validator

from curator.summary.auctions.base import AnyAuction
from curator.summary.auctions.clock import ClockSettings
from fedkme.cells.coalitions import CoalitionNoise, coalition_noise
from fedkme.cells.codebook import MOST_PICKS
from fedkme.cells.directions import MOST_OF_PICKS, USUAL_PICKS
from fedkme.cells.plan import RELEASE_SHARE, SKETCH_SHARE, OwnerNoise, owner_noise
from fedkme.config import Settings
from fedkme.exchange import SummaryChoice
from fedkme.privacy.events import Event
from fedkme.privacy.presets import Preset, PrivacyTarget, with_preset
from fedkme.privacy.settings import AnyMean, GaussianSettings, broadcast_events
from fedkme.protocols import ALGORITHM3, AUTO, Protocol, summaries, variant

MOST_DIMENSION = 512
"""Most coordinates in which a code book measures rows."""


class CellsSettings(Settings):
    """Settings of a summary by cells that the curator decides (docs/decisions/007)."""

    retired: ClassVar[Mapping[str, Any]] = {"fill": "design"}

    rho: float = Field(2.0, ge=1, le=10)
    """Rows that owners send for each row of the summary; the best rows are kept, and no owner is told
    which."""
    uniform: float | None = Field(None, ge=0, le=1)
    """Share of these rows that owners draw uniformly, whatever the histograms say: a summary with weights is
    then never worse than a summary of as many uniform rows alone. None: a quarter where D_v is small compared
    with its noise, else half where D_v looks like the pool, else 0; or D_v's share in cells where no owner
    has rows, if that share is larger (docs/decisions/008)."""
    code_book: Literal["auto", "seeds", "sketch", "release"] = "auto"
    """Source of the public cells: `seeds`, k-means of the public seed set, at no cost; `sketch`, noisy
    second moments of owners' rows, for a part of their epsilon, with sums by class where labels help;
    `release`, a release of owners' rows for most of their epsilon, of which D_v picks columns and gives their
    margins (docs/decisions/009). `auto`: a release where D_v and owners have 120 and 100 rows at epsilon 1 or
    more, and the rows are a table of 64 columns, of 64 names each, or less; else, and where a part of a
    sketch is set, a sketch."""
    release: Path | None = None
    """Folder of a release that exists, of the same owners' rows by the same schema: D_v gives margins over
    it, and owners pay a tenth of epsilon for counts, as beside a release of the run's own. None: the run asks
    for what it needs."""
    bits: int | None = Field(None, ge=2, le=8)
    """The code book has 2^bits cells; None: as many as the noise of the histograms allows."""
    coalitions: bool | None = None
    """True: counts of whole coalitions replace each owner's own histogram (docs/decisions/007); coalitions
    need a sketch. None: coalitions where owners are many and small, by the sizes that owners give when they
    join."""
    picks: int | None = Field(None, ge=0, le=MOST_PICKS)
    """Directions that D_v chooses for the first sign bits of a sketch's code book (docs/decisions/009), where
    owners count by themselves. None: two where epsilon |D_v| is at least 75, one where it is at least 25, and
    rows are not projected (`dimension` is no less than their columns, encoded), or have categories and not
    too many numbers (docs/decisions/009); else 0."""
    pick_share: float | None = Field(None, gt=0, le=0.5)
    """Share of D_v's epsilon for each pick; D_v's histogram gets the rest. None: 37.5 / (epsilon |D_v|), and
    at most half of epsilon for all picks."""
    dimension: int = Field(128, ge=2, le=MOST_DIMENSION)
    """Number of coordinates in which a code book measures rows."""

    @property
    def at_no_cost(self) -> bool:
        """Check whether the cells cost nothing: they are of public seeds, or of a release that exists."""
        return self.code_book == "seeds" or self.release is not None

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.release is not None and (self.coalitions or self.code_book not in ("auto", "release")):
            cause = "release: cells are of it, and 'code_book' or 'coalitions' name others; leave them out"
            raise ValueError(cause)
        if self.coalitions and self.code_book in ("seeds", "release"):
            raise ValueError("coalitions need a sketch, and the code book is of public seeds or of a release")
        picks = USUAL_PICKS if self.picks is None else self.picks
        if picks * (self.pick_share or 0.0) > MOST_OF_PICKS:
            cause = "directions that D_v picks may have half of its epsilon, and the rest is for counts"
            raise ValueError(cause)
        return self


def _known_protocol(name: str) -> str:
    if name not in (names := summaries()):
        raise ValueError(f"{name[:40]!r} makes no summary; choose one of {', '.join(names)}")
    return name


class FeatureSettings(Settings):
    """Settings of h1, the random features."""

    kind: Literal["paired", "offset"] = "paired"
    """`offset` is the paper's cos(w.x + b); `paired` has norm exactly 1 and a lower variance."""
    dimension: int = Field(140, ge=2, le=8192)
    """d; the paper's 140."""


class SummarySettings(Settings):
    """Settings of a summary that the curator decides; the consumer decides p, gamma and D_v's protection."""

    retired: ClassVar[Mapping[str, Any]] = {"landmarks": 0, "payouts": 0}

    preset: Preset = "sound"
    """Source of the mechanisms that the settings leave out: `sound` derives them from `privacy`."""
    privacy: PrivacyTarget = PrivacyTarget()
    """The total that owners' rows may cost towards other owners."""
    protocol: Annotated[str, AfterValidator(_known_protocol)] = AUTO
    """`auto`: the plan chooses `cells` or `uniform` by public facts when owners are here
    (docs/decisions/008); with the preset `published` it is `algorithm3`. By name: `algorithm3`: rounds by the
    auction. `cells`: owners fill an order by cells of a public code book, in one round (docs/decisions/007).
    `uniform` draws p/K rows from each owner and looks at no data."""
    content: Literal["rows", "hashed"] = "rows"
    """Form of the rows that the curator handles: `rows`, plain rows; `hashed`, sealed boxes that the consumer
    alone can open, and where the curator has to choose rows also h1 under a draw that the curator does not
    know (docs/decisions/010)."""
    uniform_ratio: float = Field(1.0, ge=1, le=20)
    """Rows that `uniform` draws for each row of the summary. With more than 1 the consumer keeps the best
    rows, exactly, and tells nobody which: this costs more rows, and no epsilon of owners."""
    cells: CellsSettings = CellsSettings()
    """Settings of the cells protocol."""
    features: FeatureSettings = FeatureSettings()
    broadcast: AnyMean = GaussianSettings(epsilon=0.5)
    """h2 of the current summary."""
    seed_set: Literal["counted", "subtracted"] = "subtracted"
    """The paper matches D_v with the summary *and* its seed set, and returns the summary alone (`counted`).
    `subtracted` takes the public seed set out of the broadcast mean, so that the returned rows alone match
    D_v."""
    auction: AnyAuction = ClockSettings()
    """Auction by which Algorithm 3 chooses a row in each round."""
    quorum: int = Field(1, ge=1)
    """Fewest owners: with fewer the run stops and keeps its rows so far. In a CURATOR.toml that names
    `owners` the default is more than half of them."""

    @model_validator(mode="before")
    @classmethod
    def _fill(cls, values: Any) -> Any:
        if not isinstance(values, dict):
            return values
        if values.get("protocol", AUTO) == AUTO and values.get("preset") == "published":
            values = {**values, "protocol": ALGORITHM3}
        if "auction" in values or "broadcast" in values:  # parts of Algorithm 3 name it
            values = {"protocol": ALGORITHM3, **values}
        filled = with_preset(values)  # also fills D_v's mechanism, which the consumer sets
        return {key: filled[key] for key in filled if key in values or key in cls.model_fields}

    @property
    def sealed(self) -> bool:
        """Check whether rows pass the curator in sealed boxes."""
        return self.content == "hashed"

    @property
    def asks_owners(self) -> bool:
        """Check whether a plan needs owners: for the choice, a sketch of their rows, or their keys."""
        return self.protocol == AUTO or self.sketched or self.sealed

    @property
    def sketched(self) -> bool:
        """Check whether owners' rows are sketched before the plan; the sketch asks for their consent."""
        return self.protocol == "cells" and not self.cells.at_no_cost

    @property
    def row(self) -> Protocol:
        """The protocol that owners are asked to take part in.

        Raises:
            ValueError: the protocol is `auto`, which each run's choice resolves first; see `resolved`.
        """
        if self.protocol == AUTO:
            raise ValueError("the protocol is chosen for each run: resolve these settings first")
        base = self.auction.kind if self.protocol == ALGORITHM3 else self.protocol
        return variant(base, self.sealed)

    def placed(self, place: Callable[[Path], Path]) -> Self:
        """Settings in which the path of a release is as `place` has it."""
        if (folder := self.cells.release) is None:
            return self
        return self.model_copy(update={"cells": self.cells.model_copy(update={"release": place(folder)})})

    def resolved(self, choice: SummaryChoice) -> Self:
        """Settings of a run with its choice applied."""
        changes: dict[str, Any] = {"protocol": choice.protocol}
        if choice.protocol == "uniform":
            changes["uniform_ratio"] = choice.ratio
        elif choice.protocol == "cells":
            changes["cells"] = self.cells.model_copy(update={"rho": choice.ratio})
        return self.model_copy(update=changes)

    def drawn(self, rows: int) -> int:
        """Rows to ask owners for, for a summary of `rows` rows: uniform draws ask for more."""
        return round(self.uniform_ratio * rows) if self.row.family == "uniform" else rows

    def owner_noise(self, share: float = 0.0) -> OwnerNoise:
        """Noise on an owner's rows in the cells protocol, its sketch and its histogram together.

        The sketch's share is chosen for each run, 0 for the usual share; the total cost is the same.
        """
        share = 0.0 if self.cells.at_no_cost else share or SKETCH_SHARE
        of_counts = 1.0 if self.cells.release is None else 1.0 - RELEASE_SHARE
        noise = owner_noise(of_counts * self.privacy.epsilon, self.privacy.delta, share)
        return noise.for_group(self.privacy.group)

    def coalition_noise(self, share: float) -> CoalitionNoise:
        """Noise on the rows of an owner in a coalition, whose sketch gets this share of epsilon."""
        privacy = self.privacy
        return coalition_noise(privacy.epsilon, privacy.delta, share).for_group(privacy.group)

    def between_owners(self, rows: int, owners: int) -> list[Event]:
        """Events of what owners will learn about each other in a run of `rows` rows over `owners` owners."""
        if self.row.family == "uniform" or not owners:
            return []
        if self.row.family == "cells":
            return [self.owner_noise().event]
        auction = self.auction
        broadcasts = broadcast_events(self.broadcast, rows, auction.exchanged_rows)
        return [*broadcasts, auction.event(rows, owners)]
