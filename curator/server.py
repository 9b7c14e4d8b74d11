"""Process of a curator: its runs, and the services for owners and consumers on its one port.

The curator is the same on a host and in a simulation; only its context and the server that carries it differ.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import grpc.aio

from curator.consumers.admission import ConsumerAdmission
from curator.consumers.release_service import ReleaseService
from curator.consumers.summary_service import SummaryService
from curator.health import add_health
from curator.owners.connection import Exchanged
from curator.owners.members import Members, next_epoch
from curator.owners.owner_service import OwnerService
from curator.peers import CertificateCheck, NameRegister
from curator.runs.context import RecordFolder, RunContext
from curator.runs.lifecycle import Lifecycle
from curator.runs.preparation import Preparation
from curator.runs.queue import RunQueue, shortened
from curator.settings import CuratorSettings
from curator.traces import CuratorTraces
from fedkme.directives import Hello
from fedkme.durable import make_folder, replace
from fedkme.errors import ConfigError, FedkmeError, StoreError, on_disk
from fedkme.heads.files import ledger_text, write_heads
from fedkme.ledgers.archiving import archive_finished
from fedkme.ledgers.departures import departures_in
from fedkme.ops.archiver import Archiver
from fedkme.ops.collector import traced
from fedkme.ops.spans import with_time_left
from fedkme.ops.supervision import StatusReporter, while_stored
from fedkme.party import canonical
from fedkme.pki.expiry import Expiry, expiries, told_daily, warn_of_ends
from fedkme.pki.identity import IdentityFile
from fedkme.privacy.events import CURATOR
from fedkme.store import Store, open_store
from fedkme.store.opening import is_on_server
from fedkme.tables.files import load_table
from fedkme.tables.schema import Schema, load_schema
from fedkme.tables.table import Table
from fedkme.wire.channel import SERVER_OPTIONS
from fedkme.wire.tls import renewing_server_credentials
from fedkme.wire.v1 import owners_pb2_grpc, releases_pb2_grpc, summaries_pb2_grpc

if TYPE_CHECKING:
    from curator.metrics import CuratorMetrics
    from curator.watch.state import CuratorWatch


class CuratorParty:
    """A curator's runs, and the services that answer owners and consumers.

    Attributes:
        runs: all runs of the curator.
        calls: open calls of consumers.
    """

    def __init__(self, context: RunContext, members: Members, certificates: CertificateCheck) -> None:
        """Take up the runs that an earlier process left open, without starting any run."""
        settings = context.settings
        lifecycle = Lifecycle(context)
        self.runs = RunQueue(context.store, lifecycle.carry_out, settings.runs_at_once)
        self.runs.settle = lifecycle.settle
        for run in self.runs.left_open():
            members.enlist(run.name, run.document.owners)
        names = NameRegister(settings.owners, settings.consumers)
        self.calls = ConsumerAdmission(settings, self.runs, names, context.say, certificates)
        self._schema, self._heads = context.schema, lifecycle.heads
        self._agreement = lifecycle.cells.agreement
        self._agreed_on = self._agreement.take_up(self.runs.waiting())
        preparation = Preparation(lifecycle, self.runs)
        self._summaries = SummaryService(context, preparation, self.runs, self.calls)
        self._releases = ReleaseService(context, preparation, self.runs, self.calls)
        self._owners = OwnerService(
            members, names, settings.connect_s, certificates, context.say, self._admit
        )

    def _admit(self, hello: Hello) -> None:
        """Refuse an owner with another schema, or with a store older than its last signed head.

        Raises:
            SchemaError: the schemas differ; an owner of an earlier release does not say which it holds.
            FedkmeError: see `HeadExchange.admit`.
        """
        if hello.schema:
            self._schema.check_digest(hello.schema, f"{hello.name} and the curator")
        self._heads.admit(hello)

    def serve_on(self, server: grpc.aio.Server) -> None:
        """Add the services to a server that has not started."""
        owners_pb2_grpc.add_OwnersServicer_to_server(self._owners, server)
        summaries_pb2_grpc.add_SummariesServicer_to_server(self._summaries, server)
        releases_pb2_grpc.add_ReleasesServicer_to_server(self._releases, server)

    def start(self) -> None:
        """Start the runs that may start, and continue those left open."""
        self.runs.start()
        self._agreement.resume(self._agreed_on)

    async def suspend(self) -> None:
        """Suspend all runs under way; they continue when the curator starts again."""
        await self.runs.suspend()
        await self._agreement.suspend()


def expected_members(
    settings: CuratorSettings, store: Store, say: Callable[..., None], exchanged: Exchanged | None = None
) -> Members:
    """Register of the owners that the settings expect; the store counts their processes."""
    times = settings.progress_s, settings.grace_s
    counted, left = partial(next_epoch, store), partial(departures_in, store)
    return Members(settings.owners, *times, counted, say, settings.approval_s, exchanged, left)


GRACE_S = 2.0
"""Time that open calls may take to end when the curator stops."""
_CALLS_END_S = 1.0
"""Time that calls which were cancelled may take to clean up."""


async def serve(settings: CuratorSettings, reporter: StatusReporter) -> None:
    """Serve until a signal, or until the runs that the settings allow are done.

    Runs that an earlier process left open go on.

    Raises:
        ConfigError: an address cannot be listened on, or the directory cannot be made.
        IdentityError: the certificate, or the list of revoked certificates, is unreliable.
        StoreError: the journal cannot be opened.
    """
    settings.check_address(settings.listen)
    if settings.revoked is not None and settings.identity is None:
        raise ConfigError("'revoked' has no effect without an 'identity'", "Remove one, or add the other.")
    with on_disk(f"{settings.directory} cannot be made", "Correct 'directory'."):
        make_folder(settings.directory)
    with contextlib.closing(open_store(_journal(settings), CURATOR, settings.durability)) as store:
        await while_stored(store, str(_journal(settings)), _serve(settings, store, reporter))


async def _serve(settings: CuratorSettings, store: Store, reporter: StatusReporter) -> None:
    with contextlib.ExitStack() as open_now:
        say, counters, measured_store = with_time_left(reporter.say), None, store
        if settings.metrics is not None:
            from fedkme.ops.metrics import host_figures

            say, counters, measured_store = _with_metrics(
                settings.metrics, settings.metrics_anywhere, store, reporter, say, open_now
            )
            open_now.enter_context(host_figures(counters.registry, str(_journal(settings))))
        traces = CuratorTraces(open_now.enter_context(traced(settings, settings.name, reporter.say)))
        say = traces.heard(say)
        watch: CuratorWatch | None = None
        if settings.page is not None:
            say, watch = _with_watch(settings, measured_store, say)
        schema = load_schema(settings.schema_file)
        members = expected_members(settings, measured_store, say, traces.exchanged if traces.on else None)
        identity = None if settings.identity is None else IdentityFile(settings.identity)
        context = RunContext(
            settings,
            schema,
            _seeds(settings, schema),
            members,
            measured_store,
            settings.noise_for(CURATOR),
            say,
            RecordFolder(settings.directory),
            lambda: None if identity is None else identity.identity,
            counters,
            round_done=traces.round_done,
        )
        if settings.summary.cells.release is not None:
            _ = context.pool_release  # a wrong folder is told now, not to a consumer
        certificates = CertificateCheck(
            settings.revoked, b"" if identity is None else identity.identity.authority, say
        )

        def must_be_renewed() -> list[Expiry]:
            return expiries(None if identity is None else identity.identity, certificates.revocation)

        warn_of_ends(say, must_be_renewed())
        open_now.enter_context(told_daily(say, must_be_renewed))
        party = CuratorParty(context, members, certificates)
        if counters is not None:
            from fedkme.ops.metrics import Expiries

            counters.watch(members, party.runs)
            counters.registry.register(Expiries(must_be_renewed))
        if watch is not None:
            watch.attend(members, must_be_renewed)
            open_now.enter_context(_page(settings, watch, reporter))
        server = grpc.aio.server(options=SERVER_OPTIONS)
        party.serve_on(server)
        reflection = settings.plaintext if settings.reflection is None else settings.reflection
        health = await add_health(server, reflection, certificates, schema.digest())
        port = _listen(server, settings, identity, reporter)
        await server.start()
        archiver = Archiver(partial(archive_finished, measured_store, shortened), reporter.say)
        party.start()
        archiver.begin(measured_store)
        party.runs.closed = archiver.go_on
        await health.serving(True)
        reporter.say("listening", address=f"{settings.listen.rpartition(':')[0]}:{port}")
        reporter.on_reload = certificates.recheck
        reporter.ready()
        try:
            if await _stop_requested(party.calls, reporter):
                await health.serving(False)
                await _drain(party.calls, party.runs, settings.drain_s, reporter)
                await party.suspend()
                await stopped(server, None)
            else:
                await health.serving(False)
                await members.end()
                await stopped(server, GRACE_S)
        except (asyncio.CancelledError, FedkmeError) as error:
            await health.serving(False)
            try:
                await party.suspend()  # runs stay open, and owners come back
            finally:
                await stopped(server, None)
            if isinstance(error, FedkmeError):
                raise
        finally:
            archiver.close()
            _export(store, settings.directory / "ledger.jsonl")
    reporter.say("stopped")


def _journal(settings: CuratorSettings) -> str | Path:
    """Place of the curator's journal: a server's address, or a file."""
    return settings.journal if is_on_server(settings.journal) else settings.directory / settings.journal


def _with_metrics(
    address: str,
    anywhere: bool,
    store: Store,
    reporter: StatusReporter,
    say: Callable[..., None],
    open_now: contextlib.ExitStack,
) -> tuple[Callable[..., None], CuratorMetrics, Store]:
    """Add the parts that `metrics` needs: counted reports, counters of runs, and a measured store."""
    from curator.metrics import CuratorMetrics
    from fedkme.ops.metrics import Spending, exported, timed

    loop = asyncio.get_running_loop()
    metrics = CuratorMetrics()

    def unreadable(error: FedkmeError) -> None:  # in a thread
        loop.call_soon_threadsafe(partial(reporter.say, "warning", code=error.code, line=str(error)))

    where = open_now.enter_context(exported(address, anywhere, metrics.registry))
    spending = open_now.enter_context(contextlib.closing(Spending(store, metrics.registry, unreadable)))
    reporter.say("metrics", address=where)

    def counted_say(event: str, **fields: Any) -> None:
        say(event, **fields)
        metrics.count(event, fields)
        if event == "ended":
            spending.refresh()

    return counted_say, metrics, timed(store, metrics.registry)


def _with_watch(
    settings: CuratorSettings, store: Store, say: Callable[..., None]
) -> tuple[Callable[..., None], CuratorWatch]:
    """Add the parts that `page` needs: reports that feed the watch, and the watch itself."""
    from curator.watch.state import CuratorWatch

    watch = CuratorWatch(settings, store)

    def watched_say(event: str, **fields: Any) -> None:
        watch.hear(event, fields)
        say(event, **fields)

    return watched_say, watch


@contextlib.contextmanager
def _page(settings: CuratorSettings, watch: CuratorWatch, reporter: StatusReporter) -> Iterator[None]:
    """Serve the page to watch while the block is open."""
    from fedkme.watch.server import shown

    with shown(settings.page_address(), watch.state) as address:
        reporter.say("page", address=address)
        yield


async def _stop_requested(calls: ConsumerAdmission, reporter: StatusReporter) -> bool:
    """Wait for SIGTERM, or until the runs that the settings allow are done; return True for SIGTERM."""
    terminated = asyncio.Event()
    reporter.on_terminate = terminated.set
    waits = [asyncio.ensure_future(event.wait()) for event in (terminated, calls.served)]
    try:
        await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for wait in waits:
            wait.cancel()
    return terminated.is_set()


async def stopped(server: grpc.aio.Server, grace: float | None) -> None:
    """Stop a server and wait for the ends of the calls that it cancels.

    A call of grpc that the end of the event loop cancels instead prints a traceback.
    """
    await server.stop(grace)
    calls = [task for task in asyncio.all_tasks() if task.get_name() == "rpc_task"]
    if calls:
        await asyncio.wait(calls, timeout=_CALLS_END_S)


async def _drain(calls: ConsumerAdmission, runs: RunQueue, drain_s: float, reporter: StatusReporter) -> None:
    """Refuse new runs, and give the runs under way `drain_s` seconds to end."""
    calls.stopping = True
    under_way = runs.hold()
    reporter.say("draining", runs=under_way, seconds=drain_s)
    if drain_s:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(drain_s):
                await runs.idle()
                await calls.delivered()


def _export(store: Store, path: Path) -> None:
    """Write the ledger as a file of lines, with the heads next to it, for people and other parties."""
    with contextlib.suppress(OSError, StoreError):
        replace(path, ledger_text(store, path.parent))
    with contextlib.suppress(ConfigError, StoreError):
        write_heads(store, path)


def _seeds(settings: CuratorSettings, schema: Schema) -> Table | None:
    if settings.seeds is None:
        return None
    return load_table(settings.seeds, schema, "the seed set")


def _listen(
    server: grpc.aio.Server, settings: CuratorSettings, file: IdentityFile | None, reporter: StatusReporter
) -> int:
    try:
        if file is None:
            return server.add_insecure_port(canonical(settings.listen))
        loop = asyncio.get_running_loop()

        def tell(event: str, line: str) -> None:  # in a thread of gRPC's
            loop.call_soon_threadsafe(partial(reporter.say, event, line=line))

        return server.add_secure_port(canonical(settings.listen), renewing_server_credentials(file, tell))
    except RuntimeError:
        cause = f"{settings.listen} cannot be listened on"
        raise ConfigError(cause, "Choose a free port and an address of this machine.") from None
