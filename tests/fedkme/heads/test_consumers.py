"""Issue 12, item B10: heads of the curator that consumers keep, without leaves."""

from __future__ import annotations

import functools
import random
from pathlib import Path

import pytest

from fedkme.errors import LedgerError
from fedkme.heads.files import write_heads
from fedkme.heads.log import LEAVES, NOTES, Head, HeadLog
from fedkme.heads.notes import CURATORS, read_note
from fedkme.pki.certificates import Role
from fedkme.pki.identity import Identity
from fedkme.privacy.events import CURATOR
from fedkme.privacy.ledger import stored_ledger
from fedkme.store.memory import MemoryStore
from tests.fedkme.heads.test_heads import CHANGES, faults, rewrite
from tests.fedkme.heads.village import OWNERS, Party, Village, authority, copied, origin


@functools.cache
def certificate(name: str) -> Identity:
    return authority().issue(name, role=Role.CONSUMER)


class Consumer:
    """A consumer with a store in memory."""

    def __init__(self, name: str = "lab") -> None:
        self.name = name
        self.store = MemoryStore(name)
        ledger = stored_ledger(name, self.store)
        self.heads = HeadLog(Role.CONSUMER, name, ledger, self.store, lambda: certificate(name))

    def hear(self, curator: Party) -> Head:
        """Keep the curator's last head."""
        head = curator.heads.last()
        assert head is not None
        self.heads.keep_note(head, CURATORS)
        return head

    def write(self, folder: Path) -> None:
        (folder / f"{self.name}.jsonl").touch()
        write_heads(self.store, folder / f"{self.name}.jsonl")


def test_a_consumer_receives_a_signed_counter_and_root() -> None:
    # Names of owners are none of a consumer's business, nor is how many of them were there.
    village, consumer = Village(), Consumer()
    assert village.parties[CURATOR].heads.last() is None
    village.run()
    head = consumer.hear(village.parties[CURATOR])
    checkpoint, signatures = read_note(head.note)
    assert (checkpoint.size, head.leaves, head.known) == (1, b"", 0)
    assert [name for name, _ in signatures] == [origin(CURATOR)]
    assert not any(name in head.note for name in OWNERS)
    assert not consumer.store.keys(LEAVES)


def test_a_consumer_notices_a_restored_backup_and_a_second_ledger() -> None:
    village, consumer = Village(), Consumer()
    village.run()
    curator = village.parties[CURATOR]
    backup, twin = (Party(CURATOR, store=copied(curator.store)) for _ in range(2))
    village.run()
    consumer.hear(curator)
    consumer.hear(curator)  # of a run that is watched again
    with pytest.raises(LedgerError, match="has 1 heads and had 2"):
        consumer.hear(backup)
    twin.heads.advance()
    with pytest.raises(LedgerError, match="has two heads of 2 leaves"):
        consumer.hear(twin)
    assert len(consumer.store.keys(NOTES)) == 3  # two of them as evidence
    village.run()
    consumer.hear(curator)


def test_a_head_of_another_party_or_without_signature_is_not_stored() -> None:
    village, consumer = Village(), Consumer()
    village.run()
    head = village.parties[CURATOR].heads.last()
    assert head is not None
    unsigned = Head(head.note[: head.note.index("\n\n") + 2], certificates=head.certificates)
    for wrong in (village.parties[OWNERS[0]].heads.last(), unsigned, Head("")):
        assert wrong is not None
        with pytest.raises(LedgerError):
            consumer.heads.keep_note(wrong, CURATORS)
    assert not consumer.store.keys(NOTES)


@pytest.mark.parametrize("what", CHANGES)
def test_a_consumer_s_heads_expose_a_change_by_the_curator_and_all_owners(what: str, tmp_path: Path) -> None:
    # Nine of each kind: 36 of 36 are found by a consumer's file, and none without it.
    draw = random.Random(what)
    for number in range(9):
        village, consumer = Village(seed=number), Consumer()
        for _ in range(3):
            village.run()
            consumer.hear(village.parties[CURATOR])
        folder = tmp_path / str(number)
        for path in village.write(folder):
            if path.stem != CURATOR:
                path.unlink()
        rewrite(village.parties[CURATOR], folder, what, draw)
        assert faults(folder) == ([], [])
        consumer.write(folder)
        ours, theirs = faults(folder)
        assert ours, number
        assert theirs, number


def test_heads_of_several_consumers_are_compared_with_each_other(tmp_path: Path) -> None:
    # Where the curator's own files are not given: an owner may have missed the last run.
    village, consumer, other = Village(), Consumer(), Consumer("clinic")
    village.run()
    curator = village.parties[CURATOR]
    twin = Party(CURATOR, store=copied(curator.store))
    village.run(OWNERS[:2])
    consumer.hear(curator)
    for path in village.write(tmp_path):
        if path.stem != OWNERS[2]:
            path.unlink()
    consumer.write(tmp_path)
    assert faults(tmp_path) == ([], [])
    twin.heads.advance()
    other.hear(twin)
    other.write(tmp_path)
    ours, theirs = faults(tmp_path)
    assert len(ours) == len(theirs) == 1
