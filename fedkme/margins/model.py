"""Public model of the pool: rows of a release of all owners' rows, by coarse bins of every column.

D_v's margins are in these bins (fedkme.margins.picks). A model comes from a curator, which may lie: its
numbers are checked against their domains, and no proof about D_v depends on them.
"""

from __future__ import annotations

import base64
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from fedkme.arrays import COORDINATES, IntArray, Numbers, Rows
from fedkme.cells.codebook import MOST_PICKS
from fedkme.cells.directions import MOST_OF_PICKS, Menu, PaidPicks, menu_from_json
from fedkme.cells.sketch import checked_labels
from fedkme.errors import ConfigError, DataError
from fedkme.features.domain import Domain
from fedkme.tables.schema import Schema

PICKS, PICK_SHARE = 4, 0.1
"""Number of picked columns, and the share of D_v's epsilon for each pick."""
MOST_BINS = 64
"""Most bins of a column; of more names, the rarer ones are one bin."""
EDGES = (0.03, 0.1, 0.25, 0.5, 0.75, 0.9, 0.97)
"""Shares of the pool below the edges of a number's bins: a target is often in a tail."""
USUAL_ROWS, MOST_NUMBERS = 5_000, 2**18
"""Rows of a model, and most numbers of all its rows together."""
_MOST_COLUMNS = 4096
_PLACES = Numbers(0, 2**31)


@dataclass(frozen=True, eq=False)
class PoolModel(PaidPicks):
    """A public model of the pool: bins of every column, and rows of a release by these bins.

    Attributes:
        groups: for each column, its places in the encoded row: one for a number, and for a category those of
            its names, the most frequent first; each place is of one column.
        edges: for each column, the edges of a number's bins; none for a category.
        classes: C, where the rows of all parties have classes, whose margin is on offer, too; else 0.
        codes: bins of the model's rows, (n, c), with the class last.
        picks: k, the number of columns that D_v picks.
        share: share of D_v's epsilon for each pick.
    """

    groups: tuple[tuple[int, ...], ...]
    edges: tuple[tuple[float, ...], ...]
    classes: int
    codes: IntArray
    picks: int
    share: float

    def __post_init__(self) -> None:
        wrong = ConfigError("a model of the pool does not fit itself", "Compare the parties' versions.")
        if not 1 <= len(self.groups) == len(self.edges) <= _MOST_COLUMNS:
            raise wrong
        columns = len(self.groups) + (self.classes > 0)
        checked = {
            "groups": tuple(_PLACES.counts(list(each), "places of a column") for each in self.groups),
            "edges": tuple(_edges(each) for each in self.edges),
            "classes": _PLACES.count(self.classes, "the classes of a model"),
            "picks": Numbers(1, min(MOST_PICKS, columns)).count(self.picks, "the picks of a model"),
            "share": Numbers(2.0**-60, MOST_OF_PICKS / self.picks).real(self.share, "the share of a pick"),
        }
        for name, value in checked.items():
            object.__setattr__(self, name, value)
        sizes, places = np.array(self.sizes), [place for group in self.groups for place in group]
        if self.codes.ndim != 2 or self.codes.shape[1] != columns or not 0 < self.codes.size <= MOST_NUMBERS:
            raise wrong
        if not all(self.groups) or len(set(places)) < len(places) or sizes.max() > MOST_BINS:
            raise wrong
        if (self.codes < 0).any() or (self.codes >= sizes).any():
            raise wrong

    @property
    def sizes(self) -> list[int]:
        """Bins of every column."""
        bins = [
            len(edges) + 1 if len(group) == 1 else min(len(group), MOST_BINS)
            for group, edges in zip(self.groups, self.edges, strict=True)
        ]
        return [*bins, self.classes] if self.classes else bins

    @property
    def histograms(self) -> int:
        """Number of margins, one for each pick."""
        return self.picks

    def names_of(self, picks: Sequence[int], schema: Schema) -> list[str]:
        """Names of picked columns, for people."""
        names = [each.name for each in schema.columns for _, width in each.parts for _ in range(width)]
        label = "" if schema.label is None else schema.label.name
        return [names[self.groups[pick][0]] if pick < len(self.groups) else label for pick in picks]

    def check_fit(self, schema: Schema, labelled: bool) -> None:
        """Refuse a model of another schema, or of classes that D_v lacks, before any row is read.

        So no model is refused by what a row has: such a refusal would disclose it without a cost.

        Raises:
            ConfigError: the model does not fit.
        """
        furthest = max(max(group) for group in self.groups)
        if furthest >= schema.encoded_width or self.classes not in (0, labelled and len(schema.classes)):
            raise ConfigError("a model of the pool does not fit the schema", "Compare the parties' versions.")

    def codes_of(self, rows: Rows, labels: IntArray | None = None) -> IntArray:
        """Bins of encoded rows, (m, n) -> (m, c) int64; `check_fit` has let in the model.

        Raises:
            DataError: rows do not fit or are not finite, or their classes are missing or unknown.
        """
        points = np.asarray(rows, np.float64)
        if points.ndim != 2 or not np.isfinite(points).all():
            raise DataError("rows do not fit the model of the pool", "Encode rows by the public schema.")
        codes = [
            np.searchsorted(np.array(edges), points[:, group[0]])
            if len(group) == 1
            else np.minimum(points[:, group].argmax(axis=1), MOST_BINS - 1)
            for group, edges in zip(self.groups, self.edges, strict=True)
        ]
        if self.classes:
            codes.append(checked_labels(labels, len(points), self.classes))
        return np.stack(codes, axis=1).astype(np.int64)

    def to_json(self) -> dict[str, Any]:
        """Plain values; `model_from_json` reads them back."""
        packed = zlib.compress(np.ascontiguousarray(self.codes.astype(np.uint8)).tobytes())
        return {
            "groups": [list(group) for group in self.groups],
            "edges": [list(edges) for edges in self.edges],
            "classes": self.classes,
            "rows": len(self.codes),
            "codes": base64.b64encode(packed).decode("ascii"),
            "picks": self.picks,
            "share": self.share,
        }


def _edges(plain: Sequence[float]) -> tuple[float, ...]:
    edges = COORDINATES.array(list(plain), (None,), "edges of a column").tolist()
    if edges != sorted(set(edges)):
        raise ConfigError("edges of a column are not in order", "Compare the parties' versions.")
    return tuple(edges)


def model_from_json(plain: Mapping[str, Any]) -> PoolModel:
    """Read what `PoolModel.to_json` wrote.

    Raises:
        ConfigError: the values are no model of the pool.
    """
    try:
        classes = _PLACES.count(plain["classes"], "the classes of a model")
        columns = len(plain["groups"]) + (classes > 0)
        rows = Numbers(1, MOST_NUMBERS // max(columns, 1)).count(plain["rows"], "the rows of a model")
        packed = base64.b64decode(plain["codes"], validate=True)
        data = zlib.decompressobj().decompress(packed, rows * columns + 1)  # more would be a bomb
        codes = np.frombuffer(data, np.uint8).reshape(rows, -1).astype(np.int64)
        groups, edges = (tuple(map(tuple, plain[name])) for name in ("groups", "edges"))
        return PoolModel(groups, edges, classes, codes, plain["picks"], plain["share"])
    except (KeyError, TypeError, AttributeError, ValueError, zlib.error):
        raise ConfigError("this is no model of the pool", "Compare the parties' versions.") from None


def any_menu_from_json(plain: Mapping[str, Any]) -> Menu | PoolModel:
    """Read a plan's menu: directions for sign bits, or a model of the pool.

    Raises:
        ConfigError: the values are neither.
    """
    return model_from_json(plain) if "codes" in plain else menu_from_json(plain)


def make_model(
    rows: Rows, labels: IntArray | None, schema: Schema, picks: int = PICKS, share: float = PICK_SHARE
) -> PoolModel:
    """Make the model of the rows of a release: public rows, encoded, with their classes or None."""
    points, groups, edges = np.asarray(rows, np.float64), list[tuple[int, ...]](), list[tuple[float, ...]]()
    for dimension in Domain(schema).dimensions:
        places = np.arange(dimension.start, dimension.start + dimension.width)
        if dimension.levels == 1:
            continue
        often = np.argsort(-points[:, places].sum(axis=0), kind="stable") if dimension.levels else [0]
        groups.append(tuple(places[often].tolist()))
        cuts = () if dimension.levels else np.unique(np.quantile(points[:, dimension.start], EDGES)).tolist()
        edges.append(tuple(cuts))
    classes = 0 if labels is None or len(schema.classes) > MOST_BINS else len(schema.classes)
    columns = len(groups) + (classes > 0)
    empty = np.zeros((1, columns), np.int64)
    picks = min(picks, columns)
    bare = PoolModel(tuple(groups), tuple(edges), classes, empty, picks, min(share, MOST_OF_PICKS / picks))
    return replace(bare, codes=bare.codes_of(points, labels))


def model_rows(schema: Schema) -> int:
    """Rows of a model: fewer where the schema has many columns."""
    return min(USUAL_ROWS, max(1, MOST_NUMBERS // (len(Domain(schema).dimensions) + 1)))
