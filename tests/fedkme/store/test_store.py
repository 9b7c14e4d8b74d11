"""Contract of all stores: "one small interface with one test suite that every backend passes"."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from fedkme.errors import ConfigError, MissingDependencyError, StoreError
from fedkme.store.base import JournalEntry, RunRow, Store
from fedkme.store.opening import open_store
from tests.fedkme.store.places import Place
from tests.parties import WAIT_S

EVERY_BYTE = bytes(range(256)) * 40


class Clock:
    def __init__(self) -> None:
        self.now = 1000.5

    def __call__(self) -> float:
        return self.now


def contents(store: Store) -> object:
    runs = store.runs()
    facts = {key: store.get(key) for key in store.keys("")}
    return runs, {row.run: store.entries(row.run) for row in runs}, store.ledger(), facts


def test_a_run_is_read_as_written(place: Place) -> None:
    clock = Clock()
    with place.open(clock=clock) as store:
        store.open_run("run-1", "Übersee & Co", EVERY_BYTE)
        assert store.run("run-1") == RunRow("run-1", "Übersee & Co", "open", EVERY_BYTE, 1000.5, None)
        clock.now = 2000.25
        store.update_run("run-1", status="done", ended=True)
        clock.now = 3000.0
        store.update_run("run-1", document=b"", ended=True)
        # `ended` is when it was first said to have ended.
        assert store.run("run-1") == RunRow("run-1", "Übersee & Co", "done", b"", 1000.5, 2000.25)
        assert store.run("run-2") is None


def test_runs_are_in_the_order_of_opening_whatever_the_clock_says(place: Place) -> None:
    clock = Clock()
    with place.open(clock=clock) as store:
        for name in ("b", "c", "a"):
            store.open_run(name, "other" if name == "c" else "peer", b"")
            clock.now -= 100
        store.update_run("c", status="done")
        assert [row.run for row in store.runs()] == ["b", "c", "a"]
        assert [row.run for row in store.runs("open")] == ["b", "a"]
        assert [row.run for row in store.runs(peer="peer")] == ["b", "a"]
        assert [row.run for row in store.runs("open", "other")] == []
        assert [row.run for row in store.runs("none of these")] == []
        assert [row.run for row in store.runs(latest=2)] == ["c", "a"]
        assert [row.run for row in store.runs("open", latest=1)] == ["a"]
        assert [row.run for row in store.runs(peer="peer", latest=9)] == ["b", "a"]
        assert store.runs(latest=0) == []


def test_a_repeated_or_missing_run_is_refused_and_spoils_nothing(store: Store) -> None:
    with store.transaction():
        store.open_run("run-1", "peer", b"first")
        with pytest.raises(StoreError, match="run-1 is in the store of curator already"):
            store.open_run("run-1", "peer", b"second")
        with pytest.raises(StoreError, match="no run run-2 in the store of curator"):
            store.append("run-2", "kind", b"")
        with pytest.raises(StoreError, match="no run run-2"):
            store.update_run("run-2", status="done")
        store.put("key", b"kept")
    row = store.run("run-1")
    assert row is not None
    assert row.document == b"first"
    assert store.get("key") == b"kept"


def test_a_journal_counts_from_one_in_each_run(store: Store) -> None:
    store.open_run("a", "peer", b"")
    store.open_run("b", "peer", b"")
    assert [store.append("a", "noise", EVERY_BYTE), store.append("b", "noise", b"")] == [1, 1]
    assert store.append("a", "answer", b"2") == 2
    assert store.entries("a") == [JournalEntry(1, "noise", EVERY_BYTE), JournalEntry(2, "answer", b"2")]
    assert store.entries("a", after=1) == [JournalEntry(2, "answer", b"2")]
    store.forget_entries("a")
    assert store.entries("a") == []
    assert store.entries("b") == [JournalEntry(1, "noise", b"")]


def test_the_ledger_holds_lines_in_order_with_the_time_outside(place: Place) -> None:
    clock = Clock()
    with place.open(clock=clock) as store:
        assert store.last_ledger_line() is None
        store.extend_ledger(['{"a":1}', "second"])
        store.extend_ledger([])
        clock.now = 7.0
        store.extend_ledger(["third"])
        lines = [(line.seq, line.line, line.written) for line in store.ledger()]
        assert lines == [(1, '{"a":1}', 1000.5), (2, "second", 1000.5), (3, "third", 7.0)]
        assert [line.line for line in store.ledger(after=2)] == ["third"]
        assert store.last_ledger_line() == "third"


@pytest.mark.parametrize("line", ["two\nlines", "end\n", "ümlaut", "nul\0"])
def test_a_ledger_line_is_one_line_of_ascii(store: Store, line: str) -> None:
    with pytest.raises(ValueError, match="printable ASCII"):
        store.extend_ledger(["fine", line])
    assert store.ledger() == []


def test_facts_are_replaced_and_listed_by_prefix(store: Store) -> None:
    for key in ("n/10", "n/2", "o", "n%", "N/1", "n/é", "n"):
        store.put(key, key.encode())
    store.put("o", EVERY_BYTE)
    store.delete("n/10")
    store.delete("never there")
    assert store.get("o") == EVERY_BYTE
    assert store.get("n/10") is None
    assert store.keys("n/") == ["n/2", "n/é"]
    assert store.keys("n%") == ["n%"]
    assert store.keys() == ["N/1", "n", "n%", "n/2", "n/é", "o"]


def test_names_that_one_backend_could_not_hold_are_refused_by_all(store: Store) -> None:
    for name in ("a\0b", "a\nb", "\ud800"):
        with pytest.raises(ValueError, match="printable"):
            store.put(name, b"")
    assert store.keys() == []


def test_a_transaction_that_raises_leaves_nothing(store: Store) -> None:
    store.open_run("old", "peer", b"document")
    store.put("counter", b"1")
    before = contents(store)

    def write_and_fail() -> None:
        with store.transaction():
            store.open_run("new", "peer", b"")
            store.append("old", "kind", b"")
            store.update_run("old", status="done", document=b"other", ended=True)
            store.extend_ledger(["a", "b"])
            store.put("counter", b"2")
            assert store.get("counter") == b"2"  # inside, its own writes are seen
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_and_fail()
    assert contents(store) == before
    assert store.append("old", "kind", b"") == 1


def test_transactions_do_not_nest(store: Store) -> None:
    with store.transaction():
        store.put("a", b"")
        with pytest.raises(RuntimeError, match="do not nest"), store.transaction():
            pass
        store.put("b", b"")
    assert store.keys() == ["a", "b"]


def test_another_thread_waits_for_the_end_of_a_transaction(store: Store) -> None:
    # "Threads may share a store": what it writes is no part of the transaction, here rolled back.
    begun, written = threading.Event(), threading.Event()

    def other() -> None:
        begun.wait(WAIT_S)
        store.put("of the other", b"")
        written.set()

    def roll_back() -> None:
        with store.transaction():
            store.put("rolled back", b"")
            begun.set()
            assert not written.wait(0.2)  # only a store that lets the other in can fail here
            raise InterruptedError

    thread = threading.Thread(target=other)
    thread.start()
    with pytest.raises(InterruptedError):
        roll_back()
    thread.join(WAIT_S)
    assert store.keys() == ["of the other"]


def test_a_closed_store_says_so(store: Store) -> None:
    store.close()
    store.close()
    with pytest.raises(StoreError, match="was closed"):
        store.keys()
    with pytest.raises(StoreError, match="was closed"):
        store.check()
    with pytest.raises(StoreError, match="was closed"):
        store.transaction().__enter__()


def test_everything_is_there_after_reopening(lasting: Place) -> None:
    with lasting.open() as store:
        store.open_run("run-1", "peer", EVERY_BYTE)
        store.append("run-1", "kind", EVERY_BYTE)
        store.extend_ledger(["line"])
        store.put("key", EVERY_BYTE)
        before = contents(store)
    with lasting.open() as store:
        assert contents(store) == before
        store.extend_ledger(["next"])
        assert [line.seq for line in store.ledger()] == [1, 2]


def test_closing_in_a_transaction_rolls_it_back(lasting: Place) -> None:
    store = lasting.store()

    def write_and_close() -> None:
        with store.transaction():
            store.put("key", b"")
            store.close()

    with pytest.raises(StoreError, match="was closed"):
        write_and_close()
    with lasting.open() as again:
        assert again.keys() == []


def test_a_store_is_opened_by_its_spec(lasting: Place, tmp_path: Path) -> None:
    store = open_store(lasting.spec, "owner-1", "process")
    store.put("key", b"value")
    store.close()
    with lasting.open("owner-1") as again:
        assert again.get("key") == b"value"
    memory = open_store(":memory:", "owner-1")
    memory.put("key", b"value")
    memory.close()
    assert not Path(":memory:").exists()


def test_a_spec_of_no_kind_is_refused_without_its_password() -> None:
    with pytest.raises(ConfigError, match="a kind that does not exist") as caught:
        open_store("mysql://user:planted@host/db", "owner-1")
    assert "planted" not in str(caught.value)


def test_a_server_without_psycopg_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "psycopg", None)
    monkeypatch.delitem(__import__("sys").modules, "fedkme.store.postgres", raising=False)
    with pytest.raises(MissingDependencyError, match=r"fedkme\[postgres\]"):
        open_store("postgresql://host/db", "owner-1")
