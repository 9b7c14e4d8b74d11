"""Folder of a run: what a finished engine leaves in it."""

from __future__ import annotations

import contextlib
import shutil
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from fedkme.errors import ConfigError
from fedkme.store import open_store
from sim.engines.run_folder import adopt, make_run_directory, remove_repeated


def test_ledgers_of_journals_stay_and_nothing_else_of_them(tmp_path: Path) -> None:
    # Owner a was killed: what its journal has not yet is in the log beside it. So was c, as it began one.
    owners, killed = tmp_path / "owners", tmp_path / "killed"
    owners.mkdir()
    with contextlib.closing(open_store(owners / "a.db", "a", "process")) as store:
        store.extend_ledger(["line of a"])
        shutil.copytree(owners, killed)
    shutil.rmtree(owners)
    killed.rename(owners)
    assert {file.name for file in owners.iterdir()} == {"a.db", "a.db-wal", "a.db-shm", "a.db.lock"}
    with contextlib.closing(open_store(owners / "b.db", "b", "process")) as store:
        store.extend_ledger(["line of b"])
    (owners / "c.db").touch()
    adopt(tmp_path)
    assert {file.name: file.read_text() for file in owners.iterdir()} == {
        "a.jsonl": "line of a\n",
        "b.jsonl": "line of b\n",
        "c.jsonl": "",
    }


def test_no_two_files_say_the_same(tmp_path: Path) -> None:
    for name in ("consumer", "stderr"):
        (tmp_path / name).mkdir()
    received, summary = tmp_path / "consumer" / "received.npz", tmp_path / "summary.npz"
    chosen, silent, loud = (
        tmp_path / name for name in ("consumer/summary.npz", "stderr/north.txt", "stderr/south.txt")
    )
    for file, text in (
        (received, "80 rows"),
        (summary, "80 rows"),
        (chosen, "40 rows"),
        (silent, ""),
        (loud, "x"),
    ):
        file.write_text(text)
    remove_repeated(tmp_path)
    assert {path for path in tmp_path.rglob("*") if path.is_file()} == {summary, chosen, loud}
    loud.write_text("")
    received.write_text("79 rows: those of sealed boxes, which the curator cannot open")
    remove_repeated(tmp_path)
    assert received.exists()
    assert not loud.parent.exists()


@pytest.mark.parametrize("out", [None, "same"])
def test_runs_that_begin_at_once_never_share_a_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, out: str | None
) -> None:
    # Two notebooks, or a command typed twice: the second run waited for the first one's lock, then wrote its
    # files over the first one's, and both said that they had made them.
    monkeypatch.chdir(tmp_path)
    runs, together = 8, threading.Barrier(8)

    def begin(until: contextlib.ExitStack) -> Path | None:
        together.wait()
        with contextlib.suppress(ConfigError):
            return make_run_directory(Path(out) if out else None, "study", until)
        return None

    with contextlib.ExitStack() as until, ThreadPoolExecutor(runs) as pool:
        folders = [*pool.map(begin, [until] * runs)]
    taken = [folder for folder in folders if folder is not None]
    assert len({*taken}) == len(taken) == (1 if out else runs)
    assert [*tmp_path.glob("**/.unfinished*")] == [*tmp_path.glob("**/.unfinished")]
