"""`costs`: what ledgers, journals and TLS add to a round, and how long a broken connection stops a run.

Owners of several kinds stand side by side, and blocks of rounds over each kind alternate. This process is the
curator; it keeps what the owners keep. Medians of rounds are compared within one run of the benchmark.
"""

from __future__ import annotations

import asyncio
import contextlib
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import get_args

import numpy as np

from curator.journal import RunJournal
from curator.link import OwnerLink
from curator.summary.record import RoundRecord
from fedkme.privacy.events import CURATOR
from fedkme.privacy.ledger import Ledger, stored_ledger
from fedkme.store import Durability, Store, open_store
from sim.bench.fleet import Fleet, Keeps, fleet
from sim.bench.market import simulation, synthetic_scenario
from sim.bench.result import BenchSettings, Cell, Result
from sim.bench.rounds import Books, RoundEnds, real_block, summary_settings

_AUCTION = "ask-everyone"
_CUT_AFTER = 10


@dataclass(slots=True)
class Kind:
    """Owners of one kind, and how long their rounds took.

    Attributes:
        owners: everybody.
        store: the curator's, beside a journal of theirs.
        blocks: milliseconds of rounds, one array a block.
    """

    owners: Fleet
    keeps: Keeps
    store: Store | None
    blocks: list[np.ndarray] = field(default_factory=list)

    def books(self, run: str) -> Books:
        """What the curator keeps of a run."""
        if self.store is not None:
            self.store.open_run(run, "bench", b"")
            return RunJournal(self.store, run, stored_ledger(CURATOR, self.store))
        return Ledger(CURATOR, lambda lines: None) if self.keeps == "ledger" else None

    def median(self) -> float:
        """Of all rounds."""
        return float(np.median(np.concatenate(self.blocks)))


def measure_costs(settings: BenchSettings) -> Result:
    """A line for each thing that is added; ratios are of medians."""
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

        async def play(kind: Kind, run: str, watch: RoundEnds) -> np.ndarray:
            protocol = summary_settings(secret, _AUCTION)
            count, books = settings.cost_owners, kind.books(run)
            return (await real_block(scenario, secret, protocol, kind.owners, count, run, books, watch))[0]

        for block in range(settings.blocks + 1):
            for kind in kinds.values():
                milliseconds = await play(kind, f"bench-{block + 1}", RoundEnds())
                if block:  # the first warms up
                    kind.blocks.append(milliseconds)
        cut = []
        for repeat in range(settings.repeats):
            kind = kinds["process"]
            watch = Cutting(link=kind.owners.links[0])
            milliseconds = await play(kind, f"cut-{repeat + 1}", watch)
            cut.append(float(milliseconds[_CUT_AFTER - 1]))
    lines = _lines(kinds)
    usual = lines[1]["round ms"]
    return [
        *lines,
        {
            "what": "a round in which an owner reconnects",
            "round ms": float(np.median(cut)),
            "without ms": usual,
        },
    ]


async def _kind(stack: contextlib.AsyncExitStack, owners: Fleet, keeps: Keeps) -> Kind:
    store = None
    if keeps in ("power", "process"):
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="fedkme-bench-")))
        durability: Durability = "power" if keeps == "power" else "process"
        store = stack.enter_context(
            contextlib.closing(open_store(folder / "journal.db", CURATOR, durability))
        )
    return Kind(owners, keeps, store)


def _lines(kinds: Mapping[str, Kind]) -> list[dict[str, Cell]]:
    """Each kind against the one without what it adds."""
    pairs = (
        ("ledgers and gates", "ledger", "nothing"),
        ("journals that survive the process", "process", "ledger"),
        ("journals that survive the machine", "power", "ledger"),
        ("mutual TLS", "nothing", "plaintext"),
    )
    return [
        {
            "what": what,
            "ms": kinds[dear].median() - kinds[cheap].median(),
            "round ms": kinds[dear].median(),
            "without ms": kinds[cheap].median(),
            "ratio": kinds[dear].median() / kinds[cheap].median(),
        }
        for what, dear, cheap in pairs
    ]


@dataclass(slots=True)
class Cutting(RoundEnds):
    """Ends an owner's stream after a round; its process comes back by itself."""

    link: OwnerLink | None = None

    def round_done(self, record: RoundRecord) -> None:
        """See `RunObserver`."""
        RoundEnds.round_done(self, record)
        if record.round == _CUT_AFTER and self.link is not None:
            self.link.cut()
