"""Settings of a curator's process, the file CURATOR.toml."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self

from pydantic import Field, model_validator

from curator.peers import Quota
from curator.summary.settings import SummarySettings
from curator.sums.settings import SumSettings
from fedkme.party import ConsumerName, CuratorName, OwnerName, ServicePartySettings
from fedkme.privacy.budget import Budget
from fedkme.privacy.events import CURATOR
from fedkme.tables.data_file import Source
from fedkme.watch.access import PageAddress


class CuratorSettings(ServicePartySettings):
    """Settings in CURATOR.toml."""

    name: CuratorName = CURATOR
    """The curator's name, as in its certificate."""
    listen: str = "127.0.0.1:0"
    """host:port; port 0 lets the system choose."""
    directory: Path
    """Folder of the records of runs, with one folder for each run."""
    schema_file: Path
    """The public schema that all parties share."""
    seeds: Source | None = None
    """A public seed set D_init; it counts in the summary while rows are chosen, and is never returned."""
    owners: tuple[OwnerName, ...] = ()
    """Names of the owners that may join and that a run waits for; empty: any owner may join."""
    consumers: tuple[ConsumerName, ...] = ()
    """Names of the consumers that may call; empty: any party of the authority that is not an owner."""
    progress_s: float = Field(60.0, gt=0)
    """Time that one answer of an owner may take before the run goes on without it."""
    grace_s: float = Field(30.0, ge=0)
    """Time that an owner may be without a connection before a run goes on without it."""
    approval_s: float = Field(0.0, ge=0)
    """Time that a run waits for an owner whose people approve runs by hand (a day is 86400); afterwards, or
    with 0, the run goes on without the owner."""
    runs_at_once: int = Field(4, ge=1)
    """Runs that may be under way at the same time; others wait in a queue."""
    quota: Quota = Quota()
    """Limits for each consumer."""
    quotas: dict[ConsumerName, Quota] = Field({})
    """Limits for single consumers, in place of `quota`."""
    revoked: Path | None = None
    """The authority's list of revoked certificates; read again when it changes."""
    reflection: bool | None = None
    """True: describe the services to any caller (gRPC server reflection); None: in plaintext alone."""
    drain_s: float = Field(0.0, ge=0)
    """Time that runs under way may go on after SIGTERM; unfinished runs go on at the next start."""
    runs: int | None = Field(None, ge=1)
    """Stop after this many runs; by default serve until told to stop."""
    page: str | None = None
    """host:port of the page to watch, for example 127.0.0.1:8080; None: no page. An address off loopback
    needs `identity` and `page_secret`."""
    page_secret: Path | None = None
    """File of the secret behind the tokens of viewers (`fedkme curator page`); a missing file is created.
    Without the setting, and in plaintext, the page is for this machine alone."""
    budget: Budget | None = None
    """Most that owners' rows may cost towards other owners, over all runs in `directory`; None: no limit."""
    summary: SummarySettings = Field(default_factory=SummarySettings)
    release: SumSettings = SumSettings()

    def quota_of(self, consumer: str) -> Quota:
        """Find the quota of a consumer."""
        return self.quotas.get(consumer, self.quota)

    def relative_to(self, directory: Path) -> dict[str, Any]:
        """Make paths absolute as for any party; a journal's file is in the curator's own `directory`."""
        changes = super().relative_to(directory)
        if "journal" in changes:
            changes["journal"] = str((directory / self.directory / self.journal).absolute())
        changes["summary"] = self.summary.placed(lambda folder: (directory / folder).absolute())
        return changes

    def page_address(self) -> PageAddress:
        """Address of the page to watch; `page` must be set."""
        assert self.page is not None, "the caller checked `page`"
        return PageAddress(self.page, self.identity, self.page_secret)

    @model_validator(mode="before")
    @classmethod
    def _most_of_the_owners(cls, values: Any) -> Any:
        """Set a quorum that is not given: more than half of the named owners; a simulation's stays 1."""
        if not isinstance(values, Mapping) or values.get("simulation_seed") is not None:
            return values
        if not isinstance(owners := values.get("owners"), (list, tuple)) or not owners:
            return values
        quorum, given = len(owners) // 2 + 1, dict(values)
        for key, kind in (("summary", SummarySettings), ("release", SumSettings)):
            part = values.get(key, {})
            if isinstance(part, Mapping):
                given[key] = {"quorum": quorum, **part}
            elif isinstance(part, kind) and "quorum" not in part.model_fields_set:
                given[key] = part.model_copy(update={"quorum": quorum})
        return given

    @model_validator(mode="after")
    def _one_name_one_party(self) -> Self:
        if twice := set(self.owners) & set(self.consumers):
            raise ValueError(f"'{min(twice)}' is both an owner and a consumer, which ledgers would mix up")
        if self.proxy is not None:
            raise ValueError("'proxy' is for owners and consumers: a curator calls nobody")
        return self
