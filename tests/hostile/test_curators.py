"""An owner whose curator is hostile: every directive, at the level at which an owner answers."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fedkme.errors import FedkmeError, OwnerFaultError, PolicyError, ProtocolError
from fedkme.privacy.events import CURATOR, OWNERS, RawRows
from fedkme.privacy.ledger import disclosures_in, follow_chain
from fedkme.wire import codecs
from fedkme.wire.directives import invitation_to_wire
from fedkme.wire.v1 import owners_pb2 as pb
from fedkme.wire.v1 import types_pb2
from tests.hostile.fuzz import GROWTH, at_rest, fault_of, fuzzed, resident
from tests.owner.consent.host import NAME, PRICES, TARGET, Host, host, invitation

FUZZED = 10_000
MEAN = codecs.mean_to_wire(TARGET)
SAID = pb.Broadcast(size=1, mean=MEAN)


def invite(run: str = "run-1", **changes: Any) -> pb.Directive:
    sent_directive = invitation_to_wire(invitation(run, **changes))
    return pb.Directive(at=pb.Position(run=run, seq=1), invite=sent_directive)


def directive(seq: int, run: str = "run-1", number: int = 1, **body: Any) -> pb.Directive:
    return pb.Directive(at=pb.Position(run=run, round=number, seq=seq), **body)


ODD_LENGTHS = (-1.0, math.inf, math.nan)


def quote(seq: int = 2, number: int = 1) -> pb.Directive:
    return directive(seq, number=number, quote=pb.Quote(broadcast=SAID, prices=PRICES[::100]))


def rows_in(replies: list[pb.OwnerMessage]) -> int:
    return sum(len(reply.rows.rows) for reply in replies)


@pytest.fixture
def at(tmp_path: Path) -> Iterator[Host]:
    with host(tmp_path) as opened:
        yield opened


def scripts() -> list[pb.Directive]:
    """Every directive, as it stands in a run of each kind."""
    ask = pb.Ask(token=0)
    return [
        invite(),
        quote(2),
        directive(3, sell=pb.Sell(price=PRICES[12000])),
        invite("run-2", protocol="winner-only"),
        directive(2, "run-2", broadcast=SAID),
        directive(3, "run-2", ask=ask),
        invite("run-3", protocol="uniform", planned=(), heard=()),
        directive(2, "run-3", draw=pb.Draw(count=20)),
        directive(4, close=pb.Close()),
        pb.Directive(at=pb.Position(run="run-1"), dismiss=pb.Dismiss()),
        pb.Directive(at=pb.Position(run="run-2"), dismiss=pb.Dismiss()),
        pb.Directive(
            at=pb.Position(run="run-3"), dismiss=pb.Dismiss(fault=types_pb2.Fault(code=23, cause="c"))
        ),
        directive(1, welcome=pb.Welcome(version=codecs.VERSIONS.newest, epoch=1, runs=["run-1"])),
        directive(1, farewell=pb.Farewell()),
        directive(1, fault=types_pb2.Fault(code=34, cause="c", remedy="r")),
    ]


def in_turn(sent_directive: pb.Directive, number: int, at: Host) -> pb.Directive:
    """Mostly of a run that is open, and with the number that is due: else little is reached."""
    if number % 10 and sent_directive.at.run.startswith("run-"):
        name = sent_directive.at.run
        sent_directive.at.run = f"{name}-{number // 60}"
        heard = sent_directive.invite.auction.heard if sent_directive.HasField("invite") else ()
        for place, about in enumerate(heard):
            sent_directive.invite.auction.heard[place] = about.replace(
                f'"{name}"', f'"{sent_directive.at.run}"'
            )
        handler: Any = at.wired._handlers.get(sent_directive.at.run)
        sent_directive.at.seq = 1 if handler is None else handler.last + 1
    return sent_directive


def rows_told(at: Host) -> set[tuple[str, int]]:
    """Rows that the owner's ledger says have left: runs and tokens."""
    disclosures = disclosures_in(entry.line for entry in at.store.ledger())
    return {
        (about.run, int(about.nonce.removeprefix("row ")))
        for about in disclosures
        if isinstance(about.event, RawRows) and (about.protected, about.observer) == (NAME, CURATOR)
    }


def test_ten_thousand_fuzzed_directives(tmp_path: Path) -> None:
    # "10,000 fuzzed messages of every type ... no crash, ... no unbounded memory, no answer with data":
    # rows leave for asks that fit an open run alone, no more than the policy allows, and the ledger has each.
    most, before = 12, at_rest()
    sent: set[tuple[str, int]] = set()
    rows: set[tuple[float, ...]] = set()
    answered: set[str] = set()
    with host(tmp_path, most_rows=most) as at:
        for number, sent_directive in enumerate(fuzzed(scripts(), FUZZED, seed=4)):
            if number % 60 == 0:
                at.wired.welcome([])
            if sent_directive is None:
                continue
            sent_directive = in_turn(sent_directive, number, at)
            for reply in at.wired.answer(sent_directive):  # whatever it is: an answer, and no exception
                assert (reply.at.run, reply.at.seq) == (sent_directive.at.run, sent_directive.at.seq)
                if not reply.HasField("fault"):
                    answered.add(str(reply.WhichOneof("body")))
                new = {(sent_directive.at.run, row.token) for row in reply.rows.rows} - sent
                assert not new or sent_directive.WhichOneof("body") in ("ask", "sell", "draw")
                sent |= new
                rows |= {(*row.values, row.label) for row in reply.rows.rows}
        assert answered == {
            "accepted",
            "bid",
            "counts",
            "rows",
            "closing",
            "offer",
        }  # else the fuzz is a poor one
        assert rows_told(at) == sent
        assert 30 < at.wired.rows_sent == len(sent)
        assert len(rows) == most  # of 20
        ledger = tmp_path / "ledger.jsonl"
        ledger.write_text("".join(f"{kept.line}\n" for kept in at.store.ledger()))
        assert follow_chain(ledger)[1] is None
    with host(tmp_path) as at:  # what was written down can be read, and another run be served
        assert at.wired.rows_sent == len(sent)
        at.wired.welcome([])
        assert at.prepare("good") is None
        assert len(at.sell("good", 3, 2).rows.rows) == 3
    assert resident() - before < GROWTH


FAR = 2**32 - 1
EVENT = {"kind": "gaussian", "noise_multiplier": 1.0, "count": 1}


def declared(**changes: Any) -> str:
    plain = {
        "run": "run-1",
        "round": 1,
        "protected": OWNERS,
        "observer": OWNERS,
        "event": EVENT,
        "relation": "replace-one",
        "sensitivity": None,
        "nonce": "mean",
        **changes,
    }
    return json.dumps(plain)


def changed(**changes: Any) -> pb.Directive:
    """An invitation with other fields than it should have."""
    sent_directive = invite()
    for name, value in changes.items():
        at: Any = sent_directive.invite if name == "planned" else sent_directive.invite.auction
        if isinstance(value, types_pb2.MeanVector):
            at.target.CopyFrom(value)
        elif isinstance(value, dict):
            for field, inner in value.items():
                setattr(getattr(at, name), field, inner)
        elif isinstance(value, list):
            del getattr(at, name)[:]
            getattr(at, name).extend(value)
        else:
            setattr(at, name, value)
    return sent_directive


@pytest.mark.parametrize(
    ("sent_directive", "kind", "words"),
    [
        (changed(features={"gamma": math.nan}), ProtocolError, "gamma must be positive and finite"),
        (changed(features={"gamma": 1.7e308}), ProtocolError, "gamma must be positive and finite"),
        (changed(features={"dimension": 2**14}), ProtocolError, "features that are not known here"),
        (changed(target=types_pb2.MeanVector()), ProtocolError, "0 coordinates and the run 8"),
        (changed(rows=0), PolicyError, "a run of no rows"),
        (changed(heard=[declared()] * 33), ProtocolError, "too many events"),
        (changed(heard=[declared(nonce="x" * 5000)]), ProtocolError, "too many events"),
        (changed(heard=[declared(sensitivity=10**400)]), ProtocolError, "out of its range"),
        (changed(heard=[declared(round=-1)]), ProtocolError, "out of its range"),
        (
            changed(heard=[declared(event=EVENT | {"count": 10**200})]),
            ProtocolError,
            "cannot have this count",
        ),
        (changed(heard=[declared(protected=NAME)]), ProtocolError, "that is not about owners"),
        (changed(heard=["[" * 4000]), ProtocolError, "cannot be read"),
        (changed(planned=["{}"] * 33), ProtocolError, "plans too many events"),
    ],
    ids=range(13),
)
def test_an_invalid_invitation_begins_no_run(
    at: Host, sent_directive: pb.Directive, kind: type[FedkmeError], words: str
) -> None:
    # Each is a typed refusal, before h1 of a row is computed, and nothing is asked of a run that was refused.
    fault = fault_of(at.wired.answer(sent_directive))
    assert type(fault) is kind
    assert words in fault.cause
    for body in ({"draw": pb.Draw(count=9)}, {"close": pb.Close()}, {"broadcast": SAID}):
        refusal = fault_of(at.wired.answer(directive(2, **body)))
        assert any(
            words in refusal.cause for words in ("does not take part", "does not know", "not in a run")
        )
    assert at.loaded == []
    assert at.wired.rows_sent == at.lines == 0


def test_a_dimension_that_takes_too_much_memory(tmp_path: Path) -> None:
    # d coordinates of each row are held while a run is open: the owner says how many.
    with host(tmp_path, most_dimension=6) as at:
        assert type(at.prepare("run-1")) is PolicyError
        assert at.loaded == []


Body = dict[str, Any]
PRICED = {"sell": pb.Sell(price=PRICES[0])}


@pytest.mark.parametrize(
    ("protocol", "asked", "words"),
    [
        ("clock", {"sell": pb.Sell(price=-math.inf)}, "out of turn"),
        ("clock", {"sell": pb.Sell(price=math.nan)}, "out of turn"),
        ("clock", {"sell": pb.Sell(price=-1e308)}, "out of turn"),
        ("clock", {"quote": pb.Quote(broadcast=SAID, prices=[-math.inf])}, "prices are not between"),
        ("clock", {"quote": pb.Quote(broadcast=SAID, prices=[math.nan])}, "prices are not between"),
        ("clock", {"quote": pb.Quote(broadcast=SAID, prices=[0.0] * 10**6)}, "more than 65536 prices"),
        *(("clock", {"quote": pb.Quote(broadcast=SAID, spread=odd)}, "no number") for odd in ODD_LENGTHS),
        ("clock", {"quote": pb.Quote(broadcast=pb.Broadcast(size=1))}, "0 coordinates"),
        ("clock", {"draw": pb.Draw(count=2**63)}, "asks for no 'draw'"),
        ("clock", {"broadcast": SAID}, "asks for no 'broadcast'"),
        ("clock", {"ask": pb.Ask(token=0)}, "asks for no 'ask'"),
        ("winner-only", {"ask": pb.Ask(token=0)}, "never bid a row 0"),
        ("winner-only", {"ask": pb.Ask(token=2**64 - 1)}, "never bid a row"),
        ("winner-only", {"draw": pb.Draw(count=1)}, "asks for no 'draw'"),
        ("uniform", {"draw": pb.Draw(count=2**63)}, "is of 5 rows and draws more"),
        ("uniform", {"broadcast": SAID}, "asks for no 'broadcast'"),
        ("clock", {"welcome": pb.Welcome()}, "not known here"),
        ("clock", {"invite": invite().invite}, "has begun already"),
    ],
    ids=range(20),
)
def test_a_question_of_no_protocol_gets_no_row(at: Host, protocol: str, asked: Body, words: str) -> None:
    # "no answer that carries data", and a line about nothing that did not leave.
    assert at.prepare("run-1", protocol=protocol, rows=5) is None
    before = at_rest()
    fault = fault_of(at.wired.answer(directive(2, **asked)))
    assert isinstance(fault, ProtocolError | OwnerFaultError)
    assert words in fault.cause
    assert at.wired.rows_sent == at.lines == 0
    assert resident() - before < GROWTH


def test_rows_are_sold_at_most_once_per_quote(at: Host) -> None:
    # A second price would say of a row what the ledger does not: also after another process took over.
    at.prepare("run-1")
    at.wired.answer(quote())
    sold = at.wired.answer(directive(3, sell=pb.Sell(price=PRICES[10000])))
    assert sold[0].HasField("rows")
    left = at.wired.rows_sent
    fault = fault_of(at.wired.answer(directive(4, sell=pb.Sell(price=PRICES[12000]))))
    assert "or twice" in fault.cause
    assert at.wired.rows_sent == left


def test_a_quote_is_remembered_by_the_next_process(tmp_path: Path) -> None:
    # The rule above takes nothing from a curator that keeps to the contract.
    with host(tmp_path) as at:
        at.prepare("run-1")
        at.wired.answer(quote())
    with host(tmp_path) as at:
        (reply,) = at.wired.answer(directive(3, sell=pb.Sell(price=PRICES[12000])))
        assert reply.HasField("rows")


def test_draws_add_up(at: Host) -> None:
    # p rows at most leave in a run of the protocol that looks at nothing.
    at.prepare("run-1", protocol="uniform", rows=5)
    assert rows_in(at.wired.answer(directive(2, draw=pb.Draw(count=4)))) == 4
    fault_of(at.wired.answer(directive(3, draw=pb.Draw(count=2))))
    assert rows_in(at.wired.answer(directive(4, draw=pb.Draw(count=1)))) == 1


@pytest.mark.parametrize("event", [EVENT, {"kind": "clock", "epsilon": 1.0, "relation": "replace-one"}])
def test_a_round_in_four_billion_years(at: Host, event: Body) -> None:
    # No round beyond the plan's is answered, and none of the silence before it is written down one by one.
    sent_directive = changed(heard=[declared(event=event)])
    assert at.wired.answer(sent_directive)[0].HasField("accepted")
    before = at_rest()
    (reply,) = at.wired.answer(quote(2, FAR))
    assert f"told of round {FAR} of a run of" in fault_of([reply]).cause
    assert at.lines <= 2
    assert resident() - before < GROWTH


def test_a_limit_holds_whatever_is_asked(tmp_path: Path) -> None:
    # All rows that are worth the lowest price leave: those that may leave in the run.
    with host(tmp_path, most_rows_per_run=3) as at:
        at.prepare("run-1")
        at.wired.answer(quote())
        (low,) = (price for price in PRICES[::100] if price == min(PRICES[::100]))
        assert rows_in(at.wired.answer(directive(3, sell=pb.Sell(price=low)))) == 3
        assert at.wired.rows_sent == 3


@pytest.mark.parametrize("seq", [0, 3, 2**63, 2**64 - 1])
def test_numbers_that_jump(at: Host, seq: int) -> None:
    # A directive after a gap is refused; one from before the run has no answer.
    at.prepare("run-1", protocol="uniform")
    replies = at.wired.answer(directive(seq, draw=pb.Draw(count=1)))
    assert rows_in(replies) == 0
    assert at.wired.rows_sent == at.lines == 0
