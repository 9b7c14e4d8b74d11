"""Family of summaries by cells: the agreement on public cells, checks of offers, and the run's body."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from curator.cells.disclosures import CellDisclosures
from curator.cells.run import CellTask, run_cells
from curator.run.run import Run
from curator.runs.context import RunContext
from curator.runs.families.base import RunBody, no_draw_error
from curator.runs.families.cells_plan import Agreement
from fedkme.cells.codebook import CodeBook, code_book_from_json
from fedkme.cells.directions import chosen_book, menu_from_json
from fedkme.cells.histogram import CountNoise, noise_of_event
from fedkme.documents import RunDocument
from fedkme.errors import ProtocolError
from fedkme.exchange import CellsPlan, Offer
from fedkme.party import NoiseFor
from fedkme.privacy.ledger import LedgerSink


class CellsFamily:
    """`Family` of summaries by cells.

    Attributes:
        agreement: makes the public cells with the owners, before the plan.
    """

    def __init__(self, context: RunContext) -> None:
        self._context = context
        self.agreement = Agreement(context)

    async def agree(self, run: Run, owners: Sequence[str]) -> None:
        """Fill in the run's cells, once; see `Agreement`."""
        await self.agreement.agree(run, owners)

    def forget(self, run: Run) -> None:
        """Drop the agreement: the run is over, and its consumer knows why."""
        self.agreement.forget(run)

    def check(self, document: RunDocument, offer: Offer) -> None:
        """Refuse a histogram of other cells, or directions that the menu does not have.

        Raises:
            ProtocolError: the histogram has another number of cells, or the offer picks unknown directions.
        """
        cells = self._book(_cells(document), offer).cells
        if offer.histogram is not None and len(offer.histogram) != cells:
            raise ProtocolError(
                f"a histogram has {len(offer.histogram)} cells and the run {cells}",
                "Check the peer's software.",
            )

    def prunes(self, document: RunDocument) -> bool:
        """Return True: the consumer gets more than p rows and keeps the best, wherever D_v is."""
        return True

    def facts(self, document: RunDocument) -> dict[str, Any] | None:
        """Public parameters for record.json."""
        cells, offer = _cells(document), document.offer
        picks = [] if offer is None else list(offer.picks)
        return {"rho": cells.rho, "fill": cells.fill, "picks": picks}

    def body(self, run: Run, ledger: LedgerSink, noise_for: NoiseFor) -> RunBody:
        """Make the body of a run."""
        context, document = self._context, run.document
        settings, cells = context.summary_of(document), _cells(document)
        offer = document.offered
        gate, book = CellDisclosures(run.name, ledger, run.consumer), self._book(cells, offer)
        if offer.histogram is None:
            raise no_draw_error(run.name)
        gate.receive_target(offer.histogram, offer)
        encoded = None if offer.validation is None else context.schema.encode(offer.validation)
        task = CellTask(
            run.name,
            document.summary.rows,
            cells.rho,
            context.schema,
            book,
            cells.gamma,
            None if document.coalitions else settings.owner_noise(cells.sketch_share).histogram,
            offer.histogram,
            document.summary.validation_rows,
            encoded,
            cells.classes,
            run.consumer,
            offer.gifts if document.planned.sealed else None,
            settings.cells.uniform,
            cells.fill,
            "" if document.planned.choice is None else document.planned.choice.line,
            declared_noise(offer),
            document.coalitions,
            offer.validation_classes,
        )
        return lambda sessions, record, observer: run_cells(
            task, sessions, settings.quorum, record, observer, gate
        )

    def _book(self, cells: CellsPlan, offer: Offer) -> CodeBook:
        """Code book by which all parties count: a function of plan and offer, also after a restart."""
        menu = None if cells.menu is None else menu_from_json(cells.menu)
        return chosen_book(code_book_from_json(cells.code_book, self._context.schema), menu, offer.picks)


def declared_noise(offer: Offer) -> CountNoise | None:
    """Noise of D_v's histogram as the consumer declared it; a false one harms its own summary alone."""
    laws = (noise_of_event(line.event) for line in offer.disclosures)
    return next((law for law in laws if law is not None), None)


def _cells(document: RunDocument) -> CellsPlan:
    assert document.planned.cells is not None, "a run of this family has cells in its plan"
    return document.planned.cells
