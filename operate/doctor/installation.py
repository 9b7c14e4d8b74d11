"""Checks of the installation: Python, packages, a port on loopback."""

from __future__ import annotations

import base64
import csv
import hashlib
import importlib.metadata
import re
import socket
import sqlite3
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from fedkme import __version__
from operate.doctor.findings import Finding

_NEEDED = re.compile(r"^([A-Za-z0-9._-]+)(?:\[[^\]]*\])?(?:>=([0-9.]+))?(?:.*extra == ['\"](\w+)['\"])?")
_OPTIONAL = ("sim", "postgres")


def check_installation() -> Iterator[Finding]:
    """The release, its packages, and whether this machine can be a party."""
    python = sys.version.split()[0]
    yield Finding("ok", "fedkme", f"release {__version__}, Python {python}, SQLite {sqlite3.sqlite_version}")
    needed: dict[str, list[tuple[str, str]]] = {"": []}
    for requirement in importlib.metadata.requires("fedkme") or ():
        if (match := _NEEDED.match(requirement)) is not None:
            needed.setdefault(match[3] or "", []).append((match[1], match[2] or "0"))
    yield from _packages("packages", needed[""], "fail", "fedkme")
    for extra in _OPTIONAL:
        yield from _packages(extra, needed.get(extra, []), "warn", f"fedkme[{extra}]")
    yield from _own_files(importlib.metadata.distribution("fedkme"))
    try:
        with (
            socket.create_server(("127.0.0.1", 0)) as server,
            socket.create_connection(server.getsockname(), 5.0),
        ):
            yield Finding("ok", "ports", "loopback takes connections")
    except OSError as error:
        line = f"loopback takes no connections: {error.strerror}"
        yield Finding("fail", "ports", line, "Look at this host's firewall.", 34)


def _own_files(installed: importlib.metadata.Distribution) -> Iterator[Finding]:
    """Find modules that another package wrote over; an editable installation lists none."""
    listed = csv.reader((installed.read_text("RECORD") or "").splitlines())  # also of files that are gone
    modules = [(name, digest) for name, digest, _ in listed if name.endswith(".py") and digest]
    changed = [name for name, digest in modules if _digest(installed.locate_file(name), digest) != digest]
    if not changed:
        yield Finding("ok", "files", "modules are as they were installed")
        return
    owners = importlib.metadata.packages_distributions()
    rivals = sorted({name for file in changed for name in owners.get(file.split("/")[0], ())} - {"fedkme"})
    by = f", also of {', '.join(rivals)}" if rivals else ""
    line = f"{len(changed)} modules are not as they were installed, {changed[0]} among them{by}"
    yield Finding("fail", "files", line, "Install fedkme again, in an environment of its own.", 13)


def _digest(file: object, like: str) -> str | None:
    """Compute a file's digest as RECORD writes it, by the same function; None for one that is not there."""
    name = like.partition("=")[0]
    try:
        found = hashlib.new(name, Path(str(file)).read_bytes()).digest()
    except OSError:
        return None
    return f"{name}={base64.urlsafe_b64encode(found).decode().rstrip('=')}"


def _packages(check: str, needed: Sequence[tuple[str, str]], state: str, extra: str) -> Iterator[Finding]:
    lacking, there = [], []
    if not needed:  # installed before there was such an extra
        return
    for name, least in needed:
        try:
            version = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            lacking.append(name)
            continue
        if _numbers(version) < _numbers(least):
            lacking.append(f"{name} {least} (here {version})")
        there.append(f"{name} {version}")
    if lacking:
        line, remedy = f"not installed: {', '.join(lacking)}", f"Run `pip install '{extra}'`."
        if state == "fail":
            yield Finding("fail", check, line, remedy, 13)
        else:
            yield Finding("warn", check, f"{line} (optional)", remedy)
    else:
        yield Finding("ok", check, ", ".join(there))


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", version.partition("+")[0])[:3])
