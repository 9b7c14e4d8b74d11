"""Manual approval: given while the owner's process runs, and used once per run."""

from __future__ import annotations

import os
import shlex
from pathlib import Path

import pytest
from typer.testing import CliRunner

from fedkme.errors import ApprovalError, ConfigError, FedkmeError, PolicyError, StoreError
from fedkme.privacy.events import PureDp
from fedkme.protocol import IntendedSummary
from owner.cli import app
from owner.consent.approvals import MOST_ASKED, approve, asked_in, left_in, uses
from owner.consent.history import History
from tests.owner.consent.host import Clockwork, Host, host
from tests.owner.consent.test_verbs import configure
from tests.owner.sums.owner_parties import Asker


def grant(at: Host, rows: int = 100, runs: int = 1, consumer: str = "hospital") -> None:
    approve(at.settings.approvals, consumer, "clock", rows, runs)


def test_the_refusal_names_the_command_that_approves(tmp_path: Path) -> None:
    # The printed command approves the run when it asks again; the owner's process has the store open all the
    # time.
    config = configure(tmp_path, approval="manual")
    with host(tmp_path, approval="manual") as at:
        refused = at.prepare("r-1")
        assert isinstance(refused, ApprovalError)
        at.end("r-1")
        command = refused.remedy.split("'")[1]
        assert command.startswith("fedkme owner approve OWNER.toml")
        arguments = [str(config) if word == "OWNER.toml" else word for word in shlex.split(command)[2:]]
        assert CliRunner().invoke(app, arguments).exit_code == 0
        assert at.prepare("r-2") is None
        assert type(at.prepare("r-3")) is ApprovalError


def test_an_approval_is_for_its_consumer_protocol_and_rows(tmp_path: Path) -> None:
    with host(tmp_path, approval="manual", runs_at_once=9) as at:
        grant(at, rows=50)
        assert type(at.prepare("r-1", rows=51)) is ApprovalError
        assert type(at.prepare("r-2", rows=50, consumer="clinic")) is ApprovalError
        assert type(at.prepare("r-3", rows=50, protocol="uniform", planned=())) is ApprovalError
        assert at.prepare("r-4", rows=50) is None


def test_an_approval_for_several_runs_lets_in_so_many(tmp_path: Path) -> None:
    with host(tmp_path, approval="manual", runs_at_once=9) as at:
        grant(at, runs=2)
        assert at.prepare("r-1") is None
    with host(tmp_path, approval="manual", runs_at_once=9) as at:
        assert at.prepare("r-2") is None
        assert type(at.prepare("r-3")) is ApprovalError
        assert list(at.settings.approvals.iterdir()) == []


def test_a_repeated_run_is_let_in_once_it_is_approved_and_there_is_room(tmp_path: Path) -> None:
    with host(tmp_path, approval="manual", runs_at_once=1) as at:
        for _ in range(3):
            assert type(at.prepare("r-1")) is ApprovalError
        grant(at)
        assert at.prepare("r-2") is None
        grant(at)
        assert "as many as it takes part in at once" in str(at.prepare("r-1"))
        at.end("r-2")
    with host(tmp_path, approval="manual", runs_at_once=1) as at:
        grant(at)
        assert at.prepare("r-3") is None  # a waiting run takes no place of `runs_at_once`
        at.end("r-3")
        assert at.prepare("r-1") is None
        assert at.prepare("r-1") is None  # the same answer
        assert at.bid("r-1").HasField("counts")


COUNTS = (PureDp(0.5, 2),)


@pytest.mark.parametrize(
    ("protocol", "ahead"),
    [
        ("merf", IntendedSummary("cells", 50, COUNTS)),  # an approval of a summary approves no release
        ("sketch", IntendedSummary("clock", 50, COUNTS)),
        ("sketch", IntendedSummary("cells", 0, COUNTS)),
        ("sketch", IntendedSummary("nothing", 50, COUNTS)),
    ],
)
def test_sums_before_any_other_summary_than_cells_are_refused(
    tmp_path: Path, protocol: str, ahead: IntendedSummary
) -> None:
    with host(tmp_path, approval="manual", sums="exact") as at:
        for name in ("cells", "clock"):
            approve(at.settings.approvals, "hospital", name, 50, 1)
        assert type(Asker(at).enlist(protocol=protocol, ahead=ahead)) is PolicyError
        assert [uses(at.store, approval) for approval, _ in left_in(at.settings.approvals, at.store)] == [
            0,
            0,
        ]


def test_a_sketch_is_approved_for_the_protocol_of_its_summary(tmp_path: Path) -> None:
    # A curator that was approved for sealed rows gets no raw rows.
    ahead = IntendedSummary("cells-sealed", 50, COUNTS)
    with host(tmp_path, approval="manual", sums="exact", runs_at_once=9) as at:
        refused = Asker(at, "r-1/cells").enlist(protocol="sketch", ahead=ahead)
        assert isinstance(refused, ApprovalError)
        assert "--protocol cells-sealed --rows 50" in refused.remedy
        approve(at.settings.approvals, "hospital", "cells-sealed", 60, 1)
        assert Asker(at, "r-2/cells").enlist(protocol="sketch", ahead=ahead) is None
    with host(tmp_path, approval="manual", sums="exact", runs_at_once=9) as at:
        history = History(at.settings.name, at.store)
        history.read()
        before = history.admitted["r-2/cells"]
        assert (before.ahead, before.rows) == ("cells-sealed", 60)


def test_a_run_that_the_policy_forbids_uses_up_no_approval(tmp_path: Path) -> None:
    with host(tmp_path, approval="manual", consumers=["clinic"], runs_at_once=9) as at:
        grant(at)
        grant(at, consumer="clinic")
        assert type(at.prepare("r-1")) is PolicyError
        assert [runs_left for _, runs_left in left_in(at.settings.approvals, at.store)] == [1, 1]
        assert at.prepare("r-2", consumer="clinic") is None


class Killed(BaseException):
    """Stands for the death of the process."""


@pytest.mark.parametrize("where", ["before the commit", "after the commit", "before the answer is kept"])
def test_an_approval_is_used_once_whenever_the_process_is_killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    def die(*_: object) -> None:
        raise Killed

    with host(tmp_path, approval="manual", runs_at_once=9) as at:
        grant(at)
        approval = left_in(at.settings.approvals, at.store)[0][0]
        with monkeypatch.context() as patch:
            if where == "before the commit":
                patch.setattr("owner.consent.approvals.Asked.forget", die)
            elif where == "after the commit":
                patch.setattr("owner.consent.policy.tidy", die)
            else:
                patch.setattr(at.wired.manager, "_keep", die)
            with pytest.raises(Killed):
                at.prepare("r-1")
    with host(tmp_path, approval="manual", runs_at_once=9) as at:
        assert uses(at.store, approval) == (where != "before the commit")
        assert type(at.prepare("r-2")) is (ApprovalError if where != "before the commit" else type(None))
        at.end("r-2")
    with host(tmp_path, approval="manual", runs_at_once=9) as at:
        # The run that was let in needs no second approval when the curator asks again; another one does.
        again = at.prepare("r-1")
        assert type(again) is (type(None) if where != "before the commit" else ApprovalError)
        assert uses(at.store, approval) == 1
        assert type(at.prepare("r-3")) is ApprovalError


def test_a_restored_file_of_a_used_approval_approves_nothing(tmp_path: Path) -> None:
    # The file came from a backup, or could not be removed.
    with host(tmp_path, approval="manual") as at:
        grant(at)
        (file,) = at.settings.approvals.iterdir()
        content = file.read_bytes()
        assert at.prepare("r-1") is None
        assert not file.exists()
        file.write_bytes(content)
        assert type(at.prepare("r-2")) is ApprovalError


def test_an_approval_is_taken_back_by_removing_its_file(tmp_path: Path) -> None:
    with host(tmp_path, approval="manual") as at:
        grant(at)
        (file,) = at.settings.approvals.iterdir()
        file.unlink()
        assert type(at.prepare("r-1")) is ApprovalError


@pytest.mark.parametrize("text", [b"", b"{}", b"\xff", b'{"id":"a","consumer":"c","rows":1}'])
def test_a_file_that_is_no_approval_stops_runs_with_a_line(tmp_path: Path, text: bytes) -> None:
    with host(tmp_path, approval="manual") as at:
        grant(at)
        (at.settings.approvals / "zzz.json").write_bytes(text)
        error = at.prepare("r-1")
        assert isinstance(error, ConfigError)
        assert "zzz.json" in error.cause
        assert str(tmp_path) not in str(error)  # the curator reads this
        assert at.loaded == []


def test_approvals_are_the_owners_alone_to_read_and_write(tmp_path: Path) -> None:
    with host(tmp_path, approval="manual") as at:
        grant(at)
        (file,) = at.settings.approvals.iterdir()
        assert file.stat().st_mode & 0o777 == 0o600
        assert at.settings.approvals.stat().st_mode & 0o777 == 0o700


def test_requests_are_remembered_up_to_a_number(tmp_path: Path) -> None:
    # A curator that names ever new consumers cannot fill the disk.
    clock = Clockwork()
    with host(tmp_path, clock, approval="manual") as at:
        for number in range(MOST_ASKED + 3):
            clock.now += 1
            refuse(at, f"r-{number}", consumer=f"c-{number}")
        consumers = {request.consumer for request in asked_in(at.store)}
        assert consumers == {f"c-{number}" for number in range(3, MOST_ASKED + 3)}
        refuse(
            at, "r-again", consumer="c-20", rows=7
        )  # the last request of a consumer and protocol replaces earlier ones
        assert [consumers.rows for consumers in asked_in(at.store) if consumers.consumer == "c-20"] == [7]
        assert len(asked_in(at.store)) == MOST_ASKED


def refuse(at: Host, run: str, **changes: object) -> FedkmeError | None:
    error = at.prepare(run, **changes)
    assert type(error) is ApprovalError
    at.end(run)
    return error


def test_nothing_half_written_is_read_as_an_approval(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    with host(tmp_path, approval="manual") as at:
        with monkeypatch.context() as patch:
            patch.setattr(os, "fsync", full)
            with pytest.raises(StoreError, match="No space left"):
                grant(at)
        assert left_in(at.settings.approvals, at.store) == []
        assert type(at.prepare("r-1")) is ApprovalError
