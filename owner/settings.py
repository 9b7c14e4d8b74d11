"""Settings of an owner's process."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Literal

from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from fedkme.config import Settings
from fedkme.features.fixed_point import MAX_DIMENSION
from fedkme.party import ConsumerName, OwnerName, ServicePartySettings
from fedkme.privacy.budget import WindowBudget
from fedkme.privacy.events import CONSUMER, CURATOR, OWNERS
from fedkme.protocols import NO_EXACT_TOTALS, RowsLeave, SumsLeave, fault_of_protocol
from fedkme.secagg.parameters import MAX_LENGTH
from fedkme.tables.data_file import Source

DELTA = 1e-5
"""Delta at which epsilons are stated if the policy has no budget, whose delta would count."""
MOST_SUMS = 2**21
"""Most numbers in one vector of sums, unless a policy says otherwise."""


def _known_protocol(name: str) -> str:
    if fault := fault_of_protocol(name):
        raise ValueError(fault)
    return name


def _noisy(sums: object) -> object:
    if sums == "aggregated":
        raise ValueError(f"'aggregated' {NO_EXACT_TOTALS}; use \"noisy\"")
    return sums


def _limited(observer: object) -> object:
    if observer not in (OWNERS, CURATOR, CONSUMER):
        raise ValueError(
            f"{OWNERS!r}, with consumers of releases, {CURATOR!r} or {CONSUMER!r} can have a limit; name "
            "them in 'consumers' of the budget; consumers of summaries see rows as they are, which no "
            "epsilon describes: limit those by 'most_rows' and 'most_rows_per_run'"
        )
    return observer


class PeriodBudget(WindowBudget):
    """The most that this owner's rows may cost towards an observer, by the sound accountant.

    A window has the runs in which something was disclosed and that ended in it, and open ones.
    """

    observer: Annotated[Literal["owners", "curator", "consumer"], BeforeValidator(_limited)] = "owners"
    """Party that learns of them: `owners`, all the others, and the consumers of releases; the `curator`,
    which has a finite epsilon in sealed summaries by cells and by uniform draws and in sums under secure
    aggregation; or a `consumer`, which has one in releases. All runs without one are refused."""
    consumers: tuple[ConsumerName, ...] = ()
    """Consumers that a budget with `consumer` is for; none: each one that no other budget of this kind
    names."""
    together: bool = False
    """Consumers share a budget with `consumer`, as if they told each other everything: those that it names,
    or all of them. Otherwise each has it by itself."""

    @model_validator(mode="after")
    def _of_consumers(self) -> PeriodBudget:
        if self.observer != CONSUMER and (self.consumers or self.together):
            raise ValueError(f"'consumers' and 'together' belong to a budget with observer = {CONSUMER!r}")
        return self

    def binds(self, consumer: str, budgets: Iterable[PeriodBudget]) -> bool:
        """Check whether this budget limits runs for a consumer."""
        if self.observer != CONSUMER or consumer in self.consumers:
            return True
        named = any(consumer in other.consumers and not other.together for other in budgets)
        return not self.consumers and (self.together or not named)

    def counted(self, consumer: str) -> frozenset[str] | None:
        """Consumers whose runs count beside one for a consumer; None for all."""
        if self.observer != CONSUMER or (self.together and not self.consumers):
            return None
        return frozenset(self.consumers if self.together else (consumer,))


class PolicySettings(Settings):
    """`[policy]` of OWNER.toml: in which runs this owner takes part, and what may leave; empty for any.

    It is applied when a run begins; a run that was begun goes on under the policy that let it in.
    """

    protocols: tuple[Annotated[str, AfterValidator(_known_protocol)], ...] = ()
    """Protocols that this owner takes part in."""
    consumers: tuple[ConsumerName, ...] = ()
    """Consumers for whom it does, as the curator knows them by their certificates."""
    columns: tuple[str, ...] = ()
    """Columns, and label, that may leave, as the schema file calls them; a schema with others is refused."""
    most_rows_per_run: int | None = Field(None, ge=0)
    """Rows that may leave in one run: it has no others of this owner, drawn at random before it begins."""
    most_rows: int | None = Field(None, ge=0)
    """Different rows that may leave in all, over all runs: no others are offered to any, of any file. Rows
    count when they are offered; without this limit all of them are."""
    budgets: tuple[PeriodBudget, ...] = ()
    """The most that rows may cost towards others: other owners in summaries, consumers of releases, the
    curator, a consumer; all of them hold."""
    rows: RowsLeave = "raw"
    """Part of a row that may leave: the row, h1 of it, or neither."""
    sums: Annotated[SumsLeave, BeforeValidator(_noisy)] = "exact"
    """Part of sums over all rows that the curator may see: `exact`, this owner's as they are; `noisy`, only
    the total over all owners with owners' noise in it, by secure aggregation."""
    colluders: int = Field(0, ge=0)
    """Owners that this one thinks may side with the curator: secure aggregation whose noise is for fewer is
    refused."""
    approval: Literal["automatic", "manual"] = "automatic"
    """`manual`: a run needs `fedkme owner approve` first."""
    most_dimension: int = Field(2048, ge=2, le=MAX_DIMENSION)
    """Coordinates of h1 that a run may have; each takes 2 bytes a row while the run is open."""
    most_sums: int = Field(MOST_SUMS, ge=1, le=MAX_LENGTH)
    """Numbers that one question of a release may ask for; each takes 8 bytes, and feature maps may have
    matrices of 64 times as many."""
    runs_at_once: int = Field(4, ge=1)
    """Runs that may be open here at the same time; each holds h1 of all rows in memory."""

    @property
    def delta(self) -> float:
        """Delta at which epsilons are stated: that of the first budget."""
        return self.budgets[0].delta if self.budgets else DELTA


class OwnerSettings(ServicePartySettings):
    """OWNER.toml."""

    name: OwnerName
    """This owner's name, the one in its certificate."""
    curator: str
    """host:port of the curator; '-' to be told by the launcher."""
    data: Source
    """This owner's rows (.csv, .tsv or .txt, plain or .gz; .parquet; .npz): a path, or a table of a path and
    how to read the file."""
    schema_file: Path
    """The public schema that all parties share."""
    approvals: Path = Path("approvals")
    """Folder in which `fedkme owner approve` leaves approvals: whoever may write there may approve."""
    revoked: Path | None = None
    """The authority's list of revoked certificates, for the signing keys of other owners in secure
    aggregation; read again when it changes."""
    policy: PolicySettings = PolicySettings()
    """Rules by which this owner takes part in runs."""
