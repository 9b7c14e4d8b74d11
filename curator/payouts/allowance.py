"""Allowance of a run for noised payouts: what owners were asked for with the run, and what was drawn of it.

A payout is made after its run, at the curator alone, where no owner could refuse it any more. So its cost is
a part of the run: `payouts` of the curator's [summary] is in the plan that owners admit and count in their
budgets, and with round 1 the curator and each owner write one line, PureDp(allowance) of owners towards
owners. Afterwards nothing is written in a ledger. A payout with noise draws on the allowance, and without one
it is refused: there is one odometer, and it stood where it stands before anybody was paid.

**Relation**: replace one row of one owner, seen by the other owners. **Unit**: a row; a group of g rows pays
g times, and `privacy.group` divides the allowance. **Sensitivity**: of each payout, at its mechanism (wins 2,
gains 2 c (p + 1), rows 1, in L1; `gains.py`, `rows.py`), which makes payout i (epsilon_i, 0)-DP for every
transcript of the run. **Claim**: all payouts of a run together are (allowance, 0)-DP beside the run's own
events, whatever methods and epsilons were chosen in the light of those before. *Proof.* Noise is drawn afresh
from the operating system for each, so basic composition holds adaptively, and the sum of all epsilon_i is
held to the allowance before noise is drawn. QED. There is no public seed, of which noise could be computed
again: that would cost infinity, and no allowance has it.

Every draw stands in payouts.json of the run's folder, in one write that is whole or not there, before it is
shown. Interrupted, it was seen by nobody or is there; asked for again it is shown again, and costs nothing.
The curator is trusted not to lose that file: whoever can delete it could as well read the rows.
"""

from __future__ import annotations

import fcntl
import json
import math
import os
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

from curator.payouts.payout import Payout
from fedkme.durable import replace
from fedkme.errors import BudgetError, ConfigError, StoreError, on_disk
from fedkme.privacy.events import OWNERS, PureDp, event_from_json
from fedkme.privacy.ledger import read_ledger
from fedkme.privacy.noise import NoiseSource, SecureNoise
from fedkme.privacy.told import PAYOUTS

FILE = "payouts.json"
"""All noised payouts of a run, in its folder."""


def allowance_of(folder: Path, run: str) -> float:
    """Epsilon of a row that the curator's ledger holds for noised payouts of a run; 0 for none.

    Args:
        folder: of the run: a simulation's, or `run-NAME` in that of a curator, whose journal may be open.
        run: its name.

    Raises:
        LedgerError: the ledger is not whole.
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
    """Noised payouts that were made of a run: what was asked for, and the payout.

    Raises:
        StoreError: the file is not one that this release wrote.
    """
    path = folder / FILE
    if not path.is_file():
        return []
    try:
        draws: list[dict[str, Any]] = json.loads(path.read_text(encoding="utf-8"))
        for draw in draws:
            float(draw["asked"]["epsilon"])
            payout_from_json(draw["payout"])
    except (OSError, ValueError, KeyError, TypeError):
        raise StoreError(f"{path} is not one that a payout wrote", "Bring it back from a backup.") from None
    return draws


def drawn(draws: Sequence[Mapping[str, Any]]) -> Fraction:
    """Epsilon of payouts together, as exactly as it is spelled: .1 and .2 are .3."""
    return sum((Fraction(str(draw["asked"]["epsilon"])) for draw in draws), Fraction(0))


def draw_payout(
    folder: Path, run: str, asked: Mapping[str, Any], make: Callable[[NoiseSource], Payout]
) -> Payout:
    """Draw a payout on the allowance of a run and keep it; one that was asked for before is shown again.

    Args:
        folder: of the run.
        run: its name.
        asked: what decides the payout, with its `epsilon`, of a row.
        make: makes it with noise of a source that there is only once the allowance has its epsilon.

    Raises:
        ConfigError: epsilon is not positive and finite.
        BudgetError: the allowance does not have it; nothing was drawn.
        StoreError: what was drawn before cannot be read.
    """
    epsilon = asked["epsilon"]
    if not 0 < epsilon < math.inf:
        raise ConfigError(f"epsilon {epsilon} of a payout is not positive and finite", "Take epsilon > 0.")
    allowance = allowance_of(folder, run)
    with on_disk(f"{folder} cannot be written", "Give a folder that this user may write to."):
        handle = os.open(folder, os.O_RDONLY)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX)  # two at once would each see the other's part unspent
            draws = read_draws(folder)
            for draw in draws:
                if draw["asked"] == asked:
                    return payout_from_json(draw["payout"])
            before = drawn(draws)
            if before + Fraction(str(epsilon)) > Fraction(str(allowance)):
                raise BudgetError(
                    f"owners of {run} allowed noised payouts of epsilon {allowance:g} in all, of which "
                    f"{float(before):g} is drawn, and this asks for {epsilon:g}",
                    "Set 'payouts' of the curator's [summary] before a run; or pay a price per row.",
                )
            payout = make(SecureNoise())
            draws.append({"asked": dict(asked), "payout": payout.to_json()})
            replace(folder / FILE, (json.dumps(draws, indent=2) + "\n").encode(), 0o600)
        finally:
            os.close(handle)
    return payout


def payout_from_json(plain: Mapping[str, Any]) -> Payout:
    """Read what `Payout.to_json` wrote."""
    event = plain["event"]
    return Payout(**{**plain, "event": None if event is None else event_from_json(event)})
