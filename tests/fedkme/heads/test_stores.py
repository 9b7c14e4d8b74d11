"""Issue 17, item A6: a store that is not what its party had is found when it is opened."""

from __future__ import annotations

import contextlib
import sqlite3
from pathlib import Path

import pytest

from fedkme.errors import LedgerError
from fedkme.heads.log import Head, HeadLog
from fedkme.pki.certificates import Role
from fedkme.privacy.events import CURATOR, Disclosure, RawRows
from fedkme.privacy.ledger import stored_ledger
from fedkme.store import open_store
from fedkme.store.memory import MemoryStore

LINES = 12


def written(path: Path) -> None:
    """Write a ledger with one head over all of it."""
    with contextlib.closing(open_store(path, "a", "process")) as store:
        ledger = stored_ledger("a", store)
        for number in range(LINES):
            about = Disclosure("run-1", 1, "a", CURATOR, RawRows(1), "replace-one", None, str(number))
            ledger.extend([about])
        HeadLog(Role.OWNER, "a", ledger, store).advance()


def opened(path: Path) -> None:
    """Open it as its party does."""
    with contextlib.closing(open_store(path, "a", "process")) as store:
        HeadLog(Role.OWNER, "a", stored_ledger("a", store), store).check()


@pytest.mark.parametrize("seq", range(1, LINES + 1))
def test_a_flipped_byte_in_any_line_is_found(tmp_path: Path, seq: int) -> None:
    # "The chain is followed at start (57 of 60 single flipped bytes were accepted)."
    written(tmp_path / "a.db")
    opened(tmp_path / "a.db")
    with contextlib.closing(open_store(tmp_path / "a.db", "a", "process")) as store:
        line = store.ledger()[seq - 1].line.encode("ascii")
    file = (tmp_path / "a.db").read_bytes()
    assert file.count(line) == 1
    place = file.index(line) + 17 * seq % len(line)
    (tmp_path / "a.db").write_bytes(file[:place] + bytes([file[place] ^ 1]) + file[place + 1 :])
    with pytest.raises(LedgerError, match=r"was changed|does not end"):
        opened(tmp_path / "a.db")


def test_a_ledger_that_was_cut_since_its_head_is_found(tmp_path: Path) -> None:
    written(tmp_path / "a.db")
    with contextlib.closing(sqlite3.connect(tmp_path / "a.db")) as file, file:
        for (trigger,) in file.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'").fetchall():
            file.execute(f"DROP TRIGGER {trigger}")
        file.execute("DELETE FROM ledger WHERE seq = ?", (LINES,))
    with pytest.raises(LedgerError, match="does not match its last head"):
        opened(tmp_path / "a.db")


def log(role: Role, name: str) -> HeadLog:
    store = MemoryStore(name)
    return HeadLog(role, name, stored_ledger(name, store), store)


def test_a_joining_party_is_checked_against_its_earlier_heads(monkeypatch: pytest.MonkeyPatch) -> None:
    curator, owner, another = log(Role.CURATOR, CURATOR), log(Role.OWNER, "a"), log(Role.OWNER, "a")
    curator.recall(Head(""), owner.origin)  # nobody was here before
    for _ in range(3):
        before = owner.last() or Head("")
        owner.advance()
        curator.keep(owner.show(curator.known(owner.origin), curator.origin), owner.origin)
        with pytest.raises(LedgerError, match="its journal is gone, older"):
            curator.recall(before, owner.origin)
        last = owner.last()
        assert last is not None
        with monkeypatch.context() as patch:  # 250,000 leaves took 1.3 s of the curator's loop, at each call
            patch.setattr("fedkme.heads.log.root_of", None)
            curator.recall(last, owner.origin)
        another.advance()
    last = another.last()
    assert last is not None
    with pytest.raises(LedgerError, match="with 3 of its ledger's heads and showed 3, or others"):
        curator.recall(last, owner.origin)
    owner.advance()  # shown to another curator
    last = owner.last()
    assert last is not None
    curator.recall(last, owner.origin)
