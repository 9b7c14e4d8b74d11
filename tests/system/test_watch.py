"""Issue 14, item 3: the page of a curator that serves, over a real port, as parties come, answer and go."""

from __future__ import annotations

import asyncio
import http.client
import json
import re
import socket
import ssl
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from fedkme.errors import ConfigError
from fedkme.pki.authority import Authority
from fedkme.pki.certificates import LOOPBACK
from fedkme.watch.access import PageAddress
from fedkme.watch.page import waiting
from fedkme.watch.server import shown
from fedkme.watch.state import RunState, Viewer, Watched
from fedkme.wire import codecs
from fedkme.wire.v1 import owners_pb2
from owner.consent.approvals import approve
from tests.parties import WAIT_S, run_verb, write_config
from tests.system.launches import read_json
from tests.system.market import Market, curator_settings, market

PAGE = "127.0.0.1:0"
OWNERS = "north", "south"


def read(address: str, **headers: str) -> str:
    """Content at an address."""
    with urllib.request.urlopen(urllib.request.Request(address, headers=headers), timeout=WAIT_S) as answer:
        return str(answer.read().decode())


async def view(town: Market, who: str = "curator") -> Watched:
    """State as somebody is shown it by the page of the curator."""
    address = (await town.ear.heard("page"))["address"]
    return Watched.from_json(await asyncio.to_thread(read, f"{address}state?as={who}"))


async def until(town: Market, state: str, owner: str) -> RunState:
    """Wait for a state of an owner; returns the newest run as the curator is shown it."""
    async with asyncio.timeout(WAIT_S):
        while True:
            runs = (await view(town)).runs
            if runs and any(lane.owner == owner and lane.state == state for lane in runs[0].lanes):
                return runs[0]
            await asyncio.sleep(0.05)


async def test_a_run_is_shown_until_it_is_over_and_after_a_restart(tmp_path: Path) -> None:
    async with market(tmp_path, OWNERS, page=PAGE) as town:
        for name in OWNERS:
            town.owner(name)
        await town.consumer()
        over = await view(town)
        await town.stop()
        assert await town.start()
        again = await view(town)
    run, record = over.runs[0], read_json(tmp_path / "runs" / "run-1" / "record.json")
    assert (run.run, run.status, run.wanted, run.done) == ("run-1", "complete", 6, 6)
    assert {lane.owner: lane.seen for lane in run.lanes} == record["accessed"]
    assert {lane.owner: lane.rows for lane in run.lanes} == record["owner_rows"]
    assert run.rows == sum(record["accessed"].values())
    for name in ("run", "status", "done", "lanes", "protocol", "consumer", "came", "ended"):
        assert getattr(run, name) == getattr(again.runs[0], name)
    assert over.learned == again.learned
    assert {event.text for event in over.events} >= {"connected", "owners are asked", "is over"}
    # what an earlier process reported is news of the journal
    kept = {(event.text, event.run) for event in again.events}
    assert {("accepted for consumer", "run-1"), ("is over", "run-1")} <= kept


async def test_each_party_is_shown_its_own_part(tmp_path: Path) -> None:
    async with market(tmp_path, OWNERS, page=PAGE) as town:
        for name in OWNERS:
            town.owner(name)
        await town.consumer()
        north, consumer = await view(town, "owner:north"), await view(town, "consumer:consumer")
        rival, stranger = await view(town, "consumer:rival"), await view(town, "owner:stranger")
    assert [lane.owner for lane in north.runs[0].lanes] == ["north"]
    assert "south" not in north.to_json()
    assert consumer.runs[0].rows
    assert not consumer.runs[0].lanes
    assert not rival.runs
    assert not stranger.runs


async def test_an_owner_that_is_waited_for_is_named_with_what_it_was_asked(tmp_path: Path) -> None:
    async with market(tmp_path, OWNERS, page=PAGE) as town, town.attend() as silent:
        town.owner("north")
        hello = owners_pb2.Hello(name="south", versions=codecs.VERSIONS, instance=b"i" * 16)
        await silent.write(owners_pb2.OwnerMessage(hello=hello))
        await town.ear.heard("owner_joined", 2)
        town.consumer()
        run = await until(town, "asked", "south")
        await silent.done_writing()
    assert waiting(run, Viewer()) == "Waiting for south: asked whether to take part."
    lane = run.lane("south")
    assert lane is not None
    assert 0 < (lane.since or 0) < (lane.due or 0)


async def test_an_owner_whose_approval_is_missing_is_shown_with_the_command(tmp_path: Path) -> None:
    async with market(tmp_path, OWNERS, page=PAGE) as town:
        town.owner("north")
        town.owner("south", policy={"approval": "manual"})
        await asyncio.gather(town.consumer(), return_exceptions=True)
        run = await until(town, "approval", "south")
        hidden = await view(town, "consumer:consumer")
        await town.stop()
        assert await town.start()
        again = await view(town)
    # by the number of the refusal, which the record has, and not by its words
    assert [fault["code"] for fault in read_json(tmp_path / "runs/run-1/record.json")["faults"]] == [62]
    assert again.runs[0].lanes == run.lanes
    lane = run.lane("south")
    assert lane is not None
    assert "fedkme owner approve" in lane.why
    assert "owner approve" not in hidden.to_json()


async def test_a_run_that_waits_for_an_approval_says_for_whom_and_until_when(tmp_path: Path) -> None:
    async with market(tmp_path, OWNERS, page=PAGE, approval_s=600) as town:
        town.owner("north")
        town.owner("south", policy={"approval": "manual"}, approvals=tmp_path / "approvals")
        asking = town.consumer(p=4)
        run = await until(town, "approval", "south")
        lane = run.lane("south")
        assert lane is not None
        match = re.search(r"owner approve .* --protocol (\S+) --rows 4", lane.why)
        assert match is not None
        approve(tmp_path / "approvals", "consumer", match[1], 4, 1)
        await asking
        over = (await view(town)).runs[0]
    words = waiting(run, Viewer())
    assert words.startswith("Waiting for south to approve it: south approves each run by hand")
    assert (lane.due or 0) > (lane.since or 0) + 500
    assert {lane.state for lane in over.lanes} == {"done"}
    assert not waiting(over, Viewer())


async def test_an_owner_that_went_is_shown_as_lost(tmp_path: Path) -> None:
    async with market(tmp_path, OWNERS, page=PAGE, grace_s=0.0) as town:
        town.owner("north", count=600)
        leaving = town.owner("south", count=20)
        asking = town.consumer(p=300)
        await town.ear.heard("round")
        leaving.cancel()
        await asyncio.gather(asking, return_exceptions=True)
        run = await until(town, "lost", "south")
    lane = run.lane("south")
    assert lane is not None
    assert "connection ended" in lane.why


async def test_events_are_sent_when_something_changed(tmp_path: Path) -> None:
    async with market(tmp_path, OWNERS, page=PAGE) as town:
        address = (await town.ear.heard("page"))["address"]

        def follow() -> list[str]:
            pages: list[str] = []
            with urllib.request.urlopen(f"{address}events", timeout=WAIT_S) as stream:
                while len(pages) < 2:
                    line = stream.readline().decode()
                    if line.startswith("data: "):
                        pages.append(json.loads(line.removeprefix("data: "))["page"])
            return pages

        following = asyncio.create_task(asyncio.to_thread(follow))
        await asyncio.sleep(0)
        async with asyncio.timeout(WAIT_S):
            while not following.done():
                town.ear.said.clear()
                owner = town.owner("north")
                await town.ear.heard("owner_joined")
                owner.cancel()
                await town.ear.heard("owner_gone")
        first, second = await following
    assert first != second
    assert "north" in second


async def test_the_page_reads_and_nothing_else(tmp_path: Path) -> None:
    async with market(tmp_path, OWNERS, page=PAGE) as town:
        address = (await town.ear.heard("page"))["address"]

        def statuses() -> list[int]:
            host = address.removeprefix("http://").rstrip("/")
            found = []
            for method, path in (("POST", "/"), ("PUT", "/state"), ("DELETE", "/state"), ("GET", "/../x")):
                connection = http.client.HTTPConnection(host, timeout=WAIT_S)
                connection.request(method, path)
                found.append(connection.getresponse().status)
                connection.close()
            return found

        assert await asyncio.to_thread(statuses) == [405, 405, 405, 404]
        whole = await asyncio.to_thread(read, address)
        assert "http" not in await asyncio.to_thread(read, f"{address}page.js")
        with pytest.raises(urllib.error.HTTPError, match="403"):
            await asyncio.to_thread(read, address, Host="evil.example")
    assert "http://" not in whole
    assert "https://" not in whole
    assert "//" not in whole.replace("</", "")


async def test_over_tls_a_token_opens_its_own_view(tmp_path: Path) -> None:
    authority = Authority()
    authority.issue("curator", LOOPBACK).save(tmp_path / "tls")
    guarded: dict[str, Any] = {"identity": tmp_path / "tls", "page": PAGE, "page_secret": tmp_path / "secret"}
    async with market(tmp_path, OWNERS, **guarded) as town:
        address = (await town.ear.heard("page"))["address"]
        trust = ssl.create_default_context(cadata=authority.pem.decode())
        place = curator_settings(tmp_path, **guarded).page_address()
        token = place.link("owner:north").partition("?token=")[2]

        def get(path: str) -> tuple[int, str]:
            try:
                with urllib.request.urlopen(f"{address}{path}", timeout=WAIT_S, context=trust) as answer:
                    return answer.status, answer.read().decode()
            except urllib.error.HTTPError as error:
                return error.code, ""

        assert address.startswith("https://")
        assert (await asyncio.to_thread(get, "state"))[0] == 403
        assert (await asyncio.to_thread(get, f"state?token={token}&as=curator"))[0] == 403
        assert (await asyncio.to_thread(get, f"state?token={token}&as=owner:south"))[0] == 403
        status, text = await asyncio.to_thread(get, f"state?token={token}")
    assert (status, json.loads(text)["budget"]) == (200, None)
    assert token not in json.dumps([fields for _, fields in town.ear.said], default=str)


async def test_a_port_that_is_taken_is_said_in_a_line(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        place = PageAddress(f"127.0.0.1:{taken.getsockname()[1]}")
        with (
            pytest.raises(ConfigError, match="'page' cannot listen"),
            shown(place, lambda: Watched("c", 0.0)),
        ):
            pass


def test_addresses_are_printed_for_each_party(tmp_path: Path) -> None:
    values = curator_settings(tmp_path, owners=OWNERS, consumers=("lab",), page="127.0.0.1:8080")
    config = write_config(tmp_path / "curator.toml", values.model_dump(mode="json", exclude_none=True))
    lines = [line.split() for line in run_verb("curator", "page", config).splitlines()]
    assert lines == [
        ["curator", "http://127.0.0.1:8080/"],
        ["owner:north", "http://127.0.0.1:8080/?as=owner:north"],
        ["owner:south", "http://127.0.0.1:8080/?as=owner:south"],
        ["consumer:lab", "http://127.0.0.1:8080/?as=consumer:lab"],
    ]
