"""Curators that word names and reasons as they like: no log, terminal or store of others suffers."""

from __future__ import annotations

import contextlib
import io
import json
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import grpc.aio
import pytest
from rich.console import Console

from consumer.releases.client import release_settings_of, run
from consumer.runs import cancelling, listing
from fedkme.errors import FedkmeError, PolicyError, ProtocolError
from fedkme.ledgers.departures import MOST, departures_in
from fedkme.ops.logs import Log, text_of
from fedkme.wire import codecs
from fedkme.wire.v1 import owners_pb2 as pb
from fedkme.wire.v1 import releases_pb2, releases_pb2_grpc, summaries_pb2, summaries_pb2_grpc, types_pb2
from owner.consent.status import read_status, show
from owner.runs import MOST_REFUSED
from tests.hostile.fuzz import fault_of
from tests.hostile.numbers import worded
from tests.hostile.test_curators import invite
from tests.owner.consent.host import NAME, Host, host
from tests.parties import caller_values
from tests.system.market import SCHEMA, Ear


@pytest.fixture
def at(tmp_path: Path) -> Iterator[Host]:
    with host(tmp_path) as opened:
        yield opened


@pytest.mark.parametrize("run", ["", "\0", "a\nb", "\u202e", "x" * 129, "x" * 2**20])
def test_names_that_no_run_has(at: Host, run: str) -> None:
    # They would go to stores, logs and ledgers.
    sent_directive = invite()
    sent_directive.at.run = run
    fault = fault_of(at.wired.answer(sent_directive))
    assert isinstance(fault, ProtocolError)
    assert len(fault.cause) < 300
    at.wired.answer(pb.Directive(at=pb.Position(run=run), dismiss=pb.Dismiss()))
    at.wired.welcome([run])
    assert at.store.runs() == []


ODD_REASONS = {
    "lines": {"cause": "late\nnorth: joined curator=evil:1", "remedy": "a\r\nb"},
    "terminal": {"cause": "\x1b[2J\x1b]0;owned\x07late\x9b31m", "remedy": "\u202eevil\u2028x"},
    "markup": {"cause": "[red]late[/red] [link=http://evil]x[/link]", "remedy": "<script>alert(1)</script>"},
    "long": {"cause": "x" * 2**20, "remedy": "y" * 2**20},
    "unknown": {"code": 2**31, "cause": "late", "remedy": ""},
}


@pytest.mark.parametrize("words", ODD_REASONS.values(), ids=ODD_REASONS)
def test_reasons_that_are_no_line_of_a_log_or_terminal(
    at: Host, capsys: pytest.CaptureFixture[str], words: dict[str, Any]
) -> None:
    # A curator says why a run went on without this owner: in its log, and on its operator's terminal.
    at.forget("run-1", **{"code": 23, **words})
    ((run, reason),) = at.left_out
    assert run == "run-1"
    assert max(len(reason.cause), len(reason.remedy)) <= 500
    Log(NAME).write("left_out", {"run": run, "cause": reason.cause, "remedy": reason.remedy})
    Log(NAME, "json").write("left_out", {"run": run, "cause": reason.cause, "remedy": reason.remedy})
    status, screen = read_status(at.settings, at.store), io.StringIO()
    show(status, Console(file=screen, width=100, force_terminal=True, color_system=None))
    plain, coded, *rest = capsys.readouterr().err.splitlines()
    assert not rest
    (shown,) = (line for line in screen.getvalue().split("\n") if "run-1" in line)
    for line in (plain, coded, shown):
        assert line.isprintable()
    assert f"{reason.cause}. {reason.remedy}".rstrip() in shown
    assert json.loads(coded)["cause"] == status.left_out[0].reason.cause == reason.cause


def test_reasons_without_end(at: Host) -> None:
    # The last are kept, each is said once, and one about a run that never was opens none.
    for number in range(3 * MOST):
        for _ in range(2):
            at.forget(f"run-{number}", code=23, cause="late", remedy="r")
    assert [run for run, _ in at.left_out] == [f"run-{number}" for number in range(3 * MOST)]
    assert [each.run for each in departures_in(at.store, NAME)] == [
        f"run-{number}" for number in range(2 * MOST, 3 * MOST)
    ]
    assert at.store.runs() == []


def test_runs_without_end(tmp_path: Path) -> None:
    # As many as the policy says are open, and as many that were refused are remembered; each other is refused
    # without a line in the store.
    with host(tmp_path, runs_at_once=2, consumers=["hospital"]) as at:
        faults = [at.prepare(f"run-{number}") for number in range(100)]
        assert [fault is None for fault in faults] == [True] * 2 + [False] * 98
        faults = [at.prepare(f"more-{number}", consumer="x") for number in range(3 * MOST_REFUSED)]
        assert all(isinstance(fault, PolicyError) for fault in faults)
        assert len(at.store.runs()) <= 2 + MOST_REFUSED
        assert len(at.wired._handlers) == 2
        at.wired.welcome(["run-0"])
        assert at.prepare("after") is None


class Wordy(summaries_pb2_grpc.SummariesServicer, releases_pb2_grpc.ReleasesServicer):
    """Curator that answers each call as it was told."""

    answer: Any

    async def ListRuns(self, request: Any, context: Any) -> Any:  # noqa: N802  # gRPC's name
        return self.answer

    CancelRun = ListRuns

    async def Release(self, request: Any, context: Any) -> AsyncIterator[Any]:  # noqa: N802  # gRPC's name
        for message in self.answer:
            yield message


STATE = summaries_pb2.RunState(run="run-1", status="queued", rows=3, opened=1e9, kind="summary")
RUNS = summaries_pb2.RunList(runs=[STATE])
RELEASE = (
    releases_pb2.ReleaseMessage(plan=releases_pb2.ReleasePlan(version=codecs.VERSIONS.newest, run="run-1")),
    releases_pb2.ReleaseMessage(progress=releases_pb2.ReleaseProgress(stage="training", line="step 1")),
    releases_pb2.ReleaseMessage(fault=types_pb2.Fault(code=21, cause="two owners are left", remedy="Wait.")),
)


async def test_what_a_consumer_prints_of_a_curator_s_words_is_lines(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    # `fedkme consumer runs` wrote a curator's bytes to the terminal; `cancel` ended with a traceback where
    # no run or two came back.
    (tmp_path / "schema.toml").write_text(SCHEMA.to_toml(), encoding="utf-8")
    server, wordy, ear = grpc.aio.server(), Wordy(), Ear()
    summaries_pb2_grpc.add_SummariesServicer_to_server(wordy, server)
    releases_pb2_grpc.add_ReleasesServicer_to_server(wordy, server)
    address = f"127.0.0.1:{server.add_insecure_port('127.0.0.1:0')}"
    await server.start()
    values = caller_values(tmp_path, address, release={"kind": "moments"})
    settings = release_settings_of(values, tmp_path / "release.toml")
    odd = [mutant for _, mutant in worded(RUNS)]
    calls: list[tuple[Any, Any]] = [(listing(False), each) for each in odd]
    several = [summaries_pb2.RunList(runs=[STATE] * count) for count in (0, 2)]
    calls += [(cancelling("run-1"), each) for each in (*odd, *several)]
    for place, message in enumerate(RELEASE):
        calls += [(run, [*RELEASE[:place], mutant, *RELEASE[place + 1 :]]) for _, mutant in worded(message)]
    for work, wordy.answer in calls:
        with contextlib.suppress(FedkmeError):
            await work(settings, ear)
    await server.stop(None)
    printed = capsys.readouterr().out.split("\n")
    said = [text_of(value) for _, fields in ear.said for value in fields.values()]
    assert len(printed) > len(odd)
    assert len(said) > len(calls)
    for line in (*printed, *said):
        assert line.isprintable()
        assert len(line) < 2000
