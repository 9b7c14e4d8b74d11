"""End of a run by cells: an owner learns of the end right after its own answer, and learns nothing else."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import curator.cells.run
from audit.attacks.wire import SilentObserver, loopback_to
from curator.cells.disclosures import CellDisclosures
from curator.cells.run import CellTask, run_cells
from curator.owners.session import OwnerSession
from curator.run.summary_record import SummaryRecord
from fedkme.directives import Close, Directive, Dismiss
from fedkme.embeddings.summary_weights import in_some_form
from fedkme.errors import OwnerFaultError, OwnerLostError
from fedkme.party import noise_for
from fedkme.protocol import Closing
from fedkme.sealed.rows import AnyRow
from fedkme.tables.table import Row, Table
from owner.cells.responder import HistogramResponder
from owner.consent.gate import OwnerGate
from owner.runs import RunManager
from tests.owner.test_sealed import BOOK, NOISE, RUN, SCHEMA, table
from tests.parties import WAIT_S

VALIDATION = SCHEMA.encode(table(9).values)


class Port(OwnerSession):
    """Port to an owner in this process, asked at the same time as others."""

    def __init__(self, name: str, seed: int) -> None:
        gate = OwnerGate(name)
        owner = HistogramResponder(name, table(seed), SCHEMA, noise_for(0, name)("histogram"), gate)
        super().__init__(loopback_to(owner, SCHEMA.encoded_width), RUN)
        self.at_once = False


async def run(*ports: OwnerSession, classes: NDArray[np.int64] | None = None) -> SummaryRecord:
    task = CellTask(
        *(RUN, 4, 2.0, SCHEMA, BOOK, 1.0, NOISE, np.full(4, 5), 20, VALIDATION), validation_classes=classes
    )
    record = SummaryRecord()
    async with asyncio.timeout(WAIT_S):
        await run_cells(task, ports, 1, record, SilentObserver(), CellDisclosures(RUN, None, "consumer"))
    return record


async def test_owners_are_dismissed_before_rows_are_pruned(monkeypatch: pytest.MonkeyPatch) -> None:
    steps: list[str] = []
    answer = RunManager.answer

    def tapped(runs: RunManager, directive: Directive) -> Any:
        if isinstance(directive.body, Close | Dismiss):
            steps.append(directive.question or "dismiss")
        return answer(runs, directive)

    def pruned(*arguments: Any) -> Any:
        steps.append("prune")
        return in_some_form(*arguments)

    monkeypatch.setattr(RunManager, "answer", tapped)
    monkeypatch.setattr(curator.cells.run, "in_some_form", pruned)
    port = Port("a", 1)
    record = await run(port, Port("b", 2))
    await port.dismiss()  # called again, as at the end of every run: the owner is not told twice
    assert steps == ["close", "dismiss"] * 2 + ["prune"]
    assert sum(record.closings.values()) == len(record.accesses)
    assert record.status == "complete"


@pytest.mark.parametrize("of_d_v", [0, 1])
async def test_pruning_uses_the_classes_of_d_v(of_d_v: int) -> None:
    # A curator that prunes chooses the same rows as the consumer would.
    came: list[int] = []

    class Told(Port):
        async def fill_order(self, *order: Any) -> Sequence[AnyRow]:
            rows = await super().fill_order(*order)
            came.extend(int(row.label == of_d_v) for row in rows if isinstance(row, Row))
            return rows

    ports = (Told("a", 1), Told("b", 2))
    record = await run(*ports, classes=np.full(len(VALIDATION), of_d_v))
    assert 0 < sum(came) < len(came) == 8
    alike = [chosen.label for chosen in record.selected[:4]]
    assert alike.count(of_d_v) == min(4, sum(came))


async def test_an_owner_does_not_wait_for_the_answer_of_another() -> None:
    # b is dismissed before a has answered: the time that one owner takes tells the other nothing.
    gone = asyncio.Event()

    class Slow(Port):
        async def fill_order(self, *order: Any) -> Sequence[AnyRow]:
            await gone.wait()
            return await super().fill_order(*order)

    class Watched(Port):
        async def dismiss(self) -> None:
            await super().dismiss()
            gone.set()

    record = await run(Slow("a", 1), Watched("b", 2))
    assert record.status == "complete"
    assert set(record.closings) == {"a", "b"}


async def test_rows_of_an_owner_that_is_lost_after_them_are_kept() -> None:
    class Lost(Port):
        async def close(self, last_round: int) -> Closing:
            raise OwnerLostError("a is gone", "Look at its log.")

    record = await run(Lost("a", 1), Port("b", 2))
    assert record.status == "complete"
    assert [(fault.owner, fault.code) for fault in record.faults] == [("a", OwnerLostError.code)]
    assert "a" in {owner for _, owner, _ in record.accesses}
    assert set(record.closings) == {"b"}


async def test_an_owner_without_labels_says_that_and_not_that_schemas_differ() -> None:
    # "Give both the same schema file": both had the same, and the file called its label otherwise.
    rows, gate = Table(table(1).values), OwnerGate("a")
    owner = HistogramResponder("a", rows, SCHEMA, noise_for(0, "a")("histogram"), gate)
    session = OwnerSession(loopback_to(owner, SCHEMA.encoded_width), RUN)
    task = CellTask(*(RUN, 4, 2.0, SCHEMA, BOOK, 1.0, NOISE, np.full(8, 5), 20, None, 2))
    with pytest.raises(OwnerFaultError, match=r"by class, and its rows have no 'y'. `fedkme schema check`"):
        await session.invite(task.invitations(["a"])["a"])
