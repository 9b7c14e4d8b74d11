"""`fedkme payout`: divides a sum of money among the owners of a finished run, from the run's folder."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from curator.payouts.allowance import draw_payout
from curator.payouts.gains import GainRelease, WinRelease, by_exact_gains, by_noised_gains, by_noised_wins
from curator.payouts.payout import (
    NOISED,
    Payout,
    Standing,
    by_mixture,
    by_price,
    by_rows,
    by_rows_noised,
    rank_owners,
)
from fedkme.errors import ConfigError, StoreError
from fedkme.privacy.noise import NoiseSource
from fedkme.protocols import PROTOCOLS, Protocol
from fedkme.verbs import AsJson, Verbs, console, print_json, table_of
from sim.engines.run_folder import read_record

app = Verbs()


class PayoutBasis(StrEnum):
    """Basis of the owners' amounts."""

    ROWS = "rows"
    GAINS = "gains"
    WINS = "wins"
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
    epsilon: Annotated[
        float | None,
        typer.Option(help="With rows, gains or wins: noise, of what the run's `payouts` allows."),
    ] = None,
    clip: Annotated[
        float | None, typer.Option(help="With gains and --epsilon: the largest value of a row.")
    ] = None,
    rank: Annotated[
        bool, typer.Option("--rank", help="Pay nobody: rank owners by the distance of their rows from D_v.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Divide a sum by rows sent, winning gains, wins or mixture weights; or rank owners."""
    inputs = read_inputs(directory)
    if rank:
        _rank(inputs.ranking(), as_json)
        return
    if price is not None and (method is not PayoutBasis.ROWS or epsilon is not None):
        cause = "a price per row goes with --method rows alone"
        raise ConfigError(cause, "Leave out --price, or the other options.")
    if epsilon is not None:
        request = {"method": method.value, "total": total, "epsilon": epsilon, "clip": clip}
        make = partial(noised, inputs, method, total, epsilon, clip)
        result = draw_payout(directory, inputs.run, request, make)
    else:
        result = plain(inputs, method, total, price)
    if as_json:
        print_json(result.to_json())
    else:
        show(result, console())


def plain(inputs: PayoutInputs, method: PayoutBasis, total: int, price: int | None) -> Payout:
    """Make a payout without noise of its own.

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
            _need_gains(inputs)
            return by_exact_gains(inputs.value_by_owner, total)
        case PayoutBasis.WINS:
            raise ConfigError("numbers of winning rows are released only with noise", "Give --epsilon.")
        case PayoutBasis.MIXTURE:
            return by_mixture(inputs.mixture(), total)


def noised(
    inputs: PayoutInputs,
    method: PayoutBasis,
    total: int,
    epsilon: float,
    clip: float | None,
    noise: NoiseSource,
) -> Payout:
    """Make a payout with noise, which owners may see.

    Raises:
        ConfigError: the payout has no finite epsilon, or needs no noise.
    """
    if method is PayoutBasis.MIXTURE or (method is PayoutBasis.ROWS and not inputs.ranked):
        raise ConfigError(f"{method} of this run costs nothing: it needs no noise", "Leave out --epsilon.")
    _need_gains(inputs)
    if inputs.protocol.base not in NOISED:
        cause = f"with the auction '{inputs.protocol.base}' owners' rows have no finite epsilon to add to"
        raise ConfigError(cause, "Keep payouts of this run at the curator, or pay a price per row.")
    if method is PayoutBasis.ROWS:
        return by_rows_noised(inputs.accessed, total, epsilon, noise)
    if method is PayoutBasis.WINS:
        return by_noised_wins(inputs.wins(), total, WinRelease(epsilon), noise)
    if clip is None:
        cause = "winning gains without a clip have no sensitivity: epsilon would be infinite"
        raise ConfigError(cause, "Give --clip, or use --method wins.")
    return by_noised_gains(inputs.gains(), total, GainRelease(epsilon, clip, inputs.rounds), noise)


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


def _need_gains(inputs: PayoutInputs) -> None:
    if not inputs.ranked:
        cause = f"{inputs.protocol.title} has no winning gains: no party learns which rows survive"
        raise ConfigError(cause, "Use --method rows, or mixture with protocol=cells.")


@dataclass(frozen=True, slots=True, eq=False)
class PayoutInputs:
    """Inputs of payments from one run.

    Attributes:
        run: name of the run in ledgers.
        protocol: the run's row in fedkme/protocols.py.
        rounds: p, requested rows.
        owners: names of all owners in the run, sorted.
        accessed: rows sent, by owner.
        orders: rows ordered, by owner; None if the protocol has no orders.
        selected: (owner, gain) of every row of the summary.
        value_by_owner: sums of winning gains.
        released: True if the run released private histograms of owners and D_v.
        standings: owners by the distance of their distribution from D_v's; None if the run released too
            little.
        weights: mixture weights behind the orders, by owner; None if the run made none.
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
        """True if rows were chosen by their gains."""
        return self.protocol.family == "auction"

    def counts(self) -> tuple[Mapping[str, int], bool]:
        """Rows to pay for by owner; and True if these follow from public numbers and private releases."""
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
            remedy = "Use --method rows or wins, or run with protocol=cells and cells.coalitions=false."
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
            rounds=int(record["p"]),
            owners=owners,
            accessed={name: int(record["accessed"][name]) for name in owners},
            orders=None if orders is None else {name: int(orders[name]) for name in owners},
            selected=[
                (str(owner), math.nan if gain is None else float(gain))
                for owner, _, _, gain in record["selected"]
            ],
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
