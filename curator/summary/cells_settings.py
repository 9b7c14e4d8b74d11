"""Settings of the cells protocol."""

from __future__ import annotations

from typing import Literal, Self

from pydantic import Field, model_validator

from fedkme.cells.directions import MOST_OF_PICKS, MOST_PICKS, USUAL_PICKS
from fedkme.config import Settings
from fedkme.protocol import Fill


class CellsSettings(Settings):
    """Settings of a summary by cells that the curator decides (docs/decisions/007)."""

    rho: float = Field(2.0, ge=1, le=10)
    """Rows that owners send for each row of the summary; the best rows are kept, and no owner is told
    which."""
    uniform: float | None = Field(None, ge=0, le=1)
    """Share of these rows that owners draw uniformly, whatever the histograms say: a summary with weights is
    then never worse than a summary of as many uniform rows alone. None: a quarter where D_v is small compared
    with its noise, else half where D_v looks like the pool, else 0; or D_v's share in cells where no owner
    has rows, if that share is larger (docs/decisions/008)."""
    fill: Fill = "design"
    """Rule by which owners pick rows that fill an order: `design`, for a summary with weights; `herding`, for
    a summary whose rows have equal weights."""
    code_book: Literal["auto", "seeds", "sketch"] = "auto"
    """Source of the public cells: `seeds`, k-means of the public seed set, at no cost; `sketch`, noisy
    second moments of owners' rows, for a part of their epsilon, with sums by class where labels help.
    `auto`: a sketch."""
    bits: int | None = Field(None, ge=2, le=8)
    """The code book has 2^bits cells; None: as many as the noise of the histograms allows."""
    coalitions: bool | None = None
    """True: counts of whole coalitions replace each owner's own histogram (docs/decisions/007); coalitions
    need a sketch. None: coalitions where owners are many and small, by the sizes that owners give when they
    join."""
    picks: int | None = Field(None, ge=0, le=MOST_PICKS)
    """Directions that D_v chooses for the first sign bits of a sketch's code book (docs/decisions/009), where
    owners count by themselves. None: two where epsilon |D_v| is at least 75 and rows are not projected
    (`dimension` is no less than their columns, encoded), or have categories and not too many numbers
    (docs/decisions/009); else 0."""
    pick_share: float | None = Field(None, gt=0, le=0.5)
    """Share of D_v's epsilon for each pick; D_v's histogram gets the rest. None: 25 / (epsilon |D_v|), one
    and a half times as much where rows are projected, at most .25, and at most half of epsilon for all
    picks."""
    dimension: int = Field(128, ge=2, le=512)
    """Number of coordinates in which a code book measures rows."""

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.coalitions and self.code_book == "seeds":
            raise ValueError("coalitions need a sketch, and the code book is made from public seeds")
        picks = USUAL_PICKS if self.picks is None else self.picks
        if picks * (self.pick_share or 0.0) > MOST_OF_PICKS:
            raise ValueError(
                "directions that D_v picks may have half of its epsilon, and the rest is for counts"
            )
        return self
