"""Simulation that is watched: the state of its curator, and what a simulation alone knows.

While it runs, the state is the curator's own: read from the page of its process, or taken from it in this
process. When it is over, it is what the run's folder says.
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
    """State of a simulation for its page; it hears events in one thread, and any other may ask for it."""

    def __init__(self) -> None:
        self._last = Watched(CURATOR, time.time(), note="Parties are being started.")
        self._source: Callable[[], Watched] | None = None
        self._in_process: CuratorWatch | None = None
        self._mmd2: dict[int, float] = {}
        self._lock = threading.Lock()

    def hear(self, event: str, fields: Mapping[str, Any]) -> None:
        """Hear what the curator reports."""
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
        """Take the state from a curator in this process, by its store."""
        settings = CuratorSettings(
            plaintext=True, directory=directory, schema_file=Path("schema.toml"), owners=owners
        )
        self._in_process = CuratorWatch(settings, store)
        self._source = self._in_process.state

    def state(self) -> Watched:
        """The state now, or the last that there was."""
        with self._lock:
            if self._source is not None:
                with contextlib.suppress(ConnectionFailedError):  # its process is over
                    self._last = replace(self._source(), note="")
            points = tuple((at, value) for at, value in sorted(self._mmd2.items()) if math.isfinite(value))
            runs = self._last.runs
            if runs:
                runs = (replace(runs[0], mmd2=points), *runs[1:])
            return replace(self._last, runs=runs)

    def finish(self, directory: Path, words: str = "", over: bool = False) -> None:
        """Take the last state from the run's folder, which its record is in, with words about it."""
        self.state()
        with self._lock:
            self._source = None
            record = read_record(directory)
            if record is not None:
                if not self._last.runs:  # it was over before it was ever looked at
                    self._last = replace(self._last, runs=(_unseen(record),))
                self._last = _finished(self._last, record, directory)
            self._last = replace(self._last, at=time.time(), note=words, over=over)


@contextlib.contextmanager
def watching(watch: SimulationWatch) -> Iterator[str]:
    """Serve the page of a simulation while inside.

    Yields:
        its address.
    """
    with shown(PageAddress(ANY_PORT), watch.state) as address:
        yield address


@contextlib.contextmanager
def page_of() -> Iterator[SimulationWatch]:
    """Serve a page of what goes on inside, and say where on standard error.

    At a terminal it stays afterwards until somebody has looked: a run may be over before a browser is open.
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
    """Tell whether somebody reads what is printed and can answer; a job in the background cannot."""
    try:
        return sys.stderr.isatty() and os.tcgetpgrp(sys.stdin.fileno()) == os.getpgrp()
    except (OSError, ValueError):
        return False


def _unseen(record: Mapping[str, Any]) -> RunState:
    """The state of a run of which nothing is known but its record."""
    lanes = tuple(OwnerStatus(owner, "done") for owner in sorted(record["owner_rows"]))
    lost = tuple(OwnerStatus(fault["owner"], "lost", fault["line"]) for fault in record["faults"])
    kept = tuple(lane for lane in lanes if lane.owner not in {each.owner for each in lost})
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
        lanes=(*kept, *lost),
    )


def _finished(last: Watched, record: Mapping[str, Any], directory: Path) -> Watched:
    """The state of a run that is over, by its record and the curator's ledger."""
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
