"""Issue 2, "Bad input": a party that dies in round l; nothing is lost and nobody is left behind."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

import sim.engines.children
from fedkme.errors import OwnerLostError, PartyFailedError, QuorumError
from fedkme.tables.files import read_arrays
from sim.engines.children import Child
from tests.system.launches import KeptProgress, alive, launch, read_json, read_lines, rounds, rows_in

LONG = ("p=400", "scenario.owners=3")
"""A second or two after the first round, in which somebody dies."""


def test_a_killed_owner_leaves_and_the_run_goes_on(tmp_path: Path, parties: dict[str, Child]) -> None:
    # "An owner that dies in round l (the run continues without it and says so ...)."
    progress = KeptProgress(lambda: os.kill(parties["owner-3"].pid, signal.SIGKILL))
    directory, metrics = launch(tmp_path / "run", *LONG, progress=progress)
    assert metrics["status"] == "complete"
    assert metrics["rounds"] == 400
    (fault,) = metrics["faults"]
    assert (fault["owner"], fault["code"]) == ("owner-3", OwnerLostError.code)
    assert fault["round"] > 1
    assert fault["line"] in progress.notes
    assert len(fault["line"].splitlines()) == 1
    # what it sent before stays in the record, and its own ledger has all of it
    sent = {event["nonce"] for event in rows_in(directory / "owners" / "owner-3.jsonl", "owner-3")}
    seen = rows_in(directory / "ledger.jsonl", "owner-3")
    assert {event["nonce"] for event in seen} <= sent
    assert "owner-3" not in read_json(directory / "record.json")["closings"]
    after = [row for row in rounds(directory) if int(row["round"]) > fault["round"]]
    assert {row["owners"] for row in after} == {"2"}
    assert not any(alive(child.pid) for child in parties.values())


def test_below_the_quorum_the_run_stops_and_keeps_what_it_has(
    tmp_path: Path, parties: dict[str, Child]
) -> None:
    # "With fewer than a configured quorum it stops, keeping what it has."
    progress = KeptProgress(lambda: os.kill(parties["owner-2"].pid, signal.SIGKILL))
    directory, metrics = launch(tmp_path / "run", *LONG, "quorum=3", progress=progress)
    assert metrics["status"] == "stopped"
    assert metrics["reason"].startswith(f"error {QuorumError.code} (quorum)")
    assert metrics["code"] == QuorumError.code
    assert 0 < metrics["rounds"] < 400
    assert len(read_arrays(directory / "summary.npz", "test")["x"]) == metrics["rounds"]
    # the consumer got them too
    assert len(read_arrays(directory / "consumer" / "summary.npz", "test")["x"]) == metrics["rounds"]
    assert (directory / "report.html").is_file()
    assert read_json(directory / "metrics.json") == metrics


def test_a_killed_consumer_is_named_and_the_run_is_kept(tmp_path: Path, parties: dict[str, Child]) -> None:
    progress = KeptProgress(lambda: os.kill(parties["consumer"].pid, signal.SIGKILL))
    with pytest.raises(PartyFailedError, match=r"\(party failed\): consumer was killed by SIGKILL") as caught:
        launch(tmp_path / "run", *LONG, progress=progress)
    assert len(str(caught.value).splitlines()) == 1
    metrics = read_json(tmp_path / "run" / "metrics.json")
    assert metrics["status"] == "interrupted"
    assert 0 < metrics["rounds"] < 400
    assert len(read_arrays(tmp_path / "run" / "summary.npz", "test")["x"]) == metrics["rounds"]
    assert (tmp_path / "run" / "report.html").is_file()
    assert not any(alive(child.pid) for child in parties.values())


def test_a_killed_curator_is_named(tmp_path: Path, parties: dict[str, Child]) -> None:
    # The consumer and the owners fail as well, with broken connections: the cause is who died first. The
    # curator's record is gone with it; the owners' ledgers and the log stay.
    progress = KeptProgress(lambda: os.kill(parties["curator"].pid, signal.SIGKILL))
    with pytest.raises(PartyFailedError, match=r"\(party failed\): curator was killed by SIGKILL"):
        launch(tmp_path / "run", *LONG, progress=progress)
    assert any(path.stat().st_size for path in (tmp_path / "run" / "owners").iterdir())
    events = [event["event"] for event in read_lines(tmp_path / "run" / "log.jsonl")]
    assert "round" in events
    assert not any(alive(child.pid) for child in parties.values())


def test_a_hung_owner_is_given_up_and_ended(
    tmp_path: Path, parties: dict[str, Child], monkeypatch: pytest.MonkeyPatch
) -> None:
    # `progress_s`: how long one answer of an owner may take. A stopped process cannot end by itself.
    monkeypatch.setattr(sim.engines.children, "GRACE_S", 1.0)
    progress = KeptProgress(lambda: os.kill(parties["owner-1"].pid, signal.SIGSTOP))
    _, metrics = launch(tmp_path / "run", *LONG, "progress_s=5", progress=progress)
    assert metrics["status"] == "complete"
    (fault,) = metrics["faults"]
    assert (fault["owner"], fault["code"]) == ("owner-1", OwnerLostError.code)
    assert "no answer within 5 s" in fault["line"]
    assert fault["line"] in progress.notes
    assert not any(alive(child.pid) for child in parties.values())
