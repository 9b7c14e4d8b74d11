"""One owner put together: rows, policy, keys and randomness, and the handlers for its runs.

An owner is the same on a host, in a test and in a simulation within one process; its store and the caller of
its `RunManager` differ.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from fedkme.errors import FedkmeError
from fedkme.party import NoiseFor
from fedkme.pki.identity import Identity
from fedkme.protocol import AuctionTerms, CellTerms, Invitation, SumTerms
from fedkme.store import Store
from fedkme.tables.schema import Schema
from fedkme.tables.table import Table
from owner.cells.handler import CellHandler
from owner.cells.responder import HistogramResponder
from owner.consent.gate import OwnerGate
from owner.handler import RunHandler
from owner.keyring import KeyRing
from owner.settings import PolicySettings
from owner.summary.bidder import Bidder
from owner.summary.handler import SummaryHandler
from owner.sums.handler import SumHandler
from owner.sums.responder import SumResponder


@dataclass(frozen=True, kw_only=True, eq=False)
class OwnerParty:
    """Parts that an owner's runs share.

    Attributes:
        name: the owner's name.
        table: its rows.
        schema: the public schema that it holds.
        store: its journal and ledger.
        noise_for: its private randomness.
        policy: `[policy]` of its settings.
        approvals: folder where approvals are left.
        clock: Unix seconds, for periods of budgets.
        identity: returns its current certificate; None in plaintext, where names are taken at their word.
        revoked: refuses certificates (PEM) that were revoked.
        refused: receives each run that was refused or failed here, with the error.
        left_out: receives each run that went on without this owner, with the curator's reason.
    """

    name: str
    table: Table
    schema: Schema
    store: Store
    noise_for: NoiseFor
    policy: PolicySettings = field(default_factory=PolicySettings)
    approvals: Path = Path("approvals")
    clock: Callable[[], float] = time.time
    identity: Callable[[], Identity | None] = lambda: None
    revoked: Callable[[bytes], None] | None = None
    refused: Callable[[str, FedkmeError], None] | None = None
    left_out: Callable[[str, FedkmeError], None] = lambda run, reason: None

    def handler(self, invitation: Invitation, gate: OwnerGate, keys: KeyRing) -> RunHandler:
        """Make the handler of one run, by the terms of its invitation."""
        run, name, table, schema = invitation.run, self.name, self.table, self.schema
        match invitation.terms:
            case AuctionTerms():
                bidder = Bidder(name, table, schema, self.noise_for("draw"), gate, keys)
                return SummaryHandler(run, bidder, schema.encoded_width)
            case CellTerms():
                noise = self.noise_for("histogram")
                return CellHandler(run, HistogramResponder(name, table, schema, noise, gate, keys))
            case SumTerms():
                noise = self.noise_for("sums")
                responder = SumResponder(name, table, schema, noise, gate, self.identity(), self.revoked)
                return SumHandler(run, responder)
