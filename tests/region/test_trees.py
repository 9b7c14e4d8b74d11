"""Releases through trees of curators in one process (docs/decisions/035-tree.md)."""

from __future__ import annotations

import asyncio
import contextlib
import io
import random
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

from curator.sums.disclosures import SumDisclosures
from curator.sums.owner_sums import OwnerSums
from curator.sums.session import SumSession
from curator.sums.settings import SecuritySettings, SumSettings
from fedkme.directives import Answer, Directive, Dismiss, Embed, Refusal
from fedkme.errors import FedkmeError, LedgerError, OwnerLostError, PolicyError, StoreError
from fedkme.heads.export import ledger_text
from fedkme.ledgers.reconcile import verify, verify_files
from fedkme.operate.audit_cli import app
from fedkme.party import noise_for
from fedkme.privacy.events import CONSUMER, CURATOR, OWNERS, Disclosure, ExactStatistic, Gaussian
from fedkme.privacy.gaussian import gaussian_sigma
from fedkme.privacy.ledger import disclosures_in, stored_ledger
from fedkme.protocol import CellTerms, Invitation, SumTerms
from fedkme.releases.settings import release_settings
from fedkme.store import Store
from fedkme.store.memory import MemoryStore
from fedkme.sums.values import Marginals, SumQuery
from owner.runs import RunManager
from owner.settings import PolicySettings
from sim.engines.inprocess import KeptRecords, SimulatedMarket, release_in_process
from sim.engines.loopback import LoopbackMembers
from sim.engines.owners import open_owners
from sim.engines.trees import Tree, open_tree, region_over
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


async def answers(runs: Mapping[str, RunManager], *queries: SumQuery) -> list[Any]:
    """Totals of queries, each asked of a run's owners in turn, and then what noise makes of the first."""
    said = invitation()
    members = LoopbackMembers(runs)
    ports = [SumSession(members.connection(name), "run-1") for name in members.here()]
    sums = OwnerSums(ports, said, SCHEMA, SumDisclosures(said), noise_for=NOISE(CURATOR))
    found: list[Any] = [sum((await sums.invite()).values())]
    for query in queries:
        if query.marginals is not None:
            found += [
                counts for counts, _ in await sums.marginals(query.marginals, [gaussian_sigma(1, 1e-5)] * 3)
            ]
        else:
            made = await sums.exact(query)
            found += [each.mean for each in made.embeddings] + [made.masses]
    for port in ports:
        await port.dismiss()
    return found


@settings(max_examples=25, deadline=None)
@given(st.integers(1, 12), st.integers(0, 2**20))
def test_any_tree_gives_the_bits_of_the_star(owners: int, seed: int) -> None:
    # Issue 15, item 4: "Exact integers make any tree the same bits as the star: tested with random trees."
    leaves = dealt(owners, seed)
    tree = grown(leaves, random.Random(seed))

    async def both() -> list[list[Any]]:
        trees = (open_tree(each, SCHEMA, NOISE) for each in (leaves, tree))
        return [await answers(runs, QUESTION, TABLES, QUESTION) for runs in trees]

    star, other = asyncio.run(both())
    assert len(star) == len(other) == 10
    for ours, theirs in zip(star, other, strict=True):
        np.testing.assert_array_equal(ours, theirs)


def release(tree: Tree) -> KeptRecords:
    """A release of moments through a tree."""
    return release_over(open_tree(tree, SCHEMA, NOISE))[0]


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


def test_a_release_is_the_same_through_a_tree_and_its_curator_has_rows_of_regions_alone() -> None:
    leaves = dealt(7)
    names = sorted(leaves)
    tree: Tree = {
        "north": {name: leaves[name] for name in names[:3]},
        "south": {names[3]: leaves[names[3]], "coast": {name: leaves[name] for name in names[4:]}},
    }
    star, through = release(leaves), release(tree)
    same = {name for name, file in star.files.items() if through.files[name] == file}
    assert star.files.keys() - same == {"release.npz", *CARDS}  # they say how many owners there are
    for ours, theirs in zip(arrays(star), arrays(through), strict=True):
        np.testing.assert_array_equal(ours, theirs)
    assert through.release is not None
    assert through.release.owner_rows == {
        "north": sum(len(leaves[name]) for name in names[:3]),
        "south": sum(len(leaves[name]) for name in names[3:]),
    }


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


def test_ledgers_of_all_levels_agree_and_a_vector_that_no_owner_gave_is_told(tmp_path: Path) -> None:
    forest = Forest()
    _, curator = forest.released()
    files = forest.files(curator, tmp_path)
    verdicts, absent = verify_files([*files.values()])
    assert not absent
    assert {verdict.fault for verdict in verdicts} == {""}
    compared = {verdict.about.partition(":")[0] for verdict in verdicts}
    assert {"north and its owners", "south and curator", "owner-05 and curator"} <= compared
    kept = disclosures_in(line.line for line in forest.owners["owner-00"].store.ledger())
    assert {about.run for about in kept} == {"run-1@north"}
    assert {about.observer for about in kept} == {CURATOR, CONSUMER, OWNERS}
    # A region that passes on what it asked nobody for: both sides of the edge above agree on it.
    line = next(
        each for each in disclosures_in(line.line for line in curator.ledger()) if each.protected == "north"
    )
    invented = replace(line, round=9, nonce=line.nonce.replace("sums 1", "sums 9"))
    for store, party in ((curator, CURATOR), (forest.stores["north", "north"], "north")):
        stored_ledger(party, store).append(invented)
    faults = [
        found.fault for found in verify_files([*forest.files(curator, tmp_path).values()])[0] if found.fault
    ]
    assert len(faults) == 1
    assert "has no vector of an owner of the region" in faults[0]


def test_a_folder_of_all_levels_tells_what_a_region_asked_its_owners_for_itself(tmp_path: Path) -> None:
    # Issue 15, item 4: one call over a folder compares adjacent levels.
    forest = Forest()
    _, curator = forest.released()
    forest.files(curator, tmp_path)
    honest = verify(tmp_path)
    assert {(verdict.fault, verdict.note) for verdict in honest} == {("", "")}
    compared = {verdict.about.partition(":")[0] for verdict in honest}
    assert {
        "north and its owners",
        "south and its owners",
        "south and curator",
        "owner-05 and curator",
    } <= compared
    # Both sides below agree on vectors that nobody above asked for: in a known run, and in one that is not.
    line = next(each for each in forest.region_lines("north") if each.protected == "owner-00")
    further = replace(line, round=9, nonce=line.nonce.replace("sums 1", "sums 9"))
    for lie, fault, note in (
        (further, "", "1 of what its owners gave went no further"),
        (replace(line, run="run-7@north"), "in run-7, of which no curator tells", "2 of what"),
    ):
        for store, party in (
            (forest.stores[CURATOR, "north"], CURATOR),
            (forest.owners["owner-00"].store, "owner-00"),
        ):
            stored_ledger(party, store).append(lie)
        forest.files(curator, tmp_path)
        (north,) = [each for each in verify(tmp_path) if each.fault or each.note]
        assert north.about.startswith("north and its owners")
        assert fault in north.fault
        assert note in north.note
        assert bool(fault) == bool(north.fault)
    with pytest.raises(LedgerError):
        CliRunner().invoke(app, ["verify", str(tmp_path)], catch_exceptions=False)


def test_an_owner_hears_of_all_curators_above_and_takes_part_where_it_allows_each() -> None:
    with pytest.raises(FedkmeError, match="owners are left"):
        Forest(above=()).released()
    Forest(above=(CURATOR, "another")).released()


def test_a_region_goes_on_without_an_owner_and_says_so() -> None:
    forest = Forest()
    lost(forest.answering["owner-01"], at=2)
    records, _ = forest.released()
    assert records.release is not None
    sizes = {name: len(rows) for name, rows in forest.leaves.items()}
    assert records.release.owner_rows == {
        "north": sizes["owner-00"] + sizes["owner-02"],
        "south": sum(sizes[name] for name in forest.regions["south"]),
    }


def test_a_region_charges_what_may_have_left_an_owner_that_it_lost_while_it_asked(tmp_path: Path) -> None:
    # An owner wrote that its sums left, and its region, which had no line of it, was named as cheating.
    forest = Forest()
    lost(forest.answering["owner-01"], at=2, answers=True)
    _, curator = forest.released()
    assert {found.fault for found in verify_files([*forest.files(curator, tmp_path).values()])[0]} == {""}
    assert {line.protected for line in forest.region_lines("north") if not line.certain} == {"owner-01"}
    assert left_open(forest.stores[CURATOR, "north"]) == []


@pytest.mark.parametrize("back", [True, False])
def test_a_region_whose_disk_refused_what_came_charges_it_once_whether_or_not_it_comes_again(
    back: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    forest = Forest()
    store = forest.stores[CURATOR, "north"]
    query = Directive("run-1", 1, 2, Embed(QUESTION))

    @contextlib.contextmanager
    def refusing() -> Iterator[None]:
        with MemoryStore.transaction(store):
            yield
            raise StoreError("the disk is full", "Make room.")

    async def asked() -> None:
        await first_answer(forest.runs["north"], Directive("run-1", 0, 1, invitation()))
        with monkeypatch.context() as patch:
            patch.setattr(store, "transaction", refusing)
            with pytest.raises(StoreError):
                await forest.runs["north"].prepare(query)
        if not back:
            lost(forest.answering["owner-01"], at=1)
        region = forest.region("north")
        await region.prepare(query)
        await region.prepare(Directive("run-1", 0, 3, Dismiss()))

    asyncio.run(asked())
    lines = forest.region_lines("north")
    assert len(lines) == len({*lines}) == 3 * 2
    assert {line.protected for line in lines if not line.certain} == (set() if back else {"owner-01"})
    assert left_open(store) == []


def left_open(store: Store) -> list[str]:
    return [*store.keys("doubtful/"), *store.keys("asked/")]


def test_a_region_that_lost_an_owner_leaves_a_secure_sum() -> None:
    forest = Forest()
    lost(forest.answering["owner-01"], at=2)
    with pytest.raises(FedkmeError):
        forest.released(SecuritySettings())


def test_regions_sum_securely_and_each_edge_has_its_event(tmp_path: Path) -> None:
    forest = Forest()
    records, curator = forest.released(SecuritySettings())
    assert records.release is not None
    assert records.release.status == "complete"
    files = forest.files(curator, tmp_path)
    assert {verdict.fault for verdict in verify_files([*files.values()])[0]} == {""}
    seen = {
        party: next(about.event for about in disclosures_in(line.line for line in store.ledger()))
        for party, store in (
            ("north", forest.stores["north", "north"]),
            ("owner", forest.owners["owner-00"].store),
        )
    }
    assert isinstance(seen["north"], Gaussian)
    assert isinstance(seen["owner"], ExactStatistic)


def test_a_region_that_was_killed_gives_the_same_bits_again() -> None:
    forest, said = Forest(), invitation()
    query = Directive("run-1", 1, 2, Embed(QUESTION))

    async def ask(runs: RunManager, directive: Directive) -> Any:
        await runs.prepare(directive)
        return runs.answer(directive)

    async def die() -> tuple[Any, Any, Any]:
        runs = forest.runs["north"]
        await ask(runs, Directive("run-1", 0, 1, said))
        first = await ask(runs, query)
        second = await ask(forest.region("north"), query)
        lost(forest.answering["owner-01"], at=1)
        return first, second, await ask(forest.region("north"), query)

    first, second, fewer = asyncio.run(die())
    np.testing.assert_array_equal(first.words, second.words)
    assert isinstance(fewer, Refusal)  # the difference of the two would be an owner's vector
    lines = [line.line for line in forest.owners["owner-00"].store.ledger()]
    assert len(lines) == len(set(lines)) == 2


def test_a_region_takes_part_in_no_summary() -> None:
    said = replace(invitation(), protocol="cells", terms=CellTerms({}, 1.0, 1.0, 5))
    answer = asyncio.run(first_answer(Forest().runs["north"], Directive("run-1", 0, 1, said)))
    assert isinstance(answer, Refusal)
    assert answer.code == PolicyError.code


async def first_answer(runs: RunManager, directive: Directive) -> Any:
    await runs.prepare(directive)
    return runs.answer(directive)
