"""Killed with -9 "at any point": what was committed is there, what was not is not, and the store is free."""

from __future__ import annotations

import contextlib
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from fedkme.errors import StoreError
from tests.fedkme.store.places import Place
from tests.fedkme.store.writer import BODY

WRITER = Path(__file__).with_name("writer.py")


@contextlib.contextmanager
def writer(place: Place, way: str) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(
        [sys.executable, WRITER, place.spec, way], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    try:
        with process:
            yield process
            process.kill()
    finally:
        process.kill()


def next_line(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    line = process.stdout.readline()
    assert line, "the writer ended by itself"
    return line.strip()


def rest_of(process: subprocess.Popen[str]) -> str:
    """Read what it said after the last line; `communicate` would pass over what is buffered."""
    assert process.stdout is not None
    return process.stdout.read()


def rounds_that_stand(place: Place) -> int:
    """Number of rounds in the store; all that is written of each agrees."""
    with place.open() as store:
        entries, ledger = store.entries("run"), store.ledger()
        rounds = int.from_bytes(store.get("rounds") or b"")
        archived = max((each.last for each in store.archives()), default=0)
        assert archived == int.from_bytes(store.get("archived") or b"")
    assert [entry.position for entry in entries] == list(range(1, 2 * rounds + 1))
    assert all(entry.body == BODY for entry in entries[::2])
    assert [entry.body for entry in entries[1::2]] == [n.to_bytes(8) for n in range(1, rounds + 1)]
    expected = [text for n in range(1, rounds + 1) for text in (f"line {n}", f"line {n} again")]
    assert [line.line for line in ledger] == expected
    return rounds


@pytest.mark.parametrize("way", ["commit", "archive"])
def test_committed_writes_survive_a_kill(lasting: Place, way: str) -> None:
    last = 0
    for commits in (1, 2, 5, 17, 40):
        with writer(lasting, way) as process:
            for _ in range(commits):
                last = int(next_line(process))
            process.kill()
            *whole, _ = rest_of(process).split("\n")
        last = int(whole[-1]) if whole else last
        # The commit that it died in may stand too, unsaid.
        assert rounds_that_stand(lasting) in (last, last + 1)


def test_an_interrupted_transaction_leaves_no_writes(lasting: Place) -> None:
    with writer(lasting, "hold") as process:
        assert [next_line(process), next_line(process)] == ["1", "inside"]
        process.kill()
    assert rounds_that_stand(lasting) == 1


def test_a_second_process_is_refused_by_the_pid_of_the_first(lasting: Place) -> None:
    with writer(lasting, "hold") as process:
        next_line(process)
        with pytest.raises(StoreError, match=f"in use by .*process {process.pid}\\b"):
            lasting.refused()
        process.kill()
        process.wait()
        assert rounds_that_stand(lasting) == 1


def test_one_process_cannot_open_a_store_twice(lasting: Place) -> None:
    with lasting.open(), pytest.raises(StoreError, match="in use"):
        lasting.refused()
    with lasting.open() as store:
        store.put("key", b"")
