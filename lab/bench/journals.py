"""`journals`: stores of parties after many runs: CPU seconds of a start, bytes in journal and archives.

Each run leaves what one of the demo does: a code book of 16 kB in its plan, 200 rows of five owners, counts
of owners and of D_v. They are written by what parties write them with, without the protocol; heads are left
out. A start is what a party does with its store before it serves or asks.
"""

from __future__ import annotations

import contextlib
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np

from consumer.requests import DONE, Requests
from curator.run.run import Run, Status
from curator.runs.preparation import OwnersSpent
from curator.runs.queue import RunQueue, shortened
from fedkme.cells.codebook import kmeans_book
from fedkme.cells.disclosures import histogram_disclosures, validation_disclosures
from fedkme.cells.histogram import HistogramNoise
from fedkme.cells.projection import ProjectionSpec
from fedkme.documents import RequestDocument, RunDocument
from fedkme.exchange import CellsPlan, Offer, Plan, SummaryRequest
from fedkme.features.fourier import FourierSpec
from fedkme.ledgers.archiving import archive_finished
from fedkme.privacy.events import CURATOR, Disclosure
from fedkme.privacy.ledger import Ledger, stored_ledger
from fedkme.privacy.summary_disclosures import row_disclosures
from fedkme.store import Store, open_store
from fedkme.tables.schema import Numeric, Schema
from fedkme.wire.journals import digest_to_bytes
from lab.bench.result import BenchSettings, Cell, Result
from owner.consent.history import OVER, Admission, History, archive_runs, files_of_runs

_OWNERS, _ROWS, _CELLS, _WIDTH = 5, 200, 64, 15
_NOISE = HistogramNoise(2.0)
_DATA = bytes(32)
_SCHEMA = Schema(columns=(Numeric(name="x", bounds=(0, 1), count=_WIDTH),))
_PUBLIC = np.random.default_rng(0).random((_CELLS, _WIDTH))
_BOOK = kmeans_book(_PUBLIC, _CELLS, ProjectionSpec(0, _WIDTH, _WIDTH, "domain"), _SCHEMA, 0).to_json()
_LAB = "lab"


def measure(settings: BenchSettings) -> Result:
    """A row for each party, with and without archives."""
    rows = [_measure(party, archives, settings.soak_runs) for archives in (False, True) for party in _PARTIES]
    return Result("journals", f"stores after {settings.soak_runs} runs of {_ROWS} rows", rows)


def _measure(party: str, archives: bool, runs: int) -> dict[str, Cell]:
    fill, start = _PARTIES[party]
    with tempfile.TemporaryDirectory(prefix="fedkme-bench-") as folder:
        journal = Path(folder) / "journal.db"
        began = time.process_time()
        with contextlib.closing(open_store(journal, party, "process")) as store:
            fill(store, runs, archives)
        filled = time.process_time()
        with contextlib.closing(open_store(journal, party, "process")) as store:
            start(store)
        files = [file for file in Path(folder).rglob("*") if file.is_file()]
        archived = sum(file.stat().st_size for file in files if file.suffix == ".gz")
        size = sum(file.stat().st_size for file in files) - archived
    return {
        "party": party,
        "archives": "yes" if archives else "no",
        "start CPU s": time.process_time() - filled,
        "journal kB/run": size / 1e3 / runs,
        "archive kB/run": archived / 1e3 / runs,
        "CPU ms/run": 1e3 * (filled - began) / runs,
    }


def _plan(run: str) -> Plan:
    return Plan(run, FourierSpec("paired", 64, 1.0, _WIDTH, 5), cells=CellsPlan(_BOOK, 1.0, 2.0))


def _request(number: int) -> SummaryRequest:
    return SummaryRequest(_LAB, number.to_bytes(16), "digest", _ROWS // 2, 330, 1.0)


def _counts(number: int) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    return np.random.default_rng(number).integers(0, 9, _CELLS)


def _lines(run: str, number: int, owner: int) -> Iterator[Disclosure]:
    """Lines of an owner about a run: the first has most rows, as the demo's second has."""
    name = f"owner-{owner}"
    yield from histogram_disclosures(run, name, _NOISE.event, _counts(number + owner))
    yield from row_disclosures(run, 1, name, range(_ROWS - 60 if owner == 1 else 60 // (_OWNERS - 1)))


def _fill_curator(store: Store, runs: int, archives: bool) -> None:
    async def nobody(run: Run) -> Status | None:
        return None

    queue, ledger = RunQueue(store, nobody, 1), stored_ledger(CURATOR, store)
    for number in range(runs):
        name = f"run-{number}"
        run = queue.ask(name, RunDocument(_request(number), _plan(name)))
        lines = [line for owner in range(1, _OWNERS + 1) for line in _lines(name, number, owner)]
        ledger.extend([*validation_disclosures(name, _LAB, _NOISE, _counts(number)), *lines])
        queue.close(run, "complete")
        if archives:
            archive_finished(store, shortened)


def _start_curator(store: Store) -> None:
    async def nobody(run: Run) -> Status | None:
        return None

    stored_ledger(CURATOR, store)
    RunQueue(store, nobody, 1)
    OwnersSpent(store).lines()
    store.lost_archives()


def _fill_owner(store: Store, runs: int, archives: bool) -> None:
    ledger = stored_ledger("owner-1", store)
    for number in range(runs):
        name = f"run-{number}"
        with store.transaction():
            store.open_run(name, CURATOR, digest_to_bytes(_DATA))
            Admission(name, _LAB, "cells", _ROWS, (_NOISE.event,), shown=(_NOISE.event,)).write(store)
            ledger.extend(_lines(name, number, 1))
        with store.transaction():
            store.put(f"{OVER}{name}", str(_entries(ledger)).encode("ascii"))
            store.update_run(name, status="ended", ended=True)
        if archives:
            archive_runs("owner-1", store)


def _entries(ledger: Ledger) -> int:
    return int(ledger.head()["entries"])


def _start_owner(store: Store) -> None:
    stored_ledger("owner-1", store)
    files_of_runs(store)
    history = History("owner-1", store, _DATA)
    history.read()
    assert len(list(history.costs(time.time() - 86400.0)))
    store.lost_archives()


def _fill_consumer(store: Store, runs: int, archives: bool) -> None:
    requests = Requests(_LAB, store)
    for number in range(runs):
        request = requests.begin(RequestDocument(_request(number), f"/out-{number}", _DATA))
        lines = tuple(validation_disclosures(f"run-{number}", _LAB, _NOISE, _counts(number)))
        offer = Offer(histogram=_counts(number), disclosures=lines)
        request.document = replace(request.document, plan=_plan(f"run-{number}"), offer=offer)
        requests.keep(request.document, lines)
        request.end(DONE)
        if archives:
            requests.archive()


def _start_consumer(store: Store) -> None:
    requests = Requests(_LAB, store)
    assert requests.used_files
    assert requests.last("/out") is None
    assert requests.within(30.0, time.time(), _DATA)
    requests.check_new("run")
    store.lost_archives()


_PARTIES: Mapping[str, tuple[Callable[[Store, int, bool], None], Callable[[Store], None]]] = {
    CURATOR: (_fill_curator, _start_curator),
    "owner-1": (_fill_owner, _start_owner),
    _LAB: (_fill_consumer, _start_consumer),
}
