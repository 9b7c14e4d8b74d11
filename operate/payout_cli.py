"""`fedkme payout`: divides a sum of money among the owners of a finished run, from the run's folder."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from curator.payouts.payout import Payout, Standing, by_gains, by_mixture, by_price, by_rows, rank_owners
from fedkme.errors import ConfigError, StoreError
from fedkme.protocols import PROTOCOLS, Protocol
from fedkme.verbs import AsJson, Verbs, console, print_json, table_of
from sim.engines.run_folder import read_record

app = Verbs()


class PayoutBasis(StrEnum):
    """Basis of the owners' amounts."""

    ROWS = "rows"
    GAINS = "gains"
    MIXTURE = "mixture"


@app.verb(
    "fedkme payout runs/digits-1 --total 10000",
    "fedkme payout runs/digits-1 --method rows --price 3 --json",
    json="an object: method, total, amounts, shares, ...; with --rank a list (owner, distance, margin)",
)
def payout(
    directory: Annotated[Path, typer.Argument(help="The run's folder.")],
    method: Annotated[PayoutBasis, typer.Option(help="Basis of the amounts.")] = PayoutBasis.ROWS,
    total: Annotated[int, typer.Option(min=0, help="Sum to divide, in the currency's smallest unit.")] = 1000,
    price: Annotated[
        int | None, typer.Option(min=0, help="With rows: a price per row in place of a total.")
    ] = None,
    rank: Annotated[
        bool, typer.Option("--rank", help="Pay nobody: rank owners by the distance of their rows from D_v.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Divide a sum by rows sent, winning gains or mixture weights; or rank owners."""
    inputs = read_inputs(directory)
    if rank:
        _rank(inputs.ranking(), as_json)
        return
    if price is not None and method is not PayoutBasis.ROWS:
        raise ConfigError("a price per row goes with --method rows alone", "Leave out --price.")
    result = divided(inputs, method, total, price)
    if as_json:
        print_json(result.to_json())
    else:
        show(result, console())


def divided(inputs: PayoutInputs, method: PayoutBasis, total: int, price: int | None) -> Payout:
    """Make a payout.

    Raises:
        ConfigError: the run lacks an input of the method.
    """
    match method:
        case PayoutBasis.ROWS if price is not None:
            return by_price(inputs.accessed, price)
        case PayoutBasis.ROWS:
            counts, public = inputs.counts()
            return by_rows(counts, total, public)
        case PayoutBasis.GAINS:
            if not inputs.ranked:
                cause = f"{inputs.protocol.title} has no winning gains: no party learns which rows survive"
                raise ConfigError(cause, "Use --method rows, or mixture with protocol=cells.")
            return by_gains(inputs.value_by_owner, total)
        case PayoutBasis.MIXTURE:
            return by_mixture(inputs.mixture(), total)


def show(payout: Payout, out: Console) -> None:
    """Print the table of amounts, and the privacy cost of showing it."""
    audience = "each owner may see its own" if payout.audience == "owners" else "CURATOR ONLY"
    out.print(f"{payout.method}: {payout.total:,} in all; {audience}", highlight=False)
    shares = payout.shares
    rows = ((name, f"{amount:,}", f"{100 * shares[name]:.2f} %") for name, amount in payout.amounts.items())
    out.print(table_of(("owner", ">amount", ">share"), rows, ruled=True))
    out.print(f"tells owners of each other: {payout.tells}", highlight=False)


def _rank(standings: Sequence[Standing], as_json: bool) -> None:
    if as_json:
        print_json([asdict(standing) for standing in standings])
        return
    out = console()
    rows = (
        (str(place), standing.owner, f"{standing.distance:.4f}", f"{standing.margin:.4f}")
        for place, standing in enumerate(standings, 1)
    )
    out.print(table_of(("", "owner", ">distance to D_v", ">+- 95 %"), rows, ruled=True))
    out.print("tells nothing new: computed from private histograms already paid for", highlight=False)


@dataclass(frozen=True, slots=True, eq=False)
class PayoutInputs:
    """Inputs of payments from one run.

    Attributes:
        run: name of the run in ledgers.
        protocol: the run's row in fedkme/protocols.py.
        accessed: rows sent, by owner.
        orders: rows ordered, by owner; None if the protocol has no orders.
        value_by_owner: sums of winning gains.
        released: True if the run released private histograms of owners and D_v.
        standings: owners by the distance of their distribution from D_v's; None if the run released too
            little.
        weights: mixture weights behind the orders, by owner; None if the run made none.
    """

    run: str
    protocol: Protocol
    accessed: Mapping[str, int]
    orders: Mapping[str, int] | None
    value_by_owner: Mapping[str, float]
    released: bool
    standings: Sequence[Standing] | None = None
    weights: Mapping[str, float] | None = None

    @property
    def ranked(self) -> bool:
        """True if rows were chosen by their gains."""
        return self.protocol.family == "auction"

    def counts(self) -> tuple[Mapping[str, int], bool]:
        """Rows to pay for by owner; and True if these follow from public numbers and private releases."""
        if self.ranked:
            return self.accessed, False
        return self.orders or self.accessed, self.orders is not None or not self.protocol.ordered

    def ranking(self) -> Sequence[Standing]:
        """Ranking of owners from the run's private histograms.

        Raises:
            ConfigError: the run released no histograms, or did not record their noise.
        """
        self._check_released()
        if self.standings is None:
            cause = f"the record of {self.run} does not say the noise of its histograms"
            raise ConfigError(cause, "Rank owners by a run of this version.")
        return self.standings

    def mixture(self) -> Mapping[str, float]:
        """Mixture weights by owner.

        Raises:
            ConfigError: the run made none.
        """
        if self.weights is None:
            self._check_released()
            raise ConfigError(f"{self.run} stopped before owners had weights", "Use --method rows.")
        return self.weights

    def _check_released(self) -> None:
        if not self.released:
            remedy = "Use --method rows, or run with protocol=cells and cells.coalitions=false."
            raise ConfigError(f"{self.run} released no histograms to compute a value from", remedy)


def read_inputs(directory: Path) -> PayoutInputs:
    """Read the inputs of payments from a run's record.json.

    Raises:
        ConfigError: the folder does not exist.
        StoreError: the folder has no record of a run, or a damaged one.
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
            accessed={name: int(record["accessed"][name]) for name in owners},
            orders=None if orders is None else {name: int(orders[name]) for name in owners},
            value_by_owner={name: float(record["value_by_owner"][name]) for name in owners},
            released=record.get("histograms") is not None,
            standings=_standings(record),
            weights=record.get("mixture_weights"),
        )
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        cause = f"the record in {directory} is damaged, or not a run's"
        raise StoreError(cause, "Restore the run's folder.") from None


def _standings(record: Mapping[str, Any]) -> list[Standing] | None:
    if record.get("histograms") is None or record.get("noise_scale") is None:
        return None
    sizes = {name: int(rows) for name, rows in record["owner_rows"].items()}
    rows, scale = int(record["validation_rows"]), float(record["noise_scale"])
    classes = int(record["code_book"].get("classes", 1))  # not in records of version 0.2
    return rank_owners(record["histograms"], sizes, record["target_histogram"], rows, scale, classes)
