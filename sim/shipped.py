"""Files of the scenarios that ship with the package; imports nothing that builds a scenario."""

from pathlib import Path


def shipped() -> dict[str, Path]:
    """Files of the shipped scenarios by name, sorted by name."""
    return {path.stem: path for path in sorted((Path(__file__).parent / "scenarios").glob("*.toml"))}
