"""Owners and the curator over a real port: who may come in, and who keeps to the contract."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import grpc.aio
import pytest

from consumer.results import lost_owners
from curator.summary.settings import FeatureSettings, SummarySettings
from fedkme.errors import (
    CancelledRunError,
    ConfigError,
    FedkmeError,
    FencedError,
    IdentityError,
    IncompleteSummaryError,
    MessageTooLargeError,
    MissingOwnersError,
    OwnerFaultError,
    OwnerLostError,
    ProtocolError,
    ProtocolVersionError,
    SchemaError,
)
from fedkme.pki.authority import Authority
from fedkme.pki.certificates import LOOPBACK
from fedkme.privacy.ledger import read_ledger
from fedkme.privacy.settings import ExactSettings
from fedkme.tables.schema import Numeric, Schema
from fedkme.wire import codecs
from fedkme.wire.channel import MESSAGE_LIMIT, explain_rpc_error
from fedkme.wire.v1 import owners_pb2 as pb
from fedkme.wire.v1 import summaries_pb2 as summaries_pb
from fedkme.wire.v1 import types_pb2
from tests.system.launches import read_json, rows_in
from tests.system.market import SCHEMA, Ear, Market, market

SPOKEN = codecs.VERSIONS.newest


def hello(name: str, oldest: int = SPOKEN, newest: int = SPOKEN) -> pb.OwnerMessage:
    versions = types_pb2.VersionRange(oldest=oldest, newest=newest)
    return pb.OwnerMessage(hello=pb.Hello(name=name, versions=versions))


async def good_run(at: Market, *owners: str) -> None:
    """Run well: the curator still serves, whatever happened before."""
    for name in owners:
        at.owner(name)
    await at.consumer(output=at.folder / "good")
    assert at.ended()["status"] == "complete"


@pytest.mark.parametrize(
    ("message", "kind", "words"),
    [
        (hello("a", SPOKEN + 1, SPOKEN + 2), ProtocolVersionError, f"a speaks versions {SPOKEN + 1} to"),
        (hello("a", 0, 0), ProtocolVersionError, "a speaks versions 0 to 0"),
        (hello("stranger"), IdentityError, "'stranger' is not one of this curator's owners"),
        (hello(""), IdentityError, "'' is no name"),
        (pb.OwnerMessage(dry=pb.Dry()), ProtocolError, "did not say hello first"),
        (b"\xff\xff", ProtocolError, "no message of this protocol"),
    ],
)
async def test_an_owner_that_is_not_let_in(
    tmp_path: Path, message: pb.OwnerMessage | bytes, kind: type[FedkmeError], words: str
) -> None:
    # "A protocol version mismatch"; a first message that is no hello; an owner that is not expected.
    async with market(tmp_path, ["a"]) as at:
        async with at.raw("Owners/Attend") as stream:
            await stream.write(message if isinstance(message, bytes) else message.SerializeToString())
            answer = pb.Directive.FromString(await stream.read())
            assert await stream.read() is grpc.aio.EOF
            assert await stream.code() is grpc.StatusCode.OK
        fault = codecs.fault_from_wire(answer.fault)
        assert type(fault) is kind
        assert words in fault.cause
        await good_run(at, "a")


async def test_an_owner_with_another_schema_is_refused_as_it_joins(tmp_path: Path) -> None:
    # Issue 36, item 6: a schema that differs in one bound joined, and its owner was out of every run unheard.
    other = Schema(columns=(Numeric(name="x", bounds=(0, 2), count=3),))
    (tmp_path / "other.toml").write_text(other.to_toml(), encoding="utf-8")
    async with market(tmp_path, ["a"]) as at:
        digests = f"of digests {other.digest()[:8]} and {SCHEMA.digest()[:8]}"
        with pytest.raises(SchemaError, match=f"a and the curator hold different public schemas, {digests}"):
            await at.owner("a", schema_file=tmp_path / "other.toml")
        assert (await at.ear.heard("refused"))["code"] == SchemaError.code
        await good_run(at, "a")


async def test_an_owner_that_names_no_schema_is_let_in_as_before(tmp_path: Path) -> None:
    # An owner of an earlier release says no digest; it refuses runs of another schema itself.
    async with market(tmp_path, ["a"]) as at, at.attend() as stream:
        await stream.write(hello("a"))
        assert (await stream.read()).HasField("welcome")


async def test_a_name_has_one_process(tmp_path: Path) -> None:
    # "Duplicate owner names": of two that come at the same time the later one is served, and stays.
    async with market(tmp_path, ["a"]) as at:
        twins = [at.owner("a", journal=str(tmp_path / f"{host}.journal")) for host in ("one", "two")]
        done, staying = await asyncio.wait(twins, return_when=asyncio.FIRST_COMPLETED)
        error = done.pop().exception()
        assert isinstance(error, FencedError)
        assert error.cause.startswith("another process of a has joined, as number 2")
        assert len(staying) == 1
        await good_run(at)


async def test_a_name_comes_from_the_certificate(tmp_path: Path) -> None:
    # DESIGN, decision 2: identity from the certificate.
    authority = Authority()
    authority.issue("curator", LOOPBACK).save(tmp_path / "curator")
    authority.issue("b").save(tmp_path / "b")
    async with market(tmp_path, ["a", "b"], identity=tmp_path / "curator") as at:
        with pytest.raises(IdentityError, match="says it is 'a' and its certificate does not"):
            await at.owner("a", identity=tmp_path / "b")
        at.owner("b", identity=tmp_path / "b")
        authority.issue("a").save(tmp_path / "a")
        at.owner("a", identity=tmp_path / "a")
        authority.issue("consumer").save(tmp_path / "ca")
        await at.consumer(identity=tmp_path / "ca")
        assert at.ended()["status"] == "complete"


async def test_a_message_over_the_cap(tmp_path: Path) -> None:
    # "A message over the size cap": whoever sent it is told, the curator goes on.
    async with market(tmp_path, ["a"]) as at:
        async with at.attend() as stream:
            await stream.write(hello("a"))
            assert (await stream.read()).HasField("welcome")
            await stream.write(hello("a" * (MESSAGE_LIMIT + 1)))
            with pytest.raises(grpc.aio.AioRpcError) as caught:
                await stream.read()
        error = explain_rpc_error(caught.value, at.address)
        assert isinstance(error, MessageTooLargeError)
        assert str(MESSAGE_LIMIT) in error.cause
        await good_run(at, "a")


def answers(directive: pb.Directive, **body: Any) -> pb.OwnerMessage:
    return pb.OwnerMessage(at=directive.at, **body)


ACCEPTED = {"accepted": pb.Accepted(rows=50)}
ROW = types_pb2.Row(token=0, values=[0.5, 0.5, 0.5])
FAR = types_pb2.Row(token=0, values=[0.5, float("nan"), 0.5])
SHORT = types_pb2.Row(token=0, values=[0.5])
BID = {"bid": pb.Bid(value=100.0, token=0)}


@pytest.mark.parametrize(
    ("script", "code"),
    [
        ([{"dry": pb.Dry()}], OwnerFaultError.code),
        ([{"fault": types_pb2.Fault(code=12, cause="bad\nrows\x1b[2J", remedy="r")}], OwnerFaultError.code),
        ([{"hello": pb.Hello(name="mallory")}], OwnerFaultError.code),
        ([ACCEPTED, {"rows": types_pb2.Rows(last=True)}], OwnerFaultError.code),
        ([ACCEPTED, {"bid": pb.Bid(value=float("nan"))}], OwnerFaultError.code),
        ([ACCEPTED, BID, {"rows": types_pb2.Rows(last=True)}], OwnerFaultError.code),
        ([ACCEPTED, BID, {"rows": types_pb2.Rows(rows=[ROW, ROW], last=True)}], OwnerFaultError.code),
        ([ACCEPTED, BID, {"rows": types_pb2.Rows(rows=[ROW])}], OwnerLostError.code),
        ([ACCEPTED, BID, {"rows": types_pb2.Rows(rows=[FAR], last=True)}], 12),
        ([ACCEPTED, BID, {"rows": types_pb2.Rows(rows=[SHORT], last=True)}], 12),
        ([ACCEPTED, BID, {"rows": types_pb2.Rows(rows=[ROW], last=True)}], 25),
        ([ACCEPTED, None], OwnerLostError.code),
        ([None], OwnerLostError.code),
        ([b"\xff\xff"], OwnerLostError.code),
    ],
    ids=map(str, range(14)),
)
async def test_an_owner_that_breaks_the_contract_leaves(
    tmp_path: Path, script: Sequence[dict[str, Any] | bytes | None], code: int
) -> None:
    # Whatever an owner sends, the run goes on without it and says so in one line; None: it hangs up.
    async with market(tmp_path, ["a", "mallory"], progress_s=5, grace_s=0) as at:
        at.owner("a")
        async with at.raw("Owners/Attend") as stream:
            await stream.write(hello("mallory").SerializeToString())
            assert pb.Directive.FromString(await stream.read()).HasField("welcome")
            await at.ear.heard("owner_joined", 2)
            running = at.consumer()
            for body in (ACCEPTED, *script):  # it says first that it will take part
                directive = pb.Directive.FromString(await stream.read())
                if body is None:
                    stream.cancel()
                    break
                said = body if isinstance(body, bytes) else answers(directive, **body).SerializeToString()
                await stream.write(said)
            await running
        assert at.ended()["status"] == "complete"
        (fault,) = read_json(tmp_path / "runs" / "run-1" / "record.json")["faults"]
        assert (fault["owner"], fault["code"]) == ("mallory", code)
        assert fault["line"].isprintable()
        assert (await at.ear.heard("owner_left"))["line"] == fault["line"]


async def test_an_answer_of_one_run_is_not_taken_for_another(tmp_path: Path) -> None:
    # A consumer that hangs up ends nobody's session, nor its run: the same owners serve the next beside it.
    async with market(tmp_path, ["a", "b"]) as at:
        owners = [at.owner("a"), at.owner("b", count=2000)]
        ear = Ear()
        running = at.consumer(p=300, ear=ear, output=tmp_path / "cut")
        await ear.heard("progress")
        running.cancel()
        await asyncio.wait([running])
        await at.consumer(p=30)
        await at.ear.heard("ended", 2)
        assert not any(owner.done() for owner in owners)
    for number in (1, 2):
        record = read_json(tmp_path / "runs" / f"run-{number}" / "record.json")
        assert record["status"] == "complete"
        assert record["closings"] == record["accessed"]
        assert not record["faults"]


async def test_a_cancelled_run_keeps_what_it_has(tmp_path: Path) -> None:
    # DESIGN, "Errors": a run that ends early is written down, and nobody's session ends with it.
    async with market(tmp_path, ["a", "b"]) as at:
        at.owner("a")
        at.owner("b", count=2000)
        ear = Ear()
        running = at.consumer(p=1000, ear=ear)
        await ear.heard("progress")
        query = summaries_pb.RunQuery(name="consumer", run="run-1")
        async with at.summaries() as stub:
            (state,) = (await stub.CancelRun(query)).runs
        assert state.status == "cancelled"
        with pytest.raises(IncompleteSummaryError, match=r"has \d+ of 1000 rows"):
            await running
        await good_run(at)
    record = read_json(tmp_path / "runs" / "run-1" / "record.json")
    assert (record["status"], record["code"]) == ("stopped", CancelledRunError.code)
    assert 0 < record["rounds"] < 1000
    assert (tmp_path / "runs" / "run-1" / "rounds.csv").is_file()


async def test_owners_that_do_not_come(tmp_path: Path) -> None:
    # MissingOwnersError, 22: it names them.
    quorum = SummarySettings(protocol="algorithm3", quorum=2)
    async with market(tmp_path, ["a", "b", "c"], connect_s=0.3, summary=quorum) as at:
        at.owner("b")
        await at.ear.heard("owner_joined")
        with pytest.raises(MissingOwnersError, match=r"\): a, c did not join within 0\.3 s\.") as caught:
            await at.consumer()
        assert caught.value.code == 22
    assert not read_ledger(tmp_path / "consumer.db")


async def test_a_quorum_begins_without_the_others_and_says_so(tmp_path: Path) -> None:
    summary = SummarySettings(quorum=1, features=FeatureSettings(dimension=8), broadcast=ExactSettings())
    async with market(tmp_path, ["a", "b"], connect_s=0.3, summary=summary) as at:
        at.owner("a")
        await at.ear.heard("owner_joined")
        await at.consumer()
        left = await at.ear.heard("owner_left")
    (fault,) = read_json(tmp_path / "runs" / "run-1" / "record.json")["faults"]
    assert (fault["owner"], fault["round"], fault["code"]) == ("b", 0, 22)
    assert left["line"] == fault["line"]


async def test_owners_with_another_schema_are_refused_by_themselves(tmp_path: Path) -> None:
    # "Schema digest mismatch": the owner's fault is in the record, the run goes on with the others.
    other = Schema(columns=(Numeric(name="x", bounds=(0, 2), count=3),))
    (tmp_path / "other.toml").write_text(other.to_toml(), encoding="utf-8")
    async with market(tmp_path, ["a", "b"]) as at:
        at.owner("a")
        at.owner("b", schema_file=tmp_path / "other.toml")
        await at.consumer()
    (fault,) = read_json(tmp_path / "runs" / "run-1" / "record.json")["faults"]
    assert (fault["owner"], fault["code"]) == ("b", SchemaError.code)
    assert "different public schemas" in fault["line"]


async def test_a_consumer_hears_how_many_owners_were_lost_and_why(tmp_path: Path) -> None:
    # Issue 36, item 6: a summary of one of three owners was "good", and its consumer heard of nobody missing.
    ear = Ear()
    async with market(tmp_path, ["a", "b", "c"]) as at:
        at.owner("a")
        at.owner("b", policy={"consumers": ["hospital"]})
        at.owner("c")
        await at.consumer(ear=ear)
    line = "2 of 3 owners took part to the end; lost: error 54 (policy)"
    assert (await ear.heard("received"))["participation"] == line
    verdict = read_json(tmp_path / "consumer" / "evaluation.json")["verdict"]
    assert verdict["doubts"] == [line]
    assert verdict["grade"] != "good"
    assert lost_owners(tmp_path / "consumer") == [line]
    record = read_json(tmp_path / "runs" / "run-1" / "record.json")
    assert record["participation"] == {"expected": 3, "took_part": 2, "lost": [54]}


async def test_an_owner_that_was_away_hears_once_why_a_run_went_on_without_it(tmp_path: Path) -> None:
    # Also from a curator that was started again meanwhile; whenever the owner joins, it is told again.
    summary = SummarySettings(quorum=1, features=FeatureSettings(dimension=8), broadcast=ExactSettings())
    async with market(tmp_path, ["a", "b"], connect_s=0.3, summary=summary) as at:
        at.owner("a")
        await at.ear.heard("owner_joined")
        await at.consumer()
        await at.ear.heard("ended")
        await at.stop()
        assert await at.start()
        ear = Ear()
        first = at.owner("b", ear=ear)
        left = await ear.heard("left_out")
        assert (left["run"], left["code"]) == ("run-1", MissingOwnersError.code)
        assert left["cause"] == "b has not joined; the run begins without it"
        first.cancel()
        await asyncio.wait([first])
        again = Ear()
        at.owner("b", ear=again)
        await again.heard("joined")
        await at.consumer(output=tmp_path / "second")
        await at.ear.heard("ended")
        record = read_json(tmp_path / "runs" / "run-2" / "record.json")
        assert "b" in record["owner_rows"]  # asked after it was told again, on the same stream
        assert "left_out" not in [event for event, _ in again.said]


async def test_a_summary_of_all_owners_says_so_and_keeps_its_grade(tmp_path: Path) -> None:
    ear = Ear()
    async with market(tmp_path, ["a"]) as at:
        at.owner("a")
        await at.consumer(ear=ear)
    assert (await ear.heard("received"))["participation"] == "1 of 1 owners took part to the end"
    verdict = read_json(tmp_path / "consumer" / "evaluation.json")["verdict"]
    assert verdict["doubts"] == []


async def test_the_curator_counts_the_bytes_of_each_run(tmp_path: Path) -> None:
    # metrics.json, `bytes`: of the run, not of the session.
    async with market(tmp_path, ["a"]) as at:
        at.owner("a")
        for _ in range(2):
            await at.consumer()
    counts = [read_json(tmp_path / "runs" / f"run-{n}" / "record.json")["bytes"] for n in (1, 2)]
    assert counts[0]["sent"] > 0
    assert abs(counts[0]["sent"] - counts[1]["sent"]) < 100
    assert abs(counts[0]["received"] - counts[1]["received"]) < 100


async def test_an_owner_writes_down_what_leaves_before_it_goes(tmp_path: Path) -> None:
    # fedkme ledger of both sides; without labels as well.
    async with market(tmp_path, ["a"]) as at:
        at.owner("a")
        await at.consumer(p=4)
    own = rows_in(tmp_path / "a.jsonl", "a")
    assert len(own) >= 4
    assert rows_in(tmp_path / "runs" / "ledger.jsonl", "a") == own


async def test_neither_seeds_nor_plaintext_off_loopback(tmp_path: Path) -> None:
    # DESIGN, decision 5.
    async with market(tmp_path, ["a"]) as at:
        for address in ("192.0.2.1:7", "127.0.0.1.example.org:7", "localhost.example.org:7"):
            with pytest.raises(ConfigError, match="plaintext is refused"):
                await at.owner("a", curator=address)
        with pytest.raises(ConfigError, match="seeded randomness is refused"):
            await at.owner("a", curator="192.0.2.1:7", identity=tmp_path, plaintext=False, simulation_seed=1)
