"""Issue 12, item B10: heads that are signed, witnessed, and held against ledgers."""

from __future__ import annotations

import base64
import hashlib
import json
import random
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from typing_extensions import override

from fedkme.errors import LedgerError
from fedkme.heads.log import Head, HeadLog
from fedkme.heads.notes import MOST_BYTES, Checkpoint, check_signature, read_note, root_of, roots_of
from fedkme.ledgers.witnesses import check_files
from fedkme.pki.authority import Authority
from fedkme.pki.certificates import Role
from fedkme.privacy.events import CURATOR
from fedkme.privacy.ledger import read_ledger
from fedkme.store.memory import MemoryStore
from tests.fedkme.heads.village import (
    NAMES,
    OWNERS,
    Party,
    Village,
    authority,
    copied,
    disclosure,
    identity,
    origin,
    role_of,
)
from tools.verify_ledger import verify


def faults(folder: Path) -> tuple[list[str], list[str]]:
    """Findings of `fedkme audit verify` and of the independent verifier about a folder's files."""
    ours = [
        each.fault for each in check_files(list(folder.glob("*.jsonl")), (), authority().pem) if each.fault
    ]
    theirs = verify(sorted(folder.iterdir()), authority().pem)
    return ours, [line for line in theirs if line.startswith("FAULT")]


@pytest.fixture(scope="module")
def village() -> Village:
    village = Village()
    for owners in (OWNERS, OWNERS[:2], OWNERS, OWNERS[1:], OWNERS):
        village.run(owners)
    return village


def test_a_note_is_a_checkpoint_of_c2sp(village: Village) -> None:
    # Three lines, a blank one, and signatures of type 0x02 (ECDSA, the key's number of its DER form).
    note = village.parties["owner-1"].heads.show(0, origin(CURATOR)).note
    text, _, below = note.partition("\n\n")
    first, size, root = text.split("\n")
    assert first == "fedkme.ledger/owner/owner-1"
    assert int(size) == village.parties["owner-1"].heads.known(first)
    assert len(base64.b64decode(root)) == 32
    dash, key, signature = below.removesuffix("\n").split(" ")
    assert (dash, key) == ("—", first)
    from cryptography.hazmat.primitives import serialization

    der = (
        identity("owner-1")
        .leaf.public_key()
        .public_bytes(serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo)
    )
    assert base64.b64decode(signature)[:4] == hashlib.sha256(der).digest()[:4]


def test_roots_are_those_of_rfc_6962() -> None:
    # Section 2.1, by its own words: split at the largest power of two below the number.
    def root(leaves: list[bytes]) -> bytes:
        if len(leaves) < 2:
            return hashlib.sha256(b"\0" + leaves[0] if leaves else b"").digest()
        middle = 1 << (len(leaves) - 1).bit_length() - 1
        return hashlib.sha256(b"\1" + root(leaves[:middle]) + root(leaves[middle:])).digest()

    leaves = [hashlib.sha256(bytes([number])).digest() for number in range(33)]
    assert list(roots_of(leaves)) == [root(leaves[:size]) for size in range(34)]
    assert root_of(leaves) == root(leaves)


def test_a_head_shows_others_a_counter_and_a_root_alone(village: Village) -> None:
    # Lines of a ledger, and their number, follow from private rows: only the opening has them.
    line = village.parties["owner-1"].store.ledger()[-1]
    for other in (CURATOR, "owner-2"):
        store = village.parties[other].store
        stored = b"".join(store.get(key) or b"" for key in store.keys("head/") if "/opening/" not in key)
        assert json.loads(line.line)["hash"].encode() not in stored
    counts = []
    for lines in (0, 50):  # the counter is of exchanges, whatever was written
        party = Party("owner-1")
        party.ledger.extend([disclosure("run-1", "owner-1", n) for n in range(lines)])
        party.heads.advance()
        shown = party.heads.show(0, origin(CURATOR))
        counts.append((read_note(shown.note)[0].size, len(shown.leaves)))
    assert counts == [(1, 32), (1, 32)]


def test_heads_of_honest_parties_agree(village: Village, tmp_path: Path) -> None:
    paths = village.write(tmp_path)
    assert faults(tmp_path) == ([], [])
    assert len(paths) == 8
    # a head's openings say what its commitments hide
    assert not [file for file in tmp_path.glob("*.heads") if file.stat().st_mode & 0o077]
    checkpoint, signatures = read_note(
        next(note for note in _notes(tmp_path / "curator.heads", CURATOR)[-1:])
    )
    chains = [identity(name).certificate for name in NAMES]
    for signer in (CURATOR, *OWNERS):
        check_signature(checkpoint, signatures, origin(signer), chains, authority().pem)


def test_without_certificates_heads_are_exchanged_and_compared(tmp_path: Path) -> None:
    village = Village(certified=False)
    village.run()
    village.run()
    village.write(tmp_path)
    ledgers = sorted(tmp_path.glob("*.jsonl"))
    assert not [each for each in check_files(ledgers) if each.fault]
    assert not [line for line in verify(sorted(tmp_path.iterdir())) if line.startswith("FAULT")]
    assert [each for each in check_files(ledgers, (), authority().pem) if each.fault]


def _notes(path: Path, name: str) -> list[str]:
    lines = [json.loads(line) for line in path.read_text(encoding="ascii").splitlines()]
    notes = [line["note"] for line in lines if "note" in line]
    return [note for note in notes if note.startswith(origin(name) + "\n")]


LIES: dict[str, Callable[[Head, Party], Head]] = {
    "another's": lambda head, liar: Head(
        head.note.replace("owner-1", "owner-2", 1), head.leaves, 0, head.certificates
    ),
    "unsigned": lambda head, liar: Head(head.note.partition("\n\n")[0] + "\n\n", head.leaves, 0, b""),
    "another size": lambda head, liar: Head(
        head.note.replace("\n2\n", "\n3\n", 1), head.leaves, 0, head.certificates
    ),
    "no leaves": lambda head, liar: Head(head.note, b"", 0, head.certificates),
    "other leaves": lambda head, liar: Head(head.note, bytes(len(head.leaves)), 0, head.certificates),
    "a stranger's certificate": lambda head, liar: Head(
        head.note, head.leaves, 0, Authority().issue("owner-1", role=Role.OWNER).certificate
    ),
    "no note": lambda head, liar: Head("hello", head.leaves, 0, head.certificates),
    "a chain without end": lambda head, liar: Head(
        head.note, head.leaves, 0, head.certificates + bytes(MOST_BYTES)
    ),
    "no certificate": lambda head, liar: Head(head.note, head.leaves, 0, b"nothing"),
}


@pytest.mark.parametrize("lie", LIES)
def test_an_invalid_head_is_not_stored(lie: str) -> None:
    village = Village()
    village.run()
    liar, curator = village.parties["owner-1"], village.parties[CURATOR].heads
    liar.ledger.extend([disclosure("run-2", "owner-1", 0)])
    liar.heads.advance()
    head = liar.heads.show(curator.known(liar.heads.origin), curator.origin)
    with pytest.raises(LedgerError):
        curator.keep(LIES[lie](head, liar), liar.heads.origin)
    assert curator.known(liar.heads.origin) == 1
    curator.keep(head, liar.heads.origin)


def test_both_sides_notice_a_store_restored_from_a_backup() -> None:
    # "a restored backup (a counter against rollback)": online, at the next exchange.
    village = Village()
    village.run()
    backup = copied(village.parties["owner-1"].store)
    village.run()
    old, curator = Party("owner-1", store=backup), village.parties[CURATOR].heads
    with pytest.raises(LedgerError, match="the store is older than what it signed"):
        old.heads.show(curator.known(old.heads.origin), curator.origin)
    with pytest.raises(LedgerError, match="has 1 heads and had 2"):
        curator.keep(old.heads.show(0, curator.origin), old.heads.origin)


def test_a_party_with_two_ledgers_gets_no_cosignature() -> None:
    # A fork of the curator's: one to owner-1, another to owner-2.
    village = Village()
    village.run()
    forked = Village()
    forked.parties = {**village.parties, CURATOR: Party(CURATOR)}
    with pytest.raises(LedgerError):
        forked.run()


def change(folder: Path, kind: str, draw: random.Random) -> None:
    """Plant one change in the files of a village, by parties that sign whatever they want."""
    village = Village(seed=draw.randrange(2**32))
    for _ in range(draw.randint(2, 4)):
        village.run(sorted(draw.sample(OWNERS, draw.randint(2, 3))))
    village.run()
    village.write(folder)
    victims = {"curator": [CURATOR], "owner": [draw.choice(OWNERS)], "both": [CURATOR, draw.choice(OWNERS)]}
    what, who = kind.split(" by ")
    for name in victims[who]:
        rewrite(village.parties[name], folder, what, draw)


def rewrite(party: Party, folder: Path, what: str, draw: random.Random) -> None:
    """Make a party's files again after a change of its ledger, with heads signed again."""
    lines = [entry.disclosure for entry in read_ledger(folder / f"{party.name}.jsonl")]
    openings = [json.loads(party.store.get(key) or b"") for key in party.store.keys("head/opening/")]
    at = draw.randrange(openings[-1]["entries"])
    if what == "a rewritten line":
        lines[at] = disclosure("run-1", lines[at].protected, 99)
    elif what == "a dropped line":
        del lines[at]
    elif what == "a dropped tail":
        del lines[at:]
    forged = Party(party.name)
    if what == "a restored backup":
        last = openings[draw.randrange(len(openings) - 1)]
        forged.ledger.extend(lines[: last["entries"]])
        forged.write(folder)
        keep = int(last["number"])
        text = (folder / f"{party.name}.heads").read_text(encoding="ascii")
        write_backup(party, folder, keep, text)
        return
    last_end = 0
    for opening in openings:  # as often as before, each over what there is of the ledger then
        end = min(opening["entries"], len(lines))
        forged.ledger.extend(lines[last_end:end])
        last_end = max(last_end, end)
        forged.heads.advance()
    forged.ledger.extend(lines[last_end:])
    for key in party.store.keys("head/"):  # what it keeps of others stays
        if forged.store.get(key) is None and origin(party.name) not in key:
            forged.store.put(key, party.store.get(key) or b"")
    forged.write(folder)


def write_backup(party: Party, folder: Path, keep: int, _: str) -> None:
    """The heads of a store as it was after some head."""
    old = Party(party.name)
    for key in party.store.keys("head/"):
        value = party.store.get(key) or b""
        if key.startswith(("head/opening/", "head/note/")) and origin(party.name) in key:
            if int(key.rpartition("/")[2]) > keep:
                continue
        elif key == f"head/leaves/{origin(party.name)}":
            value = value[: 32 * keep]
        old.store.put(key, value)
    from fedkme.heads.files import write_heads

    write_heads(old.store, folder / f"{party.name}.jsonl")


CHANGES = ("a rewritten line", "a dropped line", "a dropped tail", "a restored backup")
KINDS = [f"{what} by {who}" for what in CHANGES for who in ("curator", "owner", "both")]


@pytest.mark.parametrize("kind", KINDS)
def test_all_100_planted_changes_are_detected(kind: str, tmp_path: Path) -> None:
    # Twelve kinds, nine of each: 108 of 108, also where the curator and an owner change theirs together,
    # since others keep their heads; by our verifier and by the independent one.
    draw = random.Random(kind)
    for number in range(9):
        folder = tmp_path / str(number)
        folder.mkdir()
        change(folder, kind, draw)
        ours, theirs = faults(folder)
        assert ours, number
        assert theirs, number
        shutil.rmtree(folder)


def test_a_checkpoint_s_text_is_one_line_each() -> None:
    assert Checkpoint(origin("owner-1"), 0, bytes(32)).text.count("\n") == 3
    for note in ("", "\n\n", "fedkme.ledger/owner/a\n01\n" + "A" * 43 + "=\n\n"):
        with pytest.raises(LedgerError):
            read_note(note)


@pytest.mark.parametrize("name", ["owner-1", CURATOR])
def test_a_party_with_a_new_key_keeps_its_log(name: str) -> None:
    # A key was lost or revoked: the last head is of the old one, and the next of the new one (docs/pki.md).
    party, other = Party(name), Party(CURATOR if name != CURATOR else "owner-2")
    party.heads.advance()
    other.heads.keep(party.heads.show(0, other.heads.origin), origin(name))
    identities = [authority().issue(name, role=role_of(name))]
    renewed = HeadLog(role_of(name), name, party.ledger, party.store, lambda: identities[-1])
    shown = renewed.last()
    assert shown is not None
    other.heads.recall(shown, origin(name))
    other.heads.keep(renewed.show(1, other.heads.origin), origin(name))
    renewed.advance()
    shown = renewed.show(1, other.heads.origin)
    assert shown.certificates == identities[-1].certificate
    other.heads.keep(shown, origin(name))
    assert other.heads.known(origin(name)) == 2
    stranger = HeadLog(role_of("owner-3"), "owner-3", party.ledger, party.store, lambda: identity("owner-3"))
    with pytest.raises(LedgerError):
        other.heads.recall(stranger.last() or Head(""), origin(name))


class ListedStore(MemoryStore):
    """A store that counts how often its keys are listed."""

    lists = 0

    @override
    def keys(self, prefix: str = "") -> list[str]:
        self.lists += 1
        return super().keys(prefix)


def test_showing_a_head_does_not_list_all_stored_certificates() -> None:
    """The curator shows its head to each owner and keeps the certificate of each: issue 15, item 2."""
    store, other = ListedStore(CURATOR), Party("owner-2")
    party = Party(CURATOR, store=store)
    party.heads.advance()
    before = store.lists
    shown = party.heads.show(0, other.heads.origin)
    assert other.heads.keep(shown, origin(CURATOR)).size == 1
    assert store.lists == before
