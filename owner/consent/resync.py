"""A restored store of an owner, brought up to what others hold of it (docs/decisions/015).

The curator's ledger has a line for everything that left the owner, and the curator's log of heads stands for
that ledger and for the owner's last head, cosigned by every owner that was there. What was lost is read from
there, written into the owner's ledger again and charged as what it says, so that a backup wins no budget.
What the owner alone wrote (bids and counts, exact as they are) stays lost, and so do openings of its lost
heads.
"""

from __future__ import annotations

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
"""Lines of the curator alone: it passed on what an owner sent."""
RESTORED = "restored"
"""Protocol of runs of which only what they cost is known."""


@dataclass(frozen=True, slots=True)
class Resynced:
    """Gift of what a store had lost.

    Attributes:
        runs: names of runs of which it had lost something.
        lines: written into its ledger again.
        heads: of its log that it had lost.
    """

    runs: tuple[str, ...]
    lines: int
    heads: int


@dataclass(frozen=True, slots=True)
class _Witness:
    entries: Sequence[Entry]
    heads: KeptHeads

    def lines_at(self, origin: str, size: int) -> int | None:
        """Lines of the curator's ledger when it first took in the owner's head of a size; None: never."""
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
    """Give a restored store back what it lost, all or nothing.

    Args:
        name: the owner's.
        store: the restored one.
        curator: the curator's ledger, its heads in a file beside it.
        others: files of heads of other parties, against which the curator's are held.
        identity: the owner's own, whose authority signed everybody's; None in plaintext.

    Raises:
        ConfigError: there is nothing that the store lost.
        LedgerError: the curator's ledger is not what heads say, or does not reach to the owner's last head.
        StoreError: the store fails.
    """
    ledger = stored_ledger(name, store)
    origin = HeadLog(Role.OWNER, name, ledger, store, identity).origin
    own = identity()
    witness = _witness(curator, others, None if own is None else own.authority)
    before, leaves = store.get(LEAVES + origin) or b"", b"".join(witness.heads.leaves.get(origin, []))
    known, there = len(before) // LEAF_BYTES, len(leaves) // LEAF_BYTES
    if there <= known:
        raise ConfigError(f"the store of {name} lost no head that {curator} has", "Start the owner.")
    if not leaves.startswith(before):
        raise LedgerError(f"{curator} has other heads of {name} than its store", "Keep both as evidence.")
    until, since = witness.lines_at(origin, there), witness.lines_at(origin, known) if known else 0
    note = next((said for said in witness.heads.notes if _is_head(said, origin, there)), None)
    if until is None or since is None or note is None:
        raise LedgerError(
            f"{curator} does not stand for head {there} of {name}: the export is older, or cut",
            "Ask the curator's operator for 'fedkme curator ledger' of today.",
        )
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
    return Resynced(tuple(dict.fromkeys(line.run for line in lost)), len(lost), there - known)


def _witness(curator: Path, others: Sequence[Path], authority: bytes | None) -> _Witness:
    """The curator's ledger and heads, which must be whole, signed, and what others hold."""
    entries, heads = read_ledger(curator), read_heads(curator.with_suffix(SUFFIX))
    if not entries or entries[0].party != CURATOR:
        raise ConfigError(f"{curator} is not the ledger of a curator", "Give the curator's.")
    kept = [heads, *map(read_heads, others)]
    for verdict in check_heads({heads.where: entries}, kept, authority):
        if verdict.fault:
            raise LedgerError(f"{verdict.about}: {verdict.fault}", "Keep the files as evidence.")
    return _Witness(entries, heads)


def _is_head(note: str, origin: str, size: int) -> bool:
    checkpoint, _ = read_note(note)
    return (checkpoint.origin, checkpoint.size) == (origin, size)


def _lost(
    name: str, entries: Sequence[Entry], store: Store, history: History, since: int
) -> list[Disclosure]:
    """Lines about the owner that its ledger has not, and about all owners in runs that it may have forgotten.

    Those that it took no part in after its last head are among them: what is not known is charged.
    """
    own = Counter(disclosures_in(kept.line for kept in store.ledger()))
    forgotten = {entry.disclosure.run for entry in entries[since:]} - history.told.keys()
    found = []
    for line in (entry.disclosure for entry in entries):
        to_all = (line.protected, line.observer) == (OWNERS, OWNERS) and line.run in forgotten
        if own[line] > 0:
            own[line] -= 1
        elif (line.protected == name and line.nonce != _DELIVERY) or to_all:
            found.append(line)
    return found


def _admission(run: str, lines: Sequence[Disclosure]) -> Admission:
    """A run whose cost is what its lines say; rows that left are counted, and have a limit of their own."""
    priced = [line for line in lines if not isinstance(line.event, RawRows | HashedRows | SealedRows)]
    planned = [line for line in priced if line.observer != CURATOR]
    shown = [line for line in lines if line.observer == CURATOR]
    return Admission(run, RESTORED, RESTORED, 0, tuple(paid(planned)), shown=tuple(paid(shown)))
