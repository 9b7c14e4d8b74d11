"""A release of marginals as it is kept and sent: noisy tables of counts, and the noise that is in each.

It is one .npz file (`release.npz`), as `fedkme.releases.file` has for sums: an array for each table, and
`about`, JSON in UTF-8. Nothing in it is private any more.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedkme.arrays import FloatArray
from fedkme.config import validate
from fedkme.errors import DataError, FedkmeError
from fedkme.features.binning import Binning, finer
from fedkme.features.counts import Clique, marginal_cells
from fedkme.tables.npz import npz_arrays, npz_bytes
from fedkme.tables.schema import Schema

PROTOCOL = "marginals"


@dataclass(frozen=True, eq=False)
class Measurement:
    """A marginal over ascending columns, with noise.

    Its values are (cells,) counts in C order; sigma is the deviation of the noise in every cell.
    """

    clique: Clique
    values: FloatArray
    sigma: float


@dataclass(frozen=True, eq=False)
class StoredCounts:
    """A release of marginals.

    Attributes:
        schema: of the rows.
        settings: the method's public settings, plain values.
        mechanism: aim, mst or independent.
        rows: N, public.
        owners: how many were pooled.
        fitted: measurements that the model is fitted to.
        others: measurements that were paid for and are not in the model, such as those that it was chosen by.
        event: everything that was disclosed, as JSON has it.
        pieces: the same, one by one.
        fine: single numbers by finer bins.
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

    @property
    def binning(self) -> Binning:
        """Coding by which rows became codes."""
        return Binning(self.schema, int(self.settings["bins"]))

    @property
    def finer(self) -> Binning:
        """Coding of the numbers that `fine` has."""
        return finer(self.binning, int(self.settings.get("fine", 1)))

    @property
    def measurements(self) -> tuple[Measurement, ...]:
        """All of them."""
        return (*self.fitted, *self.others)

    def to_bytes(self) -> bytes:
        """The file of the release; the same release gives the same bytes."""
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
        }
        arrays: dict[str, NDArray[Any]] = {f"counts{i}": each.values for i, each in enumerate(measured)}
        arrays |= {f"fine{i}": each.values for i, each in enumerate(self.fine)}
        text = json.dumps(about, sort_keys=True, allow_nan=False)
        return npz_bytes(arrays | {"about": np.frombuffer(text.encode(), dtype=np.uint8)})


def counts_from_bytes(data: bytes, source: str = "the release") -> StoredCounts:
    """Read what `StoredCounts.to_bytes` wrote.

    Raises:
        DataError: it is no release of marginals, or one of an earlier version, which did not write down the
            noise that is in it.
    """
    arrays = npz_arrays(data, source)
    try:
        about: dict[str, Any] = json.loads(arrays["about"].astype(np.uint8).tobytes())
        if about["protocol"] != PROTOCOL or about["version"] != 1:
            raise ValueError
        if "deviations" not in about:
            raise DataError(
                f"{source} was made by an earlier version, which did not write down the noise in it",
                "Make the release again; its synthetic rows can be used as they are.",
            )
        schema = validate(Schema, about["schema"], source)
        measured = tuple(
            Measurement(tuple(clique), _finite(arrays[f"counts{i}"]), float(sigma))
            for i, (clique, sigma) in enumerate(zip(about["cliques"], about["deviations"], strict=True))
        )
        fitted = int(about["fitted"])
        found = StoredCounts(
            schema,
            about["settings"],
            str(about["mechanism"]),
            int(about["rows"]),
            int(about["owners"]),
            measured[:fitted],
            measured[fitted:],
            about["event"],
            about["pieces"],
            tuple(
                Measurement((column,), _finite(arrays[f"fine{i}"]), float(sigma))
                for i, (column, sigma) in enumerate(about.get("fine", ()))
            ),
        )
        _check(found)
    except DataError:
        raise
    except (KeyError, ValueError, TypeError, FedkmeError):
        raise DataError(f"{source} is no release of marginals", "Fetch it again.") from None
    return found


def protocol_of(data: bytes, source: str) -> str:
    """Name of the method that a release file is of.

    Raises:
        DataError: it is no release.
    """
    try:
        about = json.loads(npz_arrays(data, source)["about"].astype(np.uint8).tobytes())
        return str(about["protocol"])
    except (KeyError, ValueError, TypeError):
        raise DataError(f"{source} is no release", "Give the folder that holds release.npz.") from None


def _finite(array: NDArray[Any]) -> FloatArray:
    values: FloatArray = array.astype(np.float64)
    if not np.isfinite(values).all():
        raise ValueError
    return values


def _check(release: StoredCounts) -> None:
    """Refuse what does not go together."""
    fits = all(
        each.values.shape == (marginal_cells(each.clique, binning.sizes),) and 0.0 <= each.sigma < np.inf
        for binning, tables in ((release.binning, release.measurements), (release.finer, release.fine))
        for each in tables
    )
    if not (release.fitted and fits and release.rows >= 1 and release.owners >= 1):
        raise ValueError
