"""Inputs of payments from a finished run's folder: arrays for curator/payouts, nothing worked out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from curator.payouts.ranking import Standing, rank_owners
from fedkme.cells.histogram import shares
from fedkme.errors import ConfigError, StoreError
from fedkme.protocols import PROTOCOLS, Protocol
from sim.engines.run_folder import read_record


@dataclass(frozen=True, slots=True, eq=False)
class PayoutInputs:
    """One run, as payments see it.

    Attributes:
        run: its name in ledgers.
        protocol: its row in fedkme/protocols.py.
        rounds: p, rows asked for.
        owners: names of all that took part, sorted.
        owner_rows: m_j, public.
        accessed: rows sent, by owner.
        orders: rows ordered, by owner, where the protocol orders; else None.
        selected: (owner, gain) of every row of the summary.
        value_by_owner: sums of winning gains.
        histograms: noised and normalised, by owner; None where the run released none.
        target: D_v's histogram, likewise.
        standings: owners by how near to D_v's distribution theirs is; None where the run released too little.
        weights: of the mixture of owners that orders followed; None where the run made none.
    """

    run: str
    protocol: Protocol
    rounds: int
    owners: tuple[str, ...]
    owner_rows: Mapping[str, int]
    accessed: Mapping[str, int]
    orders: Mapping[str, int] | None
    selected: Sequence[tuple[str, float]]
    value_by_owner: Mapping[str, float]
    histograms: Mapping[str, Sequence[float]] | None
    target: Sequence[float] | None
    standings: Sequence[Standing] | None = None
    weights: Mapping[str, float] | None = None

    @property
    def ranked(self) -> bool:
        """Check whether rows were chosen by their gains."""
        return self.protocol.family == "auction"

    def counts(self) -> tuple[Mapping[str, int], bool]:
        """Rows to pay for by owner, and whether they follow from public numbers and private releases."""
        if self.ranked:
            return self.accessed, False
        return self.orders or self.accessed, self.orders is not None or not self.protocol.ordered

    def gains(self) -> dict[str, list[float]]:
        """Winning gains of every owner, in order."""
        gains: dict[str, list[float]] = {name: [] for name in self.owners}
        for owner, gain in self.selected:
            gains[owner].append(gain)
        return gains

    def wins(self) -> dict[str, int]:
        """Rows of every owner in the summary."""
        return {name: len(gains) for name, gains in self.gains().items()}

    def released(self) -> tuple[Mapping[str, Sequence[float]], Sequence[float]]:
        """The private histograms of the run.

        Raises:
            ConfigError: it released none.
        """
        if self.histograms is None or self.target is None:
            raise ConfigError(
                f"{self.run} released no histograms to work a value out of",
                "Use --method rows or wins, or run with protocol=cells and cells.coalitions=false.",
            )
        return self.histograms, self.target

    def ranking(self) -> Sequence[Standing]:
        """Ranking of owners from the private histograms of the run.

        Raises:
            ConfigError: it released none, or did not say their noise.
        """
        self.released()
        if self.standings is None:
            raise ConfigError(
                f"the record of {self.run} does not say the noise of its histograms",
                "Rank owners by a run of this version.",
            )
        return self.standings

    def mixture(self) -> Mapping[str, float]:
        """The weights of the mixture.

        Raises:
            ConfigError: there is none.
        """
        if self.weights is None:
            self.released()
            raise ConfigError(f"{self.run} stopped before it weighed owners", "Use --method shapley.")
        return self.weights

    def pool(self) -> list[float]:
        """The histogram of all owners' rows together, from private histograms and public sizes."""
        histograms, target = self.released()
        total = sum(self.owner_rows[name] for name in histograms) or 1
        weights = {name: self.owner_rows[name] / total for name in histograms}
        return [sum(weights[name] * h[cell] for name, h in histograms.items()) for cell in range(len(target))]


def read_inputs(directory: Path) -> PayoutInputs:
    """Read them from record.json.

    Raises:
        ConfigError: there is no such folder.
        StoreError: the folder has no record of a run, or one that is not whole.
    """
    if not directory.is_dir():
        raise ConfigError(f"there is no folder {directory}", "Give the folder of a finished run.")
    try:
        record = read_record(directory)
        if record is None:
            raise StoreError(f"{directory} holds no record.json", "Give the folder of a finished run.")
        histograms = record.get("histograms")
        owners = tuple(sorted(record["owner_rows"]))
        target = record.get("target_histogram")
        orders = record.get("orders")
        return PayoutInputs(
            run=str(record["run"]),
            protocol=PROTOCOLS[record["protocol"]],
            rounds=int(record["p"]),
            owners=owners,
            owner_rows={name: int(record["owner_rows"][name]) for name in owners},
            accessed={name: int(record["accessed"][name]) for name in owners},
            orders=None if orders is None else {name: int(orders[name]) for name in owners},
            selected=[(str(owner), float(gain)) for owner, _, _, gain in record["selected"]],
            value_by_owner={name: float(record["value_by_owner"][name]) for name in owners},
            histograms=None
            if histograms is None
            else {
                name: _shares(counts, int(record["owner_rows"][name]), int(record["classes"]))
                for name, counts in histograms.items()
            },
            target=None if target is None else _shares(target, int(record["validation_rows"]), 0),
            standings=_standings(record),
            weights=record.get("mixture_weights"),
        )
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        raise StoreError(
            f"the record in {directory} is not one that a run wrote", "Restore the run's folder."
        ) from None


def _standings(record: Mapping[str, Any]) -> list[Standing] | None:
    if record.get("histograms") is None or record.get("noise_scale") is None:
        return None
    sizes = {name: int(rows) for name, rows in record["owner_rows"].items()}
    rows, scale = int(record["validation_rows"]), float(record["noise_scale"])
    return rank_owners(record["histograms"], sizes, record["target_histogram"], rows, scale)


def _shares(noisy: Sequence[int], rows: int, classes: int) -> list[float]:
    """Noisy counts by (class and) cell as a distribution over cells."""
    counts = np.array(noisy, dtype=np.int64).reshape(max(1, classes), -1).sum(axis=0)
    found: list[float] = (shares(counts, rows) if rows else np.zeros(len(counts))).tolist()
    return found
