"""A curator and owners with ledgers and logs of heads, run after run; and files that an auditor gets."""

from __future__ import annotations

import functools
import random
from collections.abc import Sequence
from pathlib import Path

from fedkme.heads.files import write_heads
from fedkme.heads.log import Head, HeadLog
from fedkme.heads.notes import Checkpoint, origin_of, read_note
from fedkme.pki.authority import Authority
from fedkme.pki.certificates import Role
from fedkme.pki.identity import Identity
from fedkme.privacy.events import CURATOR, Disclosure, ExactStatistic
from fedkme.privacy.ledger import Ledger, stored_ledger
from fedkme.store.memory import MemoryStore

OWNERS = ("owner-1", "owner-2", "owner-3")
NAMES = (CURATOR, *OWNERS)


@functools.cache
def authority() -> Authority:
    return Authority()


@functools.cache
def identity(name: str) -> Identity:
    """Identity of a party; a forger signs with it too."""
    return authority().issue(name, role=role_of(name))


def role_of(name: str) -> Role:
    return Role.CURATOR if name == CURATOR else Role.OWNER


def origin(name: str) -> str:
    return origin_of(role_of(name), name)


def disclosure(run: str, owner: str, number: int) -> Disclosure:
    event = ExactStatistic(f"statistic {number}")
    return Disclosure(run, 1, owner, CURATOR, event, "replace-one", None, f"sums {number}")


def copied(store: MemoryStore) -> MemoryStore:
    """A backup of a store's ledger and heads."""
    copy = MemoryStore(store._name)
    copy.extend_ledger([line.line for line in store.ledger()])
    for key in store.keys(""):
        copy.put(key, store.get(key) or b"")
    return copy


def unopened(head: Head) -> Head:
    """All that a head says before it is opened, log and sizes: leaves are commitments under random salts."""
    checkpoint, _ = read_note(head.note)
    blank = Checkpoint(checkpoint.origin, checkpoint.size, bytes(32))
    return Head(blank.text, bytes(len(head.leaves)), head.known)


class Party:
    """A party with a ledger and a log of heads in memory."""

    def __init__(self, name: str, certified: bool = True, store: MemoryStore | None = None) -> None:
        self.name = name
        self.store = store or MemoryStore(name)
        self.ledger: Ledger = stored_ledger(name, self.store)
        own = identity(name) if certified else None
        self.heads = HeadLog(role_of(name), name, self.ledger, self.store, lambda: own)

    def write(self, folder: Path) -> None:
        path = folder / f"{self.name}.jsonl"
        path.write_text("".join(f"{line.line}\n" for line in self.store.ledger()), encoding="ascii")
        write_heads(self.store, path)


def exchange(curator: Party, owners: Sequence[Party], run: str, signed: str | None = None) -> None:
    """Exchange heads at the end of a run, which the curator's own head may call otherwise."""
    ours, shown = curator.heads, list[tuple[HeadLog, Head]]()
    for theirs in (owner.heads for owner in owners):
        theirs.advance(run)
        shown.append((theirs, theirs.show(ours.known(theirs.origin), ours.origin)))
        ours.keep(shown[-1][1], theirs.origin)
    ours.advance(run if signed is None else signed)
    for theirs, head in shown:
        checkpoint = theirs.keep(ours.show(head.known, theirs.origin), origin_of(Role.CURATOR, ""))
        assert not ours.add({theirs.origin: theirs.cosign(checkpoint)})


class Village:
    """All parties; `run` is one run with its exchange of heads."""

    def __init__(self, certified: bool = True, seed: int = 0) -> None:
        self.parties = {name: Party(name, certified) for name in NAMES}
        self.random = random.Random(seed)
        self.runs = 0

    def run(self, owners: Sequence[str] = OWNERS) -> None:
        self.runs += 1
        curator = self.parties[CURATOR]
        for name in owners:
            lines = [disclosure(f"run-{self.runs}", name, n) for n in range(self.random.randint(1, 4))]
            self.parties[name].ledger.extend(lines)
            curator.ledger.extend(lines)
        self.exchange(owners)

    def exchange(self, owners: Sequence[str] = OWNERS) -> None:
        exchange(self.parties[CURATOR], [self.parties[name] for name in owners], f"run-{self.runs}")

    def write(self, folder: Path) -> list[Path]:
        folder.mkdir(exist_ok=True)
        for party in self.parties.values():
            party.write(folder)
        return sorted(folder.iterdir())
