"""The `inprocess` engine: every party in this process, under one debugger.

Owners have the policy, gate, journal and ledger that they have on their hosts; a loopback reaches them. The
curator's lifecycle of a run and the consumer's part are the code of their processes, on values.
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Callable, Collection, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from typing_extensions import override

from consumer.requests import Requests
from consumer.sealed_rows import keys_for
from consumer.settings import RequestSettings
from consumer.summary.offers import Summary, finish
from consumer.summary.party import ConsumerParty
from curator.owners.members import Members, Membership
from curator.run.release_record import ReleaseRecord
from curator.run.summary_record import SummaryRecord
from curator.runs.context import RunContext
from curator.runs.lifecycle import Lifecycle
from curator.runs.preparation import Preparation
from curator.runs.queue import RunQueue
from curator.settings import CuratorSettings
from curator.summary.settings import SummarySettings
from curator.sums.settings import SumSettings
from fedkme.errors import error_of
from fedkme.exchange import Outcome, Participation, ReleaseRequest
from fedkme.party import NoiseFor, noise_for
from fedkme.privacy.events import CONSUMER, CURATOR
from fedkme.store import Store
from fedkme.store.memory import MemoryStore
from fedkme.tables.schema import Schema
from fedkme.tables.table import Row, Table
from owner.party import OwnerParty
from owner.runs import RunManager
from owner.settings import PolicySettings
from sim.engines.loopback import LoopbackMembers, open_owners
from sim.scenarios.base import Scenario

if TYPE_CHECKING:
    from curator.metrics import CuratorMetrics  # needs a package that is not in every installation

Hear = Callable[..., None]
"""Takes the curator's events: a name and its fields, as a launcher of processes gets them."""


def silent(event: str, **fields: Any) -> None:
    """Ignore an event."""


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class SimulatedMarket:
    """Parties of a simulation whose curator and consumer are in this process; owners may be elsewhere.

    Attributes:
        schema: schema of the rows.
        seeds: the public seed set.
        seed: seed of everything random; None: noise comes from the operating system.
        owners: names of the owners.
        members: connections to the owners.
        noise_for: private randomness of each party, by its name.
        curator: the curator's store, with its ledger.
        consumer: the consumer's store, with its ledger.
        metrics: figures of the curator; None if nobody reads them.
        journaled: true if runs outlive the curator's process; another `curating` of its store takes them up.
    """

    schema: Schema
    seeds: Table | None
    seed: int | None
    owners: Collection[str]
    members: Membership
    noise_for: Callable[[str], NoiseFor]
    curator: Store
    consumer: Store
    metrics: CuratorMetrics | None = None
    journaled: bool = False

    async def collect_stores(self) -> Mapping[str, Store]:
        """Collect the parties' stores by name; a lost party has none."""
        return {CURATOR: self.curator, CONSUMER: self.consumer}


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class InProcessMarket(SimulatedMarket):
    """Parties of a simulation in this process.

    Attributes:
        owners: owners by name.
        runs: the manager that answers for each owner, by name.
    """

    owners: Mapping[str, OwnerParty]
    runs: Mapping[str, RunManager]

    def stores(self) -> Mapping[str, Store]:
        """Every party's store, by its name."""
        stores: dict[str, Store] = {name: owner.store for name, owner in self.owners.items()}
        return {**stores, CURATOR: self.curator, CONSUMER: self.consumer}

    @override
    async def collect_stores(self) -> Mapping[str, Store]:
        return self.stores()


def open_market(
    schema: Schema,
    tables: Mapping[str, Table],
    seeds: Table | None,
    seed: int | None,
    policies: Mapping[str, PolicySettings] | None = None,
    noise_of: Callable[[str], NoiseFor] | None = None,
    opened: Callable[[OwnerParty], RunManager] = RunManager,
) -> InProcessMarket:
    """Open owners with stores in memory.

    Args:
        schema: schema of the rows.
        tables: owners' rows by name.
        seeds: the public seed set.
        seed: seed of everything random; None: noise comes from the operating system.
        policies: policies by owner; `all` for owners without one; without either all is allowed.
        noise_of: private randomness of a party; default: the randomness that its process would have.
        opened: makes the manager that answers for an owner.
    """
    randomness = noise_of or partial(noise_for, seed)
    owners = open_owners(schema, tables, randomness, policies or {})
    runs = {name: opened(owner) for name, owner in owners.items()}
    return InProcessMarket(
        schema=schema,
        seeds=seeds,
        seed=seed,
        owners=owners,
        runs=runs,
        members=LoopbackMembers(runs),
        noise_for=randomness,
        curator=MemoryStore(CURATOR),
        consumer=MemoryStore(CONSUMER),
    )


def market_of(
    scenario: Scenario, seed: int | None, policies: Mapping[str, PolicySettings] | None = None
) -> InProcessMarket:
    """Open the owners of a scenario."""
    return open_market(scenario.schema, scenario.owners, scenario.seeds, seed, policies)


class KeptRecords:
    """`Records` of a simulation: the last run's record, in memory.

    Attributes:
        summary: record of a summary.
        release: record of a release.
        facts: further entries of record.json.
        files: files of a release.
    """

    def __init__(self, keep: Callable[[KeptRecords], None] = lambda records: None) -> None:
        """Create empty records; `keep` writes a release to disk: first its numbers, at the end every file."""
        self._keep = keep
        self.summary: SummaryRecord | None = None
        self.release: ReleaseRecord | None = None
        self.facts: dict[str, Any] = {}
        self.files: Mapping[str, bytes] = {}

    def keep_summary(self, run: str, record: SummaryRecord, facts: dict[str, Any]) -> None:
        """Keep the record of a summary."""
        self.summary, self.facts = record, facts

    def keep_release(
        self, run: str, record: ReleaseRecord, files: Mapping[str, bytes], facts: Mapping[str, Any]
    ) -> None:
        """Keep the record of a release, with its files."""
        self.release, self.files, self.facts = record, files, dict(facts)
        self._keep(self)

    def has(self, run: str) -> bool:
        """Check whether a run has a record; a run that ended before it began has none."""
        return self.summary is not None or self.release is not None

    def check(self) -> None:
        """Raise the failure of the run, if it failed or its release is incomplete.

        Raises:
            FedkmeError: the run failed; with the message of its record.
        """
        record = self.summary or self.release
        if (
            record is not None
            and record.status != "complete"
            and (fault := error_of(record.code, record.cause, record.remedy)) is not None
        ):
            raise fault


@contextlib.asynccontextmanager
async def curating(
    market: SimulatedMarket, records: KeptRecords, hear: Hear, **tables: SummarySettings | SumSettings
) -> AsyncIterator[tuple[Preparation, RunQueue]]:
    """Start a curator over the market's owners, with these tables in its configuration.

    Yields:
        The preparation, which takes requests, and the queue of runs.
    """
    settings = CuratorSettings(
        plaintext=True,
        simulation_seed=market.seed,
        directory=Path(),
        schema_file=Path("schema.toml"),
        owners=tuple(market.owners),
        **tables,
    )
    context = RunContext(
        settings,
        market.schema,
        market.seeds,
        market.members,
        market.curator,
        market.noise_for(CURATOR),
        hear,
        records,
        counters=market.metrics,
        journaled=market.journaled,
    )
    lifecycle = Lifecycle(context)
    runs = RunQueue(market.curator, lifecycle.carry_out, settings.runs_at_once)
    runs.settle = lifecycle.settle
    if market.metrics is not None and isinstance(market.members, Members):
        market.metrics.watch(market.members, runs)
    try:
        yield Preparation(lifecycle, runs), runs
    finally:
        await runs.suspend()
        await lifecycle.cells.agreement.suspend()


async def run_in_process(
    market: SimulatedMarket,
    validation: Table,
    settings: SummarySettings,
    request: RequestSettings,
    records: KeptRecords,
    hear: Hear = silent,
    pooling: SumSettings | None = None,
    asked_before: bool = False,
) -> Summary:
    """Run one summary, from the consumer's request to the rows in its boxes.

    `records` get the run's record, also after a failure. `pooling` protects sums; None: the curator is
    trusted. With `asked_before` the request that a dead curator had is sent again.

    Raises:
        FedkmeError: the run failed.
    """
    sums = pooling or SumSettings()
    async with curating(market, records, hear, summary=settings, release=sums) as curator:
        return await ask_in_process(market, curator, validation, request, records, hear, asked_before)


async def ask_in_process(
    market: SimulatedMarket,
    curator: tuple[Preparation, RunQueue],
    validation: Table,
    request: RequestSettings,
    records: KeptRecords,
    hear: Hear = silent,
    asked_before: bool = False,
) -> Summary:
    """Ask a running curator for one summary; see `run_in_process`."""
    preparation, runs = curator
    asker = ConsumerParty(
        requests=Requests(CONSUMER, market.consumer),
        request=request,
        schema=market.schema,
        validation=validation,
        noise_for=market.noise_for(CONSUMER),
        warn=lambda run, line: hear("warning", line=line),
        simulation_seed=market.seed,
    )
    document = asker.document(Path())
    entry = (asker.requests.going_on(document) if asked_before else None) or asker.ask(document)
    wanted = entry.document.request
    run = runs.asked_before(CONSUMER, wanted.request_id) or preparation.open_summary(wanted)
    plan = await preparation.plan_of(run)
    await preparation.accept(run, asker.offer(entry, plan))
    await preparation.ended(run)
    if run.status == "failed":
        records.check()
    record = records.summary
    assert record is not None, "a run that began has a record"
    rows = [r.sealed or Row(r.token, r.values, r.label) for r in record.selected]
    outcome = Outcome(
        record.status == "complete",
        record.reason or "",
        len(record.rounds),
        len(record.accesses),
        records.facts["prune"],
        Participation.from_json(records.facts["participation"]),
    )
    return finish(plan, rows, outcome, market.schema, keys_for(plan, entry.document))


async def release_in_process(
    market: SimulatedMarket, settings: str, pooling: SumSettings, records: KeptRecords, hear: Hear = silent
) -> None:
    """Run one release with a consumer's settings; `records` get its files.

    Raises:
        FedkmeError: the run failed.
    """
    async with curating(market, records, hear, release=pooling) as (curator, _):
        run = await curator.open_release(ReleaseRequest(CONSUMER, b"", market.schema.digest(), settings))
        await curator.ended(run)
        records.check()
