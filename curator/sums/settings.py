"""Settings of runs of sums, on the curator's side."""

from typing import Any

from pydantic import Field, model_validator

from fedkme.config import Settings
from fedkme.protocol import Security
from fedkme.protocols import NO_EXACT_TOTALS
from fedkme.secagg.parameters import MAX_OWNERS


class SecuritySettings(Settings):
    """Settings of secure aggregation (docs/decisions/005): totals reach the curator with owners' noise."""

    dropouts: int = Field(0, ge=0, le=MAX_OWNERS)
    """D: owners that may be missing at the end; with more the run ends without a result."""
    colluders: int | None = Field(None, ge=0, le=MAX_OWNERS)
    """T: owners that may side with the curator without anything but their own rows being known. None: 1 in a
    run with owners enough for it (three, where none may be missing), else 0. Each owner is told T."""

    @model_validator(mode="before")
    @classmethod
    def _always_noise(cls, values: Any) -> Any:
        if isinstance(values, dict) and "distributed_noise" in values:
            raise ValueError(f"'distributed_noise' {NO_EXACT_TOTALS}; remove it, owners always add noise")
        return values

    def terms(self, owners: int) -> Security:
        """Security terms that owners are told when a run begins with `owners` owners."""
        if self.colluders is not None:
            return Security(self.dropouts, self.colluders)
        usual = Security(self.dropouts, colluders=1)
        return usual if owners >= usual.least_owners else Security(self.dropouts, colluders=0)


class SumSettings(Settings):
    """Settings of releases that the curator decides; the method and its epsilon are the consumer's."""

    security: SecuritySettings | None = None
    """Secure aggregation; None: owners trust the curator with plain sums of their rows."""
    quorum: int = Field(1, ge=1)
    """Fewest owners that a release needs. In a CURATOR.toml that names `owners` the default is more than half
    of them."""
    most_epsilon: float | None = Field(None, gt=0)
    """The largest epsilon that a consumer may ask for; None: owners' policies alone decide."""
    most_made: int | None = Field(2**25, ge=1)
    """The most numbers (rows x columns) that a consumer may have made; None: no limit but memory."""
