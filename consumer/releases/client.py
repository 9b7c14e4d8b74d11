"""A consumer's request for a release: sends it, follows the run, and writes the files."""

from __future__ import annotations

import contextlib
import re
import secrets
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from google.protobuf.message import DecodeError

from consumer.requests import is_final
from consumer.results import keep_participation, make_folder, unwritten, write_result
from consumer.stages import StageReports
from fedkme.config import Settings, load_toml, validate
from fedkme.directives import one_line
from fedkme.durable import PartialFile
from fedkme.errors import ConfigError, ConnectionFailedError, ProtocolError
from fedkme.exchange import ReleaseRequest
from fedkme.inputs import read_bytes
from fedkme.ops.collector import traced
from fedkme.ops.supervision import StatusReporter
from fedkme.ops.traces import Phases, Tracer
from fedkme.party import ConsumerName, PartySettings, resolve_paths
from fedkme.privacy.events import CONSUMER
from fedkme.releases.choice import AUTO, Task, method_for
from fedkme.releases.settings import (
    AnyRelease,
    ReleaseSettings,
    read_points,
    settings_from_json,
    settings_to_json,
)
from fedkme.tables.schema import load_schema
from fedkme.wire import codecs
from fedkme.wire.dial import own_identity
from fedkme.wire.journals import release_request_from_bytes, release_request_to_bytes
from fedkme.wire.releases import STAGE, request_to_wire
from fedkme.wire.retry import CuratorCalls, curator_calls
from fedkme.wire.v1 import releases_pb2 as pb
from fedkme.wire.v1 import releases_pb2_grpc

if TYPE_CHECKING:
    import grpc.aio

OPEN = "release.open"
"""File of an output folder's open request."""
_NAME = re.compile(
    r"(release|synthetic|weighted|marginals)\.(npz|csv|parquet|json|card\.md|card\.json)|copy-[1-9]\d{0,3}\.csv"
)
"""Names of a release's files. A curator chooses among these names and can overwrite no other file."""
MOST_BYTES = 2**32
"""Most bytes of all files together; the call ends when a curator sends more."""


def is_of_release(name: str) -> bool:
    """Check whether a release may have a file of this name."""
    return _NAME.fullmatch(name) is not None


class ReleaseConsumerSettings(PartySettings):
    """CONSUMER.toml of `fedkme consumer release`."""

    name: ConsumerName = CONSUMER
    """The consumer's name, the one in its certificate and in every ledger."""
    curator: str
    """host:port of the curator; '-' to be told by the launcher."""
    schema_file: Path
    """The public schema that all parties share."""
    output: Path
    """Folder for the files of the release."""
    release: AnyRelease
    """The requested release. `kind = "auto"` is resolved here, by the schema and by `task`: "rows" or
    "kernel"."""


class _Purpose(Settings):
    """Key of `[release]` for `kind = "auto"`; no method has it."""

    task: Task = "rows"


def load_release_settings(config: Path) -> ReleaseConsumerSettings:
    """Load settings from a file; read its file of points, if any, and choose the method for `auto`.

    Raises:
        ConfigError: a key or value is wrong, or there are too many points.
        DataError: points do not fit the schema.
    """
    return release_settings_of(load_toml(config), config)


def release_settings_of(values: Mapping[str, Any], config: Path) -> ReleaseConsumerSettings:
    """Make such settings from plain values; relative paths start at the folder of `config`."""

    def checked(release: Any) -> ReleaseConsumerSettings:
        settings = validate(ReleaseConsumerSettings, {**values, "release": release}, config.name)
        return resolve_paths(settings, config)

    plain = values.get("release")
    if isinstance(plain, Mapping) and plain.get("kind") == AUTO:
        others = {key: value for key, value in plain.items() if key not in ("kind", "task")}
        purpose = {key: plain[key] for key in ("task",) if key in plain}
        task = validate(_Purpose, purpose, f"{config.name}, release").task
        # The path of the schema is valid once everything except the method is checked.
        schema = load_schema(checked({"kind": "moments"}).schema_file)
        plain = {**others, "kind": method_for(schema, task)[0]}
    settings = checked(plain)
    release = read_points(settings.release, load_schema(settings.schema_file), config.parent)
    return settings.model_copy(update={"release": release})


class Request:
    """The open request of an output folder; it is on disk before it is sent."""

    def __init__(self, settings: ReleaseConsumerSettings) -> None:
        """Continue the folder's open request, or make a new one.

        Raises:
            ConfigError: the folder cannot be written, or another request is open there.
        """
        self._path = settings.output / OPEN
        self.request = ReleaseRequest(
            settings.name,
            secrets.token_bytes(16),
            load_schema(settings.schema_file).digest(),
            settings_to_json(settings.release),
        )
        self.resumed = self._path.exists()
        try:
            if self.resumed:
                saved = release_request_from_bytes(read_bytes(self._path))
                asked = replace(self.request, request_id=saved.request_id, settings=saved.settings)
                if asked != saved or not _means(saved.settings, settings.release):
                    cause = f"{self._path} holds another request, whose release has not arrived"
                    remedy = "Finish that request, choose another 'output', or cancel it and remove the file."
                    raise ConfigError(cause, remedy)
                self.request = saved  # as it was sent, perhaps by an earlier release
                return
            make_folder(settings.output)
            write_result(self._path, release_request_to_bytes(self.request))
        except DecodeError:
            cause = f"{self._path} is not what this release writes"
            raise ConfigError(cause, "Move it away to make a new request.") from None
        except OSError as error:
            cause = f"{self._path} cannot be read: {error.strerror}"
            raise ConfigError(cause, "Correct its rights.") from None

    def done(self) -> None:
        """Remove the request: its release arrived, or never will."""
        self._path.unlink(missing_ok=True)


def _means(text: str, settings: ReleaseSettings) -> bool:
    """Check whether a text, perhaps of an earlier release, has the same settings."""
    try:
        return settings_from_json(text) == settings
    except ConfigError:
        return False


async def run(settings: ReleaseConsumerSettings, reporter: StatusReporter) -> None:
    """Request a release and write its files; repeat the request after a broken connection."""
    request = Request(settings)
    reporter.say("resumed" if request.resumed else "loaded", name=settings.name)
    address = await reporter.hear() if settings.curator == "-" else settings.curator
    await _ask(settings, address, request_to_wire(request.request), reporter, request.done)


def attaching(run_name: str) -> Callable[[ReleaseConsumerSettings, StatusReporter], Awaitable[None]]:
    """Follow a run that was requested before, and write its files."""

    async def work(settings: ReleaseConsumerSettings, reporter: StatusReporter) -> None:
        make_folder(settings.output)
        message = pb.ReleaseRequest(versions=codecs.VERSIONS, name=settings.name, attach=run_name)
        await _ask(settings, settings.curator, message, reporter)

    return work


async def _ask(
    settings: ReleaseConsumerSettings,
    address: str,
    message: pb.ReleaseRequest,
    reporter: StatusReporter,
    over: Callable[[], None] = lambda: None,
) -> None:
    settings.check_address(address)
    calls = curator_calls(settings, address, own_identity(settings.identity, reporter), reporter)
    with traced(settings, settings.name, reporter.say) as traces, Phases(traces) as phases:
        phases.begin("join")
        await ask(calls, message, settings.output, reporter, over, phases)


async def ask(
    calls: CuratorCalls,
    message: pb.ReleaseRequest,
    output: Path,
    reporter: StatusReporter,
    over: Callable[[], None],
    phases: Phases | None = None,
) -> None:
    """Send a request, again after broken connections, until the files are here; `over`: see `receive`."""

    async def call(channel: grpc.aio.Channel) -> None:
        stream = releases_pb2_grpc.ReleasesStub(channel).Release(message)
        await receive(stream, output, reporter, calls.absence.over, over, phases)

    await calls.until_done(call)


async def receive(
    stream: grpc.aio.UnaryStreamCall[pb.ReleaseRequest, pb.ReleaseMessage],
    output: Path,
    reporter: StatusReporter,
    heard: Callable[[], None] = lambda: None,
    over: Callable[[], None] = lambda: None,
    phases: Phases | None = None,
) -> None:
    """Receive progress, files and the outcome; a file gets its name when it is complete.

    Args:
        stream: the call.
        output: folder for the files.
        reporter: receives progress and the outcome.
        heard: called when the curator has named the run.
        over: called when the run has ended for good; not after a failure on this side, which loses nothing.
        phases: phases of the run, for its trace.

    Raises:
        FedkmeError: the curator's refusal or failure, in its own words.
        ProtocolError: the files are malformed.
        ConnectionFailedError: the call ended before the outcome.
    """
    run_name, stages = "", StageReports(reporter)
    phases = phases or Phases(Tracer())
    phases.begin("plan")
    with IncomingFiles(output) as files:
        while isinstance(message := await stream.read(), pb.ReleaseMessage):
            match message.WhichOneof("body"):
                case "fault":
                    error = codecs.fault_from_wire(message.fault)
                    if is_final(error):
                        over()
                    raise error
                case "plan":
                    run_name = one_line(message.plan.run)
                    heard()
                    phases.named(run_name)
                    phases.begin("rows")
                case "progress":
                    stages.show(run_name, STAGE.from_wire(message.progress))
                case "file":
                    phases.begin("files")
                    files.take(message.file)
                case "outcome":
                    owners = codecs.PARTICIPATION.decode(message.outcome.participation)
                    keep_participation(output, owners)
                    over()
                    reporter.say(
                        "received",
                        run=run_name,
                        round=0,
                        rows=message.outcome.rows,
                        owners=message.outcome.owners,
                        participation="" if owners is None else owners.line,
                        files=files.names,
                        output=str(output),
                    )
                    return
    raise ConnectionFailedError("the curator ended the call before the outcome", "Look at its last lines.")


class IncomingFiles(contextlib.ExitStack):
    """Files that arrive in parts, one after the other; at the end of the block a part of a file is removed.

    Attributes:
        names: names of the complete files.
    """

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self.names: list[str] = []
        self._folder = folder
        self._name = ""
        self._file: PartialFile | None = None
        self._size = 0

    def take(self, part: pb.FilePart) -> None:
        """Append a part to the open file, or to a new one; a complete file gets its name.

        Raises:
            ProtocolError: parts are mixed up or too large, or the name is odd or came before.
            StoreError: the part cannot be written.
        """
        self._size += len(part.data)
        try:
            file = self._file or self._begin(part.name)
            endless = not part.data and not part.last
            if self._size > MOST_BYTES or part.name != self._name or endless:
                raise ProtocolError("a curator sends malformed files", "Look at its software.")
            file.write(part.data)
            if part.last:
                file.finish()
                self.names.append(self._name)
                self._file = None
        except OSError as error:
            raise unwritten(self._folder / self._name, error) from None

    def _begin(self, name: str) -> PartialFile:
        if name in self.names:
            raise ProtocolError("a curator sends a file twice", "Look at its software.")
        if not is_of_release(name):  # it could lead out of the folder
            raise ProtocolError("a curator sends a file of an odd name", "Look at its software.")
        self._name = name
        self._file = self.enter_context(PartialFile(self._folder / name, 0o600))
        return self._file
