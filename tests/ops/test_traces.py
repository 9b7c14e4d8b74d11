"""Traces of runs for an OpenTelemetry collector: who sends what, and that no value is private."""

from __future__ import annotations

import re
import socket
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from concurrent import futures
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import grpc
import pytest
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2 as otlp
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2_grpc
from opentelemetry.proto.trace.v1.trace_pb2 import Span as WireSpan
from typer.testing import CliRunner

import sim.cli
from fedkme.config import validate
from fedkme.directives import Directive, DrawRows
from fedkme.errors import ConfigError, OwnerLostError
from fedkme.ops import otlp as exporting
from fedkme.ops.collector import check_collector, traced
from fedkme.ops.traces import STAGES, Phases, Public, Tracer, TraceSpan
from fedkme.party import PartySettings
from fedkme.protocols import PROTOCOLS
from tests.ops.parties import Party, Site
from tests.ops.test_logs import LABEL, ROW, planted, secrets_of
from tests.parties import HERE, WAIT_S, caller_values, write_config
from tests.places import ROOT

QUESTIONS = {question for row in PROTOCOLS.values() for question in row.questions}
WORDS: dict[str, str] = {
    "run": r"run-\d+(-[0-9a-f]{8})?",
    "owner": "north|south|west",
    "question": "|".join(sorted(QUESTIONS | {"invite", "consider", "close", "show_head", "keep_head"})),
    "protocol": "|".join(PROTOCOLS),
    "status": "complete|stopped|failed",
}
"""Every key of text that a span may have, and what its text may be; a new key needs a line here."""
NUMBERS = {"round", "rows", "owners", "asked", "revealed", "accessed", "code"}
RESOURCE = {"service.namespace", "service.name", "service.version"}


@dataclass
class Collector:
    """Collector in this process."""

    address: str = ""
    raw: bytes = b""
    spans: list[tuple[str, WireSpan]] = field(default_factory=list)
    """Every span with the party that sent it."""
    keys: set[str] = field(default_factory=set)
    """Keys of resources."""

    def Export(self, request: Any, context: object) -> Any:  # noqa: N802  # gRPC's name
        """Take spans."""
        self.raw += request.SerializeToString()
        for resource in request.resource_spans:
            names = {each.key: each.value.string_value for each in resource.resource.attributes}
            self.keys |= names.keys()
            for scope in resource.scope_spans:
                self.spans += [(names["service.name"], span) for span in scope.spans]
        return otlp.ExportTraceServiceResponse()

    def names(self, party: str) -> Counter[str]:
        """Count the spans of a party by name."""
        return Counter(span.name for sender, span in self.spans if sender == party)


@pytest.fixture
def collector() -> Iterator[Collector]:
    """A collector that listens on loopback."""
    taking, server = Collector(), grpc.server(futures.ThreadPoolExecutor(2))
    trace_service_pb2_grpc.add_TraceServiceServicer_to_server(taking, server)
    taking.address = f"http://127.0.0.1:{server.add_insecure_port('127.0.0.1:0')}"
    server.start()
    yield taking
    server.stop(0).wait(WAIT_S)


def check_public(collector: Collector) -> None:
    """Refuse any key that is not listed, and any text that is none of the public words."""
    assert collector.keys == RESOURCE
    assert collector.spans
    for sender, span in collector.spans:
        assert not span.events
        assert not span.links
        assert not span.status.message
        assert span.end_time_unix_nano >= span.start_time_unix_nano
        for each in span.attributes:
            key = each.key.removeprefix("fedkme.")
            if key in NUMBERS:
                assert each.value.WhichOneof("value") == "int_value", each
            else:
                assert re.fullmatch(WORDS[key], each.value.string_value), (sender, span.name, each)


def of_run(collector: Collector, run: str) -> list[tuple[str, WireSpan]]:
    """Spans of a run with their senders."""
    return [
        (sender, span)
        for sender, span in collector.spans
        if any(each.key == "fedkme.run" and each.value.string_value == run for each in span.attributes)
    ]


def run_of(party: Party) -> str:
    return str(party.until("received")["run"])


def test_every_attribute_of_every_span_of_real_parties_is_public(site: Site, collector: Collector) -> None:
    planted(site)
    setting = f'traces = "{collector.address}"'
    curator = site.curator(f'owners = ["north", "south"]\nruns = 2\nrelease = {{ quorum = 1 }}\n{setting}')
    north = site.owner("north", setting)
    # what a host sets for other programs turns nothing on
    south = site.owner("south", OTEL_EXPORTER_OTLP_ENDPOINT=collector.address)
    consumer = site.start("consumer", f"{setting}\n[request]\np = 12")
    assert consumer.ended() == 0, consumer.lines
    released = {"kind": "marginals", "mechanism": "independent", "epsilon": 2.0, "delta": 1e-6, "rows": 9}
    own = {"identity": "consumer.pem", "log": "json", "output": "released", "release": released}
    config = write_config(site.folder / "release.toml", caller_values(HERE, site.address, **own), setting)
    asking = site.call("consumer", "release", config)
    assert asking.ended() == 0, asking.lines
    assert [party.ended() for party in (curator, north, south)] == [0, 0, 0]

    check_public(collector)
    for secret in (*secrets_of(site), ROW, LABEL):
        assert secret.encode() not in collector.raw
    assert {sender for sender, _ in collector.spans} == {"curator", "north", "consumer"}
    summary, release = of_run(collector, run_of(consumer)), of_run(collector, run_of(asking))
    for spans in (summary, release):
        assert len({span.trace_id for _, span in spans}) == 1
        (whole,) = [span for _, span in spans if span.name == "run"]
        asked = {span.span_id for _, span in spans if span.name == "ask"}
        for sender, span in spans:
            if span.name == "answer":
                assert sender == "north"
                assert span.parent_span_id in asked
            elif span is not whole:
                assert span.parent_span_id == whole.span_id
    assert summary[0][1].trace_id != release[0][1].trace_id
    assert {span.name for sender, span in summary if sender == "consumer"} == {
        *("join", "plan", "offer", "rows", "fit", "judge")
    }
    assert {"queue", "select", "round", "ask", "run"} <= {span.name for _, span in summary}
    assert {"queue", "sums", "fitting", "ask", "run"} <= {span.name for _, span in release}
    assert {"join", "plan", "rows", "files"} <= {
        span.name for sender, span in release if sender == "consumer"
    }
    assert collector.names("north")["join"] == 1


def test_a_simulation_sends_one_trace_and_no_other_simulations(collector: Collector, tmp_path: Path) -> None:
    for seed in ("0", "1"):
        words = ["run", str(ROOT / "examples/own-files/scenario.toml"), "--seed", seed]
        for assignment in (f"traces={collector.address}", "baselines=[]", "downstream=false"):
            words += ["--set", assignment]
        done = CliRunner().invoke(sim.cli.app, [*words, "--out", str(tmp_path / seed)])
        assert done.exit_code == 0, done.output
    check_public(collector)
    traces = {span.trace_id for _, span in of_run(collector, "run-1")}
    assert len(traces) == 2
    for trace in traces:
        senders = {sender for sender, span in collector.spans if span.trace_id == trace}
        assert senders == {"curator", "consumer", "north", "south", "west"}


def test_nothing_is_imported_without_the_setting() -> None:
    code = (
        "import sys, curator.server, owner.agent, consumer.summary.client, sim.run\n"
        "sys.exit(any(name.startswith('opentelemetry') for name in sys.modules))"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=WAIT_S)


def test_a_missing_extra_is_one_numbered_line(site: Site) -> None:
    party = site.start(
        "curator",
        'traces = "http://127.0.0.1:4317"\nlog = "text"',
        first="import sys; sys.modules['opentelemetry'] = None",
    )
    assert party.ended() == 13
    (line,) = [line for line in party.lines if line]
    assert "opentelemetry is not installed" in line
    assert "pip install 'fedkme[otel]'" in line


@pytest.mark.parametrize("address", ["8.8.8.8", "2001:4860:4860::8888", "::ffff:8.8.8.8"])
def test_a_collector_on_the_internet_is_refused(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: [(0, 0, 0, "", (address, 4317))])
    with pytest.raises(ConfigError, match="on the internet"):
        check_collector("http://collector.example:4317")


@pytest.mark.parametrize(
    "address", ["127.0.0.1", "10.1.2.3", "192.168.0.9", "::1", "fd00::7", "fe80::1%eth0"]
)
def test_a_collector_in_the_own_network_is_taken(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: [(0, 0, 0, "", (address, 4317))])
    check_collector("https://collector.internal:4317")


def test_a_name_that_nobody_knows_is_a_configuration_error(monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown(*_: object, **__: object) -> list[Any]:
        raise socket.gaierror(socket.EAI_NONAME, "unknown")

    monkeypatch.setattr(socket, "getaddrinfo", unknown)
    with pytest.raises(ConfigError, match="has no address"):
        check_collector("http://colector:4317")


@pytest.mark.parametrize(
    "url", ["collector:4317", "http://host", "http://host:4317/v1", "http://me:x@host:1"]
)
def test_a_malformed_url_is_refused(url: str) -> None:
    with pytest.raises(ConfigError, match="http://HOST:PORT"):
        validate(PartySettings, {"plaintext": True, "traces": url}, "owner.toml")


class Made(list[TraceSpan]):
    """Spans that a tracer made."""

    def one(self) -> TraceSpan:
        (span,) = self
        return span


def test_another_process_goes_on_with_the_trace_of_a_run() -> None:
    first, second, other = Made(), Made(), Made()
    for made, salt in ((first, b""), (second, b""), (other, b"simulation")):
        Tracer(made.append, salt).whole(5, Public(run="run-7-0a1b2c3d"))
    assert first.one().trace == second.one().trace != other.one().trace
    assert first.one().id == second.one().id


def test_an_answer_is_below_the_question_and_an_odd_name_of_a_run_has_no_span() -> None:
    made = Made()
    directive = Directive("run-1/keys", 3, 2, DrawRows(5))
    Tracer(made.append).asked(1, "north", directive, OwnerLostError.code)
    Tracer(made.append).answered(1, "north", directive, 0)
    ask, answer = made
    assert answer.parent == ask.id
    assert answer.trace == ask.trace
    code = OwnerLostError.code
    assert ask.public == {"run": "run-1", "round": 3, "owner": "north", "question": "draw", "code": code}
    for name in ("r" * 4000, "run\n1"):
        Tracer(made.append).answered(1, "north", Directive(name, 3, 2, DrawRows(5)), 0)
    assert len(made) == 2


def test_phases_wait_for_the_name_of_the_run_and_end_with_the_errors_code() -> None:
    made = Made()

    def fail() -> None:
        with Phases(Tracer(made.append)) as phases:
            for phase in ("join", "plan", "plan"):
                phases.begin(phase)
            assert not made
            phases.named("run-1")
            raise ConfigError("wrong", "Mend it.")

    with pytest.raises(ConfigError):
        fail()
    assert [(span.name, span.public) for span in made] == [
        ("join", {"run": "run-1"}),
        ("plan", {"run": "run-1", "code": ConfigError.code}),
    ]
    assert made[0].end <= made[1].begin


def test_another_key_is_refused(collector: Collector) -> None:
    public = cast(Public, {"run": "run-1", "bid": 0.25})
    with (
        exporting.collector(collector.address, "north", lambda *_, **__: None) as emit,
        pytest.raises(ValueError, match="bid"),
    ):
        emit(TraceSpan("round", 1, 1, None, 1, 2, public))
    assert not collector.spans


def test_stages_of_methods_are_known() -> None:
    text = "".join(path.read_text() for path in (ROOT / "curator/releases").rglob("*.py"))
    told = set(re.findall(r'(?:tell|report)\(\s*"(\w+)"', text))
    assert told
    assert told <= STAGES.keys()


def test_a_collector_that_never_answers_costs_one_warning_and_no_wait(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("OTEL_BSP_SCHEDULE_DELAY", "10")
    said, warned = list[str](), threading.Event()

    def say(event: str, **fields: Any) -> None:
        said.append(f"{event}: {fields['line']}")
        warned.set()

    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        settings = PartySettings(traces=url)
        with traced(settings, "north", say) as traces, traced(settings, "south", say) as others:
            traces.phase("join", 1, Public(owner="north"))
            assert warned.wait(WAIT_S)
            for _ in range(15_000):  # thirty batches of two seconds each
                others.phase("join", 1, Public(owner="south"))
            closing = time.monotonic()
    assert said == [f"warning: the collector at {url} takes no spans; they are lost until it does"]
    assert time.monotonic() - closing < 20.0  # the SDK alone waits 30 s
