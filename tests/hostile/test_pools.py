"""An owner whose curator is hostile, in runs of sums: codecs, phases, maps and whole runs."""

from __future__ import annotations

import functools
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
from google.protobuf.message import Message

from fedkme.directives import Proposal, SigningKeys
from fedkme.errors import DataError, PolicyError, ProtocolError, SecureAggregationError
from fedkme.features.kernel_points import PointsSpec
from fedkme.privacy.events import CURATOR
from fedkme.privacy.ledger import disclosures_in, follow_chain
from fedkme.sums.values import SumQuery
from fedkme.wire import sums as wire
from fedkme.wire.directives import invitation_from_wire, invitation_to_wire
from fedkme.wire.v1 import owners_pb2 as pb
from fedkme.wire.v1 import pooling_pb2
from tests.hostile.fuzz import GROWTH, at_rest, fuzzed, resident
from tests.owner.consent.host import NAME, SCHEMA, host
from tests.owner.sums.owner_parties import (
    NAMES,
    NOISY,
    OTHER,
    QUERY,
    VECTOR,
    Asker,
    Together,
    fault_of,
    invitation,
    parameters,
    sum_responder,
)

Read = Callable[[Any], object]


@functools.cache
def phases() -> list[tuple[str, Message]]:
    """The curator's messages of one aggregation, each with the step that it is for."""
    owners = [sum_responder(name) for name in NAMES]
    everybody, agreed = Together(owners, NOISY), parameters()
    keys = everybody.keys(1, agreed, QUERY)
    curator = everybody.curator(agreed, keys)
    said: list[tuple[str, Message]] = [
        ("propose", wire.PROPOSAL.to_wire(Proposal.of(agreed, QUERY))),
        ("keys", wire.KEYS.to_wire(SigningKeys(tuple(keys)))),
    ]
    for each in owners:
        curator.advertised(each.advertise(1, keys))
    roster = curator.roster()
    for each in owners:
        curator.shared(each.share(1, roster))
    mail = curator.deliveries()
    for each in owners:
        curator.masked(each.mask(1, mail[each.name]))
    survivors = curator.survivors()
    for each in owners:
        curator.endorsed(each.endorse(1, survivors))
    return [
        *said,
        ("roster", wire.ROSTER.to_wire(roster)),
        ("delivery", wire.DELIVERY.to_wire(mail[NAME])),
        ("survivors", wire.SURVIVORS.to_wire(survivors)),
        ("endorsements", wire.ENDORSEMENTS.to_wire(curator.endorsements())),
    ]


@functools.cache
def answers() -> list[tuple[Message, Read, Callable[[Any], object]]]:
    """Every message of a run of sums with its reader and its writer."""
    by_phase = dict(phases())
    owner = sum_responder()
    owner.invite(invitation(security=NOISY))
    endorsements = wire.ENDORSEMENTS.from_wire(cast("pooling_pb2.EndorsementList", by_phase["endorsements"]))
    length = VECTOR.length

    def words(message: pooling_pb2.Words) -> object:
        return wire.words_from_wire([message])

    def checked(proposal: Proposal) -> Proposal:
        proposal.parameters(length)
        return proposal

    def first(vector: Any) -> Message:
        return next(wire.words_to_wire(vector))

    return [
        (
            invitation_to_wire(invitation(security=NOISY)),
            lambda m: invitation_from_wire(m, "r"),
            invitation_to_wire,
        ),
        (wire.query_to_wire(QUERY), wire.query_from_wire, wire.query_to_wire),
        (by_phase["propose"], lambda m: checked(wire.PROPOSAL.from_wire(m)), wire.PROPOSAL.to_wire),
        (by_phase["keys"], wire.KEYS.from_wire, wire.KEYS.to_wire),
        (by_phase["roster"], wire.ROSTER.from_wire, wire.ROSTER.to_wire),
        (by_phase["delivery"], wire.DELIVERY.from_wire, wire.DELIVERY.to_wire),
        (
            pooling_pb2.SealedParts.FromString(by_phase["delivery"].SerializeToString()),
            wire.SEALED.from_wire,
            wire.SEALED.to_wire,
        ),
        (by_phase["survivors"], wire.SURVIVORS.from_wire, wire.SURVIVORS.to_wire),
        (by_phase["endorsements"], wire.ENDORSEMENTS.from_wire, wire.ENDORSEMENTS.to_wire),
        (
            wire.ENDORSEMENT.to_wire(endorsements.endorsements[0]),
            wire.ENDORSEMENT.from_wire,
            wire.ENDORSEMENT.to_wire,
        ),
        (
            pooling_pb2.Unmasked(
                sender=NAME,
                context=endorsements.context,
                self_masks=[pooling_pb2.ShareOf(about=NAME, share=bytes(66))],
                mask_keys=[pooling_pb2.ShareOf(about="owner-2", share=bytes(66))],
            ),
            wire.UNMASKING.from_wire,
            wire.UNMASKING.to_wire,
        ),
        (first(np.arange(9)), words, first),
    ]


@pytest.mark.parametrize("kind", range(12))
def test_what_is_read_is_a_value_or_a_typed_error(kind: int) -> None:
    # "codecs: decoding anything odd gives ProtocolError/SecureAggregationError, never another exception"; and
    # every value goes over the wire unchanged.
    sample, read, write = answers()[kind]
    assert write(read(sample)) == sample
    taken = refused = 0
    for message in fuzzed([sample], 400, seed=kind):
        if message is None:
            continue
        try:
            read(message)
            taken += 1
        except (ProtocolError, SecureAggregationError):
            refused += 1
    assert taken
    assert refused or kind == 3  # any bytes are a key, until they are verified


@pytest.mark.parametrize("length", [0, 1, wire.WORDS_AT_ONCE, wire.WORDS_AT_ONCE + 1])
def test_words_go_over_the_wire_unchanged_in_parts_of_1_mib(length: int) -> None:
    vector = np.random.default_rng(0).integers(-(2**63), 2**63 - 1, length, dtype=np.int64)
    parts = list(wire.words_to_wire(vector))
    assert all(part.ByteSize() <= 2**20 + 16 for part in parts)
    assert (wire.words_from_wire(parts).view(np.int64) == vector).all()
    for odd in (parts[:-1], [*parts, parts[-1]], [pooling_pb2.Words(), *parts], []):
        with pytest.raises(ProtocolError):
            wire.words_from_wire(odd)


STEPS = ("propose", "keys", "roster", "delivery", "survivors", "endorsements")


@pytest.mark.parametrize("step", STEPS)
def test_fuzzed_steps_at_their_phase(tmp_path: Path, step: str) -> None:
    # A step that does not fit ends the aggregation with a typed refusal; no line is written for what did not
    # leave, and there is one for what did.
    taken = refused = 0
    with host(tmp_path, runs_at_once=2) as at:
        for number in range(25):

            def change(now: str, message: Any, seed: int = number) -> Any:
                if now != step:
                    return message
                return next(fuzzed([message], 1, seed)) or type(message)()

            run = f"r-{number}"
            curator = Asker(at, run)
            assert curator.enlist(security=NOISY) is None
            before = at.lines
            fault = fault_of(curator.aggregate(1, parameters(run=f"{run}/1"), until=step, change=change))
            left = STEPS.index(step) > 3 or (step == "delivery" and fault is None)
            assert at.lines == before + 2 * left
            taken += fault is None
            if fault is not None:
                assert isinstance(fault, ProtocolError | SecureAggregationError | PolicyError)
                refused += 1
                after = fault_of(curator.step(1, roster={}))
                assert isinstance(after, ProtocolError | SecureAggregationError)
            at.end(run)
    assert taken
    assert refused


def scripts() -> list[pb.Directive]:
    """Every directive, as it stands in a run of sums of each kind."""

    def said(run: str, number: int, **body: Any) -> pb.Directive:
        return pb.Directive(at=pb.Position(run=run, round=number, seq=1), **body)

    plain = invitation_to_wire(invitation("run-1"))
    secure = invitation_to_wire(invitation("run-2", security=NOISY))
    embeds = [pooling_pb2.Embed(query=wire.query_to_wire(query)) for query in (QUERY, OTHER)]
    bodies: list[dict[str, Any]] = [{step: message} for step, message in phases()]
    steps = [pooling_pb2.Aggregate(**body) for body in bodies]
    steps[0].propose.name = "run-2/1"
    return [
        said("run-1", 0, invite=plain),
        *(said("run-1", number, embed=embed) for number, embed in enumerate(embeds, 1)),
        said("run-2", 0, invite=secure),
        *(said("run-2", 1, aggregate=step) for step in steps),
        said("run-1", 1, draw=pb.Draw(count=1)),
        said("run-2", 1, close=pb.Close()),
        pb.Directive(at=pb.Position(run="run-1"), dismiss=pb.Dismiss()),
        pb.Directive(at=pb.Position(run="run-2"), dismiss=pb.Dismiss()),
    ]


def test_thousands_of_fuzzed_directives(tmp_path: Path) -> None:
    # "no crash, no unbounded memory, no answer with data": vectors leave for questions of plain runs alone,
    # and each has its line in the ledger before it does; also from one process to the next.
    before, count = at_rest(), 2100
    answered: set[str] = set()
    vectors = 0
    genuine = scripts()
    mutants = fuzzed(genuine, count, seed=11)
    for life in range(3):
        with host(tmp_path) as at:
            for number in range(count // 3):
                mutant = next(mutants)
                if number % 28 == 0:
                    at.wired.welcome([])
                    for place in (0, 3):
                        begin = pb.Directive()
                        begin.CopyFrom(genuine[place])
                        begin.at.run += f"-{life}-{number // 28}"
                        at.wired.answer(begin)
                if mutant is None:
                    continue
                name = mutant.at.run
                if number % 10 and name.startswith("run-"):
                    mutant.at.run = f"{name}-{life}-{number // 28}"
                    if mutant.HasField("aggregate") and mutant.aggregate.HasField("propose"):
                        mutant.aggregate.propose.name = f"{mutant.at.run}/{mutant.at.round}"
                    handler: Any = at.wired._handlers.get(mutant.at.run)
                    again = mutant.HasField("invite") and number % 3 == 0
                    mutant.at.seq = 1 if handler is None or again else handler.last + 1
                lines = at.lines
                for reply in at.wired.answer(mutant):
                    assert (reply.at.run, reply.at.seq) == (mutant.at.run, mutant.at.seq)
                    if not reply.HasField("fault"):
                        answered.add(str(reply.WhichOneof("body")))
                    if reply.HasField("words"):
                        assert mutant.HasField("embed")
                        vectors += 1
                        disclosures = disclosures_in(entry.line for entry in at.store.ledger())
                        assert any(
                            (about.run, about.round, about.observer)
                            == (mutant.at.run, mutant.at.round, CURATOR)
                            for about in disclosures
                        )
                    else:
                        assert at.lines == lines
            assert at.wired.rows_sent == 0
            ledger = tmp_path / "ledger.jsonl"
            ledger.write_text("".join(f"{entry.line}\n" for entry in at.store.ledger()))
            assert follow_chain(ledger)[1] is None
    assert answered == {"accepted", "words", "aggregated", "offer"}  # or it is a poor fuzz
    assert vectors > 30
    assert resident() - before < GROWTH


FOURIER = {"kind": "fourier", "dimension": 8, "gamma": 1.0, "seed": 3, "scales": None, "units": "model"}
SERIES = {"kind": "hermite-sum", "order": 5, "length": 0.5, "origin": 0.5}
PRODUCT = {**SERIES, "kind": "hermite-product", "columns": [0, 1]}
POINTS = json.loads(
    PointsSpec.of(np.random.default_rng(0).random((2, SCHEMA.encoded_width)), 1.0).model_dump_json()
)
ODD: list[Any] = [0, -1, 1, 2**20, 2**31, 2**63, 2**64, 10**400, 1e-320, 1e308, -1e308, None, "", True, {}]
ODD += ["AAAAAAAAAAA=", [], [0], [1e308, 1e308], [0, 0], [5], [-1], "fourier", "points", "range", "model"]


@pytest.mark.parametrize("spec", [FOURIER, {**FOURIER, "kind": "mixed"}, SERIES, PRODUCT, POINTS])
@pytest.mark.filterwarnings("error::RuntimeWarning")
def test_odd_feature_maps(spec: dict[str, Any]) -> None:
    # Each field with each odd value, and the words of JSON that are no numbers: a vector, or a typed refusal.
    made = sum_responder()
    made.invite(invitation())
    spec = {name: value for name, value in spec.items() if not (name == "units" and spec["kind"] == "mixed")}
    found = 0
    texts = [json.dumps(spec)]
    texts += [json.dumps(spec | {field: odd}) for field in spec for odd in ODD]
    texts += [
        json.dumps(spec | {field: "@"}).replace('"@"', word)
        for field in spec
        for word in ("NaN", "-Infinity")
    ]
    for text in texts:
        try:
            query = wire.query_from_wire(pooling_pb2.Query(maps=[text]))
            vector = made.embed(1, query)
            assert vector.dtype == np.int64
            found += 1
        except (ProtocolError, PolicyError, DataError):
            continue
    assert found


@pytest.mark.parametrize(
    "text", ["", "{", "[" * 100_000, "null", "[]", '{"kind": []}', '{"kind": "x"}', "1" * 5000, "\0"]
)
def test_invalid_feature_maps_are_refused(text: str) -> None:
    with pytest.raises(ProtocolError):
        wire.query_from_wire(pooling_pb2.Query(maps=[text]))


def test_invalid_questions_are_refused() -> None:
    good = json.dumps(FOURIER)
    for message in (
        pooling_pb2.Query(),
        pooling_pb2.Query(maps=[good] * 257),
        pooling_pb2.Query(maps=[good], weights=[0]),
        pooling_pb2.Query(maps=[good], weights=[2**44 + 1]),
        pooling_pb2.Query(maps=[good], weights=[1, 1]),
    ):
        with pytest.raises(ProtocolError):
            wire.query_from_wire(message)


def test_weights_that_no_sum_could_hold() -> None:
    made = sum_responder()
    made.invite(invitation())
    heavy = SumQuery(QUERY.specs, QUERY.layout, weights=(2**44,))
    with pytest.raises(DataError, match="too many for one weighted sum"):
        made.embed(1, heavy)
