"""Code book by a public density of D_v over the pool, by which owners count rows like D_v and pick them.

The density is a product of factors, one for the bin of a row in each of some columns, and one for its class:

    f(x) = min(most, product over j of factors[j][bin of x in column j]),    w(x) = min(1, f(x) / reference).

A row is counted as like D_v where its coin is below w(x). The coins are public numbers, the fractional parts
of multiples of the golden ratio: the i-th row has the i-th coin. So their average over any run of rows is
nearly that of fair coins, and the number of rows like D_v is nearly the sum of w.

Relation: replace one row in its place, the number of rows public. Unit: rows. Sensitivity: a row is in one of
two cells, by its coin and its own values, for any density that a peer names: as in any histogram
(fedkme.cells.histogram), the L1 norm of the two counts moves by 2 at most. No coin protects anything.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from fedkme.arrays import COORDINATES, WIDTHS, FloatArray, IntArray, Numbers, Rows
from fedkme.cells.codebook import BEYOND, MOST_PICKS, CodeBook, code_book_from_json
from fedkme.cells.sketch import checked_labels
from fedkme.errors import ConfigError, DataError
from fedkme.tables.schema import Schema

GOLDEN = (5.0**0.5 - 1.0) / 2.0
_AXES = {"along": 2, "edges": 2, "factors": 2, "own": 1}
_SEEDS = Numbers(0, 2**64 - 1)


@dataclass(frozen=True, eq=False)
class DensityBook:
    """A public density, and the two cells of rows unlike D_v and like it.

    Attributes:
        arrays: `along`, (n, k): an encoded row x has the number `along`[:, j]'x in column j; `edges`, (k, t),
            ascending: its bin there is the number of edges below that number, with BEYOND in place of edges
            that a column lacks; `factors`, (k, t + 1), by bin; `own`, (C,), by a row's class, or (0,).
        most: largest density.
        reference: density from which on a row counts as like D_v.
        seed: public seed of owners' choice among rows.
        schema: schema of the rows.
    """

    kind: ClassVar[str] = "density"
    cells: ClassVar[int] = 2
    classes: ClassVar[int] = 1

    arrays: Mapping[str, FloatArray]
    most: float
    reference: float
    seed: int
    schema: Schema = field(repr=False)

    def __post_init__(self) -> None:
        if set(self.arrays) != set(_AXES):
            raise ConfigError("a density lacks an array, or has an unknown one", "Update this party.")
        domains = {"along": COORDINATES, "edges": COORDINATES, "factors": WIDTHS, "own": WIDTHS}
        checked = {
            name: domains[name].array(self.arrays[name], (None,) * axes, f"a density's {name}")
            for name, axes in _AXES.items()
        }
        columns, edges = checked["edges"].shape
        own = len(checked["own"])
        if (
            checked["along"].shape != (self.schema.encoded_width, columns)
            or checked["factors"].shape != (columns, edges + 1)
            or own not in (0, len(self.schema.classes))
            or columns > MOST_PICKS  # the product of so few factors is never 0
            or (np.diff(checked["edges"]) < 0.0).any()  # a search would begin at the bin of the row before
        ):
            raise ConfigError("a density's arrays do not fit each other", "Compare the parties' versions.")
        values = {
            "arrays": checked,
            "most": WIDTHS.real(self.most, "the largest density"),
            "reference": WIDTHS.real(self.reference, "the density of rows like D_v"),
            "seed": _SEEDS.count(self.seed, "the seed of a density"),
        }
        for name, value in values.items():
            object.__setattr__(self, name, value)

    @property
    def needs_labels(self) -> bool:
        """Check whether a row's density depends on its class."""
        return len(self.arrays["own"]) > 0

    def to_json(self) -> dict[str, Any]:
        """Plain values, with arrays as nested lists; `density_from_json` reads them back."""
        arrays = {name: array.tolist() for name, array in self.arrays.items()}
        numbers = {name: getattr(self, name) for name in ("most", "reference", "seed")}
        return {"kind": self.kind, "arrays": arrays, **numbers}

    def density_of(self, rows: Rows, labels: IntArray | None = None) -> FloatArray:
        """Density f of encoded rows, (m, n) -> (m,).

        Args:
            rows: encoded, (m, n).
            labels: classes of the rows, (m,); read where `needs_labels`.

        Raises:
            DataError: rows do not fit or are not finite, or their classes are missing or unknown.
        """
        points = np.asarray(rows, np.float64)
        if points.shape[1:] != (self.schema.encoded_width,) or not np.isfinite(points).all():
            raise DataError("rows do not fit the density", "Encode rows by the public schema.")
        density = np.ones(len(points))
        for values, edges, factors in zip(
            (points @ self.arrays["along"]).T, self.arrays["edges"], self.arrays["factors"], strict=True
        ):
            density *= factors[np.searchsorted(edges[edges < BEYOND], values)]
        if self.needs_labels:
            density *= self.arrays["own"][checked_labels(labels, len(points), len(self.schema.classes))]
        return np.minimum(density, self.most)

    def cells_of(self, rows: Rows, labels: IntArray | None = None) -> IntArray:
        """Cell of each encoded row, (m, n) -> (m,) int64: 1 where it counts as like D_v, else 0."""
        coins = np.mod(GOLDEN * np.arange(1, len(rows) + 1), 1.0)
        alike = coins < self.density_of(rows, labels) / self.reference
        return np.asarray(alike, np.int64)

    def weights_of(self, rows: Rows, labels: IntArray | None = None) -> FloatArray:
        """Weights by which an owner picks rows, (m, n) -> (m,), adding up to 1."""
        weights = self.density_of(rows, labels)
        return weights / weights.sum() if len(weights) else weights


def even_density(schema: Schema, seed: int) -> DensityBook:
    """Make the density that is the same for all rows."""
    along, edges = np.zeros((schema.encoded_width, 1)), np.zeros((1, 0))
    arrays = {"along": along, "edges": edges, "factors": np.ones((1, 1)), "own": np.zeros(0)}
    return DensityBook(arrays, 1.0, 1.0, seed, schema)


def density_from_json(plain: Mapping[str, Any], schema: Schema) -> DensityBook:
    """Read what `DensityBook.to_json` wrote.

    Raises:
        ConfigError: the values are no density.
    """
    try:
        return DensityBook(plain["arrays"], plain["most"], plain["reference"], plain["seed"], schema)
    except (KeyError, TypeError, AttributeError, ValueError):
        raise ConfigError("this is no density", "Compare the parties' versions.") from None


AnyBook = CodeBook | DensityBook
"""A public partition of rows, by cells or by a density."""


def book_from_json(plain: Mapping[str, Any], schema: Schema) -> AnyBook:
    """Read what `to_json` of a code book, or of a density, wrote.

    Raises:
        ConfigError: the values are neither.
    """
    of_density = isinstance(plain, Mapping) and plain.get("kind") == DensityBook.kind
    return density_from_json(plain, schema) if of_density else code_book_from_json(plain, schema)
