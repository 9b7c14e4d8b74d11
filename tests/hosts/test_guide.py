"""Issue 4, 'Done means': docs/deploy.md, followed literally on two hosts, ends in a finished run."""

from __future__ import annotations

import contextlib
import json
import re
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

import numpy as np
import pytest

from fedkme.errors import IdentityError
from tests.fedkme.store.conftest import server as server  # a fixture
from tests.fedkme.store.server import Server
from tests.hosts.guide import GUIDE, Block, Terminals, blocks, clone, settings
from tests.hosts.network import Network
from tests.hosts.parties import WAIT_S
from tests.places import ROOT

HOSTS = ("curator", "north")
ROWS = 20


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A home in which step 1 was done, for every host: they are installed alike."""
    folder = tmp_path_factory.mktemp("installed")
    clone(folder / "clone")
    (script,) = [block.script for block in blocks() if block.host == "each"]
    made = Terminals(folder, ("each",), lambda host, *command: list(command))
    made.type("each", script, cwd=folder / "clone")
    return made.home("each")


@pytest.fixture
def terminals(namespaces: None, tmp_path: Path, installed: Path) -> Iterator[Terminals]:
    """Terminals on the guide's two hosts, on a network of their own."""
    with Network(*HOSTS, label="guide") as network:
        made = Terminals(tmp_path, HOSTS, network.within)
        move_in(made, installed)
        yield made
        made.close()


def move_in(terminals: Terminals, installed: Path) -> None:
    """Give each host what step 1 makes."""
    for host in HOSTS:
        for path in installed.iterdir():
            terminals.home(host).joinpath(path.name).symlink_to(path)


def follow(terminals: Terminals, typed: Iterable[Block], top: Mapping[str, str]) -> str:
    """Type blocks in their order, on their hosts; those of services are in other modules.

    Args:
        terminals: the hosts, with step 1 done.
        typed: the blocks.
        top: lines for the top of the configuration of a host's party.

    Returns:
        what was printed.
    """
    ready = iter(("listening", "joined"))
    printed = ""
    for block in typed:
        if block.stays:
            terminals.leave(block.host, block.script)
            terminals.until(next(ready))
        elif block.host in terminals.hosts:
            script = block.script
            for host, file in (("curator", "curator.toml"), ("north", "owner.toml")):
                begin = f"cat > {file} <<'END'\n"
                if block.host == host and host in top:
                    script = script.replace(begin, begin + top[host])
            printed += terminals.type(block.host, script)
    assert not list(ready)
    return printed


def test_the_guide_can_be_followed(terminals: Terminals) -> None:
    printed = follow(terminals, blocks(), {})
    ends_well(terminals, printed)
    # the backup is the owner's store, whole
    with sqlite3.connect(terminals.home("north") / "backup.db") as copy:
        assert copy.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    assert (terminals.home("north") / "backup.db").stat().st_mode & 0o077 == 0
    # the key never left: no file of the other host holds it
    at_night(terminals)
    key = re.findall(
        r"-----BEGIN PRIVATE KEY-----\n(\S+)", (terminals.home("north") / "north.pem").read_text()
    )[0]
    there = [
        path
        for path in terminals.homes.joinpath("curator").rglob("*.*")
        if path.suffix in (".req", ".crt", ".pem")
    ]
    assert there
    assert not any(key in path.read_text() for path in there)
    # "Revocation": open sessions end at SIGHUP
    terminals.stayed["curator"].send_signal(signal.SIGHUP)
    assert terminals.stayed["north"].wait(WAIT_S) == IdentityError.code
    terminals.until("was revoked")


def ends_well(terminals: Terminals, printed: str) -> None:
    """Hold a run that is over to what the guide promises."""
    assert "FAULT" not in printed
    assert all(f"OK    {party} and curator: " in printed for party in ("north", "lab"))
    home = terminals.home("curator")
    (record,) = (home / "runs").glob("*/record.json")
    assert json.loads(record.read_text())["status"] == "complete"
    with np.load(home / "first" / "summary.npz") as summary:
        assert len(summary["x"]) == ROWS


def test_the_guide_leads_through_a_proxy_a_forwarder_and_to_postgresql(
    namespaces: None, tmp_path: Path, installed: Path, server: Server
) -> None:
    # Issue 36, item 10. north reaches nobody but a proxy; whoever looks for the curator finds a forwarder.
    until_ledgers = list(blocks(before="## Backup"))
    with Network(*HOSTS, "proxy", "edge", "db", label="walk") as network, contextlib.ExitStack() as open_now:
        for host in ("curator", "proxy"):
            network.lead(host, "curator", "edge")
        for host in ("curator", "edge"):
            network.forbid("north", host)
        between = {
            host: open_now.enter_context(Between(network, host, *where))
            for host, where in {
                "proxy": ("0.0.0.0:3128",),
                "edge": ("0.0.0.0:7700", f"{network.address('curator')}:7700"),
                "db": ("0.0.0.0:5432", str(server.socket)),
            }.items()
        }
        terminals = Terminals(tmp_path, (*HOSTS, "db"), network.within)
        open_now.callback(terminals.close)
        terminals.more = {"PGHOST": str(server.socket.parent), "PGUSER": "fedkme"}
        move_in(terminals, installed)
        ends_well(terminals, follow(terminals, until_ledgers, settings()))
    assert set(between["proxy"].lines) == {"curator.example.org:7700"}
    assert len(between["edge"].lines) > len(between["proxy"].lines)  # lab, too
    assert between["db"].lines
    assert server.psql("curator", "SELECT name FROM fedkme.parties") == "curator"


class Between:
    """A process between the hosts; `lines` are what it printed, one for each connection, when it is over."""

    def __init__(self, network: Network, host: str, *where: str) -> None:
        command = network.within(host, sys.executable, "-m", "tests.hosts.between", *where)
        self._process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
        self.lines: list[str] = []

    def __enter__(self) -> Between:
        assert self._process.stdout is not None
        assert self._process.stdout.readline() == "ready\n"
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self.lines = self._process.communicate()[0].splitlines()


def at_night(terminals: Terminals) -> None:
    """Every command of the table can be given, where its file is."""
    table = GUIDE.read_text(encoding="utf-8").partition("## At three in the morning")[2]
    commands = dict.fromkeys(re.findall(r"`(fedkme [^`]+)`", table))
    assert len(commands) >= 5
    for command in commands:
        file = command.split()[-1]
        (host, *_) = [host for host in HOSTS if (terminals.home(host) / file).exists()]
        if command == "fedkme doctor owner.toml":  # the guide has revoked it by then, and doctor says so
            with pytest.raises(AssertionError, match=r"admission .* was revoked"):
                terminals.type(host, command)
        else:
            terminals.type(host, command)
