"""The values of a run of sums, free of any transport; `fedkme.wire.sums` makes messages of them and back.

docs/decisions/006 has the protocol: an invitation, then one question after another.
"""

from __future__ import annotations

import hashlib
import json
from bisect import bisect_right
from dataclasses import dataclass, fields, is_dataclass
from functools import cached_property
from typing import Any

from fedkme.cells.projection import ProjectionSpec
from fedkme.errors import ConfigError
from fedkme.features.maps import MapSpec, spec_to_json
from fedkme.features.sums import Layout

MOST_MAPS = 256
"""Feature maps of one question."""
MOST_CLIQUES = 2**14
"""Marginals of one question."""
MOST_WEIGHT = 2**44
"""Largest weight of a block of the vector."""


@dataclass(frozen=True, slots=True)
class Marginals:
    """Counts of all rows by the codes of some columns: mean embeddings of one-hot products, times N.

    Attributes:
        bins: of a numeric column, at most (fedkme.features.binning).
        cliques: columns of each table of counts, ascending; the label is the last column.

    Raises:
        ConfigError: on construction: no cliques, or one that is not a set of columns.
    """

    bins: int
    cliques: tuple[tuple[int, ...], ...]

    def __post_init__(self) -> None:
        ordered = all(list(clique) == sorted(set(clique)) and clique for clique in self.cliques)
        if not self.cliques or not ordered or not 1 <= len(self.cliques) <= MOST_CLIQUES:
            raise ConfigError(
                f"a question asks for no marginals, or for more than {MOST_CLIQUES}", "Ask in parts."
            )


@dataclass(frozen=True, slots=True)
class CellCounts:
    """Counts of rows by the cells of a code book, one block for each coalition of owners (decision 007).

    The question is the same to all owners, and its size does not grow with their number: coalitions are
    neighbours in the order of names.

    Attributes:
        code_book: as `CodeBook.to_json` has it, one JSON object in a text.
        classes: of the label by which each cell is counted; 0 for cells alone.
        firsts: name of each coalition's first owner, ascending; an owner counts in the part of the vector of
            the last that is not behind its own name.

    Raises:
        ConfigError: on construction: no coalition, or coalitions out of order.
    """

    code_book: str
    classes: int
    firsts: tuple[str, ...]

    def __post_init__(self) -> None:
        if not self.firsts or list(self.firsts) != sorted(set(self.firsts)) or self.classes < 0:
            raise ConfigError("coalitions are none, or out of order", "Name the first owner of each.")

    def coalition_of(self, owner: str) -> int:
        """Place of an owner's coalition.

        Raises:
            ConfigError: it is before the first.
        """
        if owner < self.firsts[0]:
            raise ConfigError(f"{owner} is in no coalition that counts", "Look at the curator's software.")
        return bisect_right(self.firsts, owner) - 1


@dataclass(frozen=True)
class SumQuery:
    """One question: the vector of all these sums over all rows, block after block, the class counts last.

    Attributes:
        specs: public feature maps; none where counts alone are asked for.
        layout: columns of every sum.
        counts: whether the number of rows of each column is asked for too.
        weights: what each block is multiplied by, so that one noise on the vector is the right one for each
            (docs/decisions/006); empty for 1.
        sketch: in place of maps and counts: the second moments of this projection (fedkme.cells.sketch),
            with sums by class where the layout has classes.
        marginals: in place of maps and counts; each is a block with a weight.
        cells: in place of maps and counts: counts by cell of coalitions of owners, one block with a weight.

    Raises:
        ConfigError: on construction: it asks for nothing or too much, or the weights do not fit.
    """

    specs: tuple[MapSpec, ...]
    layout: Layout
    counts: bool = False
    weights: tuple[int, ...] = ()
    sketch: ProjectionSpec | None = None
    marginals: Marginals | None = None
    cells: CellCounts | None = None

    def __post_init__(self) -> None:
        blocks = len(self.specs) + self.counts
        alone = [each for each in (self.sketch, self.marginals, self.cells) if each is not None]
        if alone:
            if blocks or len(alone) > 1 or (self.sketch is not None and self.weights):
                raise ConfigError(
                    "a sketch, marginals or counts of cells are asked for with other sums",
                    "Ask in another question.",
                )
            if self.sketch is not None:
                return
            blocks = 1 if self.marginals is None else len(self.marginals.cliques)
        if not blocks or len(self.specs) > MOST_MAPS:
            raise ConfigError(
                f"a question asks for nothing, or for more than {MOST_MAPS} sums",
                "Ask for fewer sums at once.",
            )
        if self.weights and (
            len(self.weights) != blocks or not all(1 <= weight <= MOST_WEIGHT for weight in self.weights)
        ):
            raise ConfigError(
                "the weights of a question do not fit its blocks",
                "Give a whole number of 1 or more for each.",
            )

    def canonical(self) -> bytes:
        """The one spelling of everything that the vector depends on, beside schema and rows: every field."""
        return json.dumps(_plain(self), sort_keys=True, separators=(",", ":"), allow_nan=False).encode(
            "ascii"
        )

    @cached_property
    def digest(self) -> str:
        """SHA-256 of the canonical spelling, in hexadecimal: two questions are one where theirs are equal.

        Found once: each owner of a process asks for it.
        """
        return hashlib.sha256(self.canonical()).hexdigest()


def _plain(value: Any) -> Any:
    if isinstance(value, MapSpec):
        return spec_to_json(value)
    if is_dataclass(value):
        return {field.name: _plain(getattr(value, field.name)) for field in fields(value)}
    return [_plain(each) for each in value] if isinstance(value, tuple) else value
