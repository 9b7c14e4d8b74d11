"""Lines of what a summary tells, in the words that both sides write in their ledgers: rows, and broadcasts.

The nonce of a broadcast is of its bytes, which the curator and every owner have. That of the auction is of
g~, which is drawn for the run: the noise of the auction is nobody's to see, and g~ tells one run from another
of the same name.
"""

from __future__ import annotations

from collections.abc import Iterable

from fedkme.features.fixed_point import MeanVector
from fedkme.privacy.events import CURATOR, Disclosure, Event, HashedRows, RawRows, SealedRows
from fedkme.privacy.ledger import nonce_of

ROWS = "rows"
"""Nonce of the line about D_v itself, where the curator is trusted with it."""
_ROW = RawRows(1)
_HASHED = HashedRows(1)
_SEALED = SealedRows(1)
MEAN, AUCTION, PAYOUTS = "mean", "auction", "payouts"
"""Words with which the nonces begin; that of the noised payouts of a run is the word: they are one line."""
NOT_TOLD = f"{MEAN} not told"
"""Nonce of releases in the silent rounds at the end of a run, which are in one line: a run ends once."""


def mean_nonce(mean: MeanVector) -> str:
    """Nonce of the release g_l that was broadcast, and of those in the silent rounds before it."""
    return f"{MEAN} {nonce_of(mean)}"


def auction_nonce(target: MeanVector) -> str:
    """Nonce of the auction of a run whose g~ is `target`."""
    return f"{AUCTION} {nonce_of(target)}"


def row_disclosures(
    run: str, number: int, owner: str, tokens: Iterable[int], sealed_for: str = "", hashed: bool = False
) -> list[Disclosure]:
    """One line a row; sealed ones have two, since the consumer can read what it gets.

    The nonce is the row's token: nothing is drawn, and a row that leaves again in a run tells nothing more.

    Args:
        run: the run's name.
        number: of the round.
        owner: whose rows.
        tokens: of the rows.
        sealed_for: the consumer who alone can open them; none: the curator sees them.
        hashed: whether sealed rows have h1 of them beside, which the curator sees.
    """
    events: list[tuple[str, Event]] = (
        [(CURATOR, _HASHED if hashed else _SEALED), (sealed_for, _ROW)] if sealed_for else [(CURATOR, _ROW)]
    )
    return [
        Disclosure(run, number, owner, observer, event, "replace-one", None, f"row {token}")
        for token in tokens
        for observer, event in events
    ]
