"""Finished runs leave a curator's journal; a question that is asked again has the same answer."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from curator.run.run import Run, Status
from curator.runs.preparation import OwnersSpent
from curator.runs.queue import RunQueue, kind_of, shortened
from curator.watch.ledger import LedgerFigures
from fedkme.documents import RunDocument
from fedkme.errors import ArchiveError
from fedkme.exchange import SummaryRequest
from fedkme.ledgers.archiving import archive_finished
from fedkme.privacy.accountants import Sound, matrix, paid
from fedkme.privacy.events import CURATOR, OWNERS, Clock, Disclosure, Gaussian, RawRows
from fedkme.privacy.ledger import disclosures_in, stored_ledger
from fedkme.store.sqlite import SqliteStore
from fedkme.wire.journals import run_document_to_bytes
from tests.hostile.labs import plan
from tests.owner.consent.host import Clockwork


async def nobody(run: Run) -> Status | None:
    return None


def lines(run: str) -> list[Disclosure]:
    heard = Disclosure(run, 1, OWNERS, OWNERS, Clock(0.1), "replace-one", None, f"auction {run}")
    mean = Disclosure(run, 1, OWNERS, OWNERS, Gaussian(9.0), "replace-one", 1.0, f"mean {run}")
    row = Disclosure(run, 1, "a", CURATOR, RawRows(1), "replace-one", None, "row 1")
    return [row, replace(row, nonce="row 2"), heard, replace(heard, round=2), mean]


class Served:
    """A curator's store after some runs."""

    def __init__(self, path: Path, runs: int) -> None:
        self.clock = Clockwork()
        self.store = SqliteStore(path, CURATOR, "process", clock=self.clock)
        queue, ledger = RunQueue(self.store, nobody, 1), stored_ledger(CURATOR, self.store)
        self.documents = []
        for number in range(runs):
            self.clock.now += 1.0
            request = SummaryRequest("lab", number.to_bytes(16), "digest", 5, 30, 1.0)
            run = queue.ask(f"run-{number}", RunDocument(request, plan(number, f"run-{number}")))
            self.clock.now += 1.0
            ledger.extend(lines(run.name))
            self.documents.append(run_document_to_bytes(run.document))
            queue.close(run, "complete")

    def costs(self) -> list[tuple[str, float]]:
        figures = LedgerFigures(self.store, None)
        figures.read()
        spent = tuple(paid(line for line in OwnersSpent(self.store).lines() if line.observer == OWNERS))
        learned = [
            (f"{figure.protected} {figure.observer} {figure.rows}", figure.epsilon)
            for figure in figures.learned
        ]
        return [*learned, ("spent", Sound().epsilon(spent, 1e-5).epsilon)]


def test_archiving_changes_no_budget_list_or_request(tmp_path: Path) -> None:
    served = Served(tmp_path / "journal.db", 9)
    store = served.store
    before, disclosures = served.costs(), disclosures_in(line.line for line in store.ledger())
    assert archive_finished(store, shortened, runs=2) == 3
    assert served.costs() == before
    assert matrix(disclosures, Sound(), 1e-5) == matrix(
        disclosures_in(line.line for line in store.ledger()), Sound(), 1e-5
    )
    queue = RunQueue(store, nobody, 1)
    listed = queue.of("lab")
    assert [(run.name, run.rows, run.status, kind_of(run.document)) for run in listed] == [
        (f"run-{number}", 5, "complete", "summary") for number in range(9)
    ]
    for number, document in enumerate(served.documents):
        run = queue.asked_before("lab", number.to_bytes(16))
        assert run is not None
        assert run_document_to_bytes(run.document) == document
    size = sum(len(row.document) for row in store.runs()[:6])
    assert size < sum(map(len, served.documents[:6])) / 3
    store.close()


def test_a_missing_archive_refuses_only_requests_that_need_it(tmp_path: Path) -> None:
    served = Served(tmp_path / "journal.db", 5)
    before = served.costs()
    archive_finished(served.store, shortened, runs=2)
    for file in (tmp_path / "journal.db.archive").iterdir():
        file.unlink()
    queue = RunQueue(served.store, nobody, 1)
    with pytest.raises(ArchiveError, match="is gone, with lines of the ledger and documents of runs"):
        queue.asked_before("lab", bytes(16))
    assert queue.asked_before("lab", (4).to_bytes(16)) is not None
    assert (len(queue.of("lab")), served.costs()) == (5, before)
    stored_ledger(CURATOR, served.store).extend(lines("run-9"))
    served.store.close()
