"""docs/deploy.md as something that can be followed: blocks, the host of each, and stand-ins for two hosts.

`scp` copies between the folders of the hosts; `pip` does not fetch what this checkout's environment has
already; what people tell each other by telephone is read from the other host's files.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sysconfig
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.fedkme.pki.verbs import pki, said
from tests.hosts.parties import WAIT_S
from tests.places import ROOT

GUIDE = ROOT / "docs" / "deploy.md"
BLOCK = re.compile(r"^```sh (\w+)( stays)?\n(.*?)^```", re.DOTALL | re.MULTILINE)
SETTINGS = re.compile(r"^```toml (\w+)\n(.*?)^```", re.DOTALL | re.MULTILINE)
SCP = """#!/bin/sh
for to; do :; done
while [ $# -gt 1 ]; do cp "$1" "{homes}/${{to%%:*}}/${{to#*:}}" || exit; shift; done
"""
SOURCES = ("curator", "consumer", "deploy", "docs", "examples", "fedkme", "operate", "owner", "sim")


@dataclass(frozen=True, slots=True)
class Block:
    """Some lines to type on a host, in order; `stays` if they go on until somebody stops them."""

    host: str
    stays: bool
    script: str


def blocks(before: str = "") -> Iterator[Block]:
    """Every block of the guide, or those before a heading."""
    text = GUIDE.read_text(encoding="utf-8")
    for host, stays, script in BLOCK.findall(text[: text.index(before)] if before else text):
        yield Block(host, bool(stays), script)


def settings() -> dict[str, str]:
    """Lines that the guide puts at the top of a host's configuration where something lies between hosts."""
    return dict(SETTINGS.findall(GUIDE.read_text(encoding="utf-8")))


def clone(folder: Path) -> None:
    """Copy what a fresh clone holds, as far as the guide needs it."""
    folder.mkdir(parents=True)
    for name in SOURCES:
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "constraints.txt", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, folder)


def offline() -> dict[str, str]:
    """An environment in which `pip install` installs a checkout and takes what it needs from this one's."""
    here = sysconfig.get_path("purelib")
    return {
        **{name: value for name, value in os.environ.items() if name != "PYTHONPATH"},
        "PYTHONPATH": here,
        "PIP_NO_DEPS": "1",
        "PIP_NO_BUILD_ISOLATION": "0",  # pip's way to say yes
        "PIP_NO_INDEX": "1",
        "PIP_IGNORE_INSTALLED": "1",
    }


class Terminals:
    """Terminals on some hosts, each host with a home of its own."""

    def __init__(self, folder: Path, hosts: Sequence[str], within: Callable[..., list[str]]) -> None:
        self.homes = folder / "homes"
        self.hosts = hosts
        self._within = within
        self._bin = folder / "bin"
        self._bin.mkdir(parents=True)
        self.stand_in("scp", SCP.format(homes=self.homes))
        for host in hosts:
            self.home(host).mkdir(parents=True)
            # scp calls a host by its full name
            self.homes.joinpath(f"{host}.example.org").symlink_to(self.homes / host)
        self.stayed: dict[str, subprocess.Popen[str]] = {}
        self.more: dict[str, str] = {}  # variables of every host's environment
        self.lines: list[str] = []
        self._over = False
        self._more = threading.Condition()

    def stand_in(self, command: str, script: str) -> None:
        """Put a script in the place of a command."""
        (self._bin / command).write_text(script)
        (self._bin / command).chmod(0o755)

    def home(self, host: str) -> Path:
        """~/fedkme of a host."""
        return self.homes / host / "fedkme"

    def type(self, host: str, script: str, cwd: Path | None = None) -> str:
        """Type a script, which must succeed; returns what it prints."""
        done = subprocess.run(
            self._shell(host, script),
            cwd=cwd or self.home(host),
            env=self._environment(host),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=WAIT_S,
            check=False,
        )
        assert done.returncode == 0, f"{host}: {script}\n{done.stdout}"
        return done.stdout

    def leave(self, host: str, script: str) -> None:
        """Start what goes on."""
        process = subprocess.Popen(
            self._shell(host, f"exec {script}"),
            cwd=self.home(host),
            env=self._environment(host),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.stayed[host] = process
        threading.Thread(target=self._read, args=(process,), daemon=True).start()

    def until(self, words: str) -> str:
        """The first line of what goes on that holds some words; waited for."""

        def found() -> list[str]:
            return [line for line in self.lines if words in line]

        with self._more:
            self._more.wait_for(lambda: found() or self._over, WAIT_S)
            assert found(), f"no {words!r} came: {self.lines}"
            return found()[0]

    def close(self) -> None:
        """End what goes on."""
        for process in self.stayed.values():
            process.kill()
            process.wait(WAIT_S)

    def _read(self, process: subprocess.Popen[str]) -> None:
        assert process.stderr is not None
        for line in process.stderr:
            with self._more:
                self.lines.append(line)
                self._more.notify_all()
        with self._more:
            self._over = True
            self._more.notify_all()

    def _shell(self, host: str, script: str) -> list[str]:
        return self._within(host, "bash", "-euo", "pipefail", "-c", script)

    def _environment(self, host: str) -> dict[str, str]:
        told = {}
        for name, file in (
            ("NORTH", self.home("north") / "north.req"),
            ("AUTHORITY", self.home("curator") / "ca"),
        ):
            if file.exists():
                told[f"TOLD_BY_{name}"] = said(pki("show", file), "fingerprint")
        path = f"{self._bin}:{self.home(host)}/venv/bin:{os.environ['PATH']}"
        return {**offline(), **told, **self.more, "HOME": str(self.homes / host), "PATH": path}
