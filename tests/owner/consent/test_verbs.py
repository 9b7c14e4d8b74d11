"""`fedkme owner status`, `ledger` and `approve`, while the owner's process has its store open."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from fedkme.errors import ConfigError, LedgerError, StoreError
from fedkme.privacy.accountants import Sound
from fedkme.privacy.events import ExactStatistic
from fedkme.privacy.ledger import read_ledger
from fedkme.store import Store
from fedkme.store.reading import read_store
from operate.audit_cli import app as audit_app
from owner.cli import app
from owner.consent.status import read_status
from tests.owner.consent.host import CHEAP, NAME, SCHEMA, Clockwork, configured, host
from tests.parties import write_config

BUDGET = {"observer": "owners", "epsilon": 2.0, "delta": 1e-5, "days": 365}


def configure(folder: Path, **policy: Any) -> Path:
    """Write OWNER.toml of the host in a folder."""
    (folder / "schema.toml").write_text(SCHEMA.to_toml(), encoding="utf-8")
    return write_config(folder / "OWNER.toml", configured(folder, **policy).model_dump(mode="json"))


def call(*arguments: object) -> str:
    """Run a verb; its errors are raised."""
    result = CliRunner().invoke(app, [str(word) for word in arguments])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    assert result.exit_code == 0, result.output
    return result.output


def test_status_lists_sent_rows_recipients_and_remaining_limits(tmp_path: Path) -> None:
    policy: dict[str, Any] = {"budgets": [BUDGET], "most_rows": 10, "runs_at_once": 3}
    config = configure(tmp_path, **policy)
    with host(tmp_path, **policy) as at:
        at.prepare("r-1")
        at.sell("r-1", 3, 2)
        at.end("r-1")
        at.prepare("r-2", consumer="clinic")
        at.bid("r-2")
        at.prepare("r-3", planned=9 * CHEAP)
        status = json.loads(call("status", config, "--json"))
        text = call("status", config)
    runs = {run["run"]: run for run in status["runs"]}
    assert {name: (run["status"], run["rows"], run["consumer"]) for name, run in runs.items()} == {
        "r-1": ("ended", 3, "hospital"),
        "r-2": ("open", 0, "clinic"),
        "r-3": ("refused", 0, ""),
    }
    one, two = (Sound().epsilon(count * CHEAP, 1e-5).epsilon for count in (1, 2))
    assert runs["r-1"]["cost"]["epsilon"] == runs["r-2"]["cost"]["epsilon"] == one
    assert runs["r-3"]["cost"]["epsilon"] == 0
    limits = {limit["limit"]: (limit["used"], limit["most"], limit["left"]) for limit in status["limits"]}
    assert limits["rows offered in all"] == (10, 10, 0)
    assert limits["rows in one run"] == (3, None, None)
    assert limits["runs at once"] == (2, 3, 1)  # a refused run counts until the curator ends it
    # This host's clock is far in the past: r-2 is open and counts in the window, r-1 only in all.
    assert limits["epsilon to others in 365 days, delta 1e-05"] == (one, 2, 2 - one)
    assert limits["epsilon to others in all, delta 1e-05"] == (two, None, None)
    assert all(len(line) <= 100 for line in text.splitlines())
    for words in (
        "owner-1, ",
        "3 rows left in all",
        "curator:7700",
        "hospital",
        "clinic",
        "refused",
        "0.985",
    ):
        assert words in text


def test_periods_of_status_are_those_of_the_policy(tmp_path: Path) -> None:
    clock = Clockwork()
    with host(tmp_path, clock, budgets=[BUDGET]) as at:
        at.prepare("r-1")
        at.bid("r-1")
        at.end("r-1")
        for days, spends in ((0, True), (364, True), (2, False)):
            clock.pass_days(days)
            status = read_status(at.settings, at.store, clock.now)
            assert (status.spent[0].figure.epsilon > 0) is spends
            assert status.spent[1].days is None
            assert status.spent[1].figure.epsilon > 0


def test_status_prints_the_reason_of_an_infinite_epsilon(tmp_path: Path) -> None:
    config = configure(tmp_path)
    with host(tmp_path) as at:
        at.prepare("r-1", protocol="winner-only", planned=(ExactStatistic("who won"),))
        text = call("status", config)
        status = json.loads(call("status", config, "--json"))
    assert "no finite epsilon: " in text
    assert status["runs"][0]["cost"]["epsilon"] == status["epsilon"][0]["epsilon"] == "inf"


def test_status_lists_a_run_until_it_is_approved(tmp_path: Path) -> None:
    config = configure(tmp_path, approval="manual")
    with host(tmp_path, approval="manual") as at:
        at.prepare("r-1")
        (request,) = json.loads(call("status", config, "--json"))["asked"]
        assert (request["run"], request["consumer"], request["rows"]) == ("r-1", "hospital", 100)
        assert request["command"].replace("OWNER.toml", str(config)) in call("status", config)
        output = call("approve", config, "--consumer", "hospital", "--protocol", "clock", "--rows", 100)
        assert "runs of at most 100 rows for hospital by clock: 1" in output
        status = json.loads(call("status", config, "--json"))
        assert status["asked"] == []
        assert [approval["runs_left"] for approval in status["approvals"]] == [1]
        assert "approved, and not used up" in call("status", config)
        at.prepare("r-2")
        status = json.loads(call("status", config, "--json"))
        assert (status["asked"], status["approvals"]) == ([], [])


def test_approve_refuses_impossible_runs(tmp_path: Path) -> None:
    config = configure(tmp_path, approval="manual")
    hospital = ("--consumer", "hospital", "--rows", 3)
    with pytest.raises(ConfigError, match="did you mean 'clock'"):
        call("approve", config, *hospital, "--protocol", "clok")
    with pytest.raises(ConfigError, match="stands for something else"):
        call("approve", config, "--consumer", "owners", "--rows", 3, "--protocol", "clock")
    with pytest.raises(ConfigError, match="no row leaves in a release"):
        call("approve", config, *hospital, "--protocol", "merf")
    with pytest.raises(ConfigError, match="a summary has rows"):
        call("approve", config, "--consumer", "hospital", "--protocol", "clock")
    assert not (tmp_path / "approvals").exists()
    output = call("approve", config, "--consumer", "hospital", "--protocol", "merf")
    assert "takes part in releases for hospital by merf: 1" in output
    config = configure(tmp_path)
    with pytest.raises(ConfigError, match=r"OWNER\.toml asks for no approval"):
        call("approve", config, *hospital, "--protocol", "clock")


def test_the_ledger_goes_to_a_file_that_audit_reads(tmp_path: Path) -> None:
    config = configure(tmp_path)
    out = tmp_path / "owner-1.jsonl"
    with host(tmp_path) as at:
        at.prepare("r-1", protocol="uniform", planned=())
        at.draw("r-1", 3, 2)
        assert "3 lines of the ledger of owner-1" in call("ledger", config, "--out", out)
        assert [entry.party for entry in read_ledger(out)] == 3 * [NAME]
        at.draw("r-1", 2, 3)
        call("ledger", config, "--out", out)  # again, over an earlier one
        assert len(read_ledger(out)) == 5
    audited = CliRunner().invoke(audit_app, ["ledger", str(out)])
    assert audited.exit_code == 0
    assert "owner-1" in audited.output
    assert "inf" in audited.output


def test_an_export_replaces_only_an_earlier_export_of_the_same_ledger(tmp_path: Path) -> None:
    config = configure(tmp_path)
    out = tmp_path / "owner-1.jsonl"
    with host(tmp_path) as at:
        at.prepare("r-1", protocol="uniform", planned=())
        at.draw("r-1", 3, 2)
        with pytest.raises(ConfigError, match="is no ledger"):
            call("ledger", config, "--out", config)
        call("ledger", config, "--out", out)
        changed = out.read_bytes().replace(b"row 0", b"row 9")
        out.write_bytes(changed)
        with pytest.raises(LedgerError, match="does not continue the export"):
            call("ledger", config, "--out", out)
        assert out.read_bytes() == changed


def test_reading_changes_nothing(tmp_path: Path) -> None:
    with host(tmp_path) as at:
        at.prepare("r-1")
        with read_only(tmp_path) as reader:
            assert [row.run for row in reader.runs()] == ["r-1"]
            with pytest.raises(StoreError, match="readonly"):
                reader.put("k", b"v")
            with pytest.raises(StoreError, match="readonly"):
                reader.forget_entries("r-1")
        at.bid("r-1")  # and the process goes on
        assert at.lines == 1
    with read_only(tmp_path) as reader:  # also when the process does not run
        assert len(reader.ledger()) == 1
    with host(tmp_path) as at:
        assert at.lines == 1


def read_only(folder: Path) -> contextlib.closing[Store]:
    return contextlib.closing(read_store(str(folder / "journal.db"), NAME))


def test_one_reading_is_one_state_of_the_store(tmp_path: Path) -> None:
    with host(tmp_path) as at, read_only(tmp_path) as reader:
        at.prepare("r-1")
        with reader.transaction():
            assert reader.ledger() == []
            at.bid("r-1")
            assert reader.ledger() == []
        assert len(reader.ledger()) == 1


def test_a_missing_store_or_one_of_another_party_is_an_error(tmp_path: Path) -> None:
    config = configure(tmp_path)
    with pytest.raises(StoreError, match="is not there"):
        call("status", config)
    assert not (tmp_path / "journal.db").exists()
    with host(tmp_path), pytest.raises(StoreError, match="belongs to owner-1, not to owner-2"):
        read_store(str(tmp_path / "journal.db"), "owner-2")
    (tmp_path / "empty.db").touch()
    with pytest.raises(StoreError, match="earlier release"):
        read_store(tmp_path / "empty.db", NAME)
    with pytest.raises(ConfigError, match="kind that does not exist"):
        read_store("mysql://x/y", NAME)
