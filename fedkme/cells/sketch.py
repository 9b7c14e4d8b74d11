"""The sketch: noisy second moments of z(x) over all owners' rows, with sums by class where rows have labels.

Relation: replace one row (with its label) of one owner by another, N public.

**Query.** For a row with z = z(x), ||z|| <= 1, and class c of C:

    v(x, c) = (z_i^2 for all i,  t z_i z_j for i < j,  z e_c',  e_c / 2),      t = 41/29 < sqrt 2

and the query is the sum of v over rows. Without labels the class sums are one vector s, and the counts are
left out.

**Sensitivity.** ||v - v'|| <= 3/sqrt 2 = 2.1213, and that is all: labels and counts cost nothing.
*Proof.* Write r = z.y. With sqrt 2 for t the first two blocks are an isometry of ||zz' - yy'||_F, and 41/29
is less, so they add at most ||z||^4 + ||y||^4 - 2 r^2. Same class: the third block adds ||z||^2 + ||y||^2 -
2 r. For fixed r the sum grows with both norms, and |r| stays feasible, so both norms are 1:
2 - 2r^2 + 2 - 2r is largest at r = -1/2, where it is 9/2. Another class: the third block adds
||z||^2 + ||y||^2, the fourth 2/4; 2 - 2r^2 + 2 + 1/2 is largest at r = 0, where it is 9/2 again. (Weights
a, b on the third and fourth block in general: (2 + a^2)^2/2 while b <= a^2/2.)

Coordinates of z are whole multiples of 2^-12, so every coordinate of the query is a whole multiple of
2^-24/29. In these units sums are integers, equal for any split of the rows over owners, any order and any
size of blocks, and the bound holds without a term for rounding. All coordinates have one deviation, as secure
aggregation needs it (diameter DIAMETER_STEPS, bound `largest_step`, step 1). The noise is Gaussian and is
added once. The noisy matrix is symmetric, as it is built from its upper triangle.
"""

import math
from dataclasses import dataclass

import numpy as np

from fedkme.arrays import FloatArray, IntArray, Rows
from fedkme.cells.projection import Z_UNIT, Projection
from fedkme.errors import ConfigError, DataError
from fedkme.privacy.noise import NoiseSource

SENSITIVITY = 3.0 / math.sqrt(2.0)
"""L2, replace-one, of the query in its own units."""
_DIAGONAL, _OFF = 29, 41
STEP = Z_UNIT**2 / _DIAGONAL
"""Size of one step of the integer coordinates, in units of the query."""
DIAMETER_STEPS = SENSITIVITY / STEP
"""The sensitivity in steps."""
_BLOCK_ROWS = 4096
ROW_LIMIT = int(2.0**53 / (_OFF / Z_UNIT**2))
"""Most rows whose sums float64 holds exactly."""


@dataclass(frozen=True, eq=False, slots=True)
class Sketch:
    """Moments, exact or with noise.

    Attributes:
        second: G, sum of z z', (d, d) float64, symmetric.
        sums: sum of z by class, (C, d); one row without labels.
        counts: rows by class, (C,); without labels N.
        rows: N, public.
        deviation: standard deviation of the noise on the diagonal of G and on `sums`, 0 without noise.
    """

    second: FloatArray
    sums: FloatArray
    counts: FloatArray
    rows: int
    deviation: float


def length(dimension: int, classes: int | None) -> int:
    """Number of coordinates of the query, as secure aggregation needs it."""
    labelled = 0 if classes is None else classes
    return dimension * (dimension + 1) // 2 + max(1, labelled) * dimension + labelled


def largest_step(rows: int) -> int:
    """Largest absolute coordinate of the query over `rows` rows, in steps, as secure aggregation needs it."""
    return _OFF * round(Z_UNIT**-2) * rows


def coordinates(rows: Rows, labels: IntArray | None, projection: Projection, classes: int | None) -> IntArray:
    """Compute an owner's answer: the query over its rows in whole steps, (`length`,) int64.

    Args:
        rows: encoded, (m, n).
        labels: class of each row, (m,); None exactly where `classes` is None.
        projection: z.
        classes: C, of the public schema; None for a sketch without labels.

    Raises:
        DataError: labels are missing or unknown, rows do not fit or are too many.
    """
    size = projection.spec.dimension
    if len(rows) > ROW_LIMIT:
        raise DataError(f"there are {len(rows)} rows and a sketch holds {ROW_LIMIT}", "Sample rows.")
    if classes is not None:
        checked_labels(labels, len(rows), classes)
    columns = 1 if classes is None else classes
    second = np.zeros((size, size), dtype=np.int64)
    sums, counts = np.zeros((columns, size), dtype=np.int64), np.zeros(columns, dtype=np.int64)
    for start in range(0, len(rows), _BLOCK_ROWS):
        z = projection.steps(rows[start : start + _BLOCK_ROWS])
        index = np.zeros(len(z), np.int64) if labels is None else labels[start : start + _BLOCK_ROWS]
        members = (index == np.arange(columns)[:, None]).astype(np.float64)
        # Whole numbers whose partial sums stay below 2^53: BLAS is exact in any order.
        second += (z.T @ z).astype(np.int64)
        sums += (members @ z).astype(np.int64)
        counts += members.sum(axis=1).astype(np.int64)
    parts = [
        _DIAGONAL * np.diagonal(second),
        _OFF * second[np.triu_indices(size, 1)],
        _DIAGONAL * round(1 / Z_UNIT) * sums.ravel(),
    ]
    if classes is not None:
        parts.append(_DIAGONAL * round(1 / Z_UNIT**2) // 2 * counts)
    return np.concatenate(parts)


def release(
    total: IntArray, rows: int, dimension: int, classes: int | None, multiplier: float, noise: NoiseSource
) -> Sketch:
    """Add noise once to the integers of the sum and compute moments, at a trusted curator or one owner.

    Args:
        total: sum of all owners' coordinates.
        rows: N, public.
        dimension: d.
        classes: C or None.
        multiplier: deviation of the noise over sensitivity; 0 adds no noise, for baselines.
        noise: source of the noise.

    Raises:
        ConfigError: the sum has another length.
    """
    noisy = total.astype(np.float64)
    if multiplier > 0:
        noisy += noise.gaussian(multiplier * DIAMETER_STEPS, noisy.size)
    return from_coordinates(noisy, rows, dimension, classes, multiplier)


def from_coordinates(
    noisy: FloatArray, rows: int, dimension: int, classes: int | None, multiplier: float
) -> Sketch:
    """Compute moments from noisy coordinates, such as a total of secure aggregation with its own noise."""
    if noisy.shape != (length(dimension, classes),):
        raise ConfigError(f"a sketch of {noisy.shape} coordinates does not fit", "Compare the parties' d.")
    triangle = dimension * (dimension - 1) // 2
    columns = 1 if classes is None else classes
    diagonal, upper, flat, tail = np.split(noisy, np.cumsum([dimension, triangle, columns * dimension]))
    second = np.zeros((dimension, dimension))
    second[np.triu_indices(dimension, 1)] = upper * (STEP * _DIAGONAL / _OFF)
    second += second.T
    second[np.diag_indices(dimension)] = diagonal * STEP
    counts = np.array([float(rows)]) if classes is None else 2.0 * STEP * tail
    sums = flat.reshape(columns, dimension) * STEP
    return Sketch(second, sums, counts, rows, multiplier * SENSITIVITY)


def checked_labels(labels: IntArray | None, rows: int, classes: int) -> IntArray:
    """Return the classes of `rows` rows after checking them.

    Raises:
        DataError: classes are missing, or a class is not in the schema.
    """
    if labels is None or labels.shape != (rows,):
        cause = "rows to count by class have no labels"
        raise DataError(cause, "Give labels, or ask for cells without them.")
    unknown = int(((labels < 0) | (labels >= classes)).sum())
    if unknown:
        raise DataError(f"rows of a class that the schema does not have: {unknown}", "Use its classes.")
    return labels
