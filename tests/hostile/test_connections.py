"""Many connections, silent ones, and bytes that somebody else said before; with mutual TLS."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import grpc.aio
import pytest
from grpc.experimental.session_cache import ssl_session_cache_lru

from curator.owners import owner_service as registry
from fedkme.errors import FedkmeError, IdentityError
from fedkme.pki.identity import Identity
from fedkme.wire import codecs
from fedkme.wire.v1 import owners_pb2 as pb
from fedkme.wire.v1 import owners_pb2_grpc, summaries_pb2, summaries_pb2_grpc, types_pb2
from tests.fedkme.pki.verbs import pki
from tests.hostile.fuzz import at_rest, resident
from tests.system.market import DIMENSION, Market, market, request

CONNECTIONS = 1000
A_CONNECTION = 2**19
"""Bytes that a connection, with TLS and a stream, may cost both ends, which are in one process here."""


class Site:
    """An authority and its parties."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.authority = folder / "ca"
        pki("init", self.authority)
        for name, role in (("curator", "curator"), ("a", "owner"), ("b", "owner"), ("x", "consumer")):
            pki("issue", name, "--role", role, "--authority", self.authority, "--out", self.file(name))
        pki("issue", "y", "--role", "consumer", "--authority", self.authority, "--out", self.file("y"))

    def file(self, name: str) -> Path:
        return self.folder / f"{name}.pem"

    def channel(self, at: Market, name: str, *options: tuple[str, Any]) -> grpc.aio.Channel:
        credentials = Identity.load(self.file(name)).channel_credentials()
        return grpc.aio.secure_channel(at.address, credentials, options=options)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Site:
    return Site(tmp_path_factory.mktemp("site"))


@contextlib.asynccontextmanager
async def town(site: Site, folder: Path, **changes: Any) -> AsyncIterator[Market]:
    async with market(folder, ["a", "b"], identity=site.file("curator"), **changes) as at:
        yield at


async def test_compressed_messages_are_refused(tmp_path: Path) -> None:
    # 1,000 MiB of one letter in 1 MiB of gzip cost a thread of the curator 79 s. It reads none.
    async with market(tmp_path, ["a"]) as at:
        async with grpc.aio.insecure_channel(at.address, compression=grpc.Compression.Gzip) as channel:
            query = summaries_pb2.RunQuery(name="consumer", run="x" * 2**22)
            with pytest.raises(grpc.aio.AioRpcError) as caught:
                await summaries_pb2_grpc.SummariesStub(channel).ListRuns(query)
            assert caught.value.code() is grpc.StatusCode.UNIMPLEMENTED
        at.owner("a")
        await at.consumer()


async def served(site: Site, at: Market) -> None:
    """Well-behaved parties come, and a summary is made for them."""
    for name in ("a", "b"):
        at.owner(name, identity=site.file(name))
    await at.ear.heard("owner_joined", 2)
    await at.consumer(name="x", identity=site.file("x"))
    assert at.ended()["status"] == "complete"


async def test_a_thousand_connections_of_one_identity(site: Site, tmp_path: Path) -> None:
    # "1,000 connections from one identity: no crash, no hang, no unbounded memory": each has a stream that
    # never says hello. The oldest give way, and whoever does say hello is served.
    before = at_rest()
    async with contextlib.AsyncExitStack() as open_now, town(site, tmp_path) as at:
        credentials = Identity.load(site.file("b")).channel_credentials()
        calls = []
        for number in range(CONNECTIONS):
            options = [("grpc.use_local_subchannel_pool", 1), ("fedkme.number", number)]
            channel = grpc.aio.secure_channel(at.address, credentials, options=options)
            await open_now.enter_async_context(channel)
            call: Any = owners_pb2_grpc.OwnersStub(channel).Attend()
            calls.append(call)
            if number % 50 == 49:
                await asyncio.gather(*(call.wait_for_connection() for call in calls[-50:]))
        await served(site, at)
        refused = [fields for event, fields in at.ear.said if event == "refused"]
        assert len(refused) >= CONNECTIONS - registry.MOST_SILENT
        for call in calls:
            call.cancel()
    assert resident() - before < CONNECTIONS * A_CONNECTION


async def test_streams_of_one_connection(site: Site, tmp_path: Path) -> None:
    # A connection has few streams at a time, which the curator says as it opens (RFC 9113, section 6.5.2).
    async with town(site, tmp_path) as at:
        reader, writer = await half_open(site, at)
        head = await reader.readexactly(9)
        settings = await reader.readexactly(int.from_bytes(head[:3], "big"))
        assert head[3] == 4  # a frame of settings, 6 bytes each
        pairs = [settings[start : start + 6] for start in range(0, len(settings), 6)]
        assert {int.from_bytes(pair[2:], "big") for pair in pairs if pair[:2] == b"\0\3"} == {100}
        writer.transport.abort()


async def half_open(site: Site, at: Market) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """A connection of HTTP/2, with an owner's certificate, on which nothing is called."""
    host, _, port = at.address.rpartition(":")
    context = ssl.create_default_context(cafile=str(site.authority / "authority.pem"))
    context.load_cert_chain(site.file("b"))
    context.set_alpn_protocols(["h2"])
    pair = await asyncio.open_connection(host, int(port), ssl=context, server_hostname="localhost")
    pair[1].write(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\0\0\0\4" + bytes(5))
    return pair


async def test_a_silent_connection_is_closed(site: Site, tmp_path: Path) -> None:
    # A slow-loris stream is told why it ends; a connection without a handshake, or with half a frame, is no
    # more than a socket.
    async with town(site, tmp_path, connect_s=4) as at:
        host, _, port = at.address.rpartition(":")
        sockets = [await asyncio.open_connection(host, int(port)) for _ in range(100)]
        for _ in range(20):
            pair = await half_open(site, at)
            pair[1].write(b"\0\0\7")  # the beginning of a frame
            sockets.append(pair)
        async with site.channel(at, "b") as channel:
            call: Any = owners_pb2_grpc.OwnersStub(channel).Attend()
            said = await call.read()
            assert "did not say hello first" in said.fault.cause
        await served(site, at)
        for _, writer in sockets:
            writer.transport.abort()


async def tap(messages: list[bytes], call: Any) -> None:
    for message in messages:
        await call.write(message)
    await call.done_writing()


async def answers_to(at: Market, site: Site, name: str, method: str, *messages: Any) -> list[Any]:
    """Answers to a party that says this, as it was recorded.

    gRPC loses the answers to a call that the curator ends while it is written to: it is made again then.
    """
    kind = pb.Directive if method.startswith("Owners") else summaries_pb2.CuratorMessage
    for _ in range(50):
        async with site.channel(at, name) as channel:
            call: Any = channel.stream_stream(f"/fedkme.v1.{method}", bytes, bytes)()
            heard = []
            try:
                await tap([message.SerializeToString() for message in messages], call)
                while (raw := await call.read()) is not grpc.aio.EOF:
                    heard.append(kind.FromString(raw))
            except grpc.aio.AioRpcError as error:
                if error.code() is not grpc.StatusCode.INTERNAL:
                    raise
            else:
                return heard
    raise AssertionError("the curator ended every call before it was written")


def fault_in(heard: list[Any]) -> FedkmeError:
    (answer,) = heard
    return codecs.fault_from_wire(answer.fault)


async def test_messages_of_an_owner_cannot_be_replayed_by_another(site: Site, tmp_path: Path) -> None:
    # "replayed session": the bytes of an owner's session, from the connection of another.
    hello = pb.Hello(name="a", versions=codecs.VERSIONS, instance=b"i" * 16)
    at_run = pb.Position(run="run-1", round=1, seq=2)
    recorded = [pb.OwnerMessage(hello=hello), pb.OwnerMessage(at=at_run, bid=pb.Bid(value=9.0, token=0))]
    async with town(site, tmp_path) as at:
        fault = fault_in(await answers_to(at, site, "b", "Owners/Attend", *recorded))
        assert isinstance(fault, IdentityError)
        assert "its certificate does not" in fault.cause
        fault = fault_in(await answers_to(at, site, "x", "Owners/Attend", *recorded))
        assert isinstance(fault, IdentityError)
        long = pb.OwnerMessage(hello=pb.Hello(name="n" * 2**20, versions=codecs.VERSIONS))
        assert len(fault_in(await answers_to(at, site, "b", "Owners/Attend", long)).cause) < 200
        await served(site, at)


async def test_messages_of_a_consumer_cannot_be_replayed_by_another(site: Site, tmp_path: Path) -> None:
    # Neither its request, nor its run's name, is a key to its rows.
    asked = request(3)
    asked.request.name, asked.request.request_id = "x", b"i" * 16
    target = summaries_pb2.ConsumerMessage(target=types_pb2.MeanVector(coordinates=[0] * DIMENSION))
    attach = summaries_pb2.ConsumerMessage(attach=summaries_pb2.RunQuery(name="x", run="run-1"))
    method = "Summaries/Summarize"
    async with town(site, tmp_path) as at:
        for name in ("a", "b"):
            at.owner(name, identity=site.file(name))
        whole = await answers_to(at, site, "x", method, asked, target)
        assert any(message.HasField("summary") for message in whole)
        for thief in ("y", "b"):
            for recorded in ([asked, target], [attach]):
                fault = fault_in(await answers_to(at, site, thief, method, *recorded))
                assert isinstance(fault, IdentityError)
        attach.attach.name = asked.request.name = "y"
        fault = fault_in(await answers_to(at, site, "y", method, attach))
        assert "no run 'run-1' of yours" in fault.cause
        (plan, *_) = await answers_to(at, site, "y", method, asked)
        assert plan.plan.run != "run-1"
        again = await answers_to(
            at,
            site,
            "x",
            method,
            summaries_pb2.ConsumerMessage(attach=summaries_pb2.RunQuery(name="x", run="run-1")),
        )
        assert any(message.HasField("summary") for message in again)


async def test_a_session_of_tls_that_goes_on_after_revocation(site: Site, tmp_path: Path) -> None:
    # docs/pki.md: a ticket spares the handshake, not the look at the list.
    pki("issue", "c", "--role", "owner", "--authority", site.authority, "--out", site.file("c"))
    pki("revoke", "--authority", site.authority)
    revoked = tmp_path / "revoked.pem"
    revoked.write_bytes((site.authority / "revoked.pem").read_bytes())
    make_cache: Any = ssl_session_cache_lru
    options = [("grpc.ssl_session_cache", make_cache(1)), ("grpc.ssl_target_name_override", "localhost")]
    heard = []
    hello = pb.Hello(name="c", versions=codecs.VERSIONS, instance=b"i" * 16)
    changes: dict[str, Any] = {"identity": site.file("curator"), "revoked": revoked}
    async with market(tmp_path, ["c"], **changes) as at:
        for revoke in (False, True):
            if revoke:
                pki("revoke", "c", "--authority", site.authority)
                fresh = tmp_path / "fresh"
                fresh.write_bytes((site.authority / "revoked.pem").read_bytes())
                fresh.replace(revoked)
            async with site.channel(at, "c", *options) as channel:
                call: Any = owners_pb2_grpc.OwnersStub(channel).Attend()
                await call.write(pb.OwnerMessage(hello=hello))
                heard.append(await call.read())
                call.cancel()
    assert heard[0].HasField("welcome")
    assert "was revoked" in heard[1].fault.cause
