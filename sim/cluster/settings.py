"""Settings of the engine `ray`."""

from __future__ import annotations

from pydantic import Field

from fedkme.config import Settings


class ClusterSettings(Settings):
    """The [cluster] table: which cluster, and how owners are spread over it."""

    address: str | None = None
    """`HOST:PORT` of a Ray cluster, or `ray://HOST:PORT` from outside of it; none: the one of RAY_ADDRESS or
    of this machine, else one that is started for the run."""
    owners_per_actor: int = Field(100, ge=1)
    """Owners that an actor has at least, if there are so many; more make fewer processes and calls."""
