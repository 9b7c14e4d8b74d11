"""Names of parties in settings, on the wire and in ledgers (issue 3, item 3: "per consumer")."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import subprocess
import sys
from pathlib import Path
from typing import Any

import grpc.aio
import pytest
import typer
from typer.testing import CliRunner

from consumer.settings import ConsumerSettings
from curator.consumers.summary_service import SummaryService
from curator.owners.owner_service import OwnerService
from curator.peers import NameRegister
from curator.settings import CuratorSettings
from fedkme.command_line import run_app
from fedkme.config import Settings, validate
from fedkme.errors import ConfigError, IdentityError, InterruptedRunError
from fedkme.ledgers.ledger_set import read_ledgers
from fedkme.ledgers.reconcile import verify
from fedkme.pki.authority import Authority
from fedkme.pki.certificates import LOOPBACK
from fedkme.privacy.accountants import TOGETHER, Sound, by_owner, cells_of, composed, with_coalition
from fedkme.privacy.events import validation_of
from fedkme.privacy.ledger import read_ledger
from fedkme.wire import codecs
from fedkme.wire.v1 import owners_pb2
from operate.audit_cli import app
from owner.settings import OwnerSettings
from tests.system.launches import launch, write_own_files
from tests.system.market import market, request

OWNER = {"curator": "-", "data": "x", "schema_file": "x"}
CONSUMER = {"curator": "-", "validation": "x", "schema_file": "x", "output": "x", "request": {"p": 1}}
CURATOR = {"directory": "x", "schema_file": "x"}


@pytest.mark.parametrize(
    ("model", "values"),
    [
        *((OwnerSettings, OWNER | {"name": name}) for name in ("owners", "curator", "consumer", "public")),
        *((OwnerSettings, OWNER | {"name": name}) for name in ("D_v", "-a", "A", "a b", "", "a" * 64)),
        *((ConsumerSettings, CONSUMER | {"name": name}) for name in ("owners", "curator")),
        *((CuratorSettings, CURATOR | {"name": name}) for name in ("owners", "consumer", "consumers")),
        (CuratorSettings, CURATOR | {"owners": ["a", "consumer"]}),
        (CuratorSettings, CURATOR | {"consumers": ["owners"]}),
        (CuratorSettings, CURATOR | {"owners": ["a", "b"], "consumers": ["b"]}),
    ],
)
def test_a_name_that_ledgers_use_is_refused_in_settings(model: type[Settings], values: Any) -> None:
    with pytest.raises(ConfigError) as caught:
        validate(model, values, "PARTY.toml")
    assert str(caught.value).isprintable()


def test_curator_and_consumer_are_called_so_by_default() -> None:
    assert validate(CuratorSettings, CURATOR, "x").name == "curator"
    assert validate(ConsumerSettings, CONSUMER, "x").name == "consumer"


def hello(name: str) -> owners_pb2.OwnerMessage:
    return owners_pb2.OwnerMessage(hello=owners_pb2.Hello(name=name, versions=codecs.VERSIONS))


async def fault_of(stream: Any, message: Any) -> Exception:
    await stream.write(message)
    return codecs.fault_from_wire((await stream.read()).fault)


def asked(name: str) -> Any:
    message = request()
    message.request.name = name
    return message


async def test_such_names_are_refused_at_the_door(tmp_path: Path) -> None:
    # A peer is not held to our settings: the curator refuses by itself, with a line.
    async with market(tmp_path) as at:
        for name in ("owners", "curator", "consumer", "D_v", "a/b", "x" * 1000, "a\n"):
            async with at.attend() as stream:
                fault = await fault_of(stream, hello(name))
            assert isinstance(fault, IdentityError), name
            assert "is called so" in str(fault) or "is no name" in str(fault)
        for name in ("owners", "curator", "D_v of consumer", ""):
            async with at.summarize() as stream:
                fault = await fault_of(stream, asked(name))
            assert isinstance(fault, IdentityError), name


async def test_an_owner_and_a_consumer_of_one_name(tmp_path: Path) -> None:
    # Whoever comes second is refused; with a list of owners that is the consumer.
    async with market(tmp_path) as at, at.attend() as owner:
        await owner.write(hello("a"))
        assert (await owner.read()).HasField("welcome")
        async with at.summarize() as stream:
            assert "is the name of an owner" in str(await fault_of(stream, asked("a")))
        async with at.summarize() as stream:
            await stream.write(asked("b"))
            yes = owners_pb2.Accepted(rows=20)
            await owner.write(owners_pb2.OwnerMessage(at=(await owner.read()).at, accepted=yes))
            assert (await stream.read()).HasField("plan")
        async with at.attend() as stream:
            assert "is the name of a consumer" in str(await fault_of(stream, hello("b")))
    (tmp_path / "listed").mkdir()
    async with market(tmp_path / "listed", ["a"], consumers=("b",)) as at, at.summarize() as stream:
        assert "not one of this curator's consumers" in str(await fault_of(stream, asked("c")))


def test_names_keep_what_they_took() -> None:
    names = NameRegister(["a"], ["x"])
    names.admit_owner("a")
    names.admit_consumer("x")
    for name in ("a", "x"):
        with pytest.raises(IdentityError):
            (names.admit_consumer if name == "a" else names.admit_owner)(name)


async def test_a_consumer_is_held_to_its_certificate(tmp_path: Path) -> None:
    # "With TLS it must be one of the certificate's names", as for owners.
    authority = Authority()
    authority.issue("curator", LOOPBACK).save(tmp_path / "identity")
    for name in ("a", "hospital-x"):
        authority.issue(name).save(tmp_path / name)
    async with market(tmp_path, ["a"], identity=tmp_path / "identity") as at:
        at.owner("a", identity=tmp_path / "a")
        with pytest.raises(IdentityError, match="says it is 'hospital-y' and its certificate does not"):
            await at.consumer(name="hospital-y", identity=tmp_path / "hospital-x")
        await at.consumer(name="hospital-x", identity=tmp_path / "hospital-x")
    ledger = tmp_path / "runs" / "ledger.jsonl"
    observers = {entry.disclosure.observer for entry in read_ledger(ledger)}
    assert observers == {"curator", "owners", "hospital-x"}


async def test_each_consumer_is_an_observer_and_has_its_own_validation_set(tmp_path: Path) -> None:
    # "For a run, for an owner's lifetime, per consumer." Two runs at one curator that is no simulation.
    async with market(tmp_path, ["a"], simulation_seed=None) as at:
        at.owner("a", 60)
        for name, p in (("hospital-x", 4), ("hospital-y", 6)):
            await at.consumer(p, name=name, output=tmp_path / name)
    curator = tmp_path / "runs"
    runs = sorted((path for path in curator.iterdir() if path.is_dir()), key=lambda run: run.name)
    parties = [tmp_path / "a.jsonl", *(tmp_path / f"{name}.jsonl" for name in ("hospital-x", "hospital-y"))]
    assert not [verdict for verdict in verify(curator, parties) if verdict.fault]
    for missing in parties[1:]:
        there = [party for party in parties if party != missing]
        assert [v.absent for v in verify(curator, there) if v.absent] == [missing.stem]
    books = read_ledgers([curator / "ledger.jsonl", *parties])
    cells = with_coalition(by_owner(cells_of(books.disclosures()), books.present))
    found = {(row.protected, row.observer): row for row in composed(cells, Sound(), 1e-5)}
    assert found["a", "hospital-x"].raw_rows == 4
    assert found["a", "hospital-y"].raw_rows == 6
    assert found["a", TOGETHER].raw_rows == 10
    for name in ("hospital-x", "hospital-y"):
        assert (validation_of(name), "curator") in found
        assert len({e.party for e in read_ledger(tmp_path / f"{name}.jsonl")} | {name}) == 1
    # the curator's copy of an entry is not another entry, whatever file it comes from
    alone = read_ledgers([tmp_path / "a.jsonl"])
    lifetime = {(r.protected, r.observer): r for r in composed(cells_of(alone.disclosures()), Sound(), 1e-5)}
    assert found["a", "curator"].raw_rows == lifetime["a", "curator"].raw_rows > 0
    first = books.of(runs[0].name)
    assert {about.observer for about in first.disclosures()} == {"curator", "owners", "hospital-x"}
    arguments = [str(path) for path in (curator / "ledger.jsonl", *parties)]
    done = CliRunner().invoke(app, ["ledger", *arguments])
    assert done.exit_code == 0
    assert all(name in done.stdout for name in ("hospital-x", "hospital-y", TOGETHER, "2 runs together"))
    assert max(map(len, done.stdout.splitlines())) <= 110  # of a console that is no terminal
    done = CliRunner().invoke(app, ["ledger", *arguments, "--run", runs[1].name])
    assert "hospital-y" in done.stdout
    assert "hospital-x" not in done.stdout
    assert isinstance(CliRunner().invoke(app, ["ledger", *arguments, "--run", "x"]).exception, ConfigError)


def test_simulated_runs_of_one_name_are_two_runs_and_one_folder_is_one(tmp_path: Path) -> None:
    # Simulations call every run run-1; a ledger beside its run's folder is the same run's.
    small = ("engine=inprocess", "scenario.owners=2")
    one, two = (launch(tmp_path / str(seed), *small, f"seed={seed}")[0] for seed in (1, 2))
    again = read_ledgers([one, one / "owners" / "owner-1.jsonl", one / "ledger.jsonl"])
    assert again.runs == ["run-1"]
    assert set(again.disclosures()) == set(read_ledgers([one]).disclosures())
    both = read_ledgers([one, two])
    assert both.runs == ["1/run-1", "2/run-1"]
    assert len(set(both.disclosures())) == sum(
        len(set(read_ledgers([path]).disclosures())) for path in (one, two)
    )
    assert both.present("owner-1", "1/run-1")
    assert not both.present("owner-3", "1/run-1")


def test_a_scenario_with_such_an_owner(tmp_path: Path) -> None:
    scenario = write_own_files(tmp_path / "files", {"north": 20, "consumer": 20})
    with pytest.raises(ConfigError, match="no owner is called so"):
        launch(tmp_path / "run", "engine=inprocess", scenario=str(scenario))
    assert not (tmp_path / "run").exists()


SECRET = "age 47 in row 12"


@pytest.mark.parametrize("service", ["Owners", "Summaries"])
async def test_an_unforeseen_failure_is_told_to_the_curator_s_log_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, service: str
) -> None:
    # gRPC would send the exception's text to the peer.
    async def fail(*_: object) -> None:
        raise ValueError(SECRET)

    monkeypatch.setattr(OwnerService, "_hello", fail)
    monkeypatch.setattr(SummaryService, "_requested_run", fail)
    with caplog.at_level(logging.ERROR):
        async with market(tmp_path) as at, at.attend() if service == "Owners" else at.summarize() as stream:
            with contextlib.suppress(
                grpc.aio.AioRpcError, asyncio.InvalidStateError
            ):  # the failure may be faster
                await stream.write(hello("a") if service == "Owners" else request())
            with pytest.raises(grpc.aio.AioRpcError) as caught:
                await stream.read()
            assert caught.value.code() is grpc.StatusCode.UNKNOWN
            assert SECRET not in f"{caught.value.details()} {caught.value.debug_error_string()}"
    (logged,) = [record for record in caplog.records if record.name == "curator"]
    assert logged.exc_info is not None
    assert str(logged.exc_info[1]) == SECRET


INTERRUPTED = """
import os, signal, sys
class Finder:
    def find_spec(self, name, path=None, target=None):
        if name == sys.argv[-1]:
            os.kill(os.getpid(), signal.SIGINT)
sys.meta_path.insert(0, Finder())
sys.argv = ["fedkme", "audit", "ledger", sys.argv[-1]]
from operate.cli import main
main()
"""


@pytest.mark.parametrize("module", ["typer", "operate.audit_cli", "numpy"])
def test_ctrl_c_while_python_imports(module: str) -> None:
    # docs/errors.md, 130: one line, and no traceback, from the first moment on.
    done = subprocess.run([sys.executable, "-c", INTERRUPTED, module], capture_output=True, text=True)
    assert done.returncode == InterruptedRunError.code
    *before, line = done.stderr.splitlines()
    assert line.startswith("error 130 (interrupted): ")
    assert before in ([], ["fedkme audit ledger begins"])


def test_ctrl_c_in_a_command(capsys: pytest.CaptureFixture[str]) -> None:
    verbs = typer.Typer()

    @verbs.command()
    def wait() -> None:
        raise KeyboardInterrupt

    with pytest.raises(SystemExit) as caught:
        run_app(verbs, "fedkme", [])
    assert caught.value.code == InterruptedRunError.code
    assert capsys.readouterr().err.startswith("error 130 (interrupted): ")
