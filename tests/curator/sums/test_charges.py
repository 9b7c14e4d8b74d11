"""Charges of a run of sums whose disk fails, and of a run that ends before a later process continues it."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import pytest

from curator.run.run import Run, Status
from curator.runs.queue import RunQueue
from curator.sums.charges import SumCharges, charge_ended
from fedkme.documents import RunDocument
from fedkme.errors import StoreError
from fedkme.exchange import SummaryRequest
from fedkme.privacy.events import CURATOR, Disclosure
from fedkme.privacy.ledger import disclosures_in, stored_ledger
from fedkme.store.memory import MemoryStore
from fedkme.sums.values import SumQuery
from fedkme.sums.vector import SumVector
from tests.curator.sums.fake_owners import BY_CLASS, FOURIER, SCHEMA, invitation

VECTOR = SumVector(SumQuery((FOURIER,), BY_CLASS), SCHEMA)


class Asked:
    """A curator that has asked two owners, of whom one answered."""

    def __init__(self) -> None:
        self.store = MemoryStore(CURATOR)
        self.ledger = stored_ledger(CURATOR, self.store)
        self.charges = self.again()
        self.charges.gate.expect(1, ["a", "b"], VECTOR)
        self.charges.before_vectors()
        self.charges.gate.receive_vector(1, "a", VECTOR)

    def again(self) -> SumCharges:
        """Charges as another process finds them."""
        return SumCharges(invitation(), self.ledger, self.store, self.lines())

    def lines(self) -> list[Disclosure]:
        return disclosures_in(entry.line for entry in self.store.ledger())

    def certain(self) -> list[tuple[str, bool]]:
        """Owners of vectors' lines, and whether they surely left."""
        return [(line.protected, line.certain) for line in self.lines() if line.observer == CURATOR]


def test_a_charge_that_a_disk_refused_is_written_later(monkeypatch: pytest.MonkeyPatch) -> None:
    at = Asked()

    @contextlib.contextmanager
    def refusing() -> Iterator[None]:
        with MemoryStore.transaction(at.store):
            yield
            raise StoreError("the disk is full", "Make room.")

    with monkeypatch.context() as patch:
        patch.setattr(at.store, "transaction", refusing)
        with pytest.raises(StoreError):
            at.charges.settle()
    assert at.lines() == []
    at.charges.suspend()
    assert at.certain() == [("a", True)]
    at.charges.settle()
    at.again().end()
    assert at.certain() == [("a", True), ("b", False)]


def test_a_run_that_is_over_before_a_curator_goes_on_with_it_is_charged_and_leaves_nothing() -> None:
    # A run that is cancelled while it waits in the queue of a curator that was killed as owners answered.
    async def nobody(run: Run) -> Status | None:
        return None

    at = Asked()
    queue = RunQueue(at.store, nobody, 1)
    queue.settle = lambda run: charge_ended(at.ledger, at.store, run.name)
    run = queue.ask(invitation().run, RunDocument(SummaryRequest("lab", bytes(16), "digest", 1, 1, 1.0)))
    at.charges.suspend()
    queue.cancel(run)
    assert at.certain() == [("a", True), ("b", False)]
    assert [*at.store.keys("doubtful/"), *at.store.keys("asked/")] == []
    assert len({*at.lines()}) == len(at.lines())
