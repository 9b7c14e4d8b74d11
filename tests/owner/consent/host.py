"""An owner's host without a network: store, policy, and directives like a curator's."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from fedkme.config import validate
from fedkme.errors import FedkmeError
from fedkme.features.fixed_point import quantize_mean
from fedkme.features.fourier import FourierSpec, RandomFourier
from fedkme.party import noise_for
from fedkme.privacy.events import OWNERS, Clock, Disclosure, Event, Gaussian
from fedkme.protocol import AuctionTerms, Invitation
from fedkme.store.sqlite import SqliteStore
from fedkme.tables.schema import Label, Numeric, Schema
from fedkme.tables.table import Table
from fedkme.wire import codecs
from fedkme.wire.directives import invitation_to_wire
from fedkme.wire.v1 import owners_pb2 as pb
from fedkme.wire.v1 import types_pb2
from owner.consent.gate import OwnerGate
from owner.handler import RunHandler
from owner.keyring import KeyRing
from owner.party import OwnerParty
from owner.runs import RunManager
from owner.settings import OwnerSettings
from owner.summary.bidder import Bidder
from owner.summary.handler import SummaryHandler
from tests.owner.over_wire import OverWire
from tests.parties import owner_values

SCHEMA = Schema(
    columns=(Numeric(name="x", bounds=(0, 1), count=3), Numeric(name="age", bounds=(0, 120))),
    label=Label(name="ill", classes=("no", "yes")),
)
SPEC = FourierSpec("paired", 8, 1.0, SCHEMA.encoded_width, 5)
NAME = "owner-1"
DAY_S = 86400.0
TARGET = quantize_mean(RandomFourier(SPEC).normalised(np.full((1, SCHEMA.encoded_width), 0.5))[0])
PRICES = np.linspace(10, -10, 20001).tolist()
"""Prices so dense that each number of rows has a price."""
CHEAP: tuple[Event, ...] = (Gaussian(70.0, count=100), Clock(0.25))
"""Cost of a run of 100 rows by default: epsilon 0.99 at delta 1e-5."""


def rows(count: int = 20) -> Table:
    random = np.random.default_rng(3)
    return Table(random.random((count, SCHEMA.width)), random.integers(0, 2, count))


def heard(run: str, planned: tuple[Event, ...]) -> tuple[Disclosure, ...]:
    """Ledger lines about owners, one per planned event, as a curator sends them."""
    return tuple(
        Disclosure(run, 1, OWNERS, OWNERS, event, "replace-one", None, nonce)
        for event, nonce in zip(planned, ("mean", "auction"), strict=False)
    )


def invitation(run: str, **changes: Any) -> Invitation:
    planned = changes.setdefault("planned", CHEAP)
    changes.setdefault("heard", heard(run, planned))
    values = {"consumer": "hospital", "protocol": "clock", "rows": 100, **changes}
    terms = AuctionTerms(SPEC, TARGET, values.pop("rows"), values.pop("heard"))
    return Invitation(run, SCHEMA.digest(), **{"terms": terms, **values})


class Clockwork:
    """A clock that moves only by `pass_days`."""

    def __init__(self) -> None:
        self.now = 1_000_000_000.0

    def __call__(self) -> float:
        return self.now

    def pass_days(self, days: float) -> None:
        self.now += days * DAY_S


class Host:
    """One process of an owner; a kill is another `Host` over the same folder.

    Attributes:
        refusals: refusals in the owner's log, as (run, error).
        left_out: runs that went on without the owner, as (run, reason).
        loaded: runs for which features were computed.
    """

    def __init__(self, folder: Path, store: SqliteStore, settings: OwnerSettings, clock: Clockwork) -> None:
        self.store = store
        self.settings = settings
        self.clock = clock
        self.refusals: list[tuple[str, FedkmeError]] = []
        self.left_out: list[tuple[str, FedkmeError]] = []
        self.loaded: list[str] = []
        loaded, refusals, left_out = self.loaded, self.refusals, self.left_out

        class Watched(Bidder):
            def _load(self, invitation: Invitation) -> None:
                loaded.append(invitation.run)
                super()._load(invitation)

        class Watching(OwnerParty):
            def handler(self, invitation: Invitation, gate: OwnerGate, keys: KeyRing) -> RunHandler:
                if not isinstance(invitation.terms, AuctionTerms):
                    return super().handler(invitation, gate, keys)
                bidder = Watched(NAME, self.table, SCHEMA, self.noise_for("draw"), gate, keys)
                return SummaryHandler(invitation.run, bidder, SCHEMA.encoded_width)

        party = Watching(
            name=NAME,
            table=rows(),
            schema=SCHEMA,
            store=store,
            noise_for=noise_for(0, NAME),
            policy=settings.policy,
            approvals=settings.approvals,
            clock=clock,
            refused=lambda run, error: refusals.append((run, error)),
            left_out=lambda run, reason: left_out.append((run, reason)),
        )
        self.wired = OverWire(RunManager(party, "curator:7700"))
        self._seq: dict[str, int] = {}

    def ask(self, run: str, directive: pb.Directive, number: int, seq: int) -> pb.OwnerMessage:
        directive.at.run, directive.at.round, directive.at.seq = run, number, seq
        return self.wired.answer(directive)[-1]

    def prepare(self, run: str, **changes: Any) -> FedkmeError | None:
        """Invite the owner to a run; return the error of a refusal."""
        invite = invitation_to_wire(invitation(run, **changes))
        reply = self.ask(run, pb.Directive(invite=invite), 0, 1)
        return codecs.fault_from_wire(reply.fault) if reply.HasField("fault") else None

    def bid(self, run: str, seq: int = 2) -> pb.OwnerMessage:
        """Ask for counts at prices, the first disclosure of a run."""
        mean = codecs.mean_to_wire(TARGET)
        quote = pb.Quote(broadcast=pb.Broadcast(size=1, mean=mean), prices=PRICES)
        return self.ask(run, pb.Directive(quote=quote), 1, seq)

    def draw(self, run: str, count: int, seq: int) -> pb.OwnerMessage:
        """Ask for rows of a run of the protocol `uniform`."""
        return self.ask(run, pb.Directive(draw=pb.Draw(count=count)), 1, seq)

    def sell(self, run: str, count: int, seq: int) -> pb.OwnerMessage:
        """Ask for rows of a run of the clock, with two directives."""
        counts = list(self.bid(run, seq).counts.at_least)
        sell = pb.Sell(price=PRICES[counts.index(count)])
        return self.ask(run, pb.Directive(sell=sell), 1, seq + 1)

    def end(self, run: str) -> None:
        """End a run; the fixture of test_budgets.py archives it, too."""
        self.forget(run)

    def forget(self, run: str, **fault: Any) -> None:
        """Dismiss a run, as its curator does; with a fault, the run goes on without this owner."""
        reason = types_pb2.Fault(**fault) if fault else None
        self.wired.answer(pb.Directive(at=pb.Position(run=run), dismiss=pb.Dismiss(fault=reason)))

    @property
    def lines(self) -> int:
        """Number of lines in the ledger."""
        return len(self.store.ledger())


def configured(folder: Path, **policy: Any) -> OwnerSettings:
    """Make settings of an owner with files in a folder and the given policy."""
    files = {"data": folder / "rows.npz", "journal": str(folder / "journal.db")}
    values = owner_values(folder, NAME, "curator.example.org:7700", **files, policy=policy)
    return validate(OwnerSettings, values, "OWNER.toml")


@contextmanager
def host(folder: Path, clock: Clockwork | None = None, **policy: Any) -> Iterator[Host]:
    """Open a host; the process ends without a farewell."""
    clock = clock or Clockwork()
    store = SqliteStore(folder / "journal.db", NAME, "process", clock=clock)
    try:
        yield Host(folder, store, configured(folder, **policy), clock)
    finally:
        store.close()
