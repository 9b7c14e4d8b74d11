"""Values of a run of sums, independent of the transport.

`fedkme.wire.sums` converts these values to messages and back. A run is an invitation, then one question after
another (docs/decisions/006).
"""

import hashlib
import json
from bisect import bisect_right
from dataclasses import dataclass, fields, is_dataclass
from functools import cached_property
from typing import Any

from fedkme.cells.projection import ProjectionSpec
from fedkme.errors import CURATOR_FAULT, ConfigError
from fedkme.features.binning import MOST_TABLES, MergedBins, OwnValues
from fedkme.features.counts import MARGINAL_CELLS, SCORE_STEPS, Groups, NumberScores, Place
from fedkme.features.maps import MapSpec, spec_to_json
from fedkme.features.sums import Layout

MOST_MAPS = 256
"""Most feature maps of one question."""
MOST_GROUPS = 2**10
"""Most columns of groups of one question."""
MOST_PARITIES, MOST_FACTORS = 2**14, 8
"""Most parities of one question, and most signs in the product of one."""
MOST_SCORES = 2**8
"""Most columns of scores of one question."""
MOST_WEIGHT = 2**44
"""Largest weight of a block of the vector."""


@dataclass(frozen=True, slots=True)
class Marginals:
    """Counts of all rows by the codes of some columns: mean embeddings of one-hot products, times N.

    Attributes:
        bins: most bins of a numeric column (fedkme.features.binning).
        cliques: columns of each table of counts, ascending; the label is the last column of the schema.
        groups: columns of groups, behind the schema's.
        merged: bins of numeric columns that have no even bins.
        own: bounds and zeros of numeric columns that have codes of their own.

    Raises:
        ConfigError: on construction: there is no clique, or a clique is not a set of columns.
    """

    bins: Place
    cliques: tuple[tuple[Place, ...], ...]
    groups: tuple[Groups, ...] = ()
    merged: tuple[MergedBins, ...] = ()
    own: tuple[OwnValues, ...] = ()

    def __post_init__(self) -> None:
        ordered = all(list(clique) == sorted(set(clique)) and clique for clique in self.cliques)
        if not self.cliques or not ordered or not 1 <= len(self.cliques) <= MOST_TABLES:
            cause = f"a question asks for no marginals, or for more than {MOST_TABLES}"
            raise ConfigError(cause, "Ask in parts.")
        _check_groups(self.groups, MARGINAL_CELLS)


@dataclass(frozen=True, slots=True)
class Parities:
    """Sums over all rows of products of signs (fedkme.features.counts), block after block.

    Attributes:
        bins: most bins of a numeric column.
        groups: columns of two groups, whose signs are multiplied.
        blocks: products of each block: places of groups, ascending.
        merged: bins of numeric columns that have no even bins.
        own: bounds and zeros of numeric columns that have codes of their own.

    Raises:
        ConfigError: on construction: there are no products or too many, a product is no set of groups, or a
            column has not two groups.
    """

    bins: Place
    groups: tuple[Groups, ...]
    blocks: tuple[tuple[tuple[Place, ...], ...], ...]
    merged: tuple[MergedBins, ...] = ()
    own: tuple[OwnValues, ...] = ()

    def __post_init__(self) -> None:
        _check_groups(self.groups, 2)
        fit = all(
            1 <= len(product) <= MOST_FACTORS
            and list(product) == sorted(set(product))
            and 0 <= product[0] <= product[-1] < len(self.groups)
            for block in self.blocks
            for product in block
        )
        if not fit or not all(self.blocks) or not 1 <= len(self.products) <= MOST_PARITIES:
            cause = f"a question asks for no parities, or for more than {MOST_PARITIES}"
            raise ConfigError(cause, "Ask in parts.")

    @property
    def products(self) -> list[tuple[int, ...]]:
        """Products of all blocks."""
        return [product for block in self.blocks for product in block]


@dataclass(frozen=True, slots=True)
class ScoreProducts:
    """Sums over all rows of products of two scores (fedkme.features.counts), block after block.

    Attributes:
        bins: most bins of a numeric column.
        scores: columns of scores.
        blocks: places of the scores of each block, ascending; all pairs of a block are multiplied.
        own: bounds and zeros of numeric columns that have codes of their own.

    Raises:
        ConfigError: on construction: there are no products or too many, a score is out of range, or a block
            is no set of scores.
    """

    bins: Place
    scores: tuple[NumberScores, ...]
    blocks: tuple[tuple[Place, ...], ...]
    own: tuple[OwnValues, ...] = ()

    def __post_init__(self) -> None:
        fit = 2 <= len(self.scores) <= MOST_SCORES and self.blocks and len(self.blocks) <= len(self.scores)
        in_range = all(-SCORE_STEPS <= score <= SCORE_STEPS for each in self.scores for score in each.of)
        sets = all(
            len(block) >= 2
            and list(block) == sorted(set(block))
            and 0 <= block[0] <= block[-1] < len(self.scores)
            for block in self.blocks
        )
        if not (fit and in_range and sets):
            raise ConfigError(
                f"a question asks for no products of scores, for scores beyond {SCORE_STEPS}, or for more "
                f"than {MOST_SCORES}",
                "Ask in parts.",
            )


def _check_groups(groups: tuple[Groups, ...], most: int) -> None:
    if len(groups) > MOST_GROUPS or not all(each.of and each.size <= most for each in groups):
        cause = f"a question has more than {MOST_GROUPS} columns of groups, or more than {most} groups in one"
        raise ConfigError(cause, "Ask in parts.")


@dataclass(frozen=True, slots=True)
class CellCounts:
    """Counts of rows by the cells of a code book, one block for each coalition of owners (decision 007).

    All owners get the same question. Its size does not grow with the number of owners, as a coalition is a
    range of owners in the order of names.

    Attributes:
        code_book: JSON object of `CodeBook.to_json`, as text.
        classes: number of classes by which each cell is counted; 0: rows are counted by cells alone.
        firsts: name of each coalition's first owner, ascending. An owner is in the last coalition whose first
            name does not come after the owner's name.

    Raises:
        ConfigError: on construction: there is no coalition, or coalitions are out of order.
    """

    code_book: str
    classes: Place
    firsts: tuple[str, ...]

    def __post_init__(self) -> None:
        if not self.firsts or list(self.firsts) != sorted(set(self.firsts)) or self.classes < 0:
            cause = "there is no coalition, or coalitions are out of order"
            raise ConfigError(cause, "Name the first owner of each coalition.")

    def coalition_of(self, owner: str) -> int:
        """Number of an owner's coalition, from 0.

        Raises:
            ConfigError: the owner's name comes before that of the first coalition.
        """
        if owner < self.firsts[0]:
            raise ConfigError(f"{owner} is in no coalition that counts", CURATOR_FAULT)
        return bisect_right(self.firsts, owner) - 1


@dataclass(frozen=True)
class SumQuery:
    """One question: a vector of sums over all rows, block after block, with class counts as the last block.

    Attributes:
        specs: public feature maps; empty where only counts are asked for.
        layout: columns of every sum.
        counts: whether the number of rows of each column is asked for, too.
        weights: factor on each block, so that noise of one deviation on the vector suits every block
            (docs/decisions/006); empty: all factors are 1.
        sketch: in place of maps and counts, projection whose second moments are asked for
            (fedkme.cells.sketch), with sums by class where the layout has classes.
        marginals: in place of maps and counts, marginals, each a block with a weight.
        cells: in place of maps and counts, counts of coalitions of owners by cells, one block with a weight.
        parities: in place of maps and counts, parities, in blocks with a weight each.
        products: in place of maps and counts, products of scores, in blocks with a weight each.

    Raises:
        ConfigError: on construction: the question asks for nothing or for too much, or the weights do not
            fit.
    """

    specs: tuple[MapSpec, ...]
    layout: Layout
    counts: bool = False
    weights: tuple[int, ...] = ()
    sketch: ProjectionSpec | None = None
    marginals: Marginals | None = None
    cells: CellCounts | None = None
    parities: Parities | None = None
    products: ScoreProducts | None = None

    def __post_init__(self) -> None:
        blocks = len(self.specs) + self.counts
        kinds = (self.sketch, self.marginals, self.cells, self.parities, self.products)
        others = [each for each in kinds if each is not None]
        if others:
            if blocks or len(others) > 1 or (self.sketch is not None and self.weights):
                cause = "a sketch, tables, signs, products or counts of cells are asked for with other sums"
                raise ConfigError(cause, "Ask in another question.")
            if self.sketch is not None:
                return
            blocks = 1
            if self.marginals is not None:
                blocks = len(self.marginals.cliques)
            elif self.parities is not None:
                blocks = len(self.parities.blocks)
            elif self.products is not None:
                blocks = len(self.products.blocks)
        if not blocks or len(self.specs) > MOST_MAPS:
            cause = f"a question asks for nothing, or for more than {MOST_MAPS} sums"
            raise ConfigError(cause, "Ask for fewer sums at once.")
        if self.weights and (
            len(self.weights) != blocks or not all(1 <= weight <= MOST_WEIGHT for weight in self.weights)
        ):
            cause = "the weights of a question do not fit its blocks"
            raise ConfigError(cause, "Give a whole number of 1 or more for each.")

    def canonical(self) -> bytes:
        """Canonical JSON of all fields: with schema and rows, they determine the vector."""
        return json.dumps(_plain(self), sort_keys=True, separators=(",", ":"), allow_nan=False).encode(
            "ascii"
        )

    @cached_property
    def digest(self) -> str:
        """SHA-256 of `canonical`, in hexadecimal; equal questions have equal digests.

        The digest is cached, as every owner of a process needs it.
        """
        return hashlib.sha256(self.canonical()).hexdigest()


def _plain(value: Any) -> Any:
    if isinstance(value, MapSpec):
        return spec_to_json(value)
    if is_dataclass(value):
        return {field.name: _plain(getattr(value, field.name)) for field in fields(value)}
    return [_plain(each) for each in value] if isinstance(value, tuple) else value
