"""`costs`: what ledgers, journals, TLS and signed heads add to a round, and how long a cut stops a run.

Owners of several kinds stand side by side, and blocks of rounds over each kind alternate. This process is the
curator; it keeps what the owners keep. Figures are compared within one run of the benchmark.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import get_args

import numpy as np

from curator.owners.connection import OwnerConnection
from curator.owners.head_exchange import HeadExchange
from curator.summary.record import RoundRecord
from fedkme.errors import PartyFailedError
from fedkme.heads.log import HeadLog
from fedkme.pki.certificates import Role
from fedkme.privacy.events import CURATOR
from fedkme.privacy.ledger import Ledger, stored_ledger
from fedkme.store import Store
from sim.bench.fleet import Fleet, Keeps, fleet
from sim.bench.result import BenchSettings, Cell, Result
from sim.bench.rounds import Books, RoundEnds, journal_of, real_block, stored, summary_settings
from sim.bench.synthetic import simulation, synthetic_scenario

_AUCTIONS = ("clock", "ask-everyone")


@dataclass(slots=True)
class Kind:
    """Owners of one kind, and how long their rounds took.

    Attributes:
        owners: everybody.
        store: the curator's, beside a journal of theirs.
        blocks: by auction, the mean round of each block in milliseconds: most rounds of a clock say nothing.
        heads: likewise, with the exchange of signed heads that ends a run spread over its rounds.
    """

    owners: Fleet
    keeps: Keeps
    store: Store | None
    blocks: dict[str, list[float]] = field(default_factory=dict)
    heads: dict[str, list[float]] = field(default_factory=dict)

    def books(self, run: str) -> Books:
        """Journal or ledger in which the curator keeps a run."""
        if self.store is not None:
            return journal_of(run, self.store)
        return Ledger(CURATOR, lambda lines: None) if self.keeps == "ledger" else None

    async def exchange_heads(self, run: str) -> float:
        """Let everybody show, keep and cosign heads, as at the end of a run; milliseconds."""
        if self.store is None:
            return 0.0
        ledger, identity = stored_ledger(CURATOR, self.store), self.owners.identity
        log = HeadLog(Role.CURATOR, CURATOR, ledger, self.store, lambda: identity)
        began = time.perf_counter()
        await HeadExchange(log, _unwitnessed).after(run, self.owners.connections)
        return 1e3 * (time.perf_counter() - began)

    def median(self, auction: str) -> float:
        """Median of all blocks."""
        return float(np.median(self.blocks[auction]))


def measure_costs(settings: BenchSettings) -> Result:
    """A line for each thing that is added; ratios are of medians over blocks."""
    return Result(
        "costs", f"what is added to a round, K = {settings.cost_owners}", asyncio.run(_measure(settings))
    )


async def _measure(settings: BenchSettings) -> list[dict[str, Cell]]:
    scenario = synthetic_scenario(settings.cost_owners)
    secret, plain = (simulation(settings.rounds, tls) for tls in (True, False))
    async with contextlib.AsyncExitStack() as stack:
        kinds: dict[str, Kind] = {}
        for keeps in get_args(Keeps):
            kinds[keeps] = await _kind(
                stack, await stack.enter_async_context(fleet(scenario, secret, keeps)), keeps
            )
        everybody = await stack.enter_async_context(fleet(scenario, plain, "nothing"))
        kinds["plaintext"] = await _kind(stack, everybody, "nothing")

        async def play(kind: Kind, auction: str, run: str, watch: RoundEnds) -> np.ndarray:
            protocol = summary_settings(secret, auction)
            count, books = settings.cost_owners, kind.books(run)
            return (await real_block(scenario, secret, protocol, kind.owners, count, run, books, watch))[0]

        for block in range(settings.blocks + 1):
            for kind, auction in itertools.product(kinds.values(), _AUCTIONS):
                run = f"{auction}-{block + 1}"
                milliseconds = await play(kind, auction, run, RoundEnds())
                heads = await kind.exchange_heads(run)
                if block:  # the first warms up
                    round_ms = float(milliseconds.mean())
                    kind.blocks.setdefault(auction, []).append(round_ms)
                    kind.heads.setdefault(auction, []).append(round_ms + heads / settings.rounds)
        cut = []
        for repeat in range(settings.repeats):
            kind = kinds["process"]
            watch = Cutting(connection=kind.owners.connections[0], after=settings.rounds // 2)
            milliseconds = await play(kind, _AUCTIONS[1], f"cut-{repeat + 1}", watch)
            cut.append(float(milliseconds[settings.rounds // 2 - 1]))
    usual = kinds["process"].median(_AUCTIONS[1])
    reconnects = _line("an owner that reconnects", _AUCTIONS[1], float(np.median(cut)), usual)
    return [*_lines(kinds), *_heads(kinds, settings.rounds), reconnects]


async def _kind(stack: contextlib.AsyncExitStack, owners: Fleet, keeps: Keeps) -> Kind:
    store = None
    if keeps in ("power", "process"):
        store = stack.enter_context(stored(CURATOR, "power" if keeps == "power" else "process"))
    return Kind(owners, keeps, store)


def _lines(kinds: Mapping[str, Kind]) -> list[dict[str, Cell]]:
    """Each kind against the one without what it adds."""
    pairs = (
        ("ledgers and gates", "ledger", "nothing"),
        ("journal, safe from kill -9", "process", "ledger"),
        ("journal, safe from power cuts", "power", "ledger"),
        ("mutual TLS", "nothing", "plaintext"),
    )
    return [
        _line(what, auction, kinds[dear].median(auction), kinds[cheap].median(auction))
        for auction in _AUCTIONS
        for what, dear, cheap in pairs
    ]


def _heads(kinds: Mapping[str, Kind], rounds: int) -> list[dict[str, Cell]]:
    """Runs with signed heads at their end against the same without."""
    return [
        _line(
            f"signed heads, a run of {rounds} rounds, {'power cuts' if keeps == 'power' else 'kill -9'}",
            auction,
            float(np.median(kinds[keeps].heads[auction])),
            kinds[keeps].median(auction),
        )
        for auction in _AUCTIONS
        for keeps in ("process", "power")
    ]


def _unwitnessed(event: str, **fields: object) -> None:
    """Fail: everybody is here, and signs."""
    raise PartyFailedError(f"heads were not exchanged: {fields}", "Run the benchmark again.")


def _line(what: str, auction: str, dear: float, cheap: float) -> dict[str, Cell]:
    added = {"added ms": dear - cheap, "ratio": dear / cheap}
    return {"what": what, "auction": auction, "round ms": dear, "without ms": cheap, **added}


@dataclass(slots=True)
class Cutting(RoundEnds):
    """Ends an owner's stream after a round; its process comes back by itself."""

    connection: OwnerConnection | None = None
    after: int = 1

    def round_done(self, record: RoundRecord) -> None:
        """Cut the owner's stream after its round."""
        RoundEnds.round_done(self, record)
        if record.round == self.after and self.connection is not None:
            self.connection.cut()
