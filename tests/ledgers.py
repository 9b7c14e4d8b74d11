"""Ledgers of tests as text; a party keeps its own ledger in a store."""

from __future__ import annotations

from collections.abc import Iterable

from fedkme.privacy.events import Disclosure
from fedkme.privacy.ledger import Ledger


def ledger_text(party: str, disclosures: Iterable[Disclosure]) -> str:
    """A whole chain with right hashes."""
    lines: list[str] = []
    Ledger(party, lines.extend).extend(disclosures)
    return "".join(f"{line}\n" for line in lines)
