"""Issue 17, A8: lines and documents in archives are there for who asks, and for nobody else to lose."""

from __future__ import annotations

import shutil
import sqlite3
from pathlib import Path

import pytest

from fedkme.errors import ArchiveError, StoreError
from fedkme.store.base import Store
from fedkme.store.sqlite import SqliteStore
from tests.disks import watched
from tests.fedkme.store.places import Place


class Ticking:
    """A clock that is a second later each time."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        self.now += 1.0
        return self.now


def filled(place: Place, runs: int = 6) -> Store:
    """A store of runs that are over, with two lines each."""
    store = place.store(clock=Ticking())
    for number in range(runs):
        store.open_run(f"r{number}", "peer", b"document %d" % number)
        store.extend_ledger([f"line {number}", f"line {number} again"])
        store.update_run(f"r{number}", status="over", ended=True)
    return store


def archive(store: Store, last: int, *runs: str) -> None:
    new = store.pack(last, f"mark {last}", 0.0, runs)
    store.archive(new, dict.fromkeys(runs, b"short"), {"kept": b"%d" % last, "gone": None})


def test_archived_lines_and_documents_are_read_like_others(lasting: Place) -> None:
    store = filled(lasting)
    store.put("gone", b"")
    before, times = store.ledger(), [line.written for line in store.ledger()]
    archive(store, 4, "r0", "r1")
    archive(store, 7, "r3")
    archive(store, 7, "r2")  # of no line
    for _ in range(2):
        assert [store.ledger(after) for after in (0, 3, 4, 6, 7, 11, 12)] == [
            before[after:] for after in (0, 3, 4, 6, 7, 11, 12)
        ]
        assert [line.written for line in store.ledger()] == times
        assert [store.document(f"r{number}") for number in range(6)] == [
            b"document %d" % number for number in range(6)
        ]
        assert [row.document for row in store.runs()] == [b"short"] * 4 + [b"document 4", b"document 5"]
        assert (store.document("r9"), store.finished(), store.lost_archives(read=True)) == (
            None,
            ["r4", "r5"],
            [],
        )
        assert (store.get("kept"), store.get("gone"), store.last_ledger_line()) == (
            b"7",
            None,
            "line 5 again",
        )
        assert [each.last for each in store.archives()] == [4, 7, 7]
        store.close()
        store = lasting.store()
    store.extend_ledger(["next"])
    assert store.ledger()[-1].seq == 13
    store.close()


def test_lines_that_are_in_no_archive_are_not_deleted(lasting: Place) -> None:
    store = filled(lasting)
    archive(store, 4, "r0")
    delete = "DELETE FROM ledger WHERE seq = 5"
    with pytest.raises(StoreError, match="append-only"):
        store._execute(delete)  # type: ignore[attr-defined]
    store.close()


def test_archiving_shrinks_the_file_of_the_journal(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "store.db", "curator", clock=Ticking())
    for number in range(30):
        store.open_run(f"r{number}", "peer", bytes([number]) * 800_000)
        store.extend_ledger([f"line {number}"])
        store.update_run(f"r{number}", ended=True)
    before = (tmp_path / "store.db").stat().st_size
    archive(store, 28, *(f"r{number}" for number in range(28)))
    assert (tmp_path / "store.db").stat().st_size < before / 10
    assert bytes([3]) * 1000 not in b"".join(
        file.read_bytes() for file in tmp_path.glob("store.db*") if file.is_file()
    )
    assert store.document("r3") == bytes([3]) * 800_000
    store.close()


def test_a_missing_or_changed_archive_is_error_63_and_the_rest_of_the_store_works(tmp_path: Path) -> None:
    place = Place("sqlite", str(tmp_path / "store.db"))
    store = filled(place)
    archive(store, 4, "r0", "r1")
    archive(store, 8, "r2", "r3")
    first, second = sorted((tmp_path / "store.db.archive").iterdir())
    assert first.stat().st_mode & 0o077 == first.parent.stat().st_mode & 0o077 == 0
    content = second.read_bytes()
    second.write_bytes(content[:-9] + bytes([content[-9] ^ 1]) + content[-8:])
    first.unlink()
    assert [(error.code, error.cause.partition(" ")[0]) for error in store.lost_archives(read=True)] == [
        (63, first.name),
        (63, second.name),
    ]
    assert len(store.lost_archives()) == 1  # what a start looks at
    for lost in (
        store.ledger,
        lambda: store.ledger(5),
        lambda: store.document("r0"),
        lambda: store.document("r2"),
    ):
        with pytest.raises(ArchiveError):
            lost()
    assert len(store.ledger(8)) == 4
    store.extend_ledger(["next"])
    archive(store, 10, "r4")
    second.write_bytes(content)
    assert len(store.ledger(4)) == 9
    store.close()


def test_a_journal_restored_from_a_backup_reads_its_archives(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    store = filled(Place("sqlite", str(path)))
    whole = store.ledger()
    archive(store, 4, "r0", "r1")
    with sqlite3.connect(path) as old, sqlite3.connect(tmp_path / "backup.db") as copy:
        old.backup(copy)
    archive(store, 8, "r2", "r3")
    store.close()
    shutil.move(tmp_path / "backup.db", path)
    store = SqliteStore(path, "curator")
    assert (store.ledger(), len(store.archives())) == (whole, 1)
    archive(store, 6, "r2")  # another one than that which the lost journal named; that stays as evidence
    assert store.ledger() == whole
    assert len(list((tmp_path / "store.db.archive").iterdir())) == 3
    store.close()


def test_an_archive_is_on_the_disk_before_the_journal_deletes_its_lines(tmp_path: Path) -> None:
    with watched(tmp_path) as disk:
        store = filled(Place("sqlite", str(tmp_path / "store.db")))
        new = store.pack(4, "mark", 0.0, ["r0"])
        assert new.file is not None
        assert new.file.name in {name.lstrip(".")[: len(new.file.name)] for name in disk.written}
        assert disk.lost(new.file.parent) == []
        store.close()


def test_a_full_disk_archives_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = filled(Place("sqlite", str(tmp_path / "store.db")))
    before = store.ledger()

    def full(*arguments: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr("fedkme.store.sqlite.replace", full)
        with pytest.raises(StoreError, match="nothing was archived, and the party goes on"):
            archive(store, 4, "r0")
    assert (store.ledger(), store.archives(), store.document("r0")) == (before, [], b"document 0")
    archive(store, 4, "r0")
    assert store.ledger() == before
    store.close()


def test_a_transaction_that_fails_leaves_everything_in_place(tmp_path: Path) -> None:
    store = filled(Place("sqlite", str(tmp_path / "store.db")))
    before = store.ledger()
    new = store.pack(4, "mark", 0.0, ["r0"])
    with pytest.raises(ValueError, match="not printable"):
        store.archive(new, {"r0": b"short"}, {"a\0b": b""})
    assert (store.ledger(), store.archives(), store.document("r0")) == (before, [], b"document 0")
    store.close()
