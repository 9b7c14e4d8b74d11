"""Settings of a curator's process."""

from __future__ import annotations

from pathlib import Path

from pydantic import Field

from curator.summary.settings import SummarySettings
from fedkme.party import PartySettings
from fedkme.privacy.budget import Budget


class CuratorSettings(PartySettings):
    """CURATOR.toml."""

    name: str = Field("curator", pattern=r"^[a-z0-9][a-z0-9-]*$")
    """The curator's name, the one in its certificate."""
    listen: str = "127.0.0.1:0"
    """host:port; port 0 lets the system choose."""
    directory: Path
    """Where the records of runs are written, one folder each."""
    schema_file: Path
    """The public schema that all parties share."""
    seeds: Path | None = None
    """A public seed set D_init; counted in the summary while rows are chosen, never returned."""
    owners: tuple[str, ...] = ()
    """Names of the owners that may join and that a run waits for; empty for whoever comes."""
    consumers: tuple[str, ...] = ()
    """Names of the consumers that may call; empty for anybody of the authority who is not an owner."""
    progress_s: float = Field(60.0, gt=0)
    """How long one answer of an owner may take before the run goes on without it."""
    runs: int | None = Field(None, ge=1)
    """Stop after this many runs; by default serve until told to stop."""
    budget: Budget | None = None
    """What owners' rows may cost towards other owners, over all runs in `directory`; none: no limit."""
    summary: SummarySettings = SummarySettings()
