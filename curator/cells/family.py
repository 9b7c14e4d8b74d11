"""Summaries by cells: their part of preparing a run, and its body."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from curator.cells.agreement import Agreement
from curator.cells.disclosures import CellDisclosures
from curator.cells.run import CellTask, run_cells
from curator.runs.context import RunContext
from curator.runs.families import RunBody
from curator.runs.queue import Run
from fedkme.cells.codebook import CodeBook, code_book_from_json
from fedkme.cells.histogram import histogram_noise, noisy_counts
from fedkme.cells.noise import on_integers
from fedkme.errors import ProtocolError
from fedkme.exchange import CellsPlan, Offer
from fedkme.party import NoiseFor
from fedkme.privacy.ledger import LedgerSink
from fedkme.wire.journals import RunDocument


class CellsFamily:
    """The `Family` of summaries by cells.

    Attributes:
        agreement: makes public cells with the owners, before the plan.
    """

    def __init__(self, context: RunContext) -> None:
        self._context = context
        self.agreement = Agreement(context)

    async def agree(self, run: Run) -> None:
        """Fill in the run's cells, once; see `Agreement`."""
        await self.agreement.agree(run)

    def forget(self, run: Run) -> None:
        """Drop the attempt: the run is over, and its consumer knows why."""
        self.agreement.forget(run)

    def check(self, document: RunDocument, offer: Offer) -> None:
        """Refuse a histogram of other cells.

        Raises:
            ProtocolError: it has another number of them.
        """
        cells = self._book(_cells(document)).cells
        if offer.histogram is not None and len(offer.histogram) != cells:
            raise ProtocolError(
                f"a histogram has {len(offer.histogram)} cells and the run {cells}",
                "Check the peer's software.",
            )

    def prunes(self, document: RunDocument) -> bool:
        """Check whether the consumer chooses among the rows: the curator does not have D_v, or sees none."""
        return document.offered.histogram is not None or document.planned.sealed

    def facts(self, document: RunDocument) -> dict[str, Any] | None:
        """Public parameters for record.json."""
        return {"rho": _cells(document).rho}

    def body(self, run: Run, ledger: LedgerSink, noise_for: NoiseFor) -> RunBody:
        """Make the body of a run."""
        context, document = self._context, run.document
        settings, cells = context.settings.summary, _cells(document)
        gate, book = CellDisclosures(run.name, ledger, run.consumer), self._book(cells)
        histogram, encoded = self._histogram(document.offered, book, gate, noise_for)
        task = CellTask(
            run.name,
            document.summary.rows,
            cells.rho,
            context.schema,
            book,
            cells.gamma,
            settings.owner_noise().histogram,
            histogram,
            document.summary.validation_rows,
            encoded,
            cells.classes,
            run.consumer,
            document.offered.gifts if document.planned.sealed else None,
        )
        return lambda sessions, record, observer: run_cells(
            task, sessions, settings.quorum, record, observer, gate
        )

    def _book(self, cells: CellsPlan) -> CodeBook:
        return code_book_from_json(cells.code_book, self._context.schema)

    def _histogram(
        self, offer: Offer, book: CodeBook, gate: CellDisclosures, noise_for: NoiseFor
    ) -> tuple[NDArray[np.int64], NDArray[np.float32] | None]:
        """D_v by cells, made here where D_v itself came; then also its encoded rows, to prune by."""
        if offer.histogram is not None:
            gate.receive_declared(offer.disclosures, None)
            return offer.histogram, None
        assert offer.validation is not None, "an offer without a histogram is D_v"
        encoded = self._context.schema.encode(offer.validation)
        gate.receive_declared(offer.disclosures, len(encoded))
        how = histogram_noise(self._context.settings.summary.privacy.epsilon)
        gate.pass_histogram(how)
        noise = on_integers(noise_for("histogram"))
        return noisy_counts(book.cells_of(encoded), book.cells, how, noise), encoded


def _cells(document: RunDocument) -> CellsPlan:
    assert document.planned.cells is not None, "a run of this family has cells in its plan"
    return document.planned.cells
