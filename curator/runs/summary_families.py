"""Families of summaries: what differs between runs whose owners hear g~ and runs by cells.

The lifecycle of a run plans and carries out any summary by `Family`: the agreement on public cells, checks of
offers, and the run's body.
"""

import math
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np

from curator.cells.disclosures import CellDisclosures
from curator.cells.run import CellTask, run_cells
from curator.owners.session import OwnerSession
from curator.run.run import Run
from curator.run.summary_record import RunObserver, SummaryRecord
from curator.runs.cells_agreement import Agreement
from curator.runs.context import RunContext
from curator.runs.public_draws import reference_rows
from curator.summary.disclosures import SummaryDisclosures
from curator.summary.run import run_summary
from curator.summary.task import HashedContent, SummaryTask
from fedkme.arrays import IntArray
from fedkme.cells.directions import chosen_book
from fedkme.cells.histogram import CountNoise, noise_of_event
from fedkme.documents import RunDocument
from fedkme.errors import ProtocolError
from fedkme.exchange import CellsPlan, Offer, Plan
from fedkme.features.fourier import RandomFourier
from fedkme.features.hashes import fault_of_hashes
from fedkme.margins.density import AnyBook, DensityBook, book_from_json
from fedkme.margins.model import PoolModel, any_menu_from_json
from fedkme.margins.picks import margins_of, tilt_of
from fedkme.party import NoiseFor
from fedkme.privacy.ledger import LedgerSink
from fedkme.sealed.group import Gift
from fedkme.tables.schema import Schema
from fedkme.wire.codecs import secret_draw_of

RunBody: TypeAlias = Callable[[Sequence[OwnerSession], SummaryRecord, RunObserver], Awaitable[object]]
"""Protocol over owners that fills the record."""


def no_draw_error(run: str) -> ProtocolError:
    """Error for a run with D_v alone: owners would learn of D_v by a draw that its consumer did not make."""
    return ProtocolError(f"{run} was begun with D_v alone, by an earlier release", "Ask again.")


class SummaryFamily:
    """Family of summaries whose owners are told g~."""

    def __init__(self, context: RunContext) -> None:
        self._context = context

    async def agree(self, run: Run, owners: Sequence[str]) -> None:
        """Do nothing: the plan is public from the start, so owners need not agree on it."""

    def forget(self, run: Run) -> None:
        """Do nothing: this family keeps no state of a plan."""

    def check(self, document: RunDocument, offer: Offer) -> None:
        """Refuse an offer that the run cannot use.

        Raises:
            ProtocolError: h1 is secret, and the offer lacks the secret or the reference hashes.
        """
        if document.planned.secret_draw:
            check_secret_draw(document.planned, offer, self._context.schema)

    def prunes(self, document: RunDocument) -> bool:
        """Check whether the consumer gets more rows than it asked for and keeps the best."""
        rows = document.summary.rows
        return self._context.summary_of(document).drawn(rows) > rows

    def facts(self, document: RunDocument) -> dict[str, Any] | None:
        """Return None: record.json has no further facts of this family."""

    def body(self, run: Run, ledger: LedgerSink, noise_for: NoiseFor) -> RunBody:
        """Make the body of a run."""
        context, document = self._context, run.document
        settings, plan, offer = context.summary_of(document), document.planned, document.offered
        h1 = RandomFourier(plan.features)
        gate = SummaryDisclosures(run.name, ledger, run.consumer)
        if offer.target is None:
            raise no_draw_error(run.name)
        gate.receive_target(offer.target, offer)
        gifts = offer.gifts if plan.sealed else None
        hashed = content_of(plan, offer.gifts, context.schema) if plan.secret_draw else None
        seeds = context.encoded_seeds
        reference = offer.reference
        if reference is None:
            reference = h1.fixed_point(reference_rows(context.schema, seeds, h1.spec.seed))
        task = SummaryTask(
            run.name,
            document.summary.rows,
            context.schema,
            h1,
            offer.target,
            h1.fixed_point(seeds if hashed is None else seeds[:0]),
            count_seeds=settings.seed_set == "counted",
            reference=reference,
            consumer=run.consumer,
            gifts=gifts,
            hashed=hashed,
            expected="" if plan.choice is None else plan.choice.line,
        )
        return lambda sessions, record, observer: run_summary(
            task, settings, sessions, noise_for, record, observer, gate
        )


def content_of(plan: Plan, gifts: Mapping[str, Gift], schema: Schema) -> HashedContent:
    """Form of the run's hashed rows, where h1 is drawn from a secret that the curator does not know.

    Raises:
        ProtocolError: the consumer gave no secret, or several.
    """
    commitments = {gift.commitment for gift in gifts.values()}
    if len(commitments) != 1:
        raise ProtocolError("the consumer gives no group secret, or more than one")
    return HashedContent(secret_draw_of(plan.features, commitments.pop()), schema.width)


def check_secret_draw(plan: Plan, offer: Offer, schema: Schema) -> None:
    """Refuse an offer that a run of hashes cannot use.

    Raises:
        ProtocolError: the offer has no secret or no reference hashes, or contains D_v itself.
    """
    if offer.validation is not None or offer.reference is None:
        raise ProtocolError("D_v itself came, and the curator has no draw to make g~ with")
    why = fault_of_hashes(offer.reference, content_of(plan, offer.gifts, schema).spec)
    if why:
        raise ProtocolError(f"reference hashes of the consumer: {why}")


class CellsFamily:
    """Family of summaries by cells.

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
        book, _, margins = _counting(document, offer, self._context.schema)
        if margins is None and offer.histogram is not None and len(offer.histogram) != book.cells:
            cause = f"a histogram has {len(offer.histogram)} cells and the run {book.cells}"
            raise ProtocolError(cause, "Check the peer's software.")

    def prunes(self, document: RunDocument) -> bool:
        """Return True: the consumer gets more than p rows and keeps the best, wherever D_v is."""
        return True

    def facts(self, document: RunDocument) -> dict[str, Any] | None:
        """Public parameters for record.json."""
        facts: dict[str, Any] = {"rho": _cells(document).rho, "picks": []}
        if document.offer is not None and (picks := list(document.offer.picks)):
            facts["picks"] = picks
            _, model, _ = _counting(document, document.offer, self._context.schema)
            if model is not None:
                facts["columns"] = model.names_of(picks, self._context.schema)
        return facts

    def body(self, run: Run, ledger: LedgerSink, noise_for: NoiseFor) -> RunBody:
        """Make the body of a run."""
        context, document = self._context, run.document
        settings, cells = context.summary_of(document), _cells(document)
        offer = document.offered
        gate, tilt, law = CellDisclosures(run.name, ledger, run.consumer), None, declared_noise(offer)
        if (histogram := offer.histogram) is None:
            raise no_draw_error(run.name)
        book, model, margins = _counting(document, offer, context.schema)
        gate.receive_target(histogram, offer, margins)
        rows, deviation = document.summary.validation_rows, 0.0 if law is None else math.sqrt(law.variance)
        if model is not None and margins is not None:
            tilt = tilt_of(model, margins, rows, deviation, context.schema, book.seed)
            book, histogram = tilt.book, np.array([0, rows])  # all is like D_v
        encoded = None if offer.validation is None else context.schema.encode(offer.validation)
        task = CellTask(
            run.name,
            document.summary.rows,
            cells.rho,
            context.schema,
            book,
            cells.gamma,
            None if document.coalitions else settings.owner_noise(cells.sketch_share).histogram,
            histogram,
            rows,
            encoded,
            cells.classes,
            run.consumer,
            offer.gifts if document.planned.sealed else None,
            settings.cells.uniform,
            "" if document.planned.choice is None else document.planned.choice.line,
            law,
            document.coalitions,
            offer.validation_classes,
            tilt,
        )
        return lambda sessions, record, observer: run_cells(
            task, sessions, settings.quorum, record, observer, gate
        )


def declared_noise(offer: Offer) -> CountNoise | None:
    """Noise of D_v's histogram as the consumer declared it; a false one harms its own summary alone."""
    laws = (noise_of_event(line.event) for line in offer.disclosures)
    return next((law for law in laws if law is not None), None)


def _counting(
    document: RunDocument, offer: Offer, schema: Schema
) -> tuple[AnyBook, PoolModel | None, Mapping[int, IntArray] | None]:
    """Code book of plan and offer, the plan's model of the pool, and D_v's margins over it, if there are any.

    Raises:
        ProtocolError: the plan has no such directions, or its model no such margins.
    """
    cells = _cells(document)
    book = book_from_json(cells.code_book, schema)
    menu = None if cells.menu is None else any_menu_from_json(cells.menu)
    if isinstance(menu, PoolModel):
        if not offer.picks or offer.histogram is None:
            return book, menu, None
        return book, menu, margins_of(menu, offer.picks, offer.histogram)
    return book if isinstance(book, DensityBook) else chosen_book(book, menu, offer.picks), None, None


def _cells(document: RunDocument) -> CellsPlan:
    assert document.planned.cells is not None, "a run of this family has cells in its plan"
    return document.planned.cells


Family: TypeAlias = CellsFamily | SummaryFamily
