"""Decision 004 over real connections: sessions survive streams and processes, and runs survive both.

audit/tests/chaos holds the same of every moment, over a simulated network; here are the parties as deployed.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import grpc.aio
import pytest
import pytest_asyncio

from curator.summary.settings import FeatureSettings, SummarySettings
from fedkme.errors import CancelledRunError, ConfigError, FedkmeError, FencedError, IdentityError
from fedkme.pki.authority import Authority
from fedkme.pki.certificates import LOOPBACK
from fedkme.pki.identity import Identity
from fedkme.privacy.ledger import read_ledger
from fedkme.privacy.settings import ExactSettings, GaussianSettings
from fedkme.tables.files import read_arrays
from fedkme.wire import codecs
from fedkme.wire.v1 import summaries_pb2 as pb
from fedkme.wire.v1 import summaries_pb2_grpc
from tests.parties import WAIT_S
from tests.system.launches import read_json, rounds
from tests.system.market import DIMENSION, UNLIMITED, Ear, Market, market
from tests.system.proxy import Proxy

P = 120  # enough rounds after the first for something to happen in them
ROWS = {"a": 20, "b": 600}


def transcript(folder: Path, run: str = "run-1") -> dict[str, Any]:
    """Facts of a run that no accident may change; the bytes that went over the wire may."""
    directory = folder / "runs" / run
    return {
        "record": read_json(directory / "record.json") | {"bytes": None},
        "rounds": rounds(directory),
        "summary": (directory / "summary.npz").read_bytes(),
        "curator": (folder / "runs" / "ledger.jsonl").read_bytes(),
        "owners": [(folder / f"{name}.jsonl").read_bytes() for name in ROWS],
        "consumer": (folder / "consumer.jsonl").read_bytes(),
        "received": (folder / "consumer" / "summary.npz").read_bytes(),
    }


def made(folder: Path) -> Path:
    folder.mkdir(exist_ok=True)
    return folder


@contextlib.asynccontextmanager
async def town(folder: Path, **changes: Any) -> AsyncIterator[Market]:
    """A curator that expects owners a and b."""
    async with market(made(folder), tuple(ROWS), **changes) as at:
        yield at


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The transcript of a run in which nothing happens."""
    folder = tmp_path_factory.mktemp("undisturbed")
    async with town(folder) as at:
        for name, count in ROWS.items():
            at.owner(name, count)
        await at.consumer(P)
    return transcript(folder)


async def in_the_middle(at: Market, ear: Ear, count: int = 1) -> None:
    """Wait until a consumer has heard of its run, which goes on."""
    await ear.heard("progress", count)
    assert not [event for event, _ in at.ear.said if event == "ended"]


async def test_a_run_goes_on_over_the_next_connection(tmp_path: Path, undisturbed: dict[str, Any]) -> None:
    # "The same instance again: a reconnect. A directive that waits ... is sent again on the next stream."
    async with town(tmp_path / "troubled") as at:
        proxy, owner, consumer = Proxy(at.address), Ear(), Ear()
        async with proxy.open() as address:
            at.owner("a", ROWS["a"])
            staying = at.owner("b", ROWS["b"], ear=owner, curator=address)
            asking = at.consumer(P, ear=consumer)
            for count in (1, 2):
                await in_the_middle(at, consumer, count)
                proxy.cut()
                await owner.heard("back", count)
            await asking
            assert not staying.done()
            await at.end()
    epochs = [fields["epoch"] for event, fields in owner.said if event == "joined"]
    assert epochs == [1, 1, 1]  # one process
    assert [event for event, _ in owner.said if event in ("away", "back")] == ["away", "back"] * 2
    assert transcript(tmp_path / "troubled") == undisturbed


async def test_a_consumer_comes_back_over_the_next_connection(
    tmp_path: Path, undisturbed: dict[str, Any]
) -> None:
    # "A run does not need its consumer"; who comes back asks for the same run, and D_v costs nothing more.
    async with town(tmp_path / "troubled") as at:
        proxy, consumer = Proxy(at.address), Ear()
        async with proxy.open() as address:
            for name, count in ROWS.items():
                at.owner(name, count)
            asking = at.consumer(P, ear=consumer, curator=address)
            await in_the_middle(at, consumer)
            proxy.cut()
            await asking
    assert [event for event, _ in consumer.said if event in ("away", "back")] == ["away", "back"]
    assert transcript(tmp_path / "troubled") == undisturbed


async def test_a_second_process_fences_the_first(tmp_path: Path) -> None:
    # "Its stream ends with fault 35 and it does not come back": a line on both sides, also in a run. The
    # second has no journal of the run, and says so; the run goes on without it.
    async with town(tmp_path) as at:
        at.owner("b", ROWS["b"])
        consumer, ears = Ear(), (Ear(), Ear())
        first = at.owner("a", ROWS["a"], ear=ears[0])
        asking = at.consumer(P, ear=consumer)
        await in_the_middle(at, consumer)
        second = at.owner("a", ROWS["a"], ear=ears[1], journal=str(tmp_path / "elsewhere"))
        with pytest.raises(FencedError, match="another process of a has joined, as number 2") as caught:
            await first
        assert caught.value.code == 35
        assert str(caught.value).isprintable()
        assert (await at.ear.heard("fenced")) == {"owner": "a", "epoch": 2}
        await asking
        assert not second.done()
        assert [(await ear.heard("joined"))["epoch"] for ear in ears] == [1, 2]
        await at.consumer(6, output=tmp_path / "next")
    (fault,) = read_json(tmp_path / "runs" / "run-1" / "record.json")["faults"]
    assert fault["owner"] == "a"
    assert "is not in a run called 'run-1'" in fault["line"]
    after = read_json(tmp_path / "runs" / "run-2" / "record.json")
    assert sorted(after["closings"]) == ["a", "b"]


async def test_an_owner_that_is_started_again_ends_the_run_as_if_nothing_was(
    tmp_path: Path, undisturbed: dict[str, Any]
) -> None:
    # "Everything that leaves is on disk before it does": the next process of an owner goes on from there.
    async with town(tmp_path / "troubled") as at:
        consumer, ears = Ear(), [Ear() for _ in range(3)]
        at.owner("a", ROWS["a"])
        process = at.owner("b", ROWS["b"], ear=ears[0])
        asking = at.consumer(P, ear=consumer)
        for count in (1, 2):
            await in_the_middle(at, consumer, count)
            process.cancel()
            await asyncio.wait([process])
            process = at.owner("b", ROWS["b"], ear=ears[count])
        await asking
    assert [(await ear.heard("joined"))["epoch"] for ear in ears] == [1, 2, 3]
    assert transcript(tmp_path / "troubled") == undisturbed


async def test_a_curator_that_is_started_again_ends_the_run_as_if_nothing_was(
    tmp_path: Path, undisturbed: dict[str, Any]
) -> None:
    # "Executes the same algorithm3 from its first line"; owners and the consumer come back by themselves.
    async with town(tmp_path / "troubled") as at:
        consumer = Ear()
        owners = [at.owner(name, count) for name, count in ROWS.items()]
        asking = at.consumer(P, ear=consumer)
        for count in (1, 2):
            await in_the_middle(at, consumer, count)
            await at.stop()
            directory = tmp_path / "troubled" / "runs" / "run-1"
            cut_short = read_json(directory / "record.json")  # what there is can be read
            assert cut_short["status"] == "interrupted"
            assert len(read_arrays(directory / "summary.npz", "test")["x"]) == cut_short["rounds"] > 0
            assert not asking.done()
            assert await at.start()
        await asking
        assert not any(owner.done() for owner in owners)
    assert transcript(tmp_path / "troubled") == undisturbed


async def test_runs_in_the_queue_are_there_after_a_restart(tmp_path: Path) -> None:
    # "Ends every open run": those too that had not begun.
    async with town(tmp_path, runs_at_once=1) as at:
        for name, count in ROWS.items():
            at.owner(name, count)
        ear = Ear()
        asking = [at.consumer(P, ear=ear, name="x", output=tmp_path / "x")]
        await in_the_middle(at, ear)
        waiting = Ear()
        asking.append(at.consumer(6, ear=waiting, name="y", output=tmp_path / "y"))
        async with at.summaries() as stub:
            async with asyncio.timeout(WAIT_S):
                while not (listed := (await stub.ListRuns(pb.RunQuery(name="y"))).runs) or (
                    listed[0].status == "asked"
                ):
                    pass
            assert (listed[0].status, listed[0].ahead) == ("queued", 0)
        await at.stop()
        assert not (tmp_path / "runs" / "run-2").exists()  # stopping one does not begin the next
        assert await at.start()
        await asyncio.gather(*asking)
    for number, p in ((1, P), (2, 6)):
        record = read_json(tmp_path / "runs" / f"run-{number}" / "record.json")
        assert (record["status"], record["rounds"]) == ("complete", p)


@pytest.mark.parametrize("when", ["while it goes on", "when it is over"])
async def test_a_consumer_that_asks_again_gets_the_same_run(tmp_path: Path, when: str) -> None:
    # "Asking again attaches to the same run, draws no noise, and sends the same bytes". No seed: noise is the
    # operating system's, so that noise drawn anew would show in the ledger, by its nonce.
    target = GaussianSettings()
    async with town(tmp_path, simulation_seed=None) as at:
        for name, count in ROWS.items():
            at.owner(name, count)
        ear, again = Ear(), Ear()
        asking = at.consumer(P, ear=ear, target=target)
        await in_the_middle(at, ear)
        asking.cancel()
        await asyncio.wait([asking])
        if when == "when it is over":
            await at.ear.heard("ended")
        charged = read_ledger(tmp_path / "consumer.db")
        await at.consumer(P, ear=again, target=target)
        run = at.ended()["run"]
        assert (await again.heard("resumed")) == {"run": run}
        assert read_ledger(tmp_path / "consumer.db") == charged
        assert [entry.disclosure.observer for entry in charged] == ["curator", "owners"]
        assert [path.name for path in (tmp_path / "runs").iterdir() if path.is_dir()] == [run]
        received = read_arrays(tmp_path / "consumer" / "summary.npz", "test")["x"]
        made = read_arrays(tmp_path / "runs" / run / "summary.npz", "test")["x"]
        assert received.tolist() == made.tolist()
        assert len(made) == P
        # that one is done: the same words again are another request, and nothing of the earlier one is lost
        await at.consumer(P, target=target)
        earlier = tmp_path / "consumer" / "earlier-1"
        assert read_arrays(earlier / "summary.npz", "test")["x"].tolist() == received.tolist()
        assert (earlier / "evaluation.json").exists()
        assert (tmp_path / "consumer" / "evaluation.json").exists()
        assert len({fields["run"] for event, fields in at.ear.said if event == "ended"}) == 2


async def test_two_runs_at_once_are_as_each_alone(tmp_path: Path, undisturbed: dict[str, Any]) -> None:
    # "Several runs may be open at once", over the same owners: neither hears anything of the other.
    async with town(tmp_path / "both") as at:
        for name, count in ROWS.items():
            at.owner(name, count)
        ears = {"x": Ear(), "y": Ear()}
        asking = [at.consumer(P, ear=ear, name=name, output=tmp_path / name) for name, ear in ears.items()]
        for ear in ears.values():
            await in_the_middle(at, ear)
        await asyncio.gather(*asking)
    for run in ("run-1", "run-2"):
        directory = tmp_path / "both" / "runs" / run
        assert rounds(directory) == undisturbed["rounds"]
        assert (directory / "summary.npz").read_bytes() == undisturbed["summary"]
        record = read_json(directory / "record.json")
        assert record["closings"] == record["accessed"] == undisturbed["record"]["accessed"]


async def fault_of_call(at: Market, call: pb.ConsumerMessage) -> FedkmeError:
    async with at.summarize() as stream:
        await stream.write(call)
        return codecs.fault_from_wire((await stream.read()).fault)


async def test_a_consumer_has_its_own_runs_alone(tmp_path: Path) -> None:
    # "A consumer can only see and cancel its own"; whether another has a run of a name is not said either.
    async with town(tmp_path) as at:
        for name, count in ROWS.items():
            at.owner(name, count)
        ear = Ear()
        asking = at.consumer(P, ear=ear, name="x")
        await in_the_middle(at, ear)
        async with at.summaries() as stub:
            (own,) = (await stub.ListRuns(pb.RunQuery(name="x"))).runs
            assert (own.run, own.status, own.rows) == ("run-1", "running", P)
            assert not (await stub.ListRuns(pb.RunQuery(name="y"))).runs
            for run in ("run-1", "run-9"):
                theirs = pb.RunQuery(name="y", run=run)
                faults = [
                    codecs.fault_from_wire((await stub.ListRuns(theirs)).fault),
                    codecs.fault_from_wire((await stub.CancelRun(theirs)).fault),
                    await fault_of_call(at, pb.ConsumerMessage(attach=theirs)),
                ]
                for fault in faults:
                    assert isinstance(fault, ConfigError)
                    assert fault.cause == f"there is no run '{run}' of yours"
        await asking
        async with at.summaries() as stub:
            done = await stub.CancelRun(pb.RunQuery(name="x", run="run-1"))
            assert isinstance(codecs.fault_from_wire(done.fault), CancelledRunError)
    assert read_json(tmp_path / "runs" / "run-1" / "record.json")["status"] == "complete"


async def test_a_consumer_cannot_call_itself_another(tmp_path: Path) -> None:
    # Where there are certificates, the name is the certificate's.
    authority = Authority()
    authority.issue("curator", LOOPBACK).save(tmp_path / "curator")
    for name in ("a", "b", "x", "y"):
        authority.issue(name).save(tmp_path / name)
    summary = SummarySettings(features=FeatureSettings(dimension=DIMENSION), broadcast=ExactSettings())
    async with town(tmp_path, identity=tmp_path / "curator", summary=summary) as at:
        for name, count in ROWS.items():
            at.owner(name, count, identity=tmp_path / name)
        await at.consumer(6, name="x", identity=tmp_path / "x")
        credentials = Identity.load(tmp_path / "y").channel_credentials()
        async with grpc.aio.secure_channel(at.address, credentials, options=UNLIMITED) as channel:
            stub = summaries_pb2_grpc.SummariesStub(channel)
            query = pb.RunQuery(name="x", run="run-1")
            stream = stub.Summarize()
            await stream.write(pb.ConsumerMessage(attach=query))
            heard = await stream.read()
            assert isinstance(heard, pb.CuratorMessage)
            for fault in (
                (await stub.ListRuns(query)).fault,
                (await stub.CancelRun(query)).fault,
                heard.fault,
            ):
                assert isinstance(codecs.fault_from_wire(fault), IdentityError)
