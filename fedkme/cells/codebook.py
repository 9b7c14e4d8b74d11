"""Code books: a public partition of the space of rows into B cells.

A code book is public before any histogram is asked for, and every row is in exactly one cell. So the
sensitivity of a histogram does not depend on B or on the origin of the cells. A code book comes from public
seed rows (k-means) at no cost, or from a noisy sketch (fedkme.cells.sketch) as post-processing.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

import numpy as np

from fedkme.arrays import COORDINATES, FloatArray, IntArray, Rows
from fedkme.cells.projection import Projection, ProjectionSpec
from fedkme.cells.sketch import Sketch, checked_labels
from fedkme.errors import ConfigError, DataError
from fedkme.tables.schema import Schema

Kind = Literal["kmeans", "sketch", "classes"]

_LLOYD_STEPS = 50
_BLOCK_ROWS = 4096
MOST_CELLS, MOST_PICKS = 4096, 4
"""Most cells, and most columns that D_v picks."""
BEYOND = COORDINATES.high
"""Edge that no row exceeds."""
_AXES = {"centres": 2, "origin": 1, "directions": 2, "weights": 2, "offsets": 1, "along": 2, "edges": 2}
LEADING = 48
"""Number of leading eigenvectors of a noisy covariance in whose span classes are separated. In the span of
the others, noise hides the differences. Taking the leading ones is post-processing of the release."""


@dataclass(frozen=True, eq=False)
class CodeBook:
    """A public partition.

    Attributes:
        kind: rule that gives the cell of a row. `kmeans`: the nearest of `centres` in model space. `sketch`:
            the class with the largest score `weights` z + `offsets`, and within the class the signs of
            `directions`' (z - `origin`). `classes`: the row's own class, and within the class the same signs.
            With k picks of D_v (fedkme.cells.directions), a cell is also given by k bins. The bin of pick j
            is the number of `edges`[j] below `along`[:, j]'(x, z - `origin`), for the encoded row x. `along`
            is (n + d, k), `edges` (k, t); a pick with fewer than t edges has BEYOND in place of the others.
        spec: projection that gives z.
        arrays: the arrays above by name; `kind`, `spec` and `arrays` determine the code book.
        schema: schema of the rows.
    """

    kind: Kind
    spec: ProjectionSpec
    arrays: Mapping[str, FloatArray]
    schema: Schema = field(repr=False)

    def __post_init__(self) -> None:
        n, d = self.spec.width, self.spec.dimension
        checked = {name: _array(name, each) for name, each in self.arrays.items()}
        object.__setattr__(self, "arrays", checked)
        shapes = {name: array.shape for name, array in self.arrays.items()}
        if self.kind == "kmeans":
            fits = set(shapes) == {"centres"} and shapes["centres"][1:] == (n,)
        else:
            along, edges = shapes.pop("along", (n + d, 0)), shapes.pop("edges", (0, 0))
            picked = along == (n + d, edges[0]) and edges[0] <= MOST_PICKS
            signs = shapes.get("origin") == (d,) and shapes.get("directions", ())[:1] == (d,)
            own = self.kind == "classes" and len(shapes) == 2 and bool(self.schema.classes)
            fits = picked and signs and (own or (self.kind == "sketch" and self._fits_discriminants(shapes)))
        if not fits:
            raise ConfigError("a code book's arrays do not fit its kind", "Compare the parties' versions.")
        if not 1 <= self.cells <= MOST_CELLS:
            raise ConfigError(f"a code book of {self.cells} cells", f"Take 1 to {MOST_CELLS}.")

    def _fits_discriminants(self, shapes: Mapping[str, tuple[int, ...]]) -> bool:
        return (
            set(shapes) == {"origin", "directions", "weights", "offsets"}
            and len(shapes["offsets"]) == 1
            and shapes["weights"] == (*shapes["offsets"], self.spec.dimension)
        )

    @property
    def seed(self) -> int:
        """Public seed of owners' choice among rows."""
        return self.spec.seed

    @property
    def cells(self) -> int:
        """B."""
        if self.kind == "kmeans":
            return len(self.arrays["centres"])
        bins = math.prod(len(edges) + 1 for edges in self._edges)
        return self.classes * bins << int(self.arrays["directions"].shape[1])

    @property
    def classes(self) -> int:
        """Number of classes that cells tell apart; cells of one class follow each other."""
        if self.kind == "kmeans":
            return 1
        return len(self.schema.classes if self.kind == "classes" else self.arrays["offsets"])

    @property
    def _edges(self) -> list[FloatArray]:
        """Edges of each pick."""
        return [edges[edges < BEYOND] for edges in self.arrays.get("edges", np.zeros((0, 0)))]

    def to_json(self) -> dict[str, Any]:
        """Plain values, with arrays as nested lists; `code_book_from_json` reads them back."""
        arrays = {name: array.tolist() for name, array in self.arrays.items()}
        return {"kind": self.kind, "spec": self.spec.to_json(), "arrays": arrays}

    @property
    def needs_labels(self) -> bool:
        """Check whether a row's cell depends on its class."""
        return self.kind == "classes"

    def cells_of(self, rows: Rows, labels: IntArray | None = None) -> IntArray:
        """Cell of each encoded row, (m, n) -> (m,) int64 in 0 .. B - 1; ties go to the lower cell.

        Args:
            rows: encoded, (m, n).
            labels: classes of the rows, (m,); only a code book of the kind `classes` reads them.

        Raises:
            DataError: rows do not fit or are not finite, or their classes are missing or unknown.
        """
        blocks = [slice(i, i + _BLOCK_ROWS) for i in range(0, len(rows), _BLOCK_ROWS)]
        own = checked_labels(labels, len(rows), len(self.schema.classes)) if self.needs_labels else None
        parts = [self._cells_of_block(rows[at], None if own is None else own[at]) for at in blocks]
        return np.concatenate([np.zeros(0, np.int64), *parts])

    def _cells_of_block(self, rows: Rows, classes: IntArray | None) -> IntArray:
        arrays = self.arrays
        if self.kind == "kmeans":
            block = np.asarray(rows, np.float64)
            if block.shape[1:] != (self.spec.width,) or not np.isfinite(block).all():
                raise DataError("rows do not fit the code book", "Encode rows by the public schema.")
            return _nearest(block, arrays["centres"])
        z = Projection(self.spec, self.schema)(rows)
        if classes is None:
            classes = (z @ arrays["weights"].T + arrays["offsets"]).argmax(axis=1).astype(np.int64)
        z = z - arrays["origin"]
        bits = z @ arrays["directions"] > 0.0
        cells: IntArray = (classes << bits.shape[1]) + bits @ (2 ** np.arange(bits.shape[1], dtype=np.int64))
        if "along" in arrays:
            along = np.concatenate([np.asarray(rows, np.float64), z], axis=1) @ arrays["along"]
            for values, edges in zip(along.T[::-1], self._edges[::-1], strict=True):
                cells = cells * (len(edges) + 1) + (values[:, None] > edges).sum(axis=1)
        return cells


def code_book_from_json(plain: Mapping[str, Any], schema: Schema) -> CodeBook:
    """Read what `CodeBook.to_json` wrote.

    Raises:
        ConfigError: the values are not a code book.
    """
    try:
        return CodeBook(plain["kind"], ProjectionSpec(**plain["spec"]), plain["arrays"], schema)
    except (KeyError, TypeError, AttributeError):
        raise ConfigError("this is no code book", "Compare the parties' versions.") from None


def _array(name: str, numbers: object) -> FloatArray:
    """Check an array of a code book.

    Raises:
        ConfigError: no code book has an array of this name, or of such numbers.
    """
    if name not in _AXES:
        raise ConfigError("a code book has an array that is not known here", "Update this party.")
    return COORDINATES.array(numbers, (None,) * _AXES[name], f"a code book's {name}")


def kmeans_book(seeds: Rows, cells: int, spec: ProjectionSpec, schema: Schema, seed: int) -> CodeBook:
    """Make cells around k-means centres of *public* rows; with private rows, this would cost privacy.

    Args:
        seeds: encoded public rows, (s, n).
        cells: B; at most s.
        spec: projection of the code book, of which only the width is used.
        schema: schema of the rows.
        seed: public seed that draws the first centres (k-means++).
    """
    rows = np.asarray(seeds, np.float64)
    if not 1 <= cells <= len(rows):
        raise ConfigError(f"{cells} cells of {len(rows)} public rows", "Take at most one cell a row.")
    rng = np.random.Generator(np.random.Philox(np.random.SeedSequence([seed])))
    centres = rows[[int(rng.integers(len(rows)))]]
    while len(centres) < cells:
        far = _squared_distances(rows, centres).min(axis=1)
        chance = far / far.sum() if far.sum() > 0 else np.full(len(rows), 1.0 / len(rows))
        centres = np.concatenate([centres, rows[[int(rng.choice(len(rows), p=chance))]]])
    for _ in range(_LLOYD_STEPS):
        nearest = _nearest(rows, centres)
        moved = np.stack(
            [rows[nearest == b].mean(axis=0) if (nearest == b).any() else centres[b] for b in range(cells)]
        )
        if np.array_equal(moved, centres):
            break
        centres = moved
    return CodeBook("kmeans", spec, {"centres": centres}, schema)


def sketch_book(
    sketch: Sketch, bits: int, spec: ProjectionSpec, schema: Schema, own_class: bool = False
) -> CodeBook:
    """Make cells from a noisy sketch: classes, each cut by the signs of directions.

    Without labels, a cell is given by the signs of the top `bits` principal components of z (SOUND.md, step
    1). With labels, a cell is given by a class and by signs along the top principal directions *within*
    classes. The class is the row's own, where the rows of all parties have labels; else it is the argmax of
    Fisher's linear discriminant, in the span of the LEADING eigenvectors of the covariance. The ridge of the
    discriminant is the spectral norm of the noise in that span, sqrt(2 k) deviations.

    Args:
        sketch: sketch with noise.
        bits: sign bits; B = C 2^bits with labels, 2^bits without.
        spec: projection that gives z.
        schema: schema of the rows.
        own_class: whether a cell has rows of one class alone; then the sketch has sums by class.
    """
    d, rows = spec.dimension, float(sketch.rows)
    if not 0 <= bits <= min(d, 12):
        raise ConfigError(f"{bits} sign bits of {d} directions", "Take at most 12 and at most d.")
    origin = sketch.sums.sum(axis=0) / rows
    leading = principal(sketch.second / rows - np.outer(origin, origin), LEADING)
    if len(sketch.sums) == 1:
        directions, weights, offsets = leading[:, :bits], np.zeros((1, d)), np.zeros(1)
    else:
        weights, offsets, within = _discriminants(sketch, origin, leading)
        directions = leading @ principal(within, bits)
        if own_class:
            return CodeBook("classes", spec, {"origin": origin, "directions": directions}, schema)
    arrays = {"origin": origin, "directions": directions, "weights": weights, "offsets": offsets}
    return CodeBook("sketch", spec, arrays, schema)


def _discriminants(
    sketch: Sketch, origin: FloatArray, leading: FloatArray
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Fisher's discriminants in the span of `leading`, (d, k): (C, d), offsets (C,), within-class (k, k)."""
    rows, counts, k = float(sketch.rows), np.maximum(sketch.counts, 1.0), leading.shape[1]
    centre = origin @ leading
    means = _class_means(sketch, centre, sketch.sums @ leading)
    within = leading.T @ sketch.second @ leading / rows - (counts[:, None] * means).T @ means / rows
    values, vectors = np.linalg.eigh((within + within.T) / 2.0)
    ridge = np.sqrt(2.0 * k) * sketch.deviation / rows + 0.01 * max(float(values.mean()), 1e-9)
    inside = (means - centre) @ (vectors / (np.maximum(values, 0.0) + ridge)) @ vectors.T
    prior = np.log(counts / counts.sum())
    offsets = prior - 0.5 * np.einsum("ck,ck->c", inside, means + centre)
    return inside @ leading.T, offsets, within


def _class_means(sketch: Sketch, centre: FloatArray, sums: FloatArray) -> FloatArray:
    """Noisy means of classes, (C, k); those of nearly empty classes are shrunk towards the common mean."""
    counts = np.maximum(sketch.counts, 1.0)
    trust = counts / (counts + sketch.deviation * np.sqrt(min(LEADING, len(sketch.second))))
    means: FloatArray = centre + trust[:, None] * (sums / counts[:, None] - centre)
    return means


def covariance_within(sketch: Sketch) -> FloatArray:
    """Covariance of z within classes, or of all rows where the sketch has no classes, (d, d)."""
    rows, origin = float(sketch.rows), sketch.sums.sum(axis=0) / float(sketch.rows)
    if len(sketch.sums) == 1:
        return np.asarray(sketch.second / rows - np.outer(origin, origin))
    means, counts = _class_means(sketch, origin, sketch.sums), np.maximum(sketch.counts, 1.0)
    within: FloatArray = sketch.second / rows - (counts[:, None] * means).T @ means / rows
    return within


def principal(matrix: FloatArray, count: int) -> FloatArray:
    """Take the eigenvectors of the largest eigenvalues, (d, min(count, d)), the largest first."""
    _, vectors = np.linalg.eigh((matrix + matrix.T) / 2.0)
    return np.ascontiguousarray(vectors[:, ::-1][:, :count])


def _nearest(rows: FloatArray, centres: FloatArray) -> IntArray:
    nearest: IntArray = _squared_distances(rows, centres).argmin(axis=1).astype(np.int64)
    return nearest


def _squared_distances(rows: FloatArray, centres: FloatArray) -> FloatArray:
    of_rows, of_centres = (rows * rows).sum(axis=1)[:, None], (centres * centres).sum(axis=1)
    squared: FloatArray = np.maximum(of_rows + of_centres - 2.0 * rows @ centres.T, 0.0)
    return squared


class Partition(Protocol):
    """A public partition of rows into `cells` cells, by any rule."""

    @property
    def seed(self) -> int:
        """Public seed of owners' choice among rows."""

    @property
    def cells(self) -> int:
        """B."""

    def cells_of(self, rows: Rows, labels: IntArray | None = None) -> IntArray:
        """Cell of each encoded row, (m, n) -> (m,) int64 in 0 .. B - 1."""


@dataclass(frozen=True, eq=False, slots=True)
class Counting:
    """A partition of rows: each row is in exactly one cell, or in one pair of class and cell.

    Where D_v has no labels, D_v is counted by cells alone, but owners count by pairs of class and cell. Pairs
    are a finer partition with the same sensitivity. Owners know the class of each of their rows, so orders
    can name the class, too.

    Attributes:
        book: code book of B cells.
        classes: C; 0: rows are counted by cells alone.
    """

    book: Partition
    classes: int = 0

    @property
    def size(self) -> int:
        """Number of counts of a histogram: B, or C B."""
        return max(1, self.classes) * self.book.cells

    def cells_of(self, rows: Rows, labels: IntArray | None) -> IntArray:
        """Cell of each encoded row, or class B + cell, (m,) int64 in 0 .. size - 1.

        Args:
            rows: encoded, (m, n).
            labels: classes of the rows, (m,); None where neither the book nor `classes` needs them.

        Raises:
            DataError: rows do not fit or are not finite, or their classes are missing or unknown.
        """
        cells = self.book.cells_of(rows, labels)
        if not self.classes:
            return cells
        joint: IntArray = checked_labels(labels, len(rows), self.classes) * self.book.cells + cells
        return joint
