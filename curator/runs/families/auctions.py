"""Family of summaries by Algorithm 3 and by uniform draws: checks of offers, and the run's body."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from curator.run.run import Run
from curator.runs.context import RunContext
from curator.runs.families.base import RunBody, no_draw_error
from curator.runs.public_draws import reference_rows
from curator.summary.disclosures import SummaryDisclosures
from curator.summary.hashed import HashedContent
from curator.summary.run import run_summary
from curator.summary.task import SummaryTask
from fedkme.documents import RunDocument
from fedkme.errors import ProtocolError
from fedkme.exchange import Offer, Plan
from fedkme.features.fourier import RandomFourier
from fedkme.features.hashes import fault_of_hashes
from fedkme.party import NoiseFor
from fedkme.privacy.ledger import LedgerSink
from fedkme.sealed.group import Gift
from fedkme.tables.schema import Schema
from fedkme.wire.codecs import secret_draw_of


class SummaryFamily:
    """`Family` of summaries whose owners are told g~."""

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
