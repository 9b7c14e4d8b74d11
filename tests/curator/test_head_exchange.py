"""Exchange of heads when a run is over: failures of owners, and failures of the curator itself."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from curator.owners.connection import Traffic
from curator.owners.exchanges import HeadExchange
from fedkme.directives import Answer, Body, Directive, KeepHead, Limits, ShowHead
from fedkme.errors import OwnerLostError, StoreError
from fedkme.heads.log import LEAVES, NOTES, Head, HeadLog
from fedkme.heads.notes import Checkpoint
from fedkme.pki.certificates import Role
from fedkme.pki.identity import Identity
from fedkme.privacy.events import CURATOR
from fedkme.privacy.ledger import stored_ledger
from fedkme.store.memory import MemoryStore
from owner.party import OwnerParty
from owner.runs import RunManager
from sim.engines.inprocess import open_market
from sim.engines.loopback import Loopback
from tests.curator.summary.fakes import SCHEMA, table
from tests.fedkme.heads.village import OWNERS, identity, origin
from tests.parties import WAIT_S


class FullDisk(MemoryStore):
    """A store that has no room for some facts."""

    room: Callable[[str, bytes], bool] = staticmethod(lambda key, value: True)

    def put(self, key: str, value: bytes) -> None:
        if not self.room(key, value):
            raise StoreError("the disk is full", "Make room.")
        super().put(key, value)


class Exchange:
    """A curator, its store, what it said, and owners with certificates."""

    def __init__(self, own: Identity) -> None:
        self.reports: list[tuple[str, dict[str, Any]]] = []
        self.store = FullDisk(CURATOR)
        log = HeadLog(Role.CURATOR, CURATOR, stored_ledger(CURATOR, self.store), self.store, lambda: own)
        self._heads = HeadExchange(log, lambda event, **fields: self.reports.append((event, fields)))
        tables = {name: table(4, place) for place, name in enumerate(OWNERS)}
        self._owners = open_market(SCHEMA, tables, None, 0, opened=certified)

    async def after(self, run: str) -> None:
        await self._heads.after(run, [self._owners.members.connection(name) for name in OWNERS])


async def goes_on(exchange: Exchange) -> None:
    """Check that an exchange stops at a full disk, and says nothing of owners once there is room."""
    with pytest.raises(StoreError, match="the disk is full"):
        await exchange.after("run-1")
    exchange.store.room = lambda key, value: True
    await exchange.after("run-1")
    assert not exchange.reports


def certified(party: OwnerParty) -> RunManager:
    return RunManager(replace(party, identity=lambda: identity(party.name)))


@pytest.mark.parametrize(
    "room",
    [
        lambda key, value: not key.startswith(LEAVES + origin(OWNERS[1])),
        lambda key, value: not key.startswith(LEAVES + origin(CURATOR)),
        lambda key, value: not key.startswith(NOTES + origin(CURATOR)) or value.count(b"fedkme.") < 3,
    ],
    ids=["owner's head", "own head", "owner's signature"],
)
async def test_a_full_disk_of_the_curator_is_not_an_owners_fault(room: Callable[[str, bytes], bool]) -> None:
    # HeadExchange.after: "StoreError: the curator's store fails"; the run is left for a later process, which
    # exchanges heads again.
    exchange = Exchange(identity(CURATOR))
    exchange.store.room = room
    await goes_on(exchange)
    (*_, last) = exchange.store.keys(NOTES + origin(CURATOR))
    assert (exchange.store.get(last) or b"").count("\n— fedkme.ledger/".encode()) == 1 + len(OWNERS)


async def test_a_full_disk_leaves_no_head_to_be_kept_beside_the_next_exchange(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # A thread kept the head of another owner while the next exchange asked for it: "does not follow".
    keep = HeadLog.keep

    def slowly(log: HeadLog, head: Head, whose: str) -> Checkpoint:
        if whose == origin(OWNERS[-1]):
            time.sleep(0.2)
        return keep(log, head, whose)

    monkeypatch.setattr(HeadLog, "keep", slowly)
    exchange = Exchange(identity(CURATOR))
    exchange.store.room = lambda key, value: not key.startswith(LEAVES + origin(OWNERS[0]))
    await goes_on(exchange)


async def test_a_key_of_another_kind_is_reported_once_and_of_no_owner() -> None:
    # A curator whose key is not one of `fedkme pki` signs no head; its run ends as it would have.
    key = Ed25519PrivateKey.generate().private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    exchange = Exchange(replace(identity(CURATOR), key=key))
    await exchange.after("run-1")
    ((event, fields),) = exchange.reports
    assert (event, fields["run"], fields["round"], fields["code"]) == ("unwitnessed", "run-1", 0, 50)
    assert "owner" not in fields
    assert "not on an elliptic curve" in fields["line"]


async def test_owners_heads_are_hashed_beside_the_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    # A head with 250,000 leaves took 1.3 s of the loop that serves all owners.
    keep, beside = HeadLog.keep, dict[str, bool]()

    def kept(log: HeadLog, head: Head, whose: str) -> Checkpoint:
        beside[whose] = threading.current_thread() is not threading.main_thread()
        return keep(log, head, whose)

    monkeypatch.setattr(HeadLog, "keep", kept)
    await Exchange(identity(CURATOR)).after("run-1")
    assert all(beside[origin(name)] for name in OWNERS)


@pytest.mark.parametrize("kind", [ShowHead, KeepHead])
async def test_an_owner_that_is_silent_about_heads_keeps_nobody_waiting_for_long(
    kind: type[Body], monkeypatch: pytest.MonkeyPatch
) -> None:
    # The result was known, and its consumer waited for `progress_s`, a minute, without a word why.
    monkeypatch.setattr("curator.owners.exchanges.HEAD_S", 0.05)
    exchange, silent = Exchange(identity(CURATOR)), OWNERS[0]

    async def answer(self: Loopback, directive: Directive, limits: Limits, traffic: Traffic) -> Answer:
        if self.name == silent and isinstance(directive.body, kind):
            await asyncio.Event().wait()
        return await answered(self, directive, limits, traffic)

    answered = Loopback.exchange
    monkeypatch.setattr(Loopback, "exchange", answer)
    async with asyncio.timeout(WAIT_S):
        await exchange.after("run-1")
    ((event, fields),) = exchange.reports
    assert (event, fields["owner"], fields["code"]) == ("unwitnessed", silent, OwnerLostError.code)
    assert "no answer about a head within 0.05 s" in fields["line"]
    (*_, last) = exchange.store.keys(NOTES + origin(CURATOR))
    assert (exchange.store.get(last) or b"").count("\n— fedkme.ledger/".encode()) == len(OWNERS)
