"""Settings of an owner's process."""

from __future__ import annotations

from pathlib import Path

from pydantic import Field

from fedkme.party import PartySettings


class OwnerSettings(PartySettings):
    """OWNER.toml."""

    name: str = Field(pattern=r"^[a-z0-9][a-z0-9-]*$")
    """This owner's name, the one in its certificate."""
    curator: str
    """host:port of the curator; '-' to be told by the launcher."""
    data: Path
    """This owner's rows: .npz, .csv or .parquet."""
    schema_file: Path
    """The public schema that all parties share."""
    most_rows: int | None = Field(None, ge=0)
    """Rows that may leave in all, over all runs in the ledger; none: no limit."""
    ledger: Path | None = None
    """Where everything that leaves is written down before it goes; one chain over all runs."""
