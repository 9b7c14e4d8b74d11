"""Consumers and the curator over a real port: what each makes of a peer that breaks the contract."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import grpc.aio
import numpy as np
import pytest

from fedkme.errors import (
    ConfigError,
    ConnectionFailedError,
    DataError,
    FedkmeError,
    MessageTooLargeError,
    ProtocolError,
    ProtocolVersionError,
    SchemaError,
)
from fedkme.tables.schema import Numeric, Schema
from fedkme.tables.table import Row
from fedkme.wire import codecs
from fedkme.wire.channel import MESSAGE_LIMIT, explain_rpc_error
from fedkme.wire.v1 import summaries_pb2 as pb
from fedkme.wire.v1 import types_pb2
from tests.system.launches import read_json
from tests.system.market import DIMENSION, FakeCurator, fake_curator, market, request


def asked(**changes: Any) -> pb.ConsumerMessage:
    message = request()
    if "gamma" in changes and changes["gamma"] is None:
        message.request.ClearField(changes.popitem()[0])
    if "versions" in changes:
        message.request.versions.CopyFrom(changes.pop("versions"))
    for name, value in changes.items():
        setattr(message.request, name, value)
    return message


def d_v(*rows: Sequence[float], last: bool = True) -> pb.ConsumerMessage:
    values = np.array([value for row in rows for value in row], "<f8").tobytes()
    return pb.ConsumerMessage(validation=types_pb2.Rows(values=values, columns=3, last=last))


GOOD = (0.5, 0.5, 0.5)
TARGET = pb.ConsumerMessage(target=types_pb2.MeanVector(coordinates=[0] * DIMENSION))
WITH_ROWS = pb.ConsumerMessage(target=TARGET.target, with_validation=True)
SHORT = pb.ConsumerMessage(target=types_pb2.MeanVector(coordinates=[0] * 3))
HUGE = pb.ConsumerMessage(target=types_pb2.MeanVector(coordinates=[2**31 - 1] * DIMENSION))
SPOKEN = codecs.VERSIONS.newest
NEXT = types_pb2.VersionRange(oldest=SPOKEN + 1, newest=SPOKEN + 1)

BAD: list[tuple[list[pb.ConsumerMessage | bytes], type[FedkmeError], str]] = [
    ([asked(versions=NEXT)], ProtocolVersionError, f"the consumer speaks versions {SPOKEN + 1} to"),
    ([asked(versions=types_pb2.VersionRange())], ProtocolVersionError, "versions 0 to 0"),
    ([asked(schema_digest="x")], SchemaError, "different public schemas"),
    ([asked(rows=0)], ProtocolError, "no rows or no kernel"),
    ([asked(gamma=None)], ProtocolError, "no rows or no kernel"),
    ([asked(gamma=float("nan"))], ConfigError, "gamma must be positive"),
    ([asked(gamma_from_seeds=True)], ConfigError, "the curator has none"),
    ([TARGET], ProtocolError, "did not send its request"),
    ([pb.ConsumerMessage()], ProtocolError, "did not send its request"),
    ([b"\xff\xff"], ProtocolError, "no message of this protocol"),
    ([asked(), SHORT], ProtocolError, "3 coordinates and the run 8"),
    ([asked(), HUGE], ProtocolError, "out of range"),
    ([asked(), asked()], ProtocolError, "did not send its target when"),
    ([asked(), d_v(GOOD, GOOD)], ProtocolError, "did not send its target when"),
    ([asked(), WITH_ROWS, d_v(GOOD, last=False), TARGET], ProtocolError, "did not send its validation"),
    ([asked(), WITH_ROWS, d_v(GOOD)], ProtocolError, "another size"),
    ([asked(), WITH_ROWS, d_v(GOOD, GOOD, GOOD, last=False)], ProtocolError, "another size"),
    ([asked(), WITH_ROWS, d_v()], ProtocolError, "empty parts"),
    ([asked(), WITH_ROWS, d_v(GOOD, (0.5, 0.5))], ProtocolError, "does not have the schema's 3 columns"),
    ([asked(), WITH_ROWS, d_v(GOOD, (0.5, float("nan"), 0.5))], DataError, "NaN, infinity"),
    ([asked(), WITH_ROWS, d_v(GOOD, (0.5, 7.5, 0.5))], DataError, "outside the public bounds"),
]


async def test_a_consumer_that_breaks_the_contract_is_told_and_the_next_is_served(tmp_path: Path) -> None:
    # "Each ends in one clear line with cause and remedy": one curator, all of them, then a good run.
    async with market(tmp_path, ["a"]) as at:
        at.owner("a")
        for messages, kind, words in BAD:
            async with at.raw("Summaries/Summarize") as stream:
                for message in messages:
                    said = message if isinstance(message, bytes) else message.SerializeToString()
                    await stream.write(said)
                answer = pb.CuratorMessage.FromString(await stream.read())
                if answer.HasField("plan"):
                    answer = pb.CuratorMessage.FromString(await stream.read())
                fault = codecs.fault_from_wire(answer.fault)
                assert type(fault) is kind, messages
                assert words in fault.cause
                assert await stream.read() is grpc.aio.EOF
        refused = [fields for event, fields in at.ear.said if event == "refused"]
        assert len(refused) == len(BAD)
        await at.consumer()
        assert at.ended()["status"] == "complete"
        good = at.ended()["run"]
    assert [path.name for path in (tmp_path / "runs").iterdir() if path.is_dir()] == [good]


async def test_a_silent_consumer_does_not_keep_others_waiting(tmp_path: Path) -> None:
    # `progress_s` holds for the consumer as well: a call that leads to nothing ends.
    async with market(tmp_path, ["a"], progress_s=4) as at, at.summarize() as silent:
        at.owner("a")
        await silent.write(request())
        assert (await silent.read()).HasField("plan")
        await at.consumer()
        assert at.ended()["status"] == "complete"
        fault = codecs.fault_from_wire((await silent.read()).fault)
        assert isinstance(fault, ConnectionFailedError)
        assert "neither spoke nor listened for 4 s" in fault.cause


async def test_a_message_over_the_cap(tmp_path: Path) -> None:
    # "A message over the size cap."
    async with market(tmp_path, ["a"]) as at:
        async with at.summarize() as stream:
            await stream.write(asked(schema_digest="x" * (MESSAGE_LIMIT + 1)))
            with pytest.raises(grpc.aio.AioRpcError) as caught:
                await stream.read()
        assert isinstance(explain_rpc_error(caught.value, at.address), MessageTooLargeError)
        at.owner("a")
        await at.consumer()


def test_a_row_over_the_cap_never_goes() -> None:
    # The sender notices: no peer hangs up on it.
    row = Row(0, np.zeros(MESSAGE_LIMIT // 8), None)
    with pytest.raises(MessageTooLargeError, match="a row of 1048576 columns"):
        list(codecs.rows_to_wire([row]))


async def test_d_v_itself_where_the_curator_is_trusted(tmp_path: Path) -> None:
    # Issue 2, item 6: sending D_v counts |D_v| as accessed; by default nothing of it goes.
    async with market(tmp_path, ["a"]) as at:
        at.owner("a")
        await at.consumer()
        await at.consumer(share="rows")
    records = [read_json(tmp_path / "runs" / f"run-{n}" / "record.json") for n in (1, 2)]
    assert [record["validation_points"] for record in records] == [0, 15]


async def test_another_schema(tmp_path: Path) -> None:
    # "Schema digest mismatch" as the consumer sees it.
    other = Schema(columns=(Numeric(name="x", bounds=(0, 2), count=3),))
    (tmp_path / "other.toml").write_text(other.to_toml(), encoding="utf-8")
    async with market(tmp_path, ["a"]) as at:
        with pytest.raises(SchemaError, match="the consumer and the curator hold different public schemas"):
            await at.consumer(schema_file=tmp_path / "other.toml")


FEATURES = types_pb2.FeatureMap(
    kind=types_pb2.FeatureMap.KIND_PAIRED, dimension=DIMENSION, gamma=1.0, width=3
)
PLAN = pb.CuratorMessage(plan=pb.Plan(version=SPOKEN, run="run-1", features=FEATURES))
OUTCOME = pb.CuratorMessage(outcome=pb.Outcome(status=pb.Outcome.STATUS_COMPLETE, rounds=1))


def plan(version: int = SPOKEN, **features: Any) -> pb.CuratorMessage:
    changed = types_pb2.FeatureMap()
    changed.CopyFrom(FEATURES)
    for name, value in features.items():
        setattr(changed, name, value)
    return pb.CuratorMessage(plan=pb.Plan(version=version, run="run-1", features=changed))


def summary(*rows: Sequence[float]) -> pb.CuratorMessage:
    part = [types_pb2.Row(token=index, values=row) for index, row in enumerate(rows)]
    return pb.CuratorMessage(summary=types_pb2.Rows(rows=part, last=True))


@pytest.mark.parametrize(
    ("messages", "kind", "words"),
    [
        ([plan(version=SPOKEN + 1)], ProtocolVersionError, f"the curator speaks versions {SPOKEN + 1} to"),
        ([plan(kind=9)], ProtocolError, "not known here"),
        ([plan(width=4)], ProtocolError, "do not fit this party's schema"),
        ([plan(gamma=0.0)], ProtocolError, "gamma must be positive"),
        ([OUTCOME], ProtocolError, "did not begin with a plan"),
        ([], ProtocolError, "did not begin with a plan"),
        ([PLAN], ConnectionFailedError, "before the outcome"),
        ([PLAN, summary((0.5, 0.5)), OUTCOME], ProtocolError, "the schema's 3 columns"),
        ([PLAN, summary((0.5, 0.5, 7.5)), OUTCOME], DataError, "outside the public bounds"),
        ([PLAN, pb.CuratorMessage(fault=types_pb2.Fault(code=20, cause="c", remedy="r"))], FedkmeError, "20"),
        ([PLAN, summary(GOOD * 400_000)], MessageTooLargeError, "is over 8388608 bytes"),
    ],
    ids=map(str, range(11)),
)
async def test_a_curator_that_breaks_the_contract(
    tmp_path: Path, messages: Sequence[pb.CuratorMessage], kind: type[FedkmeError], words: str
) -> None:
    # The consumer ends with one line, and writes no summary that it cannot vouch for.
    async with fake_curator(tmp_path, FakeCurator(*messages)) as at:
        with pytest.raises(kind, match=words) as caught:
            await at.consumer(away_s=0)
    assert str(caught.value).isprintable()
    assert not (tmp_path / "consumer" / "summary.npz").exists()


async def test_an_output_that_cannot_be_made_is_refused_before_the_run(tmp_path: Path) -> None:
    # "No data is lost": better now than when the rows are there.
    (tmp_path / "file").write_text("x")
    async with market(tmp_path, ["a"]) as at:
        with pytest.raises(ConfigError, match="cannot be made"):
            await at.consumer(output=tmp_path / "file" / "folder")
        assert not (tmp_path / "runs" / "run-1").exists()
