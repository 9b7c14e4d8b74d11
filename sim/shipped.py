"""Scenarios that ship with the package: their files, without what it takes to build them."""

from __future__ import annotations

from pathlib import Path


def shipped() -> dict[str, Path]:
    """Files of the scenarios by name, in the order of the names."""
    return {path.stem: path for path in sorted((Path(__file__).parent / "scenarios").glob("*.toml"))}
