"""An owner's handler of sums: repeated answers, restarts, and ledger lines before answers (decision 006)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fedkme.directives import Proposal, SigningKeys
from fedkme.errors import (
    FedkmeError,
    OwnerFaultError,
    PolicyError,
    ProtocolError,
    SchemaError,
    SecureAggregationError,
    StoreError,
)
from fedkme.privacy.ledger import disclosures_in
from fedkme.protocol import Security
from fedkme.secagg.messages import Endorsements, KeyRoster, Survivors
from fedkme.secagg.signing import KeyBinding
from fedkme.wire import sums as wire
from fedkme.wire.directives import invitation_to_wire
from fedkme.wire.v1 import journals_pb2, pooling_pb2
from fedkme.wire.v1 import owners_pb2 as pb
from owner.consent.approvals import approve
from tests.owner.consent.host import Host, host, rows
from tests.owner.sums.owner_parties import (
    NAMES,
    NOISY,
    OTHER,
    QUERY,
    VECTOR,
    Asker,
    fault_of,
    invitation,
    parameters,
    words_of,
)


@contextmanager
def asking(folder: Path, **policy: Any) -> Iterator[tuple[Host, Asker]]:
    with host(folder, **policy) as at:
        yield at, Asker(at)


def nonces(at: Host) -> list[str]:
    """Nonces of the ledger's lines, without digests of questions."""
    lines = disclosures_in(line.line for line in at.store.ledger())
    return [" ".join(about.nonce.split()[:2]) for about in lines]


def refusal(answer: object) -> FedkmeError:
    assert isinstance(answer, FedkmeError)
    return answer


def test_a_vector_in_parts_is_the_vector(tmp_path: Path) -> None:
    with asking(tmp_path) as (at, curator):
        assert curator.enlist() is None
        vector = curator.embed(1)
        assert isinstance(vector, np.ndarray)
        assert (vector == VECTOR.of(rows())).all()
        assert nonces(at) == ["sums 1", "release 0"]
        assert at.wired.rows_sent == 0


def test_a_directive_that_comes_again_gets_the_same_bytes(tmp_path: Path) -> None:
    # Also under secure aggregation, where the answer could not be computed again.
    with asking(tmp_path) as (at, curator):
        curator.enlist(security=NOISY)
        agreed = parameters()
        first = [reply.SerializeToString() for reply in curator.mask(1, agreed)]
        body = pb.Directive(at=pb.Position(run="r", round=1, seq=curator.seq))
        body.aggregate.delivery.SetInParent()
        assert [reply.SerializeToString() for reply in at.wired.answer(body)] == first
        before = nonces(at)
        assert at.wired.answer(pb.Directive(at=pb.Position(run="r", round=1, seq=2))) == []  # an old one
        assert nonces(at) == before == ["sums 1", "release 0"]


@pytest.mark.parametrize("security", [None, NOISY])
def test_vectors_are_not_kept(tmp_path: Path, security: Security | None) -> None:
    # No sums are stored on the owner's disk, and no secrets of masks.
    with asking(tmp_path) as (at, curator):
        curator.enlist(security=security)
        if security is None:
            curator.embed(1)
        else:
            curator.mask(1, parameters())
        entries = [journals_pb2.OwnerEntry.FromString(entry.body) for entry in at.store.entries("r")]
        assert [entry.directive.at.seq for entry in entries] == list(range(1, 3 if security is None else 6))
        assert [reply.WhichOneof("body") for entry in entries for reply in entry.replies] == ["accepted"]
        assert not any(entry.directive.aggregate.roster.advertisements for entry in entries)


def test_a_restarted_owner_computes_the_same_bits_again(tmp_path: Path) -> None:
    # Sums are a function of the rows: the same bits, and no line is written twice.
    with asking(tmp_path) as (at, curator):
        curator.enlist()
        first = curator.embed(1)
        before = nonces(at)
    with asking(tmp_path) as (at, curator):
        again = curator.embed(1, seq=2)
        assert isinstance(first, np.ndarray)
        assert isinstance(again, np.ndarray)
        assert (first == again).all()
        assert nonces(at) == before
        assert isinstance(curator.embed(2, OTHER), np.ndarray)
        assert nonces(at) == [*before, "sums 2"]


@pytest.mark.parametrize("security", [None, NOISY])
def test_a_restarted_curator_counts_from_1_again(tmp_path: Path, security: Security | None) -> None:
    # The policy decides once, and lines are written once; a masked aggregation is not repeated.
    with asking(tmp_path, approval="manual") as (at, curator):
        approve(tmp_path / "approvals", "hospital", "merf", 0, 1)
        assert curator.enlist(security=security) is None
        if security is None:
            first = curator.embed(1)
        else:
            assert fault_of(curator.mask(1, parameters())) is None
        before, journal = nonces(at), at.store.keys("admitted/")
        curator = Asker(at)
        assert curator.enlist(security=security) is None
        if security is None:
            again = curator.embed(1)
            assert isinstance(again, np.ndarray)
            assert (again == first).all()
        else:
            refused = refusal(curator.propose(1, parameters()))
            assert type(refused) is SecureAggregationError
            assert "no aggregation is done twice" in refused.cause
        assert nonces(at) == before
        assert at.store.keys("admitted/") == journal
        assert type(curator.enlist(consumer="clinic")) is ProtocolError


@pytest.mark.parametrize("security", [None, NOISY], ids=["plain", "secure"])
def test_a_stated_influence_of_one_owner_below_its_rows_is_refused(
    tmp_path: Path, security: Security | None
) -> None:
    # "a printed bound of what one owner can shift, in the agreement that all see". Of rows
    # of its own an owner knows; 0 is an earlier release's.
    with asking(tmp_path) as (_, curator):
        curator.enlist(security=security)
        held = len(rows())

        def refusal_of(number: int, moves: int) -> FedkmeError | None:
            if security is None:
                question = pooling_pb2.Embed(query=wire.query_to_wire(QUERY), one_owner_moves=moves)
                return fault_of(curator.ask(number, embed=question))
            proposal = wire.PROPOSAL.to_wire(Proposal.of(parameters(number), QUERY, moves))
            return fault_of(curator.step(number, propose=proposal))

        for number, moves in enumerate((0, held, 3 * held), start=1):
            assert refusal_of(number, moves) is None
        refusal_of_less = refusal_of(4, held - 1)
    assert type(refusal_of_less) is ProtocolError
    assert f"one owner moves {held - 1} rows' worth, not {held}" in refusal_of_less.cause


def test_a_restarted_owner_has_lost_its_secrets(tmp_path: Path) -> None:
    # In every phase, the last answer included; the next question may be answered.
    for phase in range(1, 4):
        folder = tmp_path / str(phase)
        folder.mkdir()
        with asking(folder) as (_, curator):
            curator.enlist(security=NOISY)
            if phase == 3:
                curator.mask(1, parameters())
            else:
                own = curator.propose(1, parameters())
                assert isinstance(own, KeyBinding)
                if phase == 2:
                    keys = [own, *(KeyBinding(b"", own.key, b"", name) for name in ("owner-2", "owner-3"))]
                    assert fault_of(curator.step(1, keys=wire.KEYS.to_wire(SigningKeys(tuple(keys))))) is None
        context = parameters().context
        for again in (True, False):
            with asking(folder) as (_, restarted):
                seq = curator.seq + (not again)
                nothing = wire.SURVIVORS.to_wire(Survivors(context, ("owner-1",)))
                error = refusal(fault_of(restarted.step(1, seq, survivors=nothing)))
                assert type(error) is SecureAggregationError
                assert "its secrets died with its process" in error.cause
        with asking(folder) as (_, restarted):
            restarted.seq = curator.seq + 1
            assert isinstance(restarted.propose(2, parameters(2)), KeyBinding)


def test_a_restarted_owner_still_counts_the_cost_of_a_run(tmp_path: Path) -> None:
    # The plan has two questions, and one answer left: one more question is let in, not two; names stay used.
    with asking(tmp_path) as (_, curator):
        curator.enlist(security=NOISY)
        assert fault_of(curator.mask(1, parameters())) is None
    with asking(tmp_path) as (_, restarted):
        restarted.seq = curator.seq
        assert type(restarted.propose(1, parameters())) is SecureAggregationError
        assert fault_of(restarted.mask(2, parameters(2))) is None
    with asking(tmp_path) as (at, last):
        last.seq = restarted.seq
        assert type(last.propose(3, parameters(3))) is PolicyError
        assert nonces(at) == ["sums 1", "release 0", "sums 2"]


def test_after_a_restart_a_number_keeps_its_question_and_a_roster_never_grows(tmp_path: Path) -> None:
    more: dict[str, Any] = {"owners": (*NAMES, "owner-4"), "threshold": 3}
    with asking(tmp_path) as (_, curator):
        curator.enlist(security=NOISY)
        assert fault_of(curator.mask(1, parameters())) is None
    with asking(tmp_path) as (_, restarted):
        restarted.seq = curator.seq
        assert "had another question" in refusal(restarted.propose(1, parameters(1, OTHER), OTHER)).cause
        assert "not in it before" in refusal(restarted.propose(2, parameters(2, **more))).cause
    with asking(tmp_path) as (at, restarted):
        plain = Asker(at, "plain")
        plain.enlist()
        plain.embed(1)
        before = nonces(at)
    with asking(tmp_path) as (at, restarted):
        again = Asker(at, "plain")
        again.seq = plain.seq
        assert "had another question" in refusal(again.embed(1, OTHER)).cause
        assert nonces(at) == before


def test_no_vector_leaves_before_its_ledger_line_is_stored(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A store that fails lets nothing out, also not later without a line.
    def fails(*lines: object) -> None:
        raise StoreError("the disk is full", "Make room.")

    with asking(tmp_path) as (at, curator):
        curator.enlist()
        with monkeypatch.context() as patched:
            patched.setattr(at.store, "append", fails)
            assert type(curator.embed(1)) is StoreError
        assert type(curator.embed(1, seq=2)) is StoreError
        assert nonces(at) == []
        at.wired.welcome(["r"])
        assert isinstance(curator.embed(1, seq=2), np.ndarray)
        assert nonces(at) == ["sums 1", "release 0"]


def test_a_masked_vector_whose_line_cannot_be_stored_does_not_leave(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with asking(tmp_path) as (at, curator):
        curator.enlist(security=NOISY)
        append = at.store.append

        calls = 0

        def fourth(run: str, kind: str, body: bytes) -> int:
            nonlocal calls
            calls += 1
            if calls == 4:  # propose, keys, roster, delivery
                raise StoreError("the disk is full", "Make room.")
            return append(run, kind, body)

        with monkeypatch.context() as patched:
            patched.setattr(at.store, "append", fourth)
            assert type(fault_of(curator.mask(1, parameters()))) is StoreError
        assert nonces(at) == []
        at.wired.welcome(["r"])
        assert type(fault_of(curator.step(1, curator.seq, delivery={}))) is SecureAggregationError


def test_directives_of_another_kind_of_run_are_refused(tmp_path: Path) -> None:
    # Sums in a run of bids, and bids in a run of sums, are refused.
    with asking(tmp_path) as (at, curator):
        assert "not in a run" in refusal(curator.embed(1)).cause
        curator = Asker(at)
        assert type(curator.enlist(schema="x")) is SchemaError
        assert "does not take part" in refusal(curator.embed(1)).cause
        curator = Asker(at, "q")
        assert curator.enlist() is None
        assert "asks for no 'draw'" in refusal(fault_of(curator.ask(1, draw=pb.Draw(count=1)))).cause
        assert "asks for no 'close'" in refusal(fault_of(curator.ask(1, close=pb.Close()))).cause
        assert "not known here" in refusal(fault_of(curator.step(1))).cause
        assert "a question without a number" in refusal(curator.embed(0)).cause
        again = invitation_to_wire(invitation("q"))
        assert "begun already" in refusal(fault_of(curator.ask(0, invite=again))).cause
        assert type(refusal(curator.embed(1, seq=99))) is OwnerFaultError
        assert at.prepare("bids") is None
        bids = Asker(at, "bids")
        bids.seq = 1
        assert "asks for no 'embed'" in refusal(bids.embed(1)).cause
        assert at.lines == 0


def test_a_run_that_was_dismissed_is_over(tmp_path: Path) -> None:
    with asking(tmp_path) as (at, curator):
        curator.enlist()
        assert at.wired.answer(pb.Directive(at=pb.Position(run="r"), dismiss=pb.Dismiss())) == []
        assert "has left r" in refusal(curator.embed(1)).cause
        assert at.store.entries("r") == []


def test_messages_of_no_aggregation_are_typed_refusals(tmp_path: Path) -> None:
    with asking(tmp_path) as (at, curator):
        curator.enlist(security=NOISY)
        context = parameters().context
        steps: list[dict[str, Any]] = [
            {"roster": wire.ROSTER.to_wire(KeyRoster(context, ()))},
            {"survivors": wire.SURVIVORS.to_wire(Survivors(context, ()))},
            {"endorsements": wire.ENDORSEMENTS.to_wire(Endorsements(context, ()))},
            {"delivery": {}},
            {"keys": {}},
            {"propose": {}},
            {"roster": {}},
        ]
        for step in steps:
            error = fault_of(curator.step(1, **step))
            assert isinstance(error, ProtocolError | SecureAggregationError)
        assert at.lines == 0
        assert isinstance(words_of(curator.mask(1, parameters())), np.ndarray)
