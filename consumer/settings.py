"""Settings of a consumer's request for a summary."""

from pathlib import Path
from typing import Any, Literal, Self

from pydantic import Field, model_validator

from fedkme.cells.codebook import MOST_PICKS
from fedkme.config import Settings
from fedkme.party import ConsumerName, StoredPartySettings
from fedkme.privacy.budget import WindowBudget
from fedkme.privacy.events import CONSUMER
from fedkme.privacy.presets import Preset, PrivacyTarget, with_preset
from fedkme.privacy.settings import AnyTarget, GaussianSettings
from fedkme.tables.data_file import Source
from fedkme.tables.schema import Schema


class KernelSettings(Settings):
    """The RBF kernel exp(-gamma r^2)."""

    gamma: float | Literal["domain", "median-seeds"] = "domain"
    """`domain`: 2 / the mean squared distance of two rows drawn uniformly from the schema's domain, which is
    public; with `preset = "published"` the paper's 0.1. `median-seeds`: 1 / the median squared distance of
    the public seed set. Or a value."""


class RequestSettings(Settings):
    """The consumer's own settings for a summary."""

    p: int = Field(ge=1, lt=2**63)
    """Rows of the summary."""
    kernel: KernelSettings = KernelSettings()
    preset: Preset = "sound"
    """Defaults for mechanisms that the file does not set: `sound` derives them from `privacy`."""
    privacy: PrivacyTarget = PrivacyTarget()
    """The total that D_v may cost."""
    asks: int = Field(1, ge=1, lt=2**31)
    """Number of requests planned for D_v, each of which costs `privacy`. Counts by cells get the noise that
    costs least over that number of requests: Gaussian in place of discrete Laplace from two on."""
    picks: int = Field(MOST_PICKS, ge=0, le=MOST_PICKS)
    """Most directions, or margins, that D_v may pick from a plan's menu; a plan with more is refused before
    D_v is read. With 0, D_v picks none, and all of its epsilon is for counts."""
    target: AnyTarget = GaussianSettings()
    """Protection of g~, the mean of h1 over D_v."""
    real_rows: bool = True
    """False: no real row is asked for. Owners answer noisy sums alone, for a release by the default method at
    the epsilon and delta of `privacy`, and this party chooses p of its synthetic rows by exact D_v
    (docs/releases.md). What comes out is for the consumer alone."""
    share: Literal["embedding", "rows"] = "embedding"
    """`embedding`: the curator receives g~ alone. `rows`: the curator receives D_v itself, as in the paper,
    and |D_v| points count as accessed; in protocols by cells it receives D_v's classes too, if there are
    labels."""

    @model_validator(mode="before")
    @classmethod
    def _fill(cls, values: Any) -> Any:
        if not isinstance(values, dict):
            return values
        filled = with_preset(values)
        return values | {key: filled[key] for key in ("target", "kernel") if key in filled}

    @model_validator(mode="after")
    def _check_target(self) -> Self:
        if not self.real_rows and self.share == "rows":
            raise ValueError("share: rows for a target need no D_v at the curator; leave 'share' out")
        return self


class ConsumerSettings(StoredPartySettings):
    """CONSUMER.toml."""

    name: ConsumerName = CONSUMER
    """The consumer's name, the one in its certificate and in every ledger."""
    curator: str
    """host:port of the curator; '-' to be told by the launcher."""
    schema_file: Path
    """The public schema that all parties share."""
    validation: Source
    """D_v: a path, or a table of a path and how to read the file."""
    output: Path
    """Folder for the summary and its evaluation."""
    test: Source | None = None
    """Rows held back to judge the summary; they never leave this process."""
    seeds: Source | None = None
    """The public seed set, to judge the summary together with it."""
    downstream: bool = True
    """Train models on the summary and score them on the test rows, if there are labels."""
    budget: WindowBudget | None = None
    """Most that D_v may cost towards owners and curator, over all requests in `journal`, or over those in the
    last `days`; none: no limit."""
    request: RequestSettings

    def trains(self, schema: Schema) -> bool:
        """Check whether models are trained on the summary; training needs scikit-learn."""
        return self.downstream and self.test is not None and schema.label is not None
