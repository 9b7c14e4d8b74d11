"""Releases through trees of curators in one process (docs/decisions/035-tree.md)."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Mapping
from dataclasses import replace
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
from curator.sums.settings import SecuritySettings
from fedkme.directives import Directive, Refusal
from fedkme.errors import FedkmeError, LedgerError, PolicyError
from fedkme.ledgers.reconcile import verify, verify_files
from fedkme.operate.audit_cli import app
from fedkme.privacy.events import CONSUMER, CURATOR, OWNERS, ExactStatistic, Gaussian
from fedkme.privacy.gaussian import gaussian_sigma
from fedkme.privacy.ledger import ChainFault, Entry, disclosures_in, follow_chain, stored_ledger
from fedkme.protocol import CellTerms
from fedkme.sums.values import SumQuery
from owner.runs import RunManager
from sim.engines.inprocess import KeptRecords
from sim.engines.loopback import LoopbackMembers
from sim.engines.trees import Tree, open_tree
from tests.curator.sums.fake_owners import SCHEMA
from tests.region.forests import (
    CARDS,
    NOISE,
    QUESTION,
    TABLES,
    Forest,
    arrays,
    dealt,
    first_answer,
    grown,
    invitation,
    release_over,
)


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


@pytest.mark.parametrize("verb", ["verify", "ledger"])
def test_each_ledger_of_a_folder_of_all_levels_is_read_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, verb: str
) -> None:
    forest = Forest()
    _, curator = forest.released()
    files, read = forest.files(curator, tmp_path), list[Path]()

    def follow(path: Path) -> tuple[list[Entry], ChainFault | None]:
        read.append(path)
        return follow_chain(path)

    monkeypatch.setattr("fedkme.ledgers.located.follow_chain", follow)
    CliRunner().invoke(app, [verb, str(tmp_path)], catch_exceptions=False)
    assert sorted(read) == sorted(files.values())


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


def test_regions_sum_securely_and_each_edge_has_its_event(tmp_path: Path) -> None:
    forest = Forest()
    records, curator = forest.released(SecuritySettings(colluders=0))
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


def test_a_region_takes_part_in_no_summary() -> None:
    said = replace(invitation(), protocol="cells", terms=CellTerms({}, 1.0, 1.0, 5))
    answer = asyncio.run(first_answer(Forest().runs["north"], Directive("run-1", 0, 1, said)))
    assert isinstance(answer, Refusal)
    assert answer.code == PolicyError.code
