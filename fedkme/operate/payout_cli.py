"""`fedkme payout`: divide a sum of money among the owners of a finished run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from curator.payouts.allowance import draw_payout
from curator.payouts.gains import GainRelease, WinRelease, by_exact_gains, by_noised_gains, by_noised_wins
from curator.payouts.mixture import by_mixture
from curator.payouts.payout import Payout
from curator.payouts.ranking import Standing
from curator.payouts.rows import NOISED, by_price, by_rows, by_rows_noised
from fedkme.errors import ConfigError
from fedkme.operate.payout_inputs import PayoutInputs, read_inputs
from fedkme.privacy.noise import NoiseSource
from fedkme.verbs import AsJson, Verbs, console, print_json

app = Verbs()


class PayoutBasis(StrEnum):
    """Rule from which an owner's amount follows."""

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
    method: Annotated[PayoutBasis, typer.Option(help="What amounts follow from.")] = PayoutBasis.ROWS,
    total: Annotated[int, typer.Option(min=0, help="To divide, in the currency's smallest unit.")] = 1000,
    price: Annotated[
        int | None, typer.Option(min=0, help="With rows: a price per row in place of a total.")
    ] = None,
    epsilon: Annotated[
        float | None,
        typer.Option(help="With rows, gains or wins: noise, of what the run's `payouts` allows."),
    ] = None,
    clip: Annotated[
        float | None, typer.Option(help="With gains and --epsilon: the most a row is worth.")
    ] = None,
    rank: Annotated[
        bool, typer.Option("--rank", help="Pay nobody: rank owners by how near to D_v's their rows are.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Divide a sum by rows sent, winning gains, wins or mixture weights; or rank owners."""
    inputs = read_inputs(directory)
    if rank:
        _rank(inputs.ranking(), as_json)
        return
    if price is not None and (method is not PayoutBasis.ROWS or epsilon is not None):
        raise ConfigError("a price per row goes with --method rows alone", "Leave --price or the rest out.")
    if epsilon is not None:
        asked = {"method": method.value, "total": total, "epsilon": epsilon, "clip": clip}
        make = partial(noised, inputs, method, total, epsilon, clip)
        found = draw_payout(directory, inputs.run, asked, make)
    else:
        found = plain(inputs, method, total, price)
    if as_json:
        print_json(found.to_json())
    else:
        show(found, console())


def plain(inputs: PayoutInputs, method: PayoutBasis, total: int, price: int | None) -> Payout:
    """A payout without noise of its own.

    Raises:
        ConfigError: the run has not what the method needs.
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
            raise ConfigError("numbers of winning rows are released with noise alone", "Give --epsilon.")
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
    """A payout with noise, which owners may see.

    Raises:
        ConfigError: nothing bounds what it tells.
    """
    if method is PayoutBasis.MIXTURE or (method is PayoutBasis.ROWS and not inputs.ranked):
        raise ConfigError(f"{method} of this run costs nothing: it needs no noise", "Leave --epsilon out.")
    _need_gains(inputs)
    if inputs.protocol.base not in NOISED:
        raise ConfigError(
            f"with the auction '{inputs.protocol.base}' owners' rows have no finite epsilon to add to",
            "Keep payouts of this run at the curator, or pay a price per row.",
        )
    if method is PayoutBasis.ROWS:
        return by_rows_noised(inputs.accessed, total, epsilon, noise)
    if method is PayoutBasis.WINS:
        return by_noised_wins(inputs.wins(), total, WinRelease(epsilon), noise)
    if clip is None:
        raise ConfigError(
            "winning gains without a clip have no sensitivity: epsilon would be infinite",
            "Give --clip, or use --method wins.",
        )
    return by_noised_gains(inputs.gains(), total, GainRelease(epsilon, clip, inputs.rounds), noise)


def show(found: Payout, out: Console) -> None:
    """The table, and what it tells."""
    audience = "each owner may see its own" if found.audience == "owners" else "CURATOR ONLY"
    out.print(f"{found.method}: {found.total:,} in all; {audience}", highlight=False)
    table = Table()
    table.add_column("owner", overflow="fold")
    for column in ("amount", "share"):
        table.add_column(column, justify="right", no_wrap=True)
    for name, amount in found.amounts.items():
        table.add_row(name, f"{amount:,}", f"{100 * found.shares[name]:.2f} %")
    out.print(table)
    out.print(f"tells owners of each other: {found.tells}", highlight=False)


def _rank(standings: Sequence[Standing], as_json: bool) -> None:
    if as_json:
        print_json([asdict(standing) for standing in standings])
        return
    out = console()
    table = Table("", "owner", "distance to D_v", "+- 95 %")
    for place, standing in enumerate(standings, 1):
        table.add_row(str(place), standing.owner, f"{standing.distance:.4f}", f"{standing.margin:.4f}")
    out.print(table)
    out.print("tells nothing new: computed from private histograms already paid for", highlight=False)


def _need_gains(inputs: PayoutInputs) -> None:
    if not inputs.ranked:
        raise ConfigError(
            f"{inputs.protocol.title} has no winning gains: which rows survive is told to nobody",
            "Use --method rows, or mixture with protocol=cells.",
        )
