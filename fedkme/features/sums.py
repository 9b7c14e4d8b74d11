"""Pooled embeddings: each owner's sum of phi over its own rows, and the total of these sums.

A row's features are rounded to whole multiples of ROW_UNIT before they are added, so sums are integers. The
total over any number of owners, in any order, in blocks of any size, equals to the last bit the sum of one
owner that has all rows. Noise is added to integers, as fedkme.privacy.noise.SecureNoise needs, and secure
aggregation masks integers. The rounding error is at most half a unit per row and coordinate. It may lengthen
a row; the privacy calibration counts it (`counted`).
"""

import math
from dataclasses import dataclass

import numpy as np

from fedkme.arrays import FloatArray, IntArray, whole
from fedkme.errors import ConfigError, DataError
from fedkme.features.maps import ROW_UNIT, EmbeddingMap, MapSpec
from fedkme.tables.table import Table

SLACK = 1.0 + 1e-6
"""Factor for the rounding of features, whose norm and spread may exceed their bounds by it."""

_BLOCK_CELLS = 2**19


@dataclass(frozen=True, slots=True)
class Layout:
    """Columns of an embedding: one for each class of the label, or a single column without a label."""

    classes: int | None = None

    def __post_init__(self) -> None:
        if self.classes is not None and self.classes < 1:
            raise ConfigError("an embedding by class needs a class", "Give the number of classes, or none.")

    @property
    def columns(self) -> int:
        """C, columns of the sum."""
        return 1 if self.classes is None else self.classes


@dataclass(frozen=True, eq=False, slots=True, repr=False)
class PooledSum:
    """Sums of features in units of ROW_UNIT, (J, C), and rows per column, (C,).

    Owners send such sums, and the curator adds them up.
    """

    steps: IntArray
    count: IntArray

    @property
    def sum(self) -> FloatArray:
        """(J, C) float64, exact up to `row_limit` rows."""
        return self.steps.astype(np.float64) * ROW_UNIT

    @property
    def rows(self) -> int:
        """N."""
        return int(self.count.sum())


@dataclass(frozen=True, eq=False, slots=True, repr=False)
class ReleasedEmbedding:
    """A mean embedding with noise; every computation on it is post-processing.

    Attributes:
        map_spec: spec of phi; with the public schema it makes the map again.
        layout: meaning of the columns.
        mean: (J, C) float64, sum over the rows of each class of phi, over all N rows: column c estimates
            P(class c) E[phi | class c].
        sigma: standard deviation of the noise in every coordinate of `mean`; 0 without noise.
        rows: N, public.
    """

    map_spec: MapSpec
    layout: Layout
    mean: FloatArray
    sigma: float
    rows: int


def pooled_sum(
    table: Table, features: EmbeddingMap, layout: Layout, block_rows: int | None = None
) -> PooledSum:
    """Compute an owner's answer: the sums of phi over its rows by class, in one pass.

    Memory: a block of rows in float64, whatever the number of rows, and the sums. Features of a block are
    whole numbers of steps when they are added, so BLAS may add them in any order: all partial sums are exact.

    A row's embedding may exceed the norm bound or not be finite if the curator names a wrong map. An error
    would then reveal the row, and the noise would not protect the embedding. So the embedding is silently
    shortened to the bound, or to zeros if it is not finite.

    Args:
        table: the owner's rows, with labels where the layout has classes.
        features: phi.
        layout: columns of the sum.
        block_rows: rows at a time; None: 4 MiB of features, or four times the sums where these are larger.

    Raises:
        DataError: no rows or too many rows, missing or unknown labels, or a row outside the domain (the
            schema loads no such row); the error only counts rows.
    """
    rows = len(table)
    _check_rows(rows, features)
    labels = _labels(table, layout)
    step = block_rows or max(_BLOCK_CELLS // features.dimension, 4 * layout.columns)
    longest = features.norm_bound * SLACK + 0.5 * math.sqrt(features.dimension) * ROW_UNIT
    steps = np.zeros((features.dimension, layout.columns), dtype=np.int64)
    count = np.zeros(layout.columns, dtype=np.int64)
    unknown = 0
    for start in range(0, rows, step):
        block = features.steps(features.domain.encode(table.values[start : start + step]))
        norms = np.sqrt(np.einsum("ij,ij->i", block, block)) * ROW_UNIT
        odd = ~(norms <= longest)
        if odd.any():
            block[odd] = _shorten(block[odd], norms[odd], features.norm_bound)
        members = labels[start : start + step, None] == np.arange(layout.columns)
        unknown += int((~members.any(axis=1)).sum())
        if unknown:
            continue  # only count the remaining rows
        steps += whole(block.T @ members.astype(np.float64))
        count += members.sum(axis=0)
    _refuse(unknown, "a class that the layout does not have", "Use the schema's classes, from index 0.")
    return PooledSum(features.arranged(steps), count)


def _shorten(block: FloatArray, norms: FloatArray, bound: float) -> FloatArray:
    """Shorten rows of steps that are too long, or not finite, to the bound; (k, J) of whole numbers."""
    is_finite = np.isfinite(norms)
    scale = np.where(is_finite, bound / np.where(is_finite, np.maximum(norms, ROW_UNIT), 1.0), 0.0)
    shortened: FloatArray = np.trunc(np.where(is_finite[:, None], block, 0.0) * scale[:, None])
    return shortened


def row_limit(features: EmbeddingMap) -> int:
    """Rows whose sum is certainly exact in float64: below 2^52 steps in every coordinate."""
    return int(2.0**52 * ROW_UNIT / max(1.0, features.norm_bound * SLACK))


def same_class_distance(features: EmbeddingMap) -> float:
    """L2 distance that the (J, C) sum moves when a row of the same class replaces a row: phi's spread."""
    return features.spread


def other_class_distance(features: EmbeddingMap) -> float:
    """L2 distance that the (J, C) sum moves when a row of another class replaces a row.

    phi(x) leaves one column and phi(y) enters another, at right angles: sqrt(||phi(x)||^2 + ||phi(y)||^2),
    at most sqrt(2) B.
    """
    return math.sqrt(2.0) * features.norm_bound


def counted(distance: float, features: EmbeddingMap) -> float:
    """Distance that holds for the computed sums, given the exact one; noise is calibrated to it.

    Rounding to ROW_UNIT moves each coordinate of a row by at most half a unit: the difference of two rows
    by at most sqrt(J) units in L2. SLACK counts rounding in the features themselves.
    """
    return distance * SLACK + math.sqrt(features.dimension) * ROW_UNIT


def _check_rows(rows: int, features: EmbeddingMap) -> None:
    if rows < 1:
        raise DataError("there are no rows to embed", "Leave owners without rows out of the release.")
    if rows > row_limit(features):
        cause = f"there are {rows} rows to embed and sums hold {row_limit(features)}"
        raise DataError(cause, "Release in parts, or sample rows.")


def _labels(table: Table, layout: Layout) -> IntArray:
    if layout.classes is None:
        return np.zeros(len(table), dtype=np.int64)
    if table.labels is None:
        raise DataError("rows to embed by class have no labels", "Give the label that the schema describes.")
    return table.labels


def _refuse(rows: int, what: str, remedy: str) -> None:
    if rows:
        raise DataError(f"to embed: rows with {what}: {rows}", remedy)
