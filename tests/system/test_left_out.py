"""Owners that a run went on without hear why, over real processes (issue 36, item 6)."""

from __future__ import annotations

import json
import re
import signal
from pathlib import Path
from typing import Any

from typer.testing import CliRunner

from fedkme.errors import MissingOwnersError, OwnerLostError, PolicyError, SchemaError
from owner.cli import app
from tests.parties import MIXED
from tests.system.launches import Process, Start, end_of, line_with
from tests.system.test_verbs import Deployment, only_run

SIZES = {"east": 300, "north": 90, "south": 40, "west": 40}


def status_of(folder: Path, owner: str) -> list[dict[str, Any]]:
    """Runs that went on without an owner, by `fedkme owner status --json`."""
    result = CliRunner().invoke(app, ["status", str(folder / f"{owner}.toml"), "--json"])
    assert result.exit_code == 0, result.output
    left_out: list[dict[str, Any]] = json.loads(result.output)["left_out"]
    return left_out


def reason_in(process: Process, run: str) -> tuple[int, str]:
    """Code and words with which an owner's log says that a run went on without it."""
    line = line_with(process, ": left_out ")
    match = re.search(rf"left_out run={run} round=0 code=(\d+) cause=(.*)$", line.strip())
    assert match, line
    return int(match[1]), match[2]


def test_each_owner_that_a_run_went_on_without_hears_why(begin: Start, tmp_path: Path) -> None:
    # south's schema differs in a bound, west refuses the consumer, north does not answer in time. Their logs
    # ended with an error, with "refused", and with "joined"; none said that a run went on without it.
    settings = 'progress_s = 5\nconnect_s = 60\nsummary = { protocol = "algorithm3", quorum = 1 }\n'
    own: dict[str, dict[str, Any]] = {
        "south": {"schema_file": "other.toml"},
        "west": {"policy": {"consumers": ["hospital"]}},
    }
    folder = tmp_path / "site"
    folder.mkdir()
    (folder / "other.toml").write_text(MIXED.replace("120", "121"), encoding="utf-8")
    at = Deployment(begin, folder, SIZES, tls=False, settings=settings, own=own)
    parties = at.processes
    status, _, lines = end_of(parties["south"])
    assert (status, f"error {SchemaError.code} " in lines[-1]) == (SchemaError.code, True)
    consumer = at.consume(p=250, mechanism="exact")
    line_with(consumer, "consumer: progress")
    parties["north"].send_signal(signal.SIGSTOP)
    ended = line_with(parties["curator"], "curator: ended")
    assert "status=complete" in ended
    run = only_run(folder).name
    assert reason_in(parties["west"], run)[0] == PolicyError.code
    parties["north"].send_signal(signal.SIGCONT)  # it was away when the run ended
    code, words = reason_in(parties["north"], run)
    assert code == OwnerLostError.code
    assert "no answer within 5 s" in words
    own["south"] = {}
    at.join("south")  # with the curator's schema
    code, words = reason_in(parties["south"], run)
    assert code == SchemaError.code
    assert "different public schemas" in words
    for owner, expected in (("north", OwnerLostError), ("south", SchemaError), ("west", PolicyError)):
        (entry,) = status_of(folder, owner)
        assert (entry["run"], entry["code"]) == (run, expected.code)
        text = CliRunner().invoke(app, ["status", str(folder / f"{owner}.toml")]).output
        assert f"{run}: error {expected.code} ({expected.title}): {entry['cause']}" in text
    assert not status_of(folder, "east")


def test_an_owner_that_froze_before_the_run_hears_that_it_gave_no_answer(
    begin: Start, tmp_path: Path
) -> None:
    # "north has not joined", although it had: its host hung when it was asked whether it would take part.
    settings = 'progress_s = 3\nconnect_s = 3\nsummary = { protocol = "algorithm3", quorum = 1 }\n'
    folder = tmp_path / "site"
    folder.mkdir()
    at = Deployment(begin, folder, SIZES, tls=False, settings=settings)
    line_with(at.processes["north"], "north: joined")
    at.processes["north"].send_signal(signal.SIGSTOP)
    at.consume(p=50)
    assert "status=complete" in line_with(at.processes["curator"], "curator: ended")
    at.processes["north"].send_signal(signal.SIGCONT)
    code, words = reason_in(at.processes["north"], only_run(folder).name)
    assert code in (OwnerLostError.code, MissingOwnersError.code)
    assert "no answer within 3 s" in words
