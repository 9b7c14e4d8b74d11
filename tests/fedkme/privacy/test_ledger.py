"""Ledgers are append-only and hash-chained: no byte of a ledger can change unnoticed."""

from __future__ import annotations

import hashlib
import json
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedkme.errors import LedgerError
from fedkme.privacy.events import Disclosure, Gaussian, RawRows
from fedkme.privacy.ledger import GENESIS, follow_chain, nonce_of, read_ledger
from tests.ledgers import ledger_text


def about(number: int) -> Disclosure:
    event = Gaussian(2.5) if number % 2 else RawRows(1)
    return Disclosure("run-1", number, "a", "curator", event, "replace-one", None, f"row {number}")


@cache
def chain(entries: int = 5) -> bytes:
    """The bytes of a ledger."""
    return ledger_text("a", map(about, range(1, entries + 1))).encode()


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("ledger") / "a.jsonl"


def fault_of(path: Path, text: bytes) -> tuple[int, str]:
    path.write_bytes(text)
    fault = follow_chain(path)[1]
    assert fault is not None
    with pytest.raises(LedgerError, match=f"line {fault.line}: "):
        read_ledger(path)
    return fault.line, fault.what


def test_entries_are_equal_after_reading(path: Path) -> None:
    path.write_bytes(chain())
    entries = read_ledger(path)
    assert follow_chain(path)[1] is None
    assert [entry.disclosure for entry in entries] == [about(number) for number in range(1, 6)]
    assert [entry.seq for entry in entries] == [1, 2, 3, 4, 5]
    assert [entry.previous for entry in entries] == [GENESIS, *(entry.hash for entry in entries[:-1])]


@given(st.data())
def test_altering_one_byte_is_detected(path: Path, data: st.DataObject) -> None:
    # The fault names the line of the altered byte.
    text = bytearray(chain())
    position = data.draw(st.integers(0, len(text) - 1))
    text[position] = data.draw(st.integers(0, 255).filter(lambda byte: byte != text[position]))
    line, _ = fault_of(path, bytes(text))
    assert line == chain()[:position].count(b"\n") + 1


@given(st.integers(0, len(chain()) - 1))
def test_an_added_or_removed_byte_is_detected(path: Path, position: int) -> None:
    text = chain()
    fault_of(path, text[:position] + text[position + 1 :])
    fault_of(path, text[:position] + text[position : position + 1] + text[position:])


@pytest.mark.parametrize(
    ("order", "line", "what"),
    [
        ([1, 3, 4, 5], 2, "entry 2 is missing: entry 3 stands in its place"),
        ([2, 3, 4, 5], 1, "entry 1 is missing"),
        ([1, 3, 2, 4, 5], 2, "entry 2 is missing"),
        ([1, 2, 2, 3, 4, 5], 3, "entry 2 stands again"),
        ([1, 2, 3, 4, 1], 5, "entry 1 stands again"),
    ],
)
def test_removed_reordered_and_repeated_lines_are_detected(
    path: Path, order: list[int], line: int, what: str
) -> None:
    # "Detects a removed, reordered or altered line."
    lines = chain().splitlines(keepends=True)
    chain_fault = fault_of(path, b"".join(lines[number - 1] for number in order))
    assert chain_fault[0] == line
    assert what in chain_fault[1]


def test_a_line_of_another_chain_does_not_fit(path: Path) -> None:
    lines = chain().splitlines(keepends=True)
    forged = ledger_text("a", map(about, (9, 2, 3, 4, 5))).encode().splitlines(keepends=True)
    assert fault_of(path, b"".join([lines[0], forged[1], *lines[2:]]))[1].startswith(
        "entry 2 does not follow"
    )
    second = ledger_text("b", map(about, (1, 2))).encode().splitlines(keepends=True)[1]
    assert "an entry of b" in fault_of(path, lines[0] + second)[1]


def test_lines_with_a_right_hash_and_no_disclosure_are_refused(path: Path) -> None:
    # A whole chain of lines that no ledger writes is no ledger.
    for body in (b'{"a":1', b'{"disclosure":{},"party":"a","previous":"","seq":1', b"{" + b"[" * 10**5):
        digest = hashlib.sha256(body + b"}").hexdigest().encode()
        assert "no disclosure" in fault_of(path, body + b',"hash":"' + digest + b'"}\n')[1]


def test_a_ledger_that_is_not_there_is_said(tmp_path: Path) -> None:
    with pytest.raises(LedgerError, match="cannot be read"):
        read_ledger(tmp_path / "none")


def test_the_format_of_a_ledger_line_never_changes() -> None:
    # An old ledger must verify: this line was written by the first version.
    line = json.loads(chain(1))
    assert list(line) == ["disclosure", "party", "previous", "seq", "hash"]
    assert line["hash"] == "ce20fb0e6c7784ac74e03d9b0b5c337208af2a24e6af9dccc1203d58002a6ddc"


@given(st.text(min_size=1), st.text(min_size=1), st.integers(0, 10**6), st.floats(1e-9, 1e9) | st.none())
def test_the_canonical_form_is_json_with_sorted_keys(
    name: str, nonce: str, number: int, sensitivity: float | None
) -> None:
    # `Disclosure.canonical` builds its text by hand, for speed.
    event = Gaussian(number + 0.1, 3)
    about = Disclosure(name, number, name, nonce, event, "add-remove", sensitivity, nonce)
    plain = json.dumps(about.to_json(), sort_keys=True, separators=(",", ":"), allow_nan=False)
    assert about.canonical() == plain.encode("ascii")


def test_nonces_are_equal_for_equal_vectors_only() -> None:
    # The same bytes on every host and from every integer width.
    vector = np.array([1, -2, 3])
    assert nonce_of(vector.astype(np.int32)) == nonce_of(vector.astype(np.int64).astype(np.int32))
    assert nonce_of(vector.astype(np.int32)) != nonce_of(-vector.astype(np.int32))
