"""Disclosures of rows when they leave an owner, in the words that both sides write in their ledgers."""

from __future__ import annotations

from collections.abc import Iterable

from fedkme.privacy.events import CURATOR, Disclosure, Event, HashedRows, RawRows, SealedRows

ROWS = "rows"
"""Nonce of the line about D_v itself, where the curator is trusted with it."""
_ROW = RawRows(1)
_HASHED = HashedRows(1)
_SEALED = SealedRows(1)


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
    told: list[tuple[str, Event]] = (
        [(CURATOR, _HASHED if hashed else _SEALED), (sealed_for, _ROW)] if sealed_for else [(CURATOR, _ROW)]
    )
    return [
        Disclosure(run, number, owner, observer, event, "replace-one", None, f"row {token}")
        for token in tokens
        for observer, event in told
    ]
