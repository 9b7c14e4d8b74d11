"""Parts of a curator that all of its runs share."""

from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from curator.owners.members import Membership
from curator.owners.session import RunSession
from curator.planning.plan import choose
from curator.run.release_record import ReleaseRecord, check_owners, redrawn, release_of, write_release
from curator.run.run import Run
from curator.run.summary_record import RoundRecord, SummaryRecord, write_run
from curator.runs.queue import lines_before
from curator.settings import CuratorSettings
from curator.summary.settings import SummarySettings
from fedkme.documents import Fault, RunDocument
from fedkme.errors import DataError, MissingOwnersError, NotMadeError, StoreError, on_disk
from fedkme.exchange import Participation, SummaryChoice
from fedkme.margins.model import model_rows
from fedkme.party import NoiseFor
from fedkme.pki.identity import Identity
from fedkme.privacy.events import CURATOR, Disclosure
from fedkme.privacy.ledger import Ledger, disclosures_in, stored_ledger
from fedkme.protocols import ALGORITHM3, AUTO
from fedkme.store import Store
from fedkme.tables.schema import Schema, rows_of_person
from fedkme.tables.table import Table

Say = Callable[..., None]


class RunCounters(Protocol):
    """Counts rounds and accesses of runs, for operators."""

    def round_done(self, record: RoundRecord, accesses: Sequence[tuple[int, str, int]]) -> None:
        """Count a round, with (round, owner, token) of the rows that came for the first time."""


class Records(Protocol):
    """Storage for the records of runs that ended."""

    def keep_summary(self, run: str, record: SummaryRecord, facts: dict[str, Any]) -> None:
        """Keep the record of a summary, also of a summary that was cut short."""

    def keep_release(
        self, run: str, record: ReleaseRecord, files: Mapping[str, bytes], facts: Mapping[str, Any]
    ) -> None:
        """Keep the record of a release with its files: the released numbers alone, at first."""

    def has(self, run: str) -> bool:
        """Check whether a run has a record; a run that ended before it began has none."""


class RecordFolder:
    """`Records` of a deployment: a folder for each run."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def keep_summary(self, run: str, record: SummaryRecord, facts: dict[str, Any]) -> None:
        """Write the folder of a summary.

        Raises:
            StoreError: the record cannot be written.
        """
        with _store_errors(run):
            write_run(self._directory / run, record, facts)

    def keep_release(
        self, run: str, record: ReleaseRecord, files: Mapping[str, bytes], facts: Mapping[str, Any]
    ) -> None:
        """Write the folder of a release.

        Raises:
            StoreError: the record cannot be written.
        """
        with _store_errors(run):
            write_release(self._directory / run, record, files, facts)

    def has(self, run: str) -> bool:
        """Look for the run's folder."""
        return (self._directory / run).exists()


def _store_errors(run: str) -> AbstractContextManager[None]:
    remedy = "Make room, and start the curator again: the run goes on."
    return on_disk(f"the record of {run} cannot be written", remedy, StoreError)


GOES_ON = "Tell its operator, whose log says why; asked again after that, the run goes on."
"""Remedy for a consumer where the curator itself failed."""


@dataclass(frozen=True, eq=False)
class RunContext:
    """Parts of a curator that all of its runs share."""

    settings: CuratorSettings
    schema: Schema
    seeds: Table | None
    """Public rows."""
    members: Membership
    store: Store
    noise_for: NoiseFor
    say: Say
    records: Records
    identity: Callable[[], Identity | None] = lambda: None
    """Returns the curator's current identity, which a renewed certificate changes."""
    counters: RunCounters | None = None
    journaled: bool = True
    """False where no run outlives this process; a simulation in one process keeps no journal."""
    round_done: Callable[[str, RoundRecord], None] = lambda run, record: None
    """Hears of each round of each run, for its trace."""

    @cached_property
    def ledger(self) -> Ledger:
        """Ledger of the curator; the end of its chain is checked first.

        Raises:
            LedgerError: the chain is broken.
        """
        return stored_ledger(CURATOR, self.store)

    @cached_property
    def encoded_seeds(self) -> NDArray[np.float32]:
        """Public rows in model space, (s, n)."""
        if self.seeds is None:
            return np.empty((0, self.schema.encoded_width), dtype=np.float32)
        return self.schema.encode(self.seeds.values)

    @cached_property
    def pool_release(self) -> bytes:
        """Released numbers of `cells.release`, in the schema of this curator.

        Raises:
            DataError: the folder has no release, or one of another schema.
        """
        folder = self.settings.summary.cells.release
        assert folder is not None, "the caller checked `cells.release`"
        return release_of(folder, self.schema)

    def warn_of_pool(self, run: str, owners: Collection[str]) -> None:
        """Warn if `cells.release` is of other owners' rows than those of a run over it."""
        if (folder := self.settings.summary.cells.release) is not None:
            try:
                check_owners(folder, owners)
            except DataError as error:
                self.say("warning", run=run, round=0, line=str(error), code=error.code)

    @cached_property
    def pool_rows(self) -> Table:
        """Synthetic rows of `cells.release`, drawn anew.

        Raises:
            NotMadeError: the release gives no rows.
        """
        rows = redrawn(self.pool_release, model_rows(self.schema), lambda stage, line, part: None)
        if rows is None:
            cause = f"the release in {self.settings.summary.cells.release} gives weighted points, and no rows"
            raise NotMadeError(cause, "Name a release of marginals or moments in 'cells.release'.")
        return rows

    def is_chosen(self, document: RunDocument) -> bool:
        """Check whether a summary's protocol is fixed: named, chosen, or begun by an earlier release."""
        named = self.settings.summary.protocol != AUTO
        return named or document.planned.choice is not None or document.offer is not None

    def summary_of(self, document: RunDocument) -> SummarySettings:
        """Settings of a run's summary with the run's choice applied; runs read no other settings."""
        settings, plan = self.settings.summary, document.planned
        if plan.choice is not None:
            return settings.resolved(plan.choice)
        if settings.protocol != AUTO:
            return settings
        # begun by an earlier release without a choice
        protocol = ALGORITHM3 if plan.cells is None else "cells"
        return settings.model_copy(update={"protocol": protocol})

    def choice(
        self, settings: SummarySettings, document: RunDocument, owners: Sequence[str]
    ) -> SummaryChoice:
        """Choose the protocol by the owners' sizes, or forecast what a named protocol will reach.

        Raises:
            NotEnoughRowsError: the owners have fewer rows than are asked for.
        """
        request = replace(document.summary, gamma=document.planned.features.gamma)
        return choose(settings, self.schema, request, owners, self.members.sizes(), len(self.encoded_seeds))

    def say_choice(self, run: str, choice: SummaryChoice | None) -> None:
        """Report the forecast of a run, where there is one."""
        if choice is not None and choice.accessed:
            self.say("planned", run=run, round=0, line=choice.line)
        if choice is not None and choice.disagrees:
            self.say("warning", run=run, round=0, line=choice.disagrees)

    def left(self, run: str, fault: Fault) -> None:
        """Report an owner that left a run."""
        self.say(
            "owner_left", run=run, owner=fault.owner, round=fault.round, code=fault.code, line=fault.line
        )

    def facts(self, run: Run, faults: Sequence[Fault], sessions: Sequence[RunSession]) -> dict[str, Any]:
        """Facts for the record of a run of any kind."""
        ways = ("sent", "received")
        return {
            "run": run.name,
            "consumer": run.consumer,
            "rows_of_person": rows_of_person(self.schema),
            "bytes": {way: sum(getattr(session.traffic, way) for session in sessions) for way in ways},
            "participation": asdict(self.participation(run, faults)),
        }

    def participation(self, run: Run, faults: Sequence[Fault]) -> Participation:
        """Number of owners that a run expected, in it to its end, and the last error of each other."""
        lost = {fault.owner: fault.code for fault in (*run.document.left, *faults)}
        expected = {*self.settings.owners, *run.document.owners, *run.document.missing, *lost}
        return Participation(len(expected), len(expected) - len(lost), tuple(sorted(lost.values())))

    def begin_without(self, run: Run, faults: list[Fault]) -> None:
        """Report each expected owner that a run begins without, and add it to the run's faults, once."""
        for owner in sorted({*run.document.missing}.difference(fault.owner for fault in faults)):
            absent = self.members.refusal(owner) or MissingOwnersError(
                f"{owner} has not joined; the run begins without it", "Start it."
            )
            faults.append(Fault(0, owner, absent.code, str(absent)))
            self.left(run.name, faults[-1])

    def written(self, run: str) -> list[Disclosure]:
        """Lines that an earlier process wrote into the ledger about a run."""
        before = lines_before(self.store, run.partition("/")[0])
        lines = disclosures_in(entry.line for entry in self.store.ledger(before))
        return [line for line in lines if line.run == run]
