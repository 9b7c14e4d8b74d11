"""Inputs of payments from a finished run's folder: arrays for curator/payouts, nothing worked out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from curator.payouts.ranking import Standing, rank_owners
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
        accessed: rows sent, by owner.
        orders: rows ordered, by owner, where the protocol orders; else None.
        selected: (owner, gain) of every row of the summary.
        value_by_owner: sums of winning gains.
        released: whether the run released private histograms of owners and D_v.
        standings: owners by how near to D_v's distribution theirs is; None where the run released too little.
        weights: of the mixture of owners that orders followed; None where the run made none.
    """

    run: str
    protocol: Protocol
    rounds: int
    owners: tuple[str, ...]
    accessed: Mapping[str, int]
    orders: Mapping[str, int] | None
    selected: Sequence[tuple[str, float]]
    value_by_owner: Mapping[str, float]
    released: bool
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

    def ranking(self) -> Sequence[Standing]:
        """Ranking of owners from the private histograms of the run.

        Raises:
            ConfigError: it released none, or did not say their noise.
        """
        self._check_released()
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
            self._check_released()
            raise ConfigError(f"{self.run} stopped before it weighed owners", "Use --method rows.")
        return self.weights

    def _check_released(self) -> None:
        if not self.released:
            raise ConfigError(
                f"{self.run} released no histograms to work a value out of",
                "Use --method rows or wins, or run with protocol=cells and cells.coalitions=false.",
            )


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
        owners = tuple(sorted(record["owner_rows"]))
        orders = record.get("orders")
        return PayoutInputs(
            run=str(record["run"]),
            protocol=PROTOCOLS[record["protocol"]],
            rounds=int(record["p"]),
            owners=owners,
            accessed={name: int(record["accessed"][name]) for name in owners},
            orders=None if orders is None else {name: int(orders[name]) for name in owners},
            selected=[(str(owner), float(gain)) for owner, _, _, gain in record["selected"]],
            value_by_owner={name: float(record["value_by_owner"][name]) for name in owners},
            released=record.get("histograms") is not None,
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
