"""One consumer put together: D_v, its request, budget, keys and randomness.

A consumer is the same on a host, in a test and in a simulation within one process; its store and its channel
to the curator differ.
"""

import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from consumer.gate import ConsumerGate
from consumer.requests import KeptRequest, Requests
from consumer.sealed_rows import RunKeys
from consumer.settings import RequestSettings
from consumer.summary.offers import (
    check_request,
    check_spending,
    make_offer,
    make_request,
    margins_within,
    shared_events,
)
from fedkme.cells.menu import no_picks_words
from fedkme.documents import RequestDocument
from fedkme.errors import FedkmeError, LedgerError
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


def no_identity() -> Identity | None:
    """Return no identity: the default in plaintext."""
    return None


@dataclass(frozen=True, kw_only=True, eq=False)
class ConsumerParty:
    """Parts that a consumer's requests share.

    Attributes:
        requests: its requests and ledger.
        request: settings of its requests.
        schema: the public schema that it holds.
        validation: D_v.
        noise_for: its private randomness.
        warn: receives warnings: the run and a line about it.
        budget: most that D_v may cost.
        clock: returns Unix seconds, for the budget's window.
        identity: returns its current certificate and key.
        simulation_seed: seed of a simulation, in which repeated runs draw the same h1.
    """

    requests: Requests
    request: RequestSettings
    schema: Schema
    validation: Table
    noise_for: NoiseFor
    warn: Callable[[str, str], None]
    budget: WindowBudget | None = None
    clock: Callable[[], float] = time.time
    identity: Callable[[], Identity | None] = no_identity
    simulation_seed: int | None = None

    def document(self, output: Path) -> RequestDocument:
        """Make a request for rows in a folder; it is not stored yet."""
        consumer = self.requests.consumer
        margins = margins_within(consumer, self.budget, self.request, self._spent())
        request = make_request(consumer, self.request, self.schema, self.validation, margins)
        return RequestDocument(request, os.path.realpath(output), self.validation.digest())

    def ask(self, document: RequestDocument) -> KeptRequest:
        """Store a new request.

        Raises:
            BudgetError: the request exceeds D_v's budget in every protocol.
            StoreError: the request could not be stored.
        """
        check_request(self.requests.consumer, self.budget, self.request, self._spent())
        return self.requests.begin(document)

    def offer(self, stored: KeptRequest, plan: Plan) -> Offer:
        """Make the offer for a plan: drawn and charged once, then the same bytes.

        Raises:
            BudgetError: the plan costs more than D_v's budget; nothing was computed from D_v.
            ProtocolError: the plan is not the one for which the offer was made.
            IdentityError: the curator passed on no genuine keys.
        """

        def refused(owner: str, error: FedkmeError) -> None:
            self.warn(plan.run, f"{owner} gets no secret and sends no rows: {error}")

        def draw() -> tuple[Offer, RunKeys | None]:
            consumer, spent, request = self.requests.consumer, self._spent(), self.request
            check_spending(consumer, self.budget, spent, shared_events(request, plan.cells))
            keys, gifts = None, list[Gift]()
            if plan.sealed:  # first: if no owner may have the secret, nothing of D_v is disclosed
                keys = RunKeys.fresh(consumer, plan.run, self.simulation_seed)
                gifts = keys.gifts(plan.offers, self.identity(), refused)
            if plan.cells is None:
                whose, planned = f"{validation_of(consumer)} towards {OWNERS}", target_event(request.target)
                warn_of_unbounded(request.privacy, whose, [planned], partial(self.warn, plan.run))
            elif not request.picks and plan.cells.menu is not None:  # without a menu the curator warned
                self.warn(plan.run, no_picks_words("picks"))
            gate = ConsumerGate(consumer)
            offer = make_offer(plan, request, self.schema, self.validation, self.noise_for, gate, keys, gifts)
            return offer, keys

        return stored.offer(plan, draw)

    def _spent(self) -> list[Disclosure]:
        """Disclosures of D_v that its budget counts."""
        days = None if self.budget is None else self.budget.days
        return self.requests.within(days, self.clock(), self.validation.digest())

    def keep_head(self, run: str, head: Head) -> None:
        """Store a head of the curator's ledger; warn if it contradicts earlier heads, and let the run go on.

        Raises:
            StoreError: the head could not be stored.
        """
        try:
            self.requests.heads(self.identity).keep_note(head, CURATORS)
        except LedgerError as error:
            self.warn(run, str(error))
