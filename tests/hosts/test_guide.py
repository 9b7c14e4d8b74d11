"""Issue 4, 'Done means': docs/deploy.md, followed literally on two hosts, ends in a finished run."""

from __future__ import annotations

import json
import re
import signal
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from fedkme.errors import IdentityError
from tests.hosts.guide import GUIDE, Terminals, blocks, clone
from tests.hosts.network import Network
from tests.hosts.parties import WAIT_S

HOSTS = ("curator", "north")
ROWS = 20


@pytest.fixture
def terminals(namespaces: None, tmp_path: Path) -> Iterator[Terminals]:
    """Terminals on the guide's two hosts, on a network of their own."""
    with Network(*HOSTS, label="guide") as network:
        made = Terminals(tmp_path, HOSTS, network.within)
        yield made
        made.close()


def test_the_guide_can_be_followed(terminals: Terminals, tmp_path: Path) -> None:
    # Every block in its order, on its host; those for root are in test_deploy_files.
    ready = iter(("listening", "joined"))
    printed = ""
    for block in blocks():
        if block.host == "each":
            install(terminals, tmp_path / "clone", block.script)
        elif block.stays:
            terminals.leave(block.host, block.script)
            terminals.until(next(ready))
        elif block.host != "root":
            printed += terminals.type(block.host, block.script)
    assert not list(ready)
    assert "FAULT" not in printed
    assert all(f"OK    {party} and curator: " in printed for party in ("north", "lab"))
    home = terminals.home("curator")
    (record,) = (home / "runs").glob("*/record.json")
    found = json.loads(record.read_text())
    assert found["status"] == "complete"
    with np.load(home / "first" / "summary.npz") as summary:
        assert len(summary["x"]) == ROWS
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


def install(terminals: Terminals, folder: Path, script: str) -> None:
    """Step 1: for real on one host; the other one has the same."""
    clone(folder)
    terminals.home("curator").rmdir()
    terminals.home("curator").mkdir()
    terminals.type("curator", script, cwd=folder)
    for path in terminals.home("curator").iterdir():
        terminals.home("north").joinpath(path.name).symlink_to(path)


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
