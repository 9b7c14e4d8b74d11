"""Vector of a question: an owner's computation, the pooled sum, and its sensitivity to one row.

Every block is in whole steps of ROW_UNIT (class counts in ones), times its public weight. Sums are integers:
the total over any owners in any order is the same to the last bit, in the clear or under masks.

Neighbouring: replace one row of one owner, N public. With w_q the distance by which a replaced row of the
same class moves block q in L2 and a_q that of another class, the vector moves by at most the larger of
sqrt(sum (m_q w_q)^2) and sqrt(sum (m_q a_q)^2), in steps: a row is of one case or the other for all blocks
at once. w_q and a_q are distances of the integers themselves (`fedkme.features.sums.counted`).
"""

import json
import math
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from fedkme.arrays import FloatArray, IntArray
from fedkme.cells import sketch
from fedkme.cells.codebook import Counting, code_book_from_json
from fedkme.cells.histogram import counts as cell_counts
from fedkme.cells.projection import Projection
from fedkme.errors import ConfigError, DataError, SecureAggregationError
from fedkme.features.binning import Binning
from fedkme.features.counts import (
    L2_STEP,
    PARITY_STEP,
    SCORE_STEPS,
    check_scores,
    codes_with,
    count_products,
    marginal_cells,
    marginal_counts,
    parity_sums,
    product_sums,
    products_move,
    sizes_with,
)
from fedkme.features.maps import ROW_UNIT, EmbeddingMap
from fedkme.features.sums import SLACK, PooledSum, pooled_sum
from fedkme.privacy.sums import PooledRelease, Query, count_query, embedding_query
from fedkme.secagg.parameters import MAX_LENGTH
from fedkme.sums.values import CellCounts, SumQuery
from fedkme.tables.schema import Schema
from fedkme.tables.table import Table


class CoalitionCounts:
    """One question for counts by cells, over one schema.

    Attributes:
        length: length of the vector: coalitions times cells, times classes where rows are counted by class.
    """

    def __init__(self, query: CellCounts, schema: Schema) -> None:
        """Read the code book.

        Raises:
            ConfigError: the text is not a code book, or rows are to be counted by other classes than the
                schema has.
        """
        self._query, self._schema = query, schema
        try:
            plain = json.loads(query.code_book)
        except (ValueError, RecursionError):
            raise ConfigError("this is no code book", "Compare the parties' versions.") from None
        book = code_book_from_json(plain, schema)
        if query.classes not in (0, len(schema.classes)):
            cause = f"rows are to be counted by {query.classes} classes, the schema has {len(schema.classes)}"
            raise ConfigError(cause, "Give all parties the same schema file.")
        self._counting = Counting(book, query.classes)
        self.length = len(query.firsts) * self._counting.size

    def of(self, table: Table, owner: str) -> IntArray:
        """Count an owner's rows in its coalition's block; zeros elsewhere, (length,) int64.

        Raises:
            ConfigError: the owner is in no coalition.
            DataError: rows are to be counted by class and have no labels.
        """
        size = self._counting.size
        cells = self._counting.cells_of(self._schema.encode(table.values), table.labels)
        start = self._query.coalition_of(owner) * size
        vector = np.zeros(self.length, dtype=np.int64)
        vector[start : start + size] = cell_counts(cells, size)
        return vector


@dataclass(frozen=True)
class _Tables:
    """Blocks of a question that takes the place of maps and sketch.

    Attributes:
        sizes: length of each block.
        step: common factor of `moves`.
        moves: L2 distance by which a replaced row moves each block.
        largest: largest entry that a row adds to.
        of: the sums over a table's rows, (sum of sizes,) int64; its owner's name counts in coalitions.
        counted: whether every block is a table of counts.
    """

    sizes: list[int]
    step: float
    moves: list[float]
    largest: int
    of: Callable[[Table, str], IntArray]
    counted: bool = False


def _tables_of(query: SumQuery, schema: Schema) -> _Tables | None:
    """Tables, signs, products or counts of cells that a question asks for; None for maps or a sketch."""
    if (marginals := query.marginals) is not None:
        binning = Binning(schema, marginals.bins, marginals.merged, marginals.own)
        codes = sizes_with(marginals.groups, binning.sizes)
        sizes = [marginal_cells(clique, codes) for clique in marginals.cliques]

        def count(table: Table, owner: str) -> IntArray:
            rows = codes_with(marginals.groups, binning.encode(table, "an owner"))
            return np.concatenate([marginal_counts(rows, clique, codes) for clique in marginals.cliques])

        return _Tables(sizes, L2_STEP, [1.0] * len(sizes), 1, count, counted=True)
    if (parities := query.parities) is not None:
        binning = Binning(schema, parities.bins, parities.merged, parities.own)
        sizes_with(parities.groups, binning.sizes)
        sizes = [len(block) for block in parities.blocks]

        def add_signs(table: Table, owner: str) -> IntArray:
            return parity_sums(binning.encode(table, "an owner"), parities.groups, parities.products)

        return _Tables(sizes, PARITY_STEP, [math.sqrt(size) for size in sizes], 1, add_signs)
    if (products := query.products) is not None:
        binning = Binning(schema, products.bins, own=products.own)
        check_scores(products.scores, binning.sizes)
        scores = [len(block) for block in products.blocks]

        def add_products(table: Table, owner: str) -> IntArray:
            return product_sums(binning.encode(table, "an owner"), products.scores, products.blocks)

        sizes, moves = [*map(count_products, scores)], [*map(products_move, scores)]
        return _Tables(sizes, 1.0, moves, SCORE_STEPS**2, add_products)
    if query.cells is not None:
        cells = CoalitionCounts(query.cells, schema)
        return _Tables([cells.length], L2_STEP, [1.0], 1, cells.of, counted=True)
    return None


WEIGHT_BITS = 6
"""The block with the largest noise has a weight of about 2^6, so weights are right to a percent or better."""
_LARGEST_NOISE_BITS = 44
"""Shares of noise stay below 2^45 steps (fedkme.secagg.noise)."""


class SumVector:
    """One question over one schema: its feature maps in order, and the length of the vector."""

    def __init__(self, query: SumQuery, schema: Schema, maps: Sequence[EmbeddingMap] = ()) -> None:
        """Build the maps; every party does so for itself.

        Args:
            query: what is asked.
            schema: the public domain.
            maps: maps of the query's specs, where the caller has built them already.

        Raises:
            ConfigError: a spec does not go with the schema, columns by class without a label, or a vector
                that is too long.
        """
        self.query = query
        self._schema = schema
        if query.layout.classes is not None and query.layout.classes != len(schema.classes):
            raise ConfigError(
                f"sums by {query.layout.classes} classes are asked for, the schema has {len(schema.classes)}",
                "Give all parties the same schema file.",
            )
        self.maps = tuple(maps) or tuple(spec.make(schema) for spec in query.specs)
        columns = query.layout.columns
        self._projection = None if query.sketch is None else Projection(query.sketch, schema)
        self._tables = _tables_of(query, schema)
        if query.sketch is not None:
            self._sizes = [sketch.length(query.sketch.dimension, query.layout.classes)]
        elif self._tables is not None:
            self._sizes = self._tables.sizes
        else:
            self._sizes = [each.dimension * columns for each in self.maps] + [columns] * query.counts
        self.length = sum(self._sizes)
        if query.sketch is None and self.length > MAX_LENGTH:
            cause = f"a question asks for {self.length} numbers and {MAX_LENGTH} are the most"
            raise ConfigError(cause, "Use fewer features or fewer classes, or ask in parts.")

    @property
    def weights(self) -> tuple[int, ...]:
        """m_q of every block."""
        return self.query.weights or (1,) * len(self._sizes)

    @cached_property
    def digest(self) -> str:
        """Digest of the question."""
        return self.query.digest

    @cached_property
    def distances(self) -> tuple[Query, ...]:
        """Largest move of each block when one row is replaced, in the units of the sums."""
        embeddings = [embedding_query(each, self.query.layout) for each in self.maps]
        return (*embeddings, *([count_query()] if self.query.counts else []))

    @cached_property
    def diameter(self) -> float:
        """L2 diameter of the whole vector under replace-one, in steps; see the head of the module."""
        if self._projection is not None:
            return math.nextafter(sketch.DIAMETER_STEPS, math.inf)
        if (
            tables := self._tables
        ) is not None:  # of counts, a row leaves one cell of each and enters another
            moves = (weight * move for weight, move in zip(self.weights, tables.moves, strict=True))
            return math.nextafter(tables.step * math.hypot(*moves) * (1.0 + 2.0**-48), math.inf)
        units = [ROW_UNIT] * len(self.maps) + [1.0] * self.query.counts
        scales = [weight / unit for weight, unit in zip(self.weights, units, strict=True)]
        within = math.hypot(*(s * each.within for s, each in zip(scales, self.distances, strict=True)))
        across = math.hypot(*(s * each.across for s, each in zip(scales, self.distances, strict=True)))
        # the factor and the next float are for the rounding of these lines
        return math.nextafter(max(within, across) * (1.0 + 2.0**-48), math.inf)

    def bound(self, rows: int) -> int:
        """No owner of so many rows has a larger entry, in steps."""
        return max(self._bounds(rows))

    def check(self, vector: IntArray, rows: int) -> None:
        """Refuse what no owner of m_j rows can have: a liar moves a total by what m_j rows can, and no more.

        Raises:
            DataError: another shape, an entry over its block's bound, or counts of other rows or below 0.
        """
        if vector.shape != (self.length,) or vector.dtype != np.int64:
            cause = f"an owner's vector has shape {vector.shape} and not ({self.length},)"
            raise DataError(cause, "Compare feature maps and schema of the parties.")
        if (wrong := self._misfit(vector, rows, 0)) is not None:
            raise DataError(f"an owner's vector {wrong} than it has", "Ask its owner to update.")

    def check_total(self, total: IntArray, rows: int, noise: int) -> None:
        """Refuse a total with noise that no N rows have: a liar moves it by what N rows can, and the noise.

        Right totals are refused with probability 2^-39: the sum of a table of c cells is held to sqrt(c)
        bounds of the noise, which it exceeds as seldom as one cell exceeds one.

        Args:
            total: (length,) int64.
            rows: N.
            noise: bound on every coordinate's, exceeded with probability 2^-40 (Parameters.noise_tail).

        Raises:
            SecureAggregationError: see `check`.
        """
        if (wrong := self._misfit(total, rows, noise)) is not None:
            cause = f"a total {wrong} than its owners have"
            raise SecureAggregationError(cause, "An owner sent what it should not; the sum is void.")

    def _misfit(self, vector: IntArray, rows: int, noise: int) -> str | None:
        """Reason why a vector is of other rows; None if it may be of these."""
        ends = np.cumsum(self._sizes)
        of_counts = self._tables is not None and self._tables.counted
        counted = [of_counts] * (len(ends) - 1) + [of_counts or self.query.counts]
        for end, size, bound, weight, counts in zip(
            ends, self._sizes, self._bounds(rows), self.weights, counted, strict=True
        ):
            block = vector[end - size : end]
            # In Python's integers: the least int64 has no absolute value among them.
            if int(block.max()) > bound + noise or int(block.min()) < -bound - noise:
                return "is of more rows"
            if not counts:
                continue
            off = abs(sum(block.tolist()) - rows * weight)
            if int(block.min()) < -noise or off > math.isqrt(size) * noise + noise * (noise > 0):
                return "counts other rows"
        return None

    def _bounds(self, rows: int) -> list[int]:
        if self._projection is not None:
            return [sketch.largest_step(rows)]
        if self._tables is not None:
            return [rows * weight * self._tables.largest for weight in self.weights]
        longest = [each.norm_bound * SLACK / ROW_UNIT + 1.0 for each in self.maps] + [1.0] * self.query.counts
        return [math.ceil(rows * (a * b)) for a, b in zip(longest, self.weights, strict=True)]

    def of(self, table: Table, owner: str = "") -> IntArray:
        """An owner's vector, (length,) int64, in one pass a map; memory: a block of rows and the vector.

        Its name is read where owners count in coalitions.

        Raises:
            ConfigError: it is in no coalition.
            DataError: rows that cannot be embedded, see `fedkme.features.sums.pooled_sum`; or so many that
                a weighted sum does not fit.
        """
        layout = self.query.layout
        if self.bound(len(table)) >= 2**62:
            raise DataError(f"{len(table)} rows are too many for one weighted sum", "Release in parts.")
        if self._projection is not None:
            rows, labels = self._schema.encode(table.values), None if layout.classes is None else table.labels
            return sketch.coordinates(rows, labels, self._projection, layout.classes)
        if self._tables is not None:
            sums = self._tables.of(table, owner)
            for block, weight in zip(np.split(sums, np.cumsum(self._sizes)[:-1]), self.weights, strict=True):
                block *= weight  # a view
            return sums
        blocks: list[IntArray] = []
        count: IntArray | None = None
        for each, weight in zip(self.maps, self.weights, strict=False):
            total = pooled_sum(table, each, layout)
            blocks.append((total.steps * weight).reshape(-1))
            count = total.count
        if self.query.counts:
            if count is None:
                count = _counts(table, layout.columns)
            blocks.append(count * self.weights[-1])
        return np.concatenate(blocks)

    def tables(self, vector: FloatArray | IntArray) -> list[FloatArray]:
        """Counts of every table of a total, (cells,) float64 each; or sums of every block."""
        ends = np.cumsum(self._sizes)[:-1]
        parts = np.split(vector.astype(np.float64), ends)
        return [part / weight for part, weight in zip(parts, self.weights, strict=True)]

    def parts(self, vector: FloatArray | IntArray) -> tuple[list[FloatArray], FloatArray | None]:
        """Sums of every map, (J, C) float64 in their own units, and the class counts, (C,), of a total."""
        columns, start = self.query.layout.columns, 0
        sums: list[FloatArray] = []
        for size, weight in zip(self._sizes, self.weights, strict=True):
            block = vector[start : start + size].astype(np.float64) / weight
            start += size
            sums.append(block)
        counts = sums.pop() if self.query.counts else None
        return [block.reshape(-1, columns) * ROW_UNIT for block in sums], counts

    def sums(self, vector: IntArray, rows: int) -> list[PooledSum]:
        """The exact sums of an unweighted total.

        N stands in the first column where class counts were not asked for.
        """
        columns, start = self.query.layout.columns, 0
        if self.query.counts:
            counts = vector[-columns:]
        else:
            counts = np.zeros(columns, dtype=np.int64)
            counts[0] = rows
        sums = []
        for each in self.maps:
            size = each.dimension * columns
            sums.append(PooledSum(vector[start : start + size].reshape(-1, columns), counts))
            start += size
        return sums


def weighted(query: SumQuery, schema: Schema, release: PooledRelease) -> SumQuery:
    """Give a question the weights under which one noise on the vector is the right one for each block.

    Args:
        query: a query without weights.
        schema: the public domain.
        release: calibrated for the blocks of the question, in order.
    """
    units = [ROW_UNIT] * len(query.specs) + [1.0] * query.counts
    deviations = [sigma / unit for sigma, unit in zip(release.sigmas, units, strict=True)]
    if len(deviations) == 1:
        return query
    common = min(max(deviations) * 2.0**WEIGHT_BITS, 2.0**_LARGEST_NOISE_BITS)
    weights = tuple(max(1, round(common / deviation)) for deviation in deviations)
    return SumQuery(query.specs, query.layout, query.counts, weights)


def one_owner_moves(rows: Collection[int], masked: bool) -> int:
    """Rows' worth by which a lie of one owner can move an entry of a sum, but for noise.

    A vector that is seen is held to its owner's rows (`SumVector.check`), under masks the total alone to all
    of them (`check_total`, which adds twice the noise's bound).

    Args:
        rows: m_j of the owners that are asked.
        masked: whether the total alone is seen.
    """
    return sum(rows) if masked else max(rows, default=0)


def _counts(table: Table, columns: int) -> IntArray:
    if columns == 1:
        return np.array([len(table)], dtype=np.int64)
    if table.labels is None or (len(table) and table.labels.max() >= columns):
        raise DataError("rows to count by class have no labels, or unknown ones", "Give the schema's label.")
    return np.bincount(table.labels, minlength=columns).astype(np.int64)
