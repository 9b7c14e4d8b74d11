"""Sealed rows at both ends: an owner's boxes and keys, and the keys that a consumer accepts."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from audit.attacks.wire import SilentObserver, loopback_to
from consumer.sealed_rows import RunKeys, opened
from curator.cells.disclosures import CellDisclosures
from curator.cells.run import CellTask, run_cells
from curator.owners.session import OwnerSession
from curator.run.summary_record import SummaryRecord
from curator.summary.task import HashedContent
from fedkme.cells.codebook import kmeans_book
from fedkme.cells.histogram import histogram_noise
from fedkme.cells.projection import spec_for
from fedkme.directives import AskHistogram, Body, Directive, FillOrder, Refusal
from fedkme.errors import FedkmeError, IdentityError, ProtocolError, SealedBoxError
from fedkme.features.fourier import FourierSpec
from fedkme.features.hashes import fault_of_hashes
from fedkme.party import noise_for
from fedkme.pki.authority import Authority
from fedkme.pki.certificates import Role
from fedkme.privacy.events import Disclosure
from fedkme.protocol import AuctionTerms, Broadcast, CellTerms, Invitation
from fedkme.sealed.offers import KeyOffer
from fedkme.sealed.rows import AnyRow, HashedRow, row_box_bytes
from fedkme.tables.schema import Label, Numeric, Schema
from fedkme.tables.table import Table
from fedkme.wire.directives import answer_to_wire
from fedkme.wire.journals import owner_entry_from_bytes, owner_entry_to_bytes
from owner.cells.handler import CellHandler
from owner.cells.responder import HistogramResponder
from owner.consent.gate import OwnerGate
from owner.keyring import KeyRing, Sealer
from owner.summary.bidder import Bidder

RUN = "run-1"
SCHEMA = Schema(
    columns=(Numeric(name="x", bounds=(0.0, 1.0), count=3),), label=Label(name="y", classes=("no", "yes"))
)
BOOK = kmeans_book(np.random.default_rng(0).random((40, 3)), 4, spec_for(SCHEMA, 3, 8), SCHEMA, 0)
NOISE = histogram_noise(1.0)


def table(seed: int, count: int = 30) -> Table:
    random = np.random.default_rng(seed)
    return Table(random.random((count, 3)), random.integers(0, 2, count))


class Lines:
    """A ledger in memory."""

    def __init__(self) -> None:
        self.entries: list[Disclosure] = []

    def extend(self, disclosures: Any) -> None:
        self.entries.extend(disclosures)

    def head(self) -> dict[str, int | str]:
        return {}


class Owner:
    """One process of an owner."""

    def __init__(self, name: str, rows: Table) -> None:
        self.keys = KeyRing(name)
        self.lines = Lines()
        gate = OwnerGate(name, self.lines)
        self.responder = HistogramResponder(
            name, rows, SCHEMA, noise_for(0, name)("histogram"), gate, self.keys
        )
        self.bidder = Bidder(name, rows, SCHEMA, noise_for(0, name)("draw"), gate, self.keys)
        self.port = OwnerSession(loopback_to(self.responder, SCHEMA.encoded_width), RUN, sealed=True)


def invitation(gift: Any, protocol: str = "cells-sealed") -> Invitation:
    terms = CellTerms(BOOK.to_json(), 1.0, NOISE, 20)
    return Invitation(RUN, SCHEMA.digest(), "consumer", protocol, (NOISE.event,), terms, gift)


def nobody(owner: str, error: FedkmeError) -> None:
    raise AssertionError(f"{owner}: {error}")


def given(*offers: KeyOffer) -> tuple[RunKeys, dict[str, Any]]:
    keys = RunKeys.fresh("consumer", RUN)
    return keys, {gift.taker: gift for gift in keys.gifts(offers, None, nobody)}


def boxes(rows: Sequence[AnyRow]) -> list[HashedRow]:
    return [row for row in rows if isinstance(row, HashedRow)]


def test_an_order_of_cells_without_rows_is_filled_with_others() -> None:
    # No box is empty, whatever cells the owner's rows are in.
    rows = table(1)
    cells = BOOK.cells_of(SCHEMA.encode(rows.values))
    lacking = Table(rows.values[cells != 0], None if rows.labels is None else rows.labels[cells != 0])
    owner = Owner("a", lacking)
    keys, gifts = given(owner.keys.offer(RUN))
    owner.responder.invite(invitation(gifts["a"]))
    sent = boxes(owner.responder.fill_order(1, FillOrder(5, np.array([1.0, 0.0, 0.0, 0.0]))))
    assert len(sent) == len(keys.open(sent)) == 5
    assert {len(row.box) for row in sent} == {row_box_bytes(3)}
    assert owner.responder.close().rows_sent == 5
    events = [(about.observer, about.event.kind) for about in owner.lines.entries]
    assert events == [("curator", "sealed-rows"), ("consumer", "raw-rows")] * 5


def test_as_many_boxes_come_as_were_ordered_and_the_consumer_sees_which_are_empty() -> None:
    # Also if the order is for more rows than the owner has.
    owner = Owner("a", table(1, 4))
    keys, gifts = given(owner.keys.offer(RUN))
    owner.responder.invite(invitation(gifts["a"]))
    sent = boxes(owner.responder.fill_order(1, FillOrder(6, np.ones(4))))
    assert len(sent) == 6
    assert {len(row.box) for row in sent} == {row_box_bytes(3)}
    assert len(keys.open(sent)) == 4


def test_a_full_order_is_full_of_the_owners_rows() -> None:
    owner = Owner("a", rows := table(1))
    keys, gifts = given(owner.keys.offer(RUN))
    owner.responder.invite(invitation(gifts["a"]))
    opened = keys.open(boxes(owner.responder.fill_order(1, FillOrder(12, np.ones(4)))))
    assert len(opened) == 12
    assert {row.values.tobytes() for row in opened} <= {row.tobytes() for row in rows.values}
    assert all(row.label is not None for row in opened)


def test_a_run_without_a_gift_or_of_another_kind_is_refused_before_anything_is_counted() -> None:
    owner = Owner("a", table(1))
    _, gifts = given(owner.keys.offer(RUN))
    with pytest.raises(ProtocolError, match="with the protocol"):
        owner.responder.invite(invitation(gifts["a"], "uniform-sealed"))
    with pytest.raises(SealedBoxError, match="was given no secret"):
        owner.responder.invite(invitation(None))
    with pytest.raises(SealedBoxError, match="has no keys"):  # the refusal used them up
        owner.responder.invite(invitation(gifts["a"]))
    assert not owner.responder._invitation is not None
    with pytest.raises(ProtocolError):
        owner.responder.histogram(1)
    assert owner.lines.entries == []


async def test_an_owner_that_was_started_again_leaves_and_the_others_go_on() -> None:
    # Decision 010: a restarted owner has new keys, and the gift is for the old ones.
    first, second = Owner("a", table(1)), Owner("b", table(2))
    keys, gifts = given(first.keys.offer(RUN), second.keys.offer(RUN))
    second = Owner("b", table(2))
    second.keys.offer(RUN)
    task = CellTask(RUN, 4, 2.0, SCHEMA, BOOK, 1.0, NOISE, np.full(4, 5), 20, None, 0, "consumer", gifts)
    record, lines = SummaryRecord(), Lines()
    gate = CellDisclosures(RUN, lines, "consumer")
    await run_cells(task, [first.port, second.port], 1, record, SilentObserver(), gate)
    assert record.status == "complete"
    assert [(fault.owner, fault.code) for fault in record.faults] == [("b", SealedBoxError.code)]
    assert len(keys.open(record.sealed())) == 8
    theirs = [about for about in first.lines.entries if about.nonce.startswith("row ")]
    assert theirs == [about for about in lines.entries if about.nonce.startswith("row ")]


def directive(seq: int, body: Body) -> Directive:
    return Directive(RUN, min(seq - 1, 1), seq, body)


def test_a_repeated_order_gets_the_same_boxes_after_a_restart() -> None:
    # Byte for byte, also from another process.
    owner = Owner("a", table(1))
    keys, gifts = given(owner.keys.offer(RUN))
    handler = CellHandler(RUN, owner.responder)
    directives = [
        directive(1, invitation(gifts["a"])),
        directive(2, AskHistogram()),
        directive(3, FillOrder(3, np.ones(4))),
    ]
    stored = [owner_entry_to_bytes(handler.answer(order)) for order in directives]
    entries = [owner_entry_from_bytes(entry) for entry in stored]
    before, after = Owner("a", table(1)), Owner("a", table(1))
    again, early = CellHandler(RUN, before.responder), CellHandler(RUN, after.responder)
    for entry in entries:
        again.restore(entry)
    first, second = again.again(directives[2]), handler.again(directives[2])
    assert first is not None
    assert second is not None
    assert answer_to_wire(first, directives[2]) == answer_to_wire(second, directives[2])
    for entry in entries[:2]:
        early.restore(entry)
    reply = early.answer(directives[2]).answer
    assert isinstance(reply, Refusal)
    assert reply.code == SealedBoxError.code
    assert after.lines.entries == []
    assert keys.secret.exposed() not in b"".join(stored)  # the journal has no key to the boxes


def test_a_consumer_gives_no_secret_to_keys_that_are_not_genuine() -> None:
    # Decision 010: a curator that swaps, makes up or replays keys causes error 33 at the consumer.
    authority = Authority()
    ring = {
        name: KeyRing(name, functools.partial(authority.issue, name, role=Role.OWNER)) for name in ("a", "b")
    }
    good, swapped = ring["a"].offer(RUN), ring["b"].offer(RUN)
    mine = KeyRing("b").offer(RUN)
    swapped = KeyOffer("b", mine.box, mine.signing, swapped.chain, swapped.signature)
    keys = RunKeys.fresh("consumer", RUN)
    refused: list[tuple[str, int]] = []
    identity = authority.issue("consumer", role=Role.CONSUMER)
    gifts = keys.gifts(
        [good, swapped, ring["b"].offer("run-2")],
        identity,
        lambda owner, error: refused.append((owner, error.code)),
    )
    assert [gift.taker for gift in gifts] == ["a"]
    assert refused == [("b", IdentityError.code)] * 2
    with pytest.raises(IdentityError, match="no owner"):
        keys.gifts([swapped], identity, lambda owner, error: None)
    assert ring["a"].take(RUN, gifts[0], "consumer").secret == keys.secret
    other = RunKeys.fresh("other", RUN).gifts([ring["b"].offer(RUN)], authority.issue("other"), nobody)
    with pytest.raises(IdentityError, match="not from 'consumer'"):
        ring["b"].take(RUN, other[0], "consumer")


def hashed_invitation(gift: Any, features: Any, protocol: str = "clock-hashed") -> Invitation:
    target = np.zeros(features.dimension, dtype=np.int32)
    return Invitation(RUN, SCHEMA.digest(), "consumer", protocol, (), AuctionTerms(features, target, 4), gift)


PUBLIC = FourierSpec("paired", 64, 1.0, 3, 7)


def test_a_box_whose_row_does_not_match_its_hash_is_refused() -> None:
    owner = Owner("a", table(1))
    keys, gifts = given(owner.keys.offer(RUN))
    draw = keys.draw(PUBLIC)
    owner.bidder.invite(hashed_invitation(gifts["a"], draw.spec))
    owner.bidder.quote(Broadcast(1, 0, np.zeros(64, dtype=np.int32)), np.array([0.0]))
    sent = boxes(owner.bidder.sell(1, -1e9))
    assert len(sent) == 30
    opened(sent, SCHEMA, keys, draw)
    assert HashedContent(draw.spec, 3).fault("a", sent) is None
    events = {(about.observer, about.event.kind) for about in owner.lines.entries if "row" in about.nonce}
    assert events == {("curator", "hashed-rows"), ("consumer", "raw-rows")}
    rows = keys.open(sent)
    liar = Sealer(keys.secret, keys.keys.opener.public)
    other = liar.seal(rows[:2], np.array([sent[1].features, sent[0].features]))
    with pytest.raises(SealedBoxError, match="not the one that was chosen"):
        opened(other, SCHEMA, keys, draw)
    bare = liar.seal(rows[:2])
    with pytest.raises(SealedBoxError, match="not the one that was chosen"):
        opened(bare, SCHEMA, keys, draw)


def test_a_draw_that_does_not_go_with_the_protocol_is_refused() -> None:
    # Under a public draw the curator could invert hashes, so no party may take a public draw by mistake.
    for features_of, protocol in (
        (lambda keys: PUBLIC, "clock-hashed"),
        (lambda keys: keys.draw(PUBLIC).spec, "clock"),
        (lambda keys: keys.draw(PUBLIC).spec, "uniform-sealed"),
    ):
        owner = Owner("a", table(1))
        keys, gifts = given(owner.keys.offer(RUN))
        with pytest.raises(ProtocolError, match="does not go with the protocol"):
            owner.bidder.invite(hashed_invitation(gifts["a"], features_of(keys), protocol))
    owner = Owner("a", table(1))
    keys, gifts = given(owner.keys.offer(RUN))
    another = RunKeys.fresh("consumer", RUN).draw(PUBLIC).spec
    with pytest.raises(SealedBoxError, match="not the one that its features are drawn from"):
        owner.bidder.invite(hashed_invitation(gifts["a"], another))


def test_a_secret_draw_does_not_outlive_the_process() -> None:
    owner = Owner("a", table(1))
    keys, gifts = given(owner.keys.offer(RUN))
    invited = hashed_invitation(gifts["a"], keys.draw(PUBLIC).spec)
    owner.bidder.invite(invited)
    with pytest.raises(SealedBoxError, match="was started again"):
        Owner("a", table(1)).bidder.restore_invitation(invited)


def test_reference_hashes_depend_on_the_secret_alone() -> None:
    # Decision 010: rows drawn uniformly over the schema's domain from the group secret.
    keys, other = RunKeys.fresh("consumer", RUN), RunKeys.fresh("consumer", RUN)
    draw = keys.draw(PUBLIC)
    hashes = keys.reference(draw, SCHEMA)
    assert hashes.shape == (256, 64)
    assert np.array_equal(hashes, keys.reference(draw, SCHEMA))
    assert not np.array_equal(hashes, other.reference(other.draw(PUBLIC), SCHEMA))
    assert fault_of_hashes(hashes, draw.spec) == ""


def test_a_policy_that_keeps_rows_refuses_sealed_rows_too() -> None:
    from fedkme.protocols import keeps_to

    for protocol in ("cells-sealed", "uniform-sealed", "clock-hashed", "ask-everyone-hashed"):
        assert [keeps_to(protocol, rows) for rows in ("raw", "hashed", "none")] == [True, True, False]
    assert not keeps_to("cells", "hashed")
