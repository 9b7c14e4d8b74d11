"""The ledger of a party: its disclosures, one line an event, each line bound to all earlier lines.

A line is on the disk before the bytes that it describes leave; in simulations (`durability = "process"`) the
operating system has it by then. Lines have no time of day: both engines must write the same bytes.

    {"disclosure":{..},"party":"owner-1","previous":"<hash before>","seq":7,"hash":"<this line's>"}

The hash is SHA-256 of the line without its hash, in canonical JSON. The chain shows accidents and partial
changes. But somebody who can write the file can write another complete chain: heads that others keep
(`fedkme/heads/`) and the other side's ledger show that.
"""

import contextlib
import functools
import hashlib
import json
import re
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from fedkme.errors import LedgerError, ProtocolError, on_disk
from fedkme.inputs import read_bytes
from fedkme.privacy.events import Disclosure, disclosure_from_json
from fedkme.store import Archive, Store
from fedkme.store.archives import read_archive

GENESIS = "0" * 64
"""Digits in place of the previous hash in the first line."""

ARCHIVED_LINES = "archived/lines"
"""Key of a fact of a store: the fewest lines that cost as much as all archived lines."""
_LINE = re.compile(rb'(?P<body>\{.*),"hash":"(?P<hash>[0-9a-f]{64})"\}')
_REMEDY = "Keep the file as evidence, and compare it with the other side's."


@dataclass(frozen=True, slots=True)
class Entry:
    """Entry of a ledger: one line.

    Attributes:
        seq: number of the line, from 1.
        party: owner of the ledger.
        disclosure: what left this party, or came from another party that wrote the same line.
        previous: hash of the previous line.
        hash: hash of this line.
    """

    seq: int
    party: str
    disclosure: Disclosure
    previous: str
    hash: str


@dataclass(frozen=True, slots=True)
class ChainFault:
    """Number of the first faulty line of a ledger, and its fault."""

    line: int
    what: str


Follow = Callable[[Path], tuple[list[Entry], ChainFault | None]]
"""Function that reads a ledger, as `follow_chain` does."""

Write = Callable[[Sequence[str]], None]
"""Function that stores lines, given without line ends; once it returns, the described bytes may leave."""


class LedgerSink(Protocol):
    """Recipient of disclosures before their bytes leave: a ledger, or a writer into a ledger."""

    def extend(self, disclosures: Iterable[Disclosure]) -> None:
        """Take disclosures, in order."""

    def head(self) -> dict[str, int | str]:
        """Number of lines, and the hash of the last line."""


class Ledger:
    """Appends to one party's chain.

    Attributes:
        end: number and hash of the last line.
    """

    def __init__(self, party: str, write: Write, last: Entry | None = None) -> None:
        """Continue a chain.

        Args:
            party: owner of the ledger.
            write: appends lines to the stored lines.
            last: the last stored line; None for a new chain.
        """
        self._party = json.dumps(party)
        self._write = write
        self.end = (0, GENESIS) if last is None else (last.seq, last.hash)

    def extend(self, disclosures: Iterable[Disclosure]) -> None:
        """Write disclosures in one go; once this returns, their bytes may leave."""
        lines = []
        seq, last = self.end
        for disclosure in disclosures:
            seq += 1
            body = _body(disclosure, self._party, last, seq)
            last = hashlib.sha256(body + b"}").hexdigest()
            lines.append(f'{body.decode("ascii")},"hash":"{last}"}}')
        self._write(lines)
        self.end = seq, last

    @contextlib.contextmanager
    def together(self, store: Store) -> Iterator[None]:
        """Commit the block's writes and lines to the store together; a failure leaves both as they were."""
        before = self.end
        try:
            with store.transaction():
                yield
        except BaseException:
            self.end = before
            raise

    def head(self) -> dict[str, int | str]:
        """Number of lines, and the hash of the last line: a party that stores it notices a cut at the end."""
        seq, last = self.end
        return {"entries": seq, "hash": last}


def stored_ledger(party: str, store: Store) -> Ledger:
    """Open the chain in a party's store, and check all its lines that are in no archive.

    Raises:
        LedgerError: a line was changed or is gone, or the last line is no entry of this party.
    """
    before = tip(store)
    line, first, previous = "", *((before.last, before.mark) if before else (0, GENESIS))
    for number, row in enumerate(store.ledger(first), start=first + 1):
        line = row.line
        match = _LINE.fullmatch(line.encode("ascii", errors="replace"))
        tail = f',"previous":"{previous}","seq":{number}'.encode("ascii")
        if match is None or not match["body"].endswith(tail) or not _is_hash(match["body"], match["hash"]):
            raise LedgerError(
                f"line {number} of the ledger in the store of {party} was changed, or an earlier one is gone",
                "Keep the store as evidence, and restore a backup.",
            )
        previous = match["hash"].decode("ascii")
    if not line:
        return Ledger(party, store.extend_ledger)
    last = _read_line(line.encode("ascii"))
    if isinstance(last, str) or last.party != party:
        raise LedgerError(f"the store of {party} does not end with an entry of its ledger", _REMEDY)
    return Ledger(party, store.extend_ledger, last)


def tip(store: Store) -> Archive | None:
    """The last archive: the ledger goes on behind it."""
    return next(iter(store.archives(latest=1)), None)


def costs(store: Store) -> tuple[list[Disclosure], int]:
    """Fewest lines that cost as much as the archived lines; and the number of the last archived line."""
    last = tip(store)
    lines = lines_from_json(json.loads(store.get(ARCHIVED_LINES) or b"[]"))
    return lines, 0 if last is None else last.last


def lines_to_json(lines: Iterable[Disclosure]) -> list[object]:
    """Plain values of lines, for a fact of a store."""
    return [line.to_json() for line in lines]


def lines_from_json(plain: Iterable[object]) -> list[Disclosure]:
    """Read lines from the plain values of `lines_to_json`."""
    return [disclosure_from_json(line) for line in plain]


def hash_of(line: str) -> str:
    """Hash that a line of a ledger states."""
    return line.rpartition('"hash":"')[2][:64]


def last_seq(store: Store) -> int:
    """Count the lines of the ledger in a store."""
    line = store.last_ledger_line()
    return 0 if line is None else int(line.rpartition(',"hash":')[0].rpartition('"seq":')[2])


def disclosures_in(lines: Iterable[str]) -> list[Disclosure]:
    """Read the disclosures in lines of a ledger, without a check of their chain.

    Raises:
        LedgerError: a line is no entry of a ledger.
    """
    entries = [_read_line(line.encode("ascii")) for line in lines]
    if any(isinstance(entry, str) for entry in entries):
        raise LedgerError("a store holds a line that is no entry of a ledger", _REMEDY)
    return [entry.disclosure for entry in entries if isinstance(entry, Entry)]


def read_ledger(path: Path, follow: Follow | None = None) -> list[Entry]:
    """Every entry of a whole chain; `follow` reads the file.

    Raises:
        LedgerError: the file cannot be read, or the chain has a fault.
    """
    return _entries_or_error((follow or follow_chain)(path), str(path))


def read_chain(text: bytes, where: str) -> list[Entry]:
    """Every entry of a whole chain, given its lines; `where` names their place, for errors.

    Raises:
        LedgerError: the chain has a fault.
    """
    return _entries_or_error(_follow(text), where)


def _entries_or_error(followed: tuple[list[Entry], ChainFault | None], where: str) -> list[Entry]:
    entries, fault = followed
    if fault is not None:
        raise LedgerError(f"{where}, line {fault.line}: {fault.what}", _REMEDY)
    return entries


def follow_chain(path: Path) -> tuple[list[Entry], ChainFault | None]:
    """Entries up to the first fault (a line altered, removed, repeated, moved or cut), and the fault, if any.

    A chain without its last lines looks whole: only the other side, or who stored the last hash, can tell.

    Raises:
        LedgerError: the file cannot be read.
    """
    return _follow(_ledger_text(path))


def nonce_of(vector: NDArray[np.int32] | NDArray[np.int64]) -> str:
    """A nonce for a released vector: equal for one draw on every host, different between draws."""
    return hashlib.sha256(vector.astype(f"<i{vector.itemsize}", copy=False).tobytes()).hexdigest()[:32]


Line = TypeVar("Line", bound=Hashable)


def merged(ledgers: Iterable[Iterable[Line]]) -> list[Line]:
    """Merge several parties' ledgers into one list of draws, in order of first occurrence.

    Within one ledger every line is a draw. Both sides of an exchange write the same line about a draw, with a
    nonce of its bytes: each distinct line counts as often as in the ledger that has it most often.
    """
    counts: Counter[Line] = Counter()
    lines: list[Line] = []
    for ledger in ledgers:
        own: Counter[Line] = Counter()
        for line in ledger:
            own[line] += 1
            if own[line] > counts[line]:
                counts[line] += 1
                lines.append(line)
    return lines


def _ledger_text(path: Path) -> bytes:
    """The lines of a ledger's file, or of the store of a party that may be running."""
    if path.suffix == ".db":
        from fedkme.store.reading import ledger_lines

        return "".join(f"{line}\n" for line in ledger_lines(path)).encode("ascii", errors="replace")
    with on_disk(f"{path} cannot be read", "Give a run's folder.", LedgerError):
        text = read_bytes(path)
    return _expand_archives(path, text) if text.startswith(b'{"archives":') else text


def _expand_archives(path: Path, text: bytes) -> bytes:
    """Lines of the archives that the first line of a file names, then the file's other lines."""
    head, _, rest = text.partition(b"\n")
    try:
        archives = [
            (path.parent / archive["file"], archive["sha256"]) for archive in json.loads(head)["archives"]
        ]
    except (ValueError, KeyError, TypeError):
        raise LedgerError(f"{path}, line 1: it names no archives", _REMEDY) from None
    lines = (row.line for archive in archives for row in read_archive(*archive).lines)
    return "".join(f"{line}\n" for line in lines).encode("ascii", errors="replace") + rest


def _follow(text: bytes) -> tuple[list[Entry], ChainFault | None]:
    lines = text.split(b"\n")
    entries: list[Entry] = []
    last: Entry | None = None
    for number, line in enumerate(lines[:-1], start=1):
        entry = _read_line(line)
        fault = entry if isinstance(entry, str) else _chain_break(last, entry)
        if isinstance(entry, str) or fault:
            return entries, ChainFault(number, fault)
        entries.append(entry)
        last = entry
    if lines[-1]:
        return entries, ChainFault(len(lines), "the line has no end")
    return entries, None


def _is_hash(body: bytes, digest: bytes) -> bool:
    return hashlib.sha256(body + b"}").hexdigest().encode("ascii") == digest


@functools.lru_cache(2048)  # a party reads its ledger at its start, then to compare and to compact it
def _read_line(line: bytes) -> Entry | str:
    """The entry, or the fault of the line by itself."""
    match = _LINE.fullmatch(line)
    if match is None:
        return "the line is no entry of a ledger"
    body, digest = match["body"], match["hash"].decode("ascii")
    if not _is_hash(body, match["hash"]):
        return "the line was altered: its hash is another"
    try:
        plain = json.loads(body + b"}")
        disclosure = disclosure_from_json(plain["disclosure"])
        entry = Entry(plain["seq"], plain["party"], disclosure, plain["previous"], digest)
        body_of_entry = _body(disclosure, json.dumps(entry.party), entry.previous, entry.seq)
    except (ValueError, KeyError, TypeError, RecursionError, ProtocolError):
        return "the line holds no disclosure that this version knows"
    return entry if body_of_entry == body else "the line is not spelled as a ledger spells it"


def _chain_break(last: Entry | None, entry: Entry) -> str:
    """Reason why an entry does not follow another; empty where it does."""
    due = 1 if last is None else last.seq + 1
    if last is not None and entry.party != last.party:
        return f"an entry of {entry.party} stands in the ledger of {last.party}"
    if entry.seq > due:
        return f"entry {due} is missing: entry {entry.seq} stands in its place"
    if entry.seq < due:
        return f"entry {entry.seq} stands again, or in another place, where entry {due} is due"
    if entry.previous != (GENESIS if last is None else last.hash):
        return f"entry {entry.seq} does not follow from the line before: one of them was replaced"
    return ""


def _body(disclosure: Disclosure, party: str, previous: str, seq: int) -> bytes:
    """The line without its hash and the last brace; `party` is a JSON string."""
    rest = f',"party":{party},"previous":"{previous}","seq":{seq}'
    return b'{"disclosure":' + disclosure.canonical() + rest.encode("ascii")
