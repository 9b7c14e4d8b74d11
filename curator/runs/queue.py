"""The curator's runs: asked for, queued, running, over; none is lost when the process dies."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from typing import cast

from curator.run.run import OPEN, Run, Status
from fedkme.documents import RunDocument
from fedkme.errors import CancelledRunError, ConfigError, ConnectionFailedError, FedkmeError, StoreError
from fedkme.exchange import ReleaseRequest
from fedkme.privacy.ledger import last_seq
from fedkme.store import RunRow, Store
from fedkme.tables.files import table_bytes
from fedkme.tables.npz import npz_arrays
from fedkme.tables.table import Table
from fedkme.wire.journals import run_document_from_bytes, run_document_to_bytes

_ROWS, _INDEXED, _OPENED, _BEFORE = "d_v/", "requests", "opened", "before/"
"""Keys of facts: rows of D_v itself of an open run, by its name; that requests are indexed; runs so far;
lines that the ledger had before an open run, by its name."""
MOST_ASKED = 8
"""Requests of one consumer that may wait for its g~; the oldest gives way."""


class RunQueue:
    """All runs, of which some are under way at a time.

    Whose turn it is: the consumer with the fewest runs under way; among equals, who came first. Rows of D_v
    itself, and which run a request began, are facts of the store: nobody reads all runs to find one.

    Attributes:
        settle: charges what is left of a run, before it is over.
        closed: told when a run is over.
    """

    def __init__(
        self, store: Store, conduct: Callable[[Run], Awaitable[Status | None]], at_once: int
    ) -> None:
        """Take up what the store holds; `start` sets it going, `at_once` runs at most at a time.

        `conduct` carries out one run and says how it ended; None where it must go on later.
        """
        self._store = store
        self._conduct = conduct
        self._at_once = at_once
        self._queue: list[Run] = []
        self._running: dict[Run, None] = {}  # in the order in which they began
        self._open: dict[str, Run] = {}
        self._held = False
        self.settle: Callable[[Run], None] = lambda run: None
        self.closed: Callable[[], None] = lambda: None
        for status in OPEN:
            for row in store.runs(status):
                document = self._with_rows(row.run, run_document_from_bytes(row.document))
                first = _first(document) if status == "asked" else "queued"
                self._open[row.run] = Run(row.run, document, first, row.opened)
        if store.get(_INDEXED) is None:
            self._index_requests()
        self._queue += sorted(
            (run for run in self._open.values() if run.status == "queued"), key=lambda run: run.opened
        )

    def left_open(self) -> list[Run]:
        """Runs that began in an earlier process."""
        return list(self._queue)

    def waiting(self) -> list[Run]:
        """Runs whose consumer has not offered anything yet."""
        return [run for run in self._open.values() if run.status == "asked"]

    def start(self) -> None:
        """Begin what may begin."""
        while not self._held and self._queue and len(self._running) < self._at_once:
            under_way = Counter(run.consumer for run in self._running)
            run = min(self._queue, key=lambda run: under_way[run.consumer])  # the first of the least
            self._queue.remove(run)
            self._running[run] = None
            self._set(run, "running")
            run.task = asyncio.create_task(self._carry_out(run))

    def ask(self, name: str, document: RunDocument) -> Run:
        """Open a run: of a summary, which waits for g~, or of a release, which is in the queue at once."""
        status = _first(document)
        asked = [run for run in self.waiting() if run.consumer == document.consumer]
        for run in asked[: max(0, len(asked) + 1 - MOST_ASKED)]:
            self.close(run, "cancelled")
        with self._store.transaction():
            self._store.put(_OPENED, b"%d" % (_opened_before(self._store) + 1))
            self._store.open_run(name, document.consumer, run_document_to_bytes(document))
            self._store.update_run(name, status=status)
            self._note_request(name, document)
            self._store.put(_BEFORE + name, b"%d" % last_seq(self._store))
        row = self._store.run(name)
        assert row is not None, "it was opened above"
        run = self._open[name] = Run(name, document, status, row.opened)
        if status == "queued":
            self._queue.append(run)
            self.start()
        return run

    def enqueue(self, run: Run) -> None:
        """Put a run into the queue, with all that it needs in its document; `keep_rows` kept rows of D_v."""
        with self._store.transaction():
            self._store.update_run(run.name, status="queued", document=run_document_to_bytes(run.document))
        run.status = "queued"
        self._queue.append(run)
        self.start()

    def keep_rows(self, run: Run, validation: Table) -> None:
        """Write rows of D_v itself down, for a run that waits for them; any thread may call this.

        Raises:
            StoreError: they could not be.
        """
        self._store.put(_ROWS + run.name, table_bytes(validation))

    def forget_rows(self, run: Run) -> None:
        """Forget rows of D_v of a run that ended while they were written down."""
        self._store.delete(_ROWS + run.name)

    def again(self, run: Run) -> Run:
        """Take up a run that could not go on."""
        if run.error is None or not run.open:
            return run
        taken = self._open[run.name] = Run(run.name, run.document, "queued", run.opened)
        self._queue.append(taken)
        self.start()
        return taken

    def find(self, name: str) -> Run | None:
        """An open run by its name, or one that is over."""
        if (run := self._open.get(name)) is not None:
            return run
        if not name.isprintable() or (row := self._store.run(name)) is None:
            return None
        return self._known(replace(row, document=self._store.document(name) or row.document))

    def _known(self, row: RunRow) -> Run:
        """The run of a row."""
        if (run := self._open.get(row.run)) is not None:
            return run
        document = run_document_from_bytes(row.document)
        found = Run(row.run, document, cast(Status, row.status), row.opened)
        found.over.set()
        return found

    def asked_before(self, consumer: str, request_id: bytes) -> Run | None:
        """The run that a request of this id began."""
        if not request_id:
            return None
        name = self._store.get(_request_key(consumer, request_id))
        return None if name is None else self.find(name.decode())

    def _with_rows(self, run: str, document: RunDocument) -> RunDocument:
        """A document with the rows of D_v that are kept beside it, if there are any."""
        kept, offer = self._store.get(_ROWS + run), document.offer
        if kept is None or offer is None:
            return document
        rows = npz_arrays(kept, run)
        return replace(document, offer=replace(offer, validation=rows["x"], validation_classes=rows.get("y")))

    def _index_requests(self) -> None:
        """Note the runs of every request, once: an earlier release did not."""
        with self._store.transaction():
            rows = self._store.runs()
            for row in rows:
                self._note_request(row.run, run_document_from_bytes(row.document))
            self._store.put(_OPENED, b"%d" % len(rows))
            self._store.put(_INDEXED, b"")

    def _note_request(self, run: str, document: RunDocument) -> None:
        if request_id := document.request.request_id:
            self._store.put(_request_key(document.consumer, request_id), run.encode())

    def of(self, consumer: str) -> list[Run]:
        """Every run of a consumer, by the order of opening."""
        return [self._known(row) for row in self._store.runs(peer=consumer)]

    def open_of(self, consumer: str) -> list[Run]:
        """Every open run of a consumer."""
        return [run for run in self._open.values() if run.consumer == consumer]

    def ahead(self, run: Run) -> int:
        """Count the runs before a run in the queue."""
        return self._queue.index(run) if run in self._queue else 0

    def summaries(self) -> list[RunDocument]:
        """Documents of every open run that makes a summary."""
        return [run.document for run in self._open.values() if not run.is_release]

    def cancel(self, run: Run) -> None:
        """End a run; what was gathered is kept.

        Raises:
            CancelledRunError: it is over already.
        """
        if not run.open:
            raise CancelledRunError(f"{run.name} is over already", "Nothing is to be cancelled.")
        run.cancelled = True
        if run.task is not None:
            run.task.cancel()
        else:
            self._queue = [each for each in self._queue if each is not run]
            self.close(run, "cancelled")

    def close(self, run: Run, status: Status, fault: FedkmeError | None = None) -> None:
        """A run is over, perhaps by a fault before it began: its journal and its D_v are forgotten."""
        self.settle(run)
        document = replace(run.document, offer=None, fault=fault)
        with self._store.transaction():
            self._store.update_run(
                run.name, status=status, document=run_document_to_bytes(document), ended=True
            )
            self._store.forget_entries(run.name)
            self._store.delete(_ROWS + run.name)
            self._store.delete(_BEFORE + run.name)
        run.document, run.status = document, status  # now: where that fails, the run goes on with its offer
        self._open.pop(run.name, None)
        run.finish()
        self.closed()

    def counts(self) -> Mapping[Status, int]:
        """Open runs by how far they are; any thread may ask."""
        counts = Counter(run.status for run in list(self._open.values()))
        return {status: counts[status] for status in OPEN}

    def hold(self) -> list[str]:
        """Begin nothing any more; names of runs under way."""
        self._held = True
        return sorted(run.name for run in self._running)

    async def idle(self) -> None:
        """Wait for the end of runs under way."""
        if tasks := [run.task for run in self._running if run.task is not None]:
            await asyncio.wait(tasks)

    async def suspend(self) -> None:
        """Let go of runs under way; they go on when the curator starts again."""
        self._held = True  # or each would make room for the next in the queue
        tasks = [run.task for run in self._running if run.task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _set(self, run: Run, status: Status) -> None:
        with contextlib.suppress(StoreError):  # it is only for who looks; the run is open either way
            self._store.update_run(run.name, status=status)
        run.status = status

    async def _carry_out(self, run: Run) -> None:
        try:
            status = await self._conduct(run)
            if status is not None:
                self.close(run, status)
        except StoreError as error:
            run.error = error
        except asyncio.CancelledError:  # who follows it has no outcome, and asks again
            cause = f"the curator stops, and {run.name} goes on when it starts again"
            run.error = ConnectionFailedError(cause, "Wait for the curator, or start it.")
            raise
        finally:
            self._running.pop(run, None)
            run.finish()
            self.start()


def _first(document: RunDocument) -> Status:
    return "queued" if isinstance(document.request, ReleaseRequest) else "asked"


def _request_key(consumer: str, request_id: bytes) -> str:
    return f"request/{consumer}/{request_id.hex()}"


def _opened_before(store: Store) -> int:
    """Runs that were ever opened, as `RunQueue` counts them."""
    return int(store.get(_OPENED) or b"0")


def lines_before(store: Store, run: str) -> int:
    """Count lines of the ledger that were there before an open run; 0 where an earlier release opened it."""
    return int(store.get(_BEFORE + run) or b"0")


def next_run(store: Store, repeatable: bool, unique: Callable[[], str]) -> str:
    """A run name that the store has not, which keeps all of them.

    Ledgers tell runs apart by it, also those of an owner that serves two curators, so that outside of
    simulations it is unique; an owner refuses one that its ledger knows.
    """
    number = _opened_before(store) + 1
    while store.run(name := f"run-{number}" if repeatable else f"run-{number}-{unique()}") is not None:
        number += 1
    return name


def shortened(document: bytes) -> bytes:
    """Document of an archived run without code book and keys, for lists."""
    run = run_document_from_bytes(document)
    if run.plan is None or run.plan.cells is None:
        return document
    return run_document_to_bytes(replace(run, plan=run.plan.shortened()))


def kind_of(document: RunDocument) -> str:
    """Kind of result that a run makes, for a list of runs."""
    if not isinstance(document.request, ReleaseRequest):
        return "summary"
    with contextlib.suppress(ValueError):
        kind = json.loads(document.request.settings).get("kind")
        return str(kind)[:32]
    return "release"


def unknown(name: str) -> ConfigError:
    """Refuse a run that a caller names and does not have; it is not said if others have it."""
    return ConfigError(f"there is no run {name[:64]!r} of yours", "List your runs: `fedkme consumer runs`.")
