"""One consumer put together: D_v, what it asks for, its budget, keys and randomness.

It is the same on a host, in a test and in a simulation within one process; what differs is its store and how
it reaches its curator.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from consumer.gate import ConsumerGate
from consumer.requests import KeptRequest, Requests
from consumer.sealed.boxes import give
from consumer.sealed.keys import RunKeys
from consumer.settings import RequestSettings
from consumer.summary.offers import make_offer, make_request
from consumer.summary.spending import check_request, check_spending, shared_events
from fedkme.documents import RequestDocument
from fedkme.errors import LedgerError
from fedkme.exchange import Offer, Plan
from fedkme.heads.log import Head
from fedkme.heads.notes import CURATORS
from fedkme.party import NoiseFor
from fedkme.pki.identity import Identity
from fedkme.privacy.budget import WindowBudget, warn_of_unbounded
from fedkme.privacy.events import OWNERS, Disclosure, validation_of
from fedkme.privacy.settings import target_event
from fedkme.sealed.group import Gift
from fedkme.tables.schema import Schema
from fedkme.tables.table import Table


def nobody() -> Identity | None:
    """The identity of a party in plaintext."""
    return None


@dataclass(frozen=True, kw_only=True, eq=False)
class ConsumerParty:
    """Parts that a consumer's requests share.

    Attributes:
        requests: its store.
        request: what it asks for.
        schema: the public schema that it holds.
        validation: D_v.
        noise_for: its private randomness.
        warn: told of a run, and a line about it.
        budget: what D_v may cost.
        clock: Unix seconds, for the budget's window.
        identity: its certificate and key, renewed under way.
        simulation_seed: of a simulation, in which h1 is drawn alike each time.
    """

    requests: Requests
    request: RequestSettings
    schema: Schema
    validation: Table
    noise_for: NoiseFor
    warn: Callable[[str, str], None]
    budget: WindowBudget | None = None
    clock: Callable[[], float] = time.time
    identity: Callable[[], Identity | None] = nobody
    simulation_seed: int | None = None

    def document(self, output: Path) -> RequestDocument:
        """A request for rows in a folder, with what it discloses by being made; it is not kept yet."""
        gate = ConsumerGate(self.requests.consumer)
        request = make_request(self.request, self.schema, self.validation, gate)
        where, data = str(output.resolve()), self.validation.digest()
        return RequestDocument(request, where, data, tuple(gate.declared))

    def ask(self, document: RequestDocument) -> KeptRequest:
        """Keep a new request.

        Raises:
            BudgetError: D_v can pay for it in no protocol.
            StoreError: it could not be kept.
        """
        check_request(self.requests.consumer, self.budget, self.request, self._spent())
        return self.requests.begin(document)

    def offer(self, kept: KeptRequest, plan: Plan) -> Offer:
        """The offer for a plan: drawn and charged once, then the same bytes.

        Raises:
            BudgetError: D_v cannot pay for what the plan asks for; nothing of it was computed.
            ProtocolError: the plan is not the one for which the offer was made.
            IdentityError: the curator passes on no owner's own keys.
        """

        def draw() -> tuple[Offer, RunKeys | None]:
            consumer, spent, request = self.requests.consumer, self._spent(), self.request
            check_spending(consumer, self.budget, spent, shared_events(request, plan.cells))
            keys, gifts = None, list[Gift]()
            if plan.sealed:  # first: where nobody may have the secret, D_v discloses nothing
                keys, gifts = give(
                    plan,
                    consumer,
                    self.identity(),
                    lambda line: self.warn(plan.run, line),
                    self.simulation_seed,
                )
            if plan.cells is None:
                whose, planned = f"{validation_of(consumer)} towards {OWNERS}", target_event(request.target)
                warn_of_unbounded(request.privacy, whose, [planned], partial(self.warn, plan.run))
            gate = ConsumerGate(consumer, kept.document.disclosures)
            offer = make_offer(plan, request, self.schema, self.validation, self.noise_for, gate, keys, gifts)
            return offer, keys

        return kept.offer(plan, draw)

    def _spent(self) -> list[Disclosure]:
        """Disclosures of D_v that its budget counts."""
        days = None if self.budget is None else self.budget.days
        return self.requests.within(days, self.clock(), self.validation.digest())

    def keep_head(self, run: str, head: Head) -> None:
        """Keep a head of the curator's ledger; of one that does not follow it is told, and the run goes on.

        Raises:
            StoreError: it could not be kept.
        """
        try:
            self.requests.heads(self.identity).keep_note(head, CURATORS)
        except LedgerError as error:
            self.warn(run, str(error))
