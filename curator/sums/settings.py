"""Settings of runs of sums, on the curator's side."""

from __future__ import annotations

from typing import Any

from pydantic import Field, model_validator

from fedkme.config import Settings
from fedkme.protocol import Security
from fedkme.protocols import NO_EXACT_TOTALS


class SecuritySettings(Settings):
    """Settings of secure aggregation (docs/decisions/005): totals reach the curator with owners' noise."""

    dropouts: int = Field(0, ge=0)
    """D: owners that may be missing at the end; with more the run ends without a result."""
    colluders: int = Field(1, ge=0)
    """T: owners that may collude with the curator and learn of others' rows the total alone. With two owners
    neither can: take 0."""

    @model_validator(mode="before")
    @classmethod
    def _always_noise(cls, values: Any) -> Any:
        if isinstance(values, dict) and "distributed_noise" in values:
            raise ValueError(f"'distributed_noise' {NO_EXACT_TOTALS}; remove it, owners always add noise")
        return values

    def value(self) -> Security:
        """Convert to the value that owners are told."""
        return Security(self.dropouts, self.colluders)


class SumSettings(Settings):
    """Settings of releases that the curator decides; the method and its epsilon are the consumer's."""

    security: SecuritySettings | None = None
    """Secure aggregation; None: owners trust the curator with plain sums of their rows."""
    quorum: int = Field(1, ge=1)
    """Fewest owners that a release needs."""
    most_epsilon: float | None = Field(None, gt=0)
    """The largest epsilon that a consumer may ask for; None: owners' policies alone decide."""
