"""Trees of curators in one process, and what they keep."""

from __future__ import annotations

import asyncio
import io
import random
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from curator.sums.settings import SecuritySettings, SumSettings
from fedkme.directives import Answer, Directive
from fedkme.errors import OwnerLostError
from fedkme.heads.export import ledger_text
from fedkme.party import noise_for
from fedkme.privacy.events import CONSUMER, CURATOR, Disclosure
from fedkme.privacy.ledger import disclosures_in
from fedkme.protocol import Invitation, SumTerms
from fedkme.releases.settings import release_settings
from fedkme.store import Store
from fedkme.store.memory import MemoryStore
from fedkme.sums.values import Marginals, SumQuery
from owner.runs import RunManager
from owner.settings import PolicySettings
from sim.engines.inprocess import KeptRecords, SimulatedMarket, release_in_process
from sim.engines.loopback import LoopbackMembers
from sim.engines.owners import open_owners
from sim.engines.trees import Tree, region_over
from tests.curator.sums.fake_owners import BY_CLASS, FOURIER, HERMITE, SCHEMA, table

NOISE = partial(noise_for, 7)
CARDS = ("synthetic.card.json", "synthetic.card.md")
QUESTION = SumQuery((FOURIER, HERMITE), BY_CLASS, counts=True)
TABLES = SumQuery((), BY_CLASS, marginals=Marginals(4, ((0,), (0, 1), (1, 2))))
MOMENTS = release_settings({"kind": "moments", "rows": 30, "epsilon": 2.0, "seed": 3}).model_dump_json()


class Stores(dict[tuple[str, str], MemoryStore]):
    """Stores of regions: by party and region."""

    def __call__(self, party: str, region: str) -> MemoryStore:
        return self.setdefault((party, region), MemoryStore(party))


def grown(owners: Mapping[str, Any], dice: random.Random, depth: int = 3) -> Tree:
    """A random tree over owners: some stay, the others are dealt to regions."""
    regions: dict[str, Any] = {f"r{depth}{dice.randrange(10**6)}": {} for _ in range(dice.randint(1, 3))}
    found: dict[str, Any] = {}
    for name, below in owners.items():
        place = found if depth == 0 or dice.random() < 0.2 else regions[dice.choice([*regions])]
        place[name] = below
    return found | {name: grown(below, dice, depth - 1) for name, below in regions.items() if below}


def dealt(owners: int, seed: int = 0) -> dict[str, Any]:
    """Owners of 1 to 9 rows each."""
    dice = random.Random(seed)
    return {f"owner-{n:02}": table(dice.randint(1, 9), seed + n) for n in range(owners)}


def invitation() -> Invitation:
    return Invitation("run-1", SCHEMA.digest(), CONSUMER, "merf", (), SumTerms())


def release_over(
    runs: Mapping[str, RunManager], security: SecuritySettings | None = None, seed: int = 7
) -> tuple[KeptRecords, MemoryStore]:
    """A release of moments over what is below a curator, with the curator's store."""
    records, curator = KeptRecords(), MemoryStore(CURATOR)
    market = SimulatedMarket(
        schema=SCHEMA,
        seeds=None,
        seed=seed,
        owners=sorted(runs),
        members=LoopbackMembers(runs),
        noise_for=partial(noise_for, seed),
        curator=curator,
        consumer=MemoryStore(CONSUMER),
    )
    asyncio.run(release_in_process(market, MOMENTS, SumSettings(security=security), records))
    return records, curator


def arrays(records: KeptRecords) -> list[Any]:
    """Numbers of a release."""
    with np.load(io.BytesIO(records.files["release.npz"])) as found:
        return [found[name] for name in sorted(found) if name != "about"]


class Forest:
    """Two regions of three owners with what they and the curator above keep.

    Attributes:
        runs: what answers for each region.
        parties: every party's store, by its name and level.
    """

    def __init__(self, above: tuple[str, ...] = (CURATOR,)) -> None:
        self.leaves = dealt(6)
        names = sorted(self.leaves)
        self.regions = {"north": names[:3], "south": names[3:]}
        self.stores = Stores()
        self.owners = open_owners(
            SCHEMA, self.leaves, NOISE, {"all": PolicySettings(above=above, runs_at_once=1)}
        )
        self.answering = {name: owner.open() for name, owner in self.owners.items()}
        self.runs = {name: self.region(name) for name in self.regions}

    def region(self, name: str) -> RunManager:
        """Start a region's process, again."""
        inner = {each: self.answering[each] for each in self.regions[name]}
        return region_over(inner, name, SCHEMA, NOISE, (CURATOR,), self.stores).open()

    def released(self, security: SecuritySettings | None = None) -> tuple[KeptRecords, MemoryStore]:
        """A release, with the curator's store."""
        return release_over(self.runs, security)

    def region_lines(self, name: str) -> list[Disclosure]:
        """Lines that a region wrote as the curator of its owners."""
        return disclosures_in(line.line for line in self.stores[CURATOR, name].ledger())

    def files(self, curator: MemoryStore, folder: Path) -> dict[str, Path]:
        """Everybody's ledger in a folder, by its name there."""
        stores: dict[str, Store] = {name: each.store for name, each in self.owners.items()}
        stores |= {f"{region}-{party}": each for (party, region), each in self.stores.items()}
        found = {}
        for name, store in ({"top": curator} | stores).items():
            found[name] = folder / f"{name}.jsonl"
            found[name].write_bytes(ledger_text(store, folder))
        return found


def lost(runs: RunManager, at: int, answers: bool = False) -> RunManager:
    """An owner that is lost when it is asked for the `at`-th time; it `answers`, and that does not come."""
    asked = iter(range(1, 1000))
    answer = runs.answer

    def answering(directive: Directive) -> Answer | None:
        gone = next(asked) >= at
        found = answer(directive) if answers or not gone else None
        if gone:
            raise OwnerLostError("its connection ended", "Start it again.")
        return found

    runs.answer = answering  # type: ignore[method-assign]
    return runs


async def first_answer(runs: RunManager, directive: Directive) -> Any:
    await runs.prepare(directive)
    return runs.answer(directive)
