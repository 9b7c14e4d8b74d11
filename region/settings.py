"""Settings of a region's process: those of a curator, and of an owner above."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pydantic import Field

from curator.settings import CuratorSettings
from owner.settings import JoiningSettings


class RegionSettings(CuratorSettings):
    """REGION.toml."""

    above: JoiningSettings
    """Its side as an owner: name, curator, identity and journal; its policy is for releases alone."""
    quorum: int = Field(2, ge=1)
    """Owners of the region that a run needs: of one alone, the curator above is sent its vector."""

    def relative_to(self, directory: Path) -> dict[str, Any]:
        """Make paths absolute as for any curator, and those of `above` too."""
        above = self.above.model_copy(update=self.above.relative_to(directory))
        return {**super().relative_to(directory), "above": above}
