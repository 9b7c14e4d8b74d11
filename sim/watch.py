"""Page of a simulation: the state of its curator, with figures that only a simulation has.

While the run goes on, the state comes from the curator: from the page of its process, or from its store in
this process. After the run, the page is the run's report.
"""

import contextlib
import math
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import ProxyHandler, build_opener

from curator.settings import CuratorSettings
from curator.watch.state import CuratorWatch
from fedkme.errors import ConnectionFailedError
from fedkme.inputs import read_text
from fedkme.privacy.events import CURATOR
from fedkme.store import Store
from fedkme.watch.access import PageAddress
from fedkme.watch.server import shown
from fedkme.watch.state import Watched
from sim.engines.processes import ANY_PORT
from sim.engines.run_folder import read_record


class SimulationWatch:
    """State of a simulation for its page. One thread reports events; any other thread may read the state."""

    def __init__(self) -> None:
        self._last = Watched(CURATOR, time.time(), note="Parties are being started.")
        self._source: Callable[[], Watched] | None = None
        self._in_process: CuratorWatch | None = None
        self._report: Path | None = None
        self._mmd2: dict[int, float] = {}
        self._lock = threading.Lock()

    def hear(self, event: str, fields: Mapping[str, Any]) -> None:
        """Take in an event of the curator."""
        match event:
            case "page":
                address = fields["address"]
                self._source = lambda: read_watched(address)
            case "round":
                record = fields["record"]
                self._mmd2[record["round"]] = record["mmd2_estimate"]
            case "ended" if self._in_process is None:
                self.state()
                self._source = None  # its port may soon be another server's
        if self._in_process is not None:
            self._in_process.hear(event, fields)

    def take(self, store: Store, owners: tuple[str, ...], directory: Path) -> None:
        """Read the state from the store of a curator in this process from now on."""
        settings = CuratorSettings(
            plaintext=True, directory=directory, schema_file=Path("schema.toml"), owners=owners
        )
        self._in_process = CuratorWatch(settings, store)
        self._source = self._in_process.state

    def state(self) -> Watched:
        """The current state, or the last one before the curator's process ended."""
        with self._lock:
            if self._source is not None:
                with contextlib.suppress(ConnectionFailedError):  # the curator's process has ended
                    self._last = replace(self._source(), note="")
            points = tuple((at, value) for at, value in sorted(self._mmd2.items()) if math.isfinite(value))
            runs = self._last.runs
            if runs:
                runs = (replace(runs[0], mmd2=points), *runs[1:])
            return replace(self._last, runs=runs)

    def report(self) -> str:
        """The page of the finished run; empty before the end."""
        return read_text(self._report) if self._report is not None else ""

    def fail(self, words: str) -> None:
        """Show why there is no run."""
        with self._lock:
            self._source = None
            self._last = replace(self._last, at=time.time(), note=words, over=True)

    def finish(self, directory: Path, words: str = "", over: bool = False) -> None:
        """Show `words` and the status in the record of the run's folder; the report once all is over."""
        last, record = self.state(), read_record(directory)
        with self._lock:
            self._source = None
            if record is not None and last.runs:
                ended = last.runs[0].ended or time.time()
                run = replace(
                    last.runs[0], status=record["status"], ended=ended, reason=record["reason"] or ""
                )
                last = replace(last, runs=(run, *last.runs[1:]))
            self._last = replace(last, at=time.time(), note=words, over=over)
            if over and (page := directory / "report.html").exists():
                self._report = page


@contextlib.contextmanager
def page_of() -> Iterator[SimulationWatch]:
    """Serve a page about the run inside, and print the page's address on standard error.

    At a terminal the page stays until the user presses Enter: a short run ends before a browser is open.
    """
    watch = SimulationWatch()
    with shown(PageAddress(ANY_PORT), watch.state, watch.report) as address:
        print(f"watch it at {address}", file=sys.stderr, flush=True)
        yield watch
        if _at_a_keyboard():
            print("the page stays: Enter ends it", file=sys.stderr, flush=True)
            with contextlib.suppress(KeyboardInterrupt):
                sys.stdin.readline()


def _at_a_keyboard() -> bool:
    """True at a terminal whose user can answer; a job in the background has no such user."""
    try:
        return sys.stderr.isatty() and os.tcgetpgrp(sys.stdin.fileno()) == os.getpgrp()
    except (OSError, ValueError):
        return False


_WAIT_S = 5.0


def read_watched(address: str) -> Watched:
    """Read the whole state from the page at an address, such as `http://127.0.0.1:8080/`.

    Raises:
        ConnectionFailedError: there is no page at the address, or the page refuses.
    """
    opener = build_opener(ProxyHandler({}))  # the page is on this machine, whatever proxies there are
    try:
        with opener.open(f"{address}state", timeout=_WAIT_S) as answer:
            return Watched.from_json(answer.read())
    except HTTPError as error:
        cause = f"the page at {address} refuses to be read ({error.code})"
        raise ConnectionFailedError(cause, "Read it on the curator's machine.") from None
    except OSError:
        cause = f"no page can be read at {address}"
        raise ConnectionFailedError(cause, "Start the curator with --page, or name its address.") from None
