"""Observations of a process besides its messages: logs, output, files and sleeps, by acting party.

A context variable names the acting party. The tap at an owner and the patches at a consumer set it; other
code acts for the curator. Observed are lines of any logger of this package, at any level, with attachments;
prints and warnings; files that are opened for writing, moved or given a time; and the seconds that a party
sleeps. So an audit needs to know no place of the product beforehand.
"""

from __future__ import annotations

import asyncio
import builtins
import contextlib
import logging
import os
import re
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from pathlib import Path
from types import FrameType
from typing import Any, cast

from fedkme.privacy.events import CURATOR

_OURS = ("consumer", "curator", "fedkme", "owner", "sim")
_ROOT = Path(__file__).resolve().parents[2]
_PLACES = tuple(
    f"{_ROOT / name}{os.sep}"
    for name in ("consumer", "curator", "fedkme", "owner", "tests", "audit/planted_faults")
)
_TOOLS = tuple(f"{_ROOT / name}{os.sep}" for name in ("sim",))
_PLAIN = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}
_DRAWN = re.compile(r"(?<=tmp)[a-z0-9_]{8}|[a-z0-9_]{8}(?=\.|$)|[0-9a-f]{16,}|[0-9]{9,}")
"""Parts of file names that are random, or depend on the time."""
_WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_TRUNC
_CHANGED = ("rename", "remove", "utime", "truncate", "link", "symlink", "mkdir", "chmod")
_CHANGES = tuple(f"os.{name}" for name in _CHANGED)
_COMPILED = f"{os.sep}__pycache__"

ACTING: ContextVar[str] = ContextVar("acting", default=CURATOR)
"""The party whose code runs."""
Note = Callable[[str, str], None]
"""Takes a party and a line about it."""

_listener: Note | None = None
_open: dict[str, str] = {}
"""Files opened for writing since a party began to act, with the party."""
_hooked = False


@contextlib.contextmanager
def acting(party: str) -> Iterator[None]:
    """Attribute the observations inside to a party."""
    token = ACTING.set(party)
    try:
        yield
    finally:
        ACTING.reset(token)
        _read_files()


@contextlib.contextmanager
def observing(note: Note) -> Iterator[None]:
    """Record this process's logs, output, files and sleeps while inside."""
    global _listener
    _hook()
    with contextlib.ExitStack() as stack:
        stack.enter_context(_patched(logging.Logger, "isEnabledFor", _enabled))
        stack.enter_context(_patched(logging.Logger, "callHandlers", lambda call: _logged(call, note)))
        stack.enter_context(_patched(builtins, "print", lambda show: _printed(show, note)))
        stack.enter_context(_patched(warnings, "warn", lambda warn: _warned(warn, note)))
        stack.enter_context(_patched(time, "sleep", lambda sleep: _slept(sleep, note)))
        stack.enter_context(_patched(asyncio, "sleep", lambda sleep: _slept(sleep, note)))
        stack.enter_context(_written(note))
        _listener = note
        try:
            yield
        finally:
            _read_files()
            _listener = None


def _read_files() -> None:
    """Record the bytes of written files."""
    hear = _listener
    while _open and hear is not None:
        path, party = _open.popitem()
        with contextlib.suppress(OSError):
            hear(party, f"file {_named(path)}: {Path(path).read_bytes()!r}")


@contextlib.contextmanager
def _patched(place: Any, name: str, wrap: Callable[[Any], Any]) -> Iterator[None]:
    before = getattr(place, name)
    setattr(place, name, wrap(before))
    try:
        yield
    finally:
        setattr(place, name, before)


def _is_ours(depth: int = 2) -> bool:
    """Check whether the nearest code of this repository on the stack is the product, or planted in it."""
    frame: FrameType | None = sys._getframe(depth)
    while frame is not None:
        name = frame.f_code.co_filename
        if name.startswith(_TOOLS):
            return False
        if name.startswith(_PLACES):
            return True
        frame = frame.f_back
    return False


def _enabled(before: Any) -> Any:
    def enabled(self: logging.Logger, level: int) -> bool:
        named = self.name.partition(".")[0] in _OURS or (self.name == "root" and _is_ours())
        return named or bool(before(self, level))

    return enabled


def _logged(call: Any, hear: Note) -> Any:
    def handlers(self: logging.Logger, record: logging.LogRecord) -> None:
        if record.name.partition(".")[0] in _OURS or record.pathname.startswith(_PLACES):
            more = {key: value for key, value in vars(record).items() if key not in _PLAIN}
            raised = record.exc_info[1] if record.exc_info else None
            hear(ACTING.get(), f"{record.name}: {record.getMessage()} {more or ''} {raised or ''}".rstrip())
        if record.levelno >= logging.WARNING:  # lower levels would be disabled without this audit
            call(self, record)

    return handlers


def _printed(show: Any, hear: Note) -> Any:
    def printed(*values: Any, **how: Any) -> None:
        if _is_ours():
            hear(ACTING.get(), f"prints {' '.join(map(str, values))}")
        else:
            show(*values, **how)

    return printed


def _warned(warn: Any, hear: Note) -> Any:
    def warned(message: Any, *arguments: Any, **named: Any) -> None:
        if _is_ours():
            hear(ACTING.get(), f"warns of {message}")
        named["stacklevel"] = int(named.get("stacklevel", 1)) + 1
        warn(message, *arguments, **named)

    return warned


def _slept(sleep: Any, hear: Note) -> Any:
    def slept(seconds: Any, *arguments: Any) -> Any:
        if seconds and _is_ours():
            hear(ACTING.get(), f"sleeps {seconds}")
        return sleep(seconds, *arguments)

    return slept


@contextlib.contextmanager
def _written(hear: Note) -> Iterator[None]:
    """Record the product's writes to standard output and standard error."""
    before = sys.stdout, sys.stderr
    sys.stdout, sys.stderr = (cast(Any, _Stream(stream, hear)) for stream in before)
    try:
        yield
    finally:
        sys.stdout, sys.stderr = before


class _Stream:
    """A stream that records the product's writes, and passes other writes on."""

    def __init__(self, stream: Any, hear: Note) -> None:
        self._stream = stream
        self._hear = hear

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def write(self, text: str) -> int:
        if _is_ours():
            self._hear(ACTING.get(), f"writes {text}")
            return len(text)
        return int(self._stream.write(text))


def _hook() -> None:
    """Install the audit hook for files, once a process: an audit hook cannot be removed."""
    global _hooked
    if not _hooked:
        sys.addaudithook(_on_event)
        _hooked = True


def _on_event(event: str, arguments: tuple[Any, ...]) -> None:
    hear = _listener
    if hear is None or not (event == "open" or event in _CHANGES) or not _is_ours(2):
        return
    if any(_COMPILED in os.fsdecode(each) for each in arguments if isinstance(each, str | bytes)):
        return  # the interpreter compiles what a first run imports
    if event == "open":
        path, mode, flags = arguments
        if isinstance(path, str | bytes) and ((flags or 0) & _WRITES or set(mode or "r") & set("wax+")):
            _open[os.fsdecode(path)] = ACTING.get()
    else:
        _read_files()  # before a file goes away
        values = [
            _named(os.fsdecode(value)) if isinstance(value, str | bytes) else value for value in arguments
        ]
        hear(ACTING.get(), f"{event} {values}")


def _named(path: str) -> str:
    """A path without the parts that are random in each run."""
    folder = tempfile.gettempdir()
    inside = path.removeprefix(folder).partition(os.sep)[2] if path.startswith(folder) else path
    return _DRAWN.sub("*", inside)
