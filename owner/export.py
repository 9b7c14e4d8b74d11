"""An owner's ledger as a file, for `fedkme audit`."""

from __future__ import annotations

from fedkme.privacy.export import export_ledger

__all__ = ["export_ledger"]
