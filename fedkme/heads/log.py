"""Log of a party's heads, and what it keeps of the logs of others.

A leaf of the log stands for the ledger as it was at one time, and for the heads of others that came since the
leaf before. It is a commitment, SHA-256 of an opening with 32 random bytes in it: the number of a ledger's
lines follows from private rows, so what is shown to others says nothing until the opening is given, to an
auditor. The counter that others see is that of leaves: it grows by 1 a run at most, and never becomes less.
"""

from __future__ import annotations

import base64
import json
import secrets
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from hashlib import sha256

from fedkme.errors import LedgerError
from fedkme.heads.notes import (
    LEAF_BYTES,
    Checkpoint,
    chain_of_signer,
    chains_of,
    check_origin,
    check_signature,
    origin_of,
    read_note,
    root_of,
    signature_line,
)
from fedkme.pki.certificates import Role, name_of
from fedkme.pki.identity import Identity
from fedkme.privacy.ledger import LedgerSink
from fedkme.store import Store

HEADS = "head/"
"""Begin of the names of facts in which a store keeps heads."""
LEAVES, OPENINGS, NOTES, CERTIFICATES = (f"{HEADS}{kind}/" for kind in ("leaves", "opening", "note", "chain"))
EXCHANGE = "/heads"
"""End of the name under which directives of a run's exchange of heads go."""
MOST_EVIDENCE = 64
"""Heads of one log that do not follow, and are kept."""
_KEEP = "Keep the stores of both sides as evidence; `fedkme audit verify` says which lines are gone or other."
_RESYNC = (
    "Run `fedkme owner resync` with the curator's ledger (docs/deploy.md, Backup), which gives it back what "
    "it lost and charges it; `fedkme owner join --new-journal` goes on without, and nothing that was lost is "
    "charged."
)


@dataclass(frozen=True, slots=True)
class Head:
    """A party's head as it is shown to another.

    Attributes:
        note: the signed note; without signatures in plaintext.
        leaves: of the log, those that the other does not know, 32 bytes each.
        known: leaves of the other's log that this party knows.
        certificates: PEM, the signer's first; empty in plaintext.
    """

    note: str
    leaves: bytes = b""
    known: int = 0
    certificates: bytes = b""


@dataclass(frozen=True, slots=True)
class Cosignature:
    """Word of a party that a head follows from those that it saw before.

    Attributes:
        line: for the note; empty in plaintext.
        certificates: PEM, the signer's first; empty in plaintext.
    """

    line: str = ""
    certificates: bytes = b""


class HeadLog:
    """One party's log of heads over its store, beside its ledger."""

    def __init__(
        self,
        role: Role,
        name: str,
        ledger: LedgerSink,
        store: Store,
        identity: Callable[[], Identity | None] = lambda: None,
        entropy: Callable[[int], bytes] = secrets.token_bytes,
    ) -> None:
        """Go on with what the store holds.

        Args:
            role: the party's.
            name: the party's, where it has no certificate.
            ledger: whose heads are logged.
            store: keeps the log.
            identity: the party's own as it is now; None in plaintext.
            entropy: random bytes.
        """
        self._role = role
        self._name = name
        self._ledger = ledger
        self._store = store
        self._identity = identity
        self._entropy = entropy
        self._heard: dict[str, Checkpoint] = {}

    @property
    def origin(self) -> str:
        """Name of this log."""
        own = self._identity()
        return origin_of(self._role, self._name if own is None else name_of(own.leaf.subject))

    def known(self, origin: str) -> int:
        """Number of leaves of a log that this party knows, its own or another's."""
        return len(self._store.get(LEAVES + origin) or b"") // LEAF_BYTES

    def advance(self, run: str = "") -> None:
        """Add a leaf for the ledger as it is now, and sign the head over it.

        That is done once an exchange, whether anything was written since or not: the counter is public.

        Args:
            run: at whose end heads are exchanged; its party cannot deny later that there was such a run.

        Raises:
            LedgerError: the key is not one of `fedkme pki`.
            StoreError: the store fails.
        """
        origin, own = self.origin, self._identity()
        number = self.known(origin) + 1
        heard = [
            [each.origin, each.size, base64.b64encode(each.root).decode()]
            for _, each in sorted(self._heard.items())
        ]
        salt = self._entropy(32).hex()
        stood_for = {"heads": heard, "number": number, "origin": origin, "run": run, "salt": salt}
        opening = canonical({**self._ledger.head(), **stood_for})
        leaves = (self._store.get(LEAVES + origin) or b"") + commitment(opening)
        checkpoint = Checkpoint(origin, number, root_of(split(leaves)))
        line = "" if own is None else signature_line(checkpoint, origin, own)
        head = Head(f"{checkpoint.text}\n{line}", certificates=b"" if own is None else own.certificate)
        with self._store.transaction():
            self._store.put(f"{OPENINGS}{origin}/{number:012}", opening)
            self._store.put(LEAVES + origin, leaves)
            self._put_note(f"{origin}/{number:012}", head)
        self._heard.clear()

    def show(self, known: int, other: str) -> Head:
        """The last head, for a party that knows some leaves.

        Args:
            known: leaves that it knows.
            other: origin of its log.

        Raises:
            LedgerError: it knows more leaves than there are: this store was restored from a backup; or it has
                no name.
            StoreError: the store fails.
        """
        check_origin(other)
        origin = self.origin
        if known > (number := self.known(origin)):
            raise LedgerError(
                f"{origin} has {number} heads and {other} knows {known}: the store is older than what it "
                "signed, or another's",
                _KEEP,
            )
        leaves = (self._store.get(LEAVES + origin) or b"")[known * LEAF_BYTES :]
        return replace(self.last() or Head(""), leaves=leaves, known=self.known(other))

    def last(self) -> Head | None:
        """The last head, without leaves and without others' signatures; None before the first.

        It may be from before this party's key was replaced: then it comes with the certificate of that time.

        Raises:
            StoreError: the store fails.
        """
        origin, own = self.origin, self._identity()
        note = self._store.get(f"{NOTES}{origin}/{self.known(origin):012}")
        if note is None:
            return None
        lines = note.decode().splitlines(keepends=True)
        shown = [line for line in lines if not line.startswith("— ") or line.startswith(f"— {origin} ")]
        if own is None:
            return Head("".join(shown))
        return Head("".join(shown), certificates=chain_of_signer(note.decode(), origin, self._chains(own)))

    def _chains(self, own: Identity) -> Iterator[bytes]:
        """This party's chain, then all that are kept, one for each owner: listed for an older key alone."""
        yield own.certificate
        for key in self._store.keys(CERTIFICATES):
            yield self._store.get(key) or b""

    def check(self) -> None:
        """Hold the ledger to the last head that was made of it.

        Raises:
            LedgerError: lines that the head stands for are gone, or others.
            StoreError: the store fails.
        """
        origin = self.origin
        kept = self._store.get(f"{OPENINGS}{origin}/{self.known(origin):012}")
        if kept is None:  # none was made, or `fedkme owner resync` gave it back without its opening
            return
        opening = json.loads(kept)
        lines = self._store.ledger(opening["entries"] - 1) if opening["entries"] else []
        if opening["entries"] and not (lines and f'"hash":"{opening["hash"]}"' in lines[0].line):
            raise LedgerError(f"the ledger of {origin} is not that of which its last head was made", _KEEP)

    def recall(self, head: Head, whose: str) -> None:
        """Hold the head that a party comes with to those that it showed before; nothing is kept.

        Args:
            head: its last, without leaves; with an empty note where it has none.
            whose: origin of the party.

        Raises:
            LedgerError: it has fewer heads than before, or others: its store is not the one that it had.
            StoreError: this party's store fails.
        """
        if not (known := self.known(whose)):
            return
        size = 0
        if head.note:
            checkpoint = self._signed(head, whose)
            leaves = self._store.get(LEAVES + whose) or b""
            size = checkpoint.size
            if size > known or (size == known and checkpoint.root == root_of(split(leaves))):
                return
        cause = f"{whose} comes with {size} of its ledger's heads and showed {known}, or others"
        raise LedgerError(f"{cause}: its journal is gone, older, or another's", _RESYNC)

    def keep(self, head: Head, whose: str) -> Checkpoint:
        """Keep another party's head, if it follows from those that came before.

        Args:
            head: as it was shown.
            whose: origin of the party that it should be of, or its beginning up to the name.

        Raises:
            LedgerError: it is another's, is not signed, or does not follow: it is kept as evidence.
            StoreError: the store fails.
        """
        checkpoint = self._signed(head, whose)
        origin = checkpoint.origin
        before = self._store.get(LEAVES + origin) or b""
        leaves = before + head.leaves
        fault = ""
        if checkpoint.size < len(before) // LEAF_BYTES:
            fault = f"has {checkpoint.size} heads and had {len(before) // LEAF_BYTES}"
        elif len(leaves) != checkpoint.size * LEAF_BYTES or root_of(split(leaves)) != checkpoint.root:
            fault = f"has a head of {checkpoint.size} leaves that does not follow from those before"
        self._keep(head, checkpoint, fault, leaves)
        self._heard[origin] = checkpoint
        return checkpoint

    def keep_note(self, head: Head, whose: str) -> None:
        """Keep another party's head that comes without leaves, for an auditor to hold its log against.

        Args:
            head: as it was shown.
            whose: see `keep`.

        Raises:
            LedgerError: it is another's, is not signed, or has fewer leaves than one before or another root
                over as many: it is kept as evidence.
            StoreError: the store fails.
        """
        checkpoint = self._signed(head, whose)
        before, fault = self._noted(checkpoint.origin), ""
        if before is not None and checkpoint.size < before.size:
            fault = f"has {checkpoint.size} heads and had {before.size}"
        elif before is not None and checkpoint.size == before.size and checkpoint.root != before.root:
            fault = f"has two heads of {before.size} leaves"
        self._keep(head, checkpoint, fault)

    def _noted(self, origin: str) -> Checkpoint | None:
        """The latest head of a log of which notes alone are kept; evidence is at places below."""
        prefix = f"{NOTES}{origin}/"
        kept = [key for key in self._store.keys(prefix) if "/" not in key.removeprefix(prefix)]
        return read_note((self._store.get(max(kept)) or b"").decode())[0] if kept else None

    def _signed(self, head: Head, whose: str) -> Checkpoint:
        """The checkpoint of a head, of whom it should be and with its signature."""
        checkpoint, signatures = read_note(head.note)
        own, origin = self._identity(), checkpoint.origin
        if origin != whose and not (whose.endswith("/") and origin.startswith(whose)):
            raise LedgerError(f"{whose} shows a head of {origin}", _KEEP)
        if own is not None:
            check_signature(checkpoint, signatures, origin, chains_of(head.certificates), own.authority)
        return checkpoint

    def _keep(self, head: Head, checkpoint: Checkpoint, fault: str, leaves: bytes = b"") -> None:
        """Keep a head with the leaves of its log, or as evidence where it has a fault.

        Raises:
            LedgerError: it has.
        """
        origin = checkpoint.origin
        place = f"{origin}/{checkpoint.size:012}"
        if fault:
            place += f"/{checkpoint.root.hex()[:16]}"
            if len(self._store.keys(f"{NOTES}{origin}/")) > checkpoint.size + MOST_EVIDENCE:
                place = ""
        with self._store.transaction():
            if place:
                self._put_note(place, head)
            if leaves and not fault:
                self._store.put(LEAVES + origin, leaves)
        if fault:
            raise LedgerError(f"{origin} {fault}: its ledger was cut, changed or restored", _KEEP)

    def cosign(self, checkpoint: Checkpoint) -> Cosignature:
        """Sign a head of another that was kept.

        Raises:
            LedgerError: the key is not one of `fedkme pki`.
        """
        own = self._identity()
        if own is None:
            return Cosignature()
        return Cosignature(signature_line(checkpoint, self.origin, own), own.certificate)

    def add(self, said: Mapping[str, Cosignature]) -> dict[str, LedgerError]:
        """Keep others' signatures below this party's last head, all at once: a note may have thousands.

        Args:
            said: what others gave for this head, by the origins of their logs.

        Returns:
            Why those are not kept that are not of this head, or not of this party, by origin.

        Raises:
            StoreError: the store fails.
        """
        own, refused = self._identity(), dict[str, LedgerError]()
        if own is None:
            return refused
        place = f"{NOTES}{self.origin}/{self.known(self.origin):012}"
        note = (self._store.get(place) or b"").decode()
        checkpoint, _ = read_note(note)
        lines, kept = dict.fromkeys(note.splitlines(keepends=True)), []
        for origin, one in said.items():
            try:
                _, signatures = read_note(f"{checkpoint.text}\n{one.line}")
                check_signature(
                    checkpoint, signatures[-1:], origin, chains_of(one.certificates), own.authority
                )
            except LedgerError as error:
                refused[origin] = error
                continue
            lines |= dict.fromkeys(one.line.splitlines(keepends=True)[-1:])  # it may have sent others' too
            kept.append(one.certificates)
        with self._store.transaction():
            self._store.put(place, "".join(lines).encode())
            for chain in kept:
                self._put_chain(chain)
        return refused

    def _put_note(self, place: str, head: Head) -> None:
        self._store.put(NOTES + place, head.note.encode())
        self._put_chain(head.certificates)

    def _put_chain(self, chain: bytes) -> None:
        if chain and self._store.get(key := CERTIFICATES + sha256(chain).hexdigest()) is None:
            self._store.put(key, chain)


def split(leaves: bytes) -> list[bytes]:
    """Leaves one by one."""
    return [leaves[start : start + LEAF_BYTES] for start in range(0, len(leaves), LEAF_BYTES)]


def canonical(opening: object) -> bytes:
    """The one spelling of an opening."""
    return json.dumps(opening, sort_keys=True, separators=(",", ":")).encode("ascii")


def commitment(opening: bytes) -> bytes:
    """The leaf that an opening is of."""
    return sha256(opening).digest()
