"""Owners over a real port to a curator that breaks the contract, speaks otherwise, or fails."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from fedkme.errors import (
    ConnectionFailedError,
    FedkmeError,
    IdentityError,
    MessageTooLargeError,
    OwnerFaultError,
    ProtocolError,
    ProtocolVersionError,
    SchemaError,
)
from fedkme.wire import codecs
from fedkme.wire.v1 import owners_pb2 as pb
from fedkme.wire.v1 import types_pb2
from tests.system.market import DIMENSION, SCHEMA, FakeCurator, fake_curator

SPOKEN = codecs.VERSIONS.newest


def prepare(**changes: Any) -> pb.Directive:
    kind = types_pb2.FeatureMap.KIND_PAIRED
    features = types_pb2.FeatureMap(kind=kind, dimension=DIMENSION, gamma=1.0, width=3, seed=1)
    features.MergeFrom(types_pb2.FeatureMap(**changes.pop("features", {})))
    target = changes.pop("target", types_pb2.MeanVector(coordinates=[0] * DIMENSION))
    values = {"schema_digest": SCHEMA.digest(), "consumer": "consumer", "protocol": "winner-only", **changes}
    terms = pb.AuctionTerms(features=features, target=target, rows=3)
    return pb.Directive(at=pb.Position(run="run-1", seq=1), invite=pb.Invite(auction=terms, **values))


def broadcast(dimension: int = DIMENSION, coordinate: int = 0) -> pb.Directive:
    mean = types_pb2.MeanVector(coordinates=[coordinate] * dimension)
    at = pb.Position(run="run-1", round=1, seq=2)
    return pb.Directive(at=at, broadcast=pb.Broadcast(size=1, mean=mean))


@pytest.mark.parametrize(
    ("said", "kind", "words"),
    [
        ([prepare(features={"kind": 7})], ProtocolError, "features that are not known here"),
        ([prepare(features={"dimension": 2**31})], ProtocolError, "features that are not known here"),
        ([prepare(features={"gamma": -1.0})], ProtocolError, "gamma must be positive"),
        ([prepare(features={"dimension": 7})], ProtocolError, "even dimension"),
        ([prepare(features={"width": 2**32 - 1})], ProtocolError, "do not fit this party's schema"),
        (
            [prepare(target=types_pb2.MeanVector(coordinates=[1]))],
            ProtocolError,
            "1 coordinates and the run 8",
        ),
        ([prepare(schema_digest="x")], SchemaError, "the curator and a hold different public schemas"),
        ([broadcast()], ProtocolError, "a is not in a run called 'run-1'"),
        ([prepare(), broadcast(9)], ProtocolError, "9 coordinates and the run 8"),
        ([prepare(), broadcast(coordinate=2**31 - 1)], ProtocolError, "out of range"),
        (
            [prepare(), pb.Directive(at=pb.Position(run="run-1", seq=2), ask=pb.Ask(token=0))],
            OwnerFaultError,
            "never bid a row 0",
        ),
        (
            [prepare(), pb.Directive(at=pb.Position(run="run-1", seq=2))],
            ProtocolError,
            "a directive that is not known",
        ),
        ([prepare(), pb.Directive(close=pb.Close())], ProtocolError, "is not in a run called ''"),
    ],
    ids=map(str, range(13)),
)
async def test_a_curator_that_breaks_the_contract_gets_a_fault(
    tmp_path: Path, said: Sequence[pb.Directive], kind: type[FedkmeError], words: str
) -> None:
    # The owner answers in one line and lives; no row leaves.
    farewell = pb.Directive(farewell=pb.Farewell())
    fake = FakeCurator(pb.Directive(welcome=pb.Welcome(version=SPOKEN)), *said, farewell)
    async with fake_curator(tmp_path, fake) as at:
        await at.owner("a")
    answer = fake.heard[-1]
    assert answer.at == said[-1].at
    fault = codecs.fault_from_wire(answer.fault)
    assert type(fault) is kind
    assert words in fault.cause
    assert not (tmp_path / "a.jsonl").read_text()


@pytest.mark.parametrize(
    ("message", "kind", "words"),
    [
        (
            pb.Directive(welcome=pb.Welcome(version=9)),
            ProtocolVersionError,
            "the curator speaks versions 9 to 9",
        ),
        (
            pb.Directive(fault=types_pb2.Fault(code=33, cause="no\nway\x1b[2J", remedy="Go.\x07 ")),
            IdentityError,
            r"\): no way\[2J\. Go\.$",
        ),
        (pb.Directive(fault=types_pb2.Fault(code=999, cause="c", remedy="r")), ProtocolError, r"\): c\. r$"),
        (
            pb.Directive(broadcast=pb.Broadcast(mean=types_pb2.MeanVector(coordinates=[1] * 2**21 + [1]))),
            MessageTooLargeError,
            "is over 8388608 bytes",
        ),
    ],
)
async def test_an_owner_that_gives_up(
    tmp_path: Path, message: pb.Directive, kind: type[FedkmeError], words: str
) -> None:
    # Version mismatch seen from the owner; what a peer says is one printable line; the size cap.
    async with fake_curator(tmp_path, FakeCurator(message)) as at:
        with pytest.raises(kind, match=words) as caught:
            await at.owner("a")
    assert type(caught.value) is kind
    assert str(caught.value).isprintable()


async def test_a_curator_that_fails(tmp_path: Path) -> None:
    # An exception in the curator is no traceback at the owner.
    async def fail(context: Any) -> None:
        raise ValueError("a row: 0.123456")

    async with fake_curator(tmp_path, FakeCurator(finish=fail)) as at:
        with pytest.raises(ConnectionFailedError, match="an error that it did not foresee") as caught:
            await at.owner("a", connect_s=20.0)
    assert "0.123456" not in str(caught.value)
