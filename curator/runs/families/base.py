"""Interface of a family of summaries, by which the lifecycle of a run plans and carries out any summary."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Protocol, TypeAlias

from curator.owners.session import OwnerSession
from curator.run.run import Run
from curator.run.summary_record import RunObserver, SummaryRecord
from fedkme.documents import RunDocument
from fedkme.errors import ProtocolError
from fedkme.exchange import Offer
from fedkme.party import NoiseFor
from fedkme.privacy.ledger import LedgerSink

RunBody: TypeAlias = Callable[[Sequence[OwnerSession], SummaryRecord, RunObserver], Awaitable[object]]
"""Protocol over owners that fills the record."""


def no_draw_error(run: str) -> ProtocolError:
    """Error for a run with D_v alone: owners would learn of D_v by a draw that its consumer did not make."""
    return ProtocolError(f"{run} was begun with D_v alone, by an earlier release", "Ask again.")


class Family(Protocol):
    """Family of summaries at one curator."""

    async def agree(self, run: Run, owners: Sequence[str]) -> None:
        """Fill in the family's part of a run's plan, once, with the owners that came for the run.

        Raises:
            FedkmeError: the plan cannot be made.
        """

    def forget(self, run: Run) -> None:
        """Drop the state of a plan that could not be made."""

    def check(self, document: RunDocument, offer: Offer) -> None:
        """Refuse an offer that does not fit the plan.

        Raises:
            ProtocolError: the offer does not fit.
        """

    def prunes(self, document: RunDocument) -> bool:
        """Check whether the consumer gets more rows than it asked for and keeps the best."""

    def facts(self, document: RunDocument) -> dict[str, Any] | None:
        """Public parameters for record.json, under `cells`."""

    def body(self, run: Run, ledger: LedgerSink, noise_for: NoiseFor) -> RunBody:
        """Make the body of a run whose offer was accepted, and write D_v's disclosures to the ledger."""
