"""Log of a party's heads, with copies of other parties' heads.

A leaf of the log stands for the ledger at one time, and for the other parties' heads that came since the
previous leaf. The leaf is a commitment: SHA-256 of an opening that contains 32 random bytes. The number of a
ledger's lines follows from private rows, so a leaf reveals nothing until an auditor gets the opening. Other
parties see the number of leaves alone: it grows by 1 a run at most, and never falls.
"""

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
"""Prefix of the keys under which a store keeps heads."""
LEAVES, OPENINGS, NOTES, CERTIFICATES = (f"{HEADS}{kind}/" for kind in ("leaves", "opening", "note", "chain"))
EXCHANGE = "/heads"
"""Suffix of the name under which the directives of a run's exchange of heads are sent."""
MOST_EVIDENCE = 64
"""Heads of one log kept as evidence although they contradict earlier heads, at most."""
_KEEP = "Keep the stores of both sides as evidence; `fedkme audit verify` says which lines are gone or other."
_RESYNC = (
    "Run `fedkme owner resync` with the curator's ledger (docs/deploy.md, Backup), which gives it back what "
    "it lost and charges it; `fedkme owner join --new-journal` goes on without, and nothing that was lost is "
    "charged."
)


@dataclass(frozen=True, slots=True)
class Head:
    """A party's head as another party sees it.

    Attributes:
        note: the signed note; without signatures in plaintext.
        leaves: leaves of the log that the other party does not have yet, 32 bytes each.
        known: number of leaves of the other party's log that this party has.
        certificates: PEM, the signer's first; empty in plaintext.
    """

    note: str
    leaves: bytes = b""
    known: int = 0
    certificates: bytes = b""


@dataclass(frozen=True, slots=True)
class Cosignature:
    """Signature by which a party confirms that another party's head follows from the earlier heads.

    Attributes:
        line: line of the note; empty in plaintext.
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
    ) -> None:
        """Continue the log in the store.

        Args:
            role: role of the party.
            name: name of the party if it has no certificate.
            ledger: ledger whose heads are logged.
            store: store of the log.
            identity: returns the party's current identity; None in plaintext.
        """
        self._role = role
        self._name = name
        self._ledger = ledger
        self._store = store
        self._identity = identity
        self._heard: dict[str, Checkpoint] = {}

    @property
    def origin(self) -> str:
        """Name of this log."""
        own = self._identity()
        return origin_of(self._role, self._name if own is None else name_of(own.leaf.subject))

    def known(self, origin: str) -> int:
        """Number of leaves that this party has of a log, its own or another's."""
        return len(self._store.get(LEAVES + origin) or b"") // LEAF_BYTES

    def advance(self, run: str = "") -> None:
        """Add a leaf for the ledger as it is now, and sign the head over it.

        Call this once an exchange, whether the ledger has new lines or not: the counter is public.

        Args:
            run: run at whose end heads are exchanged; the party cannot deny the run later.

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
        salt = secrets.token_bytes(32).hex()
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
        """The last head, for a party that has the log's first leaves.

        Args:
            known: number of leaves that the other party has.
            other: origin of the other party's log.

        Raises:
            LedgerError: the other party has more leaves than this log, whose store was restored from a
                backup; or the other party has no name.
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
        """The last head, without leaves and without others' signatures; None before the first head.

        A head that was signed before this party's key was replaced has the certificate of that time.

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
        """This party's chain, then every stored chain: read only if an older key signed the head."""
        yield own.certificate
        for key in self._store.keys(CERTIFICATES):
            yield self._store.get(key) or b""

    def check(self) -> None:
        """Check the ledger against its last head.

        Raises:
            LedgerError: lines that the head stands for are missing, or were changed.
            StoreError: the store fails.
        """
        origin = self.origin
        fact = self._store.get(f"{OPENINGS}{origin}/{self.known(origin):012}")
        if fact is None:  # there is no head, or `fedkme owner resync` restored it without its opening
            return
        opening = json.loads(fact)
        lines = self._store.ledger(opening["entries"] - 1) if opening["entries"] else []
        if opening["entries"] and not (lines and f'"hash":"{opening["hash"]}"' in lines[0].line):
            raise LedgerError(f"the ledger of {origin} does not match its last head", _KEEP)

    def recall(self, head: Head, whose: str) -> None:
        """Check a joining party's head against its earlier heads; store nothing.

        Args:
            head: the party's last head, without leaves; its note is empty if the party has no head.
            whose: origin of the party's log.

        Raises:
            LedgerError: the party has fewer heads than before, or different ones: its store was replaced.
            StoreError: this party's store fails.
        """
        if not (earlier := self.known(whose)):
            return
        size = 0
        if head.note:
            checkpoint = self._checkpoint_of(head, whose)
            size = checkpoint.size
            if size > earlier or (size == earlier and checkpoint.root == self._root_at(whose, earlier)):
                return
        cause = f"{whose} comes with {size} of its ledger's heads and showed {earlier}, or others"
        raise LedgerError(f"{cause}: its journal is gone, older, or another's", _RESYNC)

    def _root_at(self, origin: str, size: int) -> bytes:
        """Root of all stored leaves of a log: of its kept head, as hashing many leaves takes a second."""
        if note := self._store.get(f"{NOTES}{origin}/{size:012}"):
            return read_note(note.decode())[0].root
        return root_of(split(self._store.get(LEAVES + origin) or b""))

    def keep(self, head: Head, whose: str) -> Checkpoint:
        """Store another party's head if it follows from that party's earlier heads.

        Args:
            head: the head that the party showed.
            whose: expected origin of the head, or the origin's beginning up to the name.

        Raises:
            LedgerError: the head is another party's, is not signed, or does not follow from the earlier
                heads; then it is stored as evidence.
            StoreError: the store fails.
        """
        checkpoint = self._checkpoint_of(head, whose)
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
        """Store another party's head that comes without leaves; an auditor compares the log with it.

        Args:
            head: the head that the party showed.
            whose: see `keep`.

        Raises:
            LedgerError: the head is another party's or is not signed; or it has fewer leaves than an earlier
                head, or as many and another root: then it is stored as evidence.
            StoreError: the store fails.
        """
        checkpoint = self._checkpoint_of(head, whose)
        before, fault = self._last_note(checkpoint.origin), ""
        if before is not None and checkpoint.size < before.size:
            fault = f"has {checkpoint.size} heads and had {before.size}"
        elif before is not None and checkpoint.size == before.size and checkpoint.root != before.root:
            fault = f"has two heads of {before.size} leaves"
        self._keep(head, checkpoint, fault)

    def _last_note(self, origin: str) -> Checkpoint | None:
        """Latest head of a log whose leaves are not stored; keys of evidence have one more part."""
        prefix = f"{NOTES}{origin}/"
        places = [key for key in self._store.keys(prefix) if "/" not in key.removeprefix(prefix)]
        return read_note((self._store.get(max(places)) or b"").decode())[0] if places else None

    def _checkpoint_of(self, head: Head, whose: str) -> Checkpoint:
        """Checkpoint of a head whose origin and signature were checked."""
        checkpoint, signatures = read_note(head.note)
        own, origin = self._identity(), checkpoint.origin
        if origin != whose and not (whose.endswith("/") and origin.startswith(whose)):
            raise LedgerError(f"{whose} shows a head of {origin}", _KEEP)
        if own is not None:
            check_signature(checkpoint, signatures, origin, chains_of(head.certificates), own.authority)
        return checkpoint

    def _keep(self, head: Head, checkpoint: Checkpoint, fault: str, leaves: bytes = b"") -> None:
        """Store a head with the leaves of its log, or as evidence if it has a fault.

        Raises:
            LedgerError: the head has a fault.
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
        """Sign another party's head that was stored.

        Raises:
            LedgerError: the key is not one of `fedkme pki`.
        """
        own = self._identity()
        if own is None:
            return Cosignature()
        return Cosignature(signature_line(checkpoint, self.origin, own), own.certificate)

    def add(self, cosignatures: Mapping[str, Cosignature]) -> dict[str, LedgerError]:
        """Add others' signatures to this party's last head, all at once: a note may have thousands.

        Args:
            cosignatures: signatures of this head, by the origins of the signers' logs.

        Returns:
            Errors about the refused signatures (of another head or party), by origin.

        Raises:
            StoreError: the store fails.
        """
        own, refused = self._identity(), dict[str, LedgerError]()
        if own is None:
            return refused
        place = f"{NOTES}{self.origin}/{self.known(self.origin):012}"
        note = (self._store.get(place) or b"").decode()
        checkpoint, _ = read_note(note)
        lines, chains = dict.fromkeys(note.splitlines(keepends=True)), []
        for origin, cosignature in cosignatures.items():
            try:
                _, signatures = read_note(f"{checkpoint.text}\n{cosignature.line}")
                check_signature(
                    checkpoint, signatures[-1:], origin, chains_of(cosignature.certificates), own.authority
                )
            except LedgerError as error:
                refused[origin] = error
                continue
            # the last line alone is the signer's
            lines |= dict.fromkeys(cosignature.line.splitlines(keepends=True)[-1:])
            chains.append(cosignature.certificates)
        with self._store.transaction():
            self._store.put(place, "".join(lines).encode())
            for chain in chains:
                self._put_chain(chain)
        return refused

    def _put_note(self, place: str, head: Head) -> None:
        self._store.put(NOTES + place, head.note.encode())
        self._put_chain(head.certificates)

    def _put_chain(self, chain: bytes) -> None:
        if chain and self._store.get(key := CERTIFICATES + sha256(chain).hexdigest()) is None:
            self._store.put(key, chain)


def split(leaves: bytes) -> list[bytes]:
    """Split concatenated leaves."""
    return [leaves[start : start + LEAF_BYTES] for start in range(0, len(leaves), LEAF_BYTES)]


def canonical(opening: object) -> bytes:
    """Canonical JSON of an opening."""
    return json.dumps(opening, sort_keys=True, separators=(",", ":")).encode("ascii")


def commitment(opening: bytes) -> bytes:
    """Leaf that commits to an opening."""
    return sha256(opening).digest()
