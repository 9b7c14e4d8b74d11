"""Forwarders that close, reset, cut, garble or answer HTTP between hosts, and proxies."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from fedkme.errors import ConfigError, ConnectionFailedError, FedkmeError
from fedkme.party import canonical, is_loopback
from fedkme.pki.authority import Authority
from fedkme.pki.certificates import LOOPBACK, Role
from fedkme.pki.identity import Identity
from fedkme.wire.dial import PROXY_VARIABLES, dial
from tests.parties import WAIT_S
from tests.system.market import Ear, market
from tests.system.proxy import FAULTS, Behaviour, ConnectProxy, Forwarder

OURS = Authority()


@pytest.fixture(scope="module")
def bundles(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Bundles of a curator, an owner and a consumer."""
    folder = tmp_path_factory.mktemp("bundles")
    OURS.issue("curator", [*LOOPBACK, "curator.example.org"], Role.CURATOR).save_bundle(
        folder / "curator.pem"
    )
    OURS.issue("a", role=Role.OWNER).save_bundle(folder / "a.pem")
    OURS.issue("hospital-x", role=Role.CONSUMER).save_bundle(folder / "x.pem")
    return folder


@pytest.mark.parametrize("fault", FAULTS)
async def test_whoever_was_accepted_outlives_what_a_forwarder_does(
    tmp_path: Path, bundles: Path, fault: Behaviour
) -> None:
    # A curator that was away for two seconds behind a forwarder ended every owner for good, with a false
    # error 33: the forwarder takes the call and closes it.
    ear = Ear()
    async with (
        market(tmp_path, ["a"], identity=bundles / "curator.pem") as at,
        (forwarder := Forwarder(at.address)).open() as between,
    ):
        owner = at.owner("a", ear=ear, curator=between, identity=bundles / "a.pem", connect_s=1.5)
        await ear.heard("joined")
        forwarder.behaviour = fault
        forwarder.cut()
        await ear.heard("away")
        forwarder.connections = asyncio.Semaphore(0)
        async with asyncio.timeout(WAIT_S):
            for _ in range(2 if fault == "wait" else 6):  # `wait` holds each attempt for connect_s
                await forwarder.connections.acquire()
        assert not owner.done()
        forwarder.behaviour = "pass"
        forwarder.cut()
        await ear.heard("back")
        at.consumer(name="hospital-x", curator=between, identity=bundles / "x.pem")
        await at.tasks[-1]
        assert not owner.done()
    assert (tmp_path / "consumer" / "summary.npz").exists()


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        ("close", "closes them at once"),
        ("wait", "no curator answered"),
        ("garble", "something between changes them"),
        ("http", "does not speak TLS"),
    ],
)
async def test_before_it_was_accepted_a_party_says_what_it_met(
    tmp_path: Path, bundles: Path, fault: Behaviour, words: str
) -> None:
    async with (
        market(tmp_path, identity=bundles / "curator.pem") as at,
        Forwarder(at.address, fault).open() as between,
    ):
        with pytest.raises(FedkmeError, match=words):
            await dial(between, Identity.load(bundles / "a.pem"), 1.5)


@pytest.mark.parametrize("variable", PROXY_VARIABLES)
async def test_loopback_never_goes_through_a_proxy(
    tmp_path: Path, bundles: Path, variable: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(variable, "http://127.0.0.1:9")
    async with market(tmp_path) as at:
        await (await dial(at.address, None, WAIT_S)).close()
        await (await dial(at.address, None, WAIT_S, proxy="http://127.0.0.1:9")).close()


async def test_a_deployment_goes_through_the_proxy_of_its_settings(tmp_path: Path, bundles: Path) -> None:
    async with (
        market(tmp_path, ["a"], identity=bundles / "curator.pem") as at,
        (proxy := ConnectProxy(at.address)).open() as between,
    ):
        far: dict[str, Any] = {"curator": "curator.example.org:7700", "proxy": f"http://{between}"}
        at.owner("a", identity=bundles / "a.pem", **far)
        await at.consumer(name="hospital-x", identity=bundles / "x.pem", **far)
    assert (tmp_path / "consumer" / "summary.npz").exists()
    assert set(proxy.requests) == {b"CONNECT curator.example.org:7700 HTTP/1.1"}


@pytest.mark.parametrize(
    ("reply", "words"),
    [
        (b"HTTP/1.1 407 Proxy Authentication Required\r\n\r\n", "the proxy .* answers HTTP 407"),
        (b"", "the proxy of the settings, or the curator at .*, hangs up"),
    ],
)
async def test_a_proxy_that_refuses_is_named(bundles: Path, reply: bytes, words: str) -> None:
    # "no curator answered"; "error 33: it does not accept this party's certificate"
    async def refuse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(reply)
        writer.close()

    async with await asyncio.start_server(refuse, "127.0.0.1", 0) as server:
        proxy = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        with pytest.raises(ConnectionFailedError, match=words):
            await dial("192.0.2.1:7700", Identity.load(bundles / "a.pem"), 1.5, proxy=proxy)


async def test_error_34_names_the_variable_that_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("https_proxy", "http://user:secret@127.0.0.1:9")
    with pytest.raises(ConnectionFailedError) as caught:
        await dial("192.0.2.1:7700", None, 0.1)
    assert "https_proxy is set and not used" in str(caught.value)
    assert "secret" not in str(caught.value)


SPELLINGS = ("[::1]:7", "[0:0:0:0:0:0:0:1]:7", "[0000::0001]:7", "[0:0::1]:7", "[::1]:07")


async def test_nobody_is_called_at_port_0() -> None:
    # "no curator answered", after half a minute: `listen = "127.0.0.1:0"` was copied.
    with pytest.raises(ConfigError, match="has port 0"):
        await dial("127.0.0.1:0", None, 0.1)


async def test_a_host_named_as_a_scheme_of_grpc_is_a_host(monkeypatch: pytest.MonkeyPatch) -> None:
    # A service that was called "dns" in Docker was looked for as a host of the name "7700".
    targets: list[str] = []

    def channel(target: str, options: object) -> object:
        targets.append(target)
        raise RuntimeError

    monkeypatch.setattr("grpc.aio.insecure_channel", channel)
    for host in ("dns", "curator"):
        with pytest.raises(RuntimeError):
            await dial(f"{host}:7700", None, 0.1)
    assert targets == ["dns:///dns:7700", "curator:7700"]


@pytest.mark.parametrize("address", SPELLINGS)
def test_all_spellings_of_an_address_are_one(address: str) -> None:
    assert canonical(address).partition("]")[0] == "[::1"
    assert is_loopback(address.rpartition(":")[0])


@pytest.mark.parametrize(
    "address",
    [
        *("", ":7700", "::1:7700", "host", "host:", "host:x", "host:99999", "host:٣"),
        *(
            "a b:7700",
            "host/path:7700",
            "user@host:7700",
            "*:7700",
            f"{'x' * 254}:7700",
        ),  # "no curator answered"
    ],
)
def test_what_is_no_address(address: str) -> None:
    with pytest.raises(ConfigError, match="is not host:port"):
        canonical(address)


@pytest.mark.parametrize(
    "host",
    [
        "127.0.0.1",
        "127.8.8.8",
        "[::ffff:127.0.0.1]",
        "[::ffff:7f00:1]",
        "localhost",
        "LOCALHOST",
        "localhost.",
    ],
)
def test_loopback_in_all_spellings(host: str) -> None:
    assert is_loopback(host)
