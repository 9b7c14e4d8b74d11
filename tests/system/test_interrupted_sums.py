"""A secure sum that is cut off by a death, over processes: what `fedkme audit verify` makes of it.

Issue 17, item A7: it "tells a crash in the middle of an aggregation from cheating".
"""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import operate.audit_cli
from fedkme.pki.certificates import Role
from fedkme.privacy.ledger import read_ledger
from tests.ops.parties import Party, Site, rows
from tests.parties import HERE, WAIT_S, caller_values, write_config

OWNERS = ("north", "south", "west", "east")
RELEASE = """
[release]
kind = "balog1"
points = 12
gamma = 2.0
epsilon = 20.0
z.kind = "gaussian"
"""
CURATOR_DIES = """
import asyncio, os, signal
from curator.sums.session import SumSession
work, came = SumSession.mask, []
async def mask(self, *given):
    while self.name == "west":
        if len(came) == 3:
            os.kill(os.getpid(), signal.SIGKILL)
        await asyncio.sleep(0.01)
    came.append(await work(self, *given))
    return came[-1]
SumSession.mask = mask
"""
"""Curator to which masked sums of three owners came, and which never asked the fourth."""
CURATOR_STOPS = CURATOR_DIES.replace("SIGKILL)\n", "SIGTERM)\n            break\n")
"""Curator that is told to stop there, and asks the fourth."""
OWNER_DIES = """
import os, signal
from owner.runs import RunManager
work = RunManager.answer
def answer(self, directive):
    found = work(self, directive)
    if type(directive.body).__name__ == "Delivery":
        os.kill(os.getpid(), signal.SIGKILL)
    return found
RunManager.answer = answer
"""
"""Owner whose ledger has what a masked sum costs, and whose sum never left."""


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    """Files of three owners, a curator and a consumer."""
    made = Site(tmp_path / "site")
    for name in ("west", "east"):
        made.issue(name, Role.OWNER)
    for place, name in enumerate(OWNERS):
        (made.folder / f"{name}.csv").write_text(rows(20 + (7 * place + n) % 80 for n in range(60)))
    yield made
    for party in made.parties:
        party.process.kill()
        party.process.wait(WAIT_S)


def curator(site: Site, dropouts: int = 0, first: str = "") -> Party:
    settings = f"grace_s = 1.0\nowners = {json.dumps(OWNERS)}\n[release.security]\ndropouts = {dropouts}"
    return site.curator(settings, first=first)


def asks(site: Site) -> Party:
    """A consumer that asks for a release."""
    values = caller_values(HERE, site.address, name="consumer", identity="consumer.pem", log="json")
    config = write_config(site.folder / "release.toml", values, RELEASE)
    return site.call("consumer", "release", config)


def stop(*parties: Party) -> None:
    for party in parties:
        party.process.send_signal(signal.SIGTERM)
    assert [party.ended() for party in parties] == [0] * len(parties)


def audited(site: Site) -> Any:
    """`fedkme audit verify` of the curator's folder and the owners' journals."""
    files = [str(site.folder / f"{name}.db") for name in OWNERS]
    trusted = ["--authority", str(site.folder / "authority.pem")]
    arguments = ["verify", str(site.folder / "runs"), *files, *trusted]
    return CliRunner().invoke(operate.audit_cli.app, arguments)


def test_a_curator_that_was_killed_while_owners_sent_masked_sums_is_no_cheat(site: Site) -> None:
    first = curator(site, first=CURATOR_DIES)
    owners = [site.owner(name) for name in OWNERS]
    consumer = asks(site)
    assert first.ended() == -signal.SIGKILL
    dead = audited(site)
    assert "FAULT" not in dead.output, dead.output
    assert "north and curator" in dead.output
    second = curator(site)
    assert consumer.ended() == 58
    stop(*owners, second)
    done = audited(site)
    assert (done.exit_code, "FAULT" in done.output) == (0, False), done.output
    (line,) = [line for line in done.output.splitlines() if "west and curator" in line]
    assert "1 more that it may have been asked for" in line or "2 more that it may" in line
    written = {name: len(read_ledger(site.folder / f"{name}.db")) for name in OWNERS}
    assert (written["north"], written["west"]) == (2, 0)


def test_a_curator_told_to_stop_while_owners_send_masked_sums_keeps_what_they_open(site: Site) -> None:
    # It was charged, lost, and had to be asked and paid for again: SIGTERM, with `drain_s` at 0.
    first = curator(site, first=CURATOR_STOPS)
    owners = [site.owner(name) for name in OWNERS]
    consumer = asks(site)
    assert first.ended() == 0
    written = {name: len(read_ledger(site.folder / f"{name}.db")) for name in OWNERS}
    second = curator(site)
    assert consumer.ended() == 0
    stop(*owners, second)
    assert written == {name: len(read_ledger(site.folder / f"{name}.db")) for name in OWNERS}
    done = audited(site)
    assert (done.exit_code, "FAULT" in done.output) == (0, False), done.output


def test_an_owner_that_was_killed_with_its_masked_sum_in_hand_is_no_cheat(site: Site) -> None:
    here = curator(site, dropouts=1)
    owners = [site.owner(name) for name in ("north", "south", "east")]
    dying = site.start("west", first=OWNER_DIES)
    consumer = asks(site)
    assert dying.ended() == -signal.SIGKILL
    assert consumer.ended() == 0
    stop(*owners, here)
    done = audited(site)
    assert (done.exit_code, "FAULT" in done.output) == (0, False), done.output
    (line,) = [line for line in done.output.splitlines() if "west and curator" in line]
    assert line.endswith("2 events")  # which the curator charges, too: they may have come to it
