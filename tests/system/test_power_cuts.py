"""Loss of power: what a journal forgets of a run is on the disk by then, in whole files (issue 17, A2)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from consumer.releases.client import Request
from fedkme.durable import create
from fedkme.privacy.settings import GaussianSettings
from fedkme.store.sqlite import SqliteStore
from tests.disks import Disk, watched
from tests.system.market import market
from tests.system.release_market import OWNERS, release_market

Lost = list[tuple[str, list[str]]]


def losing(monkeypatch: pytest.MonkeyPatch, disk: Disk, folder: Path) -> Lost:
    """Note what a loss of power would take whenever a store writes that a run, or a request, is over."""
    lost: Lost = []
    update = SqliteStore.update_run

    def updated(store: SqliteStore, run: str, **said: Any) -> None:
        if said.get("ended"):
            lost.append((run, [name for name in results_lost(disk, folder) if is_of(store, name)]))
        update(store, run, **said)

    monkeypatch.setattr(SqliteStore, "update_run", updated)
    return lost


def is_of(store: SqliteStore, name: str) -> bool:
    """Tell a party's own results: others, in threads of theirs, may be in the middle of writing."""
    return store._name == ("curator" if name.startswith("runs/") else "consumer")


def results_lost(disk: Disk, folder: Path) -> list[str]:
    return [name for name in disk.lost(folder) if not name.endswith("schema.toml")]  # a test wrote that


async def test_a_summary_is_on_the_disk_before_anybody_s_journal_forgets_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with watched(tmp_path) as disk:
        lost = losing(monkeypatch, disk, tmp_path)
        async with market(tmp_path, ["a"]) as at:
            at.owner("a")
            await at.consumer(target=GaussianSettings(epsilon=0.7), output=tmp_path / "new" / "folder")
        assert {"record.json", "rounds.csv", "summary.npz", "received.npz", "ledger.jsonl"} <= disk.written
        assert len(lost) == 4, "the run at the owner and at the curator; the request: received, then judged"
        assert not any(files for _, files in lost), lost
        assert not results_lost(disk, tmp_path / "runs"), "the ledger's file, as the curator stops"


async def test_a_release_is_on_the_disk_before_anybody_s_journal_forgets_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with watched(tmp_path) as disk:
        lost = losing(monkeypatch, disk, tmp_path)
        done = Request.done

        def forgotten(request: Request) -> None:
            lost.append(("consumer", results_lost(disk, tmp_path / "consumer")))
            done(request)

        monkeypatch.setattr(Request, "done", forgotten)
        async with release_market(tmp_path) as at:
            for name in OWNERS:
                at.owner(name, 150, simulation_seed=0)
            await at.asks()
        assert {"record.json", "release.npz", "weighted.npz"} <= disk.written
    assert {"run-1", "consumer"} <= {run for run, _ in lost}
    assert not any(files for _, files in lost), lost


def test_the_watched_disk_sees_what_is_not_synced(tmp_path: Path) -> None:
    # The oracle of this module finds each way to lose a file.
    for folder in ("longer", "moved", "plain", "whole"):
        (tmp_path / folder).mkdir()
    with watched(tmp_path) as disk:
        create(tmp_path / "whole" / "file", b"x")
        create(tmp_path / "longer" / "file", b"x")
        with (tmp_path / "longer" / "file").open("ab") as file:
            file.write(b"y")
        create(tmp_path / "moved" / "before", b"x")
        (tmp_path / "moved" / "before").rename(tmp_path / "moved" / "file")
        (tmp_path / "new").mkdir()
        create(tmp_path / "new" / "file", b"x")
        (tmp_path / "plain" / "file").write_text("x")
        assert disk.lost(tmp_path) == ["longer/file", "moved/file", "new/file", "plain/file"]
