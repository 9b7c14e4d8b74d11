"""Log lines of a party: text, or one JSON object a line; never a private value.

Events are the party's own words. Log lines of libraries and unexpected exceptions appear by type and place in
the code alone: the text of an exception may hold a row, a key or a passphrase.
"""

import datetime
import json
import logging
import logging.handlers
import math
import os
import sys
import time
import traceback
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TextIO, cast

from typing_extensions import override

from fedkme.errors import FedkmeError, on_disk
from fedkme.party import LogFormat

OUR_LOGGERS = ("curator", "owner", "consumer", "fedkme")
"""Loggers of this project, whose text holds nothing private."""
_ROUND_FIELDS = ("round", "asked", "revealed", "accessed", "pool", "owners", "milliseconds")
"""Public fields of a line about a round; its winner and the winning bid are not for every reader of a log."""


class Log:
    """Log of a party, on standard error or in a file that may be rotated while the party runs."""

    def __init__(
        self, party: str, form: LogFormat = "text", file: Path | None = None, among: bool = False
    ) -> None:
        """Open a party's log, on standard error or at the end of a file of mode 0640.

        With `among`, several parties share the process, and every line has the party's name, also the line
        of a failure.

        Raises:
            ConfigError: the file cannot be written.
        """
        self._form, self._file, self._among = form, file, among
        self._handler: logging.Handler = _Stderr()
        if file is not None:
            with on_disk(f"the log {file} cannot be written", "Correct 'log_file'."):
                self._handler = _File(file, encoding="utf-8")
        self._handler.setFormatter(_JsonLines(party) if form == "json" else _TextLines(party))

    def write(self, event: str, fields: Mapping[str, Any]) -> None:
        """Write one event."""
        self._handler.handle(logging.makeLogRecord({"fedkme": (event, _public(fields))}))

    def fail(self, error: FedkmeError) -> None:
        """Write the failure that ends the party; on a terminal, in the form that every command uses."""
        if self._form == "json" or self._file is not None or self._among:
            self.write("failed", {"code": error.code, "cause": error.cause, "remedy": error.remedy})
        if not self._among and (self._form == "text" or self._file is not None):
            sys.stderr.write(f"{error}\n")

    def capture(self) -> None:
        """Write the log lines of libraries too; only for a process with a single party."""
        logging.captureWarnings(True)
        logging.getLogger().handlers[:] = [self._handler]
        if self._form == "json":
            # gRPC's core writes lines of its own to standard error; it reads this variable on first use
            os.environ.setdefault("GRPC_VERBOSITY", "NONE")


def unforeseen(error: BaseException) -> dict[str, Any]:
    """Describe an unexpected exception by its type and place in the code, never by its text."""
    frames = traceback.extract_tb(error.__traceback__)
    places = [f"{Path(frame.filename).name}:{frame.lineno} {frame.name}" for frame in frames]
    return {"error": type(error).__name__, "at": places}


def _public(fields: Mapping[str, Any]) -> dict[str, Any]:
    flat = {key: value for key, value in fields.items() if key != "record"}
    if (record := fields.get("record")) is not None:
        flat |= {key: record[key] for key in _ROUND_FIELDS if key in record}
    return flat


def _event_of(record: logging.LogRecord) -> tuple[str, dict[str, Any]]:
    ours: tuple[str, dict[str, Any]] | None = getattr(record, "fedkme", None)
    if ours is not None:
        return ours
    fields: dict[str, Any] = {"logger": record.name, "level": record.levelname}
    if record.name.partition(".")[0] in OUR_LOGGERS:
        fields["line"] = record.getMessage()
    if record.exc_info and record.exc_info[1] is not None:
        fields |= unforeseen(record.exc_info[1])
    else:
        fields["at"] = [f"{Path(record.pathname).name}:{record.lineno} {record.funcName}"]
    return "unforeseen" if record.levelno >= logging.ERROR else "library", fields


class _Stderr(logging.StreamHandler[Any]):
    """Handler that looks up `sys.stderr` for each line."""

    def __init__(self) -> None:
        logging.Handler.__init__(self)

    @property
    def stream(self) -> Any:
        return sys.stderr


class _File(logging.handlers.WatchedFileHandler):
    """Log file of mode 0640, also after rotation."""

    _lost = False
    """True while lines cannot be written."""

    @override
    def emit(self, record: logging.LogRecord) -> None:
        """Write a line; where that fails, say so once on standard error, and let the party go on."""
        try:
            self.reopenIfNeeded()
            stream: TextIO = self.stream or self._open()
            self.stream = cast(Any, stream)
            stream.write(f"{self.format(record)}\n")
            stream.flush()
        except OSError as error:
            if not self._lost:
                reason = error.strerror or "unknown reason"
                line = f"the log {self.baseFilename} cannot be written: {reason}"
                sys.stderr.write(f"{line}; its lines are lost until it can\n")
            self._lost = True
        else:
            self._lost = False

    def _open(self) -> Any:
        def private(path: str, flags: int) -> int:
            opened = os.open(path, flags | os.O_NONBLOCK, 0o640)  # a pipe that nobody reads is an error
            os.set_blocking(opened, True)
            return opened

        return open(self.baseFilename, "a", encoding="utf-8", opener=private)


class _JsonLines(logging.Formatter):
    def __init__(self, party: str) -> None:
        super().__init__()
        self._party = party

    def format(self, record: logging.LogRecord) -> str:
        event, fields = _event_of(record)
        now = datetime.datetime.fromtimestamp(time.time(), datetime.UTC)
        stamp = now.isoformat(timespec="microseconds").replace("+00:00", "Z")
        line = {"time": stamp, "party": self._party, "event": event, **fields}
        return json.dumps(rounded(line), default=str)


class _TextLines(logging.Formatter):
    def __init__(self, party: str) -> None:
        super().__init__()
        self._party = party

    def format(self, record: logging.LogRecord) -> str:
        event, fields = _event_of(record)
        details = " ".join(
            f"{key}={text_of(value)}" for key, value in fields.items() if value not in (None, "")
        )
        return f"{self._party}: {event} {details}".rstrip()


def rounded(value: Any) -> Any:
    """Round numbers of a line in JSON to six digits; `at`, the seconds of a clock, to a microsecond."""
    match value:
        case float():
            return float(f"{value:.6g}")
        case Mapping():
            return {key: rounded(each) if key != "at" else _microseconds(each) for key, each in value.items()}
        case list() | tuple():
            return [rounded(each) for each in value]
    return value


def _microseconds(value: Any) -> Any:
    return round(value, 6) if isinstance(value, float) else rounded(value)


def text_of(value: Any) -> str:
    """Format a field's value for people, in one line: figures rounded, lists with commas.

    A peer's text cannot start a line of its own: text with unprintable characters is escaped and quoted.
    """
    match value:
        case None:
            return "-"
        case bool():
            return "yes" if value else "no"
        case float():
            return f"{value:.0f}" if 1e4 <= abs(value) < math.inf else f"{value:.4g}"
        case Mapping():
            return ",".join(f"{text_of(key)}:{text_of(inner)}" for key, inner in value.items()) or "-"
        case list() | tuple() | set() | frozenset():
            return ",".join(map(text_of, value)) or "-"
    text = str(value)
    return text if text.isprintable() else json.dumps(text)
