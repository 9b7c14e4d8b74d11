"""File of a release of marginals: noisy tables of counts, with the deviation of the noise in each table.

The file is one .npz (`release.npz`), like that of sums in `fedkme.releases.file`: an array for each table,
and `about`, JSON in UTF-8. Nothing in the file is private any more.
"""

import itertools
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedkme.arrays import DEVIATIONS, EXACT, RELEASED, FloatArray, IntArray
from fedkme.config import validate
from fedkme.errors import DataError, FedkmeError
from fedkme.features.binning import Binning, MergedBins, OwnValues, finer, own_values_of
from fedkme.features.counts import (
    Clique,
    Groups,
    NumberScores,
    check_scores,
    count_products,
    marginal_cells,
    sizes_with,
)
from fedkme.tables.npz import npz_arrays, npz_bytes
from fedkme.tables.schema import Schema

PROTOCOL = "marginals"


@dataclass(frozen=True, eq=False)
class Measurement:
    """A marginal with noise.

    Attributes:
        clique: columns of the marginal, ascending.
        values: counts with noise, (cells,) in C order.
        sigma: standard deviation of the noise in every cell.
    """

    clique: Clique
    values: FloatArray
    sigma: float


@dataclass(frozen=True, eq=False)
class FoldedCounts(Measurement):
    """Counts of a number by fine bins, in which values without a code of their own are in their bins.

    Attributes:
        parts: number of counts that were added up in each cell: its variance is as many times sigma^2.
    """

    parts: IntArray


def pooled(measurements: Sequence[Measurement]) -> dict[Clique, tuple[float, FloatArray]]:
    """Average repeated measurements of each clique by their precisions: total precision, and mean values."""
    means = dict[Clique, tuple[float, FloatArray]]()
    for clique in dict.fromkeys(each.clique for each in measurements):
        alike = [each for each in measurements if each.clique == clique]
        weights = np.array([each.sigma**-2 for each in alike])
        means[clique] = float(weights.sum()), np.average([m.values for m in alike], axis=0, weights=weights)
    return means


def folded(measured: Measurement, asked: Binning, kept: Binning) -> FoldedCounts:
    """Add up the counts of a number in fine bins (`asked`) to counts in the coarser bins of `kept`."""
    home, size = asked.within(measured.clique[0], kept), kept.sizes[measured.clique[0]]
    values = np.bincount(home, measured.values, size).astype(np.float64)
    return FoldedCounts(measured.clique, values, measured.sigma, np.bincount(home, minlength=size))


@dataclass(frozen=True, eq=False)
class Screen:
    """Parities with noise, in which dependences show that a model lacks (fedkme.features.counts).

    Attributes:
        groups: columns of two groups.
        blocks: products of signs, places of groups, in blocks.
        sums: sums of each block, with noise.
        sigmas: standard deviation of the noise in each block.
    """

    groups: tuple[Groups, ...]
    blocks: tuple[tuple[Clique, ...], ...]
    sums: tuple[FloatArray, ...]
    sigmas: tuple[float, ...]


@dataclass(frozen=True, eq=False)
class Products:
    """Products of two scores of numbers, summed with noise (fedkme.features.counts).

    Attributes:
        ranks: scores of numbers by fine bins that rise with the rank.
        values: scores of numbers by fine bins that rise with the value; few rows have none with gaps.
        rank_sums: sums over all rows of products of ranks, each pair i < j in order; scores are in [-1, 1].
        value_sums: those of values, behind which is a score of 1 for every row: sums of values are in it.
        sigma: standard deviation of the noise in each sum.
    """

    ranks: tuple[NumberScores, ...]
    values: tuple[NumberScores, ...]
    rank_sums: FloatArray
    value_sums: FloatArray
    sigma: float

    def rank_means(self, rows: int) -> dict[tuple[int, int], float]:
        """Mean over so many rows of each product of ranks, by the two columns, in the order of `ranks`."""
        pairs = itertools.combinations((each.column for each in self.ranks), 2)
        return dict(zip(pairs, (self.rank_sums / rows).tolist(), strict=True))

    def value_mean(self, one: int, two: int | None, rows: int) -> float:
        """Mean over so many rows of the product of two columns' values, or of one column's."""
        columns = [*(each.column for each in self.values), None]
        places = tuple(sorted((columns.index(one), columns.index(two))))
        pairs = list[tuple[int, ...]](itertools.combinations(range(len(columns)), 2))
        return float(self.value_sums[pairs.index(places)]) / rows


@dataclass(frozen=True, eq=False)
class StoredCounts:
    """A release of marginals.

    Attributes:
        schema: schema of the rows.
        settings: public settings of the method, as plain values.
        mechanism: rounds or independent.
        rows: N, public.
        owners: number of owners whose rows N counts.
        fitted: measurements to which the model is fitted.
        others: further measurements that were paid for, such as those by which the model was chosen.
        event: event of everything that was disclosed, as JSON.
        pieces: events of the single disclosures.
        fine: counts of single numbers by fine bins and the values of `fine_own`, as they were released.
        groups: columns of groups, behind those of the schema.
        grouped: measurements over groups, to which the model is fitted.
        tilts: measurements over groups, by which the label is drawn again.
        screen: parities; None where none were asked for.
        merged: bins of numbers that are merged from fine bins, by the counts of `fine`.
        products: products of scores by fine bins; None where none were asked for.
        own: values that have codes of their own in all other tables, by the counts of `fine`.
        fine_own: values that have codes of their own in `fine`.
    """

    schema: Schema
    settings: Mapping[str, Any]
    mechanism: str
    rows: int
    owners: int
    fitted: tuple[Measurement, ...]
    others: tuple[Measurement, ...]
    event: Mapping[str, Any]
    pieces: Mapping[str, Any]
    fine: tuple[Measurement, ...] = ()
    groups: tuple[Groups, ...] = ()
    grouped: tuple[Measurement, ...] = ()
    tilts: tuple[Measurement, ...] = ()
    screen: Screen | None = None
    merged: tuple[MergedBins, ...] = ()
    products: Products | None = None
    own: tuple[OwnValues, ...] = ()
    fine_own: tuple[OwnValues, ...] = ()

    @property
    def binning(self) -> Binning:
        """Coding by which rows became codes."""
        return Binning(self.schema, int(self.settings["bins"]), self.merged, self.own)

    @property
    def finer(self) -> Binning:
        """Coding of numbers by fine bins, with the own values of all tables."""
        return finer(self.binning, int(self.settings.get("fine", 1)))

    @property
    def asked(self) -> Binning:
        """Coding of numbers in `fine`."""
        return replace(self.finer, own=self.fine_own)

    @property
    def folded(self) -> tuple[FoldedCounts, ...]:
        """Counts of `fine` by the codes of `finer`."""
        asked, kept = self.asked, self.finer
        return tuple(folded(each, asked, kept) for each in self.fine)

    @property
    def measurements(self) -> tuple[Measurement, ...]:
        """All measurements, fitted or not."""
        return (*self.fitted, *self.others)

    def to_bytes(self) -> bytes:
        """Write the file of the release; equal releases give equal bytes."""
        measured = self.measurements
        about = {
            "version": 1,
            "protocol": PROTOCOL,
            "settings": dict(self.settings),
            "mechanism": self.mechanism,
            "schema": self.schema.model_dump(mode="json"),
            "rows": self.rows,
            "owners": self.owners,
            "cliques": [list(each.clique) for each in measured],
            "deviations": [each.sigma for each in measured],
            "fitted": len(self.fitted),
            "event": dict(self.event),
            "pieces": dict(self.pieces),
            "fine": [[*each.clique, each.sigma] for each in self.fine],
            "groups": [[each.column, *each.of] for each in self.groups],
            "grouped": [[*each.clique, each.sigma] for each in self.grouped],
            "tilts": [[*each.clique, each.sigma] for each in self.tilts],
            "merged": [asdict(each) for each in self.merged],
            "own": [asdict(each) for each in self.own],
            "fine_own": [asdict(each) for each in self.fine_own],
        }
        arrays: dict[str, NDArray[Any]] = {f"counts{i}": each.values for i, each in enumerate(measured)}
        arrays |= {f"fine{i}": each.values for i, each in enumerate(self.fine)}
        arrays |= {f"grouped{i}": each.values for i, each in enumerate(self.grouped)}
        arrays |= {f"tilts{i}": each.values for i, each in enumerate(self.tilts)}
        if (screen := self.screen) is not None:
            arrays |= {f"parities{i}": sums for i, sums in enumerate(screen.sums)}
            about["screen"] = {
                "groups": [[each.column, *each.of] for each in screen.groups],
                "blocks": screen.blocks,
                "deviations": screen.sigmas,
            }
        if (products := self.products) is not None:
            arrays |= {"rank_products": products.rank_sums, "value_products": products.value_sums}
            about["products"] = {
                "ranks": [[each.column, *each.of] for each in products.ranks],
                "values": [[each.column, *each.of] for each in products.values],
                "deviation": products.sigma,
            }
        text = json.dumps(about, sort_keys=True, allow_nan=False)
        return npz_bytes(arrays | {"about": np.frombuffer(text.encode(), dtype=np.uint8)})


def counts_from_bytes(data: bytes, source: str = "the release") -> StoredCounts:
    """Read what `StoredCounts.to_bytes` wrote.

    Raises:
        DataError: the bytes are not a release of marginals, or an earlier version wrote them, without the
            deviations of the noise.
    """
    arrays = npz_arrays(data, source)
    try:
        about: dict[str, Any] = json.loads(arrays["about"].astype(np.uint8).tobytes())
        if about["protocol"] != PROTOCOL or about["version"] != 1:
            raise ValueError
        if "deviations" not in about:
            cause = f"{source} was made by an earlier version, which did not write down the noise in it"
            raise DataError(cause, "Make the release again; its synthetic rows can be used as they are.")
        schema = validate(Schema, about["schema"], source)
        measured = tuple(
            Measurement(tuple(clique), _values(arrays[f"counts{i}"]), DEVIATIONS.real(sigma, "a deviation"))
            for i, (clique, sigma) in enumerate(zip(about["cliques"], about["deviations"], strict=True))
        )
        fitted = int(about["fitted"])
        release = StoredCounts(
            schema,
            about["settings"],
            str(about["mechanism"]),
            int(about["rows"]),
            int(about["owners"]),
            measured[:fitted],
            measured[fitted:],
            about["event"],
            about["pieces"],
            _tables("fine", about, arrays),
            _groups(about.get("groups", ())),
            _tables("grouped", about, arrays),
            _tables("tilts", about, arrays),
            _screen(about["screen"], arrays) if "screen" in about else None,
            tuple(
                MergedBins(str(each["column"]), int(each["grid"]), tuple(map(int, each["starts"])))
                for each in about.get("merged", ())
            ),
            _products(about["products"], arrays) if "products" in about else None,
            own_values_of(about.get("own", ())),
            own_values_of(about.get("fine_own", ())),
        )
        _check(release)
    except DataError:
        raise
    except (KeyError, ValueError, TypeError, FedkmeError):
        raise DataError(f"{source} is no release of marginals", "Fetch it again.") from None
    return release


def protocol_of(data: bytes, source: str) -> str:
    """Name of the protocol that made a release file.

    Raises:
        DataError: the bytes are not a release.
    """
    try:
        about = json.loads(npz_arrays(data, source)["about"].astype(np.uint8).tobytes())
        return str(about["protocol"])
    except (KeyError, ValueError, TypeError):
        raise DataError(f"{source} is no release", "Give the folder that holds release.npz.") from None


def _values(array: NDArray[Any]) -> FloatArray:
    return RELEASED.array(array, (None,), "released numbers")


def _tables(
    name: str, about: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]
) -> tuple[Measurement, ...]:
    return tuple(
        Measurement(tuple(clique), _values(arrays[f"{name}{i}"]), DEVIATIONS.real(sigma, "a deviation"))
        for i, (*clique, sigma) in enumerate(about.get(name, ()))
    )


def _groups(plain: Any) -> tuple[Groups, ...]:
    return tuple(Groups(int(column), tuple(map(int, of))) for column, *of in plain)


def _screen(plain: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> Screen:
    blocks = tuple(tuple(tuple(map(int, product)) for product in block) for block in plain["blocks"])
    sums = tuple(_values(arrays[f"parities{i}"]) for i in range(len(blocks)))
    screen = Screen(_groups(plain["groups"]), blocks, sums, tuple(map(float, plain["deviations"])))
    products = [product for block in blocks for product in block]
    if not products or not all(p and 0 <= min(p) <= max(p) < len(screen.groups) for p in products):
        raise ValueError
    if [len(block) for block in blocks] != [len(each) for each in sums] or len(blocks) != len(screen.sigmas):
        raise ValueError
    return screen


def valued(values: int) -> int:
    """Number of scores in a block of so many scores by value: with the one that is 1 for every row."""
    return values + 1 if values else 0


def _products(plain: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> Products:
    ranks, values = (
        tuple(NumberScores(int(column), tuple(map(int, of))) for column, *of in plain[name])
        for name in ("ranks", "values")
    )
    sums = _values(arrays["rank_products"]), _values(arrays["value_products"])
    if [each.shape for each in sums] != [(count_products(n),) for n in (len(ranks), valued(len(values)))]:
        raise ValueError
    return Products(ranks, values, *sums, float(plain["deviation"]))


def _check(release: StoredCounts) -> None:
    """Raise ValueError if the parts of a release do not fit each other."""
    sizes = release.binning.sizes
    whole = sizes_with(release.groups, sizes)
    fits = all(
        each.values.shape == (marginal_cells(each.clique, codes),) and each.sigma <= DEVIATIONS.high
        for codes, tables in (
            (sizes, release.measurements),
            (release.asked.sizes, release.fine),
            (whole, (*release.grouped, *release.tilts)),
        )
        for each in tables
    )
    if release.screen is not None:
        sizes_with(release.screen.groups, sizes)
        fits &= all(0.0 <= sigma <= DEVIATIONS.high for sigma in release.screen.sigmas)
    if release.products is not None:
        check_scores((*release.products.ranks, *release.products.values), release.finer.sizes)
        fits &= 0.0 < release.products.sigma <= DEVIATIONS.high
    named, asked = (
        {(each.column, name) for each in own for name in each.which}
        for own in (release.own, release.fine_own)
    )
    if not (
        release.fitted and named <= asked and fits and release.owners >= 1 and 1 <= release.rows <= EXACT
    ):
        raise ValueError
