"""Restores what an owner's store from a backup lost, from the curator's ledger (docs/decisions/015).

The curator's ledger has a line for everything that left the owner. The curator's log of heads vouches for
that ledger and for the owner's last head, cosigned by every owner present. The lost lines are read from the
curator's ledger, written into the owner's ledger again and charged in full, so that a backup wins no budget.
Lines that the owner alone wrote (exact bids and counts) stay lost, and so do openings of its lost heads.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from fedkme.errors import ConfigError, LedgerError
from fedkme.heads.files import SUFFIX, KeptHeads, read_heads
from fedkme.heads.log import LEAVES, NOTES, HeadLog
from fedkme.heads.notes import LEAF_BYTES, read_note
from fedkme.ledgers.witnesses import check_heads
from fedkme.pki.certificates import Role
from fedkme.pki.identity import Identity
from fedkme.privacy.accountants import paid
from fedkme.privacy.events import CURATOR, OWNERS, Disclosure, HashedRows, RawRows, SealedRows
from fedkme.privacy.ledger import Entry, disclosures_in, read_ledger, stored_ledger
from fedkme.store import Store
from owner.consent.history import Admission, History

_DELIVERY = "summary"
"""Nonce of lines that the curator alone writes: it passed on an owner's rows."""
RESTORED = "restored"
"""Protocol of restored runs, of which only the cost is known."""


@dataclass(frozen=True, slots=True)
class Resynced:
    """Result of a resync.

    Attributes:
        runs: names of runs with lost lines.
        lines: number of lines restored to the ledger.
        heads: number of lost heads restored to the log.
    """

    runs: tuple[str, ...]
    lines: int
    heads: int


@dataclass(frozen=True, slots=True)
class _Witness:
    entries: Sequence[Entry]
    heads: KeptHeads

    def lines_at(self, origin: str, size: int) -> int | None:
        """Length of the curator's ledger when it first took in the owner's head of a size; None: never."""
        for opening in self.heads.openings:
            if any(name == origin and number == size for name, number, _ in opening["heads"]):
                return int(opening["entries"])
        return None


def resync(
    name: str,
    store: Store,
    curator: Path,
    others: Sequence[Path] = (),
    identity: Callable[[], Identity | None] = lambda: None,
) -> Resynced:
    """Restore what a store from a backup lost, all or nothing.

    Args:
        name: the owner's name.
        store: the store from the backup.
        curator: the curator's ledger, its heads in a file beside it.
        others: files of heads of other parties; the curator's heads are checked against them.
        identity: returns the owner's identity, whose authority signed all identities; None in plaintext.

    Raises:
        ConfigError: the store lost nothing.
        LedgerError: the curator's ledger contradicts heads, or does not reach the owner's last head.
        StoreError: the store fails.
    """
    ledger = stored_ledger(name, store)
    origin = HeadLog(Role.OWNER, name, ledger, store, identity).origin
    own = identity()
    witness = _witness(curator, others, None if own is None else own.authority)
    before, leaves = store.get(LEAVES + origin) or b"", b"".join(witness.heads.leaves.get(origin, []))
    own_heads, there = len(before) // LEAF_BYTES, len(leaves) // LEAF_BYTES
    if there <= own_heads:
        raise ConfigError(f"the store of {name} lost no head that {curator} has", "Start the owner.")
    if not leaves.startswith(before):
        raise LedgerError(f"{curator} has other heads of {name} than its store", "Keep both as evidence.")
    until, since = witness.lines_at(origin, there), witness.lines_at(origin, own_heads) if own_heads else 0
    note = next((text for text in witness.heads.notes if _is_head(text, origin, there)), None)
    if until is None or since is None or note is None:
        cause = f"{curator} does not cover head {there} of {name}: the export is older, or cut"
        raise LedgerError(cause, "Ask the curator's operator for 'fedkme curator ledger' of today.")
    history = History(name, store)
    history.read()
    lost = _lost(name, witness.entries, store, history, since)
    with ledger.together(store):
        for run in dict.fromkeys(line.run for line in lost):
            if run not in history.admitted:
                _admission(run, [line for line in lost if line.run == run]).write(store)
        ledger.extend(lost)
        store.put(LEAVES + origin, leaves)
        store.put(f"{NOTES}{origin}/{there:012}", note.encode())
    return Resynced(tuple(dict.fromkeys(line.run for line in lost)), len(lost), there - own_heads)


def _witness(curator: Path, others: Sequence[Path], authority: bytes | None) -> _Witness:
    """Read the curator's ledger and heads, which must be whole, signed and consistent with others' heads."""
    entries, heads = read_ledger(curator), read_heads(curator.with_suffix(SUFFIX))
    if not entries or entries[0].party != CURATOR:
        raise ConfigError(f"{curator} is not the ledger of a curator", "Give the curator's.")
    heads_files = [heads, *map(read_heads, others)]
    for verdict in check_heads({heads.where: entries}, heads_files, authority):
        if verdict.fault:
            raise LedgerError(f"{verdict.about}: {verdict.fault}", "Keep the files as evidence.")
    return _Witness(entries, heads)


def _is_head(note: str, origin: str, size: int) -> bool:
    checkpoint, _ = read_note(note)
    return (checkpoint.origin, checkpoint.size) == (origin, size)


def _lost(
    name: str, entries: Sequence[Entry], store: Store, history: History, since: int
) -> list[Disclosure]:
    """Find lines about the owner that its ledger lacks, and lines about all owners in runs that it may lack.

    Runs after its last head count even if the owner took no part: it cannot know, so they are charged.
    """
    own = Counter(disclosures_in(row.line for row in store.ledger()))
    forgotten = {entry.disclosure.run for entry in entries[since:]} - history.disclosures.keys()
    lost = []
    for line in (entry.disclosure for entry in entries):
        to_all = (line.protected, line.observer) == (OWNERS, OWNERS) and line.run in forgotten
        if own[line] > 0:
            own[line] -= 1
        elif (line.protected == name and line.nonce != _DELIVERY) or to_all:
            lost.append(line)
    return lost


def _admission(run: str, lines: Sequence[Disclosure]) -> Admission:
    """Make the admission of a run from its lines. Sent rows cost nothing here: they have their own limit."""
    priced = [line for line in lines if not isinstance(line.event, RawRows | HashedRows | SealedRows)]
    planned = [line for line in priced if line.observer != CURATOR]
    shown = [line for line in lines if line.observer == CURATOR]
    return Admission(run, RESTORED, RESTORED, 0, tuple(paid(planned)), shown=tuple(paid(shown)))
