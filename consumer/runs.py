"""A consumer's runs at its curator: list them, follow one, cancel one."""

import contextlib
import json
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import UTC, datetime

from consumer.releases.client import ReleaseConsumerSettings
from consumer.requests import ENDED, Requests
from consumer.results import make_folder
from consumer.settings import ConsumerSettings
from consumer.summary.client import receive_summary
from consumer.summary.received import ReceivedRows, load_validation
from fedkme.directives import one_line
from fedkme.documents import RequestDocument
from fedkme.errors import ConfigError, ProtocolError, StoreError
from fedkme.ops.supervision import StatusReporter
from fedkme.store import OPEN, open_store
from fedkme.store.reading import read_store
from fedkme.tables.files import counted_persons
from fedkme.tables.schema import load_schema
from fedkme.tables.table import Table
from fedkme.wire import codecs
from fedkme.wire.channel import explained
from fedkme.wire.dial import dial, own_identity
from fedkme.wire.summaries import OPENED
from fedkme.wire.v1 import summaries_pb2 as pb
from fedkme.wire.v1 import summaries_pb2_grpc

Stub = summaries_pb2_grpc.SummariesStub
Work = Callable[[ConsumerSettings, StatusReporter], Awaitable[None]]
AnyConsumer = ConsumerSettings | ReleaseConsumerSettings
AnyWork = Callable[[AnyConsumer, StatusReporter], Awaitable[None]]
"""Work of verbs that concern runs of every kind."""


def listing(as_json: bool) -> AnyWork:
    """Print every run of this consumer, oldest first."""

    async def work(settings: AnyConsumer, reporter: StatusReporter) -> None:
        async with _calling(settings, reporter) as stub:
            runs = _checked(await stub.ListRuns(pb.RunQuery(name=settings.name))).runs
            if as_json:
                sys.stdout.write(json.dumps([_plain(run) for run in runs], indent=2) + "\n")
                return
            sys.stdout.write(f"{'run':<24}{'status':<12}{'kind':<12}{'rows':>12}  opened\n")
            for run in map(_plain, runs):
                rows = f"{run['selected']} of {run['rows']}" if run["status"] == "running" else run["rows"]
                rows = rows if run["kind"] == "summary" else "-"
                ahead = f", {run['ahead']} before it" if run["status"] == "queued" else ""
                status = f"{run['status']}{ahead}"
                what = f"{run['run']:<24}{status:<12}{run['kind']:<12}"
                sys.stdout.write(f"{what}{rows:>12}  {run['opened']}\n")

    return work


def cancelling(run: str) -> AnyWork:
    """Cancel a run; its cost so far stays counted."""

    async def work(settings: AnyConsumer, reporter: StatusReporter) -> None:
        async with _calling(settings, reporter) as stub:
            answer = await stub.CancelRun(pb.RunQuery(name=settings.name, run=run))
            if isinstance(settings, ConsumerSettings):
                _give_up(settings, run, reporter)
            if len(states := _checked(answer).runs) != 1:
                raise ProtocolError(
                    "the curator does not say what became of the run", "Look at its software."
                )
            state = _plain(states[0])
            reporter.say("cancelled", run=state["run"], round=0, status=state["status"])

    return work


def watching(run: str) -> Work:
    """Follow a run to its end, and write and judge its rows like the requesting command."""

    async def work(settings: ConsumerSettings, reporter: StatusReporter) -> None:
        schema = load_schema(settings.schema_file)
        examined = load_validation(settings, schema)
        validation = examined.table
        document = _document(settings, run)
        _check_asked(run, document, settings.request.p, validation)

        async with _calling(settings, reporter) as stub:
            stream = stub.Summarize()
            await stream.write(pb.ConsumerMessage(attach=pb.RunQuery(name=settings.name, run=run)))
            summary = await receive_summary(run, stream, schema, reporter, document)
            make_folder(settings.output)
            rows = ReceivedRows(settings, schema, validation, reporter, counted_persons(examined, schema))
            rows.keep(summary)
            rows.judge(summary.plan)

    return work


def _check_asked(run: str, document: RequestDocument | None, p: int, validation: Table) -> None:
    """Refuse a p or a D_v that differs from the run's request, if the store has the request.

    Raises:
        ConfigError: p or D_v differs.
    """
    if document is not None and (document.request.rows, document.data) != (p, validation.digest()):
        cause = f"{run} was asked for with another p, or another D_v, than this configuration has"
        raise ConfigError(cause, "Watch it with the configuration by which it was asked for.")


def _document(settings: ConsumerSettings, run: str) -> RequestDocument | None:
    """Read a run's request, even while another process has the store open; None if the store has none."""
    with (
        contextlib.suppress(StoreError),
        contextlib.closing(read_store(settings.journal, settings.name)) as store,
    ):
        request = Requests(settings.name, store).of_run(run)
        return None if request is None else request.document
    return None


def _give_up(settings: ConsumerSettings, run: str, reporter: StatusReporter) -> None:
    """End a run's request in the store; a process that has the request open hears from the curator."""
    try:
        with contextlib.closing(open_store(settings.journal, settings.name, settings.durability)) as store:
            request = Requests(settings.name, store).of_run(run)
            if request is not None and request.status == OPEN:
                request.end(ENDED)
    except StoreError as error:
        reporter.say("warning", run=run, round=0, line=str(error))


@contextlib.asynccontextmanager
async def _calling(settings: AnyConsumer, reporter: StatusReporter) -> AsyncIterator[Stub]:
    """Call the curator of the settings."""
    settings.check_address(settings.curator)
    identity = own_identity(settings.identity, reporter)
    async with await dial(settings.curator, identity, settings.connect_s, settings.proxy) as channel:
        with explained(settings.curator):
            yield Stub(channel)


def _checked(answer: pb.RunList) -> pb.RunList:
    if answer.HasField("fault"):
        raise codecs.fault_from_wire(answer.fault)
    return answer


def _plain(run: pb.RunState) -> dict[str, str | int]:
    return {
        "run": one_line(run.run),
        "kind": one_line(run.kind) or "summary",  # curators of old releases have only summaries
        "status": one_line(run.status),
        "rows": run.rows,
        "selected": run.selected,
        "opened": datetime.fromtimestamp(OPENED.decode(run.opened), UTC).isoformat(timespec="seconds"),
        "ahead": run.ahead,
    }
