"""Queue of the curator's runs: asked, queued, running, over; no run is lost when the process dies."""

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

_ROWS, _OPENED, _BEFORE = "d_v/", "opened", "before/"
"""Keys of facts in the store: the rows of an open run's D_v, by the run's name; the count of runs so far; the
ledger's length before an open run, by the run's name."""
MOST_ASKED = 8
"""Requests of one consumer that may wait for its g~; a further request cancels the oldest."""


class RunQueue:
    """All runs of a curator, of which some are under way at the same time.

    The next turn is that of the consumer with the fewest runs under way; among equals, of the earliest run.
    The store keeps D_v's rows and the run of each request as facts, so that no lookup reads all runs.

    Attributes:
        settle: charges the possible disclosures of a run before the run is closed.
        closed: called when a run is over.
    """

    def __init__(
        self, store: Store, conduct: Callable[[Run], Awaitable[Status | None]], at_once: int
    ) -> None:
        """Take up the runs in the store; `start` begins them, at most `at_once` at the same time.

        `conduct` carries out one run and returns its final status; None where the run must go on later.
        """
        self._store = store
        self._conduct = conduct
        self._at_once = at_once
        self._queue: list[Run] = []
        self._running: dict[Run, None] = {}  # in the order in which the runs began
        self._open: dict[str, Run] = {}
        self._held = False
        self.settle: Callable[[Run], None] = lambda run: None
        self.closed: Callable[[], None] = lambda: None
        for status in OPEN:
            for row in store.runs(status):
                document = self._with_rows(row.run, run_document_from_bytes(row.document))
                first = _first(document) if status == "asked" else "queued"
                self._open[row.run] = Run(row.run, document, first, row.opened)
                if request_id := document.request.request_id:  # a store of before 22 November has no index
                    store.put(_request_key(document.consumer, request_id), row.run.encode())
        self._queue += sorted(
            (run for run in self._open.values() if run.status == "queued"), key=lambda run: run.opened
        )

    def left_open(self) -> list[Run]:
        """Runs that began in an earlier process."""
        return list(self._queue)

    def waiting(self) -> list[Run]:
        """Runs whose consumer has not sent its offer yet."""
        return [run for run in self._open.values() if run.status == "asked"]

    def start(self) -> None:
        """Begin as many runs as may be under way."""
        while not self._held and self._queue and len(self._running) < self._at_once:
            under_way = Counter(run.consumer for run in self._running)
            # the earliest among equals
            self._begin(min(self._queue, key=lambda run: under_way[run.consumer]))

    def _begin(self, run: Run) -> None:
        self._queue.remove(run)
        self._running[run] = None
        self._set(run, "running")
        run.task = asyncio.create_task(self._carry_out(run))

    def ask(self, name: str, document: RunDocument) -> Run:
        """Open a run; a summary waits for its g~, a release joins the queue at once."""
        status = _first(document)
        waiting = [run for run in self.waiting() if run.consumer == document.consumer]
        for run in waiting[: max(0, len(waiting) + 1 - MOST_ASKED)]:
            self.close(run, "cancelled")
        with self._store.transaction():
            self._store.put(_OPENED, b"%d" % (_opened_before(self._store) + 1))
            self._store.open_run(name, document.consumer, run_document_to_bytes(document))
            self._store.update_run(name, status=status)
            if request_id := document.request.request_id:
                self._store.put(_request_key(document.consumer, request_id), name.encode())
            self._store.put(_BEFORE + name, b"%d" % last_seq(self._store))
        row = self._store.run(name)
        assert row is not None, "the run was opened above"
        run = self._open[name] = Run(name, document, status, row.opened)
        if status == "queued":
            self._queue.append(run)
            self.start()
        return run

    def enqueue(self, run: Run) -> None:
        """Put a run with a complete document into the queue; `keep_rows` has stored D_v's rows."""
        with self._store.transaction():
            self._store.update_run(run.name, status="queued", document=run_document_to_bytes(run.document))
        run.status = "queued"
        self._queue.append(run)
        self.start()

    def keep_rows(self, run: Run, validation: Table) -> None:
        """Store the rows of D_v for a run that waits for them; any thread may call this.

        Raises:
            StoreError: the rows cannot be stored.
        """
        self._store.put(_ROWS + run.name, table_bytes(validation))

    def forget_rows(self, run: Run) -> None:
        """Delete the rows of D_v of a run that ended while the rows were being stored."""
        self._store.delete(_ROWS + run.name)

    def again(self, run: Run) -> Run:
        """Queue a suspended run again; return the run as it now stands."""
        if run.error is None or not run.open:
            return run
        taken = self._open[run.name] = Run(run.name, run.document, "queued", run.opened)
        self._queue.append(taken)
        self.start()
        return taken

    def find(self, name: str) -> Run | None:
        """Find a run by its name, open or over."""
        if (run := self._open.get(name)) is not None:
            return run
        if not name.isprintable() or (row := self._store.run(name)) is None:
            return None
        return self._run_of(replace(row, document=self._store.document(name) or row.document))

    def _run_of(self, row: RunRow) -> Run:
        """Make the run of a row of the store."""
        if (run := self._open.get(row.run)) is not None:
            return run
        document = run_document_from_bytes(row.document)
        run = Run(row.run, document, cast(Status, row.status), row.opened)
        run.over.set()
        return run

    def asked_before(self, consumer: str, request_id: bytes) -> Run | None:
        """Find the run that a request with this id began."""
        if not request_id:
            return None
        name = self._store.get(_request_key(consumer, request_id))
        return None if name is None else self.find(name.decode())

    def give_up(self, consumer: str, request_id: bytes) -> None:
        """Cancel the run of a consumer's earlier request that still waits for the consumer's offer."""
        run = self.asked_before(consumer, request_id)
        if run is not None and run.status == "asked":
            self.close(run, "cancelled")

    def _with_rows(self, run: str, document: RunDocument) -> RunDocument:
        """Add the stored rows of D_v to a document, if there are any."""
        stored, offer = self._store.get(_ROWS + run), document.offer
        if stored is None or offer is None:
            return document
        rows = npz_arrays(stored, run)
        return replace(document, offer=replace(offer, validation=rows["x"], validation_classes=rows.get("y")))

    def of(self, consumer: str) -> list[Run]:
        """All runs of a consumer, in the order in which they were opened."""
        return [self._run_of(row) for row in self._store.runs(peer=consumer)]

    def open_of(self, consumer: str) -> list[Run]:
        """Open runs of a consumer."""
        return [run for run in self._open.values() if run.consumer == consumer]

    def ahead(self, run: Run) -> int:
        """Count the runs before a run in the queue."""
        return self._queue.index(run) if run in self._queue else 0

    def summaries(self) -> list[RunDocument]:
        """Documents of all open runs that make a summary."""
        return [run.document for run in self._open.values() if not run.is_release]

    def cancel(self, run: Run) -> Run:
        """End a run, and return it as it now stands; the rows so far are kept.

        A run that has begun and is not under way is taken up, so that its owners hear of the end. A run whose
        result is known ends with that result.

        Raises:
            CancelledRunError: the run is over already.
        """
        if not run.open:
            raise CancelledRunError(f"{run.name} is over already", "Nothing is to be cancelled.")
        run = self.again(run)
        if run in self._queue and run.document.owners and not self._held:
            self._begin(run)  # beyond the limit of runs at once, as it ends at once
        if run.task is not None:
            # later: a task that is cancelled before its first step would never close the run
            asyncio.get_running_loop().call_soon(run.cancel)
        else:
            self._queue = [other for other in self._queue if other is not run]
            self.close(run, "cancelled")
        return run

    def close(self, run: Run, status: Status, fault: FedkmeError | None = None) -> None:
        """Close a run, perhaps by a fault before it began, and delete its journal and its D_v."""
        self.settle(run)
        document = replace(run.document, offer=None, fault=fault)
        with self._store.transaction():
            self._store.update_run(
                run.name, status=status, document=run_document_to_bytes(document), ended=True
            )
            self._store.forget_entries(run.name)
            self._store.delete(_ROWS + run.name)
            self._store.delete(_BEFORE + run.name)
        # last: if the store fails, the run goes on with its offer
        run.document, run.status = document, status
        self._open.pop(run.name, None)
        run.finish()
        self.closed()

    def counts(self) -> Mapping[str, int]:
        """Count open runs by status, suspended ones apart; any thread may call this."""
        runs = list(self._open.values())
        counts = Counter(run.status if run.error is None else "suspended" for run in runs)
        return {status: counts[status] for status in (*OPEN, "suspended")}

    def hold(self) -> list[str]:
        """Begin no more runs; return the names of runs under way."""
        self._held = True
        return sorted(run.name for run in self._running)

    async def idle(self) -> None:
        """Wait until no run is under way."""
        if tasks := [run.task for run in self._running if run.task is not None]:
            await asyncio.wait(tasks)

    async def suspend(self) -> None:
        """Suspend the runs under way; they go on when the curator starts again."""
        self._held = True  # else each suspended run would make room for the next in the queue
        tasks = [run.task for run in self._running if run.task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _set(self, run: Run, status: Status) -> None:
        with contextlib.suppress(StoreError):  # the status is for display alone; the run is open either way
            self._store.update_run(run.name, status=status)
        run.status = status

    async def _carry_out(self, run: Run) -> None:
        try:
            status = await self._conduct(run)
            if status is not None:
                self.close(run, status)
        except StoreError as error:
            run.error = error
        except asyncio.CancelledError:  # a consumer that follows the run gets no outcome, and asks again
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
    """Count of all runs ever opened."""
    return int(store.get(_OPENED) or b"0")


def lines_before(store: Store, run: str) -> int:
    """Length of the ledger before an open run; 0 for other runs."""
    return int(store.get(_BEFORE + run) or b"0")


def next_run(store: Store, repeatable: bool, unique: Callable[[], str]) -> str:
    """Choose a run name that the store does not have; the store keeps all names.

    Ledgers tell runs apart by name, also the ledger of an owner that serves two curators. So outside of
    simulations a name is globally unique, and an owner refuses a name that its ledger has.
    """
    number = _opened_before(store) + 1
    while store.run(name := f"run-{number}" if repeatable else f"run-{number}-{unique()}") is not None:
        number += 1
    return name


def shortened(document: bytes) -> bytes:
    """Shorten the document of an archived run, for lists: no code book and no keys."""
    run = run_document_from_bytes(document)
    if run.plan is None or run.plan.cells is None:
        return document
    return run_document_to_bytes(replace(run, plan=run.plan.shortened()))


def kind_of(document: RunDocument) -> str:
    """Kind of result that a run makes, for lists of runs."""
    if not isinstance(document.request, ReleaseRequest):
        return "summary"
    with contextlib.suppress(ValueError):
        kind = json.loads(document.request.settings).get("kind")
        return str(kind)[:32]
    return "release"


def unknown(name: str) -> ConfigError:
    """Error for a run that the caller does not own; it does not say whether another consumer has it."""
    return ConfigError(f"there is no run {name[:64]!r} of yours", "List your runs: `fedkme consumer runs`.")
