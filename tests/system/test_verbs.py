"""DESIGN, command line: the verbs of the roles on their own, from files that a person wrote."""

from __future__ import annotations

import re
import signal
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fedkme.errors import ConnectionFailedError, InterruptedRunError
from fedkme.ledgers.reconcile import verify
from fedkme.pki.authority import Authority
from fedkme.pki.certificates import LOOPBACK
from fedkme.tables.files import read_arrays
from tests.parties import HERE, Values, consumer_values, curator_values, owner_values, write_config
from tests.system.launches import Process, Start, end_of, line_with, read_json, rows_in, write_own_files
from tests.system.market import write_ledger


def only_run(folder: Path) -> Path:
    """The folder of a deployment's only run, whose name nobody else's run has."""
    (run,) = (path for path in (folder / "runs").iterdir() if path.is_dir())
    assert re.fullmatch(r"run-1-[0-9a-f]{8}", run.name)
    return run


class Deployment:
    """A folder with a configuration for each party, and the processes started from it."""

    def __init__(
        self,
        begin: Start,
        folder: Path,
        sizes: Mapping[str, int],
        *,
        tls: bool,
        settings: str,
        own: Mapping[str, Values] | None = None,
    ) -> None:
        """Start everybody but the consumer; `own` has further settings of some owners."""
        self.folder = folder
        self._begin = begin
        self.processes: dict[str, Process] = {}
        self._tls = tls
        write_own_files(folder, sizes)
        authority = Authority()
        for party in ("curator", "consumer", *sizes) if tls else ():
            authority.issue(party, LOOPBACK).save(folder / "identities" / party)
        config = curator_values(HERE, owners=[*sizes], **self._own("curator"))
        self._start("curator", "curator", "serve", config, settings)
        line = line_with(self.processes["curator"], "curator: listening address=")
        self.address = line.strip().partition("address=")[2]
        self._changes = own or {}
        for name in sizes:
            self.join(name)

    def join(self, name: str) -> Process:
        """Let an owner join."""
        changes = {"connect_s": 60, "away_s": 5, **self._own(name), **self._changes.get(name, {})}
        return self._start(name, "owner", "join", owner_values(HERE, name, self.address, **changes))

    def _own(self, party: str) -> dict[str, Any]:
        return {"identity": f"identities/{party}"} if self._tls else {}

    def consume(self, p: int, mechanism: str = "mwem") -> Process:
        """Ask for a summary."""
        request = {"p": p, "preset": "published", "target": {"mechanism": mechanism}}
        own = {"test": "test.csv", "output": "out", "connect_s": 60, "away_s": 5, **self._own("consumer")}
        config = consumer_values(HERE, self.address, request=request, **own)
        return self._start("consumer", "consumer", "summary", config)

    def _start(self, party: str, module: str, verb: str, config: Values, settings: str = "") -> Process:
        write_config(self.folder / f"{party}.toml", config, settings)
        # paths in it are relative to the file, wherever the process was started
        process = self._begin(module, verb, self.folder / f"{party}.toml")
        self.processes[party] = process
        return process

    def end(self, party: str) -> tuple[int, list[str]]:
        """Exit status and the lines of standard error, without gRPC's own."""
        status, out, lines = end_of(self.processes[party])
        assert not out or party == "consumer"  # which says where the rows are
        return status, [line for line in lines if not re.match(r"[IWE]\d{4} ", line)]


def test_a_deployment(begin: Start, tmp_path: Path) -> None:
    # No launcher and no seed: noise and coins of the operating system (DESIGN, decision 5). `runs = 1`: the
    # curator ends after the run, and with it everybody.
    at = Deployment(begin, tmp_path / "site", {"north": 40, "south": 30}, tls=True, settings="runs = 1\n")
    at.consume(p=12)
    for party in at.processes:
        status, lines = at.end(party)
        assert status == 0, lines
        assert all(line.startswith(f"{party}: ") for line in lines)
    folder = at.folder
    written = [path for name in ("runs", "out") for path in (folder / name).rglob("*") if path.is_file()]
    assert {path.name for path in written} >= {
        "summary.npz",
        "record.json",
        "ledger.jsonl",
        "evaluation.json",
    }
    assert not [path for path in (*written, *folder.glob("*.db")) if path.stat().st_mode & 0o077]
    assert len(read_arrays(folder / "out" / "summary.npz", "test")["x"]) == 12
    assert "mmd2" in read_json(folder / "out" / "evaluation.json")
    record = read_json(only_run(folder) / "record.json")
    assert record["status"] == "complete"
    assert record["closings"] == record["accessed"]
    ledger = folder / "runs" / "ledger.jsonl"
    for name in ("north", "south"):
        write_ledger(folder / f"{name}.db")
        assert rows_in(folder / f"{name}.jsonl", name) == rows_in(ledger, name)
    elsewhere = [folder / "north.jsonl", folder / "south.jsonl", folder / "consumer.db"]
    verdicts = verify(folder / "runs", elsewhere)
    assert len(verdicts) == 7
    assert not [verdict for verdict in verdicts if verdict.fault]


def test_a_curator_that_is_told_to_stop(begin: Start, tmp_path: Path) -> None:
    # A server told to stop has done its duty: status 0 and a line; the run in progress is recorded as
    # interrupted. Before that, an owner hangs, is given up, and comes back too late for this run. Parties
    # without a curator wait for it as long as `away_s` says.
    sizes = {"north": 90, "south": 4000}
    # A round a row.
    settings = 'progress_s = 5\ndrain_s = 0\nsummary = { protocol = "algorithm3", quorum = 1 }\n'
    at = Deployment(begin, tmp_path / "site", sizes, tls=False, settings=settings)
    consumer = at.consume(p=4000, mechanism="exact")
    line_with(consumer, "consumer: progress")
    at.processes["north"].send_signal(signal.SIGSTOP)
    left = line_with(at.processes["curator"], "curator: owner_left")
    assert "north, round " in left
    assert "no answer within 5 s" in left
    at.processes["north"].send_signal(signal.SIGCONT)
    line_with(at.processes["north"], "north: back")
    at.processes["curator"].send_signal(signal.SIGTERM)
    status, lines = at.end("curator")
    assert status == 0
    assert "curator: stopped" in lines  # streams of owners may end after it
    for party in ("north", "south", "consumer"):
        status, lines = at.end(party)
        assert status == ConnectionFailedError.code
        assert lines[-1].startswith("error 34 (connection): ")
        assert "within 60 s" not in lines[-1]  # `connect_s` is for a first connection
        assert not [line for line in lines if "Traceback" in line]
    record = read_json(only_run(at.folder) / "record.json")
    assert record["status"] == "interrupted"
    assert record["rounds"] > 0
    assert len(read_arrays(only_run(at.folder) / "summary.npz", "t")["x"]) == record["rounds"]
    assert [fault["owner"] for fault in record["faults"]] == ["north"]


def test_idle_parties_that_are_told_to_stop(begin: Start, tmp_path: Path) -> None:
    # SIGTERM is how a service ends: status 0 and a line. Ctrl-C: one line and no traceback.
    at = Deployment(begin, tmp_path / "site", {"north": 9, "south": 9}, tls=False, settings="")
    line_with(at.processes["north"], "north: joined")
    line_with(at.processes["south"], "south: joined")
    at.processes["north"].send_signal(signal.SIGTERM)
    at.processes["south"].send_signal(signal.SIGINT)
    assert at.end("north") == (0, ["north: stopped"])
    status, lines = at.end("south")
    assert status == InterruptedRunError.code
    assert len(lines) == 1
    assert lines[0].startswith("error 130 (interrupted): ")
    at.processes["curator"].send_signal(signal.SIGINT)
    status, lines = at.end("curator")
    assert status == InterruptedRunError.code
    assert "curator: stopped" in lines
    assert lines[-1].startswith("error 130 (interrupted): ")
    assert not [line for line in lines if "Traceback" in line]
