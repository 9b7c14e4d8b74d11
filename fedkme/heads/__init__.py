"""Signed and witnessed heads of ledgers (docs/decisions/015, docs/formats.md)."""
