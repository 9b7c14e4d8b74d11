"""Allowance of a run for noised payouts: the epsilon that owners admitted with the run, and what was drawn.

A payout is made after its run, at the curator alone, when no owner can refuse it any more. So its cost is a
part of the run: `payouts` of the curator's [summary] is in the plan that owners admit and count in their
budgets, and with round 1 the curator and each owner write one line, PureDp(allowance) of owners towards
owners. Afterwards nothing is written in a ledger. A noised payout draws on the allowance; a run without an
allowance has no noised payouts. The ledger is the one odometer, and it has counted the allowance before any
owner is paid.

**Relation**: replace one row of one owner, seen by the other owners. **Unit**: a row; a group of g rows pays
g times, and `privacy.group` divides the allowance. **Sensitivity**: of each payout, at its mechanism (wins 2,
gains 2 c (p + 1), rows 1, in L1; `gains.py`, `rows.py`), which makes payout i (epsilon_i, 0)-DP for every
transcript of the run. **Claim**: all payouts of a run together are (allowance, 0)-DP in addition to the run's
own events, even if each method and epsilon is chosen in the light of earlier payouts. *Proof.* Noise is drawn
afresh from the operating system for each payout, so basic composition holds adaptively, and the sum of all
epsilon_i is held to the allowance before noise is drawn. QED. No public seed exists from which the noise
could be computed again: that would cost infinity, and no allowance covers infinity.

Every draw is written to payouts.json of the run's folder, by one atomic write, before the payout is shown. So
an interrupted draw was either seen by nobody or is in the file. A payout that is asked for again is shown
again and costs nothing. The curator is trusted not to lose that file: whoever can delete it can also read the
rows.
"""

import fcntl
import json
import os
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

from curator.payouts.payout import Payout, check_epsilon
from fedkme.durable import replace
from fedkme.errors import BudgetError, StoreError, on_disk
from fedkme.inputs import read_text
from fedkme.privacy.events import OWNERS, PureDp, event_from_json
from fedkme.privacy.ledger import read_ledger
from fedkme.privacy.noise import NoiseSource, SecureNoise
from fedkme.privacy.summary_disclosures import PAYOUTS

FILE = "payouts.json"
"""File in the run's folder with all noised payouts of the run."""


def allowance_of(folder: Path, run: str) -> float:
    """Epsilon of a row that the curator's ledger holds for noised payouts of a run; 0 for none.

    Args:
        folder: the run's folder: a simulation's, or `run-NAME` in a curator's folder, whose journal may be
            open.
        run: the run's name.

    Raises:
        LedgerError: the ledger's chain is broken.
    """
    places = [place / name for place in (folder, folder.parent) for name in ("journal.db", "ledger.jsonl")]
    ledger = next(filter(Path.is_file, places), None)
    lines = [] if ledger is None else [entry.disclosure for entry in read_ledger(ledger)]
    return next(
        (
            about.event.epsilon
            for about in lines
            if (about.run, about.protected, about.observer, about.nonce) == (run, OWNERS, OWNERS, PAYOUTS)
            and isinstance(about.event, PureDp)
        ),
        0.0,
    )


def read_draws(folder: Path) -> list[dict[str, Any]]:
    """Read the noised payouts of a run, each with its request.

    Raises:
        StoreError: the file was not written by this release.
    """
    path = folder / FILE
    if not path.is_file():
        return []
    try:
        draws: list[dict[str, Any]] = json.loads(read_text(path))
        for draw in draws:
            float(draw["asked"]["epsilon"])
            payout_from_json(draw["payout"])
    except (OSError, ValueError, KeyError, TypeError):
        raise StoreError(f"{path} was not written by a payout", "Restore it from a backup.") from None
    return draws


def drawn(draws: Sequence[Mapping[str, Any]]) -> Fraction:
    """Sum of the payouts' epsilons, exact in decimals: .1 and .2 are .3."""
    return sum((Fraction(str(draw["asked"]["epsilon"])) for draw in draws), Fraction(0))


def draw_payout(
    folder: Path, run: str, request: Mapping[str, Any], make: Callable[[NoiseSource], Payout]
) -> Payout:
    """Draw a payout on the allowance of a run and keep it; a repeated request gets the earlier payout.

    Args:
        folder: the run's folder.
        run: the run's name.
        request: all parameters that decide the payout, with its `epsilon`, of a row.
        make: makes the payout with noise; it gets the source only after the allowance has covered epsilon.

    Raises:
        ConfigError: epsilon is not positive and finite.
        BudgetError: the allowance does not cover epsilon; nothing was drawn.
        StoreError: the earlier draws cannot be read.
    """
    epsilon = request["epsilon"]
    check_epsilon(epsilon)
    allowance = allowance_of(folder, run)
    with on_disk(f"{folder} cannot be written", "Give a folder that this user may write to."):
        handle = os.open(folder, os.O_RDONLY)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX)  # two payouts at once would each see the other's part unspent
            draws = read_draws(folder)
            for draw in draws:
                if draw["asked"] == request:
                    return payout_from_json(draw["payout"])
            before = drawn(draws)
            if before + Fraction(str(epsilon)) > Fraction(str(allowance)):
                raise BudgetError(
                    f"owners of {run} allowed noised payouts of epsilon {allowance:g} in all, of which "
                    f"{float(before):g} is drawn, and this asks for {epsilon:g}",
                    "Set 'payouts' of the curator's [summary] before a run; or pay a price per row.",
                )
            payout = make(SecureNoise())
            draws.append({"asked": dict(request), "payout": payout.to_json()})
            replace(folder / FILE, (json.dumps(draws, indent=2) + "\n").encode(), 0o600)
        finally:
            os.close(handle)
    return payout


def payout_from_json(plain: Mapping[str, Any]) -> Payout:
    """Read what `Payout.to_json` wrote."""
    event = plain["event"]
    return Payout(**{**plain, "event": None if event is None else event_from_json(event)})
