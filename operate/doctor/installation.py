"""Checks of the installation: Python, packages that a host needs, a port on loopback."""

import base64
import csv
import hashlib
import importlib.metadata
import importlib.util
import re
import socket
import sqlite3
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import fedkme
from consumer.releases.client import ReleaseConsumerSettings
from consumer.settings import ConsumerSettings
from curator.settings import CuratorSettings
from fedkme import __version__
from fedkme.errors import MissingDependencyError
from fedkme.party import PartySettings
from fedkme.releases.settings import METHODS
from fedkme.tables.data_file import Source, path_of
from fedkme.tables.schema import load_schema
from operate.doctor.findings import Finding
from owner.settings import OwnerSettings

_NEEDED = re.compile(r"^([A-Za-z0-9._-]+)(?:\[[^\]]*\])?(?:>=([0-9.]+))?(?:.*extra == ['\"](\w+)['\"])?")
_PACKAGES = ("fedkme", "curator", "owner", "consumer", "sim", "operate")
_OPTIONAL = ("sim", "postgres")


def check_installation() -> Iterator[Finding]:
    """Check the release, its packages and files, and that loopback takes connections."""
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
    yield from _foreign_packages(Path(fedkme.__file__).parent.parent)
    try:
        with (
            socket.create_server(("127.0.0.1", 0)) as server,
            socket.create_connection(server.getsockname(), 5.0),
        ):
            yield Finding("ok", "ports", "loopback accepts connections")
    except OSError as error:
        line = f"loopback accepts no connections: {error.strerror}"
        yield Finding("fail", "ports", line, "Look at this host's firewall.", 34)


def _own_files(installed: importlib.metadata.Distribution) -> Iterator[Finding]:
    """Find modules that another package overwrote; an editable installation lists none."""
    listed = csv.reader((installed.read_text("RECORD") or "").splitlines())  # has removed files, too
    modules = [(name, digest) for name, digest, _ in listed if name.endswith(".py") and digest]
    changed = [name for name, digest in modules if _digest(installed.locate_file(name), digest) != digest]
    if not changed:
        yield Finding("ok", "files", "modules are as installed")
        return
    owners = importlib.metadata.packages_distributions()
    rivals = sorted({name for file in changed for name in owners.get(file.split("/")[0], ())} - {"fedkme"})
    by = f", also of {', '.join(rivals)}" if rivals else ""
    line = f"{len(changed)} modules differ from the installed files, {changed[0]} among them{by}"
    yield Finding("fail", "files", line, "Install fedkme again, in an environment of its own.", 13)


def _foreign_packages(own: Path) -> Iterator[Finding]:
    """Find packages of other distributions that have a name of fedkme's: in its place, or in its folder."""
    owners = importlib.metadata.packages_distributions()
    for name in _PACKAGES:
        spec = importlib.util.find_spec(name)
        places = list(spec.submodule_search_locations or [spec.origin or ""]) if spec is not None else []
        rivals = sorted({*owners.get(name, ())} - {"fedkme"})
        by = f", of {', '.join(rivals)}" if rivals else ""
        remedy = "Install fedkme in an environment of its own."
        if (own / name) not in map(Path, places):
            line = f"{', '.join(places)}{by}, hides fedkme's own {name}"
            yield Finding("fail", "packages", line, remedy, 13)
        elif rivals:
            line = f"the package {name} is also{by}: the next update of either overwrites the other"
            yield Finding("warn", "packages", line, remedy)


def _digest(file: object, like: str) -> str | None:
    """Compute a file's digest as in RECORD, by the same hash function; None if the file is missing."""
    name = like.partition("=")[0]
    try:
        digest = hashlib.new(name, Path(str(file)).read_bytes()).digest()
    except OSError:
        return None
    return f"{name}={base64.urlsafe_b64encode(digest).decode().rstrip('=')}"


def _packages(check: str, needed: Sequence[tuple[str, str]], state: str, extra: str) -> Iterator[Finding]:
    lacking, there = [], []
    if not needed:  # the installed release has no such extra
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


def check_packages(settings: PartySettings) -> Iterator[Finding]:
    """Check the packages that the configuration needs on this host, and name those for the curator's host.

    Raises:
        FedkmeError: the schema cannot be read.
    """
    for package, module, extra, why in _here(settings):
        if importlib.util.find_spec(module) is not None:
            yield Finding("ok", "packages", f"{package}, needed on this host {why}, is installed")
        else:
            line = f"{package}, needed on this host {why}, is not installed"
            remedy = f"Run `pip install 'fedkme[{extra}]'` here."
            yield Finding("fail", "packages", line, remedy, MissingDependencyError.code)
    if isinstance(settings, ReleaseConsumerSettings) and (names := settings.release.packages):
        line = (
            f"{', '.join(names)}: needed for {settings.release.kind} on the curator's host, not on this one"
        )
        yield Finding("ok", "packages", line)
    if isinstance(settings, CuratorSettings):
        methods = {kind: METHODS[kind].packages for kind in METHODS.table()}
        needed = sorted({name for names in methods.values() for name in names})
        lacking = [name for name in needed if importlib.util.find_spec(name) is None]
        refused = [kind for kind, names in methods.items() if set(names) & set(lacking)]
        line = f"not installed here: {', '.join(lacking)}; releases by {', '.join(refused)} are refused"
        yield Finding(
            "ok", "packages", line if lacking else "the packages of every release method are installed here"
        )


def _here(settings: PartySettings) -> Iterator[tuple[str, str, str, str]]:
    """Yield the packages for this host, with the imported module, the extra and the purpose."""
    if settings.traces is not None:
        yield "opentelemetry-sdk", "opentelemetry", "otel", "to send spans (`traces`)"
    tables: list[Source | None] = []
    match settings:
        case OwnerSettings():
            tables = [settings.data]
        case CuratorSettings():
            tables = [settings.seeds]
        case ConsumerSettings():
            tables = [settings.validation, settings.test, settings.seeds]
            if settings.trains(load_schema(settings.schema_file)):
                yield "scikit-learn", "sklearn", "sim", "to train models on the summary (`downstream`)"
    if any(source is not None and path_of(source).suffix == ".parquet" for source in tables):
        yield "pyarrow", "pyarrow", "sim", "to read .parquet files"
