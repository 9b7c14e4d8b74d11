"""Figures that alerts are made of: suspended runs, owners that left, unforeseen errors, the journal."""

from __future__ import annotations

import contextlib
import logging
from pathlib import Path

from prometheus_client import CollectorRegistry

from curator.metrics import CuratorMetrics
from curator.owners.members import Members
from curator.run.run import Run, Status
from curator.runs.queue import RunQueue
from fedkme.documents import RunDocument
from fedkme.errors import PartyFailedError
from fedkme.exchange import SummaryRequest
from fedkme.ops.metrics import host_figures
from fedkme.store.sqlite import SqliteStore
from tests.hostile.labs import plan


async def test_a_suspended_run_is_counted_until_it_goes_on(tmp_path: Path) -> None:
    outcomes: list[Status | None] = [None, "complete"]

    async def conduct(run: Run) -> Status | None:
        status = outcomes.pop(0)
        if status is None:
            run.error = PartyFailedError("the disk is full", "Make room.")
        return status

    metrics = CuratorMetrics()
    request = SummaryRequest("lab", bytes(16), "digest", 5, 30, 1.0)
    with contextlib.closing(SqliteStore(tmp_path / "journal.db", "curator")) as store:
        queue = RunQueue(store, conduct, 1)
        metrics.watch(Members((), 1.0, 1.0), queue)

        def suspended() -> float | None:
            return metrics.registry.get_sample_value("fedkme_runs", {"status": "suspended"})

        assert suspended() == 0
        run = queue.ask("run-1", RunDocument(request, plan(1, "run-1")))
        queue.enqueue(run)
        await queue.idle()
        assert suspended() == 1
        queue.again(run)
        await queue.idle()
        assert suspended() == 0


def test_owners_that_left_are_counted_by_code_and_unwitnessed_heads() -> None:
    metrics = CuratorMetrics()
    value = metrics.registry.get_sample_value
    assert value("fedkme_unwitnessed_heads_total") == 0
    for code in (54, 54, 34):
        metrics.count("owner_left", {"owner": "north", "code": code, "line": "", "run": "run-1", "round": 0})
    metrics.count("unwitnessed", {"owner": "north", "code": 50})
    metrics.count("owner_joined", {"owner": "north"})
    assert value("fedkme_owners_left_total", {"owner": "north", "code": "54"}) == 2
    assert value("fedkme_owners_left_total", {"owner": "north", "code": "34"}) == 1
    assert value("fedkme_unwitnessed_heads_total") == 1


def test_unforeseen_errors_are_counted_and_the_journal_is_measured(tmp_path: Path) -> None:
    registry, journal = CollectorRegistry(), tmp_path / "journal.db"
    journal.write_bytes(b"x" * 1000)
    (tmp_path / "journal.db-wal").write_bytes(b"x" * 24)
    with host_figures(registry, str(journal)):
        logging.getLogger("grpc").error("of a library, with %s", "text")
        logging.getLogger("curator").warning("foreseen")
        assert registry.get_sample_value("fedkme_unforeseen_errors_total") == 1
        assert registry.get_sample_value("fedkme_journal_bytes") == 1024
        free = registry.get_sample_value("fedkme_journal_free_bytes")
        assert free is not None
        assert free > 0
    logging.getLogger("grpc").error("after the end")
    assert registry.get_sample_value("fedkme_unforeseen_errors_total") == 1


def test_a_journal_on_a_server_has_no_room_of_this_host() -> None:
    registry = CollectorRegistry()
    with host_figures(registry, "postgresql://host/fedkme"):
        assert registry.get_sample_value("fedkme_journal_free_bytes") is None
