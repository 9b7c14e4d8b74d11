"""SQLite's own: the file, its rights, its disk, backups and what is forgotten."""

from __future__ import annotations

import _sqlite3
import contextlib
import ctypes
import errno
import os
import sqlite3
import stat
import threading
from pathlib import Path

import pytest

from fedkme.errors import StoreError
from fedkme.store.reading import party_of
from fedkme.store.sqlite import Durability, SqliteStore
from tests.parties import WAIT_S

SECRET = b"planted noise draw " * 500


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "store.db"


def bytes_on_disk(path: Path) -> bytes:
    return b"".join(file.read_bytes() for file in path.parent.glob(f"{path.name}*"))


@pytest.mark.parametrize("inside", [False, True])
def test_forgotten_entries_are_in_no_byte_of_the_file(path: Path, inside: bool) -> None:
    store = SqliteStore(path, "owner-1")
    store.open_run("run", "peer", b"")
    store.append("run", "draw", SECRET)
    assert SECRET[:19] in bytes_on_disk(path)
    if inside:
        with store.transaction():
            store.forget_entries("run")
            store.update_run("run", ended=True)
    else:
        store.forget_entries("run")
    assert SECRET[:19] not in bytes_on_disk(path)
    store.close()
    assert SECRET[:19] not in bytes_on_disk(path)


def test_a_full_disk_loses_nothing_and_the_store_works_again_afterwards(path: Path) -> None:
    store = SqliteStore(path, "owner-1")
    store.open_run("run", "peer", b"")
    store.append("run", "kind", b"before")
    (pages,) = store._connection.execute("PRAGMA page_count").fetchone()
    store._connection.execute(f"PRAGMA max_page_count = {pages + 2}")

    def fill() -> None:
        with store.transaction():
            store.extend_ledger(["line"])
            store.append("run", "kind", 4 * SECRET)

    def fill_and_look_away() -> None:
        with store.transaction():
            store.extend_ledger(["line"])
            with pytest.raises(StoreError):
                store.append("run", "kind", 4 * SECRET)

    with pytest.raises(StoreError, match="the disk is full"):
        fill()
    with pytest.raises(StoreError, match="an earlier statement of this transaction"):
        fill_and_look_away()
    with pytest.raises(StoreError, match="the disk is full"):
        store.put("key", 4 * SECRET)
    with pytest.raises(StoreError, match="the disk is full"):
        store.extend_ledger(["many lines outside a transaction are one of their own"] * 1000)
    assert store.ledger() == []
    assert store.append("run", "kind", b"small") == 2
    store._connection.execute("PRAGMA max_page_count = 100000")
    fill()
    store.close()
    store = SqliteStore(path, "owner-1")
    assert [entry.body for entry in store.entries("run")] == [b"before", b"small", 4 * SECRET]
    store.close()


@pytest.mark.parametrize(("durability", "level"), [("power", 2), ("process", 1)])
def test_commits_wait_for_the_disk_with_durability_power(
    path: Path, durability: Durability, level: int
) -> None:
    # sqlite.org/pragma.html: FULL (2) syncs the write-ahead log at every commit, NORMAL (1) does not.
    store = SqliteStore(path, "owner-1", durability)
    assert store._execute("PRAGMA synchronous") == [(level,)]
    assert store._execute("PRAGMA journal_mode") == [("wal",)]
    store.close()


def test_the_ledger_is_append_only_for_other_tools_too(path: Path) -> None:
    store = SqliteStore(path, "owner-1")
    store.extend_ledger(["one", "two"])
    store.close()
    raw = sqlite3.connect(path, isolation_level=None)
    for statement in (
        "UPDATE ledger SET line = 'other'",
        "DELETE FROM ledger WHERE seq = 2",
        "INSERT OR REPLACE INTO ledger SELECT party, 2, 'other', 0 FROM ledger",
        "INSERT INTO ledger SELECT party, 9, 'after a gap', 0 FROM ledger",
    ):
        with pytest.raises(sqlite3.IntegrityError, match="append-only"):
            raw.execute(statement)
    raw.close()
    store = SqliteStore(path, "owner-1")
    assert [line.line for line in store.ledger()] == ["one", "two"]
    store.close()


def test_a_store_refuses_another_party(path: Path) -> None:
    SqliteStore(path, "owner-1").close()
    with pytest.raises(StoreError, match="belongs to owner-1, not to owner-2"):
        SqliteStore(path, "owner-2")


def test_files_of_a_store_are_readable_by_their_user_alone(path: Path) -> None:
    path.touch(0o644)
    store = SqliteStore(path, "owner-1")
    store.put("key", b"")
    modes = {file.name: stat.S_IMODE(file.stat().st_mode) for file in path.parent.iterdir()}
    names = ("store.db", "store.db-shm", "store.db-wal", "store.db.lock")
    assert modes == dict.fromkeys(names, 0o600)
    store.close()


def back_up(path: Path, copy: Path) -> None:
    """Copy a store as docs/deploy.md says."""
    with (
        contextlib.closing(sqlite3.connect(path)) as store,
        contextlib.closing(sqlite3.connect(copy)) as there,
    ):
        store.backup(there)


def test_a_backup_of_a_store_in_use_is_one_consistent_state(path: Path) -> None:
    store = SqliteStore(path, "owner-1", "process")
    store.open_run("run", "peer", b"")
    stop, copies = threading.Event(), [path.with_name(f"backup-{n}.db") for n in range(5)]

    def write() -> None:
        while not stop.is_set():
            with store.transaction():
                store.extend_ledger(["line"])
                store.append("run", "kind", SECRET)

    thread = threading.Thread(target=write)
    thread.start()
    try:
        for copy in copies:
            back_up(path, copy)
    finally:
        stop.set()
        thread.join(WAIT_S)
    with store.transaction():  # also from inside: what is committed, not what is being written
        store.put("key", b"")
        back_up(path, path.with_name("inside.db"))
    written = len(store.ledger())
    store.close()
    for copy in [*copies, path.with_name("inside.db")]:
        restored = SqliteStore(copy, "owner-1")
        assert len(restored.ledger()) == len(restored.entries("run")) <= written
        assert restored.keys() == []
        restored.close()


def test_a_file_that_is_no_store_is_refused_and_not_changed(path: Path) -> None:
    path.write_bytes(b"no database, but a letter\n" * 400)
    with pytest.raises(StoreError, match="damaged, or no store"):
        SqliteStore(path, "owner-1")
    assert path.read_bytes() == b"no database, but a letter\n" * 400
    path.unlink()
    other = sqlite3.connect(path)
    other.execute("CREATE TABLE patients (name TEXT)")
    other.close()
    before = path.read_bytes()
    with pytest.raises(StoreError, match="a database of something else"):
        SqliteStore(path, "owner-1")
    assert path.read_bytes() == before


def test_a_damaged_store_is_refused(path: Path) -> None:
    store = SqliteStore(path, "owner-1")
    store.open_run("run", "peer", b"")
    for _ in range(50):
        store.append("run", "kind", SECRET)
    store.close()
    data = bytearray(path.read_bytes())
    data[4096 * 3 : 4096 * 20] = b"\xa5" * (4096 * 17)
    path.write_bytes(data)
    with pytest.raises(StoreError, match="damaged"):
        SqliteStore(path, "owner-1")


def test_a_store_with_a_flipped_byte_is_refused_in_one_line_or_read(path: Path) -> None:
    # By bits flipped in 1,500 copies of a store: 36 ended with a traceback, where SQLite's own words quoted
    # what was no text any more.
    with contextlib.closing(SqliteStore(path, "owner-1")) as store:
        store.open_run("run", "peer", b"")
    whole, refused = path.read_bytes(), 0
    for place in range(0, 2 * 4096, 29):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 0x80]) + whole[place + 1 :])
        for read in (lambda: SqliteStore(path, "owner-1").close(), lambda: party_of(path)):
            try:
                read()
            except StoreError:
                refused += 1
        for other in path.parent.glob("store.db-*"):
            other.unlink()
    assert refused > 20


def test_a_path_that_cannot_be_opened_is_named(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match=r"no-folder/store\.db cannot be opened: No such file"):
        SqliteStore(tmp_path / "no-folder" / "store.db", "owner-1")
    with pytest.raises(StoreError, match="cannot be opened: Is a directory"):
        SqliteStore(tmp_path, "owner-1")


def test_a_start_on_a_full_disk_says_so(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # An operator was told to correct the path, or the rights of its folder.
    def full(*_: object) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "pwrite", full)
    with pytest.raises(StoreError, match=r"No space left on device\. Make room\."):
        SqliteStore(path, "owner-1")


def test_the_error_blames_another_tool_that_writes_into_the_file(path: Path) -> None:
    store = SqliteStore(path, "owner-1")
    tool = sqlite3.connect(path, isolation_level=None)
    tool.execute("BEGIN IMMEDIATE")
    with pytest.raises(StoreError, match="being written by a process that is no party"):
        store.put("key", b"")
    tool.close()
    store.put("key", b"")
    store.close()


def test_stores_unused_for_longest_free_their_pages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # 10,000 owners of a process, each with a store.
    monkeypatch.setattr("fedkme.store.sqlite._WARM", 1)
    monkeypatch.setattr("fedkme.store.sqlite._stores", {})
    cold, other = (SqliteStore(tmp_path / name, name) for name in ("cold", "other"))
    cold.put("key", 20 * SECRET)
    assert cold.get("key") == 20 * SECRET
    before = _bytes_of_sqlite()
    other.put("key", b"")
    assert _bytes_of_sqlite() < before - 50_000
    with cold.transaction():
        cold.put("more", SECRET)
        other.put("key", SECRET)  # pages that are being written stay
    assert (cold.get("key"), cold.get("more")) == (20 * SECRET, SECRET)


def test_an_idle_reopened_store_uses_little_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # A check of all databases opened one of temporary tables, which kept 20 pages for good.
    monkeypatch.setattr("fedkme.store.sqlite._WARM", 1)
    monkeypatch.setattr("fedkme.store.sqlite._stores", {})
    with contextlib.closing(SqliteStore(tmp_path / "cold", "cold")) as new:
        new.open_run("run", "peer", b"")
    before = _bytes_of_sqlite()
    with contextlib.closing(SqliteStore(tmp_path / "other", "other")) as other:
        other.put("key", b"")
        others = _bytes_of_sqlite() - before
        with contextlib.closing(SqliteStore(tmp_path / "cold", "cold")) as cold:
            for number in range(3):
                with cold.transaction():
                    cold.append("run", "kind", b"entry")
                    cold.extend_ledger([f"line {number}"])
                cold.put(f"key {number}", b"")
                assert cold.entries("run")
                assert cold.runs()
            other.put("key", SECRET)
            assert _bytes_of_sqlite() < before + others + 70_000


def _bytes_of_sqlite() -> int:
    used = ctypes.CDLL(_sqlite3.__file__).sqlite3_memory_used
    used.restype = ctypes.c_int64
    return int(used())
