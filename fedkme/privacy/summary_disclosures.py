"""Disclosures of a summary run, as both sides write them in their ledgers.

The nonce of a broadcast is a hash of its bytes, which the curator and every owner have. The nonce of the
auction is a hash of g~: nobody sees the noise of the auction, and g~ is drawn for the run, so it tells two
runs of the same name apart.
"""

from collections.abc import Iterable

from fedkme.features.fixed_point import MeanVector
from fedkme.privacy.events import CURATOR, Disclosure, Event, HashedRows, RawRows, SealedRows
from fedkme.privacy.ledger import nonce_of

ROWS = "rows"
"""Nonce of the line about D_v itself, where the curator may see D_v."""
_ROW = RawRows(1)
_HASHED = HashedRows(1)
_SEALED = SealedRows(1)
MEAN, AUCTION = "mean", "auction"
"""First words of nonces."""
NOT_TOLD = f"{MEAN} not told"
"""Nonce of the one line about the releases in the silent rounds at the end of a run."""


def mean_nonce(mean: MeanVector) -> str:
    """Nonce of a broadcast release g_l, and of the releases in the silent rounds before it."""
    return f"{MEAN} {nonce_of(mean)}"


def auction_nonce(target: MeanVector) -> str:
    """Nonce of the auction of a run whose g~ is `target`."""
    return f"{AUCTION} {nonce_of(target)}"


def row_disclosures(
    run: str, number: int, owner: str, tokens: Iterable[int], sealed_for: str = "", hashed: bool = False
) -> list[Disclosure]:
    """One disclosure for each row; a sealed row has a second one, since the consumer can read it.

    The nonce is the row's token: nothing is drawn, and a row that leaves again in the same run tells nothing
    new.

    Args:
        run: name of the run.
        number: number of the round.
        owner: name of the owner of the rows.
        tokens: the rows' tokens.
        sealed_for: the consumer, who alone can open sealed rows; empty: the curator sees the rows.
        hashed: whether sealed rows come with their h1, which the curator sees.
    """
    events: list[tuple[str, Event]] = (
        [(CURATOR, _HASHED if hashed else _SEALED), (sealed_for, _ROW)] if sealed_for else [(CURATOR, _ROW)]
    )
    return [
        Disclosure(run, number, owner, observer, event, "replace-one", None, f"row {token}")
        for token in tokens
        for observer, event in events
    ]
