"""Many owners in one process: a connection, a journal and a policy each.

The owners share little: docs/decisions/024-many-owners-and-clusters.md has the list.
"""

import asyncio
import contextlib
import os
import resource
import sys
import tomllib
from collections import Counter
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import filterfalse
from pathlib import Path

from fedkme.errors import ConfigError, FedkmeError, PartyFailedError
from fedkme.inputs import SMALL, read_text
from fedkme.ops.logs import Log
from fedkme.ops.supervision import StatusReporter
from fedkme.ops.threads import turns
from fedkme.party import LogFormat, load_settings
from fedkme.privacy.presets import warn_of_large
from owner.agent import join
from owner.settings import OwnerSettings

JOINING = 8
"""Owners that load rows and dial at the same time; the next one begins when the curator lets one in. With
many streams open a curator closes streams without a hello, and this process writes no hello while it loads
rows."""
PATIENCE_S = 10.0
"""Longest time that one owner keeps the next waiting; the first one's curator may be down."""
_DESCRIPTORS = 5
"""File descriptors of an owner: a connection, and a journal of four files."""
_FIGURES = 3
"""File descriptors of exported metrics: the listening socket and two readers."""
_DIALLING = 2
"""Owners per spare descriptor: some dial again before their old connection is closed."""
_OTHERS = 64
_NAMED = 5


@dataclass(frozen=True)
class Owners:
    """Owners of one process, and the log for lines of the process itself.

    Attributes:
        settings: settings of each owner whose file could be read.
        faults: errors of the other owners, by the name of the file.
        log: format of lines: JSON if one owner logs in JSON.
    """

    settings: tuple[OwnerSettings, ...]
    faults: Mapping[str, FedkmeError]
    log: LogFormat
    name: str = "owners"
    log_file: Path | None = None


def load_all(files: Sequence[Path]) -> Owners:
    """Read the settings of owners that join in one process.

    Raises:
        ConfigError: two owners have the same name.
    """
    settings: list[OwnerSettings] = []
    faults: dict[str, FedkmeError] = {}
    for file in files:
        try:
            settings.append(load_settings(OwnerSettings, file))
        except FedkmeError as error:
            faults[file.stem] = error
    names = Counter(each.name for each in settings)
    if twice := [name for name, times in names.items() if times > 1]:
        raise ConfigError(f"two files are of an owner called {twice[0]}", "Keep one of them.")
    return Owners(tuple(settings), faults, "json" if "json" in {each.log for each in settings} else "text")


def files_of(paths: Sequence[Path]) -> tuple[Path, ...]:
    """List the owners' files: each path itself, or of a folder every *.toml except schemas, by name.

    Raises:
        ConfigError: a folder has none.
    """
    files: list[Path] = []
    for path in paths:
        inside = sorted(filterfalse(_is_schema, path.glob("*.toml"))) if path.is_dir() else [path]
        if not inside:
            raise ConfigError(f"{path} has no *.toml of an owner", "Name the folder of the owners' files.")
        files += inside
    return tuple(files)


def _is_schema(path: Path) -> bool:
    """Check whether a file is a schema: it has columns, and no data of an owner. It may not even be TOML."""
    try:
        keys = tomllib.loads(read_text(path, most=SMALL)).keys()
    except (OSError, ValueError):
        return False
    return "columns" in keys and "data" not in keys


def check_descriptors(owners: Sequence[OwnerSettings]) -> str:
    """Hold what these owners need to what this process may open; a line that says both.

    Raises:
        ConfigError: it may open too few files, even where it raises its soft limit.
    """
    most, needed = resource.getrlimit(resource.RLIMIT_NOFILE)[1], _needed(owners)
    count = len(owners)
    if most != resource.RLIM_INFINITY and most < needed:
        cause = f"{count} owners need {needed} file descriptors and a process here may have {most}"
        remedy = "Raise the hard limit (ulimit -Hn, LimitNOFILE=), or let several processes share the owners."
        raise ConfigError(cause, remedy)
    allowed = "any number" if most == resource.RLIM_INFINITY else str(most)
    return f"{count} owners need {needed} file descriptors at most, of {allowed}"


def most_owners() -> int:
    """Count the owners, without logs in files and figures, for whom one process may open enough files."""
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    if most == resource.RLIM_INFINITY:
        return sys.maxsize
    return (most - _OTHERS) * _DIALLING // (_DESCRIPTORS * _DIALLING + 1)


async def join_all(
    owners: Owners, reporter: StatusReporter, supervised: bool = False, new_journal: bool = False
) -> None:
    """Let every owner join its curator, until all have ended; an owner that fails does not stop the others.

    Raises:
        ConfigError: the process may not open enough files.
        PartyFailedError: some failed; each has said why.
    """
    settings = owners.settings
    _raise_limit(settings)
    for name, fault in owners.faults.items():
        reporter.of(name, Log(name, owners.log, among=True)).fail(fault)
    if any(each.curator == "-" for each in settings):
        address = await reporter.hear()
        settings = tuple(_at(each, address) for each in settings)
    turns.set(asyncio.Semaphore(os.cpu_count() or 1))
    joining = asyncio.Semaphore(JOINING)
    ended = await asyncio.gather(
        *(_join(each, reporter, supervised, new_journal, joining) for each in settings),
        return_exceptions=True,  # a stop waits for all owners
    )
    failed = [each.name for each, fine in zip(settings, ended, strict=True) if fine is not True]
    if failed := [*owners.faults, *failed]:
        more = f" and {len(failed) - _NAMED} more" if len(failed) > _NAMED else ""
        raise PartyFailedError(
            f"{len(failed)} of {len(settings) + len(owners.faults)} owners failed: "
            f"{', '.join(failed[:_NAMED])}{more}",
            "The line of each says why.",
        )


async def _join(
    settings: OwnerSettings,
    process: StatusReporter,
    supervised: bool,
    new_journal: bool,
    joining: asyncio.Semaphore,
) -> bool:
    """Run one owner to its end; True if it ended well."""
    reporter = process.of(settings.name, Log(settings.name, among=True))
    try:
        if not supervised:
            log = Log(settings.name, settings.log, settings.log_file, among=True)
            reporter = process.of(settings.name, log)
            warn_of_large(settings, lambda line: reporter.say("warning", line=line))
        async with _turn(joining, reporter):
            await join(settings, reporter, new_journal=new_journal)
    except FedkmeError as error:
        reporter.fail(error)
        return False
    except Exception as error:
        reporter.unforeseen(error)
        return False
    return True


@contextlib.asynccontextmanager
async def _turn(joining: asyncio.Semaphore, reporter: StatusReporter) -> AsyncIterator[None]:
    """Wait for an owner's turn to join. The turn ends when the owner is let in, ends, or takes too long."""
    await joining.acquire()
    with contextlib.ExitStack() as turn:
        turn.callback(joining.release)
        turn.callback(asyncio.get_running_loop().call_later(PATIENCE_S, turn.close).cancel)
        reporter.on_ready = turn.close
        yield


def _at(settings: OwnerSettings, address: str) -> OwnerSettings:
    return settings.model_copy(update={"curator": address}) if settings.curator == "-" else settings


def _needed(owners: Sequence[OwnerSettings]) -> int:
    files = sum((each.log_file is not None) + _FIGURES * (each.metrics is not None) for each in owners)
    return _OTHERS + files + _DESCRIPTORS * len(owners) + -(-len(owners) // _DIALLING)


def _raise_limit(owners: Sequence[OwnerSettings]) -> None:
    check_descriptors(owners)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != resource.RLIM_INFINITY and soft < _needed(owners):
        resource.setrlimit(resource.RLIMIT_NOFILE, (_needed(owners), hard))
