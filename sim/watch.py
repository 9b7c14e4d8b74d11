"""Page of a simulation: the state of its curator, with figures that only a simulation has.

While the run goes on, the state comes from the curator: from the page of its process, or from its store in
this process. After the run, the state comes from the run's folder.
"""

from __future__ import annotations

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

from curator.settings import CuratorSettings
from curator.watch.ledger import LedgerFigures
from curator.watch.state import CuratorWatch
from fedkme.errors import ConnectionFailedError
from fedkme.privacy.events import CURATOR
from fedkme.store import Store
from fedkme.store.memory import MemoryStore
from fedkme.watch.place import PageAddress
from fedkme.watch.reading import read_watched
from fedkme.watch.server import shown
from fedkme.watch.state import OwnerStatus, RunState, Watched
from sim.engines.processes import ANY_PORT
from sim.engines.run_folder import read_record


class SimulationWatch:
    """State of a simulation for its page. One thread reports events; any other thread may read the state."""

    def __init__(self) -> None:
        self._last = Watched(CURATOR, time.time(), note="Parties are being started.")
        self._source: Callable[[], Watched] | None = None
        self._in_process: CuratorWatch | None = None
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

    def finish(self, directory: Path, words: str = "", over: bool = False) -> None:
        """Take the last state from the record in the run's folder, and show `words` with it."""
        self.state()
        with self._lock:
            self._source = None
            record = read_record(directory)
            if record is not None:
                if not self._last.runs:  # the run ended before the state was ever read
                    self._last = replace(self._last, runs=(_run_of_record(record),))
                self._last = _finished(self._last, record, directory)
            self._last = replace(self._last, at=time.time(), note=words, over=over)


@contextlib.contextmanager
def watching(watch: SimulationWatch) -> Iterator[str]:
    """Serve the page of a simulation while inside.

    Yields:
        The page's address.
    """
    with shown(PageAddress(ANY_PORT), watch.state) as address:
        yield address


@contextlib.contextmanager
def page_of() -> Iterator[SimulationWatch]:
    """Serve a page about the run inside, and print the page's address on standard error.

    At a terminal the page stays until the user presses Enter: a short run ends before a browser is open.
    """
    watch = SimulationWatch()
    with watching(watch) as address:
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


def _run_of_record(record: Mapping[str, Any]) -> RunState:
    """State of a run of which only the record is left."""
    lanes = tuple(OwnerStatus(owner, "done") for owner in sorted(record["owner_rows"]))
    lost = tuple(OwnerStatus(fault["owner"], "lost", fault["line"]) for fault in record["faults"])
    active = tuple(lane for lane in lanes if lane.owner not in {status.owner for status in lost})
    kind = record["protocol"] if record.get("kind") == "release" else "summary"
    opened = time.time()
    rounds = record.get("rounds", 0)
    return RunState(
        record["run"],
        record["consumer"],
        kind,
        record["status"],
        opened,
        protocol=record["protocol"],
        wanted=record.get("p", 0),
        rounds=rounds,
        fraction=1.0 if kind != "summary" and record["status"] == "complete" else None,
        lanes=(*active, *lost),
    )


def _finished(last: Watched, record: Mapping[str, Any], directory: Path) -> Watched:
    """State of a run that has ended, from its record and the curator's ledger."""
    figures, run = _figures(directory / "ledger.jsonl"), last.runs[0]
    accessed: Mapping[str, int] = record.get("accessed", {})  # no row leaves in a release
    faults = {fault["owner"] for fault in record["faults"]}
    lanes = tuple(
        replace(lane, rows=record["owner_rows"].get(lane.owner, lane.rows), seen=rows, since=None, due=None)
        if lane.owner in faults
        else OwnerStatus(lane.owner, "done", rows=record["owner_rows"].get(lane.owner), seen=rows)
        for lane in run.lanes
        for rows in [accessed.get(lane.owner, 0)]
    )
    rows, now = sum(accessed.values()), time.time()
    over = replace(
        run,
        status=record["status"],
        ended=run.ended or now,
        done=record.get("rounds", 0),
        reason=record["reason"] or "",
        lanes=lanes,
        came=run.came if run.rows == rows else (*run.came, (now, rows)),
    )
    return replace(last, runs=(over, *last.runs[1:]), learned=figures.learned)


def _figures(ledger: Path) -> LedgerFigures:
    store = MemoryStore(CURATOR)
    store.extend_ledger(ledger.read_text(encoding="ascii").splitlines())
    figures = LedgerFigures(store, None)
    figures.read()
    return figures
